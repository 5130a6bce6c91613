// Tells a person who looks elsewhere that something needs them: in the title, and as a notification of the system.

import { store, watchRows } from './store.js';
import { plain } from './format.js';
import { visible } from './html.js';
import { to } from './router.js';

/** @import { Row } from './types.d.ts' */

/** How many things need a person: each question of a run, else the run. All such rows are here, whatever else is. */
export function needsCount() {
  let count = 0;
  for (const row of store.rows.values()) if (row.group === 'needs_you') count += row.asks?.length || 1;
  return count;
}

/** @param {string} title of the view */
export function titleOf(title) {
  const count = needsCount();
  return visible(`${count ? `(${count}) ` : ''}${title ? `${title} · ` : ''}raymond`);
}

/** Whether the browser could show notifications, but was not asked yet. */
export function canAskToNotify() {
  return 'Notification' in window && Notification.permission === 'default';
}

/** @returns {Promise<unknown>} */
export function askToNotify() {
  return Notification.requestPermission();
}

/** @param {Row} row @param {Row | undefined} before */
function newNeed(row, before) {
  const known = new Set(before?.asks?.map((ask) => ask.ask));
  const ask = row.asks?.find((ask) => !known.has(ask.ask));
  if (ask) return { title: `${row.name ?? row.run} asks`, body: plain(ask.question), address: to.ask(ask) };
  if (row.group !== 'needs_you' || before?.group === 'needs_you') return null;
  return { title: `${row.name ?? row.run} needs you`, body: row.why ?? row.status, address: to.run(row) };
}

/** @param {() => string} viewTitle */
export function startNotices(viewTitle) {
  watchRows((row, before) => {
    // A hidden tab draws nothing, so its title is set here.
    if (document.hidden) document.title = titleOf(viewTitle());
    const need = newNeed(row, before);
    if (!need || !document.hidden || !store.isLeader || !('Notification' in window) || Notification.permission !== 'granted') return;
    const shown = new Notification(visible(need.title), { body: visible(need.body).slice(0, 200), tag: `${row.project}/${row.run}` });
    shown.onclick = () => {
      window.focus();
      location.hash = need.address;
      shown.close();
    };
  });
}
