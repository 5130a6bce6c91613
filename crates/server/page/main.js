// The page: takes the token, opens the view that the address names, and draws.

import { render } from './vendor/lit-html/lit-html.js';
import { takeToken } from './api.js';
import { frame } from './frame.js';
import { useKeys } from './keys.js';
import { startNotices, titleOf } from './needs.js';
import { go, here, to } from './router.js';
import { drawWith, invalidate } from './screen.js';
import { openStore } from './store.js';
import { commonKeys } from './help.js';
import { openTheme } from './theme.js';
import { askView } from './views/ask.js';
import { homeView } from './views/home.js';
import { runView } from './views/run.js';
import { stepView } from './views/step.js';
import { unknownView } from './views/unknown.js';
import { workflowView } from './views/workflow.js';
import { workflowsView } from './views/workflows.js';

/** @import { Key } from './keys.js' */
/** @import { Route } from './router.js' */
/**
 * @typedef {object} View
 * @property {() => string} title
 * @property {() => unknown} template
 * @property {() => Key[]} [keys]
 * @property {(query: URLSearchParams) => void} [query] the query of the address has changed
 * @property {() => void} [close]
 */

/** @type {Record<string, (route: Route) => View>} */
const VIEWS = {
  '': homeView,
  run: runView,
  step: stepView,
  ask: askView,
  workflows: workflowsView,
  workflow: workflowView,
  unknown: unknownView,
};

/** @type {View | null} */
let view = null;
let path = '';

function follow() {
  // A link that was pasted into an open page: everything is asked for again with its token.
  if (takeToken()) {
    location.reload();
    return;
  }
  const route = here();
  if (view && path === route.path) {
    view.query?.(route.query);
  } else {
    view?.close?.();
    path = route.path;
    view = VIEWS[route.name](route);
    scrollTo(0, 0);
  }
  invalidate();
}

const root = /** @type {HTMLElement} */ (document.getElementById('app'));
drawWith(() => {
  if (!view) return;
  const title = titleOf(view.title());
  if (document.title !== title) document.title = title;
  render(frame(view), root);
});
useKeys(() => [...(view?.keys?.() ?? []), ...commonKeys(() => go(to.home()))]);
addEventListener('hashchange', follow);
takeToken();
openTheme();
startNotices(() => view?.title() ?? '');
follow();
openStore();
