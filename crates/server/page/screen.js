// When to draw: changes are collected, and drawn once before the browser shows its next frame.

/** @type {() => void} */
let draw = () => {};
let isScheduled = false;

/** @param {() => void} how */
export function drawWith(how) {
  draw = how;
}

/** Something that is shown has changed. */
export function invalidate() {
  if (isScheduled) return;
  isScheduled = true;
  requestAnimationFrame(() => {
    isScheduled = false;
    draw();
  });
}

/** At most one call in `ms`, the last one not lost. @param {number} ms @param {() => unknown} then @returns {() => void} */
export function seldom(ms, then) {
  let timer = 0;
  // Long ago, so that the first call does not wait: the clock of a page begins with 0.
  let last = -ms;
  return () => {
    if (timer) return;
    timer = setTimeout(() => {
      timer = 0;
      last = performance.now();
      then();
    }, Math.max(0, last + ms - performance.now()));
  };
}

/** What a stream brings while something is fetched is put once more after it: the answer may be older. @template T */
export class Late {
  /** @type {T[]} */
  values = [];
  fetches = 0;

  /** @param {(value: T) => void} put */
  constructor(put) {
    this.put = put;
  }

  /** @param {T} value */
  keep(value) {
    if (this.fetches) this.values.push(value);
  }

  /** @param {() => Promise<void>} fetch */
  async during(fetch) {
    this.fetches += 1;
    await fetch().finally(() => {
      this.fetches -= 1;
      this.values.splice(0).forEach(this.put);
    });
  }
}

// Ages grow by themselves.
setInterval(() => document.hidden || invalidate(), 1000);
document.addEventListener('visibilitychange', invalidate);
