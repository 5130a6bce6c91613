// Questions of the page itself, and its notices. One dialog at a time.

import { html, nothing } from '../html.js';
import { invalidate } from '../screen.js';
import { withElement } from './css.js';

/** @typedef {{ title: string, body: unknown, action: string, isGrave?: boolean, run: (form: FormData) => void | Promise<void> }} Dialog */

/** How long a notice that is no error is shown. */
const NOTICE_MS = 5000;

/** @type {Dialog | null} */
let dialog = null;
let problem = '';
let isBusy = false;
/** @type {{ id: number, text: string, isError: boolean }[]} */
let notices = [];
let lastNotice = 0;

/** @param {Dialog} asked */
export function ask(asked) {
  dialog = asked;
  problem = '';
  isBusy = false;
  invalidate();
}

/** Says something at the bottom of the page. Errors stay until they are closed. @param {string} text @param {boolean} [isError] */
export function say(text, isError = false) {
  const id = ++lastNotice;
  notices = [...notices.slice(-3), { id, text, isError }];
  if (!isError) setTimeout(() => dismiss(id), NOTICE_MS);
  invalidate();
}

/** @param {unknown} error @returns {string} */
export function wordsOf(error) {
  if (!(error instanceof Error)) return String(error);
  const hints = /** @type {any} */ (error).hints ?? [];
  return hints.length ? `${error.message} (${hints.join('; ')})` : error.message;
}

/** @param {number} id */
function dismiss(id) {
  notices = notices.filter((notice) => notice.id !== id);
  invalidate();
}

function close() {
  dialog = null;
  invalidate();
}

/** @param {SubmitEvent} event */
async function submit(event) {
  event.preventDefault();
  if (!dialog || isBusy) return;
  isBusy = true;
  problem = '';
  invalidate();
  try {
    await dialog.run(new FormData(/** @type {HTMLFormElement} */ (event.target)));
    dialog = null;
  } catch (error) {
    problem = wordsOf(error);
  }
  isBusy = false;
  invalidate();
}

export function dialogs() {
  const show = (/** @type {Element} */ element) => {
    const modal = /** @type {HTMLDialogElement} */ (element);
    // It is not part of the page before the whole template is drawn.
    queueMicrotask(() => modal.isConnected && modal.showModal());
  };
  const shown = dialog && html`<dialog @close=${close} ${withElement(show)} aria-label=${dialog.title}>
    <form @submit=${submit} method="dialog">
      <h2>${dialog.title}</h2>
      ${dialog.body}
      ${problem ? html`<p class="problem" role="alert">${problem}</p>` : nothing}
      <p class="buttons">
        <button type="button" @click=${close}>back</button>
        ${dialog.action
          ? html`<button class=${dialog.isGrave ? 'grave' : 'main'} ?disabled=${isBusy} autofocus>${dialog.action}</button>`
          : nothing}
      </p>
    </form>
  </dialog>`;
  return html`${shown ?? nothing}
    <div class="notices" aria-live="polite">${notices.map((notice) => html`<p class=${notice.isError ? 'notice problem' : 'notice'}>
      <span>${notice.text}</span><button class="quiet" aria-label="close" @click=${() => dismiss(notice.id)}>×</button></p>`)}</div>`;
}
