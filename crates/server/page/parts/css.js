// Style properties of one element, set through the object model: the page's policy allows no style attributes.

import { noChange } from '../vendor/lit-html/lit-html.js';
import { directive, Directive } from '../vendor/lit-html/directive.js';

class Css extends Directive {
  /** @type {Record<string, string>} */
  set = {};

  /** @param {Record<string, string>} _properties */
  render(_properties) {
    return noChange;
  }

  /** @param {import('../vendor/lit-html/directive.js').ElementPart} part @param {[Record<string, string>]} values @override */
  update(part, [properties]) {
    const { style } = /** @type {HTMLElement} */ (part.element);
    for (const [name, value] of Object.entries(properties)) {
      if (this.set[name] !== value) style.setProperty(name, value);
    }
    this.set = properties;
    return noChange;
  }
}

/** `<i ${css({ width: '4px' })}>`; always with the same names. */
export const css = directive(Css);

class With extends Directive {
  /** @type {Element | null} */
  element = null;

  /** @param {(element: Element) => void} _then */
  render(_then) {
    return noChange;
  }

  /** @param {import('../vendor/lit-html/directive.js').ElementPart} part @param {[(element: Element) => void]} values @override */
  update(part, [then]) {
    if (this.element !== part.element) then((this.element = part.element));
    return noChange;
  }
}

/** Hands out the element once: `<svg ${withElement(keep)}>`. */
export const withElement = directive(With);
