// What was asked, said and done in a step, as entries that are the same for every coding agent.

import { html, nothing } from '../html.js';
import { guard } from '../vendor/lit-html/directives/guard.js';
import { get, stream } from '../api.js';
import { bytes, duration, money } from '../format.js';
import { invalidate } from '../screen.js';
import { diff, diffSize } from './diff.js';
import { say, wordsOf } from './dialog.js';
import { markdown } from './markdown.js';

/** @import { Entry, Transcript } from '../types.d.ts' */

const PAGE = 1000;
/** A text with more lines than this is folded. */
const LINES_MAX = 12;
/** Of a longer transcript only the end is drawn, until the reader asks for more. */
const SHOWN_MAX = 1500;

export class TranscriptPart {
  /** @type {Entry[]} */
  entries = [];
  /** Where the entry of a tool is, by the tool's id. @type {Map<string, number>} */
  tools = new Map();
  isOver = false;
  isLoaded = false;
  shownMax = SHOWN_MAX;
  /** Texts that the reader has unfolded. @type {Set<number>} */
  unfolded = new Set();
  close = () => {};
  isClosed = false;

  /** @param {string} url of the step @param {() => void} onOver */
  constructor(url, onOver) {
    this.url = `${url}/transcript`;
    this.onOver = onOver;
  }

  async load() {
    let from = 0;
    try {
      for (;;) {
        /** @type {Transcript} */
        const page = await get(this.url, { from, limit: PAGE });
        if (this.isClosed) return;
        for (const entry of page.entries) this.put(entry);
        this.isLoaded = true;
        invalidate();
        const isAll = page.next <= from || page.entries.length < PAGE;
        from = page.next;
        if (page.is_over && isAll) {
          this.isOver = true;
          return;
        }
        if (isAll) break;
      }
    } catch (error) {
      if (!this.isLoaded) say(wordsOf(error), true);
    }
    // The id of an entry is its index, and a stream begins after an id.
    this.close = stream(`${this.url}/events`, {
      from: from > 0 ? from - 1 : undefined,
      on: (name, data) => {
        if (name === 'entry') this.put(data);
        if (name === 'over') this.end();
        invalidate();
      },
      refused: () => this.end(),
    });
    if (this.isClosed) this.close();
  }

  end() {
    this.isOver = true;
    this.isLoaded = true;
    this.close();
    this.onOver();
  }

  /** @param {Entry} entry */
  put(entry) {
    const known = entry.id ? this.tools.get(entry.id) : undefined;
    if (known !== undefined) {
      this.entries[known] = entry;
      return;
    }
    if (entry.id) this.tools.set(entry.id, this.entries.length);
    this.entries.push(entry);
  }

  template() {
    if (!this.isLoaded) return nothing;
    if (!this.entries.length) return html`<p class="empty">${this.isOver ? 'This step left no transcript. Steps of scripts keep their files only if something went wrong, or if the settings say so.' : 'Nothing was said yet.'}</p>`;
    const first = Math.max(0, this.entries.length - this.shownMax);
    const shown = first ? this.entries.slice(first) : this.entries;
    const more = () => {
      this.shownMax += SHOWN_MAX;
      invalidate();
    };
    return html`<div class="transcript">${first ? html`<button class="quiet" @click=${more}>show the ${first.toLocaleString('en')} entries before</button>` : nothing}
      ${shown.map((entry, index) => guard([entry, this.unfolded.has(first + index)], () => this.entry(entry, first + index)))}</div>`;
  }

  /** @param {Entry} entry @param {number} index */
  entry(entry, index) {
    switch (entry.entry) {
      case 'prompt': return html`<section class="entry prompt"><h3>Prompt</h3>${this.long(entry.text ?? '', index)}${cut(entry.cut)}</section>`;
      case 'message': return html`<section class="entry prompt"><h3>Told by a person</h3>${this.long(entry.text ?? '', index)}${cut(entry.cut)}</section>`;
      case 'thinking': return html`<details class="entry thinking"><summary>thinks</summary><p class="text">${entry.text}</p>${cut(entry.cut)}</details>`;
      case 'text': return html`<section class="entry says md">${said(entry)}</section>`;
      case 'tool': return tool(entry);
      case 'answer': return html`<section class="entry answer md"><h3>Answer ${entry.tag ? html`<span class="chip">${tagWords(entry.tag)}</span>` : html`<span class="problem">without a tag</span>`}</h3>${said(entry)}</section>`;
      case 'failure': return html`<section class="entry failure"><h3>Failed</h3><p class="text">${entry.message}</p></section>`;
      case 'output': return html`<section class="entry output"><h3>${entry.stream}</h3>${entry.left_out ? html`<p class="dim small">${bytes(entry.left_out)} before this are in the raw file</p>` : nothing}${this.long(entry.text ?? '', index, 40)}</section>`;
      case 'cost': return html`<p class="entry paid dim">${money(entry.usd)}${entry.duration_ms == null ? '' : `, ${duration(entry.duration_ms)}`}${entry.model ? `, ${entry.model}` : ''}</p>`;
      default: return html`<p class="entry note dim">${entry.text ?? entry.message ?? entry.entry}</p>`;
    }
  }

  /** @param {string} text @param {number} index @param {number} [lines] */
  long(text, index, lines = LINES_MAX) {
    const count = text.split('\n').length;
    const isOpen = this.unfolded.has(index);
    const fold = () => {
      if (!this.unfolded.delete(index)) this.unfolded.add(index);
      invalidate();
    };
    const shown = count > lines && !isOpen ? text.split('\n').slice(0, lines).join('\n') : text;
    return html`<pre>${shown}</pre>${count > lines ? html`<button class="quiet small" @click=${fold}>${isOpen ? 'fold' : `show all ${count} lines`}</button>` : nothing}`;
  }
}

/** @param {Entry} entry */
function said(entry) {
  return html`${entry.markdown?.length ? markdown(entry.markdown) : html`<p class="text">${entry.text}</p>`}${cut(entry.cut)}`;
}

/** @param {number | undefined} count */
function cut(count) {
  return count ? html`<p class="dim small">${bytes(count)} more are in the raw file</p>` : nothing;
}

/** `<goto>CHECK</goto>` as `goto CHECK`. @param {string} tag */
export function tagWords(tag) {
  const found = /^<(\w+)[^>]*?(?:\/>|>([\s\S]*?)<\/\1>)$/.exec(tag.trim());
  if (!found) return tag;
  const inner = (found[2] ?? '').trim();
  return `${found[1]} ${inner.length > 60 ? `${inner.slice(0, 60)}…` : inner}`.trim();
}

const OUTCOMES = /** @type {Record<string, string>} */ ({ open: 'runs', done: '', failed: 'failed', denied: 'not allowed' });

/** @param {Entry} entry */
function tool(entry) {
  const outcome = OUTCOMES[entry.outcome ?? ''] ?? entry.outcome;
  const head = html`<span class="tool-name">${entry.name}</span> <span class="tool-on">${entry.summary ?? ''}</span>
    ${entry.diff ? html`<span class="size">${diffSize(entry.diff)}</span>` : nothing}
    ${outcome ? html`<span class="outcome">${outcome}${entry.message ? html`: ${entry.message}` : nothing}</span>` : nothing}`;
  if (entry.diff) return html`<details class="entry tool edit ${entry.outcome}" open><summary>${head}</summary>${diff(entry.diff)}</details>`;
  return html`<details class="entry tool ${entry.outcome}"><summary>${head}</summary>
    <pre class="block">${pretty(entry.input)}</pre>${cut(entry.input_cut)}
    ${entry.output ? html`<pre class="block out">${entry.output}</pre>` : nothing}${cut(entry.output_cut)}</details>`;
}

/** Input of a tool is JSON, mostly with one long text: shown line by line. @param {string | null | undefined} input */
function pretty(input) {
  if (!input) return '';
  try {
    const value = JSON.parse(input);
    if (typeof value !== 'object' || value === null) return input;
    return Object.entries(value).map(([name, part]) => `${name}: ${typeof part === 'string' ? part : JSON.stringify(part, null, 2)}`).join('\n');
  } catch {
    return input;
  }
}
