"use strict";
const states = JSON.parse(document.getElementById("states").textContent);
const svg = document.getElementById("picture");
const panel = document.getElementById("panel");
const nodes = [...document.querySelectorAll(".node[role]")];

// What is shown is a part of the drawing: x, y and size are in its own units.
const drawn = svg.viewBox.baseVal;
const size = { width: drawn.width, height: drawn.height };
let whole;
let view;

// The whole drawing in the middle of the window, never larger than it was drawn.
function fit() {
  const room = svg.getBoundingClientRect();
  const scale = Math.max(size.width / room.width, size.height / room.height, 1) || 1;
  const width = room.width * scale, height = room.height * scale;
  whole = { x: (size.width - width) / 2, y: Math.min(0, (size.height - height) / 3), width, height };
  view = { ...whole };
  show();
}

function show() {
  svg.setAttribute("viewBox", `${view.x} ${view.y} ${view.width} ${view.height}`);
}

addEventListener("resize", fit);
fit();

function zoom(factor, x = view.x + view.width / 2, y = view.y + view.height / 2) {
  const width = view.width * factor;
  if (width < 60 || width > whole.width * 8) return;
  view = { x: x - (x - view.x) * factor, y: y - (y - view.y) * factor,
    width, height: view.height * factor };
  show();
}

// A place on the screen as a place in the drawing.
function place(event) {
  const matrix = svg.getScreenCTM();
  return new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
}

svg.addEventListener("wheel", (event) => {
  event.preventDefault();
  const at = place(event);
  zoom(Math.exp(Math.sign(event.deltaY) * 0.15), at.x, at.y);
}, { passive: false });

let grip = null;
let moved = 0;
svg.addEventListener("pointerdown", (event) => {
  grip = place(event);
  moved = 0;
});
addEventListener("pointermove", (event) => {
  if (!grip) return;
  const at = place(event);
  moved += Math.abs(event.movementX) + Math.abs(event.movementY);
  view.x -= at.x - grip.x;
  view.y -= at.y - grip.y;
  show();
});
addEventListener("pointerup", () => { grip = null; });

function choose(node) {
  nodes.forEach((other) => other.classList.toggle("chosen", other === node));
  panel.hidden = !node;
  if (!node) return;
  const state = states[Number(node.dataset.node)];
  // Always as text: it comes from a workflow and is never markup.
  document.getElementById("name").textContent = state.name;
  document.getElementById("about").textContent = state.about;
  document.getElementById("text").textContent = state.text;
}

for (const node of nodes) {
  node.addEventListener("click", () => { if (moved < 5) choose(node); });
}
document.getElementById("close").addEventListener("click", () => choose(null));

addEventListener("keydown", (event) => {
  const focused = nodes.indexOf(document.activeElement);
  if (event.key === "Enter" && focused >= 0) choose(nodes[focused]);
  else if (event.key === "Escape") choose(null);
  else if (event.key === "+") zoom(0.8);
  else if (event.key === "-") zoom(1.25);
  else if (event.key === "0") { view = { ...whole }; show(); }
});

// `page.html#START.md` opens with that state's text.
function follow() {
  const name = decodeURIComponent(location.hash.slice(1));
  const node = nodes.find((one) => states[Number(one.dataset.node)].name === name);
  if (node) choose(node);
}
addEventListener("hashchange", follow);
follow();
document.body.dataset.ready = "true";
