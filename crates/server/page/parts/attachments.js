// Files that belong to a question. They need the token, so the page fetches them: text and pictures are shown, the rest is saved.

import { html, nothing } from '../html.js';
import { blob } from '../api.js';
import { bytes } from '../format.js';
import { invalidate } from '../screen.js';
import { diffText, isDiff } from './diff.js';
import { say, wordsOf } from './dialog.js';

/** @import { Attachment } from '../types.d.ts' */

/** How much of a text is shown. */
const TEXT_MAX = 256 * 1024;

export class Attachments {
  /** What is shown, by name. @type {Map<string, { text: string } | { picture: string }>} */
  open = new Map();

  /** @param {string} url of the question */
  constructor(url) {
    this.url = url;
  }

  close() {
    for (const shown of this.open.values()) if ('picture' in shown) URL.revokeObjectURL(shown.picture);
  }

  /** @param {Attachment} file */
  async show(file) {
    const known = this.open.get(file.name);
    if (known) {
      if ('picture' in known) URL.revokeObjectURL(known.picture);
      this.open.delete(file.name);
      invalidate();
      return;
    }
    try {
      const data = await blob(`${this.url}/files/${encodeURIComponent(file.name)}`);
      if (file.shown_as === 'text') {
        const text = await data.slice(0, TEXT_MAX).text();
        this.open.set(file.name, { text: data.size > TEXT_MAX ? `${text}\n…` : text });
      } else if (file.shown_as === 'image') {
        this.open.set(file.name, { picture: URL.createObjectURL(data) });
      } else {
        save(data, nameOf(file).split('/').at(-1) ?? file.name);
      }
    } catch (error) {
      say(wordsOf(error), true);
    }
    invalidate();
  }

  /** @param {Attachment[]} files */
  template(files) {
    if (!files.length) return nothing;
    const there = files.filter((file) => !file.problem);
    const lost = files.filter((file) => file.problem);
    return html`<div class="attachments"><p>${there.map((file) => html`<button class="file ${this.open.has(file.name) ? 'set' : ''}" title=${file.sha256 ? `SHA-256 ${file.sha256}` : ''} aria-expanded=${isShown(file) ? this.open.has(file.name) : nothing}
        @click=${() => this.show(file)}>${nameOf(file)} <span class="dim">${bytes(file.bytes ?? 0)}${isShown(file) ? '' : ', save'}</span></button>`)}</p>
      ${lost.map((file) => html`<p class="problem small">${nameOf(file)} was not attached: ${file.problem}</p>`)}
      ${there.map((file) => {
        const shown = this.open.get(file.name);
        if (!shown) return nothing;
        if ('picture' in shown) return html`<figure><figcaption>${nameOf(file)}</figcaption><img src=${shown.picture} alt=${nameOf(file)}></figure>`;
        return html`<figure><figcaption>${nameOf(file)}</figcaption>${isDiff(nameOf(file), shown.text) ? diffText(shown.text) : html`<pre class="block">${shown.text}</pre>`}</figure>`;
      })}</div>`;
  }
}

/** What the agent called it; its copy has a number before its name. @param {Attachment} file */
function nameOf(file) {
  return file.path ?? file.name;
}

/** Whether it is shown here; else it can only be saved. @param {Attachment} file */
function isShown(file) {
  return file.shown_as === 'text' || file.shown_as === 'image';
}

/** @param {Blob} data @param {string} name */
function save(data, name) {
  const address = URL.createObjectURL(data);
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  link.click();
  // After the browser has begun.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
