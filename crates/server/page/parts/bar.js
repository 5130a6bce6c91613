// Cost against budget.

import { html, nothing } from '../vendor/lit-html/lit-html.js';
import { money } from '../format.js';
import { css } from './css.js';

/** From this share of the budget on, the bar warns. */
const NEARLY = 0.9;

/** @param {number | null | undefined} cost @param {number | null | undefined} budget */
export function costBar(cost, budget) {
  if (!budget) return html`<span class="cost"><span class="number">${money(cost)}</span></span>`;
  const share = Math.min(1, (cost ?? 0) / budget);
  const level = share >= 1 ? 'full' : share >= NEARLY ? 'near' : '';
  return html`<span class="cost" title="${money(cost)} of a budget of ${money(budget)}">
    <span class="meter ${level}" role="meter" aria-label="cost of budget" aria-valuemin="0" aria-valuemax=${budget}
      aria-valuenow=${cost ?? nothing}><i ${css({ width: `${share * 100}%` })}></i></span>
    <span class="number">${money(cost)}</span> <span class="of">of ${money(budget)}</span></span>`;
}
