// What happened in a run, newest last, as `raymond log` tells it.

import { html, nothing } from '../html.js';
import { get, path } from '../api.js';
import { clock, full, state } from '../format.js';
import { to } from '../router.js';
import { invalidate, seldom } from '../screen.js';
import { say, wordsOf } from './dialog.js';
import { Virtual } from './virtual.js';

/** @import { LogEvent, Row } from '../types.d.ts' */

const PAGE = 500;
const HEIGHT = 24;
const AGAIN_MS = 1000;
/** Fields that have a column of their own, or that nobody reads. */
const HIDDEN = new Set(['event', 'at', 'offset', 'agent', 'number', 'folder', 'is_found']);
const GRAVE = new Set(['failed', 'halted', 'warning', 'overridden']);

/** @param {unknown} value @returns {string} */
function words(value) {
  if (value === null || value === undefined) return '';
  if (typeof value === 'string') return value.length > 300 ? `${value.slice(0, 300)}…` : value;
  if (typeof value !== 'object') return String(value);
  return Object.entries(value).filter(([, inner]) => inner !== null && inner !== undefined && inner !== '').map(([name, inner]) => `${name} ${words(inner)}`).join(', ');
}

/** @param {LogEvent} event */
function details(event) {
  return Object.entries(event).filter(([name, value]) => !HIDDEN.has(name) && value !== null && value !== undefined && value !== '' && value !== false)
    .map(([name, value]) => html`<span class="field"><span class="dim">${name}</span> ${name === 'state' || name === 'to' || name === 'from' ? state(words(value)) : words(value)}</span>`);
}

/** @param {LogEvent} event @param {Pick<Row, 'project' | 'run'>} run */
export function eventRow(event, run) {
  const who = event.agent ? (event.number ? html`<a href=${to.step(run, `${event.agent}.${event.number}`)}>${event.agent}.${event.number}</a>` : event.agent) : '';
  return html`<div class="event ${GRAVE.has(event.event) ? 'grave' : ''}"><time title=${full(event.at)}>${clock(event.at)}</time><span class="who">${who}</span>
    <span class="word">${event.event.replaceAll('_', ' ')}</span><span class="fields">${details(event)}</span></div>`;
}

export class LogPart {
  /** @type {LogEvent[]} */
  events = [];
  /** @type {number | null} */
  next = null;
  /** Whether it begins with the first event, else with one of the last. */
  isWhole = false;
  isBusy = false;
  rows = new Virtual(HEIGHT);
  again = seldom(AGAIN_MS, () => this.more());

  /** @param {Pick<Row, 'project' | 'run'>} run */
  constructor(run) {
    this.run = run;
    this.url = path('runs', run.project, run.run, 'log');
  }

  /** @param {boolean} isWhole */
  async load(isWhole) {
    try {
      /** @type {{ events: LogEvent[], next: number }} */
      const page = await get(this.url, isWhole ? { from: 0, limit: PAGE } : { last: PAGE });
      this.events = page.events;
      this.next = page.next;
      this.isWhole = isWhole || page.events.length < PAGE;
    } catch (error) {
      say(wordsOf(error), true);
    }
    invalidate();
  }

  /** What has happened since, and the rest of a log that is read from its beginning. */
  async more() {
    if (this.next === null || this.isBusy) return;
    this.isBusy = true;
    try {
      /** @type {{ events: LogEvent[], next: number }} */
      const page = await get(this.url, { from: this.next, limit: PAGE });
      this.events = [...this.events, ...page.events];
      this.next = page.next;
      if (page.events.length === PAGE) this.again();
    } catch { /* tried again with the next change */ }
    this.isBusy = false;
    invalidate();
  }

  template() {
    if (this.next === null) return nothing;
    if (!this.events.length) return html`<p class="empty">Nothing was recorded yet. What the run decides and does appears here.</p>`;
    return html`<div class="log">${this.isWhole ? nothing : html`<button class="quiet small" @click=${() => this.load(true)}>from the beginning</button>`}
      ${this.rows.template(this.events, (event) => `${event.offset}/${event.event}/${event.agent}`, (event) => eventRow(event, this.run))}</div>`;
  }
}
