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

// The pixel value of an event's colour; by opcode it also depends on the lane.
function painter(profile) {
  if (colourBy === "opcode") {
    const known = new Map();
    return row => {
      let found = known.get(row.lane);
      if (!found) known.set(row.lane, found = Uint32Array.from(profile.opcodes, one => rgba(kindColour(one, row.lane))));
      return { values: found, numbers: profile.opcode };
    };
  }
  const field = { line: site => profile.place(site), kernel: site => site[KERNEL] || site[OP], op: site => site[OP] }[colourBy];
  const names = new Map(), values = Uint32Array.from(profile.sites, site => {
    const name = field(site);
    if (!names.has(name)) names.set(name, names.size);
    return rgba(PALETTE[names.get(name) % PALETTE.length]);
  });
  return () => ({ values, numbers: profile.site });
}
