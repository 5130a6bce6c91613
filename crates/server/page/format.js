// Numbers, times and names as words. What is not known is shown as unknown, never as 0.

// Made once: to make a format takes longer than a thousand uses of it.
const SECONDS = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const MINUTES = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
const DAY = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });
const DATE = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric' });
const FULL = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });
const NUMBER = new Intl.NumberFormat('en');
const DOLLARS = new Intl.NumberFormat('en', { minimumFractionDigits: 2, maximumFractionDigits: 2 });

/** How far the server's clock is ahead of this one. */
let skew = 0;

/** @param {number} serverNow */
export function setClock(serverNow) {
  skew = serverNow - Date.now();
}

/** The server's time in milliseconds. */
export function now() {
  return Date.now() + skew;
}

/** @param {number | null | undefined} usd */
export function money(usd) {
  if (usd === null || usd === undefined) return '$ ?';
  if (usd !== 0 && Math.abs(usd) < 0.01) return `$${usd.toFixed(usd < 0.001 ? 4 : 3)}`;
  return `$${DOLLARS.format(usd)}`;
}

/** A duration in the two largest units. @param {number | null | undefined} ms */
export function duration(ms) {
  if (ms === null || ms === undefined) return '?';
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return seconds % 60 && minutes < 10 ? `${minutes} m ${seconds % 60} s` : `${minutes} m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} m` : `${hours} h`;
  return `${Math.floor(hours / 24)} d`;
}

/** A duration in one unit, for a column. @param {number} ms */
export function short(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/** How long ago something was: `3 m`, `yesterday`, `12 Mar`. @param {number | null | undefined} at */
export function age(at) {
  if (at === null || at === undefined) return '';
  const passed = now() - at;
  if (passed < 12 * 3600_000) return short(passed);
  const day = (/** @type {number} */ time) => new Date(time).setHours(0, 0, 0, 0);
  const days = Math.round((day(now()) - day(at)) / 86_400_000);
  if (days === 0) return short(passed);
  if (days === 1) return 'yesterday';
  if (days < 7) return `${days} days`;
  const sameYear = new Date(at).getFullYear() === new Date().getFullYear();
  return (sameYear ? DAY : DATE).format(at);
}

/** `15:02:11`. @param {number | null | undefined} at */
export function clock(at) {
  return at === null || at === undefined ? '' : SECONDS.format(at);
}

/** `15:02`, and the date unless that is today. @param {number} at */
export function moment(at) {
  const time = MINUTES.format(at);
  if (new Date(at).toDateString() === new Date(now()).toDateString()) return time;
  return `${DAY.format(at)} ${time}`;
}

/** The full time, for a tooltip. @param {number | null | undefined} at */
export function full(at) {
  return at === null || at === undefined ? '' : FULL.format(at);
}

/** `1.2k`, `3.4M`. @param {number | null | undefined} count */
export function tokens(count) {
  if (count === null || count === undefined) return '?';
  if (count < 1000) return String(count);
  if (count < 1_000_000) return `${(count / 1000).toFixed(count < 10_000 ? 1 : 0)}k`;
  return `${(count / 1_000_000).toFixed(1)}M`;
}

/** @param {number} count */
export function bytes(count) {
  if (count < 1024) return `${count} B`;
  if (count < 1024 * 1024) return `${(count / 1024).toFixed(count < 10_240 ? 1 : 0)} KiB`;
  return `${(count / 1024 / 1024).toFixed(1)} MiB`;
}

/** The beginning of a markdown text for a line: without its marks, and only what stands before a table. Not for what is answered there. @param {string} text */
export function plain(text) {
  return text.replace(/\s\|.*\|\s*:?-{2,}.*$/s, '').replace(/\*\*|__|`|^#+ /g, '').trim() || text;
}

/** `1 step`, `3 steps`. @param {number | null | undefined} count @param {string} noun */
export function plural(count, noun) {
  return count === null || count === undefined ? `? ${noun}s` : `${NUMBER.format(count)} ${noun}${count === 1 ? '' : 's'}`;
}

/** A state without the ending of a prompt: `PLAN`, but `CHECK.sh`. @param {string | null | undefined} name */
export function state(name) {
  return name ? name.replace(/\.md$/, '') : '';
}

/** An agent without the first part that all of a run share. @param {string} name */
export function agent(name) {
  return name.startsWith('main_') ? name.slice(5) : name;
}
