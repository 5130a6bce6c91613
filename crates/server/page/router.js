// Addresses of the page. They are in the fragment, so that the server needs no route for them and never sees them.

/** @typedef {{ name: string, params: string[], query: URLSearchParams, path: string }} Route */

/** Each page and the number of its parameters. @type {Record<string, number>} */
const PAGES = { '': 0, run: 2, step: 3, ask: 3, workflows: 0, workflow: 1 };

/** @returns {Route} */
export function here() {
  const [path, search] = (location.hash.replace(/^#/, '') || '/').split(/\?(.*)/s);
  const query = new URLSearchParams(search ?? '');
  let parts;
  try {
    parts = path.split('/').filter(Boolean).map(decodeURIComponent);
  } catch {
    return { name: 'unknown', params: [], query, path };
  }
  const [name = '', ...params] = parts;
  const isKnown = Object.hasOwn(PAGES, name) && PAGES[name] === params.length;
  return { name: isKnown ? name : 'unknown', params, query, path };
}

/** @param {string} page @param {string[]} params @param {Record<string, string>} [query] */
function link(page, params, query) {
  const search = query ? new URLSearchParams(query).toString() : '';
  return `#/${[page, ...params].filter(Boolean).map(encodeURIComponent).join('/')}${search ? `?${search}` : ''}`;
}

export const to = {
  home: () => '#/',
  /** @param {{ project: string, run: string }} run @param {Record<string, string>} [query] */
  run: (run, query) => link('run', [run.project, run.run], query),
  /** @param {{ project: string, run: string }} run @param {string} step @param {Record<string, string>} [query] */
  step: (run, step, query) => link('step', [run.project, run.run, step], query),
  /** @param {{ project: string, run: string, ask: string }} ask */
  ask: (ask) => link('ask', [ask.project, ask.run, ask.ask]),
  workflows: () => link('workflows', []),
  /** @param {string} key */
  workflow: (key) => link('workflow', [key]),
};

/** Goes to another page. @param {string} address */
export function go(address) {
  location.hash = address;
}

/** Changes the query of this page without a new entry in the history. @param {Record<string, string | null>} changes */
export function setQuery(changes) {
  const { path, query } = here();
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const search = query.toString();
  history.replaceState(null, '', `#${path}${search ? `?${search}` : ''}`);
  dispatchEvent(new HashChangeEvent('hashchange'));
}
