// Keys: the page says which it has, and `?` lists them.

/** @typedef {{ key: string, name: string, run: () => void, shown?: string }} Key */

/** @type {() => Key[]} */
let keys = () => [];

/** @param {() => Key[]} current the keys that work now */
export function useKeys(current) {
  keys = current;
}

/** The keys that work now. */
export function currentKeys() {
  return keys();
}

addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const target = /** @type {HTMLElement} */ (event.target);
  const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) && target.getAttribute('type') !== 'checkbox';
  if (isTyping) {
    if (event.key === 'Escape') target.blur();
    return;
  }
  // A focused button or link keeps its own Enter.
  if (event.key === 'Enter' && /^(A|BUTTON|SUMMARY)$/.test(target.tagName)) return;
  if (document.querySelector('dialog[open]')) return;
  const found = keys().find((key) => key.key === event.key);
  if (!found) return;
  event.preventDefault();
  found.run();
});
