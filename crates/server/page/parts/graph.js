// The graph of a workflow: states with what a run did there, and a dot for each agent, which travels along the line
// that the agent follows. Fits its box, zooms and pans, and remembers that.

import { html, nothing, svg } from '../html.js';
import { repeat } from '../vendor/lit-html/directives/repeat.js';
import { money, plural, state as stateName } from '../format.js';
import { invalidate } from '../screen.js';
import { withElement } from './css.js';

/** @import { Agent, Graph, GraphLink, GraphNode } from '../types.d.ts' */
/** @typedef {{ x: number, y: number, width: number, height: number }} Box */

/** Above this many agents in a state, a number is shown instead of dots. */
const DOTS_MAX = 20;
/** How many dots travel at a time; further agents are just there. */
const TRAVELLERS_MAX = 24;
const TRAVEL_MS = 400;
const RADIUS = 5;
/** The drawing has room for labels between layers; the page shows names only in part, and puts the layers closer. */
const SQUEEZE = 0.5;
const MARGIN = 12;
/** The least that is shown, in units of the drawing. */
const SMALLEST = 380;
/** The box is not higher than this, also before the drawing is known. */
const HEIGHT_MAX = 720;
const ZOOM_STEP = 1.25;
const ZOOM_MAX = 4;

/** Room around the states of a folder, and above them for its name. */
const FOLDER_MARGIN = 10;
const FOLDER_TITLE = 16;

const ARROW = svg`<defs><marker id="arrow" viewBox="0 0 10 10" refX="8.5" refY="5" markerWidth="9" markerHeight="9"
  markerUnits="userSpaceOnUse" orient="auto-start-reverse"><path d="M0 1 9 5 0 9z" fill="context-stroke" /></marker></defs>`;

export class GraphPart {
  /** @type {Graph | null} */
  graph = null;
  /** @type {Box | null} what the person chose to see; else all */
  view = null;
  /** @type {SVGSVGElement | null} */
  element = null;
  /** Agents under way to a state: they are not there yet. @type {Set<string>} */
  travelling = new Set();
  /** @type {((y: number) => number)} */
  squeeze = (y) => y;
  /** @type {Map<string, number>} */
  nodes = new Map();
  /** The folders that are drawn around their states, the outer ones first. @type {(Box & { name: string })[]} */
  folders = [];
  /** The mouse was moved while its button was down: what follows is no click. */
  wasDragged = false;

  /** @param {{ isRun?: boolean, onState?: (name: string) => void, onAgent?: (agent: Agent) => void }} [options] `isRun`: what a run did is shown */
  constructor(options = {}) {
    this.options = options;
  }

  /** @param {Graph} graph */
  set(graph) {
    if (graph.fingerprint !== this.graph?.fingerprint) {
      this.squeeze = squeezed(graph.nodes);
      this.nodes = new Map(graph.nodes.map((node, index) => [node.name, index]));
      this.folders = foldersOf(graph.nodes, this.squeeze);
      this.view = this.remembered(graph.fingerprint);
    }
    this.graph = graph;
    invalidate();
  }

  /** @param {string} fingerprint @returns {Box | null} */
  remembered(fingerprint) {
    try {
      const box = JSON.parse(localStorage.getItem(`raymond.graph.${fingerprint}`) ?? 'null');
      return box && [box.x, box.y, box.width, box.height].every(Number.isFinite) ? box : null;
    } catch {
      return null;
    }
  }

  /** @param {Box | null} box */
  look(box) {
    this.view = box;
    const key = `raymond.graph.${this.graph?.fingerprint}`;
    if (box) localStorage.setItem(key, JSON.stringify(box));
    else localStorage.removeItem(key);
    invalidate();
  }

  /** @returns {Box} */
  whole() {
    const [width, height] = this.graph?.size ?? [100, 100];
    // A small graph is not blown up.
    const [wide, high] = [Math.max(width + 2 * MARGIN, SMALLEST), Math.max(this.squeeze(height) + 2 * MARGIN, SMALLEST)];
    return { x: (width - wide) / 2, y: (this.squeeze(height) - high) / 2, width: wide, height: high };
  }

  /** How high the box should be for the drawing in its natural size, in pixels. */
  height() {
    return this.graph ? this.whole().height : HEIGHT_MAX;
  }

  /** @param {number} factor @param {{ x: number, y: number }} [at] a point that stays where it is */
  zoom(factor, at) {
    const box = this.view ?? this.whole();
    const whole = this.whole();
    const width = Math.max(whole.width / ZOOM_MAX, Math.min(whole.width * 2, box.width / factor));
    const ratio = width / box.width;
    const { x, y } = at ?? { x: box.x + box.width / 2, y: box.y + box.height / 2 };
    this.look({ x: x - (x - box.x) * ratio, y: y - (y - box.y) * ratio, width, height: box.height * ratio });
  }

  /** The place of the mouse in the drawing. @param {{ clientX: number, clientY: number }} event */
  place(event) {
    const matrix = this.element?.getScreenCTM()?.inverse();
    return new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix ?? undefined);
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    // Without a key the page scrolls.
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    this.zoom(Math.exp(-event.deltaY / 200), this.place(event));
  }

  /** @param {PointerEvent} down */
  drag(down) {
    const target = /** @type {Element} */ (down.currentTarget);
    const from = this.place(down);
    this.wasDragged = false;
    const move = (/** @type {PointerEvent} */ event) => {
      if (Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY) > 4 && !this.wasDragged) {
        this.wasDragged = true;
        target.setPointerCapture(event.pointerId);
      }
      if (!this.wasDragged) return;
      const to = this.place(event);
      const box = this.view ?? this.whole();
      this.look({ ...box, x: box.x - to.x + from.x, y: box.y - to.y + from.y });
    };
    const end = () => {
      target.removeEventListener('pointermove', /** @type {any} */ (move));
      removeEventListener('pointerup', end);
    };
    target.addEventListener('pointermove', /** @type {any} */ (move));
    addEventListener('pointerup', end);
  }

  /** @param {() => void} then */
  click(then) {
    return () => {
      if (!this.wasDragged) then();
    };
  }

  /** Shows how an agent came to its state. @param {Agent} agent @param {Agent | undefined} before */
  travel(agent, before) {
    const { came } = agent;
    if (!came || !before || !this.graph || !this.element || document.hidden) return;
    if (before.came && before.came.from === came.from && before.came.to === came.to && before.came.kind === came.kind) return;
    if (this.travelling.size >= TRAVELLERS_MAX || matchMedia('(prefers-reduced-motion: reduce)').matches) return;
    const [from, to] = [this.nodes.get(came.from), this.nodes.get(came.to)];
    const between = this.graph.links.filter((link) => link.from === from && link.to === to);
    const link = between.find((link) => link.kind === came.kind) ?? between[0];
    const layer = this.element.querySelector('.travellers');
    if (!link || !layer) return;
    const dot = document.createElementNS('http://www.w3.org/2000/svg', 'circle');
    dot.setAttribute('r', String(RADIUS));
    dot.setAttribute('class', 'dot running');
    dot.style.offsetPath = `path("${this.path(link)}")`;
    dot.style.offsetRotate = '0deg';
    layer.append(dot);
    this.travelling.add(agent.agent);
    const moves = dot.animate([{ offsetDistance: '0%' }, { offsetDistance: '100%' }], { duration: TRAVEL_MS, easing: 'ease-in-out' });
    const arrive = () => {
      dot.remove();
      this.travelling.delete(agent.agent);
      invalidate();
    };
    moves.onfinish = arrive;
    moves.oncancel = arrive;
  }

  /** @param {GraphLink} link */
  path(link) {
    // Pairs of absolute coordinates: the second of each is a height.
    let isHeight = false;
    return link.path.replace(/-?\d+(\.\d+)?/g, (number) => {
      isHeight = !isHeight;
      return isHeight ? number : this.squeeze(Number(number)).toFixed(1);
    });
  }

  /** @param {Iterable<Agent>} agents @param {string} [chosen] the state whose steps are shown */
  template(agents = [], chosen = '') {
    const { graph } = this;
    if (!graph) return html`<div class="graph"></div>`;
    if (graph.problem || !graph.nodes.length) {
      return html`<div class="graph"><p class="empty">${graph.problem ?? 'This workflow has no states.'}</p></div>`;
    }
    /** @type {Map<number, Agent[]>} */
    const there = new Map();
    for (const agent of agents) {
      const node = agent.is_ended || !agent.state ? undefined : this.nodes.get(agent.state);
      if (node === undefined || this.travelling.has(agent.agent)) continue;
      const known = there.get(node);
      if (known) known.push(agent);
      else there.set(node, [agent]);
    }
    const taken = new Map((graph.taken ?? []).map(({ link, count }) => [link, count]));
    const { x, y, width, height } = this.view ?? this.whole();
    const keep = (/** @type {Element} */ element) => {
      this.element = /** @type {SVGSVGElement} */ (element);
      element.addEventListener('wheel', (event) => this.wheel(/** @type {WheelEvent} */ (event)), { passive: false });
    };
    return html`<div class="graph"><svg viewBox="${x} ${y} ${width} ${height}" ${withElement(keep)} role="group" aria-label="graph of the workflow"
      @pointerdown=${(/** @type {PointerEvent} */ event) => this.drag(event)}>${ARROW}
      ${this.folders.map(({ name, x, y, width, height }) => svg`<g class="folder"><rect x=${x} y=${y} width=${width} height=${height} rx="10" /><text x=${x + 10} y=${y + 14}>${name}/</text></g>`)}
      ${graph.links.map((link, index) => this.link(link, taken.get(index)))}
      ${graph.nodes.map((node) => this.node(node, chosen))}
      ${graph.nodes.map((node, index) => this.agents(node, there.get(index) ?? []))}
      <g class="travellers"></g></svg>
      <div class="zoom"><button class="quiet" aria-label="zoom in" @click=${() => this.zoom(ZOOM_STEP)}>+</button><button class="quiet" aria-label="zoom out"
        @click=${() => this.zoom(1 / ZOOM_STEP)}>−</button>${this.view ? html`<button class="quiet small" @click=${() => this.look(null)}>fit</button>` : nothing}</div></div>`;
  }

  /** @param {GraphLink} link @param {number | undefined} count */
  link(link, count) {
    const graph = /** @type {Graph} */ (this.graph);
    const said = count && count > 1 ? `${link.label} ${count}×`.trim() : link.label;
    const [from, to] = [graph.nodes[link.from], graph.nodes[link.to]];
    return svg`<g class="link ${link.kind} ${this.options.isRun ? (count ? 'taken' : 'untaken') : ''}"><title>${stateName(from?.name)} ${link.kind} ${stateName(to?.name)}${count ? `, ${count}×` : ''}</title>
      <path d=${this.path(link)} marker-end="url(#arrow)" />
      ${link.label_at && said ? svg`<text x=${link.label_at[0]} y=${this.squeeze(link.label_at[1]) + 4}>${said}</text>` : nothing}</g>`;
  }

  /** The name of a state without the folder that is drawn around it. @param {string} name */
  within(name) {
    const around = this.folders.findLast((folder) => name.startsWith(`${folder.name}/`));
    return around ? name.slice(around.name.length + 1) : name;
  }

  /** @param {GraphNode} node @param {string} chosen */
  node(node, chosen) {
    const { name, kind, center: [x, cy], width, height } = node;
    const y = this.squeeze(cy);
    const visit = this.graph?.visits?.[name];
    const isFile = kind === 'prompt' || kind === 'script' || kind === 'evaluator';
    const unvisited = this.options.isRun && !visit && isFile;
    const radius = kind === 'end' || kind === 'open' ? height / 2 : kind === 'script' ? 2 : 8;
    const then = this.click(() => this.options.onState?.(name));
    const press = (/** @type {KeyboardEvent} */ event) => {
      if (event.key === 'Enter') this.options.onState?.(name);
    };
    const said = visit ? [plural(visit.steps, 'step'), visit.cost_usd ? money(visit.cost_usd) : '', visit.failures ? `${visit.failures} failed` : ''].filter(Boolean).join(' · ') : '';
    return svg`<g class="node ${kind} ${node.is_entry ? 'entry' : ''} ${visit?.failures ? 'failed' : ''} ${unvisited ? 'unvisited' : ''} ${chosen === name ? 'chosen' : ''}"
      tabindex=${isFile ? 0 : nothing} role=${isFile ? 'button' : nothing} aria-label=${stateName(name)} @click=${isFile ? then : nothing} @keydown=${isFile ? press : nothing}>
      <title>${name}${said ? `: ${said}` : ''}</title>
      <rect x=${x - width / 2} y=${y - height / 2} width=${width} height=${height} rx=${radius} />
      ${kind === 'script' ? svg`<path class="bars" d="M${x - width / 2 + 6} ${y - height / 2}v${height}M${x + width / 2 - 6} ${y - height / 2}v${height}" />` : nothing}
      <text class="name" x=${x} y=${visit ? y - 2 : y + 5}>${stateName(this.within(name))}</text>
      ${visit ? svg`<text class="visit" x=${x} y=${y + 14}>${visit.failures ? svg`<tspan class="fail">✕ ${visit.failures}</tspan> ` : ''}${visit.steps}×${visit.cost_usd ? ` ${money(visit.cost_usd)}` : ''}</text>` : nothing}</g>`;
  }

  /** @param {GraphNode} node @param {Agent[]} agents */
  agents(node, agents) {
    if (!agents.length) return nothing;
    const [x, y] = [node.center[0], this.squeeze(node.center[1]) + node.height / 2];
    const failed = agents.filter((agent) => agent.phase === 'failed').length;
    if (agents.length > DOTS_MAX) {
      const width = 26 + 7 * String(agents.length).length;
      return svg`<g class="many"><title>${agents.length} agents${failed ? `, ${failed} failed` : ''}</title>
        <rect x=${x - width / 2} y=${y - 9} width=${width} height="18" rx="9" class=${failed ? 'failed' : ''} />
        <circle cx=${x - width / 2 + 10} cy=${y} r="4" /><text x=${x + 6} y=${y + 4}>${agents.length}</text></g>`;
    }
    const gap = Math.min(2 * RADIUS + 3, (node.width - 12) / Math.max(1, agents.length - 1));
    const left = x - (gap * (agents.length - 1)) / 2;
    return repeat(agents, (agent) => agent.agent, (agent, index) => svg`<circle class="dot ${dotKind(agent)}" cx=${left + index * gap} cy=${y} r=${RADIUS}
      @click=${this.click(() => this.options.onAgent?.(agent))}><title>${agent.agent}: ${agent.activity ?? agent.phase}</title></circle>`);
  }
}

/** @param {Agent} agent */
function dotKind(agent) {
  if (agent.phase === 'failed') return 'failed';
  if (agent.phase === 'asking') return 'you';
  return agent.phase === 'running' || agent.phase === 'starting' ? 'running' : 'idle';
}

/** The boxes of subworkflows, around all states of a folder and the boxes of the folders in it. One that would also enclose other states is not drawn:
 * then the states keep their whole names. @param {GraphNode[]} nodes @param {(y: number) => number} squeeze */
function foldersOf(nodes, squeeze) {
  const names = new Set(nodes.flatMap(({ name }) => [...name.matchAll(/\//g)].map(({ index }) => name.slice(0, index))));
  const edges = (/** @type {GraphNode} */ node) => ({ name: node.name, left: node.center[0] - node.width / 2, right: node.center[0] + node.width / 2, top: squeeze(node.center[1]) - node.height / 2, bottom: squeeze(node.center[1]) + node.height / 2 });
  const states = nodes.map(edges);
  /** @type {typeof states} */
  const boxes = [];
  // The inner ones first, because the outer ones enclose them.
  for (const name of [...names].sort((one, other) => other.length - one.length)) {
    const isInside = (/** @type {{ name: string }} */ one) => one.name.startsWith(`${name}/`);
    const inside = [...states, ...boxes].filter(isInside);
    const left = Math.min(...inside.map((one) => one.left)) - FOLDER_MARGIN;
    const right = Math.max(...inside.map((one) => one.right)) + FOLDER_MARGIN;
    const top = Math.min(...inside.map((one) => one.top)) - FOLDER_TITLE;
    const bottom = Math.max(...inside.map((one) => one.bottom)) + FOLDER_MARGIN;
    const isHit = states.some((one) => !isInside(one) && one.right > left && one.left < right && one.bottom > top && one.top < bottom);
    if (!isHit) boxes.unshift({ name, left, right, top, bottom });
  }
  return boxes.map(({ name, left, right, top, bottom }) => ({ name, x: left, y: top, width: right - left, height: bottom - top }));
}

/** Moves the layers of boxes closer together: boxes keep their height, gaps get smaller. @param {GraphNode[]} nodes */
function squeezed(nodes) {
  const layers = [...new Map(nodes.map((node) => [node.center[1], node.height / 2])).entries()].sort((one, other) => one[0] - other[0]);
  return (/** @type {number} */ y) => {
    let [source, target] = [0, 0];
    for (const [center, half] of layers) {
      const [top, bottom] = [center - half, center + half];
      if (y < top) return target + (y - source) * SQUEEZE;
      target += Math.max(0, top - source) * SQUEEZE;
      if (y <= bottom) return target + (y - top);
      target += bottom - top;
      source = bottom;
    }
    return target + (y - source) * SQUEEZE;
  };
}
