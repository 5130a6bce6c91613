// The agents of a run: where each is, what it does, and where it returns to.

import { html, nothing } from '../html.js';
import { repeat } from '../vendor/lit-html/directives/repeat.js';
import { age, full, money, now, plural, short, state } from '../format.js';
import { to } from '../router.js';
import { invalidate } from '../screen.js';
import { QUIET_MS } from './row.js';
import { sentence } from './markdown.js';
import { icon, phaseShape } from './status.js';
import { Virtual } from './virtual.js';

/** @import { Agent, Run } from '../types.d.ts' */

/** Above this many agents each has one line of a fixed height. */
const ROOMY_MAX = 100;
const HEIGHT = 32;
/** The heights of the title and of an agent with all its lines. */
const HEAD = 40;
const ROW = 54;
/** So many agents fit into the box. */
const FEW_MAX = 12;
/** How much of an attribute is shown. */
const VALUE_MAX = 40;

/** @param {Agent} agent */
function attributes(agent) {
  return Object.entries(agent.attributes ?? {}).map(([name, value]) => {
    const text = String(value);
    return html`<span class="attribute" title="${name}=${text}">${name}=${text.length > VALUE_MAX ? `${text.slice(0, VALUE_MAX)}…` : text}</span>`;
  });
}

/** @param {Agent} agent */
function doing(agent) {
  if (agent.phase === 'failed') return html`<span class="problem" title=${agent.error ?? ''}>${sentence(agent.error)}</span>`;
  if (agent.is_ended) return agent.result ? html`<q class="dim">${agent.result}</q>` : html`<span class="dim">ended</span>`;
  if (agent.phase === 'limited') return html`<span class="dim">waits for the usage limit</span>`;
  if (agent.phase === 'interrupted') return html`<span class="dim">interrupted</span>`;
  if (agent.phase === 'asking') return html`<span class="ask">asks a person</span>`;
  if (agent.waits_until) return html`<span class="dim">${agent.waits_why ?? 'waits'}, again ${agent.waits_until > now() ? html`in ${short(agent.waits_until - now())}` : 'soon'}</span>`;
  if (agent.workers) return html`<span class="dim">waits for its workers, ${agent.workers.ended} of ${agent.workers.all} ended</span>`;
  if (agent.phase === 'parked') return html`<span class="dim">waits for a place</span>`;
  if (agent.phase !== 'running' && agent.phase !== 'starting') return html`<span class="dim">${agent.phase}</span>`;
  const quiet = now() - Math.max(agent.heard_at ?? 0, agent.since ?? 0);
  return html`${agent.activity ?? nothing}${quiet > QUIET_MS ? html`<span class="pill">no news for ${short(quiet)}</span>` : nothing}`;
}

export class AgentsPart {
  rows = new Virtual(HEIGHT);
  /** What the person chose; else those that ended are shown where there is room. @type {boolean | null} */
  showsEnded = null;

  /** How high the box should be for so many agents, in pixels. @param {number} count */
  height(count) {
    return HEAD + count * ROW;
  }

  /** @param {Run} run @param {Agent[]} agents */
  template(run, agents) {
    const living = agents.filter((agent) => !agent.is_ended);
    const ended = agents.filter((agent) => agent.is_ended);
    const showsEnded = !living.length || (this.showsEnded ?? agents.length <= FEW_MAX);
    const shown = showsEnded ? [...living, ...ended] : living;
    const isRoomy = shown.length <= ROOMY_MAX;
    const row = (/** @type {Agent} */ agent) => this.row(run, agent, isRoomy);
    const hidden = Math.max(0, (run.agents_born ?? agents.length) - living.length - ended.length);
    return html`<section class="agents" aria-label="agents">
      <h2>Agents <span class="count">${living.length ? plural(living.length, 'agent') : ''}${living.length && ended.length ? ', ' : ''}${ended.length ? `${(ended.length + hidden).toLocaleString('en')} ended` : ''}</span>
        ${living.length && ended.length ? html`<button class="quiet small" @click=${() => { this.showsEnded = !showsEnded; invalidate(); }}>${showsEnded ? 'hide ended' : 'show ended'}</button>` : nothing}</h2>
      <div class="scroll ${isRoomy ? '' : 'tight'}">${isRoomy ? repeat(shown, (agent) => agent.agent, row) : this.rows.template(shown, (agent) => agent.agent, row)}
      ${shown.length ? nothing : html`<p class="empty">No agent yet: the first one begins with the run.</p>`}</div></section>`;
  }

  /** @param {Run} run @param {Agent} agent @param {boolean} isRoomy */
  row(run, agent, isRoomy) {
    const step = agent.step ?? agent.steps;
    const address = step ? to.step(run, `${agent.agent}.${step}`) : to.run(run, { agent: agent.agent });
    const since = agent.is_ended ? agent.ended_at ?? agent.since : agent.since;
    return html`<div class="agent ${agent.phase}"><a class="cover" href=${address} aria-label=${agent.agent}></a>
      ${icon(phaseShape(agent.phase))}
      <span class="name">${agent.agent}</span>
      <span class="state">${state(agent.state)} ${attributes(agent)}</span>
      <span class="doing" title=${agent.activity ?? agent.result ?? ''}>${doing(agent)}</span>
      <span class="money">${agent.cost_usd ? money(agent.cost_usd) : ''}</span>
      <time class="age" title=${full(since)}>${age(since)}</time>
      ${isRoomy && agent.returns_to.length ? html`<span class="returns">↳ returns to ${agent.returns_to.map(state).join(', then ')}${agent.session ? html` <span class="mono">session ${agent.session.slice(0, 8)}</span>` : nothing}</span>` : nothing}
      ${isRoomy && agent.worktree && step ? html`<span class="returns">works on <a href=${to.step(run, `${agent.agent}.${step}`, { tab: 'changes' })}>${agent.worktree.branch}</a></span>` : nothing}
      ${isRoomy && agent.denied ? html`<span class="returns problem">${plural(agent.denied, 'use')} of tools not allowed</span>` : nothing}</div>`;
  }
}
