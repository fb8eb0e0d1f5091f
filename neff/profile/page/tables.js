// Tables: a cell is a text, a number, or [share, text, class], which has a bar behind it.
function table(names, rows, { small = false, links = null, most = 500 } = {}) {
  const body = make("tbody");
  const value = cell => Array.isArray(cell) ? cell[0] : cell;
  const isNumber = rows.length ? rows[0].map(cell => typeof value(cell) === "number") : [];
  const fill = () => {
    body.replaceChildren();
    for (const row of rows.slice(0, most)) {
      const line = make("tr");
      row.forEach((cell, k) => {
        const text = Array.isArray(cell) ? cell[1] : typeof cell === "number" ? digits(cell, Number.isInteger(cell) ? 0 : 2) : cell;
        const one = make("td", { class: (isNumber[k] ? "n" : "name") + (Array.isArray(cell) ? ` bar ${cell[2] || ""}` : "") }, links && k === 0 && links(row) ? make("a", { onclick: links(row) }, text) : text);
        if (Array.isArray(cell)) one.style.setProperty("--w", `${Math.max(0, Math.min(1, cell[0])) * 100}%`);
        line.append(one);
      });
      body.append(line);
    }
    if (rows.length > most) body.append(make("tr", {}, make("td", { class: "note", colSpan: names.length }, `and ${digits(rows.length - most, 0)} more`)));
  };
  let order = 0;
  const head = make("tr", {}, ...names.map((name, k) => make("th", { class: isNumber[k] ? "n" : "", onclick: () => {
    order = order === k + 1 ? -k - 1 : k + 1;
    const sign = isNumber[k] === (order > 0) ? -1 : 1;
    rows = [...rows].sort((a, b) => { const x = value(a[k]), y = value(b[k]); return sign * (typeof x === "number" ? x - y : String(x).localeCompare(String(y))); });
    fill();
  } }, name)));
  fill();
  const found = make("table", {}, make("thead", {}, head), body);
  if (small) found.style.width = "100%";
  return make("div", { class: "scroll" }, found);
}
function picker(names, chosen, change) {
  const buttons = names.map(name => make("button", { "aria-pressed": String(name === chosen), onclick: () => { buttons.forEach((one, k) => one.setAttribute("aria-pressed", String(names[k] === name))); change(name); } }, name));
  return make("div", { class: "pick" }, ...buttons);
}

function fillTables(panel) {
  panel.replaceChildren();
  for (const profile of profiles) {
    const summary = profile.summary, total = profile.total_us || 1, place = make("div");
    if (profiles.length > 1) panel.append(make("h3", {}, `${profile.role}: ${profile.name}`));
    const fill = name => {
      const rows = summary.by[name], calls = rows.some(row => row.cumulative_us !== row.self_us);
      place.replaceChildren(table([name, "path µs", ...(calls ? ["path with calls µs"] : []), "self µs", "waiting µs", "events", "bytes", "FLOPs"], rows.map(row => [row.name, [row.path_us / total, digits(row.path_us, 2)], ...(calls ? [[row.cumulative_path_us / total, digits(row.cumulative_path_us, 2)]] : []), row.self_us, row.waiting_us, row.events, row.bytes, row.flops]), {
        links: row => name === "line" && /:\d+$/.test(row[0]) ? () => openSource(profile, row[0].replace(/:\d+$/, ""), +row[0].match(/\d+$/)[0]) : () => markBy(profile, name, row[0]),
      }));
    };
    panel.append(picker(Object.keys(summary.by), "line", fill), place);
    fill("line");
    panel.append(make("h2", {}, "Engines: what each did in the whole time"));
    const causes = [...new Set(summary.engines.flatMap(one => Object.keys(one.waiting_us)))].sort();
    const name = summary.engines.some(one => one.core) ? one => `${one.engine}, core ${one.core}` : one => one.engine;
    panel.append(table(["engine", "busy µs", ...causes.map(one => `waits for ${one}`), "issue µs", "idle µs"], summary.engines.map(one => [name(one), [one.busy_us / total, digits(one.busy_us, 2)], ...causes.map(cause => one.waiting_us[cause] || 0), one.issue_us, one.idle_us])));
    panel.append(make("h2", {}, "Critical path, in order"));
    panel.append(table(["lane", "opcode", "events", "µs", "line", "op"], summary.critical_path.map(one => [one.lane, one.opcode, one.count, [one.path_us / total, digits(one.path_us, 2)], one.place, one.op])));
  }
}
function markBy(profile, name, value) {
  const field = { op: one => one[OP] || "(unknown)", kernel: one => one[KERNEL] || one[OP] || "(unknown)", line: null, scope: one => one[SCOPE] }[name];
  if (name === "engine") mark(profile, i => profile.rowOf(i).lane === value, value);
  else if (name === "opcode") { const number = profile.opcodes.indexOf(value); mark(profile, i => profile.opcode[i] === number, value); }
  else if (name === "line") { const ok = profile.sites.map(one => profile.place(one) === value || one[FRAMES].includes(value)); mark(profile, i => ok[profile.site[i]], value); }
  else if (field) { const ok = profile.sites.map(one => field(one) === value); mark(profile, i => ok[profile.site[i]], value); }
  open("timeline");
}

function fillAdvice(panel) {
  panel.replaceChildren();
  for (const profile of profiles) {
    if (profiles.length > 1) panel.append(make("h3", {}, `${profile.role}: ${profile.name}`));
    if (!profile.advice) { panel.append(make("p", { class: "note" }, "Not computed for a program of this size; nki-neff profile FILE --advice text does.")); continue; }
    if (!profile.advice.length) panel.append(make("p", { class: "note" }, "No rule found a fault whose removal gains 3 % of the time or more."));
    for (const one of profile.advice) {
      const between = one.gain_low_us.toFixed(1) === one.gain_high_us.toFixed(1) ? "" : ` (${digits(one.gain_low_us)}–${digits(one.gain_high_us)})`;
      const lines = make("p", {}, ...one.lines.slice(0, 6).flatMap(line => [make("a", { class: "mono", onclick: () => openSource(profile, line.replace(/:\d+$/, ""), +line.match(/\d+$/)[0]) }, line), "  "]));
      panel.append(make("div", { class: "card" }, make("b", { class: "gain" }, one.hidden_behind.length ? `later −${digits(one.gain_later_us)} µs` : `−${digits(one.gain_us)} µs${between}, ${digits(one.share * 100, 0)} %`), make("h3", {}, one.title, " ", make("code", {}, one.code)), make("p", {}, one.message + ".", one.hidden_behind.length ? ` It gains next to nothing until ${one.hidden_behind.join(", ")} is mended.` : ""), make("p", {}, "Instead: " + one.remedy + "."), lines, make("p", { class: "note" }, one.why)));
    }
  }
  panel.append(make("p", { class: "note" }, "Each gain is that of a new simulation with this one fault removed; they do not add up."));
}

function fillCompare(panel) {
  panel.replaceChildren();
  const [one, two] = profiles, delta = two.total_us - one.total_us;
  const change = (a, b) => a ? `${b >= a ? "+" : "−"}${digits(Math.abs(b - a) / a * 100, 1)} %` : "new";
  panel.append(make("div", { class: "figures" }, figure(time(one.total_us * 1e3), `old: ${one.name}`), figure(time(two.total_us * 1e3), `new: ${two.name}`), figure(change(one.total_us, two.total_us), verdict(delta) === "better" ? "faster" : delta ? "slower" : "the same", verdict(delta))));
  const place = make("div"), fill = name => {
    const rows = new Map();
    for (const [k, profile] of profiles.entries()) for (const row of profile.summary.by[name] || []) { const own = rows.get(row.name) || [row.name, null, null]; own[k + 1] = row; rows.set(row.name, own); }
    const number = (row, field) => row ? row[field] : 0;
    const found = [...rows.values()].map(([title, a, b]) => [title, number(a, "path_us"), number(b, "path_us"), number(b, "path_us") - number(a, "path_us"), number(a, "self_us"), number(b, "self_us"), number(a, "events"), number(b, "events")]);
    found.sort((a, b) => Math.abs(b[3]) - Math.abs(a[3]));
    const most = Math.max(1e-9, ...found.map(row => Math.abs(row[3])));
    place.replaceChildren(table([name, "old path µs", "new path µs", "difference µs", "old self µs", "new self µs", "old events", "new events"], found.map(row => row.map((cell, k) => k === 3 ? [Math.abs(cell) / most, `${cell > 0 ? "+" : cell < 0 ? "−" : ""}${digits(Math.abs(cell), 2)}`, verdict(cell)] : cell))));
  };
  panel.append(picker(Object.keys(one.summary.by), "opcode", fill), place);
  fill("opcode");
}
// The class of a change in time: less is better.
function verdict(difference) { return difference > 0 ? "worse" : difference < 0 ? "better" : ""; }
function figure(value, name, kind = "") { return make("div", { class: kind }, make("b", {}, value), make("span", {}, name)); }
