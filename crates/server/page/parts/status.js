// Status as a shape, a colour and a word: never as a colour alone.

import { html, svg } from '../html.js';

/** @import { Row } from '../types.d.ts' */

/** @type {Record<string, ReturnType<typeof svg>>} */
const SHAPES = {
  running: svg`<circle cx="8" cy="8" r="5" class="fill" />`,
  you: svg`<path d="M8 1.8 14.2 8 8 14.2 1.8 8z" class="fill" />`,
  failed: svg`<path d="m3.5 3.5 9 9m0-9-9 9" class="line" />`,
  waiting: svg`<circle cx="8" cy="8" r="5.6" class="line thin" /><path d="M8 4.6V8l2.4 1.8" class="line thin" />`,
  done: svg`<path d="m2.8 8.4 3.5 3.6 7-7.6" class="line" />`,
  cancelled: svg`<circle cx="8" cy="8" r="5.6" class="line thin" /><path d="m4.2 11.8 7.6-7.6" class="line thin" />`,
  paused: svg`<path d="M5.4 3.4v9.2m5.2-9.2v9.2" class="line" />`,
};

/** @param {string} shape */
export function icon(shape) {
  return html`<svg class="icon ${shape}" viewBox="0 0 16 16" aria-hidden="true">${SHAPES[shape]}</svg>`;
}

/** @param {Row} row @returns {{ shape: string, word: string }} */
export function statusOf(row) {
  if (row.error) return { shape: 'failed', word: row.status === 'foreign' ? 'foreign' : 'unreadable' };
  if (row.asks?.length) return { shape: 'you', word: 'asks' };
  switch (row.status) {
    case 'completed': return { shape: 'done', word: 'completed' };
    case 'cancelled': return { shape: 'cancelled', word: 'cancelled' };
    case 'failed': return { shape: 'failed', word: 'failed' };
    case 'died': return { shape: 'failed', word: 'died' };
    case 'stopped': return { shape: 'you', word: 'stopped by a limit' };
    case 'paused': return { shape: row.group === 'needs_you' ? 'you' : 'paused', word: 'paused' };
    default: {
      if (row.group === 'waiting') return { shape: 'waiting', word: 'waiting' };
      return row.group === 'needs_you' ? { shape: 'you', word: 'running' } : { shape: 'running', word: 'running' };
    }
  }
}

/** The shape for the phase of an agent. @param {string} phase */
export function phaseShape(phase) {
  if (phase === 'failed') return 'failed';
  if (phase === 'asking') return 'you';
  if (phase === 'ended') return 'done';
  if (phase === 'interrupted') return 'paused';
  return phase === 'running' || phase === 'starting' ? 'running' : 'waiting';
}

/** The shape for the end of a step. @param {string | null} end */
export function endShape(end) {
  if (end === null) return 'running';
  if (end === 'failed' || end === 'lost') return 'failed';
  if (end === 'asked') return 'you';
  return end === 'retried' || end === 'reminded' || end === 'overridden' || end === 'evaluating' ? 'waiting' : 'done';
}
