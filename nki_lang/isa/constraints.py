"""The rules that belong to one instruction alone."""

from __future__ import annotations

from operator import index as to_int
from typing import Any, SupportsFloat, SupportsIndex

from nki_lang.base.memory import MemoryRegion
from nki_lang.frontend.objects import is_sequence
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.ir import Engine
from nki_lang.isa.call import CheckedCall
from nki_lang.isa.enums import dge_mode, dma_engine, nc_version, oob_mode, reduce_cmd
from nki_lang.isa.rules import BITVEC, custom, free_elements


def _hwdge(call: CheckedCall) -> bool:
    return call["dge_mode"] is dge_mode.hwdge


@custom("NKI-DGE", "hwdge exists on trn2 and later", "nki/deep-dives/nki-dge.rst")
def dge_generation(call: CheckedCall) -> str:
    if _hwdge(call) and call.generation < nc_version.gen3:
        return "dge_mode=hwdge on trn1"
    return ""


@custom("NKI-DGE", "engine is sync or scalar and needs dge_mode=nisa.dge_mode.hwdge",
        "nisa.dma_copy, engine")  # fmt: skip
def dge_trigger(call: CheckedCall) -> str:
    if call.engine is Engine.unknown or _hwdge(call):
        return ""
    return f"engine={call.engine.name} with dge_mode={call['dge_mode'].name}"


@custom("NKI-DGE", "a vector_offset needs dge_mode unknown or swdge",
        "nki/deep-dives/nki-dge.rst, How .ap() affects the mode")  # fmt: skip
def dge_indirect(call: CheckedCall) -> str:
    for name, tensor in call.tensors():
        index = tensor.runtime_index
        if index is None:
            continue
        if index.vector is not None and call["dge_mode"] in (dge_mode.hwdge, dge_mode.none):
            return f"{name} has a vector_offset with dge_mode={call['dge_mode'].name}"
    return ""


@custom("NKI-TRANSPOSE", "axes are (1, 0), (2, 1, 0) or (3, 1, 2, 0) by the rank of src",
        "nisa.dma_transpose")  # fmt: skip
def dma_transpose_axes(call: CheckedCall) -> str:
    reversed_axes = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}.get(len(call["src"].shape))
    if reversed_axes is None:
        return f"src has {len(call['src'].shape)} dimensions"
    axes = call["axes"]
    if axes is not None and tuple(axes) != reversed_axes:
        return f"axes={axes} for {call.describe('src')}"
    expected = tuple(call["src"].shape[axis] for axis in reversed_axes)
    if call["dst"].size != call["src"].size or (
        len(call["dst"].shape) == len(expected) and call["dst"].shape != expected
    ):
        return f"{call.describe('dst')} for {call.describe('src')}, expected shape {expected}"
    return ""


@custom("NKI-TRANSPOSE",
        "an indirect transpose reads 2-byte rows of at most 128 elements from HBM, a multiple of"
        " 16 rows, by uint32 indices of 16 to 128 partitions, on trn2 and later",
        "nisa.dma_transpose, indirect transpose")  # fmt: skip
def dma_transpose_indirect(call: CheckedCall) -> str:
    source = call["src"]
    index = source.runtime_index
    if index is None or index.vector is None:
        return ""
    if call.generation < nc_version.gen3:
        return "an indirect transpose on trn1"
    rows = index.vector.shape[0]
    if (
        source.shape[-1] > 128
        or source.dtype.itemsize != 2
        or source.shape[0] % 16
        or rows % 16
        or not 16 <= rows <= 128
        or index.vector.element_type.name not in ("uint32", "int32")
    ):
        return f"{call.describe('src')} with indices of shape {index.vector.shape}"
    return ""


@custom("NKI-TRANSPOSE",
        "hwdge transposes 2-byte elements with src.shape[-1] <= 128; 2-D src has 16 rows, others 1, 2,"
        " 4, 8 or 16 with src.shape[0] * src.shape[-2] a multiple of 16; swdge is for indirect"
        " transposes; dst is in SBUF", "nisa.dma_transpose, direct transpose")  # fmt: skip
def dma_transpose_direct(call: CheckedCall) -> str:
    source, mode = call["src"], call["dge_mode"]
    if not call["dst"].on_chip:
        return call.describe("dst")
    if source.runtime_index is not None and source.runtime_index.vector is not None:
        return ""
    if mode is dge_mode.swdge:
        return "dge_mode=swdge without vector_offset"
    if mode is not dge_mode.hwdge:
        return ""
    shape = source.shape
    rows = shape[0] == 16 if len(shape) == 2 else (
        shape[0] in (1, 2, 4, 8, 16) and shape[0] * shape[-2] % 16 == 0
    )  # fmt: skip
    fits = rows and shape[-1] <= 128 and source.dtype.itemsize == 2
    return "" if fits else f"dge_mode=hwdge with {call.describe('src')}"


@custom("NKI-OOB-MODE", "oob_mode.skip is for operands with a runtime index", "nisa.dma_transpose;"
        " NKI 0.4.0 release notes, dma_compute")  # fmt: skip
def skip_needs_index(call: CheckedCall) -> str:
    if call["oob_mode"] is not oob_mode.skip:
        return ""
    dynamic = any(tensor.runtime_index is not None for _, tensor in call.tensors())
    return "" if dynamic else "oob_mode=skip without a runtime index"


@custom("NKI-DMA-COMPUTE", "reduce_op is nl.add, scales are 1.0, at most 16 sources of the size"
        " of dst, unique indices", "nisa.dma_compute")  # fmt: skip
def dma_compute(call: CheckedCall) -> str:
    sources, scales = call["srcs"], call["scales"]
    if call.operator("reduce_op") != "add":
        return call.describe("reduce_op")
    if scales is not None and (len(scales) != len(sources) or any(s != 1.0 for s in scales)):
        return f"scales={scales} for {len(sources)} sources"
    if len(sources) > 16:
        return f"{len(sources)} sources"
    if any(source.size != call["dst"].size for source in sources):
        return f"sources of {[source.shape for source in sources]} for {call.describe('dst')}"
    if not call["unique_indices"]:
        return "unique_indices=False"
    return ""


@custom("NKI-MEMSET", "packed x4 tiles can only be set to 0", "nisa.memset")
def memset_packed(call: CheckedCall) -> str:
    value = call["value"]
    if call["dst"].dtype.kind == "packed" and value != 0:
        return f"value={value!r} for {call.describe('dst')}"
    return ""


@custom("NKI-ENGINE", "use nisa.activation(op=nl.copy) on trn1", "nisa.tensor_copy")
def copy_scalar_engine(call: CheckedCall) -> str:
    if call.engine is Engine.scalar and call.generation < nc_version.gen3:
        return "the scalar engine of trn1 has no tensor_copy"
    return ""


@custom("NKI-BUFFER", "nl.power runs on GpSimd, which cannot access PSUM",
        "nisa.tensor_tensor")  # fmt: skip
def power_in_sbuf(call: CheckedCall) -> str:
    if call.operator("op") != "power":
        return ""
    for name, tensor in call.tensors():
        if tensor.buffer is MemoryRegion.psum:
            return f"op=nl.power with {call.describe(name)}"
    return ""


@custom("NKI-ENGINE", "bitwise operators run on the vector engine", "nisa.tensor_scalar")
def bitvec_engine(call: CheckedCall) -> str:
    is_vector = call.engine in (Engine.unknown, Engine.vector)
    if not is_vector and call.operator("op0") in BITVEC:
        return f"op0=nl.{call.operator('op0')} on engine={call.engine.name}"
    return ""


@custom("NKI-ENGINE",
        "the scalar engine of trn2 does multiply, add, or multiply then add", "nisa.tensor_scalar")  # fmt: skip
def scalar_engine_pairs(call: CheckedCall) -> str:
    if call.engine is not Engine.scalar or call.generation != nc_version.gen3:
        return ""
    pair = (call.operator("op0"), call.operator("op1"))
    if pair in {("multiply", "add"), ("multiply", ""), ("add", "")}:
        return ""
    return f"op0=nl.{pair[0]}, op1=nl.{pair[1] or None} on engine=scalar"


@custom("NKI-DTYPE", "operand tiles of arithmetic operators are float32", "nisa.tensor_scalar")
def operand_float32(call: CheckedCall) -> str:
    data = call["data"]
    for name, op in (("operand0", "op0"), ("operand1", "op1")):
        value = call.values.get(name)
        if not isinstance(value, NkiTensor) or call.operator(op) in BITVEC:
            continue
        integers = value.dtype.is_integer and data.dtype.is_integer
        if value.dtype.name != "float32" and not integers:
            return call.describe(name)
    return ""


@custom("NKI-AXIS",
        "axis is one or several integers, the last free dimensions of data; dst has the rest; bitwise"
        " results are not negated",
        "nisa.tensor_reduce, axis")  # fmt: skip
def reduce_axes(call: CheckedCall) -> str:
    data, axis = call["data"], call["axis"]
    rank = len(data.shape)
    axes_tuple = tuple(axis) if is_sequence(axis) else (axis,)
    if not all(isinstance(a, int) for a in axes_tuple):
        return call.describe("axis")
    axes = sorted(a + rank if a < 0 else a for a in axes_tuple)
    if not axes or axes != list(range(rank - len(axes), rank)) or axes[0] == 0:
        return f"axis={axis} for {call.describe('data')}"
    if call["negate"] and call.operator("op") in BITVEC:
        return f"negate=True with op=nl.{call.operator('op')}"
    remaining = 1
    for extent in data.shape[1 : axes[0]]:
        remaining *= extent
    dst = call["dst"]
    if dst.shape[0] != data.shape[0] or free_elements(dst) != remaining:
        return f"axis={axis} leaves {remaining} elements per partition, {call.describe('dst')}"
    return ""


@custom("NKI-SHAPE", "dst has one partition, and the elements per partition of data",
        "nisa.tensor_partition_reduce")  # fmt: skip
def one_partition(call: CheckedCall) -> str:
    data, dst = call["data"], call["dst"]
    if dst.shape[0] == 1 and free_elements(dst) == free_elements(data):
        return ""
    return f"{call.describe('dst')} for {call.describe('data')}"


@custom("NKI-BIAS", "on trn1 bias is a tile of shape (data.shape[0], 1)", "nisa.activation, Layout")
def bias_vector(call: CheckedCall) -> str:
    bias = call["bias"]
    if call.generation == nc_version.gen2 and bias is not None and not isinstance(bias, NkiTensor):
        return f"{call.describe('bias')} on trn1"
    return ""


@custom("NKI-REDUCE", "reduce_op goes with a reduce_cmd, and reduce_res with a reduction",
        "nisa.activation")  # fmt: skip
def activation_reduction(call: CheckedCall) -> str:
    command = call["reduce_cmd"]
    needs = command in (reduce_cmd.reduce, reduce_cmd.reset_reduce)
    if needs and call["reduce_op"] is None:
        return f"reduce_cmd={command.name} without reduce_op"
    if command is reduce_cmd.load_reduce:
        return "reduce_cmd=load_reduce is for vector engine reductions"
    return ""


@custom("NKI-REDUCE", "reduce_op is nl.add on trn1, later also maximum or minimum, on trn3 abs_max"
        " or abs_min", "nisa.activation_reduce; nisa.activate2, reduce_op")  # fmt: skip
def scalar_engine_reduction(call: CheckedCall) -> str:
    op = call.operator("reduce_op")
    since = {"add": 2, "maximum": 3, "minimum": 3, "abs_max": 4, "abs_min": 4}
    return "" if call.generation >= since.get(op, 99) else f"reduce_op=nl.{op}"


_PAIRS = frozenset(
    {("multiply", "add"), ("multiply", "subtract"), ("multiply", "bypass"), ("add", "bypass"),
     ("subtract", "bypass"), ("bypass", "bypass")}
)  # fmt: skip


@custom("NKI-OPERATOR", "(op0, op1) is one of the six documented pairs", "nisa.activate2")
def activate2_pair(call: CheckedCall) -> str:
    pair = (call.operator("op0") or "bypass", call.operator("op1") or "bypass")
    return "" if pair in _PAIRS else f"op0=nl.{pair[0]}, op1=nl.{pair[1]}"


@custom("NKI-REDUCE", "reduce_init goes with reduce_cmd=load_reduce and only with it",
        "Accumulator behavior of the instruction")  # fmt: skip
def reduce_init(call: CheckedCall) -> str:
    loads = call["reduce_cmd"] is reduce_cmd.load_reduce
    value = call["reduce_init"]
    has_initial_value = value is not None and not (isinstance(value, (int, float)) and value == 0)
    if has_initial_value and not loads:
        return f"reduce_init with reduce_cmd={call['reduce_cmd'].name}"
    if loads and value is None:
        return "reduce_cmd=load_reduce without reduce_init"
    return ""


@custom("NKI-PATTERN", "pattern is up to four [step, count] pairs whose counts multiply to the"
        " elements per partition of dst", "nisa.iota, Tile size")  # fmt: skip
def pattern_size(call: CheckedCall) -> str:
    pattern = call["pattern"]
    try:
        counts = [to_int(count) for step, count in pattern for _ in (to_int(step),)]
    except (TypeError, ValueError):
        return f"pattern={pattern!r}"
    total = 1
    for count in counts:
        total *= count
    if len(counts) > 4 or total != free_elements(call["dst"]):
        return f"pattern={pattern!r} for {call.describe('dst')}"
    return ""


@custom("NKI-GATHER", "partitions are equal and a multiple of 16, num_elem_per_idx is 1 to 32 (a"
        " power of two), at most 4096 indices a core", "nisa.local_gather")  # fmt: skip
def local_gather(call: CheckedCall) -> str:
    source, index = call["src_buffer"], call["index"]
    if source.shape[0] != index.shape[0] or source.shape[0] % 16:
        return f"{call.describe('src_buffer')}, {call.describe('index')}"
    per_index = call["num_elem_per_idx"]
    if per_index not in (1, 2, 4, 8, 16, 32):
        return f"num_elem_per_idx={per_index}"
    available = free_elements(index) * 16
    valid = available if call["num_valid_indices"] is None else call["num_valid_indices"]
    if valid > min(available, 4096):
        return f"{valid} indices a core"
    if free_elements(call["dst"]) < valid * per_index:
        return f"{call.describe('dst')} for {valid} indices of {per_index} elements"
    return ""


@custom("NKI-BN", "data has at most 512 elements per partition, dst six and the same partitions",
        "nisa.bn_stats")  # fmt: skip
def bn_stats(call: CheckedCall) -> str:
    alike = call["data"].shape[0] == call["dst"].shape[0]
    if not alike or free_elements(call["data"]) > 512 or free_elements(call["dst"]) != 6:
        return f"{call.describe('data')}, {call.describe('dst')}"
    return ""


@custom("NKI-BN", "data has a multiple of three elements per partition, dst two and the same"
        " partitions", "nisa.bn_aggr")  # fmt: skip
def bn_aggr(call: CheckedCall) -> str:
    alike = call["data"].shape[0] == call["dst"].shape[0]
    if not alike or free_elements(call["data"]) % 3 or free_elements(call["dst"]) != 2:
        return f"{call.describe('data')}, {call.describe('dst')}"
    return ""


@custom(
    "NKI-SHUFFLE", "shuffle_mask has 32 integers, each 0 to 31 or 255", "nisa.nc_stream_shuffle"
)
def shuffle_mask(call: CheckedCall) -> str:
    mask = call["shuffle_mask"]
    wrong = [entry for entry in mask if not isinstance(entry, SupportsIndex)
             or not (0 <= to_int(entry) < 32 or to_int(entry) == 255)]  # fmt: skip
    return f"shuffle_mask={mask!r}" if len(mask) != 32 or wrong else ""


@custom("NKI-SHUFFLE", "src and dst have the same elements per partition; with up to 32 partitions"
        " they start at a multiple of 32, with up to 64 at 0 or 64, with more at 0",
        "nisa.nc_stream_shuffle")  # fmt: skip
def shuffle_place(call: CheckedCall) -> str:
    pair = (call["dst"], call["src"])
    if free_elements(pair[0]) != free_elements(pair[1]):
        return f"{call.describe('dst')}, {call.describe('src')}"
    active = -(-max(tile.shape[0] for tile in pair) // 32) * 32
    step = active if active < 96 else 128
    for name, tile in zip(("dst", "src"), pair, strict=True):
        if tile.start_partition % step or tile.start_partition + tile.shape[0] > 128:
            return f"{call.describe(name)} starts at partition {tile.start_partition}"
    return ""


@custom("NKI-SHAPE", "the state has 6 elements per partition on GpSimd and 24 on Vector",
        "nisa.rand_set_state, Tile size")  # fmt: skip
def random_state(call: CheckedCall) -> str:
    name = "src_seeds" if "src_seeds" in call.values else "dst"
    words = 24 if call.engine is Engine.vector else 6
    return "" if free_elements(call[name]) == words else call.describe(name)


@custom("NKI-SHAPE", "src_seeds is one 32-bit value", "nisa.set_rng_seed")
def one_seed(call: CheckedCall) -> str:
    seeds = call["src_seeds"]
    return "" if seeds.size == 1 and seeds.dtype.itemsize == 4 else call.describe("src_seeds")


@custom("NKI-VALUE", "min is smaller than max", "nisa.rand2")
def ordered_range(call: CheckedCall) -> str:
    low, high = call["min"], call["max"]
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and not low < high:
        return f"min={low}, max={high}"
    return ""


@custom("NKI-SHAPE", "8 to 16384 elements per partition in, 8 out of each", "nisa.max8")
def eight(call: CheckedCall) -> str:
    name = "src" if "src" in call.values else "data"
    if not 8 <= free_elements(call[name]) <= 16384:
        return call.describe(name)
    for out in ("vals", "dst_idx") if "imm" in call.values else ("dst", "vals"):
        value = call.values.get(out)
        if not isinstance(value, NkiTensor):
            continue
        if free_elements(value) != 8 or value.shape[0] != call[name].shape[0]:
            return f"{call.describe(out)} for {call.describe(name)}"
    return ""


@custom("NKI-SHAPE", "one partition; dst holds two values for each id", "nisa.sequence_bounds")
def bounds_shape(call: CheckedCall) -> str:
    ids, dst = call["segment_ids"], call["dst"]
    if ids.shape[0] != 1 or dst.size != 2 * ids.size:
        return f"{call.describe('segment_ids')}, {call.describe('dst')}"
    return ""


@custom("NKI-CORES", "cores is (0, 1), the two cores of a logical core", "nisa.core_barrier")
def barrier_cores(call: CheckedCall) -> str:
    """``data`` should be in shared HBM, but public kernels pass tiles of their own core too."""
    cores = call["cores"]
    fits = is_sequence(cores) and tuple(cores) == (0, 1)
    return "" if fits else f"cores={cores!r}"


@custom("NKI-CORES", "ranks are 0 or 1", "nisa.sendrecv")
def sendrecv_ranks(call: CheckedCall) -> str:
    for name in ("send_to_rank", "recv_from_rank"):
        if call[name] not in (0, 1):
            return f"{name}={call[name]!r}"
    return ""


@custom("NKI-SIZE", "gpsimd_dma moves at most 256 elements per partition", "nisa.sendrecv")
def sendrecv_size(call: CheckedCall) -> str:
    if call["dma_engine"] is dma_engine.gpsimd_dma and free_elements(call["src"]) > 256:
        return call.describe("src")
    return ""


@custom("NKI-SHAPE", "dst has one element per partition more than src", "nisa.nonzero_with_count")
def one_more(call: CheckedCall) -> str:
    src, dst = call["src"], call["dst"]
    if src.shape[0] != dst.shape[0] or free_elements(dst) != free_elements(src) + 1:
        return f"{call.describe('dst')}, {call.describe('src')}"
    return ""


@custom("NKI-SHAPE", "8 <= n < 65536, 1 <= K <= n, src holds n elements in 16 partitions",
        "nisa.topk, Constraints")  # fmt: skip
def topk(call: CheckedCall) -> str:
    count, n = free_elements(call["val_dst"]), call["n"]
    src = call["src"]
    if not 8 <= n < 65536 or not 1 <= count < 32768 or count > n:
        return f"n={n}, K={count}"
    alike = src.shape[0] == call["val_dst"].shape[0]
    if not alike or free_elements(src) * 16 < n or src.shape[0] % 16:
        return f"n={n}, {call.describe('src')}"
    return ""


@custom("NKI-MX", "partitions are a multiple of 32, src has four elements for each of dst, dst_scale"
        " one for each of dst and a row for each 8 partitions",
        "nisa.quantize_mx, Tile size")  # fmt: skip
def quantize_shape(call: CheckedCall) -> str:
    src, dst, scale = call["src"], call["dst"], call["dst_scale"]
    if src.shape[0] % 32 or src.shape[0] != dst.shape[0]:
        return f"{call.describe('src')}, {call.describe('dst')}"
    if free_elements(src) != 4 * free_elements(dst):
        return f"{call.describe('src')}, {call.describe('dst')}"
    return "" if scale_fits(scale, dst) else call.describe("dst_scale")


def scale_fits(scale: Any, data: Any) -> bool:
    """A scale tile of packed data: a row for each 8 partitions, dense or one quadrant each 32."""
    groups = data.shape[0] // 8
    spread = (groups - 1) // 4 * 32 + (groups - 1) % 4 + 1
    rows = scale.shape[0] == groups or scale.shape[0] >= spread
    return rows and free_elements(scale) == free_elements(data)


@custom("NKI-RANGE-SELECT", "on_false_value is the lowest float32 (-3.4028235e+38)",
        "nisa.range_select, on_false_value")  # fmt: skip
def lowest_float(call: CheckedCall) -> str:
    value = call["on_false_value"]
    lowest = isinstance(value, SupportsFloat) and float(value) <= -3.4028e38
    return "" if lowest else f"on_false_value={value!r}"


@custom("NKI-TRANSPOSE", "the tensor engine transposes SBUF to PSUM up to 128 x 128, the vector"
        " engine anywhere up to 32 x 32", "nisa.nc_transpose")  # fmt: skip
def transpose_engine(call: CheckedCall) -> str:
    data, dst = call["data"], call["dst"]
    rows, columns = data.shape[0], free_elements(data)
    if dst.shape[0] != columns or free_elements(dst) != rows:
        return f"{call.describe('dst')} for {call.describe('data')}"
    through_pe = data.buffer is MemoryRegion.sbuf and dst.buffer is MemoryRegion.psum
    limit = 128 if through_pe and call.engine is not Engine.vector else 32
    if max(rows, columns) > limit or (call.engine is Engine.tensor and not through_pe):
        return f"{call.describe('data')} to {call.describe('dst')}, engine={call.engine.name}"
    return ""


@custom("NKI-REGISTER", "the tensor has one element", "nisa.register_load")
def one_element(call: CheckedCall) -> str:
    for name, tensor in call.tensors():
        if tensor.size != 1 or tensor.dtype.itemsize > 4:
            return call.describe(name)
    return ""


@custom("NKI-REGISTER-FROZEN", "copy the counter into a register of your own and change that",
        "nl.fori_loop; nki-language-guide.rst, Dynamic Control Flow")  # fmt: skip
def not_frozen(call: CheckedCall) -> str:
    register = call["dst"]
    if getattr(register, "frozen", False):
        return f"{register.register.name} is the counter of a loop and cannot be written"
    return ""
