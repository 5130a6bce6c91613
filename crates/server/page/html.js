// Templates in which no character is hidden: like `raymond` on a terminal, the page writes characters that a reader would
// not see, or that turn the direction of a text, as `\u{202e}`. Everything on the page is drawn with these two.

import { html as plainHtml, svg as plainSvg } from './vendor/lit-html/lit-html.js';

export { nothing } from './vendor/lit-html/lit-html.js';

/** The same as in the program: control characters but for newlines and tabs, controls of direction, and what has no width. */
const HIDDEN = /[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

/** @param {string} text */
export function visible(text) {
  return text.replaceAll('\r\n', '\n').replace(HIDDEN, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`);
}

/** @param {unknown} value @returns {unknown} */
function shown(value) {
  if (typeof value === 'string') return visible(value);
  return Array.isArray(value) ? value.map(shown) : value;
}

/** @template T @param {(strings: TemplateStringsArray, ...values: unknown[]) => T} tag */
function escaping(tag) {
  // The value of a field is also sent.
  return (/** @type {TemplateStringsArray} */ strings, /** @type {unknown[]} */ ...values) =>
    tag(strings, ...values.map((value, index) => (/\s(?:\.\w+|value)="?$/.test(strings[index]) ? value : shown(value))));
}

export const html = escaping(plainHtml);
export const svg = escaping(plainSvg);
