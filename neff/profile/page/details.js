// What is beside the timeline: the event that was clicked, or figures of what is shown or marked.
function describe() {
  const panel = get("details");
  panel.replaceChildren();
  if (selected) describeEvent(panel, selected.profile, selected.i);
  else describeRange(panel);
}
function pairs(rows) { const list = make("dl"); for (const [name, value] of rows) if (value !== "" && value !== null && value !== undefined) list.append(make("dt", {}, name), make("dd", {}, value)); return list; }
function eventLink(profile, i) {
  if (i < 0) return null;
  return make("a", { onclick: () => show(profile, i) }, `${profile.opcodes[profile.opcode[i]]} on ${profile.rowOf(i).lane}`);
}
function lineLink(profile, site) {
  if (!site[LINE]) return site[SCOPE] || "(unknown)";
  return make("a", { onclick: () => openSource(profile, site[FILE], site[LINE]) }, `${site[FILE]}:${site[LINE]}`);
}
function placeLink(profile, place) {
  const at = place.lastIndexOf(":"), file = place.slice(0, at);
  return profile.sources[file] ? make("a", { onclick: () => openSource(profile, file, +place.slice(at + 1)) }, place) : place;
}
function describeEvent(panel, profile, i) {
  const site = profile.siteOf(i), row = profile.rowOf(i), unit = profile.unit_ns, start = profile.start[i] * unit, length = profile.length[i] * unit;
  const turns = profile.column("turns")[i], moved = profile.column("bytes")[i], waited = profile.column("since")[i] * unit, path = profile.column("path")[i] * unit;
  const opcode = profile.opcodes[profile.opcode[i]], work = opcode.startsWith("nc_matmul") && row.lane === "tensor" ? site[FLOPS] / site[PASSES] : 0;
  panel.append(make("h3", {}, opcode), make("p", { class: "note" }, `${profiles.length > 1 ? profile.role + ", " : ""}core ${row.core}, ${row.lane}`));
  panel.append(make("h2", {}, "Time"), pairs([
    ["start", time(start)], ["duration", time(length)], ["end", time(start + length)],
    ["iterations", turns > 1 ? digits(turns, 0) : ""], ["critical path", path ? time(path) : "not on it"],
    ["bytes", moved ? `${bytes(moved)}, ${digits(moved / Math.max(length, 1e-9), 1)} GB/s` : ""],
    ["FLOPs", work ? `${flops(work)}, ${digits(work / length / 1e3, 1)} TFLOP/s` : ""],
  ]));
  panel.append(make("h2", {}, "Code"), pairs([["line", lineLink(profile, site)], ["HLO op", site[OP]], ["kernel", site[KERNEL]], ["scope", site[SCOPE]], ["called from", site[FRAMES].length ? make("span", {}, ...site[FRAMES].map((one, k) => make("div", {}, placeLink(profile, one), site[FUNCTIONS][k + 1] ? ` in ${site[FUNCTIONS][k + 1]}` : ""))) : ""]]));
  const operands = (site[OPERANDS] || "").split(", ").filter(Boolean).map(one => { const k = one.indexOf("="); return [one.slice(0, k), one.slice(k + 1)]; });
  if (operands.length) panel.append(make("h2", {}, "Operands"), pairs(operands));
  const waits = profile.other("waits", i), after = profile.other("after", i), later = profile.waiters(i);
  panel.append(make("h2", {}, "Waits"), pairs([
    ["waited for", eventLink(profile, waits)], ["stood still", waited ? `${time(waited)}, since ${time(start - waited)}` : "not at all"],
    ["started by", after !== waits ? eventLink(profile, after) : null],
  ]));
  if (later.length) panel.append(make("h2", {}, `Waited for by ${later.length}`), ...later.slice(0, 12).map(j => make("div", {}, eventLink(profile, j))));
  const same = make("button", { onclick: () => mark(profile, j => profile.site[j] === profile.site[i] && profile.opcode[j] === profile.opcode[i], opcode) }, "Show all like this");
  panel.append(make("p", {}, same));
}
function describeRange(panel) {
  const from = area ? Math.min(area.from, area.to) : view.from, to = area ? Math.max(area.from, area.to) : view.to;
  const unit = profiles[0].unit_ns;
  panel.append(make("h3", {}, area ? "Selection" : "All of it"), make("p", { class: "note" }, area ? `${time(from * unit)} to ${time(to * unit)}: ${time((to - from) * unit)}` : "Click an event; drag with Shift held to select a range."));
  for (const profile of profiles) {
    const found = statistics(profile, area ? from : -Infinity, area ? to : Infinity), span = (area ? to - from : profile.end) * profile.unit_ns;
    if (profiles.length > 1) panel.append(make("h3", {}, `${profile.role}: ${profile.name}`));
    if (!area) panel.append(make("h2", {}, "Program"), pairs([["estimate", `${time(profile.total_us * 1e3)} (${time(profile.low_us * 1e3)}–${time(profile.high_us * 1e3)})`], ["target", profile.target], ["statistic", profile.statistic], ["measured costs", `${Math.round(profile.measured_share * 100)} % of it`], ["events", digits(profile.count, 0)]]));
    panel.append(make("h2", {}, "Lanes"), table(["lane", "events", "busy"], found.lanes.map(one => [one.name, one.count, [one.busy / span, `${digits(one.busy / span * 100, 0)} %`]]), { small: true }));
    panel.append(make("h2", {}, "Opcodes"), table(["opcode", "events", "time"], found.opcodes.slice(0, 14).map(one => [one.name, one.count, [one.spent / span, time(one.spent)]]), { small: true }));
    if (found.bytes) panel.append(pairs([["moved", bytes(found.bytes)], ["bandwidth", `${digits(found.bytes / span, 1)} GB/s`]]));
  }
  if (!area) panel.append(make("h2", {}, "Marks"), make("div", {}, swatch("--path", "on the critical path (upper edge)"), swatch("--wait", "stood still for a semaphore or a port (lower edge)")));
}
function swatch(name, text) { const box = make("i"); box.style.background = `var(${name})`; return make("span", { class: "key" }, box, text); }
function statistics(profile, from, to) {
  const lanes = new Map(), opcodes = new Map(), turns = profile.column("turns"), moved = profile.column("bytes");
  let total = 0;
  for (const row of profile.rows) {
    const name = (new Set(profile.rows.map(one => one.core)).size > 1 ? `${row.core} ` : "") + row.lane, lane = lanes.get(name) || { name, count: 0, busy: 0 };
    lanes.set(name, lane);
    let last = from;
    for (let i = seek(profile, row, from); i < row.last && profile.start[i] < to; i++) {
      const times = area ? 1 : turns[i], left = Math.max(profile.start[i], from), right = Math.min(profile.start[i] + profile.length[i], to);
      const opcode = profile.opcodes[profile.opcode[i]], own = opcodes.get(opcode) || { name: opcode, count: 0, spent: 0 };
      opcodes.set(opcode, own);
      lane.count += times; own.count += times; own.spent += (right - left) * profile.unit_ns * times;
      if (right > last) { lane.busy += (right - Math.max(left, last)) * profile.unit_ns * times; last = right; }
      total += moved[i] * times;
    }
  }
  return { lanes: [...lanes.values()].filter(one => one.count), opcodes: [...opcodes.values()].sort((a, b) => b.spent - a.spent), bytes: total };
}
