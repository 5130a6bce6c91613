// The raw files of a step, a part at a time.

import { html, nothing } from '../html.js';
import { part } from '../api.js';
import { bytes } from '../format.js';
import { invalidate } from '../screen.js';
import { say, wordsOf } from './dialog.js';

/** @import { StepDetail } from '../types.d.ts' */

const LENGTH = 64 * 1024;

export class RawPart {
  name = '';
  text = '';
  size = 0;
  offset = 0;
  next = 0;

  /** @param {string} url of the step */
  constructor(url) {
    this.url = url;
  }

  /** @param {string} name @param {number} offset */
  async load(name, offset) {
    this.name = name;
    try {
      const found = await part(`${this.url}/files/${encodeURIComponent(name)}`, offset, LENGTH);
      if (this.name === name) Object.assign(this, found);
    } catch (error) {
      this.text = '';
      say(wordsOf(error), true);
    }
    invalidate();
  }

  /** @param {StepDetail} step @param {string} chosen @param {(name: string) => void} choose */
  template(step, chosen, choose) {
    const files = step.files ?? [];
    if (!files.length) return html`<p class="empty">This step keeps no files. Steps of scripts keep them only if something went wrong, or if the settings say so.</p>`;
    const name = files.some((file) => file.name === chosen) ? chosen : files[0].name;
    if (name !== this.name) queueMicrotask(() => this.load(name, 0));
    const at = (/** @type {number} */ offset) => () => this.load(name, Math.max(0, offset));
    return html`<div class="raw"><p class="bar-of-files">${files.map((file) => html`<button class=${file.name === name ? 'set' : 'quiet'} @click=${() => choose(file.name)}>${file.name} <span class="dim">${bytes(file.bytes)}</span></button>`)}
      <span class="gap"></span><span class="dim">${this.size ? html`bytes ${this.offset.toLocaleString('en')} to ${this.next.toLocaleString('en')} of ${this.size.toLocaleString('en')}` : 'empty'}</span>
      ${this.size > LENGTH ? html`<button ?disabled=${!this.offset} @click=${at(0)}>first</button><button ?disabled=${!this.offset} @click=${at(this.offset - LENGTH)}>earlier</button>
        <button ?disabled=${this.next >= this.size} @click=${at(this.next)}>later</button><button ?disabled=${this.next >= this.size} @click=${at(this.size - LENGTH)}>last</button>` : nothing}
      <button @click=${at(this.offset)}>read again</button></p><pre class="block">${this.text}</pre></div>`;
  }
}
