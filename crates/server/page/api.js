// Requests to the server: the token, JSON, parts of files, and event streams that continue where they broke off.

const TOKEN_KEY = 'raymond.token';
/** The first wait before a stream is opened again, doubled up to the last. */
const RETRY_FIRST_MS = 250;
const RETRY_LAST_MS = 4000;
/** The server sends a beat every 15 seconds; a stream that is silent for longer than two of them is dead. */
const SILENCE_MAX_MS = 35_000;
/** A stream of a hidden tab is closed after this long: a browser opens only six connections to a server. */
const HIDDEN_MAX_MS = 5_000;

/** An answer of the server that says no, or no answer at all (status 0). */
export class ApiError extends Error {
  /** @param {number} status @param {string} message @param {string[]} [hints] */
  constructor(status, message, hints) {
    super(message);
    this.status = status;
    this.hints = hints ?? [];
  }
}

/** Takes the token out of the address, where the printed link has it, and keeps it. @returns {boolean} whether it was there */
export function takeToken() {
  const found = /^#k=([^&]+)(?:&to=(.*))?$/.exec(location.hash);
  if (!found) return false;
  localStorage.setItem(TOKEN_KEY, found[1]);
  history.replaceState(null, '', `#${found[2] ?? '/'}`);
  return true;
}

function authorization() {
  return { Authorization: `Bearer ${localStorage.getItem(TOKEN_KEY) ?? ''}` };
}

/** @param {...string} parts */
export function path(...parts) {
  return `/api/${parts.map(encodeURIComponent).join('/')}`;
}

/** @param {string} address @param {Record<string, string | number | null | undefined>} [query] */
function address(address, query) {
  const parts = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== null && value !== '');
  const search = new URLSearchParams(parts.map(([name, value]) => [name, String(value)])).toString();
  return search ? `${address}?${search}` : address;
}

/** @param {string} url @param {RequestInit} [init] */
async function request(url, init) {
  let response;
  try {
    response = await fetch(url, { ...init, headers: { ...authorization(), ...init?.headers }, cache: 'no-store' });
  } catch {
    throw new ApiError(0, 'the server does not answer', ['raymond serve']);
  }
  if (response.ok) return response;
  throw await errorOf(response);
}

/** @param {Response} response */
async function errorOf(response) {
  try {
    const { error } = await response.json();
    return new ApiError(response.status, String(error.message), error.hints);
  } catch {
    return new ApiError(response.status, `the server answered with ${response.status}`);
  }
}

/** @template T @param {string} url @param {Record<string, string | number | null | undefined>} [query] @returns {Promise<T>} */
export async function get(url, query) {
  return (await request(address(url, query))).json();
}

/** @template T @param {string} url @param {object} body @returns {Promise<T>} */
export async function post(url, body) {
  const init = { method: 'POST', body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } };
  return (await request(url, init)).json();
}

/** @param {string} url @param {File} file @returns {Promise<{ file: string, bytes: number }>} */
export async function upload(url, file) {
  const init = { method: 'POST', body: file, headers: { 'Content-Type': 'application/octet-stream' } };
  return (await request(url, init)).json();
}

/** @param {string} url */
export async function blob(url) {
  return (await request(url)).blob();
}

/** A part of a raw file. @param {string} url @param {number} offset @param {number} length */
export async function part(url, offset, length) {
  const response = await request(address(url, { offset, length }));
  const number = (/** @type {string} */ name) => Number(response.headers.get(name) ?? 0);
  return { text: await response.text(), size: number('Raymond-Size'), offset: number('Raymond-Offset'), next: number('Raymond-Next') };
}

/**
 * @typedef {object} StreamOptions
 * @property {string | number} [from] the id after which it begins
 * @property {boolean} [whenHidden] whether it stays open while the tab is hidden
 * @property {(name: string, data: any) => void} on
 * @property {(state: 'open' | 'lost', error: ApiError | null) => void} [state]
 * @property {(error: ApiError) => void} [refused] the server said no: it is not tried again
 */

/**
 * Reads an event stream until it is closed. A lost connection is made again, and continues after the last event.
 * @param {string} url @param {StreamOptions} options @returns {() => void} closes it
 */
export function stream(url, options) {
  const closing = new AbortController();
  let last = options.from;
  let delay = RETRY_FIRST_MS;

  async function once() {
    const dead = new AbortController();
    const signal = AbortSignal.any([closing.signal, dead.signal]);
    let watch = setTimeout(() => dead.abort(), SILENCE_MAX_MS);
    const hide = options.whenHidden ? () => {} : whenHidden(() => dead.abort());
    try {
      /** @type {Record<string, string>} */
      const known = last === undefined ? {} : { 'Last-Event-ID': String(last) };
      const headers = { ...authorization(), Accept: 'text/event-stream', ...known };
      const response = await fetch(url, { headers, signal, cache: 'no-store' });
      if (!response.ok || !response.body) throw await errorOf(response);
      options.state?.('open', null);
      delay = RETRY_FIRST_MS;
      for await (const { name, data, id } of events(response.body)) {
        clearTimeout(watch);
        watch = setTimeout(() => dead.abort(), SILENCE_MAX_MS);
        if (closing.signal.aborted) return;
        if (data) options.on(name, JSON.parse(data));
        if (id) last = id;
      }
    } finally {
      clearTimeout(watch);
      hide();
    }
  }

  (async () => {
    while (!closing.signal.aborted) {
      let error = null;
      try {
        await once();
      } catch (thrown) {
        error = thrown instanceof ApiError ? thrown : null;
      }
      if (closing.signal.aborted) return;
      if (error && error.status >= 400 && error.status < 500 && error.status !== 429) {
        options.refused?.(error);
        return;
      }
      if (document.hidden && !options.whenHidden) {
        await shown();
        continue;
      }
      options.state?.('lost', error);
      await wait(delay);
      delay = Math.min(delay * 2, RETRY_LAST_MS);
    }
  })();
  return () => closing.abort();
}

/** The events of a stream; a beat is one without data. @param {ReadableStream<Uint8Array>} body */
async function* events(body) {
  const reader = body.pipeThrough(/** @type {any} */ (new TextDecoderStream())).getReader();
  let rest = '';
  let event = { name: 'message', data: '', id: '' };
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split('\n');
    rest = lines.pop() ?? '';
    for (const raw of lines) {
      const line = raw.endsWith('\r') ? raw.slice(0, -1) : raw;
      if (line === '') {
        yield event;
        event = { name: 'message', data: '', id: '' };
      } else if (line.startsWith('data:')) {
        event.data += (event.data && '\n') + line.slice(5).trimStart();
      } else if (line.startsWith('event:')) {
        event.name = line.slice(6).trim();
      } else if (line.startsWith('id:')) {
        event.id = line.slice(3).trim();
      } else if (line.startsWith(':')) {
        yield { name: 'beat', data: '', id: '' };
      }
    }
  }
}

/** Calls back when the tab has been hidden for a while. @param {() => void} then @returns {() => void} */
function whenHidden(then) {
  let timer = 0;
  const look = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(then, HIDDEN_MAX_MS);
  };
  look();
  document.addEventListener('visibilitychange', look);
  return () => {
    clearTimeout(timer);
    document.removeEventListener('visibilitychange', look);
  };
}

/** When the tab is shown. @returns {Promise<void>} */
function shown() {
  return new Promise((then) => {
    const look = () => {
      if (document.hidden) return;
      document.removeEventListener('visibilitychange', look);
      then();
    };
    document.addEventListener('visibilitychange', look);
    look();
  });
}

/** Waits, but not longer than until the network or the tab is back. @param {number} ms @returns {Promise<void>} */
function wait(ms) {
  return new Promise((then) => {
    const end = () => {
      clearTimeout(timer);
      removeEventListener('online', end);
      document.removeEventListener('visibilitychange', end);
      then();
    };
    const timer = setTimeout(end, ms);
    addEventListener('online', end);
    document.addEventListener('visibilitychange', end);
  });
}
