// A question of an agent: one card that stays until the answer is durable.

import { html, nothing } from '../html.js';
import { answer, failureWords, sentOf } from '../actions.js';
import { ApiError, get, path, upload } from '../api.js';
import { age, bytes, clock, duration, full, moment, now, state } from '../format.js';
import { Attachments } from '../parts/attachments.js';
import { say, wordsOf } from '../parts/dialog.js';
import { markdown, showsAll } from '../parts/markdown.js';
import { icon } from '../parts/status.js';
import { TranscriptPart } from '../parts/transcript.js';
import { go, to } from '../router.js';
import { invalidate } from '../screen.js';
import { openAsks, store, watchRows } from '../store.js';

/** @import { AskDetail as Ask } from '../types.d.ts' */
/** @import { Route } from '../router.js' */

/** The server takes no larger file. */
const UPLOAD_MAX = 25 * 1024 * 1024;

/** How an answer came, where that says more than its author. @type {Record<string, string>} */
const WAYS = { command: 'on the command line', page: 'on this page', timeout: 'because the time was up', cancelled: 'because the run was cancelled' };

/** The view that is open hears of changes of its run. @type {((key: string) => void) | null} */
let listener = null;
watchRows((row) => listener?.(`${row.project}/${row.run}`));

/** @param {Route} route @returns {import('../main.js').View} */
export function askView({ params: [project, run, name] }) {
  const id = { project, run, ask: name };
  const url = path('asks', project, run, name);
  /** @type {Ask | null} */
  let ask = null;
  /** @type {ApiError | null} */
  let failure = null;
  let text = '';
  /** @type {{ file: string, name: string, bytes: number }[]} */
  let files = [];
  let isUploading = false;
  /** @type {TranscriptPart | null} */
  let transcript = null;
  const attachments = new Attachments(url);
  let isClosed = false;
  const isThis = (/** @type {Ask} */ other) => other.project === project && other.run === run && other.ask === name;

  async function load() {
    try {
      ask = await get(url);
      failure = null;
    } catch (error) {
      if (error instanceof ApiError && error.status) failure = error;
      else setTimeout(() => ask || isClosed || load(), 1000);
    }
    invalidate();
  }
  load();
  listener = (key) => {
    if (key === `${project}/${run}`) load();
  };

  /** @param {string} [label] */
  function send(label) {
    if (!ask || ask.answer) return;
    if (!label && !text.trim()) {
      say('write an answer first', true);
      return;
    }
    answer(ask, { ...(label ? { label } : {}), ...(text.trim() ? { text: text.trim() } : {}), ...(files.length ? { files: files.map((file) => file.file) } : {}) });
  }

  /** @param {Event} event */
  async function attach(event) {
    const input = /** @type {HTMLInputElement} */ (event.target);
    isUploading = true;
    invalidate();
    for (const file of input.files ?? []) {
      try {
        if (file.size > UPLOAD_MAX) throw new Error(`${file.name} has ${bytes(file.size)}; at most ${bytes(UPLOAD_MAX)} can be sent`);
        const done = await upload(`${url}/files/${encodeURIComponent(file.name)}`, file);
        files = [...files, { ...done, name: file.name }];
      } catch (error) {
        say(wordsOf(error), true);
      }
    }
    input.value = '';
    isUploading = false;
    invalidate();
  }

  /** @param {Event} event */
  function showWhatLed(event) {
    if (!(/** @type {HTMLDetailsElement} */ (event.target).open) || transcript || !ask?.step) return;
    transcript = new TranscriptPart(path('runs', project, run, 'steps', ask.step), () => {});
    transcript.load();
  }

  /** The question whole: what is approved is what is seen. @param {Ask} ask */
  function asked(ask) {
    const written = html`<pre class="block as-written">${ask.question}</pre>`;
    if (!ask.markdown?.length) return html`<div class="question md">${written}</div>`;
    return html`<div class="question md">${markdown(ask.markdown)}
      ${showsAll(ask.markdown, ask.question) ? nothing : html`<p class="dim">As written:</p>${written}`}</div>`;
  }

  /** @param {Ask} ask */
  function answered(ask) {
    const given = ask.answer;
    if (!given) return nothing;
    const leadsTo = ask.choices.find((choice) => choice.label === given.label)?.to ?? ask.next;
    const way = WAYS[given.how ?? ''] ?? given.how;
    return html`<div class="given"><p class="recorded" role="status">${icon('done')}<span>${given.label ? html`<b>${given.label}</b>, ` : nothing}answered${given.by ? html` by ${given.by}` : nothing}${way ? html` ${way}` : nothing},
      recorded <time title=${full(given.at)}>${clock(given.at)}</time>${leadsTo ? html`, agent goes on at <b>${state(leadsTo)}</b>` : nothing}</span></p>
      ${given.text ? html`<p class="text quoted">${given.text}</p>` : nothing}${unsent(ask)}</div>`;
  }

  /** What was written here although another answer counts. @param {Ask} ask */
  function unsent(ask) {
    const sent = sentOf(ask);
    const written = text.trim();
    if (sent?.state === 'recorded' || (sent?.state !== 'failed' && !written) || (written && ask.answer?.text === written)) return nothing;
    return html`${sent?.state === 'failed' && !sent.isUncertain ? html`<p class="banner problem" role="alert">${failureWords(sent)}</p>` : nothing}
      ${written ? html`<label class="comment"><span class="dim">What you wrote, which was not sent</span><textarea readonly rows="2" .value=${text}></textarea></label>` : nothing}`;
  }

  /** @param {Ask} ask */
  function form(ask) {
    if (store.server?.is_read_only) return html`<p class="dim">This server is read only: answer with <code>raymond answer ${run}</code>.</p>`;
    const sent = sentOf(ask);
    if (sent?.state === 'recorded') return html`<p class="recorded" role="status">${icon('done')}<span>recorded ${clock(sent.at)}${sent.to ? html`, agent goes on at <b>${state(sent.to)}</b>` : nothing}</span></p>`;
    const isBusy = sent?.state === 'sending' || isUploading;
    const hasChoices = ask.choices.length > 0;
    const write = (/** @type {Event} */ event) => { text = /** @type {HTMLTextAreaElement} */ (event.target).value; };
    const drop = (/** @type {string} */ file) => { files = files.filter((known) => known.file !== file); invalidate(); };
    return html`${sent?.state === 'failed' ? html`<p class="banner problem" role="alert">${failureWords(sent)}. What you wrote is still here.</p>` : nothing}
      ${hasChoices ? html`<div class="choices">${ask.choices.map((choice, index) => html`<button ?disabled=${isBusy} @click=${() => send(choice.label)}
        title=${choice.to ? `goes on at ${state(choice.to)}` : ''}>${index < 9 ? html`<kbd>${index + 1}</kbd>` : nothing}<span>${choice.label}</span>
        ${choice.to ? html`<span class="dim">→ ${state(choice.to)}</span>` : nothing}</button>`)}</div>` : nothing}
      <label class="comment"><span class="dim">${hasChoices ? 'Comment, sent with the choice' : 'Answer'}</span><textarea rows=${hasChoices ? 2 : 5} maxlength="65536" .value=${text} @input=${write}
        @keydown=${(/** @type {KeyboardEvent} */ event) => { if (!hasChoices && event.key === 'Enter' && (event.ctrlKey || event.metaKey)) send(); }}></textarea></label>
      <p class="sending">${hasChoices ? nothing : html`<button class="main" ?disabled=${isBusy} @click=${() => send()}>send</button>`}
        <label class="button ${isBusy ? 'off' : ''}">attach a file<input type="file" multiple hidden ?disabled=${isBusy} @change=${attach}></label>
        ${files.map((file) => html`<span class="chip">${file.name} ${bytes(file.bytes)} <button class="quiet" aria-label="remove ${file.name}" @click=${() => drop(file.file)}>×</button></span>`)}
        ${isBusy ? html`<span class="dim">sending…</span>` : nothing}</p>`;
  }

  /** Where this question stands among all that are open. @param {Ask} ask */
  function others(ask) {
    const open = openAsks();
    const at = open.findIndex(isThis);
    const next = neighbour(1);
    if (!next || (at >= 0 && open.length === 1)) return nothing;
    const left = at < 0 || ask.answer ? open.filter((other) => !isThis(other)).length : 0;
    return html`<span class="others">${left ? `${left} more open` : `${at + 1} of ${open.length} open questions`}<a class="next" href=${to.ask(next)}>next</a></span>`;
  }

  /** The next question that is open, after the last one the first. @param {1 | -1} by */
  function neighbour(by) {
    const open = openAsks();
    const at = open.findIndex(isThis);
    const next = at < 0 ? open.at(by > 0 ? 0 : -1) : open[(at + by + open.length) % open.length];
    return next && !isThis(next) ? next : null;
  }

  const goTo = (/** @type {Ask | null} */ other) => { if (other) go(to.ask(other)); };

  return {
    title: () => `question of ${ask?.name ?? run}`,
    template: () => {
      if (failure && !ask) return html`<div class="empty big"><h1>This question cannot be shown</h1><p>${wordsOf(failure)}</p><p><a href=${to.run(id)}>${run}</a></p></div>`;
      if (!ask) return nothing;
      const left = (ask.deadline ?? 0) - now();
      return html`<div class="page ask-page"><nav class="crumbs"><a href=${to.home()}>runs</a> / <a href=${to.run(id)}>${run}</a> / <span>question ${name}</span><span class="gap"></span>${others(ask)}</nav>
        <article class="card"><p class="who">${icon('you')}<b>${ask.agent}</b> asks in ${state(ask.state)} <span class="gap"></span><time title=${full(ask.asked_at)}>${age(ask.asked_at)} ago</time></p>
          ${asked(ask)}
          ${attachments.template(ask.attachments ?? [])}
          ${ask.deadline !== null && !ask.answer ? html`<p class="deadline">${icon('waiting')}<span>Without an answer until <time title=${full(ask.deadline)}>${moment(ask.deadline)}</time> (${left > 0 ? `in ${duration(left)}` : 'now'}) the answer is <b>${ask.default}</b>.</span></p>` : nothing}
          ${ask.answer ? answered(ask) : form(ask)}
        </article>
        ${ask.step ? html`<details class="led" @toggle=${showWhatLed}><summary>What led to it <a href=${to.step(id, ask.step)}>${ask.step}</a></summary>${transcript?.template() ?? nothing}</details>` : nothing}</div>`;
    },
    keys: () => [
      ...(ask?.choices ?? []).slice(0, 9).map((choice, index) => ({ key: String(index + 1), name: choice.label, run: () => send(choice.label) })),
      { key: 'j', name: 'next question', run: () => goTo(neighbour(1)) },
      { key: 'k', name: 'previous question', run: () => goTo(neighbour(-1)) },
      { key: 'c', name: 'write', run: () => /** @type {HTMLElement | null} */ (document.querySelector('.comment textarea'))?.focus() },
      { key: 'Escape', name: 'back to all runs', run: () => go(to.home()) },
    ],
    close: () => {
      isClosed = true;
      listener = null;
      attachments.close();
      if (transcript) {
        transcript.isClosed = true;
        transcript.close();
      }
    },
  };
}
