// Tabs, search, keys, and the start.
const TABS = [["timeline", "Timeline", null], ["advice", "Advice", fillAdvice], ["source", "Source", fillSource], ["tables", "Tables", fillTables], ["memory", "Memory", fillMemory], ["roofline", "Roofline", fillRoofline], ["compare", "Compare", fillCompare]];
const filled = new Set();
function open(name) {
  for (const [one] of TABS) { get(one).classList.toggle("on", one === name); const tab = get("tab-" + one); if (tab) tab.setAttribute("aria-selected", String(one === name)); }
  const fill = TABS.find(one => one[0] === name)[2];
  if (fill && !filled.has(name)) { filled.add(name); fill(get(name)); }
  history.replaceState(null, "", "#" + name); floating.style.display = "none"; redraw();
}

// Marks events; the others are faint. `hits` are their numbers in order.
function mark(profile, test, title) {
  for (const one of profiles) { one.marks = null; one.hits = null; }
  const targets = profile ? [profile] : profiles;
  let count = 0;
  for (const one of targets) {
    const marks = new Uint8Array(one.count), hits = [];
    for (let i = 0; i < one.count; i++) if (test(i, one)) { marks[i] = 1; hits.push(i); }
    one.marks = marks; one.hits = hits; count += hits.length;
  }
  get("hits").textContent = `${digits(count, 0)} found${title ? ": " + title : ""}`;
  redraw();
}
function unmark() { for (const one of profiles) { one.marks = null; one.hits = null; } get("hits").textContent = ""; get("search").value = ""; area = null; selected = null; describe(); redraw(); }
function search(text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) { unmark(); return; }
  const fits = profiles.map(profile => ({ sites: profile.sites.map(site => [site[OPCODE], site[OPERANDS], profile.place(site), site[OP], site[KERNEL], site[SCOPE], ...site[FRAMES]].join(" ").toLowerCase().includes(wanted)), opcodes: profile.opcodes.map(one => one.toLowerCase().includes(wanted)) }));
  mark(null, (i, profile) => { const fit = fits[profile.number]; return fit.sites[profile.site[i]] || fit.opcodes[profile.opcode[i]]; });
  open("timeline");
}
function nextHit(step) {
  const all = profiles.flatMap(profile => (profile.hits || []).map(i => ({ profile, i }))).sort((a, b) => a.profile.start[a.i] - b.profile.start[b.i]);
  if (!all.length) return;
  const at = selected ? all.findIndex(one => one.profile === selected.profile && one.i === selected.i) : -1;
  const next = all[((at < 0 ? (step > 0 ? -1 : 0) : at) + step + all.length) % all.length];
  show(next.profile, next.i);
}
// Along the arrows: what an event waited for, and what waited for it.
function follow(step) {
  if (!selected) return;
  const { profile, i } = selected, before = profile.other("waits", i) >= 0 ? profile.other("waits", i) : profile.other("after", i);
  const found = step < 0 ? before : profile.waiters(i)[0];
  if (found !== undefined && found >= 0) show(profile, found);
}
function focus() {
  if (area) { look(Math.min(area.from, area.to), Math.max(area.from, area.to)); return; }
  if (!selected) { look(0, whole()); return; }
  const start = selected.profile.start[selected.i], length = selected.profile.length[selected.i];
  look(start - length, start + 2 * length);
}
function markEvent() { if (selected) { const start = selected.profile.start[selected.i]; area = { from: start, to: start + selected.profile.length[selected.i] }; selected = null; describe(); redraw(); } }
const KEYS = {
  w: ["W", "zoom in", () => zoom(.7)], s: ["S", "zoom out", () => zoom(1 / .7)], a: ["A", "to the left", () => pan(-.15)], d: ["D", "to the right", () => pan(.15)],
  f: ["F", "fit the selection, or all of it", focus], m: ["M", "mark the time of the event", markEvent], "/": ["/", "search", () => get("search").focus()],
  "[": ["[", "to what the event waited for", () => follow(-1)], "]": ["]", "to what waited for it", () => follow(1)], "?": ["?", "these keys", () => get("keys").showModal()],
};
function wireKeys() {
  get("keys").append(make("h3", {}, "Keys"), pairs([...Object.values(KEYS).map(([key, text]) => [make("kbd", {}, key), text]), [make("kbd", {}, "Enter"), "next found event; with Shift the one before"], [make("kbd", {}, "Esc"), "nothing selected"], ["wheel", "zoom; with Shift to the sides; with Alt up and down"], ["drag", "move; with Shift select a range"]]), make("p", {}, make("button", { onclick: () => get("keys").close() }, "Close")));
  document.addEventListener("keydown", event => {
    const typing = /INPUT|SELECT/.test(document.activeElement.tagName);
    if (event.key === "Escape") { document.activeElement.blur(); unmark(); return; }
    if (event.key === "Enter" && (!typing || document.activeElement.id === "search") && get("timeline").classList.contains("on")) { nextHit(event.shiftKey ? -1 : 1); event.preventDefault(); return; }
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const key = KEYS[event.key] || KEYS[event.key.toLowerCase()];
    if (key) { key[2](); event.preventDefault(); }
  });
}
function theme(dark) { document.documentElement.classList.toggle("dark", dark); known.clear(); drawOverview.known = null; for (const name of ["memory", "roofline"]) if (filled.has(name)) TABS.find(one => one[0] === name)[2](get(name)); if (profiles.length) redraw(); }

async function start() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  theme(dark.matches); dark.addEventListener("change", event => theme(event.matches));
  profiles = await Promise.all(data.profiles.map(async (given, number) => new Profile(given, await inflate(given.packed), number)));
  const last = profiles[profiles.length - 1], several = profiles.length > 1 && !data.comparison;
  document.title = `${last.name}, profile`;
  get("title").textContent = profiles.map(profile => profile.name).filter((name, k, all) => all.indexOf(name) === k).join(" / ");
  get("total").textContent = several ? `${profiles.length} programs, ${last.target}: ${time(profiles.reduce((sum, one) => sum + one.total_us, 0) * 1e3)}` : `${last.target}, ${last.statistic}: ${last.complete ? "" : "at least "}${time(last.total_us * 1e3)} (${time(last.low_us * 1e3)}–${time(last.high_us * 1e3)})`;
  for (const [name, title] of TABS) {
    if (name === "compare" && !data.comparison) continue;
    const count = name === "advice" && last.advice ? profiles.reduce((sum, one) => several || one === last ? sum + (one.advice || []).length : sum, 0) : 0;
    get("tabs").append(make("button", { id: "tab-" + name, role: "tab", onclick: () => open(name) }, title, count ? make("sup", {}, ` ${count}`) : null));
  }
  layOut(); wireTimeline(); wireKeys();
  get("colour").onchange = event => { colourBy = event.target.value; redraw(); };
  get("search").onchange = event => search(event.target.value);
  get("theme").onclick = () => theme(!document.documentElement.classList.contains("dark"));
  get("help").onclick = () => get("keys").showModal();
  addEventListener("resize", () => { for (const name of ["memory"]) if (filled.has(name)) fillMemory(get(name)); });
  view.from = 0; view.to = whole() * 1.01;
  const asked = location.hash.slice(1);
  open(TABS.some(one => one[0] === asked && get("tab-" + asked)) ? asked : data.comparison ? "compare" : "timeline");
  describe(); draw(); drawOverview();
  document.documentElement.dataset.ready = String(Math.round(performance.now() - began));
}
start().catch(error => { document.body.prepend(make("p", { class: "card" }, `This page needs a browser of 2023 or later: ${error.message}`)); });
