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
  const [kernel, costs, listings] = sheets[node[SHEET]].map(pairsOf);
  facts(panel, [["name", "%" + text(node[NAME])], ["opcode", text(node[OPCODE])], ["shape", text(node[SHAPE])],
    ["computation", "%" + computations[computationOf[selected]][0]], ["source", text(node[SOURCE])]]);
  section(panel, "Kernel", kernel);
  section(panel, "Costs", costs);
  for (const [title, content] of listings) listing(panel, title, content, title.endsWith("lines"));
  listing(panel, "HLO", hloOf(node), true);
  section(panel, "Attributes", pairsOf(node[ATTRIBUTES]));
  links(panel, "Operands", node[OPERANDS]);
  links(panel, "Users", users[selected]);
  if (node[CALLS].length) {
    element("h2", "Calls", panel);
    for (const c of node[CALLS]) element("a", "%" + computations[c][0], panel, () => goTo(computations[c][3] - 1));
  }
  links(panel, "Called by", callers[computationOf[selected]]);
}
function section(panel, title, pairs) {
  if (!pairs.length) return;
  element("h2", title, panel);
  facts(panel, pairs);
}
function listing(panel, title, content, open) {
  const fold = element("details", undefined, panel); fold.open = open;
  element("summary", title, fold); element("pre", content, fold).className = title === "HLO" ? "wrapped" : "";
}
// The instruction as HLO text; long attributes are cut as everywhere on the page.
function hloOf(node) {
  const attributes = pairsOf(node[ATTRIBUTES]), one = key => (attributes.find(([k]) => k === key) || [])[1];
  const given = one("number") ?? one("value") ?? node[OPERANDS].map(o => "%" + text(nodes[o][NAME])).join(", ");
  const rest = attributes.filter(([key]) => !/^(number|value|op_name|frontend .*)$/.test(key)).map(([key, value]) => `, ${key}=${value}`);
  if (one("op_name")) rest.push(`, metadata={op_name="${one("op_name")}"}`);
  const keys = { fusion: ["calls"], while: ["body", "condition"] }[text(node[OPCODE])] || ["to_apply"];
  const called = node[CALLS].map(c => "%" + computations[c][0]);
  if (called.length > keys.length) rest.push(`, branch_computations={${called.join(", ")}}`);
  else called.forEach((name, i) => rest.push(`, ${keys[i]}=${name}`));
  return `${node[ROOT] ? "ROOT " : ""}%${text(node[NAME])} = ${text(node[SHAPE])} ${text(node[OPCODE])}(${given})${rest.join("")}`;
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
  facts(panel, [["path", path.join("/")], ["instructions", scopeSize[s].toLocaleString("en")]]);
  element("p", "", panel);
  element("button", "Expand", panel, () => toggle(closedScopes, s));
  if (scopeKernels[s]) links(panel, "Kernels", nodes.map((_, i) => i).filter(i => isKernel(nodes[i]) && within(nodes[i][SCOPE], s)));
}
function showKey(panel) {
  element("h2", "Colours", panel);
  for (const [kind, color] of colors) {
    const key = element("span", "", panel); key.className = "key";
    element("i", "", key).style.background = color; element("span", kind, key);
  }
  links(panel, "Kernels", nodes.map((_, i) => i).filter(i => isKernel(nodes[i]) && !computations[computationOf[i]][4]));
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
  return [text(node[NAME]), text(node[TITLE]), text(node[SHAPE]), text(node[SOURCE]), path.join("/"), text(node[OPCODE]), ...node[ATTRIBUTES].map(text), ...sheets[node[SHEET]][0].map(text)].join("\n").toLowerCase();
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
get("close").addEventListener("click", () => { scopes.forEach((scope, s) => { if (scope[0] < 0) closedScopes.add(s); }); computations.forEach((c, i) => { if (!c[1]) closedComputations.add(i); }); changed(); fit(.75, boxes.slice(0, 1)); });
get("fit").addEventListener("click", () => fit(0, boxes));

// Start

// page.html#dot.3 opens at an instruction.
function showNamed() {
  const written = location.hash.slice(1), names = new Set([written.replace(/^%/, "")]);
  try { names.add(decodeURIComponent(written).replace(/^%/, "")); } catch { /* a name's own % is no escape */ }
  const found = written ? nodes.findIndex(node => names.has(text(node[NAME]))) : -1;
  if (found >= 0) goTo(found);
}

startState();
changed();
showDetails();
document.title = data.module;
get("title").textContent = data.module;
fit(.75, boxes.slice(0, 1));
showNamed();
addEventListener("hashchange", showNamed);
requestAnimationFrame(() => requestAnimationFrame(() => {
  const took = Math.round(performance.now() - began);
  document.documentElement.dataset.milliseconds = String(took);
  get("counts").textContent = `${nodes.length.toLocaleString("en")} instructions, ${computations.length} computations`;
}));
