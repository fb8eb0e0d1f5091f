// The source with what each line costs; lines are coloured when the page is written.
let shownSource = null;
function fillSource(panel) {
  panel.replaceChildren();
  for (const profile of profiles) {
    const files = Object.keys(profile.sources);
    if (profiles.length > 1) panel.append(make("h3", {}, `${profile.role}: ${profile.name}`));
    const costs = new Map(profile.summary.by.line.map(row => [row.name, row])), total = profile.total_us || 1;
    if (!files.length) panel.append(make("p", { class: "note" }, "No source file was found when this page was written; --source-root names their folder."));
    for (const file of files) {
      const body = make("tbody"), most = Math.max(1e-9, ...[...costs.values()].map(row => row.cumulative_path_us)), calls = [...costs.values()].some(row => row.cumulative_us !== row.self_us);
      profile.sources[file].forEach((html, k) => {
        const cost = costs.get(`${file}:${k + 1}`), text = make("td");
        text.innerHTML = html || " ";
        const heat = make("td", { class: "cost heat" }, cost ? digits(cost.path_us, 2) : "");
        if (cost) heat.style.setProperty("--a", (.05 + .55 * cost.cumulative_path_us / most).toFixed(3));
        const line = make("tr", { id: `${profile.number}:${file}:${k + 1}`, class: cost ? "hot" : "" }, heat, make("td", { class: "cost" }, cost ? digits(cost.self_us, 2) : ""), make("td", { class: "cost" }, cost && cost.waiting_us ? digits(cost.waiting_us, 2) : ""), calls ? make("td", { class: "cost" }, cost ? digits(cost.cumulative_path_us, 2) : "") : null, make("td", { class: "cost" }, String(k + 1)), text);
        if (cost) { line.title = `${digits(cost.path_us / total * 100, 1)} % of the critical path${calls ? `, ${digits(cost.cumulative_path_us / total * 100, 1)} % with calls` : ""}, ${digits(cost.events, 0)} events; click to show them`; line.onclick = () => markBy(profile, "line", `${file}:${k + 1}`); }
        body.append(line);
      });
      panel.append(make("h2", {}, `${file}: µs of the critical path, self, waiting${calls ? ", critical path with calls" : ""}`), make("div", { class: "code" }, make("table", {}, body)));
    }
  }
  const first = panel.querySelector("tr.hot");
  if (first) requestAnimationFrame(() => { panel.scrollTop = first.offsetTop - panel.clientHeight / 4; });
}
function openSource(profile, file, number) {
  open("source");
  const found = document.getElementById(`${profile.number}:${file}:${number}`);
  if (!found) return;
  if (shownSource) shownSource.classList.remove("on");
  shownSource = found; found.classList.add("on"); found.scrollIntoView({ block: "center" });
}
