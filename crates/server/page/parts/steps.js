// The steps of a run, newest first, in pages that are fetched as the reader scrolls.

import { html, nothing } from '../html.js';
import { get, path } from '../api.js';
import { age, duration, full, money, now, plain, state } from '../format.js';
import { to } from '../router.js';
import { Late, invalidate, seldom } from '../screen.js';
import { say, wordsOf } from './dialog.js';
import { sentence } from './markdown.js';
import { endShape, icon } from './status.js';
import { Virtual } from './virtual.js';

/** @import { Row, Step, Steps } from '../types.d.ts' */

const PAGE = 200;
const HEIGHT = 32;
/** A change of many steps is fetched at most this often. */
const AGAIN_MS = 1000;

/** What came of a step, in words. @param {Step} step @param {boolean} [isLive] whether its run runs */
export function endOf(step, isLive = true) {
  if (step.end === null) return isLive ? html`<span class="running">runs</span>` : html`<span class="dim">interrupted</span>`;
  const tag = step.tag ? html`<span class="tag">${step.tag}</span>` : nothing;
  const target = step.to ? html` → <b>${state(step.to)}</b>` : nothing;
  const worker = step.worker ? html` <span class="dim">${step.worker}</span>` : nothing;
  const text = step.text ? html` <span class=${step.end === 'failed' || step.end === 'lost' ? 'problem' : 'dim'}>${step.end === 'asked' ? plain(step.text) : sentence(step.text)}</span>` : nothing;
  const word = step.end === 'followed' ? nothing : html`<span class=${step.end === 'failed' || step.end === 'lost' ? 'problem' : ''}>${step.end}${step.text && !step.tag ? ':' : ''}</span> `;
  return html`${word}${tag}${target}${worker}${text}`;
}

export class StepsPart {
  /** @type {Step[]} */
  steps = [];
  /** @type {Map<string, number>} */
  known = new Map();
  /** @type {string | number | null} */
  next = null;
  count = 0;
  isLoading = false;
  isLoaded = false;
  late = new Late((/** @type {Step} */ step) => this.put(step));
  /** Whether the run runs: else a step without an end does nothing. */
  isLive = true;
  rows = new Virtual(HEIGHT);
  filter = { state: '', agent: '' };
  again = seldom(AGAIN_MS, () => this.load());

  /** @param {Pick<Row, 'project' | 'run'>} run */
  constructor(run) {
    this.run = run;
    this.url = path('runs', run.project, run.run, 'steps');
  }

  /** @param {{ state: string, agent: string }} filter */
  setFilter(filter) {
    if (this.isLoaded && filter.state === this.filter.state && filter.agent === this.filter.agent) return;
    this.filter = filter;
    this.load();
  }

  /** The newest ones. */
  load() {
    return this.late.during(() => this.fetch());
  }

  async fetch() {
    const asked = this.filter;
    try {
      /** @type {Steps} */
      const page = await get(this.url, { ...asked, limit: PAGE });
      if (asked !== this.filter) return;
      // What the reader has scrolled to stays.
      const oldest = page.steps.at(-1)?.index ?? 0;
      const older = this.isLoaded ? this.steps.filter((step) => step.index < oldest && this.matches(step)) : [];
      this.steps = [...page.steps, ...older];
      if (!older.length) this.next = page.next;
      this.count = page.count;
      this.isLoaded = true;
      this.index();
    } catch (error) {
      if (!this.isLoaded) say(wordsOf(error), true);
    }
    invalidate();
  }

  async more() {
    if (this.isLoading || this.next === null) return;
    this.isLoading = true;
    try {
      /** @type {Steps} */
      const page = await get(this.url, { ...this.filter, limit: PAGE, before: this.next });
      this.steps = [...this.steps, ...page.steps.filter((step) => !this.known.has(step.step))];
      this.next = page.next;
      this.index();
    } catch { /* tried again when the reader scrolls */ }
    this.isLoading = false;
    invalidate();
  }

  index() {
    this.known = new Map(this.steps.map((step, index) => [step.step, index]));
  }

  /** @param {Step} step */
  matches(step) {
    return (!this.filter.state || step.state === this.filter.state) && (!this.filter.agent || step.agent === this.filter.agent);
  }

  /** A step began or ended. @param {Step} step */
  put(step) {
    this.late.keep(step);
    const index = this.known.get(step.step);
    if (index !== undefined) {
      this.steps[index] = step;
    } else if (this.isLoaded && this.matches(step)) {
      this.steps.unshift(step);
      this.count += 1;
      this.index();
    }
  }

  template() {
    if (!this.isLoaded) return html`<div class="steps"></div>`;
    if (!this.steps.length) return html`<p class="empty">${this.filter.state || this.filter.agent ? 'No step matches the filter.' : 'No step has begun yet. Each step of an agent appears here when it begins.'}</p>`;
    if (this.next !== null && this.rows.first + this.rows.count >= this.steps.length) queueMicrotask(() => this.more());
    return html`<div class="steps">${this.rows.template(this.steps, (step) => step.step, (step) => this.row(step))}</div>`;
  }

  /** @param {Step} step */
  row(step) {
    const end = step.ended_at ?? (this.isLive ? now() : null);
    const long = step.duration_ms ?? (step.started_at === null || end === null ? null : end - step.started_at);
    return html`<div class="step"><a class="cover" href=${to.step(this.run, step.step)} aria-label=${step.step}></a>
      ${icon(step.end === null && !this.isLive ? 'paused' : endShape(step.end))}<span class="name">${step.step}</span>
      <span class="state">${state(step.state)}${step.attempt > 1 ? html` <span class="dim">attempt ${step.attempt}</span>` : nothing}</span>
      <span class="end">${endOf(step, this.isLive)}</span>
      <span class="long">${long === null ? '' : duration(long)}</span>
      <span class="money">${step.kind === 'turn' && step.end !== null ? money(step.cost_usd) : ''}</span>
      <time class="age" title=${full(step.started_at)}>${age(step.started_at)}</time></div>`;
  }
}
