// A run as a row of a list, with what can be done about it there.

import { html, nothing } from '../html.js';
import { can, choose, failureWords, isOverBudget, raise, resume, sentOf } from '../actions.js';
import { age, clock, full, moment, now, plural, short, state } from '../format.js';
import { to } from '../router.js';
import { store } from '../store.js';
import { costBar } from './bar.js';
import { sentence } from './markdown.js';
import { icon, statusOf } from './status.js';

/** @import { Ask, Row } from '../types.d.ts' */
/** @typedef {{ ask?: Ask | null, isCursor?: boolean, isChosen?: boolean, isChoosing?: boolean, choose?: (row: Row) => void }} RowOptions */

/** After this long without news, a row says so. */
export const QUIET_MS = 5 * 60_000;
/** How many characters of a question are seen in a row, on every screen. */
const SEEN_MAX = 200;
/** How many choices fit into a row. */
const CHOICES_MAX = 3;

/** What a run does or waits for. @param {Row} row */
function what(row) {
  if (row.group === 'ended') {
    return row.result ? html`<q>${row.result}</q>` : html`<span class="dim">${row.status === 'cancelled' ? 'cancelled' : 'no result'}</span>`;
  }
  if (row.group === 'running' || (row.status === 'running' && !row.why)) return running(row);
  const at = row.usage_limit?.resets_at;
  if (row.usage_limit) {
    return at ? html`usage limit, goes on at ${moment(at * 1000)} <span class="dim">(in ${short(at * 1000 - now())})</span>` : html`usage limit, goes on when the provider allows it`;
  }
  const why = row.why ?? row.error ?? row.halted ?? row.status;
  // A row has no room for a whole path, and the end of the sentence says what is wrong with the file.
  return row.error ? html`<span title=${why}>${sentence(why.replaceAll(/(?:\/[^/\s]+)+\/(?=[^/\s])/g, ''))}</span>` : sentence(why);
}

/** @param {Row} row */
function running(row) {
  const doing = row.now;
  const quiet = row.last_at ? now() - Math.max(row.last_at, doing?.since ?? 0, doing?.heard_at ?? 0) : 0;
  return html`${doing ? html`<b class="state">${state(doing.state)}</b><span class="dim"> · ${doing.agent}${doing.activity ? ': ' : ''}</span>${doing.activity ?? ''}` : html`<span class="dim">begins</span>`}
    ${(row.agents ?? 0) > 1 ? html`<span class="pill">${plural(row.agents, 'agent')}</span>` : nothing}
    ${quiet > QUIET_MS ? html`<span class="pill">no news for ${short(quiet)}</span>` : nothing}`;
}

/** Whether all of a question is seen where it is shown in a line, as it was written: only then may it be answered there. @param {Ask} ask */
export function isSeenWhole(ask) {
  return ask.is_whole && ask.question.length <= SEEN_MAX && !ask.question.trim().includes('\n');
}

/** The choices of a question where it is shown in short, or the way to its page. @param {Ask} ask */
export function choices(ask) {
  if (store.server?.is_read_only) return html`<a class="button" href=${to.ask(ask)}>open</a>`;
  const sent = sentOf(ask);
  if (sent?.state === 'recorded') return html`<span class="recorded">recorded ${clock(sent.at)}${sent.to ? html`, goes on at ${state(sent.to)}` : ''}</span>`;
  const isBusy = sent?.state === 'sending';
  const failed = sent?.state === 'failed' ? html`<span class="problem" role="alert">${failureWords(sent)}</span>` : nothing;
  const few = ask.choices.length <= CHOICES_MAX && isSeenWhole(ask) ? ask.choices : [];
  return html`${failed}${few.map((choice) => html`<button ?disabled=${isBusy} title=${choice.to ? `goes on at ${state(choice.to)}` : ''}
    @click=${() => choose(ask, choice.label)}>${choice.label}</button>`)}
    <a class="button" href=${to.ask(ask)}>${few.length ? 'open' : 'answer'}</a>`;
}

/** @param {Row} row @param {Ask | null | undefined} ask */
function actions(row, ask) {
  if (ask) return choices(ask);
  if (row.group !== 'needs_you' && row.status !== 'paused') return nothing;
  if (row.error) return html`<a class="button" href=${to.run(row)}>open</a>`;
  if (!can(row, 'resume')) return nothing;
  if (row.status === 'stopped' && isOverBudget(row)) return html`<button @click=${() => raise(row)}>raise budget</button>`;
  return html`<button @click=${() => resume(row)}>resume</button>`;
}

/** @param {Row} row @param {RowOptions} [options] */
export function rowTemplate(row, options = {}) {
  const { ask } = options;
  const { shape, word } = statusOf(row);
  const since = ask?.asked_at ?? row.waiting_since ?? (row.group === 'ended' ? row.last_at : row.started_at);
  const href = ask ? to.ask(ask) : to.run(row);
  const name = row.name ?? row.run;
  return html`<li class="row ${row.group} ${ask ? 'asking' : ''} ${options.isCursor ? 'cursor' : ''} ${options.isChosen ? 'picked' : ''} ${options.isChoosing ? 'picking' : ''}" data-run=${row.run}>
    <a class="cover" href=${href} aria-label="${name} ${row.run}, ${word}"></a>
    <span class="mark" title=${word}>${icon(shape)}${options.choose ? html`<input type="checkbox" aria-label="select ${row.run}" .checked=${options.isChosen ?? false}
      @change=${() => options.choose?.(row)}>` : nothing}</span>
    <span class="who"><span class="name">${name}</span> <span class="id">${row.run.startsWith(`${name}-`) ? row.run.slice(name.length + 1) : row.run === name ? '' : row.run}</span></span>
    <span class="what">${ask ? html`<span class="dim">${ask.agent} asks: </span>${ask.question}` : what(row)}</span>
    <span class="acts">${actions(row, ask)}</span>
    ${costBar(row.total_cost_usd, row.group === 'ended' ? null : row.budget_usd)}
    <time class="age" title=${full(since)}>${age(since)}</time>
  </li>`;
}
