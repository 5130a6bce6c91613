// An address that names no page.

import { html } from '../html.js';
import { to } from '../router.js';

/** @returns {import('../main.js').View} */
export function unknownView() {
  return {
    title: () => 'not found',
    template: () => html`<div class="empty big"><h1>There is no such page</h1><p>The address may be from another version. <a href=${to.home()}>All runs</a></p></div>`,
  };
}
