"use strict";
// What the page is given: see write.py. A profile's events lie in columns, track after track.
const began = performance.now();
const data = JSON.parse(document.getElementById("data").textContent);
const get = id => document.getElementById(id);
const COLUMNS = ["start", "length", "site", "opcode", "bytes", "turns", "waits", "after", "since", "path"];
const OPCODE = 0, ENGINE = 1, OPERANDS = 2, FLOPS = 3, PASSES = 4, FILE = 5, LINE = 6, OP = 7, KERNEL = 8, SCOPE = 9, FRAMES = 10, FUNCTIONS = 11;

function make(tag, attributes = {}, ...children) {
  const found = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) name in found && typeof value !== "string" ? found[name] = value : found.setAttribute(name, value);
  found.append(...children.filter(child => child !== null && child !== undefined));
  return found;
}

async function inflate(packed) {
  const text = atob(packed), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

class Profile {
  constructor(given, raw, number) {
    Object.assign(this, given);
    this.raw = raw; this.number = number; this.columns = {}; this.marks = null;
    let at = 0;
    this.rows = this.tracks.map(([core, lane, part, count]) => ({ core, lane, part, first: at, last: at += count }));
    const begins = this.start = this.column("start"), lengths = this.length = this.column("length");
    this.site = this.column("site"); this.opcode = this.column("opcode");
    let end = 1;
    for (const row of this.rows) {
      let time = 0;
      for (let i = row.first; i < row.last; i++) { time += begins[i]; begins[i] = time; if (time + lengths[i] > end) end = time + lengths[i]; }
    }
    const sums = this.sums = new Float64Array(this.count + 1);
    for (let i = 0; i < this.count; i++) sums[i + 1] = sums[i] + lengths[i];
    this.end = Math.max(end, Math.round(this.total_us * 1e3 / this.unit_ns));
  }
  column(name) {
    const known = this.columns[name];
    if (known) return known;
    const count = this.count, base = COLUMNS.indexOf(name) * 4 * count, raw = this.raw, found = new Int32Array(count);
    const one = base, two = base + count, three = base + 2 * count, four = base + 3 * count;
    for (let i = 0; i < count; i++) found[i] = raw[one + i] | raw[two + i] << 8 | raw[three + i] << 16 | raw[four + i] << 24;
    return this.columns[name] = found;
  }
  other(name, i) { const step = this.column(name)[i]; return step ? i - step : -1; }
  siteOf(i) { return this.sites[this.site[i]]; }
  place(site) { return site[LINE] ? `${site[FILE]}:${site[LINE]}` : site[SCOPE] || "(unknown)"; }
  rowOf(i) { let low = 0, high = this.rows.length - 1; while (low < high) { const middle = low + high >> 1; this.rows[middle].last <= i ? low = middle + 1 : high = middle; } return this.rows[low]; }
  // The events that waited for one: their numbers stand together, from `begins[i]` on.
  waiters(i) {
    if (!this.begins) {
      const waits = this.column("waits"), count = this.count, begins = this.begins = new Int32Array(count + 2);
      for (let j = 0; j < count; j++) if (waits[j]) begins[j - waits[j] + 2]++;
      for (let k = 2; k < count + 2; k++) begins[k] += begins[k - 1];
      this.later = new Int32Array(begins[count + 1]);
      for (let j = 0; j < count; j++) if (waits[j]) this.later[begins[j - waits[j] + 1]++] = j;
    }
    return [...this.later.subarray(this.begins[i], this.begins[i + 1])];
  }
}

const NICE = [1, 2, 5];
const digits = (value, most = 1) => value.toLocaleString("en-US", { maximumFractionDigits: most, minimumFractionDigits: most });
function time(ns) { const size = Math.abs(ns); return size >= 1e9 ? `${digits(ns / 1e9, 3)} s` : size >= 1e6 ? `${digits(ns / 1e6, 3)} ms` : size >= 1e3 ? `${digits(ns / 1e3, 2)} µs` : `${digits(ns, 0)} ns`; }
function bytes(count) { const unit = ["B", "KiB", "MiB", "GiB", "TiB"]; let k = 0; while (count >= 1024 && k < 4) { count /= 1024; k++; } return `${digits(count, k ? 1 : 0)} ${unit[k]}`; }
function flops(count) { const unit = ["", "k", "M", "G", "T", "P"]; let k = 0; while (count >= 1000 && k < 5) { count /= 1000; k++; } return `${digits(count, k ? 2 : 0)} ${unit[k]}FLOP`; }
const known = new Map(); // of the style sheet; asking it anew for each event takes longer than drawing
const css = name => { let value = known.get(name); if (!value) known.set(name, value = getComputedStyle(document.documentElement).getPropertyValue(name).trim()); return value; };
function rgba(hex, alpha = 255) { // canvas pixels are little endian: alpha, blue, green, red
  const value = parseInt(hex.slice(1), 16);
  return (alpha << 24 | (value & 255) << 16 | (value >> 8 & 255) << 8 | value >> 16) >>> 0;
}
