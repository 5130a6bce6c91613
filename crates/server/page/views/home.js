// Home: every run as a row, those that need a person first.

import { html, nothing } from '../html.js';
import { repeat } from '../vendor/lit-html/directives/repeat.js';
import { cancel, can, choose as giveChoice, resume, resumeAll } from '../actions.js';
import { state } from '../format.js';
import { askToNotify, canAskToNotify } from '../needs.js';
import { say, wordsOf } from '../parts/dialog.js';
import { isSeenWhole, rowTemplate } from '../parts/row.js';
import { go, setQuery, to } from '../router.js';
import { invalidate, seldom } from '../screen.js';
import { fetchRows, keyOf, store } from '../store.js';

/** @import { Ask, Group, Row } from '../types.d.ts' */
/** @import { Route } from '../router.js' */
/** @typedef {{ key: string, row: Row, ask: Ask | null }} Line */

/** @type {{ group: Group, name: string }[]} */
const GROUPS = [
  { group: 'needs_you', name: 'Needs you' },
  { group: 'running', name: 'Running' },
  { group: 'waiting', name: 'Waiting' },
  { group: 'ended', name: 'Ended' },
];
const DIGITS = [1, 2, 3, 4, 5, 6, 7, 8, 9];
const STATUSES = ['running', 'failed', 'stopped', 'paused', 'died', 'completed', 'cancelled', 'unreadable', 'foreign'];
/** How many ended runs are shown at first, and how many more each time. */
const ENDED_STEP = 100;
/** Typing is searched for at most this often. */
const SEARCH_MS = 250;

/** @param {Row} row @param {URLSearchParams} query */
function matches(row, query) {
  const project = query.get('project');
  if (project && row.project !== project) return false;
  const status = query.get('status');
  if (status && row.status !== status) return false;
  const workflow = query.get('workflow');
  if (workflow && (row.name ?? '') !== workflow) return false;
  const text = query.get('text')?.toLowerCase();
  if (!text) return true;
  const said = [row.run, row.workflow, row.now?.state, row.now && state(row.now.state), row.why, row.result, row.error, ...(row.asks ?? []).map((ask) => ask.question)];
  return said.some((part) => part?.toLowerCase().includes(text));
}

/** The lines of a row: one for each question. @param {Row} row @returns {Line[]} */
function linesOf(row) {
  const key = keyOf(row);
  if (!row.asks?.length) return [{ key, row, ask: null }];
  return row.asks.map((ask) => ({ key: `${key}/${ask.ask}`, row, ask }));
}

/** @param {Group} group @param {URLSearchParams} query */
function rowsOf(group, query) {
  const rows = [...store.rows.values()].filter((row) => row.group === group && matches(row, query));
  const time = (/** @type {Row} */ row) => (group === 'ended' ? row.last_at ?? row.started_at : row.started_at) ?? 0;
  const since = (/** @type {Row} */ row) => row.waiting_since ?? time(row);
  return rows.sort((one, other) => (group === 'needs_you' ? since(other) - since(one) : time(other) - time(one)) || keyOf(one).localeCompare(keyOf(other)));
}

/** @param {Route} route @returns {import('../main.js').View} */
export function homeView(route) {
  let { query } = route;
  /** @type {Set<string>} */
  const chosen = new Set();
  let cursor = '';
  let endedMax = ENDED_STEP;
  /** @type {string | number | null} */
  let next = null;
  let isAsked = false;
  /** @type {Line[]} */
  let lines = [];

  const filters = () => Object.fromEntries(['project', 'status', 'workflow', 'text'].map((name) => [name, query.get(name)]));
  const search = seldom(SEARCH_MS, async () => {
    try {
      const asked = filters();
      // The name of a workflow is not its key: such rows are found by the text.
      next = (await fetchRows({ ...asked, workflow: null, text: asked.text ?? asked.workflow })).next;
      isAsked = true;
    } catch { /* the footer says that the connection is lost */ }
    invalidate();
  });
  search();

  async function more() {
    endedMax += ENDED_STEP;
    try {
      if (isAsked && next !== null) next = (await fetchRows({ ...filters(), workflow: null, before: next })).next;
    } catch (error) {
      say(wordsOf(error), true);
    }
    invalidate();
  }

  /** @param {number} by */
  function move(by) {
    const at = lines.findIndex((line) => line.key === cursor);
    const target = lines[Math.max(0, Math.min(lines.length - 1, at + by))];
    if (!target) return;
    cursor = target.key;
    invalidate();
    requestAnimationFrame(() => requestAnimationFrame(() => document.querySelector('.row.cursor')?.scrollIntoView({ block: 'nearest' })));
  }

  /** @param {Row} row */
  function choose(row) {
    if (!chosen.delete(keyOf(row))) chosen.add(keyOf(row));
    invalidate();
  }

  const current = () => lines.find((line) => line.key === cursor);

  /** @param {typeof GROUPS[number]} group */
  function groupTemplate({ group, name }) {
    const rows = rowsOf(group, query);
    const shown = group === 'ended' ? rows.slice(0, endedMax) : rows;
    const groupLines = shown.flatMap(linesOf);
    lines.push(...groupLines);
    if (!rows.length) return nothing;
    const hasMore = group === 'ended' && (rows.length > shown.length || next !== null);
    return html`<section class="group ${group}" aria-label=${name}>
      <h2>${name} <span class="count">${hasMore ? `${shown.length} shown` : groupLines.length}</span>
        ${group === 'needs_you' ? resumeDead(rows) : nothing}
        ${group === 'needs_you' && canAskToNotify() ? html`<button class="quiet small" @click=${() => askToNotify().then(invalidate)}>notify me</button>` : nothing}</h2>
      <ul class="rows">${repeat(groupLines, (line) => line.key, (line) => rowTemplate(line.row, {
        ask: line.ask, isCursor: line.key === cursor, isChosen: chosen.has(keyOf(line.row)), isChoosing: chosen.size > 0, choose,
      }))}</ul>
      ${hasMore ? html`<button class="quiet more" @click=${more}>show more</button>` : nothing}
    </section>`;
  }

  /** A button for all runs whose program died, if there are some. @param {Row[]} rows */
  function resumeDead(rows) {
    const dead = rows.filter((row) => row.status === 'died' && can(row, 'resume'));
    if (!dead.length) return nothing;
    const words = dead.length === 1 ? 'resume the run that died' : `resume the ${dead.length} runs that died`;
    return html`<button class="small" @click=${() => resumeAll(dead, invalidate)}>${words}</button>`;
  }

  function filterBar() {
    const names = [...new Set([...store.rows.values()].map((row) => row.name ?? '').filter(Boolean))].sort();
    const select = (/** @type {string} */ name, /** @type {string} */ all, /** @type {string[]} */ values, /** @type {(value: string) => string} */ named = (value) => value) => html`<select aria-label=${name}
      class=${query.get(name) ? 'set' : ''} @change=${(/** @type {Event} */ event) => setQuery({ [name]: /** @type {HTMLSelectElement} */ (event.target).value })}>
      <option value="" ?selected=${!query.get(name)}>${all}</option>
      ${values.map((value) => html`<option value=${value} ?selected=${query.get(name) === value}>${named(value)}</option>`)}</select>`;
    const isSet = Object.values(filters()).some(Boolean);
    const projects = new Map((store.server?.projects ?? []).map((project) => [project.project, project.name]));
    return html`<div class="filters"><span class="narrow">${select('project', 'all projects', [...projects.keys()], (key) => projects.get(key) ?? key)}</span>${select('workflow', 'all workflows', names)}${select('status', 'every status', STATUSES)}
      ${isSet ? html`<button class="quiet small" @click=${() => setQuery({ project: null, status: null, workflow: null, text: null })}>clear</button>` : nothing}</div>`;
  }

  function empty() {
    if (!store.isLoaded) return nothing;
    if (Object.values(filters()).some(Boolean)) {
      return html`<div class="empty"><p>No run matches. <button class="quiet" @click=${() => setQuery({ project: null, status: null, workflow: null, text: null })}>Show all</button></p></div>`;
    }
    return html`<div class="empty big"><h1>No runs yet</h1>
      <p>A run appears here when a workflow is started: <a href=${to.workflows()}>here</a>, or in a terminal with <code>raymond WORKFLOW</code>.</p>
      <p>To see one at work, without any key and for free: <code>raymond demo</code></p></div>`;
  }

  function chosenBar() {
    const rows = [...chosen].map((key) => store.rows.get(key)).filter((row) => row !== undefined);
    if (!rows.length) return nothing;
    const done = () => { chosen.clear(); invalidate(); };
    const resumable = rows.filter((row) => can(row, 'resume'));
    const open = rows.filter((row) => can(row, 'cancel'));
    return html`<div class="chosen" role="toolbar" aria-label="selected runs"><b>${rows.length} selected</b>
      <button ?disabled=${!resumable.length} @click=${() => { resumeAll(resumable, done); }}>resume ${resumable.length || ''}</button>
      <button ?disabled=${!open.length} @click=${() => { cancel(open, done); }}>cancel ${open.length || ''}</button>
      <button class="quiet" @click=${done}>clear</button></div>`;
  }

  return {
    title: () => '',
    query: (changed) => {
      query = changed;
      endedMax = ENDED_STEP;
      search();
    },
    template: () => {
      lines = [];
      const problems = (store.server?.projects ?? []).filter((project) => project.problem);
      const groups = GROUPS.map(groupTemplate);
      return html`<div class="page home">${filterBar()}
        ${problems.map((project) => html`<p class="banner problem">The runs of ${project.name} cannot be read: ${project.problem}</p>`)}
        ${lines.length ? groups : empty()}${chosenBar()}</div>`;
    },
    keys: () => [
      { key: 'j', name: 'next row', run: () => move(1) },
      { key: 'k', name: 'previous row', run: () => move(-1) },
      { key: 'ArrowDown', name: '', run: () => move(1) },
      { key: 'ArrowUp', name: '', run: () => move(-1) },
      { key: 'Enter', name: 'open', run: () => { const line = current(); if (line) go(line.ask ? to.ask(line.ask) : to.run(line.row)); } },
      { key: 'x', name: 'select', run: () => { const line = current(); if (line) choose(line.row); } },
      { key: 'a', name: 'answer', run: () => { const ask = (current() ?? lines.find((line) => line.ask))?.ask; if (ask) go(to.ask(ask)); } },
      ...DIGITS.map((digit) => ({ key: String(digit), shown: '1 – 9', name: digit === 1 ? 'give this answer' : '', run: () => {
        const ask = current()?.ask;
        const choice = ask?.choices[digit - 1];
        if (ask && choice && !store.server?.is_read_only) {
          // An answer by key, like one by a button, needs the whole question before one's eyes.
          if (isSeenWhole(ask)) giveChoice(ask, choice.label);
          else go(to.ask(ask));
        }
      } })),
      { key: 'r', name: 'resume', run: () => { const line = current(); if (line && can(line.row, 'resume')) resume(line.row); } },
      { key: 'Escape', name: '', run: () => { chosen.clear(); cursor = ''; invalidate(); } },
    ],
  };
}
