// Roofline: FLOPs a second over FLOPs a byte, both logarithmic; one mark a kernel or HLO instruction.
function fillRoofline(panel) {
  panel.replaceChildren();
  for (const profile of profiles) {
    const { roof } = profile.roofline, place = make("div");
    if (profiles.length > 1) panel.append(make("h3", {}, `${profile.role}: ${profile.name}`));
    panel.append(make("div", { class: "figures" }, figure(`${digits(roof.tflops, 1)} TFLOP/s`, "tensor engine, 16 bits"), figure(`${digits(roof.tflops_fp32, 1)} TFLOP/s`, "the same in fp32"), figure(`${digits(roof.gb_per_s, 0)} GB/s`, "HBM of a core"), figure(`${digits(roof.ridge_flops_per_byte, 0)} FLOP/B`, "ridge")));
    const fill = name => {
      const rows = profile.roofline[name];
      place.replaceChildren(chart(rows, roof), table([name, "share of the roof", "bound by", "path µs", "active µs", "TFLOP/s", "GB/s", "FLOPs", "bytes", "FLOP/B"], rows.map(one => [one.name, [one.share_of_roof, `${digits(one.share_of_roof * 100, 1)} %`], one.bound, one.time_us, one.active_us, one.tflops, one.gb_per_s, one.flops, one.bytes, one.flops_per_byte])));
    };
    panel.append(picker(["kernel", "op"], "kernel", fill), place);
    fill("kernel");
  }
}
// Labels beside their points: each moves up or down until it touches no other; without room it is left out.
function labelsOf(rows, x, y, right, bottom) {
  const placed = [], step = 13, character = 6.6;
  const isFree = box => box.y > step && box.y < bottom && placed.every(other => box.x + box.wide <= other.x || other.x + other.wide <= box.x || Math.abs(box.y - other.y) >= step);
  for (const row of rows) {
    const text = shortened(row.name, 28), wide = text.length * character;
    const left = Math.min(x(row.flops_per_byte) + 8, right - wide), middle = y(Math.max(row.tflops, 1e-5)) + 4;
    const shift = [0, 1, -1, 2, -2, 3, -3, 4, -4].find(count => isFree({ x: left, y: middle + count * step, wide }));
    if (shift !== undefined) placed.push({ text, x: left, y: middle + shift * step, wide });
  }
  return placed;
}
function shortened(text, most) {
  const head = Math.ceil((most - 1) / 2);
  return text.length <= most ? text : `${text.slice(0, head)}…${text.slice(text.length - (most - 1 - head))}`;
}
function chart(rows, roof) {
  const wide = 760, high = 320, left = 56, below = 34, shown = rows.filter(one => one.flops > 0 && one.bytes > 0 && one.active_us > 0);
  if (!shown.length) return make("p", { class: "note" }, "Nothing here has products and transfers both: the table shows bandwidth and bounds.");
  const top = shown.some(one => one.tflops > roof.tflops) ? roof.tflops_peak : roof.tflops, ridge = top * 1e3 / roof.gb_per_s;
  const xs = [Math.min(1, ...shown.map(one => one.flops_per_byte / 2)), Math.max(ridge * 8, ...shown.map(one => one.flops_per_byte * 2))].map(Math.log10);
  const ys = [Math.min(roof.tflops / 1000, ...shown.map(one => Math.max(one.tflops, 1e-5) / 2)), top * 2].map(Math.log10);
  const x = value => left + (Math.log10(value) - xs[0]) / (xs[1] - xs[0]) * (wide - left - 10), y = value => high - below - (Math.log10(value) - ys[0]) / (ys[1] - ys[0]) * (high - below - 10);
  const parts = [], escape = text => text.replace(/[&<>"]/g, one => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[one]);
  for (let k = Math.ceil(xs[0]); k <= xs[1]; k++) parts.push(`<line x1="${x(10 ** k)}" x2="${x(10 ** k)}" y1="10" y2="${high - below}" stroke="var(--line)"/><text x="${x(10 ** k)}" y="${high - below + 14}" text-anchor="middle">${10 ** k}</text>`);
  for (let k = Math.ceil(ys[0]); k <= ys[1]; k++) parts.push(`<line x1="${left}" x2="${wide - 10}" y1="${y(10 ** k)}" y2="${y(10 ** k)}" stroke="var(--line)"/><text x="${left - 6}" y="${y(10 ** k) + 4}" text-anchor="end">${10 ** k}</text>`);
  const memory = value => roof.gb_per_s * value / 1e3, start = Math.max(10 ** xs[0], 10 ** ys[0] * 1e3 / roof.gb_per_s);
  parts.push(`<polyline fill="none" stroke="var(--mark)" stroke-width="2" points="${x(start)},${y(memory(start))} ${x(ridge)},${y(top)} ${wide - 10},${y(top)}"/>`);
  const ceilings = [["fp32", roof.tflops_fp32], ["16 bits", roof.tflops], ...(top > roof.tflops ? [["8 bits or fewer", top]] : [])];
  for (const [name, rate] of ceilings) parts.push(`<line stroke="var(--mark)" stroke-dasharray="5 4" x1="${x(Math.max(start, rate * 1e3 / roof.gb_per_s))}" x2="${wide - 10}" y1="${y(rate)}" y2="${y(rate)}"/><text x="${wide - 14}" y="${y(rate) - 5}" text-anchor="end">${name}</text>`);
  for (const one of shown) parts.push(`<circle cx="${x(one.flops_per_byte)}" cy="${y(Math.max(one.tflops, 1e-5))}" r="5" fill="var(--wait)"><title>${escape(one.name)}: ${digits(one.tflops, 2)} TFLOP/s, bound by ${one.bound}</title></circle>`);
  for (const label of labelsOf(shown, x, y, wide - 10, high - below)) parts.push(`<text class="label" x="${label.x}" y="${label.y}">${escape(label.text)}</text>`);
  parts.push(`<text x="${wide - 10}" y="${high - 4}" text-anchor="end">FLOPs a byte of HBM</text><text x="${left}" y="8">TFLOP/s</text>`);
  const found = make("div", { class: "scroll" });
  found.innerHTML = `<svg viewBox="0 0 ${wide} ${high}" width="${wide}" style="max-width:100%;background:var(--panel);border:1px solid var(--line);border-radius:6px;margin-bottom:.7rem" role="img" aria-label="Roofline">${parts.join("")}</svg>`;
  return found;
}
