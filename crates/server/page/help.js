// The keys that every page has, and the list of all that work now.

import { html } from './html.js';
import { currentKeys } from './keys.js';
import { ask } from './parts/dialog.js';

/** @param {() => void} home @returns {import('./keys.js').Key[]} */
export function commonKeys(home) {
  const search = () => {
    const box = /** @type {HTMLInputElement | null} */ (document.querySelector('.search input'));
    box?.focus();
    box?.select();
  };
  return [
    { key: '/', name: 'search runs', run: search },
    { key: 'h', name: 'home', run: home },
    { key: '?', name: 'these keys', run: showKeys },
  ];
}

function showKeys() {
  const rows = currentKeys().filter((key) => key.name);
  ask({
    title: 'Keys',
    body: html`<dl class="keys">${rows.map((key) => html`<dt><kbd>${key.shown ?? key.key}</kbd></dt><dd>${key.name}</dd>`)}</dl>`,
    action: '',
    run: () => {},
  });
}
