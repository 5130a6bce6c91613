// What people do to runs and asks. Each returns when the server has confirmed it; what failed is said, and stays on the page.

import { html } from './html.js';
import { ApiError, path, post } from './api.js';
import { money, now } from './format.js';
import { ask as askPerson, say, wordsOf } from './parts/dialog.js';
import { invalidate } from './screen.js';
import { store } from './store.js';

/** @import { Ask, Row, Run } from './types.d.ts' */
/** @typedef {{ state: 'sending' } | { state: 'recorded', at: number, to: string | null } | { state: 'failed', why: string, isUncertain: boolean }} Sent `isUncertain`: the server may have recorded it */

/** Answers under way, by ask. @type {Map<string, Sent>} */
const sent = new Map();

/** @param {Ask} ask */
const askKey = (ask) => `${ask.project}/${ask.run}/${ask.ask}`;

/** What became of an answer that was sent from here. @param {Ask} ask */
export function sentOf(ask) {
  return sent.get(askKey(ask));
}

/** What failed about an answer, for people. @param {Extract<Sent, { state: 'failed' }>} sent */
export function failureWords({ why, isUncertain }) {
  return `${isUncertain ? 'Not confirmed' : 'Not recorded'}: ${why}`;
}

/** Gives a choice of a question in a list. A question that somebody else has answered leaves the list, so what happened is said. @param {Ask} ask @param {string} label */
export async function choose(ask, label) {
  await answer(ask, { label });
  const done = sentOf(ask);
  if (done?.state === 'failed' && !done.isUncertain) say(`${ask.run}, ${label}: ${failureWords(done)}`, true);
}

/** @param {Ask} ask @param {{ label?: string, text?: string, files?: string[] }} body */
export async function answer(ask, body) {
  const known = sentOf(ask);
  if (known?.state === 'sending' || known?.state === 'recorded') return;
  sent.set(askKey(ask), { state: 'sending' });
  invalidate();
  try {
    /** @type {{ at?: number, to?: string }} */
    const done = await post(path('asks', ask.project, ask.run, ask.ask, 'answer'), body);
    sent.set(askKey(ask), { state: 'recorded', at: done.at ?? now(), to: done.to ?? null });
  } catch (error) {
    sent.set(askKey(ask), { state: 'failed', why: wordsOf(error), isUncertain: !(error instanceof ApiError && error.status) });
  }
  invalidate();
}

/** @param {Row} row @param {string} verb @param {object} body */
function change(row, verb, body) {
  return post(path('runs', row.project, row.run, verb), body);
}

/** @param {Row} row */
export function isOverBudget(row) {
  return row.budget_usd != null && (row.total_cost_usd ?? 0) >= row.budget_usd;
}

/** Whether a change makes sense for a row of a list. @param {Row} row @param {string} verb */
export function can(row, verb) {
  // Of a run that cannot be read to its end nobody knows how it stands: every change of it is refused.
  if (store.server?.is_read_only || row.error) return false;
  const known = /** @type {Partial<Run>} */ (row).can;
  if (known) return known.includes(verb);
  if (verb === 'resume') return ['failed', 'died', 'stopped', 'paused'].includes(row.status);
  if (verb === 'stop') return row.status === 'running';
  return !['completed', 'cancelled', 'unreadable', 'foreign'].includes(row.status);
}

/** @param {Row} row */
export async function resume(row) {
  if (row.status === 'stopped' && isOverBudget(row)) return raise(row);
  try {
    await change(row, 'resume', {});
    say(`${row.run} goes on`);
  } catch (error) {
    say(`${row.run} was not resumed: ${wordsOf(error)}`, true);
  }
}

/** Sends a message to an agent. @param {{ project: string, run: string }} run @param {string} agent @param {string} text */
export async function tell(run, agent, text) {
  await post(path('runs', run.project, run.run, 'tell'), { agent, text });
  say(`${agent} reads it at its next tool call, or with its next prompt`);
}

/** Asks for a message to one of these agents. @param {Row} row @param {string[]} agents */
export function askToTell(row, agents) {
  askPerson({
    title: `Tell ${agents.length === 1 ? agents[0] : 'an agent'}`,
    body: html`${agents.length === 1 ? '' : html`<label>Agent <select name="agent">${agents.map((agent) => html`<option>${agent}</option>`)}</select></label>`}
      <label>Message <textarea name="text" rows="3" required autofocus></textarea></label>`,
    action: 'tell',
    run: (form) => tell(row, String(form.get('agent') ?? agents[0]), String(form.get('text'))),
  });
}

/** @param {Row} row */
export function stop(row) {
  askPerson({
    title: `Stop ${row.run}?`,
    body: html`<p>Nothing new starts, and running steps may end. It can be resumed later.</p>
      <label class="check"><input type="checkbox" name="now"> also kill running steps</label>`,
    action: 'stop',
    run: async (form) => {
      await change(row, 'stop', { now: form.get('now') !== null });
      say(`${row.run} stops`);
    },
  });
}

/** @param {Row[]} rows @param {() => void} [then] */
export function cancel(rows, then) {
  const what = rows.length === 1 ? rows[0].run : `${rows.length} runs`;
  askPerson({
    title: `Cancel ${what}?`,
    body: html`<p>${rows.length === 1 ? 'Its' : 'Their'} processes are killed, and a cancelled run cannot be resumed.</p>`,
    action: 'cancel for good',
    isGrave: true,
    run: () => each(rows, (row) => change(row, 'cancel', {}), 'cancelled').then(then),
  });
}

/** @param {Row[]} rows @param {() => void} then */
export function resumeAll(rows, then) {
  return each(rows, (row) => change(row, 'resume', {}), 'resumed').then(then, (error) => say(wordsOf(error), true));
}

/** @param {Row[]} rows @param {(row: Row) => Promise<unknown>} act @param {string} done */
async function each(rows, act, done) {
  const failures = [];
  for (const row of rows) {
    try {
      await act(row);
    } catch (error) {
      failures.push(`${row.run}: ${wordsOf(error)}`);
    }
  }
  if (failures.length) throw new Error(failures.join('; '));
  say(`${rows.length === 1 ? rows[0].run : `${rows.length} runs`} ${done}`);
}

/** Asks for a higher budget; a run that was stopped goes on with it. @param {Row} row */
export function raise(row) {
  const goesOn = can(row, 'resume');
  const cap = store.server?.budget_max_usd ?? null;
  const suggested = Math.max((row.budget_usd ?? 5) * 2, Math.ceil((row.total_cost_usd ?? 0) + 1));
  const value = cap === null ? suggested : Math.max(Math.min(suggested, cap), row.budget_usd ?? 0);
  askPerson({
    title: `Budget of ${row.run}`,
    body: html`<p>It has cost ${money(row.total_cost_usd)}${row.budget_usd ? html` of ${money(row.budget_usd)}` : ''}.
      ${cap === null ? '' : html`This server allows up to ${money(cap)}.`}</p>
      <label>New budget in US dollars <input name="budget" type="number" min="0.01" step="any" required autofocus .value=${String(value)}></label>`,
    action: goesOn ? 'raise and resume' : 'raise',
    run: async (form) => {
      const budget_usd = Number(form.get('budget'));
      if (goesOn) await change(row, 'resume', { budget_usd });
      else await change(row, 'limits', { budget_usd });
      say(`${row.run} may cost ${money(budget_usd)}`);
    },
  });
}
