// Memory: who holds which bytes when; and how full each of the 128 partitions is.
const MEMORY_NAMES = { sbuf: "SBUF", psum: "PSUM", hbm: "HBM" };
function fillMemory(panel) {
  panel.replaceChildren();
  for (const profile of profiles) {
    if (profiles.length > 1) panel.append(make("h3", {}, `${profile.role}: ${profile.name}`));
    const place = make("div"), cores = [...new Set(profile.memory.peaks.map(one => one.core))];
    let memory = "sbuf", core = cores[0] || 0;
    const fill = () => fillMap(place, profile, memory, core);
    panel.append(picker(["SBUF", "PSUM", "HBM"], "SBUF", name => { memory = name.toLowerCase(); fill(); }));
    if (cores.length > 1) panel.append(picker(cores.map(one => `core ${one}`), `core ${core}`, name => { core = +name.slice(5); fill(); }));
    panel.append(place);
    fill();
  }
}
function fillMap(place, profile, memory, core) {
  const peak = profile.memory.peaks.find(one => one.memory === memory && one.core === core), end = profile.total_us || 1;
  const own = profile.memory.holdings.filter(one => one.memory === memory && (one.core === core || one.core === -1));
  place.replaceChildren(make("div", { class: "figures" }, figure(bytes(peak.used), `peak of ${bytes(peak.capacity)} (${digits(peak.used / Math.max(1, peak.capacity) * 100, 1)} %)`), figure(time(peak.at_us * 1e3), "when"), figure(String(peak.holders.length), "tensors held then")));
  const map = make("div", { class: "map" + (memory === "hbm" ? " low" : "") }), canvas = make("canvas");
  map.append(canvas);
  const isChip = memory !== "hbm";
  place.append(make("h2", {}, isChip ? "Bytes of a partition (from below) × time" : "Bytes held × time"), map);
  requestAnimationFrame(() => isChip ? paintMap(canvas, own, end, peak) : paintUse(canvas, own, end, peak));
  if (isChip) {
    const heat = make("div", { class: "map low" }), second = make("canvas");
    heat.append(second);
    place.append(make("h2", {}, "The 128 partitions (0 above) × time: how full"), heat);
    requestAnimationFrame(() => paintPartitions(second, own, end));
  }
  place.append(make("h2", {}, "Held at the peak"), table(["tensor", "bytes", "line"], peak.holders.map(one => [one.name, [one.bytes / Math.max(1, peak.used), bytes(one.bytes)], one.place]), { most: 60 }));
}
function prepared(canvas) {
  const ratio = window.devicePixelRatio || 1, wide = canvas.parentNode.clientWidth, high = canvas.parentNode.clientHeight, own = canvas.getContext("2d");
  canvas.width = wide * ratio; canvas.height = high * ratio; own.setTransform(ratio, 0, 0, ratio, 0, 0);
  own.fillStyle = css("--lane"); own.fillRect(0, 0, wide, high);
  return { own, wide, high };
}
function badge(own, text, x, y) { own.fillStyle = css("--panel"); own.globalAlpha = .85; own.fillRect(x, y, own.measureText(text).width + 8, 16); own.globalAlpha = 1; own.fillStyle = css("--dim"); own.fillText(text, x + 4, y + 8); }
function colourOfTensor(one) { let sum = 7; for (const letter of one.name.replace(/[/.]\d+$/, "")) sum = sum * 31 + letter.charCodeAt(0) | 0; return PALETTE[Math.abs(sum) % PALETTE.length]; }
function paintMap(canvas, held, end, peak) {
  const { own, wide, high } = prepared(canvas), top = Math.max(1, ...held.map(one => one.address + one.bytes_per_partition));
  own.font = "11px system-ui, sans-serif"; own.textBaseline = "middle";
  for (const one of held) {
    const x = one.start_us / end * wide, w = Math.max(1, (one.end_us - one.start_us) / end * wide), y = high - (one.address + one.bytes_per_partition) / top * (high - 4), h = Math.max(1, one.bytes_per_partition / top * (high - 4));
    own.globalAlpha = .35 + .5 * Math.min(1, one.partitions / 128); own.fillStyle = colourOfTensor(one); own.fillRect(x, y, w, h);
    own.globalAlpha = 1;
    if (h > 3 && w > 3) { own.strokeStyle = css("--panel"); own.lineWidth = .5; own.strokeRect(x, y, w, h); }
    if (h > 13 && w > 50) { own.fillStyle = "#fff"; const text = `${one.name} ${one.dtype}[${one.shape}]`; own.fillText(text.length * 5.8 > w ? text.slice(0, Math.max(2, w / 5.8 - 2)) + "…" : text, x + 4, y + h / 2); }
  }
  const x = peak.at_us / end * wide;
  own.strokeStyle = css("--path"); own.setLineDash([4, 3]); own.beginPath(); own.moveTo(x, 0); own.lineTo(x, high); own.stroke(); own.setLineDash([]);
  badge(own, `${bytes(top)} of a partition`, 4, 4); badge(own, time(end * 1e3), wide - 74, high - 20);
  canvas.onpointermove = event => {
    const t = event.offsetX / wide * end, at = (high - event.offsetY) / (high - 4) * top, one = held.find(each => t >= each.start_us && t <= each.end_us && at >= each.address && at < each.address + each.bytes_per_partition);
    tip(event, one ? `${one.name} ${one.dtype}[${one.shape}]\npartitions ${one.first_partition} to ${one.first_partition + one.partitions - 1}, bytes ${one.address} to ${one.address + one.bytes_per_partition - 1}\n${time(one.start_us * 1e3)} to ${time(one.end_us * 1e3)}\n${one.place}` : "");
  };
  canvas.onpointerleave = () => tip(null);
}
function paintPartitions(canvas, held, end) {
  const { own, wide, high } = prepared(canvas), columns = wide | 0, use = Array.from({ length: 128 }, () => new Float32Array(columns + 1));
  for (const one of held) {
    const left = Math.floor(one.start_us / end * columns), right = Math.max(left + 1, Math.ceil(one.end_us / end * columns));
    for (let p = one.first_partition; p < Math.min(128, one.first_partition + one.partitions); p++) { use[p][left] += one.bytes_per_partition; if (right <= columns) use[p][right] -= one.bytes_per_partition; }
  }
  let most = 1;
  for (const row of use) for (let x = 1; x <= columns; x++) { row[x] += row[x - 1]; }
  for (const row of use) for (const one of row) most = Math.max(most, one);
  own.fillStyle = css("--mark");
  const edge = p => Math.round(p / 128 * high);
  for (let p = 0; p < 128; p++) for (let x = 0; x < columns;) {
    let to = x + 1;
    while (to < columns && use[p][to] === use[p][x]) to++;
    if (use[p][x] > 0) { own.globalAlpha = .1 + .9 * use[p][x] / most; own.fillRect(x, edge(p), to - x, edge(p + 1) - edge(p)); }
    x = to;
  }
  own.globalAlpha = 1;
}
function paintUse(canvas, held, end, peak) {
  const { own, wide, high } = prepared(canvas), changes = held.flatMap(one => [[one.start_us, one.bytes_per_partition * one.partitions], [one.end_us, -one.bytes_per_partition * one.partitions]]).sort((a, b) => a[0] - b[0]);
  let used = 0, last = 0;
  own.fillStyle = css("--mark"); own.globalAlpha = .5;
  for (const [at, step] of changes) { const x = last / end * wide; own.fillRect(x, high - used / Math.max(1, peak.used) * (high - 16), (at - last) / end * wide, high); last = at; used += step; }
  own.globalAlpha = 1; own.fillStyle = css("--dim"); own.font = "11px system-ui, sans-serif"; own.textBaseline = "middle"; badge(own, bytes(peak.used), 4, 4);
}
