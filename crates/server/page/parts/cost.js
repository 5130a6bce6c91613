// Tables of cost: by state, model and agent.

import { html, nothing } from '../html.js';
import { duration, money, state, tokens } from '../format.js';
import { css } from './css.js';

/** @import { Cost, CostRow as Account } from '../types.d.ts' */

/** How many rows a table has at first. */
const ROWS_MAX = 50;

/** @param {Account[]} rows */
const sorted = (rows) => [...rows].sort((one, other) => (other.cost_usd ?? 0) - (one.cost_usd ?? 0));

/** @param {string} title @param {Account[]} rows @param {(row: Account) => unknown} [name] */
export function costTable(title, rows, name = (row) => row.name) {
  const most = Math.max(...rows.map((row) => row.cost_usd ?? 0), 0);
  const shown = sorted(rows).slice(0, ROWS_MAX);
  const hasTokens = rows.some((row) => row.tokens && Object.keys(row.tokens).length);
  const hasTime = rows.some((row) => row.duration_ms !== undefined);
  return html`<section class="costs"><table><caption>${title}</caption>
    <thead><tr><th>${title.replace(/^Cost by /, '')}</th><th class="n">cost</th><th class="share"></th><th class="n">steps</th>${hasTime ? html`<th class="n">time</th>` : nothing}
      ${hasTokens ? html`<th class="n opt">input</th><th class="n opt">cached</th><th class="n opt">output</th>` : nothing}</tr></thead>
    <tbody>${shown.map((row) => html`<tr><td>${name(row)}</td><td class="n">${money(row.cost_usd)}</td>
      <td class="share"><span class="meter"><i ${css({ width: `${most ? ((row.cost_usd ?? 0) / most) * 100 : 0}%` })}></i></span></td>
      <td class="n">${row.steps.toLocaleString('en')}</td>${hasTime ? html`<td class="n">${duration(row.duration_ms)}</td>` : nothing}
      ${hasTokens ? html`<td class="n opt">${tokens(row.tokens?.input)}</td><td class="n opt">${tokens(row.tokens?.cache_read)}</td><td class="n opt">${tokens(row.tokens?.output)}</td>` : nothing}</tr>`)}</tbody>
  </table>${rows.length > shown.length ? html`<p class="dim small">${rows.length - shown.length} more, which cost less</p>` : nothing}</section>`;
}

/** @param {Cost | null} cost */
export function costTables(cost) {
  if (!cost) return nothing;
  if (!cost.total.steps) return html`<p class="empty">Nothing was paid for yet. Each turn of a coding agent appears here when it has ended.</p>`;
  return html`<p class="dim sum">${money(cost.total.cost_usd)} for ${cost.total.steps.toLocaleString('en')} steps, ${duration(cost.total.duration_ms)} of work${cost.total.tokens ? html`,
    ${tokens(cost.total.tokens.input)} tokens input, ${tokens(cost.total.tokens.cache_read)} cached, ${tokens(cost.total.tokens.output)} output` : nothing}</p>
    <div class="tables">${costTable('Cost by state', cost.by_state, (row) => state(row.name))}
    ${cost.by_model.length ? costTable('Cost by model', cost.by_model) : nothing}
    ${cost.by_version.length ? costTable('Cost by version of the coding agent', cost.by_version) : nothing}${costTable('Cost by agent', cost.by_agent)}</div>`;
}
