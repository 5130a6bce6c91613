// A long list of rows of one height, of which only those near the window are drawn.

import { html } from '../html.js';
import { repeat } from '../vendor/lit-html/directives/repeat.js';
import { invalidate } from '../screen.js';
import { css, withElement } from './css.js';

/** How many rows are drawn above and below the window. */
const SPARE = 12;
/** A list of at most this many rows is drawn whole. */
const WHOLE_MAX = 60;

/** @type {Set<WeakRef<Virtual>>} */
const all = new Set();
const look = () => {
  for (const known of all) known.deref()?.look() ?? all.delete(known);
};
document.addEventListener('scroll', look, { capture: true, passive: true });
addEventListener('resize', look);

export class Virtual {
  first = 0;
  count = WHOLE_MAX;
  /** @type {Element | null} */
  element = null;

  /** @param {number} height of a row in pixels */
  constructor(height) {
    this.height = height;
    all.add(new WeakRef(this));
  }

  /** Finds out which rows are near the window. */
  look() {
    if (!this.element?.isConnected) return true;
    const { top } = this.element.getBoundingClientRect();
    const first = Math.max(0, Math.floor(-top / this.height) - SPARE);
    const count = Math.ceil(innerHeight / this.height) + 2 * SPARE;
    if (Math.abs(first - this.first) >= SPARE / 2 || count !== this.count || (first === 0 && this.first !== 0)) {
      this.first = first;
      this.count = count;
      invalidate();
    }
    return true;
  }

  /**
   * @template T
   * @param {T[]} items @param {(item: T) => string} key @param {(item: T, index: number) => unknown} row
   */
  template(items, key, row) {
    const isWhole = items.length <= WHOLE_MAX;
    const first = isWhole ? 0 : Math.min(this.first, Math.max(0, items.length - this.count));
    const some = isWhole ? items : items.slice(first, first + this.count);
    const after = items.length - first - some.length;
    const keep = (/** @type {Element} */ element) => {
      this.element = element;
      requestAnimationFrame(() => this.look());
    };
    return html`<div class="virtual" ${withElement(keep)}>
      <div ${css({ height: `${first * this.height}px` })}></div>
      ${repeat(some, key, (item, index) => row(item, first + index))}
      <div ${css({ height: `${after * this.height}px` })}></div>
    </div>`;
  }
}
