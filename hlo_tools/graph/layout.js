"use strict";
// The layout of layout.py for items that may form circles (collapsed scopes): layers by longest
// path, a narrow place in each layer that a value crosses, order by means, places by least squares.

const SWEEPS = 8, STRAIGHT = 4, LANE = 6, MOST_LANES = 24, PORT = 18, ROOM = 1500;

// above, below: for each item a set of items. size: wide, high, row, gap. Gives each item's x and
// level, the routes {from, to, points, lane}, the width, and the number of layers.
function layeredDrawing(above, below, size) {
  const count = above.length;
  if (!count) return { x: [], level: [], routes: [], width: 0, layers: 0 };
  const level = levelsOf(above, below), graph = crossings(level, above, below);
  const x = placesOf(graph, count, size);
  return framed(graph, x, count, size);
}

function levelsOf(above, below) {
  const count = above.length, level = new Array(count).fill(0);
  const waiting = above.map(set => set.size), done = new Uint8Array(count), ready = [];
  let next = 0, left = count;
  waiting.forEach((n, i) => { if (!n) ready.push(i); });
  while (left > 0) {
    if (!ready.length) { while (done[next]) next++; ready.push(next); } // a circle of collapsed scopes
    const i = ready.pop();
    if (done[i]) continue;
    done[i] = 1; left--;
    for (const b of below[i]) {
      if (done[b]) continue;
      level[b] = Math.max(level[b], level[i] + 1);
      if (--waiting[b] === 0) ready.push(b);
    }
  }
  // Chains of one operand each that begin at a source stand right above their first user.
  const order = level.map((_, i) => i).sort((a, b) => level[a] - level[b] || a - b), chain = new Uint8Array(count);
  for (const i of order) {
    const [only] = above[i];
    chain[i] = !above[i].size || (above[i].size === 1 && chain[only] && level[only] < level[i]) ? 1 : 0;
  }
  for (const i of order.reverse()) {
    if (!chain[i] || !below[i].size) continue;
    let first = Infinity;
    below[i].forEach(b => { first = Math.min(first, level[b]); });
    level[i] = Math.max(first - 1, level[i]);
  }
  return level;
}

// Items, then the places of values that cross layers; edges that go up or too far stay apart.
function crossings(level, above, below) {
  const count = above.length, reach = reachOf(level, below);
  const ups = above.map(() => []), downs = above.map(() => []), near = [], far = [];
  const join = (a, b) => { (ups[b] ||= []).push(a); (downs[a] ||= []).push(b); downs[b] ||= []; };
  for (let from = 0; from < count; from++) {
    const way = [];
    for (const to of [...below[from]].sort((a, b) => level[a] - level[b] || a - b)) {
      const span = level[to] - level[from];
      if (span < 1 || span > reach) { far.push([from, to]); continue; }
      while (way.length < span - 1) {
        join(way.length ? way[way.length - 1] : from, level.length);
        way.push(level.length); level.push(level[from] + way.length);
      }
      near.push([from, to, way.slice(0, span - 1)]);
      join(span > 1 ? way[span - 2] : from, to);
    }
  }
  const rows = [];
  level.forEach((l, i) => { (rows[l] ||= []).push(i); });
  for (let k = 0; k < rows.length; k++) rows[k] ||= [];
  return { level, rows, ups, downs, near, far };
}

// The most layers that an edge may span, so that there is room for all places on the way.
function reachOf(level, below) {
  const needed = new Map();
  below.forEach((users, from) => {
    let last = 1;
    for (const span of [...new Set([...users].map(to => level[to] - level[from]))].sort((a, b) => a - b)) {
      if (span <= last) continue;
      needed.set(span, (needed.get(span) || 0) + span - last); last = span;
    }
  });
  let room = Math.max(ROOM, 2 * below.length), reach = 1;
  for (const span of [...needed.keys()].sort((a, b) => a - b)) {
    room -= needed.get(span);
    if (room < 0) break;
    reach = span;
  }
  return reach;
}

function placesOf(graph, count, size) {
  const { rows, ups, downs } = graph, x = new Float64Array(graph.level.length), want = new Float64Array(x.length);
  const mean = (i, near) => { if (!near.length) return x[i]; let sum = 0; for (const n of near) sum += x[n]; return sum / near.length; };
  for (const row of rows) { settle(row, want, x, count, size); }
  const sweeps = x.length > 20000 ? 4 : SWEEPS;
  for (let sweep = 0; sweep < sweeps; sweep++) {
    const down = sweep % 2 === 0, near = down ? ups : downs;
    for (let k = 0; k < rows.length; k++) {
      const row = rows[down ? k : rows.length - 1 - k];
      for (const i of row) want[i] = mean(i, near[i]);
      row.sort((a, b) => want[a] - want[b]);
      settle(row, want, x, count, size);
    }
  }
  for (const row of [...rows, ...rows.slice().reverse()]) {
    for (const i of row) { const n = ups[i].length + downs[i].length; want[i] = n ? (mean(i, ups[i]) * ups[i].length + mean(i, downs[i]) * downs[i].length) / n : x[i]; }
    settle(row, want, x, count, size);
  }
  return x;
}

// The places nearest to those wanted that keep the order and the space between (pool adjacent violators).
function settle(row, want, x, count, size) {
  const means = [], weights = [], ends = [], offsets = [];
  let edge = 0;
  row.forEach((i, k) => {
    if (k) {
      const b = row[k - 1], both = b < count && i < count;
      edge += ((b < count ? size.wide : 2) + (i < count ? size.wide : 2)) / 2 + (both ? size.gap : size.gap / 2);
    }
    offsets.push(edge);
    let value = want[i] - edge, weight = i < count ? 1 : STRAIGHT;
    while (means.length && means[means.length - 1] > value) {
      const mean = means.pop(), heavy = weights.pop();
      ends.pop();
      value = (mean * heavy + value * weight) / (heavy + weight); weight += heavy;
    }
    means.push(value); weights.push(weight); ends.push(k + 1);
  });
  let k = 0;
  means.forEach((mean, block) => { for (; k < ends[block]; k++) x[row[k]] = mean + offsets[k]; });
}

function framed(graph, x, count, size) {
  const { level, rows, near, far } = graph, half = size.high / 2, y = i => (level[i] + .5) * size.row;
  let low = Infinity, high = -Infinity;
  x.forEach((at, i) => { const w = i < count ? size.wide / 2 : 1; low = Math.min(low, at - w); high = Math.max(high, at + w); });
  const sources = [...new Set(far.map(([from]) => from))], fits = sources.length <= MOST_LANES;
  const lanes = new Map(sources.map((from, k) => [from, fits ? k : 0]));
  const margin = far.length ? LANE * (fits ? sources.length : 1) + size.gap / 2 : 0;
  for (let i = 0; i < x.length; i++) x[i] += margin - low;
  const ports = portsOf(near, far, x, size), routes = [];
  near.forEach(([from, to, way], n) => {
    const points = [[x[from], y(from) + half]];
    for (const i of way) points.push([x[i], y(i) - half], [x[i], y(i) + half]);
    points.push([ports[n], y(to) - half]);
    routes.push({ from, to, points, lane: false, hidden: false });
  });
  const space = (size.row - size.high) / 4;
  far.forEach(([from, to], n) => {
    const lane = LANE * (lanes.get(from) + .5), a = y(from) + half, b = y(to) - half, port = ports[near.length + n];
    routes.push({ from, to, points: [[x[from], a], [x[from], a + space], [lane, a + space], [lane, b - space], [port, b - space], [port, b]], lane: true, hidden: !fits });
  });
  return { x: Array.from(x.slice(0, count)), level: level.slice(0, count), routes, width: high - low + margin, layers: rows.length };
}

// Where edges end on an item's upper side: in the order in which they arrive.
function portsOf(near, far, x, size) {
  const ends = new Map(), ports = [];
  const arrive = (to, at, n) => { if (!ends.has(to)) ends.set(to, []); ends.get(to).push([at, n]); };
  near.forEach(([from, to, way], n) => arrive(to, x[way.length ? way[way.length - 1] : from], n));
  far.forEach(([, to], n) => arrive(to, -1, near.length + n));
  ends.forEach((list, to) => {
    list.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const step = Math.min(PORT, (size.wide - 12) / list.length), first = x[to] - step * (list.length - 1) / 2;
    list.forEach(([, n], k) => { ports[n] = first + step * k; });
  });
  return ports;
}
