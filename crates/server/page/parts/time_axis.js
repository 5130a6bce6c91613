// Time to pixels: times in which nothing ran are folded to a narrow gap, and the rest can be zoomed.

/** @typedef {{ from: number, to: number }} Span */

/** Idle time is folded if it is longer than this, and than a share of all. */
const IDLE_MIN_MS = 20_000;
const IDLE_SHARE = 0.04;
/** A folded gap is as wide as this share of the axis. */
const FOLD_SHARE = 0.02;

export class TimeAxis {
  /** Busy spans, in order, with where each begins on an axis of length 1. @type {(Span & { at: number, size: number })[]} */
  spans = [];
  /** Folded gaps, by their middle on the axis. @type {{ at: number, ms: number }[]} */
  folds = [];

  /** @param {Span[]} busy any order @param {Span} all */
  constructor(busy, all) {
    const total = Math.max(1, all.to - all.from);
    const idleMin = Math.max(IDLE_MIN_MS, total * IDLE_SHARE);
    const sorted = busy.filter((span) => span.to >= span.from).sort((one, other) => one.from - other.from);
    /** @type {Span[]} */
    const merged = [];
    for (const span of sorted) {
      const last = merged.at(-1);
      if (last && span.from - last.to < idleMin) last.to = Math.max(last.to, span.to);
      else merged.push({ ...span });
    }
    if (!merged.length) merged.push({ ...all });
    const first = merged[0];
    if (first.from - all.from < idleMin) first.from = Math.min(first.from, all.from);
    const last = /** @type {Span} */ (merged.at(-1));
    if (all.to - last.to < idleMin) last.to = Math.max(last.to, all.to);
    const sum = merged.reduce((sum, span) => sum + Math.max(1, span.to - span.from), 0);
    const room = Math.max(0.4, 1 - (merged.length - 1) * FOLD_SHARE);
    const fold = merged.length > 1 ? (1 - room) / (merged.length - 1) : 0;
    let at = 0;
    merged.forEach((span, index) => {
      if (index > 0) {
        this.folds.push({ at: at + fold / 2, ms: span.from - merged[index - 1].to });
        at += fold;
      }
      const size = (Math.max(1, span.to - span.from) / sum) * room;
      this.spans.push({ ...span, at, size });
      at += size;
    });
  }

  /** Where a time is, from 0 to 1. @param {number} time */
  at(time) {
    let low = 0;
    let high = this.spans.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.spans[middle].from <= time) low = middle;
      else high = middle - 1;
    }
    const span = this.spans[low];
    const share = (time - span.from) / Math.max(1, span.to - span.from);
    return span.at + span.size * Math.max(0, Math.min(1, share));
  }

  /** The time at a place. @param {number} at */
  time(at) {
    const span = this.spans.findLast((span) => span.at <= at) ?? this.spans[0];
    return span.from + Math.max(0, Math.min(1, (at - span.at) / span.size)) * (span.to - span.from);
  }
}
