// An edit of a file as lines that were removed and added.

import { html, nothing } from '../html.js';
import { bytes } from '../format.js';

/** @import { Diff } from '../types.d.ts' */

const KINDS = /** @type {Record<string, string>} */ ({ '+': 'added', '-': 'removed' });

/** @param {Diff} diff */
export function diff(diff) {
  return html`<div class="diff" role="group" aria-label="changes of ${diff.path}">${diff.hunks.map((hunk) => {
    let [before, after] = [hunk.old_start, hunk.new_start];
    return html`<div class="hunk">${hunk.lines.map(([sign, text]) => {
      const number = sign === '-' ? before : after;
      if (sign !== '+') before += 1;
      if (sign !== '-') after += 1;
      return html`<div class="line ${KINDS[sign] ?? ''}"><span class="at">${number}</span><span class="sign">${sign}</span><span class="text">${text}</span></div>`;
    })}</div>`;
  })}${diff.cut ? html`<p class="dim small">${bytes(diff.cut)} more are not shown</p>` : nothing}</div>`;
}

/** How many lines a diff adds and removes. @param {Diff} diff */
export function diffSize(diff) {
  const lines = diff.hunks.flatMap((hunk) => hunk.lines);
  const count = (/** @type {string} */ sign) => lines.filter(([found]) => found === sign).length;
  return html`<span class="added">+${count('+')}</span> <span class="removed">−${count('-')}</span>`;
}

/** Whether a file is a patch: by its name, and by what it has. @param {string} name @param {string} text */
export function isDiff(name, text) {
  return /\.(diff|patch)$/i.test(name) && /^@@ /m.test(text);
}

/** The lines of a patch as they are, with those that it adds and removes marked. @param {string} text */
export function diffText(text) {
  // How many lines of the file before and of the file after the current hunk still has: outside of hunks `---` and `+++` are names.
  let [before, after] = [0, 0];
  return html`<div class="diff patch">${text.replace(/\n$/, '').split('\n').map((line) => {
    const sign = line[0] ?? ' ';
    if (before <= 0 && after <= 0) {
      const hunk = /^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@/.exec(line);
      if (hunk) [before, after] = [Number(hunk[1] ?? 1), Number(hunk[2] ?? 1)];
      return html`<div class="line meta"><span class="text">${line}</span></div>`;
    }
    if (sign !== '+' && sign !== '\\') before -= 1;
    if (sign !== '-' && sign !== '\\') after -= 1;
    return html`<div class="line ${KINDS[sign] ?? ''}"><span class="text">${line}</span></div>`;
  })}</div>`;
}
