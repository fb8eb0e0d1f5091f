// Data: see page.py. An item is what is drawn: a node (its number) or a collapsed scope.
const began = performance.now();
const data = JSON.parse(document.getElementById("data").textContent);
const { strings, scopes, nodes, computations, colors, sheets } = data;
const NAME = 0, TITLE = 1, SHAPE = 2, KIND = 3, SCOPE = 4, SOURCE = 5, ROOT = 6, OPERANDS = 7, CALLS = 8, OPCODE = 9, ATTRIBUTES = 10, SHEET = 11;
const WIDE = 190, HIGH = 52, GAP = 22, ROW = 92, HEAD = 34, PAD = 20;
const MOST_AT_FIRST = 400; // items; beyond, scopes start collapsed, inner ones first
const get = id => document.getElementById(id);
const text = number => strings[number];

// The graph

const computationOf = new Int32Array(nodes.length);
computations.forEach((c, i) => computationOf.fill(i, c[2], c[3]));
const users = nodes.map(() => []);
nodes.forEach((node, i) => new Set(node[OPERANDS]).forEach(o => users[o].push(i)));
const isKernel = node => colors[node[KIND]][0] === "kernel";
const scopeSize = new Int32Array(scopes.length), scopeKernels = new Int32Array(scopes.length);
const scopeChildren = scopes.map(() => []), scopeDepth = new Int32Array(scopes.length), topScopes = computations.map(() => []);
scopes.forEach(([parent, , computation], i) => { // parents stand before their children
  (parent < 0 ? topScopes[computation] : scopeChildren[parent]).push(i);
  scopeDepth[i] = parent < 0 ? 1 : scopeDepth[parent] + 1;
});
for (const node of nodes) for (let s = node[SCOPE]; s >= 0; s = scopes[s][0]) { scopeSize[s]++; if (isKernel(node)) scopeKernels[s]++; }
const callers = computations.map(() => []);
nodes.forEach((node, i) => node[CALLS].forEach(c => callers[c].push(i)));

const closedScopes = new Set(), closedComputations = new Set();
function startState() {
  computations.forEach((c, i) => { if (!c[1]) closedComputations.add(i); });
  scopes.forEach(([, , , isBlock], s) => { if (isBlock) closedScopes.add(s); });
  for (let depth = scopeDepth.reduce((a, b) => Math.max(a, b), 0); depth > 0; depth--) {
    if (countItems() <= MOST_AT_FIRST) return;
    scopeDepth.forEach((d, s) => { if (d === depth) closedScopes.add(s); });
  }
}
function countItems() {
  let count = 0;
  computations.forEach((c, i) => { if (!closedComputations.has(i)) count += itemsOf(i).length; });
  return count;
}

// What a node is drawn as: itself, or the outermost collapsed scope around it (as -1 - scope).
function itemOfNode(i) {
  let item = i;
  for (let s = nodes[i][SCOPE]; s >= 0; s = scopes[s][0]) if (closedScopes.has(s)) item = -1 - s;
  return item;
}
function itemsOf(c, seen = new Map()) {
  const outer = new Map(); // of a scope: its item, or null where it is open
  const itemOf = s => {
    if (s < 0) return null;
    let item = outer.get(s);
    if (item === undefined) { item = itemOf(scopes[s][0]) ?? (closedScopes.has(s) ? -1 - s : null); outer.set(s, item); }
    return item;
  };
  for (let i = computations[c][2]; i < computations[c][3]; i++) seen.set(i, itemOf(nodes[i][SCOPE]) ?? i);
  return [...new Set(seen.values())];
}

// Layout: computations beside each other, each by layout.js.

let boxes = [], placed = new Map(), edges = [];
function layOut() {
  boxes = []; placed = new Map(); edges = [];
  let right = 0, y = 0, column = 0;
  computations.forEach((computation, c) => {
    const box = layOutComputation(c);
    if (c === 0) { place(box, 0, 0); column = box.width + 80; return; }
    if (y > 0 && y + box.height > Math.max(boxes[0].height, 1600)) { column = right + 60; y = 0; }
    place(box, column, y);
    y += box.height + 40; right = Math.max(right, column + box.width);
  });
}
function place(box, x, y) {
  box.x = x; box.y = y; boxes.push(box);
  for (const item of box.items) { item.x += x + PAD; item.y += y + HEAD; placed.set(item.id, item); }
  for (const edge of box.edges) {
    edge.l = edge.t = Infinity; edge.r = edge.b = -Infinity;
    for (const point of edge.points) {
      point[0] += x + PAD; point[1] += y + HEAD;
      edge.l = Math.min(edge.l, point[0]); edge.r = Math.max(edge.r, point[0]);
      edge.t = Math.min(edge.t, point[1]); edge.b = Math.max(edge.b, point[1]);
    }
    edges.push(edge);
  }
}
function layOutComputation(c) {
  const empty = { computation: c, width: WIDE + 2 * PAD, height: HEAD, items: [], edges: [] };
  if (closedComputations.has(c)) return empty;
  const itemOf = new Map(), ids = itemsOf(c, itemOf), place = new Map(ids.map((id, i) => [id, i]));
  const above = ids.map(() => new Set()), below = ids.map(() => new Set());
  for (let i = computations[c][2]; i < computations[c][3]; i++) {
    const to = place.get(itemOf.get(i));
    for (const operand of nodes[i][OPERANDS]) {
      const from = place.get(itemOf.get(operand));
      if (from !== to) { above[to].add(from); below[from].add(to); }
    }
  }
  const drawing = layeredDrawing(above, below, { wide: WIDE, high: HIGH, row: ROW, gap: GAP });
  const items = ids.map((id, i) => ({ id, x: drawing.x[i], y: (drawing.level[i] + .5) * ROW, layer: drawing.level[i] }));
  const made = drawing.routes.map(route => ({ ...route, from: items[route.from], to: items[route.to] }));
  return { computation: c, width: drawing.width + 2 * PAD, height: HEAD + drawing.layers * ROW + PAD / 2, items, edges: made };
}

// Drawing

const canvas = get("canvas"), pen = canvas.getContext("2d");
const view = { x: 0, y: 0, scale: 1 };
let selected = null, hits = [], hitSet = new Set(), hit = -1, asked = false;
let palette = {};
const style = name => palette[name];
function readPalette() {
  const found = getComputedStyle(document.documentElement);
  for (const name of ["--ink", "--line", "--panel", "--mark", "--edge", "--scope"]) palette[name] = found.getPropertyValue(name).trim();
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readPalette(); redraw(); });
readPalette();
function redraw() { if (!asked) { asked = true; requestAnimationFrame(draw); } }
function draw() {
  asked = false;
  const ratio = devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
  if (canvas.width !== w * ratio || canvas.height !== h * ratio) { canvas.width = w * ratio; canvas.height = h * ratio; }
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, w, h);
  pen.setTransform(ratio * view.scale, 0, 0, ratio * view.scale, ratio * view.x, ratio * view.y);
  const seen = { l: -view.x / view.scale, t: -view.y / view.scale, r: (w - view.x) / view.scale, b: (h - view.y) / view.scale };
  drawBoxes(seen);
  drawEdges(seen);
  const small = view.scale < .35;
  pen.textAlign = "center";
  for (const item of placed.values()) {
    if (item.x + WIDE / 2 < seen.l || item.x - WIDE / 2 > seen.r || item.y + HIGH < seen.t || item.y - HIGH > seen.b) continue;
    drawItem(item, small);
  }
}
function drawBoxes(seen) {
  pen.font = "600 15px system-ui, sans-serif"; pen.textAlign = "left";
  for (const box of boxes) {
    if (box.x > seen.r || box.y > seen.b || box.x + box.width < seen.l || box.y + box.height < seen.t) continue;
    pen.fillStyle = style("--panel"); pen.strokeStyle = style("--line"); pen.lineWidth = 1.5;
    pen.beginPath(); pen.roundRect(box.x, box.y, box.width, box.height, 10); pen.fill(); pen.stroke();
    pen.fillStyle = style("--ink");
    const c = computations[box.computation];
    pen.fillText(fitted((closedComputations.has(box.computation) ? "▸ " : "▾ ") + (c[1] ? "ENTRY " : "") + "%" + c[0], box.width - 24, 15), box.x + 12, box.y + 22);
  }
}
function drawEdges(seen) {
  const near = selected === null ? null : placed.get(selected), heads = [];
  pen.lineWidth = 1.3; pen.strokeStyle = pen.fillStyle = style("--edge"); pen.globalAlpha = near ? .5 : 1;
  pen.beginPath();
  for (const edge of edges) {
    if (edge.r < seen.l || edge.l > seen.r || edge.b < seen.t || edge.t > seen.b) continue;
    if (near && (edge.from === near || edge.to === near)) continue;
    if (edge.hidden) stubs(edge); else trace(edge);
    heads.push(edge);
  }
  pen.stroke(); drawHeads(heads, 4);
  pen.globalAlpha = 1;
  if (!near) return;
  const own = edges.filter(edge => edge.from === near || edge.to === near);
  pen.lineWidth = 2.5; pen.strokeStyle = pen.fillStyle = style("--mark"); pen.beginPath();
  own.forEach(trace);
  pen.stroke(); drawHeads(own, 5.5);
}
// Between layers an edge bends, beside boxes it is straight; in a lane it is straight everywhere.
function trace({ points, lane }) {
  pen.moveTo(...points[0]);
  for (let k = 1; k < points.length; k++) {
    const [a, b] = points[k - 1], [c, d] = points[k], middle = (b + d) / 2;
    if (lane || k % 2 === 0 || view.scale < .12) pen.lineTo(c, d); else pen.bezierCurveTo(a, middle, c, middle, c, d);
  }
}
function stubs({ points }) {
  const [x, y] = points[0], [u, v] = points[points.length - 1], side = x < u ? 12 : -12;
  pen.moveTo(x, y); pen.lineTo(x + side, y + 14);
  pen.moveTo(u - side, v - 16); pen.lineTo(u, v);
}
function drawHeads(drawn, half) {
  if (view.scale < .3) return;
  pen.beginPath();
  for (const { points } of drawn) {
    const [x, y] = points[points.length - 1];
    pen.moveTo(x, y); pen.lineTo(x - half, y - 2 * half); pen.lineTo(x + half, y - 2 * half); pen.closePath();
  }
  pen.fill();
}
function drawItem(item, small) {
  const scope = item.id < 0 ? -1 - item.id : -1, node = scope < 0 ? nodes[item.id] : null;
  const x = item.x - WIDE / 2, y = item.y - HIGH / 2;
  pen.fillStyle = node ? colors[node[KIND]][1] : style("--scope");
  pen.beginPath(); pen.roundRect(x, y, WIDE, HIGH, node ? 7 : 16); pen.fill();
  if (item.id === selected || hitSet.has(item.id)) { pen.lineWidth = item.id === selected ? 4 : 3; pen.strokeStyle = item.id === selected ? style("--ink") : "#f59e0b"; pen.stroke(); }
  else if (!node && scopeKernels[scope]) { pen.lineWidth = 3; pen.strokeStyle = colors[0][1]; pen.stroke(); }
  else if (node && node[ROOT]) { pen.lineWidth = 2.5; pen.strokeStyle = style("--ink"); pen.stroke(); }
  if (small) return;
  pen.fillStyle = "#fff"; pen.font = "600 13px system-ui, sans-serif";
  pen.fillText(fitted(node ? text(node[TITLE]) : text(scopes[scope][1]), WIDE - 14, 14), item.x, item.y - 9);
  pen.font = "11px ui-monospace, monospace";
  pen.fillText(fitted(node ? "%" + text(node[NAME]) : scopeSize[scope].toLocaleString("en") + " instructions", WIDE - 12, 11), item.x, item.y + 6);
  const third = node ? shownShape(node) : scopeKernels[scope] ? `kernels: ${scopeKernels[scope]}` : "";
  pen.fillText(fitted(third, WIDE - 12, 11), item.x, item.y + 20);
}
// The shape, and the value of a constant that is one short number.
function shownShape(node) {
  const shape = text(node[SHAPE]), value = pairsOf(node[ATTRIBUTES]).find(([key]) => key === "value");
  return text(node[OPCODE]) === "constant" && value && value[1].length <= 14 ? `${shape} = ${value[1]}` : shape;
}
function pairsOf(numbers) {
  const found = [];
  for (let i = 0; i < numbers.length; i += 2) found.push([text(numbers[i]), text(numbers[i + 1])]);
  return found;
}
function fitted(label, width, size) {
  const most = Math.floor(width / (size * .6));
  return label.length <= most ? label : label.slice(0, most - 1) + "…";
}

// Moving about

// All of what is asked for, or from its top in letters that can be read.
function fit(least, wanted) {
  if (!wanted.length) return;
  const left = Math.min(...wanted.map(b => b.x)), top = Math.min(...wanted.map(b => b.y));
  const box = { width: Math.max(...wanted.map(b => b.x + b.width)) - left, height: Math.max(...wanted.map(b => b.y + b.height)) - top };
  const w = canvas.clientWidth, h = canvas.clientHeight;
  const whole = Math.min(w / (box.width + 60), h / (box.height + 60), 1.2);
  view.scale = Math.max(whole, least, .01);
  view.x = 20 - left * view.scale;
  if (whole >= view.scale || box.width * view.scale <= w) view.x = w / 2 - (left + box.width / 2) * view.scale;
  else if (wanted.length === 1) view.x = Math.max(Math.min(w / 2 - topMiddle(wanted[0]) * view.scale, view.x), w - 20 - (left + box.width) * view.scale);
  view.y = (whole >= view.scale ? (h - box.height * view.scale) / 2 : 20) - top * view.scale;
  redraw();
}
// The middle of what stands highest in a box, where reading starts.
function topMiddle(box) {
  const top = box.items.filter(item => item.layer < 4).map(item => item.x).sort((a, b) => a - b);
  return top.length ? top[top.length >> 1] : box.x + box.width / 2;
}
function center(item) {
  view.scale = Math.max(view.scale, .8);
  view.x = canvas.clientWidth / 2 - item.x * view.scale;
  view.y = canvas.clientHeight / 2 - item.y * view.scale;
  redraw();
}
function at(event) {
  const x = (event.offsetX - view.x) / view.scale, y = (event.offsetY - view.y) / view.scale;
  for (const item of placed.values()) if (Math.abs(item.x - x) <= WIDE / 2 && Math.abs(item.y - y) <= HIGH / 2) return item;
  return boxes.find(box => x >= box.x && x <= box.x + box.width && y >= box.y && y <= box.y + HEAD) || null;
}
let drag = null;
canvas.addEventListener("pointerdown", e => { drag = { x: e.clientX, y: e.clientY, moved: false }; canvas.setPointerCapture(e.pointerId); });
canvas.addEventListener("pointermove", e => {
  if (!drag) return;
  const dx = e.clientX - drag.x, dy = e.clientY - drag.y;
  if (!drag.moved && Math.hypot(dx, dy) < 4) return;
  drag.moved = true; view.x += dx; view.y += dy; drag.x = e.clientX; drag.y = e.clientY; redraw();
});
canvas.addEventListener("pointerup", e => {
  const click = drag && !drag.moved; drag = null;
  if (!click) return;
  const found = at(e);
  if (!found) { select(null); return; }
  if (found.computation !== undefined) toggle(closedComputations, found.computation);
  else select(found.id);
});
canvas.addEventListener("dblclick", e => {
  const found = at(e);
  if (found && found.id < 0) toggle(closedScopes, -1 - found.id);
});
canvas.addEventListener("wheel", e => {
  e.preventDefault();
  const factor = Math.exp(-e.deltaY * (e.ctrlKey ? .01 : .0015)), scale = Math.min(Math.max(view.scale * factor, .01), 4);
  view.x = e.offsetX - (e.offsetX - view.x) * scale / view.scale;
  view.y = e.offsetY - (e.offsetY - view.y) * scale / view.scale;
  view.scale = scale; redraw();
}, { passive: false });
addEventListener("resize", redraw);

function toggle(closed, key) {
  if (!closed.delete(key)) closed.add(key);
  changed();
}
function changed() {
  layOut();
  if (selected !== null && !placed.has(selected)) select(null);
  markHits(); showTree(); redraw();
}
// Open what hides a node, then show it.
function goTo(i) {
  let hidden = closedComputations.delete(computationOf[i]);
  for (let s = nodes[i][SCOPE]; s >= 0; s = scopes[s][0]) hidden = closedScopes.delete(s) || hidden;
  if (hidden) changed();
  select(i); center(placed.get(i));
}

