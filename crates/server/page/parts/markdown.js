// Markdown that the server has parsed, as elements of a fixed set. Text stays text; no string becomes markup here.

import { html, nothing } from '../html.js';

/** @import { Markdown, MarkdownElement } from '../types.d.ts' */

/** The server nests no deeper; a page of another version might. */
const DEPTH_MAX = 40;

/** @param {Markdown[] | null | undefined} nodes @param {number} [depth] @returns {unknown} */
export function markdown(nodes, depth = 0) {
  if (!nodes || depth > DEPTH_MAX) return nothing;
  return nodes.map((node) => (typeof node === 'string' ? node : element(node, depth + 1)));
}

/** A sentence of the program, whose names stand between backticks. @param {string | null | undefined} text */
export function sentence(text) {
  return (text ?? '').split(/`([^`]*)`/).map((part, index) => (index % 2 ? html`<code>${part}</code>` : part));
}

/** Whether the elements show every character of the text but spaces: no mark, no link and no cell is left out. @param {Markdown[]} nodes @param {string} text */
export function showsAll(nodes, text) {
  const plain = (/** @type {string} */ some) => some.replaceAll(/\s/g, '');
  return plain(textOf(nodes)) === plain(text);
}

/** @param {Markdown[] | undefined} nodes @returns {string} */
function textOf(nodes) {
  return (nodes ?? []).map((node) => (typeof node === 'string' ? node : textOf(node.children))).join('');
}

/** @param {MarkdownElement} node @param {number} depth */
function element(node, depth) {
  const inner = () => markdown(node.children, depth);
  switch (node.tag) {
    case 'p': return html`<p>${inner()}</p>`;
    case 'h1': case 'h2': return html`<h3 class="h2">${inner()}</h3>`;
    case 'h3': case 'h4': case 'h5': case 'h6': return html`<h4>${inner()}</h4>`;
    case 'ul': return html`<ul>${inner()}</ul>`;
    case 'ol': return html`<ol start=${node.start ?? nothing}>${inner()}</ol>`;
    case 'li': return node.checked === undefined || node.checked === null ? html`<li>${inner()}</li>`
      : html`<li class="task"><input type="checkbox" disabled .checked=${node.checked}> ${inner()}</li>`;
    case 'blockquote': return html`<blockquote>${inner()}</blockquote>`;
    case 'pre': return html`<pre class="block" data-lang=${node.lang ?? nothing}>${textOf(node.children)}</pre>`;
    case 'code': return html`<code>${textOf(node.children)}</code>`;
    case 'em': return html`<em>${inner()}</em>`;
    case 'strong': return html`<strong>${inner()}</strong>`;
    case 'del': return html`<del>${inner()}</del>`;
    case 'a': return link(node, inner());
    case 'table': return html`<div class="sideways"><table>${inner()}</table></div>`;
    case 'thead': return html`<thead><tr>${(node.children ?? []).map((cell) => html`<th>${markdown(typeof cell === 'string' ? [cell] : cell.children, depth + 1)}</th>`)}</tr></thead>`;
    case 'tr': return html`<tr>${inner()}</tr>`;
    case 'th': return html`<th>${inner()}</th>`;
    case 'td': return html`<td>${inner()}</td>`;
    case 'hr': return html`<hr>`;
    case 'br': return html`<br>`;
    case 'transition': return html`<code class="transition">${textOf(node.children)}</code>`;
    default: return html`${inner()}`;
  }
}

/** @param {MarkdownElement} node @param {unknown} inner */
function link(node, inner) {
  const address = node.href ?? '';
  // The server lets only these through, too.
  if (!/^(https?|mailto):/i.test(address)) return html`${inner}`;
  return html`<a href=${address} target="_blank" rel="noopener noreferrer" title=${address}>${inner}</a>`;
}
