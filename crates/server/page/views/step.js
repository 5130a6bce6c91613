// A step: what was sent, said, done and answered, what it cost; beside it the steps of the same agent.

import { html, nothing } from '../html.js';
import { tell } from '../actions.js';
import { ApiError, get, path } from '../api.js';
import { age, duration, full, money, now, state, tokens } from '../format.js';
import { ChangesPart } from '../parts/changes.js';
import { say, wordsOf } from '../parts/dialog.js';
import { eventRow } from '../parts/log.js';
import { RawPart } from '../parts/raw.js';
import { endShape, icon } from '../parts/status.js';
import { endOf, StepsPart } from '../parts/steps.js';
import { TranscriptPart } from '../parts/transcript.js';
import { go, setQuery, to } from '../router.js';
import { invalidate, seldom } from '../screen.js';
import { store } from '../store.js';

/** @import { Step, StepDetail } from '../types.d.ts' */
/** @import { Route } from '../router.js' */

const TABS = ['transcript', 'raw', 'log', 'changes'];
/** A step that runs is looked at again this often, for its cost and its files. */
const AGAIN_MS = 5000;
/** At most this far from the end a reader counts as being there. */
const END_PX = 48;

/** The steps of one agent, narrow. */
class AgentSteps extends StepsPart {
  current = '';

  /** @param {Step} step @override */
  row(step) {
    return html`<div class="step narrow ${step.step === this.current ? 'current' : ''}"><a class="cover" href=${to.step(this.run, step.step)} aria-label=${step.step}></a>
      ${icon(endShape(step.end))}<span class="state">${state(step.state)}</span><span class="long">${step.number}</span></div>`;
  }
}

/** @param {Route} route @returns {import('../main.js').View} */
export function stepView({ params: [project, name, stepName], query: first }) {
  let query = first;
  const id = { project, run: name };
  const url = path('runs', project, name, 'steps', stepName);
  const agent = stepName.replace(/\.\d+$/, '');
  /** @type {StepDetail | null} */
  let step = null;
  /** @type {ApiError | null} */
  let failure = null;
  let isClosed = false;
  let isAtEnd = true;
  const list = new AgentSteps(id);
  list.current = stepName;
  list.setFilter({ state: '', agent });
  const raw = new RawPart(url);
  const transcript = new TranscriptPart(url, () => {
    load();
    list.load();
  });
  const changes = new ChangesPart(id, agent);
  /** Only a worker with a worktree has changes of its own. */
  const tabs = () => TABS.filter((name) => name !== 'changes' || step?.worktree);
  const tab = () => query.get('tab') ?? 'transcript';
  const again = seldom(AGAIN_MS, () => load());

  async function load() {
    if (isClosed) return;
    try {
      step = await get(url);
      failure = null;
    } catch (error) {
      if (error instanceof ApiError && error.status) failure = error;
    }
    if (!failure && (!step || (step.end === null && !transcript.isOver))) again();
    invalidate();
  }
  load();
  transcript.load();

  const end = () => document.documentElement.scrollHeight - innerHeight;
  const scrolled = () => {
    isAtEnd = scrollY >= end() - END_PX;
    invalidate();
  };
  addEventListener('scroll', scrolled, { passive: true });
  const isLive = () => !transcript.isOver;
  const toEnd = () => scrollTo(0, end());

  /** @param {StepDetail} step */
  function header(step) {
    const long = step.duration_ms ?? (step.started_at === null ? null : (step.ended_at ?? now()) - step.started_at);
    const spent = step.tokens;
    return html`<div class="head"><h1>${state(step.state)} <span class="dim">${step.step}</span></h1>
      <span class="status ${endShape(step.end)}">${icon(endShape(step.end))}<span class="end">${endOf(step)}</span></span></div>
      <p class="facts-line dim">${[
        step.attempt > 1 ? `attempt ${step.attempt}` : '',
        step.model ?? (step.kind === 'turn' ? '' : step.kind),
        step.effort ? `effort ${step.effort}` : '',
        long === null ? '' : duration(long),
        spent && step.kind === 'turn' ? `${tokens(spent.input)} input, ${tokens(spent.cache_read)} cached, ${tokens(spent.output)} output` : '',
        step.kind === 'turn' && step.end !== null ? money(step.cost_usd) : '',
        step.session ? `session ${step.session.slice(0, 8)}` : '',
      ].filter(Boolean).map((part) => html`<span>${part}</span>`)}<time title=${full(step.started_at)}>${age(step.started_at)} ago</time></p>
      ${step.allowed?.length ? html`<p class="facts-line dim">may end with <span class="chips">${step.allowed.map((tag) => html`<span class="chip">${tag}</span>`)}</span></p>` : nothing}
      ${step.denied?.length ? html`<p class="banner you">Not allowed: ${step.denied.join(', ')}. The settings of the coding agent decide what it may use.</p>` : nothing}`;
  }

  /** A field for a message to the agent at work. */
  function teller() {
    if (step?.kind !== 'turn' || store.server?.is_read_only) return nothing;
    return html`<form class="tell" @submit=${sendMessage}>
      <input name="text" aria-label="message to ${agent}" placeholder="tell ${agent} something" autocomplete="off" required>
      <button>tell</button></form>`;
  }

  /** @param {SubmitEvent} event */
  async function sendMessage(event) {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    try {
      await tell(id, agent, String(new FormData(form).get('text')));
      form.reset();
    } catch (error) {
      say(`${agent} was not told: ${wordsOf(error)}`, true);
    }
  }

  function body() {
    const chosen = tab();
    if (chosen === 'raw') return step ? raw.template(step, query.get('file') ?? '', (file) => setQuery({ file })) : nothing;
    if (chosen === 'changes') return step?.worktree ? changes.template(step.worktree) : nothing;
    if (chosen === 'log') return step?.events?.length ? html`<div class="log">${step.events.map((event) => eventRow(event, id))}</div>` : html`<p class="empty">Nothing was recorded about this step yet.</p>`;
    return html`${transcript.template()}${isLive() ? html`<p class="live dim">${icon('running')} goes on</p>${teller()}` : nothing}
      ${step?.following && transcript.isOver ? html`<p class="following"><a href=${to.step(id, step.following)}>next step ${step.following} →</a></p>` : nothing}`;
  }

  return {
    title: () => `${state(step?.state) || stepName} · ${name}`,
    query: (changed) => { query = changed; },
    template: () => {
      if (failure && !step) return html`<div class="empty big"><h1>This step cannot be shown</h1><p>${wordsOf(failure)}</p><p><a href=${to.run(id)}>${name}</a></p></div>`;
      if (isLive() && isAtEnd && tab() === 'transcript') requestAnimationFrame(toEnd);
      return html`<div class="page step-page"><nav class="crumbs"><a href=${to.home()}>runs</a> / <a href=${to.run(id)}>${name}</a> / <a href=${to.run(id, { agent })}>${agent}</a> / <span>${stepName}</span></nav>
        <div class="columns"><aside class="side" aria-label="steps of ${agent}">${list.template()}</aside>
        <article>${step ? header(step) : nothing}
          <div class="tabs" role="tablist">${tabs().map((name) => html`<button role="tab" aria-selected=${name === tab()} @click=${() => setQuery({ tab: name === 'transcript' ? null : name, file: null })}>${name}</button>`)}</div>
          <div class="tab">${body()}</div></article></div>
        ${isLive() && !isAtEnd && tab() === 'transcript' ? html`<button class="to-end" @click=${toEnd}>↓ newest</button>` : nothing}</div>`;
    },
    keys: () => [
      { key: 'j', name: 'next step of this agent', run: () => { if (step?.following) go(to.step(id, step.following)); } },
      { key: 'k', name: 'previous step of this agent', run: () => { if (step?.previous) go(to.step(id, step.previous)); } },
      ...tabs().map((name, index) => ({ key: String(index + 1), name, run: () => setQuery({ tab: name === 'transcript' ? null : name }) })),
      { key: 'Escape', name: 'back to the run', run: () => go(to.run(id)) },
    ],
    close: () => {
      isClosed = true;
      transcript.isClosed = true;
      transcript.close();
      removeEventListener('scroll', scrolled);
    },
  };
}
