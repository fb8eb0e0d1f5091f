// The timeline: a row of pixels for each track, copied to its height; texts and arrows above it.
const GUTTER = 150, AXIS = 22, HEAD = 20, HIGH = 22, GAP = 3, MOST_LABELS = 600;
const lanes = get("lanes"), pen = lanes.getContext("2d"), overview = get("overview");
const view = { from: 0, to: 1, top: 0 };
let profiles = [], bands = [], selected = null, area = null, dirty = true, frames = 0, lastFrame = 0, image = null;

function layOut() {
  bands = [];
  let y = 0;
  for (const profile of profiles) {
    const cores = new Set(profile.rows.map(row => row.core)).size;
    let core = -1;
    const curves = () => { for (const band of core < 0 ? [] : curveBands(profile, core, y)) { bands.push(band); y = band.y + band.high + GAP; } };
    for (const row of profile.rows) {
      if (row.core !== core) {
        curves();
        core = row.core;
        if (profiles.length > 1 || cores > 1) { bands.push({ y, high: HEAD, profile, title: (profiles.length > 1 ? `${profile.role}: ${profile.name}` : "") + (cores > 1 ? `  core ${core}` : "") }); y += HEAD; }
        for (const band of loopBand(profile, core, y)) { bands.push(band); y += band.high + GAP; }
      }
      bands.push({ y, high: HIGH, profile, row, name: row.part ? "" : row.lane }); y += HIGH + GAP;
    }
    curves();
    y += 8;
  }
  bands.whole = y;
}

const whole = () => Math.max(...profiles.map(profile => profile.end));
const scale = () => (lanes.clientWidth - GUTTER) / (view.to - view.from);
const xOf = t => GUTTER + (t - view.from) * scale();
const timeAt = x => view.from + (x - GUTTER) / scale();
function look(from, to) {
  const end = whole(), least = 20, span = Math.min(Math.max(to - from, least), end * 1.1);
  const middle = (from + to) / 2;
  view.from = Math.max(-end * .05, Math.min(middle - span / 2, end * 1.05 - span)); view.to = view.from + span;
  redraw();
}
function zoom(factor, at) { const t = at === undefined ? (view.from + view.to) / 2 : at; look(t - (t - view.from) * factor, t + (view.to - t) * factor); }
function pan(share) { const step = (view.to - view.from) * share; look(view.from + step, view.to + step); }
function redraw() { dirty = true; }

// First event of a track that ends behind a time.
function seek(profile, row, t) {
  const { start, length } = profile;
  let low = row.first, high = row.last;
  while (low < high) { const middle = low + high >> 1; start[middle] + length[middle] < t ? low = middle + 1 : high = middle; }
  return low;
}

// Paints a track into `line`; behind an event that is thinner than a pixel the next pixel is sought.
function paintTrack(profile, row, paint, line, waits, path, from, to, wide, labels) {
  const { start, length, sums } = profile, { values, numbers } = paint, marks = profile.marks;
  const per = wide / (to - from), since = profile.column("since"), onPath = profile.column("path");
  const waitColour = rgba(css("--wait")), pathColour = rgba(css("--path")), faint = rgba(css("--faint"));
  for (let i = seek(profile, row, from); i < row.last;) {
    const x = (start[i] - from) * per;
    if (x > wide) break;
    const left = x < 0 ? 0 : x | 0, right = Math.max(left + 1, Math.min(wide, (start[i] + length[i] - from) * per | 0));
    const at = i;
    if (since[i]) waits.fill(waitColour, Math.max(0, (start[i] - since[i] - from) * per | 0), left);
    if (onPath[i]) path.fill(pathColour, left, right);
    if (labels && right - left > 28) labels.push([i, left, right]);
    const next = right / per + from;
    let step = 1, low = i + 1;
    while (low + step < row.last && start[low + step] < next) { low += step; step *= 2; }
    let high = Math.min(row.last, low + step);
    while (low < high) { const middle = low + high >> 1; start[middle] < next ? low = middle + 1 : high = middle; }
    // What a pixel holds in parts is as much fainter.
    const share = right - left > 1 ? 1 : Math.min(1, (sums[Math.max(low, at + 1)] - sums[at]) * per), level = Math.max(0, Math.ceil(share * LEVELS) - 1);
    line.fill(marks && !marks[at] ? faint : values[level][numbers[at]], left, right);
    i = low > i ? (low > i + 1 && low > row.first && start[low - 1] + length[low - 1] > next + 1 / per ? low - 1 : low) : i + 1;
  }
}

// What is searched for is painted again, so that it is not lost among neighbours in one pixel.
function paintMarked(profile, row, paint, line, from, to, wide) {
  const hits = profile.hits, { start, length } = profile, per = wide / (to - from);
  let low = 0, high = hits.length;
  const first = seek(profile, row, from);
  while (low < high) { const middle = low + high >> 1; hits[middle] < first ? low = middle + 1 : high = middle; }
  for (let k = low; k < hits.length && hits[k] < row.last;) {
    const i = hits[k], x = (start[i] - from) * per;
    if (x > wide) break;
    const left = Math.max(0, x | 0), right = Math.max(left + 1, Math.min(wide, (start[i] + length[i] - from) * per | 0));
    line.fill(paint.values[LEVELS - 1][paint.numbers[i]], left, right);
    const next = right / per + from;
    let step = 1, least = k + 1;
    while (least + step < hits.length && hits[least + step] < row.last && start[hits[least + step]] < next) { least += step; step *= 2; }
    let most = Math.min(hits.length, least + step);
    while (least < most) { const middle = least + most >> 1; hits[middle] < row.last && start[hits[middle]] < next ? least = middle + 1 : most = middle; }
    k = least;
  }
}

let painted = { key: "" };
function paintsOf() {
  const key = colourBy + css("--lane");
  if (painted.key !== key) painted = { key, found: new Map(profiles.map(profile => [profile, painter(profile)])) };
  return painted.found;
}

function draw() {
  const ratio = window.devicePixelRatio || 1, width = lanes.clientWidth, height = lanes.clientHeight;
  if (!width || !height) return;
  if (lanes.width !== Math.round(width * ratio) || lanes.height !== Math.round(height * ratio)) { lanes.width = Math.round(width * ratio); lanes.height = Math.round(height * ratio); image = null; }
  view.top = Math.max(0, Math.min(view.top, bands.whole - (height - AXIS)));
  const wide = Math.max(1, Math.round((width - GUTTER) * ratio)), tall = Math.max(1, Math.round((height - AXIS) * ratio));
  if (!image || image.width !== wide || image.height !== tall) { image = pen.createImageData(wide, tall); image.pixels = new Uint32Array(image.data.buffer); }
  const pixels = image.pixels, back = rgba(css("--lane"));
  pixels.fill(rgba(css("--panel")));
  const line = new Uint32Array(wide), waits = new Uint32Array(wide), path = new Uint32Array(wide), texts = [];
  const paints = paintsOf();
  for (const band of bands) {
    const y = band.y - view.top;
    if (y + band.high < 0 || y > height || !band.row) continue;
    const labels = [], paint = paints.get(band.profile)(band.row);
    line.fill(back); waits.fill(back); path.fill(0);
    paintTrack(band.profile, band.row, paint, line, waits, path, view.from, view.to, wide, labels);
    if (band.profile.hits) paintMarked(band.profile, band.row, paint, line, view.from, view.to, wide);
    for (let k = 0; k < wide; k++) { const own = line[k]; if (own !== back) waits[k] = own; if (!path[k]) path[k] = own; }
    const top = Math.max(0, Math.round(y * ratio)), bottom = Math.min(tall, Math.round((y + band.high) * ratio)), edge = Math.round(3 * ratio);
    for (let r = top; r < bottom; r++) pixels.set(r < Math.round(y * ratio) + edge ? path : r >= Math.round((y + band.high) * ratio) - edge ? waits : line, r * wide);
    texts.push([band, y, labels]);
  }
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.fillStyle = css("--panel"); pen.fillRect(0, 0, lanes.width, lanes.height);
  pen.putImageData(image, Math.round(GUTTER * ratio), Math.round(AXIS * ratio));
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  drawTexts(texts, ratio); drawCurves(height); drawTitles(height); drawAxis(width, height); drawSelection(); drawArea(height);
  frames++;
}

function drawTexts(texts, ratio) {
  pen.font = "11px system-ui, sans-serif"; pen.textBaseline = "middle"; pen.textAlign = "left";
  let count = 0;
  for (const [band, y, labels] of texts) for (const [i, left, right] of labels) {
    if (count++ > MOST_LABELS) return;
    const { profile } = band, turns = profile.column("turns")[i], room = (right - left) / ratio - 6;
    let text = profile.opcodes[profile.opcode[i]] + (turns > 1 ? ` ×${turns}` : "");
    if (room > 150) text += `  ${time(profile.length[i] * profile.unit_ns)}`;
    const fits = Math.floor(room / 6.4);
    if (fits < 3) continue;
    if (text.length > fits) text = text.slice(0, fits - 1) + "…";
    pen.fillStyle = profile.marks && !profile.marks[i] ? css("--dim") : "#fff";
    pen.fillText(text, GUTTER + left / ratio + 3, AXIS + y + band.high / 2 + 1);
  }
}

function drawTitles(height) {
  pen.textBaseline = "middle"; pen.textAlign = "left";
  pen.save(); pen.beginPath(); pen.rect(0, AXIS, lanes.clientWidth, height); pen.clip();
  for (const band of bands) {
    const y = AXIS + band.y - view.top + band.high / 2;
    if (y < 0 || y > height + 20) continue;
    pen.font = band.title !== undefined ? "600 12px system-ui, sans-serif" : "12px system-ui, sans-serif";
    pen.fillStyle = css(band.title !== undefined ? "--ink" : "--dim");
    pen.fillText(band.title !== undefined ? band.title : band.name, 10, y, band.title !== undefined ? 900 : GUTTER - 16);
  }
  pen.restore();
}

function drawAxis(width, height) {
  const unit = (profiles[0] || {}).unit_ns || 1, span = (view.to - view.from) * unit, aim = span / Math.max(2, (width - GUTTER) / 110);
  const power = 10 ** Math.floor(Math.log10(aim)), step = power * (NICE.find(one => one * power >= aim) || 10);
  pen.fillStyle = css("--panel"); pen.fillRect(0, 0, width, AXIS);
  pen.font = "11px system-ui, sans-serif"; pen.textAlign = "left"; pen.textBaseline = "middle";
  for (let t = Math.ceil(view.from * unit / step) * step; t <= view.to * unit; t += step) {
    const x = Math.round(xOf(t / unit)) + .5;
    if (x < GUTTER) continue;
    pen.strokeStyle = css("--line"); pen.globalAlpha = .6; pen.beginPath(); pen.moveTo(x, AXIS - 5); pen.lineTo(x, height); pen.stroke(); pen.globalAlpha = 1;
    pen.fillStyle = css("--dim"); pen.fillText(axisText(t, step), x + 3, AXIS / 2);
  }
  pen.fillStyle = css("--dim"); pen.fillText(time(span) + " shown", 10, AXIS / 2);
}
function axisText(t, step) { const [unit, name] = step >= 1e6 ? [1e6, "ms"] : step >= 1e3 || t >= 1e4 ? [1e3, "µs"] : [1, "ns"]; const most = Math.max(0, Math.min(3, -Math.floor(Math.log10(step / unit)))); return `${digits(t / unit, most)} ${name}`; }

const bandOf = (profile, i) => { const row = profile.rowOf(i); return bands.find(band => band.row === row && band.profile === profile); };
function boxOf(profile, i) {
  const band = bandOf(profile, i), x = xOf(profile.start[i]);
  return { x, y: AXIS + band.y - view.top, wide: Math.max(2, profile.length[i] * scale()), high: band.high };
}
function drawSelection() {
  if (!selected) return;
  const { profile, i } = selected, box = boxOf(profile, i);
  pen.save(); pen.beginPath(); pen.rect(GUTTER, AXIS, lanes.clientWidth, lanes.clientHeight); pen.clip();
  const before = profile.other("waits", i), after = profile.other("after", i);
  if (before >= 0) arrow(boxOf(profile, before), box, css("--wait"));
  if (after >= 0 && after !== before) arrow(boxOf(profile, after), box, css("--dim"));
  for (const other of profile.waiters(i).slice(0, 40)) arrow(box, boxOf(profile, other), css("--mark"));
  pen.strokeStyle = css("--ink"); pen.lineWidth = 2; pen.strokeRect(box.x - 1, box.y - 1, box.wide + 2, box.high + 2);
  pen.restore();
}
function arrow(from, to, colour) {
  const x = from.x + from.wide, y = from.y + from.high / 2, right = to.x, below = to.y + to.high / 2, bend = Math.max(18, Math.min(80, Math.abs(right - x) / 2));
  pen.strokeStyle = pen.fillStyle = colour; pen.lineWidth = 1.5;
  pen.beginPath(); pen.moveTo(x, y); pen.bezierCurveTo(x + bend, y, right - bend, below, right - 4, below); pen.stroke();
  pen.beginPath(); pen.moveTo(right, below); pen.lineTo(right - 7, below - 4); pen.lineTo(right - 7, below + 4); pen.fill();
}
function drawArea(height) {
  if (!area) return;
  const left = Math.max(GUTTER, xOf(Math.min(area.from, area.to))), right = xOf(Math.max(area.from, area.to));
  pen.fillStyle = `rgba(${css("--heat")}, .12)`; pen.fillRect(left, AXIS, right - left, height); pen.strokeStyle = css("--mark"); pen.lineWidth = 1;
  pen.strokeRect(left + .5, AXIS + .5, right - left, height);
}

function drawOverview() {
  const ratio = window.devicePixelRatio || 1, width = overview.clientWidth, own = overview.getContext("2d");
  if (!width) return;
  if (!drawOverview.known || drawOverview.known.width !== width * ratio) {
    drawOverview.known = overviewBack(width, ratio);
    overview.width = width * ratio; overview.height = 34 * ratio;
  }
  own.setTransform(1, 0, 0, 1, 0, 0); own.drawImage(drawOverview.known, 0, 0);
  own.setTransform(ratio, 0, 0, ratio, 0, 0);
  const wide = width - GUTTER, end = whole(), left = GUTTER + view.from / end * wide, right = GUTTER + view.to / end * wide;
  own.strokeStyle = css("--ink"); own.lineWidth = 1.5; own.strokeRect(Math.max(GUTTER, left) + .5, 1.5, Math.max(3, Math.min(right, width) - Math.max(GUTTER, left) - 1), 31);
}
function overviewBack(width, ratio) {
  const back = make("canvas"), own = back.getContext("2d");
  back.width = width * ratio; back.height = 34 * ratio;
  own.setTransform(ratio, 0, 0, ratio, 0, 0);
  own.fillStyle = css("--page"); own.fillRect(0, 0, width, 34);
  own.fillStyle = css("--mark");
  shares(width - GUTTER | 0, whole()).forEach((share, x) => { own.globalAlpha = .25 + .6 * share; const high = 26 * share; own.fillRect(GUTTER + x, 30 - high, 1, high); });
  own.globalAlpha = 1;
  own.fillStyle = css("--dim"); own.font = "11px system-ui, sans-serif"; own.textBaseline = "middle"; own.fillText("engines busy", 10, 17);
  return back;
}
// For each pixel the mean share of the engines that are busy; not queues.
function shares(wide, end) {
  const found = new Float32Array(wide), engines = /^(tensor|vector|scalar|gpsimd)$/;
  let count = 0;
  for (const profile of profiles) for (const row of profile.rows) {
    if (!engines.test(row.lane) || row.part) continue;
    count++;
    const per = wide / end, own = new Float32Array(wide);
    const step = Math.max(1, Math.floor((row.last - row.first) / 200000));
    for (let i = row.first; i < row.last; i += step) {
      const left = profile.start[i] * per, right = (profile.start[i] + profile.length[i]) * per;
      for (let x = left | 0; x <= right && x < wide; x++) own[x] += step * (Math.min(x + 1, right) - Math.max(x, left));
    }
    for (let x = 0; x < wide; x++) found[x] += Math.min(1, own[x]);
  }
  return found.map(one => count ? one / count : 0);
}

function hit(x, y) {
  const at = y - AXIS + view.top, band = bands.find(one => one.row && at >= one.y && at < one.y + one.high);
  if (!band || x < GUTTER) return null;
  const { profile, row } = band, t = timeAt(x), near = 3 / scale();
  let best = null, distance = near;
  for (let i = Math.max(row.first, seek(profile, row, t - near) - 1), n = 0; i < row.last && n < 2000; i++, n++) {
    const start = profile.start[i], end = start + profile.length[i];
    if (start > t + near) break;
    const away = t < start ? start - t : t > end ? t - end : 0;
    if (away < distance || (away === 0 && !best)) { best = { profile, i }; distance = away; if (!away) break; }
  }
  return best;
}
function show(profile, i) {
  selected = { profile, i }; area = null;
  const start = profile.start[i], end = start + profile.length[i], span = view.to - view.from;
  if (start < view.from || end > view.to) look(start - span / 2, end + span / 2);
  const band = bandOf(profile, i), height = lanes.clientHeight - AXIS;
  if (band.y < view.top || band.y + band.high > view.top + height) view.top = band.y - height / 2;
  describe(); redraw();
}

function wireTimeline() {
  let drag = null;
  lanes.addEventListener("wheel", event => {
    event.preventDefault();
    const amount = event.deltaY || event.deltaX;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(amount / 800);
    else if (event.altKey || event.offsetX < GUTTER) { view.top += event.deltaY; redraw(); }
    else zoom(Math.exp(amount / 400), timeAt(Math.max(GUTTER, event.offsetX)));
  }, { passive: false });
  lanes.addEventListener("pointerdown", event => {
    lanes.setPointerCapture(event.pointerId); lanes.focus();
    drag = { x: event.offsetX, y: event.offsetY, from: view.from, to: view.to, top: view.top, area: event.shiftKey && event.offsetX >= GUTTER, moved: false };
    if (drag.area) area = { from: timeAt(event.offsetX), to: timeAt(event.offsetX) };
  });
  lanes.addEventListener("pointermove", event => {
    if (!drag) { tip(event); return; }
    drag.moved = drag.moved || Math.abs(event.offsetX - drag.x) + Math.abs(event.offsetY - drag.y) > 4;
    if (!drag.moved) return;
    if (drag.area) { area.to = timeAt(event.offsetX); redraw(); return; }
    const step = (drag.x - event.offsetX) / scale();
    view.top = drag.top + drag.y - event.offsetY;
    look(drag.from + step, drag.to + step);
  });
  lanes.addEventListener("pointerup", event => {
    if (drag && drag.area && drag.moved) { selected = null; describe(); }
    else if (drag && !drag.moved) { area = null; selected = hit(event.offsetX, event.offsetY); describe(); }
    drag = null; redraw();
  });
  lanes.addEventListener("pointerleave", () => tip(null));
  let held = false;
  const jump = event => { const end = whole(), t = (event.offsetX - GUTTER) / (overview.clientWidth - GUTTER) * end, span = view.to - view.from; look(t - span / 2, t + span / 2); };
  overview.addEventListener("pointerdown", event => { held = true; overview.setPointerCapture(event.pointerId); jump(event); });
  overview.addEventListener("pointermove", event => { if (held) jump(event); });
  overview.addEventListener("pointerup", () => { held = false; });
  new ResizeObserver(() => { if (get("timeline").classList.contains("on")) { draw(); drawOverview(); } }).observe(get("stage"));
  const loop = now => { if (dirty && get("timeline").classList.contains("on")) { dirty = false; draw(); drawOverview(); } lastFrame = now; requestAnimationFrame(loop); };
  requestAnimationFrame(loop);
}
const floating = document.body.appendChild(make("div", { class: "tip" }));
function tip(event, text) {
  const found = event && text === undefined && hit(event.offsetX, event.offsetY);
  if (found) { const { profile, i } = found, site = profile.siteOf(i); text = `${profile.opcodes[profile.opcode[i]]}, ${time(profile.length[i] * profile.unit_ns)}\n${profile.place(site)}\n${site[OPERANDS]}`; }
  else if (event && text === undefined) text = curveTip(event.offsetX, event.offsetY);
  floating.style.display = text ? "block" : "none";
  if (!text) return;
  floating.textContent = text;
  floating.style.left = Math.min(event.clientX + 14, innerWidth - 430) + "px"; floating.style.top = Math.min(event.clientY + 14, innerHeight - 90) + "px";
}
