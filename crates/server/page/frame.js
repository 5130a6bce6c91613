// What is around every page: project, search, what needs a person, and the state of the connection.

import { html, nothing, svg } from './html.js';
import { age, clock, money } from './format.js';
import { needsCount } from './needs.js';
import { dialogs } from './parts/dialog.js';
import { icon } from './parts/status.js';
import { go, here, setQuery, to } from './router.js';
import { invalidate } from './screen.js';
import { store } from './store.js';
import { isDark, switchTheme } from './theme.js';

/** @import { View } from './main.js' */

const SUN = svg`<circle cx="8" cy="8" r="3" class="line thin" /><path class="line thin" d="M8 1v1.6M8 13.4V15M1 8h1.6M13.4 8H15M3.05 3.05l1.1 1.1M11.85 11.85l1.1 1.1M3.05 12.95l1.1-1.1M11.85 4.15l1.1-1.1" />`;
const MOON = svg`<path class="line thin" d="M13.5 9.8A6 6 0 0 1 6.2 2.5a6 6 0 1 0 7.3 7.3z" />`;

/** @param {Record<string, string | null>} changes */
function filter(changes) {
  if (here().name !== '') go('#/');
  // After the page has changed.
  setTimeout(() => setQuery(changes));
}

/** @param {Event} event */
const valueOf = (event) => /** @type {HTMLInputElement} */ (event.target).value;

function header() {
  const { query } = here();
  const projects = store.server?.projects ?? [];
  const needs = needsCount();
  const chosen = query.get('project') ?? '';
  return html`<header class="top">
    <a class="brand" href=${to.home()}><img src="/icon.svg" alt="" width="20" height="20">raymond</a>
    <label class="project"><span class="aside">project</span>
      <select aria-label="project" @change=${(/** @type {Event} */ event) => filter({ project: valueOf(event) })}>
        <option value="" ?selected=${!chosen}>all projects</option>
        ${projects.map((project) => html`<option value=${project.project} title=${project.path} ?selected=${project.project === chosen}>${project.name}</option>`)}
      </select></label>
    <label class="search"><input type="search" placeholder="search runs…" aria-label="search runs" maxlength="200" spellcheck="false"
      .value=${query.get('text') ?? ''} @input=${(/** @type {Event} */ event) => filter({ text: valueOf(event) })}><kbd>/</kbd></label>
    <nav><a href=${to.workflows()}>workflows</a></nav>
    <span class="gap"></span>
    ${needs ? html`<a class="needs" href=${to.home()}>${icon('you')}<b>${needs}</b> <span>${needs === 1 ? 'needs you' : 'need you'}</span></a>` : nothing}
    <button class="quiet" title="light or dark" aria-label="switch between light and dark" @click=${() => { switchTheme(); invalidate(); }}>
      <svg viewBox="0 0 16 16" class="icon">${isDark() ? MOON : SUN}</svg></button>
  </header>`;
}

function footer() {
  const { summary, lostSince } = store;
  const link = lostSince === null
    ? html`<span class="link ${store.isLoaded ? 'on' : ''}"><i></i>${store.isLoaded ? 'connected' : store.refused ? 'not connected' : 'connecting'}</span>`
    : html`<span class="link off" role="status"><i></i>connection lost at ${clock(lostSince)}, ${age(lostSince)} ago; trying again</span>`;
  return html`<footer class="bottom">${link}
    ${summary ? html`<span>${summary.running} running</span>${summary.waiting ? html`<span>${summary.waiting} waiting</span>` : nothing}<span>${money(summary.cost_today_usd)} today</span>` : nothing}
    <span class="gap"></span>
    ${store.server?.is_read_only ? html`<span>read only</span>` : nothing}
    <span class="spare"><kbd>?</kbd> keys</span>
    ${store.server ? html`<span class="spare">${store.server.version}</span>` : nothing}
  </footer>`;
}

function locked() {
  return html`<div class="empty big"><h1>This page needs its link</h1>
    <p>The server answers only to a browser that has its token. Open the link that <code>raymond serve</code> printed, or type
    <code>raymond open</code>.</p></div>`;
}

/** @param {View} view */
export function frame(view) {
  return html`${header()}
    <main class=${store.lostSince === null ? '' : 'stale'}>${store.refused?.status === 401 ? locked() : view.template()}</main>
    ${footer()}${dialogs()}`;
}
