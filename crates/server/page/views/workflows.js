// The workflows that can be started.

import { html, nothing } from '../html.js';
import { get } from '../api.js';
import { plural } from '../format.js';
import { say, wordsOf } from '../parts/dialog.js';
import { to } from '../router.js';
import { invalidate } from '../screen.js';
import { store } from '../store.js';

/** @import { Workflow } from '../types.d.ts' */

/** @returns {import('../main.js').View} */
export function workflowsView() {
  /** @type {Workflow[] | null} */
  let workflows = null;
  get('/api/workflows').then((/** @type {{ workflows: Workflow[] }} */ found) => {
    workflows = found.workflows;
    invalidate();
  }).catch((error) => say(wordsOf(error), true));

  /** @param {Workflow} workflow */
  function row(workflow) {
    const project = store.server?.projects.find((known) => known.project === workflow.project)?.name ?? workflow.project;
    const finding = workflow.problem ?? (workflow.errors ? plural(workflow.errors, 'error') : workflow.warnings ? plural(workflow.warnings, 'warning') : '');
    return html`<li class="row flow"><a class="cover" href=${to.workflow(workflow.workflow)} aria-label=${workflow.name}></a>
      <span class="name">${workflow.name}</span><span class="what dim" title=${workflow.path}>${project} · ${workflow.path}</span>
      <span class=${workflow.errors || workflow.problem ? 'problem' : 'warns'}>${finding}</span><span class="dim n">${plural(workflow.states, 'state')}</span><span class="dim n">${plural(workflow.runs, 'run')}</span></li>`;
  }

  return {
    title: () => 'workflows',
    template: () => html`<div class="page"><section class="group"><h2>Workflows <span class="count">${workflows?.length ?? ''}</span></h2>
      ${workflows?.length ? html`<ul class="rows">${workflows.map(row)}</ul>` : nothing}
      ${workflows?.length === 0 ? html`<div class="empty"><p>A directory with a START state, or a zip archive of one, appears here if it is in the directory of a project or under a <code>--root</code> of <code>raymond serve</code>.</p>
        <p>Make a first one: <code>raymond new hello</code></p></div>` : nothing}</section></div>`,
  };
}
