// With what a run was started.

import { html, nothing } from '../html.js';
import { full, moment } from '../format.js';
import { to } from '../router.js';

/** @import { Run } from '../types.d.ts' */

/** @param {unknown} value */
function words(value) {
  if (value === null || value === undefined || value === '') return html`<span class="dim">not set</span>`;
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/** @param {string} title @param {[string, unknown][]} pairs */
function table(title, pairs) {
  if (!pairs.length) return nothing;
  return html`<section class="facts"><h3>${title}</h3><dl>${pairs.map(([name, value]) => html`<dt>${name.replaceAll('_', ' ')}</dt><dd>${value}</dd>`)}</dl></section>`;
}

/** @param {Run} run */
export function settings(run) {
  const limits = Object.entries(run.limits ?? {}).map(([name, value]) => /** @type {[string, unknown]} */ ([name, value === null ? html`<span class="dim">no limit</span>` : words(value)]));
  return html`<div class="settings">
    ${table('Run', [
      ['run', run.run],
      ['workflow', run.workflow_key ? html`<a href=${to.workflow(run.workflow_key)}>${run.workflow}</a>` : words(run.workflow)],
      ['entry', words(run.entry)],
      ['directory', words(run.cwd)],
      ['started', run.started_at ? html`<time title=${full(run.started_at)}>${moment(run.started_at)}</time>` : words(null)],
      ['orchestrator', run.orchestrator ? `process ${run.orchestrator.pid} since ${moment(run.orchestrator.since)}` : html`<span class="dim">none: nothing runs</span>`],
      ['next command', run.next ? html`<code>${run.next}</code>` : words(null)],
    ])}
    ${table('Limits', limits)}
    ${table('Settings', Object.entries(run.settings ?? {}).map(([name, value]) => [name, words(value)]))}
    ${table('Variables', Object.entries(run.metadata ?? {}).map(([name, value]) => [name, words(value)]))}
    ${run.input ? html`<section class="facts"><h3>Input</h3><pre class="block">${run.input}</pre></section>` : nothing}
  </div>`;
}
