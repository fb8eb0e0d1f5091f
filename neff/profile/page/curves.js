// Rows of the timeline that are no events: counters over time, and iterations of loops that stand for others.
const LOOP_HIGH = 16, CURVE_HIGH = 30;
const CURVES = { "\u2030": "#64748b", bytes: "#7c3aed", "MB/s": "#ca8a04" };
function amount(counter, value) {
  if (counter.unit === "\u2030") return `${digits(value / 10, 0)} %`;
  return counter.unit === "bytes" ? bytes(value) : `${digits(value / 1e3, 0)} GB/s`;
}
// The bands of one core, below its lanes and above them.
function curveBands(profile, core, y) {
  const found = [];
  for (const counter of profile.counters.filter(one => one.core === core)) { found.push({ y, high: CURVE_HIGH, profile, counter, name: counter.unit === "\u2030" ? `${counter.name}, busy` : counter.name }); y += CURVE_HIGH + GAP; }
  return found;
}
function loopBand(profile, core, y) {
  const loops = profile.loops.filter(one => one[0] === core);
  return loops.length ? [{ y, high: LOOP_HIGH, profile, loops, name: "loops" }] : [];
}
function before(times, t) { let low = 0, high = times.length; while (low < high) { const middle = low + high >> 1; times[middle] <= t ? low = middle + 1 : high = middle; } return low - 1; }
function drawCurves(height) {
  pen.save(); pen.beginPath(); pen.rect(GUTTER, AXIS, lanes.clientWidth, height); pen.clip();
  for (const band of bands) {
    const y = AXIS + band.y - view.top;
    if (y + band.high < AXIS || y > height) continue;
    if (band.counter) drawCurve(band, y);
    else if (band.loops) drawLoops(band, y, height);
  }
  pen.restore();
}
function drawCurve(band, y) {
  const { at, values, full, unit } = band.counter, bottom = y + band.high, colour = CURVES[unit] || "#475569";
  pen.fillStyle = css("--lane"); pen.fillRect(GUTTER, y, lanes.clientWidth, band.high);
  const highOf = value => Math.min(1, value / full) * (band.high - 2);
  let k = Math.max(0, before(at, view.from)), x = xOf(at[k] ?? 0);
  pen.beginPath(); pen.moveTo(x, bottom);
  for (; k < at.length && at[k] <= view.to; k++) { const right = k + 1 < at.length ? xOf(at[k + 1]) : xOf(band.profile.end), top = bottom - highOf(values[k]); pen.lineTo(x, top); pen.lineTo(right, top); x = right; }
  pen.lineTo(x, bottom); pen.closePath();
  pen.globalAlpha = .3; pen.fillStyle = colour; pen.fill(); pen.globalAlpha = 1; pen.strokeStyle = colour; pen.lineWidth = 1; pen.stroke();
}
// What is drawn once and happens often is shaded over all lanes, and so is the time of the others.
function drawLoops(band, y, height) {
  pen.font = "11px system-ui, sans-serif"; pen.textBaseline = "middle"; pen.textAlign = "left";
  let last = -1;
  for (const [, from, to, turns, until] of band.loops) {
    if (until < view.from || from > view.to) continue;
    const right = Math.min(lanes.clientWidth, xOf(until));
    if (right - last < 1) continue;
    last = right;
    loopPart(xOf(from), Math.min(right, xOf(to)), y, band.high, height, .24, .06, ["one iteration", `\u00d7${digits(turns, 0)}`]);
    loopPart(xOf(to), right, y, band.high, height, .1, .03, [`${digits(turns - 1, 0)} more like it, not drawn`, `${digits(turns - 1, 0)} more`]);
  }
}
function loopPart(from, right, y, high, height, own, all, texts) {
  const left = Math.max(GUTTER, from), wide = right - left;
  if (wide <= 0) return;
  pen.fillStyle = `rgba(${css("--heat")}, ${own})`; pen.fillRect(left, y, wide, high);
  pen.fillStyle = `rgba(${css("--heat")}, ${all})`; pen.fillRect(left, y + high, wide, height);
  if (wide > 3) { pen.strokeStyle = css("--mark"); pen.globalAlpha = .4; pen.lineWidth = 1; pen.strokeRect(left + .5, y + .5, wide - 1, high - 1); pen.globalAlpha = 1; }
  const text = texts.find(one => pen.measureText(one).width < wide - 8);
  if (text) { pen.fillStyle = css("--ink"); pen.fillText(text, left + 4, y + high / 2 + 1); }
}
function curveTip(x, y) {
  const at = y - AXIS + view.top, band = bands.find(one => (one.counter || one.loops) && at >= one.y && at < one.y + one.high);
  if (!band || x < GUTTER || y < AXIS) return "";
  const t = timeAt(x);
  if (band.loops) { const found = band.loops.find(one => t >= one[1] && t <= one[4]); return found ? `${digits(found[3], 0)} iterations of a loop on the device are alike;\none is drawn, and counted so often` : ""; }
  const { counter } = band, k = before(counter.at, t);
  return k < 0 ? "" : `${band.name}: ${amount(counter, counter.values[k])} of ${amount(counter, counter.full)}\nat ${time(t * band.profile.unit_ns)}`;
}
