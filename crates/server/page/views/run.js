// A run: header, graph with agents on it, agents, timeline; and in tabs its steps, cost, log and settings.

import { html, nothing } from '../html.js';
import { askToTell, can, cancel, isOverBudget, raise, resume, stop } from '../actions.js';
import { ApiError, get, path, stream } from '../api.js';
import { age, duration, full, moment, now, plural, short, state } from '../format.js';
import { AgentsPart } from '../parts/agents.js';
import { costBar, usageBar } from '../parts/bar.js';
import { costTables } from '../parts/cost.js';
import { css } from '../parts/css.js';
import { say, wordsOf } from '../parts/dialog.js';
import { GraphPart } from '../parts/graph.js';
import { LogPart } from '../parts/log.js';
import { sentence } from '../parts/markdown.js';
import { settings } from '../parts/settings.js';
import { choices } from '../parts/row.js';
import { icon, statusOf } from '../parts/status.js';
import { StepsPart } from '../parts/steps.js';
import { TimelinePart } from '../parts/timeline.js';
import { go, setQuery, to } from '../router.js';
import { Late, invalidate, seldom } from '../screen.js';
import { store } from '../store.js';

/** @import { Agent, Cost, Graph, Run, Step, Timeline } from '../types.d.ts' */
/** @import { Route } from '../router.js' */

const TABS = ['steps', 'cost', 'log', 'settings'];
/** The graph's numbers, the cost and the whole timeline are fetched at most this often. */
const FETCH_MS = 2000;
/** How many questions stand above the graph. */
const ASKS_MAX = 3;

/** The agents with the phase that they are really in: an agent begins a step, but nothing does it if the run waits or rests. @param {Run} run @param {Agent[]} agents */
function shown(run, agents) {
  const isLive = run.status === 'running';
  if (isLive && !run.usage_limit) return agents;
  const phaseOf = (/** @type {Agent} */ agent) => (!isLive && /^(starting|running)$/.test(agent.phase) ? 'interrupted' : agent.phase === 'starting' ? 'limited' : agent.phase);
  return agents.map((agent) => ({ ...agent, phase: phaseOf(agent) }));
}

/** @param {Route} route @returns {import('../main.js').View} */
export function runView({ params: [project, name], query: first }) {
  let query = first;
  const id = { project, run: name };
  const url = path('runs', project, name);
  /** @type {Run | null} */
  let run = null;
  /** @type {Map<string, Agent>} */
  const agents = new Map();
  /** @type {Cost | null} */
  let cost = null;
  /** @type {ApiError | null} */
  let failure = null;
  let isRemoved = false;
  let close = () => {};
  let isClosed = false;

  const openAgent = (/** @type {Agent} */ agent) => {
    const step = agent.step ?? agent.steps;
    if (step) go(to.step(id, `${agent.agent}.${step}`));
  };
  const graph = new GraphPart({ isRun: true, onState: (name) => setQuery({ tab: null, state: query.get('state') === name ? null : name }), onAgent: openAgent });
  const timeline = new TimelinePart((step) => go(to.step(id, step)), (agent) => to.run(id, { agent }));
  const list = new AgentsPart();
  const steps = new StepsPart(id);
  const log = new LogPart(id);
  const late = new Late((/** @type {Step} */ step) => putInTimeline(step));
  const tab = () => query.get('tab') ?? 'steps';

  /** @template T @param {string} part @param {(data: T) => void} then */
  const fetchPart = async (part, then) => {
    try {
      then(await get(`${url}/${part}`));
    } catch { /* the footer says that the connection is lost */ }
    invalidate();
  };
  const fetchGraph = seldom(FETCH_MS, () => fetchPart('graph', (/** @type {Graph} */ data) => graph.set(data)));
  const fetchTimeline = seldom(FETCH_MS, () => late.during(() => fetchPart('timeline', setTimeline)));
  const fetchCost = seldom(FETCH_MS, () => fetchPart('cost', (/** @type {Cost} */ data) => (cost = data)));

  /** Fetches what the tab shows and the stream does not bring. */
  function fetchTab() {
    if (tab() === 'cost') fetchCost();
    if (tab() === 'log') {
      if (log.next === null) log.load(false);
      else log.again();
    }
    if (tab() === 'steps') steps.setFilter({ state: query.get('state') ?? '', agent: query.get('agent') ?? '' });
  }

  /** @param {string} event @param {any} data */
  function take(event, data) {
    if (event === 'run') run = { ...run, ...data };
    if (event === 'removed') isRemoved = true;
    if (event === 'agent') takeAgent(data);
    if (event === 'step') {
      const step = /** @type {Step} */ (data);
      steps.put(step);
      putInTimeline(step);
    }
    if (event === 'steps') {
      steps.again();
      fetchTimeline();
    }
    if (event === 'step' || event === 'steps') {
      fetchGraph();
      if (tab() !== 'steps') fetchTab();
    }
    invalidate();
  }

  /** @param {Timeline} data */
  function setTimeline(data) {
    timeline.set(data);
    for (const agent of agents.values()) if (agent.is_ended) timeline.end(agent.agent);
  }

  /** @param {Step} step */
  function putInTimeline(step) {
    late.keep(step);
    timeline.put(step, agents.get(step.agent)?.parent ?? null);
  }

  /** @param {Agent} agent */
  function takeAgent(agent) {
    const before = agents.get(agent.agent);
    agents.set(agent.agent, agent);
    if (agent.is_ended) timeline.end(agent.agent);
    graph.travel(agent, before);
  }

  async function open() {
    try {
      /** @type {Run & { agents: Agent[] | number }} */
      const found = await get(url);
      if (isClosed) return;
      for (const agent of Array.isArray(found.agents) ? found.agents : []) agents.set(agent.agent, agent);
      run = /** @type {Run} */ (/** @type {unknown} */ ({ ...found, agents: undefined }));
      close = stream(`${url}/events`, { from: found.offset, on: take, refused: (error) => { failure = error; invalidate(); } });
      fetchGraph();
      fetchTimeline();
      fetchTab();
    } catch (error) {
      if (error instanceof ApiError && error.status) failure = error;
      else setTimeout(() => isClosed || open(), 1000);
    }
    invalidate();
  }
  open();

  /** The agents that can be told something. @param {Run} run */
  const tellable = (run) => (can(run, 'tell') ? [...agents.values()].filter((agent) => !agent.is_ended).map((agent) => agent.agent) : []);

  /** @param {Run} run */
  function header(run) {
    const { shape, word } = statusOf(run);
    const long = run.started_at ? (run.ended_at ?? (run.status === 'running' ? now() : run.last_at) ?? now()) - run.started_at : null;
    const limit = run.max_iterations ? ` of ${run.max_iterations.toLocaleString('en')}` : '';
    return html`<div class="head">
      <h1>${run.workflow_key ? html`<a href=${to.workflow(run.workflow_key)}>${run.name}</a>` : run.name ?? run.run} <span class="dim">${run.run}</span></h1>
      <span class="status ${shape}">${icon(shape)}${word}</span>
      <span class="dim" title="started ${full(run.started_at)}">${duration(long)}${run.status === 'running' ? '' : html`, ${age(run.last_at)} ago`}</span>
      ${costBar(run.total_cost_usd, run.budget_usd)}
      <span class="dim">${plural(run.states_entered, 'state')}${limit}</span>
      ${run.coding_agents?.length ? html`<span class="dim" title="the coding agents that took its turns">${run.coding_agents.join(', ')}</span>` : nothing}
      ${(run.usage_windows ?? []).map(usageBar)}
      <span class="gap"></span>
      <span class="acts">
        ${can(run, 'resume') ? html`<button class="main" @click=${() => resume(run)}>${run.status === 'stopped' && isOverBudget(run) ? 'raise budget and resume' : 'resume'}</button>` : nothing}
        ${can(run, 'stop') ? html`<button @click=${() => stop(run)}>stop</button>` : nothing}
        ${tellable(run).length ? html`<button @click=${() => askToTell(run, tellable(run))}>tell</button>` : nothing}
        ${can(run, 'limits') ? html`<button @click=${() => raise(run)}>budget</button>` : nothing}
        ${can(run, 'cancel') ? html`<button @click=${() => cancel([run])}>cancel</button>` : nothing}
      </span></div>`;
  }

  /** What a reader should know first. @param {Run} run */
  function banners(run) {
    const asks = (run.asks ?? []).map((ask) => html`<div class="banner you asks"><p><b>${ask.agent} asks</b> ${ask.question}</p><span class="acts">${choices(ask)}</span></div>`);
    const limit = run.usage_limit;
    return html`${isRemoved ? html`<p class="banner problem">The files of this run were removed.</p>` : nothing}
      ${run.error ? html`<p class="banner">This run cannot be read to its end, so nothing can be done about it here: ${sentence(run.error)}. In a terminal, <code>raymond resume ${run.run}</code> says how to repair it.</p>` : nothing}
      ${asks.slice(0, ASKS_MAX)}${asks.length > ASKS_MAX ? html`<p class="banner you">${plural(asks.length - ASKS_MAX, 'further question')}: <a href=${to.home()}>all that needs you</a></p>` : nothing}
      ${run.why && run.group === 'needs_you' && !asks.length && !run.error ? html`<p class="banner ${run.status === 'failed' || run.status === 'died' ? '' : 'you'}">${sentence(run.why)}</p>` : nothing}
      ${limit ? html`<p class="banner you">All agents wait for the usage limit of the provider${limit.resets_at ? html`, until ${moment(limit.resets_at * 1000)} (in ${short(limit.resets_at * 1000 - now())})` : nothing}.</p>` : nothing}
      ${(run.stopped_agents ?? []).map(({ coding_agent: name, resets_at: at }) => html`<p class="banner you">The coding agent ${name} is not available${at ? html` until ${moment(at * 1000)}` : nothing}: others begin sessions for it.</p>`)}
      ${run.result ? html`<div class="result"><h3>Result</h3><p class="text">${run.result}</p></div>` : nothing}`;
  }

  function tabs() {
    const chosen = tab();
    const stateFilter = query.get('state');
    const agentFilter = query.get('agent');
    const chip = (/** @type {string} */ what, /** @type {string} */ value) => html`<button class="filter" title="remove the filter" @click=${() => setQuery({ [what]: null })}>${value} ×</button>`;
    return html`<div class="tabs" role="tablist">${TABS.map((name) => html`<button role="tab" aria-selected=${name === chosen} @click=${() => setQuery({ tab: name === 'steps' ? null : name })}>${name}
        ${name === 'steps' && steps.isLoaded ? html`<span class="count">${steps.count.toLocaleString('en')}</span>` : nothing}</button>`)}
      ${chosen === 'steps' && stateFilter ? chip('state', state(stateFilter)) : nothing}${chosen === 'steps' && agentFilter ? chip('agent', agentFilter) : nothing}</div>
      <div class="tab">${tabBody(chosen)}</div>`;
  }

  /** @param {string} chosen */
  function tabBody(chosen) {
    if (chosen === 'cost') return costTables(cost);
    if (chosen === 'log') return log.template();
    if (chosen === 'settings') return run ? settings(run) : nothing;
    return steps.template();
  }

  return {
    title: () => run?.name ?? name,
    query: (changed) => {
      query = changed;
      fetchTab();
    },
    template: () => {
      if (failure) return html`<div class="empty big"><h1>This run cannot be shown</h1><p>${wordsOf(failure)}</p><p><a href=${to.home()}>All runs</a></p></div>`;
      if (!run) return html`<div class="page wide run"><div class="head"><h1>${name}</h1></div>${store.lostSince === null ? nothing : html`<p class="empty">The server does not answer. This run appears as soon as it does.</p>`}</div>`;
      const everyone = shown(run, [...agents.values()]);
      steps.isLive = run.status === 'running';
      return html`<div class="page wide run">${header(run)}${banners(run)}
        <div class="top-half" ${css({ '--wanted': `${Math.max(graph.height(), list.height(everyone.length))}px` })}>${graph.template(everyone, query.get('state') ?? '')}${list.template(run, everyone)}</div>
        ${timeline.template(run.status === 'running')}${tabs()}</div>`;
    },
    keys: () => [
      { key: 'r', name: 'resume', run: () => { if (run && can(run, 'resume')) resume(run); } },
      { key: 's', name: 'stop', run: () => { if (run && can(run, 'stop')) stop(run); } },
      { key: 't', name: 'tell an agent something', run: () => { if (run && tellable(run).length) askToTell(run, tellable(run)); } },
      { key: 'b', name: 'change the budget', run: () => { if (run && can(run, 'limits')) raise(run); } },
      { key: 'a', name: 'answer', run: () => { const ask = run?.asks?.[0]; if (ask) go(to.ask(ask)); else say('this run asks nothing'); } },
      ...TABS.map((name, index) => ({ key: String(index + 1), name, run: () => setQuery({ tab: name === 'steps' ? null : name }) })),
      { key: 'Escape', name: 'back to all runs', run: () => go(to.home()) },
    ],
    close: () => {
      isClosed = true;
      close();
      timeline.close();
    },
  };
}
