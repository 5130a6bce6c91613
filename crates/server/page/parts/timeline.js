// The timeline of a run: one lane for each agent, a bar for each step. Idle time is folded; the time can be zoomed.

import { html, nothing, svg } from '../html.js';
import { agent as agentName, clock, duration, money, now, short, state } from '../format.js';
import { invalidate } from '../screen.js';
import { withElement } from './css.js';
import { TimeAxis } from './time_axis.js';
import { Virtual } from './virtual.js';

/** @import { Bar, Lane, Step, Timeline } from '../types.d.ts' */

const LANE = 24;
const BAR = 16;
/** The column of names, in pixels, and the margin on the other side. */
const NAMES = 128;
const RIGHT = 12;
/** Bars closer than this are drawn as one. */
const PIXEL = 1;
/** A name of a state fits into a bar that is as wide as this for each letter. */
const LETTER = 7;
const ZOOM_STEP = 1.6;
const ZOOM_MAX = 4000;

export class TimelinePart {
  /** @type {Timeline | null} */
  timeline = null;
  /** @type {Map<string, Lane>} */
  lanes = new Map();
  /** What is shown of the axis. */
  from = 0;
  to = 1;
  width = 800;
  /** @type {Element | null} */
  element = null;
  rows = new Virtual(LANE);
  /** @type {TimeAxis | null} */
  axis = null;
  axisAt = 0;

  /** @param {(step: string) => void} onStep @param {(agent: string) => string} addressOf an agent */
  constructor(onStep, addressOf) {
    this.onStep = onStep;
    this.addressOf = addressOf;
    this.sizes = new ResizeObserver(([entry]) => {
      this.width = Math.max(200, entry.contentRect.width - NAMES - RIGHT);
      invalidate();
    });
  }

  close() {
    this.sizes.disconnect();
  }

  /** @param {Timeline} timeline */
  set(timeline) {
    this.timeline = timeline;
    this.lanes = new Map(timeline.lanes.map((lane) => [lane.agent, lane]));
    this.axis = null;
    invalidate();
  }

  /** A step began or ended. @param {Step} step @param {string | null} parent */
  put(step, parent) {
    if (!this.timeline || step.started_at === null) return;
    /** @type {Bar} */
    const bar = { step: step.step, steps: 1, from: step.started_at, to: step.ended_at, state: step.state, kind: step.kind, end: step.end, cost_usd: step.cost_usd ?? 0 };
    let lane = this.lanes.get(step.agent);
    if (!lane) {
      lane = { agent: step.agent, parent, born: null, is_ended: false, bars: [] };
      this.lanes.set(step.agent, lane);
      this.timeline.lanes.push(lane);
    }
    const index = lane.bars.findLastIndex((known) => known.step === step.step);
    if (index >= 0) lane.bars[index] = bar;
    else lane.bars.push(bar);
    this.axis = null;
  }

  /** An agent has ended: its lane gets a mark. @param {string} agent */
  end(agent) {
    const lane = this.lanes.get(agent);
    if (lane) lane.is_ended = true;
  }

  /** @param {boolean} isLive */
  makeAxis(isLive) {
    const timeline = /** @type {Timeline} */ (this.timeline);
    const time = now();
    // While something runs the axis grows, a little every second.
    if (this.axis && !(isLive && time - this.axisAt > 1000)) return this.axis;
    let last = timeline.to;
    const busy = timeline.lanes.flatMap((lane) => lane.bars.map((bar) => {
      const to = bar.to ?? (isLive ? time : bar.from);
      if (to > last) last = to;
      return { from: bar.from, to };
    }));
    this.axisAt = time;
    this.axis = new TimeAxis(busy, { from: timeline.from, to: last });
    return this.axis;
  }

  /** @param {number} factor @param {number} [at] a place that stays, from 0 to 1 of what is shown */
  zoom(factor, at = 0.5) {
    const size = Math.min(1, Math.max(1 / ZOOM_MAX, (this.to - this.from) / factor));
    const middle = this.from + (this.to - this.from) * at;
    this.show(middle - size * at, size);
  }

  /** @param {number} from @param {number} size */
  show(from, size) {
    this.from = Math.max(0, Math.min(1 - size, from));
    this.to = this.from + size;
    invalidate();
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    const { left } = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
    const at = Math.max(0, Math.min(1, (event.clientX - left - NAMES) / this.width));
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 200), at);
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      const size = this.to - this.from;
      this.show(this.from + (size * (event.deltaX || event.deltaY)) / this.width, size);
    }
  }

  /** @param {boolean} isLive */
  template(isLive) {
    const { timeline } = this;
    if (!timeline) return html`<div class="timeline"></div>`;
    if (!timeline.lanes.length) return html`<div class="timeline"><p class="empty">No step has begun yet. Each step of an agent becomes a bar here.</p></div>`;
    const axis = this.makeAxis(isLive);
    const x = (/** @type {number} */ time) => ((axis.at(time) - this.from) / (this.to - this.from)) * this.width;
    const keep = (/** @type {Element} */ element) => {
      this.sizes.disconnect();
      this.sizes.observe(element);
      element.addEventListener('wheel', (event) => this.wheel(/** @type {WheelEvent} */ (event)), { passive: false });
    };
    const isZoomed = this.to - this.from < 1;
    return html`<div class="timeline" ${withElement(keep)}>
      <div class="axis"><span class="names"><button class="quiet" aria-label="zoom in" @click=${() => this.zoom(ZOOM_STEP)}>+</button><button class="quiet" aria-label="zoom out"
        ?disabled=${!isZoomed} @click=${() => this.zoom(1 / ZOOM_STEP)}>−</button>${isZoomed ? html`<button class="quiet" @click=${() => this.show(0, 1)}>all</button>` : nothing}</span>
        <svg class="ticks" height="20" width=${this.width}>${this.ticks(axis)}</svg></div>
      <div class="lanes">${this.rows.template(timeline.lanes, (lane) => lane.agent, (lane) => this.lane(lane, x, isLive, axis))}</div>
      ${timeline.lanes_left_out ? html`<p class="dim small">${timeline.lanes_left_out} further agents are not shown here.</p>` : nothing}
    </div>`;
  }

  /** @param {TimeAxis} axis */
  ticks(axis) {
    const count = Math.max(2, Math.floor(this.width / 120));
    const ticks = [];
    let before = '';
    for (let index = 0; index <= count; index++) {
      const time = axis.time(this.from + ((this.to - this.from) * index) / count);
      const said = clock(time);
      if (said === before) continue;
      before = said;
      const anchor = index === 0 ? 'start' : index === count ? 'end' : 'middle';
      ticks.push(svg`<text x=${(this.width * index) / count} y="14" text-anchor=${anchor}>${said}</text>`);
    }
    return ticks;
  }

  /** @param {Lane} lane @param {(time: number) => number} x @param {boolean} isLive @param {TimeAxis} axis */
  lane(lane, x, isLive, axis) {
    const bars = [];
    let last = -Infinity;
    for (const bar of lane.bars) {
      const isOpen = bar.to === null && isLive;
      const left = x(bar.from);
      const right = Math.max(left + 2, x(bar.to ?? (isLive ? now() : bar.from)));
      if (right < 0 || left > this.width || (right - last < PIXEL && !isOpen)) continue;
      last = right;
      bars.push(this.bar(bar, Math.max(-4, left), Math.min(this.width + 4, right), isOpen));
    }
    const folds = axis.folds.map((fold) => {
      const at = ((fold.at - this.from) / (this.to - this.from)) * this.width;
      return at < 0 || at > this.width ? nothing : svg`<path class="fold" d="M${at - 2} 5v14m4-14v14"><title>${short(fold.ms)} without work</title></path>`;
    });
    const mark = last + 8;
    const end = lane.is_ended && mark > 0 && mark < this.width - 8 ? svg`<path class="done" d="M${mark} ${LANE / 2}l3 3 5-6"><title>ended</title></path>` : nothing;
    return html`<div class="lane"><a class="names" href=${this.addressOf(lane.agent)} title=${lane.agent}>${agentName(lane.agent)}</a>
      <svg height=${LANE} width=${this.width}><path class="base" d="M0 ${LANE / 2}h${this.width}" />${folds}${bars}${end}</svg></div>`;
  }

  /** @param {Bar} bar @param {number} left @param {number} right @param {boolean} isOpen */
  bar(bar, left, right, isOpen) {
    const name = bar.steps > 1 ? `${bar.steps} steps` : state(bar.state);
    const fits = right - left > name.length * LETTER + 10;
    const kind = isOpen ? 'open' : bar.end === 'failed' || bar.end === 'lost' ? 'failed' : bar.end === 'reminded' || bar.end === 'retried' ? 'again' : bar.end === 'asked' ? 'you' : '';
    const long = bar.to === null ? (isOpen ? now() - bar.from : null) : bar.to - bar.from;
    return svg`<g class="bar ${kind} ${bar.kind}" role="link" tabindex="-1" @click=${() => this.onStep(bar.step)}>
      <title>${bar.step} ${bar.steps > 1 ? `and ${bar.steps - 1} more` : bar.state}, ${duration(long)}${bar.cost_usd ? `, ${money(bar.cost_usd)}` : ''}${bar.end ? `, ${bar.end}` : ''}</title>
      <rect x=${left} y=${(LANE - BAR) / 2} width=${right - left} height=${BAR} rx="3" />
      ${fits ? svg`<text x=${left + 6} y=${LANE / 2 + 4}>${name}</text>` : nothing}</g>`;
  }
}
