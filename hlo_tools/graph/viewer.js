"use strict";
// Data: see page.py. An item is what is drawn: a node (its number) or a collapsed scope.
const began = performance.now();
const data = JSON.parse(document.getElementById("data").textContent);
const { strings, scopes, nodes, computations, colors } = data;
const NAME = 0, TITLE = 1, SHAPE = 2, KIND = 3, SCOPE = 4, SOURCE = 5, ROOT = 6, OPERANDS = 7, CALLS = 8, DETAILS = 9;
const WIDE = 190, HIGH = 52, GAP = 22, ROW = 92, HEAD = 34, PAD = 20;
const FAR = 12; // layers; a longer edge shows its two ends only, unless one is selected
const MOST_AT_FIRST = 1500; // items; beyond, scopes start collapsed, inner ones first
const get = id => document.getElementById(id);
const text = number => strings[number];

// The graph

const computationOf = new Int32Array(nodes.length);
computations.forEach((c, i) => computationOf.fill(i, c[2], c[3]));
const users = nodes.map(() => []);
nodes.forEach((node, i) => new Set(node[OPERANDS]).forEach(o => users[o].push(i)));
const scopeSize = new Int32Array(scopes.length), scopeChildren = scopes.map(() => []);
const topScopes = computations.map(() => []);
scopes.forEach(([parent, , computation], i) => (parent < 0 ? topScopes[computation] : scopeChildren[parent]).push(i));
for (const node of nodes) for (let s = node[SCOPE]; s >= 0; s = scopes[s][0]) scopeSize[s]++;
const callers = computations.map(() => []);
nodes.forEach((node, i) => node[CALLS].forEach(c => callers[c].push(i)));

const closedScopes = new Set(), closedComputations = new Set();
function startState() {
  computations.forEach((c, i) => { if (!c[1]) closedComputations.add(i); });
  for (let depth = 6; depth > 0; depth--) {
    if (countItems() <= MOST_AT_FIRST) return;
    scopes.forEach((_, s) => { if (depthOf(s) === depth) closedScopes.add(s); });
  }
}
function depthOf(s) { let d = 0; for (; s >= 0; s = scopes[s][0]) d++; return d; }
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
function itemsOf(c) {
  const seen = new Set();
  for (let i = computations[c][2]; i < computations[c][3]; i++) seen.add(itemOfNode(i));
  return [...seen];
}

// Layout: layers by longest path (edges that would close a circle left out), order by means.

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
  for (const edge of box.edges) edges.push(edge);
}
function layOutComputation(c) {
  const empty = { computation: c, width: WIDE + 2 * PAD, height: HEAD, items: [], edges: [] };
  if (closedComputations.has(c)) return empty;
  const ids = itemsOf(c), place = new Map(ids.map((id, i) => [id, i]));
  const items = ids.map(id => ({ id, x: 0, y: 0, layer: 0 }));
  const above = ids.map(() => new Set()), below = ids.map(() => new Set());
  for (let i = computations[c][2]; i < computations[c][3]; i++) {
    const to = place.get(itemOfNode(i));
    for (const operand of nodes[i][OPERANDS]) {
      const from = place.get(itemOfNode(operand));
      if (from !== to) { above[to].add(from); below[from].add(to); }
    }
  }
  const layers = layersOf(items, above, below);
  arrange(layers, items, above, below);
  let low = Infinity, high = -Infinity;
  for (const item of items) { low = Math.min(low, item.x); high = Math.max(high, item.x); }
  for (const item of items) { item.x += WIDE / 2 - low; item.y = (item.layer + .5) * ROW; }
  const made = [];
  above.forEach((from, to) => from.forEach(f => made.push([items[f], items[to]])));
  return { computation: c, width: high - low + WIDE + 2 * PAD, height: HEAD + layers.length * ROW + PAD / 2, items, edges: made };
}
function layersOf(items, above, below) {
  const waiting = above.map(set => set.size), done = new Uint8Array(items.length);
  let ready = [], next = 0, left = items.length;
  waiting.forEach((n, i) => { if (!n) ready.push(i); });
  while (left > 0) {
    if (!ready.length) { while (done[next]) next++; ready.push(next); } // a circle of collapsed scopes
    const i = ready.pop();
    if (done[i]) continue;
    done[i] = 1; left--;
    for (const b of below[i]) {
      if (done[b]) continue;
      items[b].layer = Math.max(items[b].layer, items[i].layer + 1);
      if (--waiting[b] === 0) ready.push(b);
    }
  }
  // Chains of one operand each that begin at a source stand right above their first user.
  const order = items.map((_, i) => i).sort((a, b) => items[a].layer - items[b].layer || a - b);
  const chain = new Uint8Array(items.length);
  for (const i of order) {
    const [only] = above[i];
    chain[i] = !above[i].size || (above[i].size === 1 && chain[only] && items[only].layer < items[i].layer) ? 1 : 0;
  }
  for (const i of order.reverse()) {
    if (!chain[i] || !below[i].size) continue;
    let first = Infinity;
    below[i].forEach(b => { first = Math.min(first, items[b].layer); });
    items[i].layer = Math.max(first - 1, items[i].layer);
  }
  const layers = [];
  items.forEach((item, i) => { (layers[item.layer] ||= []).push(i); });
  for (let k = 0; k < layers.length; k++) layers[k] ||= [];
  return layers;
}
function arrange(layers, items, above, below) {
  layers.forEach(layer => layer.forEach((i, k) => { items[i].x = (k - (layer.length - 1) / 2) * (WIDE + GAP); }));
  for (let sweep = 0; sweep < 6; sweep++) {
    const down = sweep % 2 === 0, near = down ? above : below;
    for (let k = 0; k < layers.length; k++) {
      const layer = layers[down ? k : layers.length - 1 - k];
      const want = new Map(layer.map(i => [i, mean(i, near[i], items)]));
      layer.sort((a, b) => want.get(a) - want.get(b) || a - b);
      let edge = -Infinity, off = 0;
      for (const i of layer) { items[i].x = Math.max(want.get(i), edge); edge = items[i].x + WIDE + GAP; off += want.get(i) - items[i].x; }
      for (const i of layer) items[i].x += off / layer.length;
    }
  }
}
function mean(i, near, items) {
  if (!near.size) return items[i].x;
  let sum = 0;
  near.forEach(n => { sum += items[n].x; });
  return sum / near.size;
}

// Drawing

const canvas = get("canvas"), pen = canvas.getContext("2d");
const view = { x: 0, y: 0, scale: 1 };
let selected = null, hits = [], hitSet = new Set(), hit = -1, asked = false;
const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
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
  const near = selected === null ? null : placed.get(selected);
  pen.lineWidth = 1.2; pen.strokeStyle = "#94a3b8"; pen.globalAlpha = near ? .45 : .8;
  pen.beginPath();
  for (const [from, to] of edges) {
    if (!inSight(from, to, seen)) continue;
    if (Math.abs(to.layer - from.layer) > FAR) stubs(from, to); else curve(from, to);
  }
  pen.stroke();
  pen.globalAlpha = 1;
  if (!near) return;
  pen.lineWidth = 2.5; pen.strokeStyle = style("--mark"); pen.beginPath();
  for (const [from, to] of edges) if (from === near || to === near) curve(from, to);
  pen.stroke();
}
function inSight(a, b, seen) {
  return Math.max(a.y, b.y) >= seen.t && Math.min(a.y, b.y) <= seen.b && Math.max(a.x, b.x) >= seen.l && Math.min(a.x, b.x) <= seen.r;
}
function curve(from, to) {
  const a = from.y + HIGH / 2, b = to.y - HIGH / 2, bend = Math.min(Math.abs(b - a) / 2, ROW);
  pen.moveTo(from.x, a); pen.bezierCurveTo(from.x, a + bend, to.x, b - bend, to.x, b);
}
function stubs(from, to) {
  const side = Math.sign(to.x - from.x) * 14, a = from.y + HIGH / 2, b = to.y - HIGH / 2;
  pen.moveTo(from.x, a); pen.lineTo(from.x + side, a + 14);
  pen.moveTo(to.x - side, b - 14); pen.lineTo(to.x, b);
}
function drawItem(item, small) {
  const scope = item.id < 0 ? -1 - item.id : -1, node = scope < 0 ? nodes[item.id] : null;
  const x = item.x - WIDE / 2, y = item.y - HIGH / 2;
  pen.fillStyle = node ? colors[node[KIND]][1] : "#334155";
  pen.beginPath(); pen.roundRect(x, y, WIDE, HIGH, node ? 7 : 16); pen.fill();
  if (item.id === selected || hitSet.has(item.id)) { pen.lineWidth = item.id === selected ? 4 : 3; pen.strokeStyle = item.id === selected ? style("--ink") : "#f59e0b"; pen.stroke(); }
  else if (node && node[ROOT]) { pen.lineWidth = 2.5; pen.strokeStyle = style("--ink"); pen.stroke(); }
  if (small) return;
  pen.fillStyle = "#fff"; pen.font = "600 13px system-ui, sans-serif";
  pen.fillText(fitted(node ? text(node[TITLE]) : text(scopes[scope][1]), WIDE - 12, 13), item.x, item.y - 9);
  pen.font = "11px ui-monospace, monospace";
  pen.fillText(fitted(node ? "%" + text(node[NAME]) : "scope · " + scopeSize[scope] + " instructions", WIDE - 12, 11), item.x, item.y + 6);
  if (node) pen.fillText(fitted(shownShape(node), WIDE - 12, 11), item.x, item.y + 20);
}
// The shape, and the value of a constant that is one short number.
function shownShape(node) {
  const shape = text(node[SHAPE]), details = node[DETAILS];
  if (text(node[TITLE]) !== "constant") return shape;
  for (let i = 0; i < details.length; i += 2) if (text(details[i]) === "value" && text(details[i + 1]).length <= 14) return `${shape} = ${text(details[i + 1])}`;
  return shape;
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
  view.x = (whole >= view.scale || wanted.length === 1 ? (w - box.width * view.scale) / 2 : 20) - left * view.scale;
  view.y = (whole >= view.scale ? (h - box.height * view.scale) / 2 : 20) - top * view.scale;
  redraw();
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

// Panels: all text goes in as text, never as markup.

function element(tag, content, parent, click) {
  const made = document.createElement(tag);
  if (content !== undefined) made.textContent = content;
  if (click) made.addEventListener("click", click);
  parent.append(made);
  return made;
}
function select(id) { selected = id; showDetails(); redraw(); }
function showDetails() {
  const panel = get("details"); panel.replaceChildren();
  if (selected === null) { showKey(panel); return; }
  if (selected < 0) { showScope(panel, -1 - selected); return; }
  const node = nodes[selected];
  element("h2", "Instruction", panel);
  facts(panel, [["name", "%" + text(node[NAME])], ["opcode", colors[node[KIND]][0] === "kernel" ? "custom-call" : text(node[TITLE])], ["shape", text(node[SHAPE])],
    ["computation", "%" + computations[computationOf[selected]][0]], ["source", text(node[SOURCE])]]);
  if (node[DETAILS].length) {
    element("h2", "Details", panel);
    const pairs = [];
    for (let i = 0; i < node[DETAILS].length; i += 2) pairs.push([text(node[DETAILS][i]), text(node[DETAILS][i + 1])]);
    facts(panel, pairs);
  }
  links(panel, "Operands", node[OPERANDS]);
  links(panel, "Users", users[selected]);
  if (node[CALLS].length) {
    element("h2", "Calls", panel);
    for (const c of node[CALLS]) element("a", "%" + computations[c][0], panel, () => goTo(computations[c][3] - 1));
  }
  links(panel, "Called by", callers[computationOf[selected]]);
}
function facts(panel, pairs) {
  const list = element("dl", undefined, panel);
  for (const [key, value] of pairs) if (value) { element("dt", key, list); element("dd", value, list); }
}
function links(panel, title, list) {
  if (!list.length) return;
  element("h2", `${title} (${list.length})`, panel);
  for (const i of list.slice(0, 100)) element("a", `%${text(nodes[i][NAME])}  ${text(nodes[i][TITLE])}  ${text(nodes[i][SHAPE])}`, panel, () => goTo(i));
  if (list.length > 100) element("span", `and ${list.length - 100} more`, panel);
}
function showScope(panel, s) {
  element("h2", "Scope", panel);
  const path = [];
  for (let at = s; at >= 0; at = scopes[at][0]) path.unshift(text(scopes[at][1]));
  facts(panel, [["path", path.join("/")], ["instructions", String(scopeSize[s])]]);
  element("p", "", panel);
  element("button", "Expand", panel, () => toggle(closedScopes, s));
}
function showKey(panel) {
  element("h2", "Colours", panel);
  for (const [kind, color] of colors) {
    const key = element("span", "", panel); key.className = "key";
    element("i", "", key).style.background = color; element("span", kind, key);
  }
  element("h2", "Use", panel);
  element("p", "Drag to move, wheel to zoom, click for details, double-click a scope to expand it, click a computation's title to fold it. Enter in the search goes to the next hit.", panel);
}
const unfolded = new Set(computations.map((_, c) => "c" + c).slice(0, 1));
function showTree() {
  const panel = get("tree"); panel.replaceChildren();
  element("h2", "Computations and scopes", panel);
  let left = 1500; // rows; a tree with more is not read by anyone
  computations.forEach((c, i) => {
    if (left-- <= 0) return;
    branch(panel, 0, "c" + i, (c[1] ? "ENTRY " : "") + "%" + c[0], c[3] - c[2], topScopes[i].length, closedComputations, i);
    if (unfolded.has("c" + i)) topScopes[i].forEach(s => scopeBranch(s, 1));
  });
  function scopeBranch(s, depth) {
    if (left-- <= 0) return;
    branch(panel, depth, "s" + s, text(scopes[s][1]), scopeSize[s], scopeChildren[s].length, closedScopes, s);
    if (unfolded.has("s" + s)) scopeChildren[s].forEach(child => scopeBranch(child, depth + 1));
  }
}
function branch(panel, depth, key, label, count, children, closed, id) {
  const row = element("div", undefined, panel); row.className = "row"; row.style.paddingLeft = 4 + depth * 14 + "px";
  const fold = element("span", children ? (unfolded.has(key) ? "▾" : "▸") : "", row, event => {
    event.stopPropagation();
    if (!unfolded.delete(key)) unfolded.add(key);
    showTree();
  });
  fold.className = "fold";
  const box = element("input", undefined, row); box.type = "checkbox"; box.checked = !closed.has(id); box.title = "drawn in full";
  box.addEventListener("click", event => { event.stopPropagation(); toggle(closed, id); });
  const label_ = element("span", label, row); label_.className = "t"; label_.title = label;
  element("span", count.toLocaleString("en"), row).className = "n";
  row.addEventListener("click", () => {
    const first = key[0] === "c" ? computations[id][2] : nodes.findIndex(node => within(node[SCOPE], id));
    const item = first >= 0 && placed.get(itemOfNode(first));
    if (item) { select(item.id); center(item); }
  });
}
function within(s, wanted) { for (; s >= 0; s = scopes[s][0]) if (s === wanted) return true; return false; }

// Search

let texts = null;
function textOf(i) {
  const node = nodes[i], path = [];
  for (let s = node[SCOPE]; s >= 0; s = scopes[s][0]) path.unshift(text(scopes[s][1]));
  return [text(node[NAME]), text(node[TITLE]), text(node[SHAPE]), text(node[SOURCE]), path.join("/"), ...node[DETAILS].map(text)].join("\n").toLowerCase();
}
function search() {
  const words = get("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  texts ||= nodes.map((_, i) => textOf(i));
  hits = words.length ? nodes.map((_, i) => i).filter(i => words.every(word => texts[i].includes(word))) : [];
  hit = -1; markHits(); redraw();
  get("hits").textContent = words.length ? `${hits.length} hits` : "";
}
function markHits() { hitSet = new Set(hits.map(itemOfNode)); }
get("search").addEventListener("input", search);
get("search").addEventListener("keydown", event => {
  if (event.key !== "Enter" || !hits.length) return;
  hit = (hit + (event.shiftKey ? hits.length - 1 : 1)) % hits.length;
  goTo(hits[hit]);
  get("hits").textContent = `${hit + 1} of ${hits.length}`;
});
get("open").addEventListener("click", () => { closedScopes.clear(); closedComputations.clear(); changed(); fit(.1, boxes); });
get("close").addEventListener("click", () => { scopes.forEach((scope, s) => { if (scope[0] < 0) closedScopes.add(s); }); computations.forEach((c, i) => { if (!c[1]) closedComputations.add(i); }); changed(); fit(.5, boxes.slice(0, 1)); });
get("fit").addEventListener("click", () => fit(0, boxes));

// Start

startState();
changed();
showDetails();
document.title = data.module;
get("title").textContent = data.module;
fit(.5, boxes.slice(0, 1));
requestAnimationFrame(() => requestAnimationFrame(() => {
  const took = Math.round(performance.now() - began);
  document.documentElement.dataset.milliseconds = String(took);
  get("counts").textContent = `${nodes.length.toLocaleString("en")} instructions, ${computations.length} computations`;
}));
