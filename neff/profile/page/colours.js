// Colours of events: those of the graph page's kinds of work, further ones by number.
const KINDS = [
  [/^(nc_matmul|matmul)/, "#2563eb"], [/transpose/, "#db2777"], [/^load_weights/, "#60a5fa"],
  [/^act_table_load/, "#dc2626"], [/^(activat|exponential|gelu)/, "#ea580c"], [/^(event_semaphore|register|core_barrier)/, "#94a3b8"],
  [/^(tensor_reduce|bn_|max8|select_reduce)/, "#0d9488"], [/^(dma_|sendrecv)/, "#ca8a04"], [/^(tensor_copy|memset|iota)/, "#65a30d"],
  [/^(reciprocal|rsqrt)/, "#a16207"], [/^(tensor_scalar|scalar_tensor)/, "#7c3aed"], [/^tensor_tensor/, "#16a34a"],
];
const PALETTE = ["#2563eb", "#16a34a", "#ea580c", "#7c3aed", "#0d9488", "#ca8a04", "#db2777", "#0891b2", "#65a30d", "#dc2626", "#9333ea", "#475569", "#0284c7", "#b45309", "#4f46e5", "#059669"];
let colourBy = "opcode";

function kindColour(opcode, lane) {
  if (lane.startsWith("dma.") && opcode.startsWith("dma_copy")) return lane.endsWith(".out") ? "#0891b2" : "#ca8a04";
  for (const [pattern, colour] of KINDS) if (pattern.test(opcode)) return colour;
  return "#475569";
}

const LEVELS = 4;
// Pixel values of colours, fainter ones first.
function levels(colours) {
  const back = css("--lane"), parts = hex => [1, 3, 5].map(k => parseInt(hex.slice(k, k + 2), 16));
  const mixed = (colour, share) => { const from = parts(back), to = parts(colour); return "#" + from.map((one, k) => Math.round(one + (to[k] - one) * share).toString(16).padStart(2, "0")).join(""); };
  return Array.from({ length: LEVELS }, (_, k) => Uint32Array.from(colours, colour => rgba(mixed(colour, .3 + .7 * (k + 1) / LEVELS))));
}

// The pixel value of an event's colour; by opcode it also depends on the lane.
function painter(profile) {
  if (colourBy === "opcode") {
    const known = new Map();
    return row => {
      let found = known.get(row.lane);
      if (!found) known.set(row.lane, found = levels(profile.opcodes.map(one => kindColour(one, row.lane))));
      return { values: found, numbers: profile.opcode };
    };
  }
  const field = { line: site => profile.place(site), kernel: site => site[KERNEL] || site[OP], op: site => site[OP] }[colourBy];
  const names = new Map(), values = levels(profile.sites.map(site => {
    const name = field(site);
    if (!names.has(name)) names.set(name, names.size);
    return PALETTE[names.get(name) % PALETTE.length];
  }));
  return () => ({ values, numbers: profile.site });
}
