// What all pages show: the server, the rows of runs, the connection. Views come from the server, and the last one wins.
//
// All tabs share one stream of rows, because a browser opens only six connections to a server: the tab that holds a
// lock reads the stream and tells the others.

import { get, stream, ApiError } from './api.js';
import { now, setClock } from './format.js';
import { invalidate, seldom } from './screen.js';

/** @import { Row, Rows, Server, Summary } from './types.d.ts' */

/** How many rows are fetched at a time. */
const ROWS = 200;

export const store = {
  /** @type {Server | null} */
  server: null,
  /** @type {Map<string, Row>} */
  rows: new Map(),
  /** @type {Summary | null} */
  summary: null,
  /** Since when the connection is lost. @type {number | null} */
  lostSince: null,
  /** Whether the rows have been read once. */
  isLoaded: false,
  /** The server refuses this page. @type {ApiError | null} */
  refused: null,
  /** Whether this tab reads the stream for all. */
  isLeader: false,
};

/** @param {{ project: string, run: string }} row */
export function keyOf(row) {
  return `${row.project}/${row.run}`;
}

/** The questions that are open, the oldest first. */
export function openAsks() {
  return [...store.rows.values()].flatMap((row) => row.asks ?? []).sort((one, other) => one.asked_at - other.asked_at || one.run.localeCompare(other.run));
}

/** @type {((row: Row, before: Row | undefined) => void)[]} */
const watchers = [];

/** Calls back with each row that comes after the first ones. @param {(row: Row, before: Row | undefined) => void} watcher */
export function watchRows(watcher) {
  watchers.push(watcher);
}

/** @param {Row} row */
export function putRow(row) {
  const before = store.rows.get(keyOf(row));
  store.rows.set(keyOf(row), row);
  if (store.isLoaded) for (const watcher of watchers) watcher(row, before);
  invalidate();
}

/** Fetches rows that the filters match and keeps them. @param {Record<string, string | number | null>} [query] */
export async function fetchRows(query) {
  /** @type {Rows} */
  const page = await get('/api/runs', { limit: ROWS, ...query });
  for (const row of page.runs) putRow(row);
  store.summary = page.summary;
  invalidate();
  return page;
}

/** Fetches the newest rows, and forgets those that are gone. */
async function refresh() {
  try {
    /** @type {Server} */
    const server = await get('/api/server');
    setClock(server.now);
    store.server = server;
    const { runs } = await fetchRows();
    const there = new Set(runs.map(keyOf));
    const oldest = runs.length < ROWS ? 0 : Math.min(...runs.map((row) => row.started_at ?? 0));
    for (const [key, row] of store.rows) {
      if (!there.has(key) && (row.started_at ?? 0) >= oldest) store.rows.delete(key);
    }
    store.isLoaded = true;
    store.refused = null;
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) store.refused = error;
  }
  invalidate();
}

/** @param {string} name @param {any} data */
function take(name, data) {
  if (name === 'row') putRow(data);
  if (name === 'removed') store.rows.delete(keyOf(data));
  if (name === 'summary') store.summary = data;
  if (name === 'lost') store.lostSince ??= data.since;
  if (name === 'open') {
    store.lostSince = null;
    refresh();
  }
  invalidate();
}

/** Begins to read, and never ends. */
export function openStore() {
  refresh();
  const others = 'BroadcastChannel' in window ? new BroadcastChannel('raymond.rows') : null;
  if (others) others.onmessage = ({ data }) => take(data.name, data.data);
  document.addEventListener('visibilitychange', seldom(1000, () => document.hidden || store.isLeader || refresh()));
  const lead = () => {
    store.isLeader = true;
    const tell = (/** @type {string} */ name, /** @type {any} */ data) => {
      take(name, data);
      others?.postMessage({ name, data });
    };
    stream('/api/events', {
      whenHidden: Boolean(navigator.locks),
      on: tell,
      state: (state) => tell(state, { since: now() }),
      refused: (error) => {
        store.refused = error;
        invalidate();
      },
    });
    return new Promise(() => {});
  };
  // Without a secure context there are no locks: each tab reads for itself while it is shown.
  if (navigator.locks) navigator.locks.request('raymond.rows', lead);
  else lead();
}
