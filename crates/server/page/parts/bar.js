// Cost against budget, and use of a provider's limits.

import { html, nothing } from '../html.js';
import { full, money } from '../format.js';
import { css } from './css.js';

/** @import { UsageWindow } from '../types.d.ts' */

/** From this share of the budget on, the bar warns. */
const NEARLY = 0.9;

/** How much of a usage limit of the provider is used. @param {UsageWindow} window */
export function usageBar({ coding_agent, label, used_percent, resets_at }) {
  const level = used_percent >= 100 ? 'full' : used_percent >= NEARLY * 100 ? 'near' : '';
  const until = resets_at ? `, until ${full(resets_at * 1000)}` : '';
  return html`<span class="cost usage" title="${used_percent} % of the ${label} limit of ${coding_agent} is used${until}">
    <span class="meter ${level}" role="meter" aria-label="${label} limit of ${coding_agent}" aria-valuemin="0" aria-valuemax="100"
      aria-valuenow=${used_percent}><i ${css({ width: `${Math.min(100, used_percent)}%` })}></i></span>
    <span class="of">${label} ${used_percent} %</span></span>`;
}

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
