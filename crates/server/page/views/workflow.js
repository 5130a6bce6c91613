// A workflow: its graph, what lint finds, a form that starts it, its runs and what they cost.

import { html, nothing } from '../html.js';
import { ApiError, get, path, post } from '../api.js';
import { money, state } from '../format.js';
import { costTable } from '../parts/cost.js';
import { wordsOf } from '../parts/dialog.js';
import { GraphPart } from '../parts/graph.js';
import { sentence } from '../parts/markdown.js';
import { rowTemplate } from '../parts/row.js';
import { go, to } from '../router.js';
import { invalidate } from '../screen.js';
import { keyOf, store } from '../store.js';

/** @import { Finding, WorkflowDetail } from '../types.d.ts' */
/** @import { Route } from '../router.js' */

/** @param {Route} route @returns {import('../main.js').View} */
export function workflowView({ params: [key] }) {
  const url = path('workflows', key);
  /** @type {WorkflowDetail | null} */
  let workflow = null;
  /** @type {ApiError | null} */
  let failure = null;
  let problem = '';
  let isBusy = false;
  const graph = new GraphPart();

  async function load() {
    try {
      workflow = /** @type {WorkflowDetail} */ (await get(url));
      if (workflow.graph) graph.set(workflow.graph);
      failure = null;
    } catch (error) {
      if (error instanceof ApiError && error.status) failure = error;
      else setTimeout(() => workflow || load(), 1000);
    }
    invalidate();
  }
  load();

  /** @param {SubmitEvent} event */
  async function start(event) {
    event.preventDefault();
    if (isBusy || !workflow) return;
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const value = (/** @type {string} */ name) => String(form.get(name) ?? '').trim();
    const variables = Object.fromEntries(workflow.form.variables.map((name) => [name, value(`var.${name}`)]).filter(([, given]) => given));
    const body = {
      ...(value('input') ? { input: value('input') } : {}),
      ...(Object.keys(variables).length ? { variables } : {}),
      ...(value('budget') ? { budget_usd: Number(value('budget')) } : {}),
      ...(value('id') ? { id: value('id') } : {}),
    };
    isBusy = true;
    problem = '';
    invalidate();
    try {
      go(to.run(await post(`${url}/runs`, body)));
    } catch (error) {
      problem = wordsOf(error);
    }
    isBusy = false;
    invalidate();
  }

  /** @param {WorkflowDetail} workflow */
  function startForm({ form }) {
    if (store.server?.is_read_only) return html`<p class="dim">This server is read only: start it in a terminal.</p>`;
    const cap = form.budget_max_usd;
    return html`<form class="start" @submit=${start}><h2>Start</h2>
      ${form.takes_input ? html`<label>Input<textarea name="input" rows="3" maxlength="65536" ?required=${form.needs_input} placeholder="what this run is about"></textarea></label>` : nothing}
      ${form.variables.map((name) => html`<label>${name}<input name="var.${name}" maxlength="4096" spellcheck="false"></label>`)}
      <div class="pair"><label>Budget in US dollars${cap === null ? '' : html` <span class="dim">up to ${money(cap)}</span>`}<input name="budget" type="number" step="any" min="0.01" max=${cap ?? nothing}
        .defaultValue=${form.budget_usd === null ? '' : String(form.budget_usd)} placeholder="no limit"></label>
      <label>Name of the run <span class="dim">optional</span><input name="id" maxlength="64" pattern="[A-Za-z0-9._\\-]+" spellcheck="false" placeholder="generated"></label></div>
      ${problem ? html`<p class="banner problem" role="alert">Not started: ${problem}</p>` : nothing}
      <p><button class="main" ?disabled=${isBusy}>start</button></p></form>`;
  }

  /** @param {Finding[]} findings */
  function lint(findings) {
    if (!findings.length) return html`<p class="recorded">lint finds nothing</p>`;
    return html`<ul class="findings">${findings.map((finding) => html`<li class=${finding.severity}><b>${finding.severity}</b> <span class="dim">${finding.file ? state(finding.file) : ''}${finding.line ? `:${finding.line}` : ''}</span>
      ${sentence(finding.message)} <span class="chip">${finding.rule}</span>${finding.help ? html`<p class="dim">${sentence(finding.help)}</p>` : nothing}</li>`)}</ul>`;
  }

  return {
    title: () => workflow?.name ?? key,
    template: () => {
      if (failure && !workflow) return html`<div class="empty big"><h1>This workflow cannot be shown</h1><p>${wordsOf(failure)}</p><p><a href=${to.workflows()}>All workflows</a></p></div>`;
      if (!workflow) return html`<div class="page"></div>`;
      const runs = workflow.runs.map((row) => store.rows.get(keyOf(row)) ?? row);
      return html`<div class="page workflow"><nav class="crumbs"><a href=${to.workflows()}>workflows</a> / <span>${workflow.name}</span></nav>
        <div class="head"><h1>${workflow.name}</h1><span class="dim">${workflow.path}</span></div>
        ${workflow.problem ? html`<p class="banner problem">${sentence(workflow.problem)}</p>` : nothing}
        <div class="halves"><div>${graph.template()}</div><div>${startForm(workflow)}<section class="lint"><h2>Lint</h2>${lint(workflow.findings)}</section></div></div>
        <section class="group"><h2>Runs <span class="count">${runs.length || ''}</span></h2>
          ${runs.length ? html`<ul class="rows">${runs.map((row) => rowTemplate(row))}</ul>` : html`<p class="empty">It was not run yet. Start it above.</p>`}</section>
        ${workflow.cost_by_state.some((row) => row.steps) ? costTable('Cost by state', workflow.cost_by_state, (row) => state(row.name)) : nothing}</div>`;
    },
    keys: () => [
      { key: 's', name: 'fill in the start form', run: () => /** @type {HTMLElement | null} */ (document.querySelector('.start textarea, .start input'))?.focus() },
      { key: 'Escape', name: 'all workflows', run: () => go(to.workflows()) },
    ],
  };
}
