// What a worker has changed in its worktree, as a patch.

import { html, nothing } from '../html.js';
import { get, path } from '../api.js';
import { invalidate } from '../screen.js';
import { diffText } from './diff.js';
import { wordsOf } from './dialog.js';

/** @import { Row, Worktree } from '../types.d.ts' */

export class ChangesPart {
  /** @type {{ text: string, is_cut: boolean } | null} */
  diff = null;
  problem = '';
  isAsked = false;

  /** @param {Pick<Row, 'project' | 'run'>} run @param {string} agent */
  constructor(run, agent) {
    this.url = path('runs', run.project, run.run, 'agents', agent, 'diff');
  }

  async load() {
    this.isAsked = true;
    try {
      this.diff = await get(this.url);
      this.problem = '';
    } catch (error) {
      this.problem = wordsOf(error);
    }
    invalidate();
  }

  /** @param {Worktree} worktree */
  template(worktree) {
    if (!this.isAsked) queueMicrotask(() => this.load());
    return html`<p class="bar-of-files"><span class="chip">${worktree.branch}</span><span class="dim">since ${worktree.base.slice(0, 8)}, in ${worktree.path}</span>
        <span class="gap"></span><button @click=${() => this.load()}>read again</button></p>
      ${worktree.problem ? html`<p class="banner you">Not committed: ${worktree.problem}</p>` : nothing}
      ${this.problem ? html`<p class="banner problem" role="alert">${this.problem}</p>` : this.body()}`;
  }

  body() {
    if (!this.diff) return nothing;
    if (!this.diff.text) return html`<p class="empty">Nothing has been changed in this worktree. What its worker edits appears here, also before it is committed.</p>`;
    return html`${diffText(this.diff.text)}${this.diff.is_cut ? html`<p class="dim small">The rest is not shown here: <code>git diff</code> in the worktree has all of it.</p>` : nothing}`;
  }
}
