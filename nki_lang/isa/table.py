"""The instruction table: every instruction of ``nki.isa`` in one row.

A row names the operands with their roles, memories and dtypes, the engines of each generation,
the oldest generation, and the rules; the code reads the rows. ``register_alu`` and
``device_print`` are instructions of the kernel IR without a function of their own in nki.isa.
"""

from __future__ import annotations

from dataclasses import replace

from nki_lang.base.memory import HBM, ON_CHIP, MemoryRegion
from nki_lang.ir import Engine
from nki_lang.isa import collective_rules as k
from nki_lang.isa import constraints as c
from nki_lang.isa import matmul_rules as m
from nki_lang.isa import operand_rules as o
from nki_lang.isa import rules as r
from nki_lang.isa.spec import (
    ANYWHERE,
    PSUM,
    SBUF,
    SBUF_OR_HBM,
    Constraint,
    InstructionSpec,
    OperandSpec,
)

__all__ = ["COLLECTIVES", "TABLE", "spec_of"]

_Engines = frozenset[Engine]
_V, _S, _G, _T = Engine.vector, Engine.scalar, Engine.gpsimd, Engine.tensor


def _on(*engines: Engine) -> dict[int, _Engines]:
    allowed = frozenset(engines)
    return {2: allowed, 3: allowed, 4: allowed}


def _from(
    minimum: int, first: tuple[Engine, ...], later: tuple[Engine, ...]
) -> dict[int, _Engines]:
    """``first`` before generation ``minimum``, ``later`` from it on."""
    return {
        generation: frozenset(later if generation >= minimum else first) for generation in (2, 3, 4)
    }


def _dtypes(names: str) -> frozenset[str]:
    return frozenset(names.split())


_INTS = _dtypes("int8 int16 int32 uint8 uint16 uint32")
_UINT32 = _dtypes("uint32")
_FLOAT32 = _dtypes("float32")
_MX = _dtypes("float8_e5m2_x4 float8_e4m3fn_x4 float4_e2m1fn_x4")
_MX_SCALE = _dtypes("float8_e8m0fnu uint8")
_MATMUL = _dtypes("float8_e4m3 float8_e5m2 float8_e4m3fn bfloat16 float16 tfloat32 float32")
_DTYPES_UP_TO_32_BITS = _dtypes(
    "bfloat16 float16 float32 float8_e4m3 float8_e5m2 float8_e4m3fn uint8 uint16 int8 int16"
)
_EXP_OUT = _dtypes(
    "float8_e4m3 float8_e5m2 float8_e4m3fn float16 bfloat16 float32 tfloat32 int8 int16 int32"
    " uint8 uint16"
)
_EXP_IN = (_EXP_OUT | _UINT32) - {"tfloat32"}
_RAND2 = _EXP_OUT | _UINT32


def _write(
    name: str,
    buffers: frozenset[MemoryRegion] = ON_CHIP,
    dtypes: frozenset[str] = frozenset(),
    optional: bool = False,
    several: bool = False,
) -> OperandSpec:
    return OperandSpec(name, "write", buffers, dtypes, optional, False, several)


def _change(name: str, buffers: frozenset[MemoryRegion] = ON_CHIP) -> OperandSpec:
    return OperandSpec(name, "read_write", buffers)


def _read(
    name: str,
    buffers: frozenset[MemoryRegion] = ON_CHIP,
    dtypes: frozenset[str] = frozenset(),
    optional: bool = False,
    several: bool = False,
) -> OperandSpec:
    return OperandSpec(name, "read", buffers, dtypes, optional, False, several)


def _value(
    name: str,
    optional: bool = False,
    dtypes: frozenset[str] = frozenset(),
    keyed: bool = False,
) -> OperandSpec:
    """A tile or a number."""
    return OperandSpec(name, "read", ON_CHIP, dtypes, optional, scalar=True, keyed=keyed)


def _scale(name: str, role: str) -> OperandSpec:
    """The block scales of an MX tile (deep-dives/mxfp-matmul.rst, packed scales)."""
    return OperandSpec(name, role, SBUF, _MX_SCALE, any_start=True)


def _op(name: str, optional: bool = False) -> OperandSpec:
    return OperandSpec(name, "operator", optional=optional)


def _attr(*names: str) -> tuple[OperandSpec, ...]:
    return tuple(OperandSpec(name, "attribute", optional=True) for name in names)


def _number(name: str) -> OperandSpec:
    return OperandSpec(name, "immediate", optional=True)


def _register(name: str) -> OperandSpec:
    return OperandSpec(name, "register")


def _row(
    op: str,
    *operands: OperandSpec,
    engines: dict[int, _Engines],
    rules: tuple[Constraint, ...] = (),
    minimum: int = 2,
    tiles: bool = True,
) -> InstructionSpec:
    source = f"nisa.{op} (nki/api/nki/isa, NKI 0.6.0)"
    return InstructionSpec(op, operands, engines, minimum, rules, tiles, source)


_DMA = _on(Engine.dma)
_DMA_TRIGGER = _on(Engine.dma, Engine.sync, Engine.scalar)
_VECTOR, _SCALAR, _GPSIMD = _on(_V), _on(_S), _on(_G)
_SEQUENCER = _on(Engine.sync, _T, _V, _S, _G)
_ALU = r.ARITHMETIC | r.UNARY | r.BITVEC
_FLOAT_OPS = r.ARITHMETIC | r.UNARY

_MOVEMENT = (
    _row(
        "dma_copy", _write("dst", SBUF_OR_HBM), _read("src", SBUF_OR_HBM),
        *_attr("priority", "oob_mode", "dge_mode"), engines=_DMA_TRIGGER, tiles=False,
        rules=(r.same_size("dst", "src"), c.dge_generation, c.dge_trigger, c.dge_indirect,
               r.priority),
    ),
    _row(
        "dma_transpose", _write("dst", SBUF_OR_HBM), _read("src", SBUF_OR_HBM),
        *_attr("axes", "priority", "dge_mode", "oob_mode"), engines=_DMA, tiles=False,
        rules=(r.same_dtype("dst", "src"), c.dma_transpose_axes, c.dma_transpose_indirect,
               c.dge_generation, c.dge_indirect, c.dma_transpose_direct, c.skip_needs_index,
               r.priority),
    ),
    _row(
        "dma_compute", _write("dst", SBUF_OR_HBM), _read("srcs", SBUF_OR_HBM, several=True),
        _op("reduce_op"), *_attr("scales", "unique_indices", "oob_mode"), engines=_DMA,
        tiles=False, rules=(c.dma_compute, c.skip_needs_index),
    ),
    _row(
        "tensor_copy", _write("dst"), _read("src"), engines=_on(_V, _S, _G),
        rules=(r.same_tile("dst", "src"), r.no_gpsimd_psum, c.copy_scalar_engine),
    ),
    _row(
        "memset", _write("dst"), *_attr("value"), engines=_on(_V, _G),
        rules=(o.memset_value, c.memset_packed, r.no_gpsimd_psum),
    ),
    _row(
        "tensor_copy_predicated", _change("dst"), _value("src"),
        _read("predicate", dtypes=_dtypes("uint8 uint16 uint32")), *_attr("reverse_pred"),
        engines=_VECTOR,
        rules=(r.same_tile("dst", "src", "predicate"), r.same_dtype("dst", "src"),
               r.not_both_psum("src", "predicate")),
    ),
    _row(
        "nc_stream_shuffle", _change("dst"), _read("src"), *_attr("shuffle_mask"),
        engines=_VECTOR, tiles=False, rules=(r.same_dtype("dst", "src"), c.shuffle_mask, c.shuffle_place),
    ),
)  # fmt: skip

_MATMULS = (
    _row(
        "nc_matmul", OperandSpec("dst", "read_write", PSUM), _read("stationary", SBUF, _MATMUL),
        _read("moving", SBUF, _MATMUL),
        *_attr("is_stationary_onezero", "is_moving_onezero", "is_transpose", "accumulate",
               "tile_position", "tile_size", "perf_mode"),
        engines=_on(_T),
        rules=(m.matmul_perf, m.matmul_layout, m.matmul_tiling, m.matmul_size, m.matmul_dtypes,
               m.matmul_bank, o.accumulate_flag),
    ),
    _row(
        "nc_matmul_mx", OperandSpec("dst", "read_write", PSUM, _dtypes("float32 bfloat16")),
        _read("stationary", SBUF, _MX), _read("moving", SBUF, _MX),
        _scale("stationary_scale", "read"), _scale("moving_scale", "read"),
        *_attr("tile_position", "tile_size", "accumulate"), engines=_on(_T), minimum=4,
        rules=(m.matmul_tiling, m.matmul_mx_layout, o.accumulate_flag),
    ),
    _row(
        "nc_transpose", _write("dst"), _read("data"), engines=_on(_T, _V),
        rules=(r.same_dtype("dst", "data"), c.transpose_engine),
    ),
    _row(
        "quantize_mx", _write("dst", SBUF, _dtypes("float8_e5m2_x4 float8_e4m3fn_x4")),
        _read("src", SBUF, _dtypes("float16 bfloat16")), _scale("dst_scale", "write"),
        engines=_VECTOR, minimum=4, rules=(c.quantize_shape,),
    ),
)  # fmt: skip

_ELEMENTWISE = (
    _row(
        "tensor_tensor", _write("dst"), _read("data1"), _read("data2"), _op("op"),
        engines=_on(_V, _G),
        rules=(r.operators("op", r.ARITHMETIC | r.BITVEC), r.same_tile("dst", "data1", "data2"),
               r.not_both_psum("data1", "data2"), r.aluops(("op",), ("dst", "data1", "data2")),
               c.power_in_sbuf, o.power_engine, r.no_gpsimd_psum),
    ),
    _row(
        "tensor_scalar", _write("dst"), _read("data"), _op("op0"), _value("operand0", True),
        *_attr("reverse0"), _op("op1", True), _value("operand1", True), *_attr("reverse1"),
        engines=_on(_V, _S, _G),
        rules=(r.operators("op0", _ALU), r.operators("op1", _ALU), r.same_tile("dst", "data"),
               r.vector("operand0", "data"), r.vector("operand1", "data"),
               r.aluops(("op0", "op1"), ("dst", "data")),
               o.scalars(("op0", "operand0", "reverse0"), ("op1", "operand1", "reverse1")),
               c.operand_float32, c.bitvec_engine, c.scalar_engine_pairs, o.gpsimd_rsqrt,
               r.no_gpsimd_psum),
    ),
    _row(
        "scalar_tensor_tensor", _write("dst"), _read("data"), _op("op0"), _value("operand0"),
        _op("op1"), _read("operand1"), *_attr("reverse0", "reverse1"), engines=_VECTOR,
        rules=(r.operators("op0", _FLOAT_OPS), r.operators("op1", r.ARITHMETIC),
               o.scalars(("op0", "operand0", "reverse0")),
               r.same_tile("dst", "data", "operand1"), r.vector("operand0", "data"),
               r.not_both_psum("data", "operand1")),
    ),
    _row(
        "tensor_tensor_scan", _write("dst"), _read("data0"), _read("data1"), _value("initial"),
        _op("op0"), _op("op1"), *_attr("reverse0", "reverse1"), engines=_VECTOR,
        rules=(r.operators("op0", r.ARITHMETIC), r.operators("op1", r.ARITHMETIC),
               r.same_tile("dst", "data0", "data1"), r.vector("initial", "data0"),
               r.not_both_psum("data0", "data1")),
    ),
    _row(
        "reciprocal", _write("dst"), _read("data"), engines=_VECTOR,
        rules=(r.same_tile("dst", "data"),),
    ),
    _row(
        "exponential", _write("dst", dtypes=_EXP_OUT), _read("src", dtypes=_EXP_IN),
        _value("max_value", dtypes=_FLOAT32), _write("reduce_res", optional=True),
        *_attr("reduce_cmd"), _value("reduce_init", True, _FLOAT32, keyed=True), engines=_VECTOR, minimum=4,
        rules=(r.same_tile("dst", "src"), r.vector("max_value", "src"),
               r.vector("reduce_res", "src"), r.vector("reduce_init", "src"), c.reduce_init,
               o.commands("idle", "reset_reduce", "reduce", "load_reduce"),
               o.floats("reduce_res"), o.ranks(4, "src", "dst")),
    ),
    _row(
        "activation", _write("dst"), _op("op"), _read("data"), _value("bias", True),
        _value("scale"), _op("reduce_op", True), _write("reduce_res", optional=True),
        *_attr("reduce_cmd"), engines=_SCALAR,
        rules=(r.operators("op", r.ACTIVATIONS), r.same_tile("dst", "data"),
               r.vector("scale", "data", _FLOAT32), r.vector("bias", "data"),
               r.vector("reduce_res", "data"), r.operators("reduce_op", frozenset({"add"})),
               c.bias_vector, o.bias_dtype, c.activation_reduction),
    ),
    _row(
        "activation_reduce", _write("dst"), _op("op"), _read("data"), _op("reduce_op"),
        _write("reduce_res", optional=True), _value("bias", True), _value("scale"),
        engines=_SCALAR,
        rules=(r.operators("op", r.ACTIVATIONS), r.same_tile("dst", "data"),
               r.vector("scale", "data", _FLOAT32), r.vector("bias", "data"),
               r.vector("reduce_res", "data"), c.scalar_engine_reduction, c.bias_vector, o.bias_dtype),
    ),
    _row(
        "activate2", _write("dst"), _op("op"), _read("data"), _value("imm0"), _value("imm1"),
        _op("op0", True), _op("op1", True), _value("relu_param"), *_attr("reverse0", "reverse1"),
        _op("reduce_op", True), _write("reduce_res", optional=True), *_attr("reduce_cmd"),
        engines=_SCALAR, minimum=4,
        rules=(r.operators("op", r.ACTIVATIONS), r.same_tile("dst", "data"), c.activate2_pair,
               o.second_needs_first,
               r.vector("imm0", "data"), r.vector("imm1", "data"),
               r.vector("relu_param", "data"), r.vector("reduce_res", "data"),
               r.operators("reduce_op", _dtypes("add maximum minimum abs_max abs_min")),
               c.activation_reduction),
    ),
)  # fmt: skip

_REDUCTIONS = (
    _row(
        "tensor_reduce", _write("dst"), _op("op"), _read("data"),
        *_attr("axis", "negate", "keepdims"), engines=_VECTOR,
        rules=(r.operators("op", r.REDUCTIONS), r.aluops(("op",), ("dst", "data")),
               c.reduce_axes),
    ),
    _row(
        "tensor_partition_reduce", _write("dst", SBUF), _op("op"), _read("data", SBUF),
        engines=_GPSIMD,
        rules=(r.operators("op", _dtypes("add average maximum bitwise_or bitwise_and")),
               r.aluops(("op",), ("dst", "data")), c.one_partition),
    ),
    _row(
        "tensor_scalar_cumulative", _write("dst", dtypes=_DTYPES_UP_TO_32_BITS), _read("src", dtypes=_DTYPES_UP_TO_32_BITS),
        _op("op0"), _op("op1"), _value("imm0"), _value("imm1", True), *_attr("reduce_cmd"),
        engines=_VECTOR,
        rules=(r.operators("op0", r.ARITHMETIC),
               r.operators("op1", _dtypes("add subtract multiply maximum minimum")),
               r.same_tile("dst", "src"), r.vector("imm0", "src"), r.vector("imm1", "src"),
               o.commands("reset_reduce", "reduce", "load_reduce"), o.cumulative_start),
    ),
    _row(
        "tensor_scalar_reduce", _write("dst"), _read("data"), _op("op0"),
        _value("operand0", True), _op("reduce_op"), _write("reduce_res", optional=True),
        *_attr("reverse0", "reduce_cmd"), _value("reduce_init", True, keyed=True),
        *_attr("reduce_res_negate"), engines=_VECTOR,
        rules=(r.operators("op0", _FLOAT_OPS),
               r.operators("reduce_op", _dtypes("add multiply maximum minimum")),
               r.same_tile("dst", "data"), r.vector("operand0", "data"),
               o.scalars(("op0", "operand0", "reverse0")), o.no_reverse,
               o.commands("reset_reduce", "reduce", "load_reduce"),
               r.vector("reduce_res", "data"), c.reduce_init),
    ),
    _row(
        "range_select", _write("dst"), _read("on_true_tile"), _op("comp_op0"), _op("comp_op1"),
        _read("bound0", dtypes=_FLOAT32), _read("bound1", dtypes=_FLOAT32),
        *_attr("reduce_cmd"), _write("reduce_res", optional=True), _op("reduce_op"),
        *_attr("range_start", "on_false_value"), engines=_VECTOR, minimum=3,
        rules=(r.operators("comp_op0", r.COMPARISONS - {"not_equal"}),
               r.operators("comp_op1", r.COMPARISONS - {"not_equal"}),
               r.operators("reduce_op", _dtypes("maximum")), r.same_tile("dst", "on_true_tile"),
               r.vector("bound0", "on_true_tile"), r.vector("bound1", "on_true_tile"),
               r.vector("reduce_res", "on_true_tile"), c.lowest_float, o.exact_indices,
               o.floats("on_true_tile")),
    ),
    _row(
        "select_reduce", _write("dst"),
        _read("predicate", dtypes=_dtypes("int8 uint8 int16 uint16")),
        _read("on_true", dtypes=_DTYPES_UP_TO_32_BITS),
        _value("on_false"), _write("reduce_res", optional=True), *_attr("reduce_cmd"),
        _op("reduce_op"), *_attr("reverse_pred"), engines=_VECTOR,
        rules=(r.same_tile("dst", "on_true", "predicate"), r.vector("on_false", "on_true"),
               r.vector("reduce_res", "on_true"), r.not_both_psum("on_true", "predicate"),
               r.operators("reduce_op", _dtypes("maximum")), o.floats("reduce_res"),
               o.commands("idle", "reset_reduce", "reduce")),
    ),
    _row("bn_stats", _write("dst"), _read("data"), engines=_VECTOR, rules=(c.bn_stats,)),
    _row("bn_aggr", _write("dst"), _read("data"), engines=_VECTOR, rules=(c.bn_aggr,)),
)  # fmt: skip

_INDEXING = (
    _row(
        "iota", _write("dst", SBUF), *_attr("pattern"), _number("offset"),
        _number("channel_multiplier"), engines=_GPSIMD, rules=(c.pattern_size, o.integers("offset", "channel_multiplier")),
    ),
    _row(
        "affine_select", _write("dst", SBUF), *_attr("pattern"), _number("channel_multiplier"),
        _read("on_true_tile", SBUF), _number("on_false_value"), _op("cmp_op"),
        _number("offset"), engines=_GPSIMD,
        rules=(r.operators("cmp_op", r.COMPARISONS), r.same_tile("dst", "on_true_tile"),
               c.pattern_size, o.integers("offset", "channel_multiplier")),
    ),
    _row(
        "local_gather", _write("dst", SBUF), _read("src_buffer", SBUF),
        _read("index", SBUF, _dtypes("uint16")),
        *_attr("num_elem_per_idx", "num_valid_indices"), engines=_GPSIMD,
        rules=(r.same_dtype("dst", "src_buffer"), c.local_gather),
    ),
    _row(
        "nc_n_gather", _write("dst", SBUF), _read("data", SBUF), _read("indices", SBUF, _UINT32),
        engines=_GPSIMD,
        rules=(r.same_dtype("dst", "data"), r.same_tile("dst", "indices"),
               o.same_partitions("dst", "data")),
    ),
    _row(
        "max8", _write("dst"), _read("src"), engines=_VECTOR, rules=(c.eight, o.ranks(3, "src")),
    ),
    _row(
        "nc_find_index8", _write("dst", dtypes=_dtypes("uint16 uint32")), _read("data"),
        _read("vals"), engines=_VECTOR, rules=(c.eight,),
    ),
    _row(
        "nc_match_replace8", _write("dst"), _read("data"), _read("vals"), _number("imm"),
        _write("dst_idx", dtypes=_dtypes("uint16 uint32"), optional=True), engines=_VECTOR,
        rules=(r.same_tile("dst", "data"), c.eight),
    ),
    _row(
        "nonzero_with_count", OperandSpec("dst", "read_write", SBUF, _dtypes("int32")),
        _read("src", SBUF, _dtypes("float32 int32")),
        _number("index_offset"), _number("padding_val"), engines=_GPSIMD, minimum=3,
        rules=(c.one_more, o.integers("index_offset", "padding_val")),
    ),
    _row(
        "topk", _write("val_dst", SBUF, _dtypes("bfloat16")), _write("idx_dst", SBUF, _UINT32),
        _read("src", SBUF, _dtypes("bfloat16")), *_attr("n"), engines=_GPSIMD,
        rules=(r.same_tile("val_dst", "idx_dst"), c.topk),
    ),
    _row(
        "sequence_bounds", _write("dst", SBUF, _dtypes("float32 int32")),
        _read("segment_ids", SBUF, _dtypes("float32 int32")), engines=_GPSIMD,
        rules=(c.bounds_shape,),
    ),
)  # fmt: skip

_RANDOM = (
    _row(
        "rng", _write("dst", dtypes=_INTS), engines=_from(3, (_V,), (_V, _G)),
        rules=(r.no_gpsimd_psum,),
    ),
    _row(
        "dropout", _write("dst"), _read("data"), _value("prob", keyed=True), engines=_VECTOR,
        rules=(r.same_tile("dst", "data"), r.same_dtype("dst", "data"),
               r.vector("prob", "data"), o.probability),
    ),
    _row("set_rng_seed", _read("src_seeds"), engines=_VECTOR, rules=(c.one_seed,)),
    _row(
        "rand_set_state", _read("src_seeds", SBUF, _UINT32), engines=_from(4, (_G,), (_G, _V)),
        minimum=3, rules=(c.random_state,),
    ),
    _row(
        "rand_get_state", _write("dst", dtypes=_UINT32), engines=_from(4, (_G,), (_G, _V)),
        minimum=3, rules=(c.random_state, r.no_gpsimd_psum),
    ),
    _row(
        "rand2", _write("dst", dtypes=_RAND2), _value("min", keyed=True), _value("max", keyed=True), engines=_VECTOR,
        minimum=4, rules=(c.ordered_range, r.vector("min", "dst"), r.vector("max", "dst")),
    ),
)  # fmt: skip

_CORES = (
    _row(
        "core_barrier", _read("data", ANYWHERE), *_attr("cores"), engines=_SEQUENCER, minimum=3,
        tiles=False, rules=(c.barrier_cores,),
    ),
    _row(
        "sendrecv", _read("src", SBUF), _write("dst", SBUF),
        *_attr("send_to_rank", "recv_from_rank", "pipe_id", "dma_engine"), engines=_DMA,
        minimum=3, tiles=False,
        rules=(r.same_tile("dst", "src"), r.same_dtype("dst", "src"), c.sendrecv_ranks,
               c.sendrecv_size),
    ),
)  # fmt: skip

_REGISTERS = (
    _row("register_alloc", _register("dst"), *_attr("x"), engines=_SEQUENCER, tiles=False),
    _row(
        "register_move", _register("dst"), *_attr("src"), engines=_SEQUENCER, tiles=False,
        rules=(c.not_frozen,),
    ),
    _row(
        "register_load", _register("dst"), _read("src", SBUF_OR_HBM), engines=_SEQUENCER,
        tiles=False, rules=(c.not_frozen, c.one_element),
    ),
    _row(
        "register_store", _write("dst", SBUF_OR_HBM), _register("src"), engines=_SEQUENCER,
        tiles=False, rules=(c.one_element,),
    ),
    _row(
        "register_alu", _register("dst"), *_attr("op", "src0", "src1"), engines=_SEQUENCER,
        tiles=False,
    ),
    _row(
        "device_print", *_attr("print_prefix"), _read("tensor", ANYWHERE), engines=_SEQUENCER,
        tiles=False,
    ),
)  # fmt: skip


def _collective(
    op: str,
    *extra: OperandSpec,
    rules: tuple[Constraint, ...] = (),
    pairs: bool = True,
    buffers: frozenset[MemoryRegion] = SBUF_OR_HBM,
) -> InstructionSpec:
    tensors = (
        _read("srcs", buffers, several=True),
        _write("dsts", buffers, several=True),
    )
    checks = (k.collective_memory, *rules) if pairs else rules
    priority = OperandSpec("priority", "attribute", optional=True)
    return _row(
        op, *(tensors if pairs else ()), *extra, priority,
        engines=_DMA, tiles=False, rules=(*checks, r.priority),
    )  # fmt: skip


_REDUCE_OPS = r.operators("op", _dtypes("add minimum maximum"), "nki.collectives.all_reduce")
_V_OPERANDS = (
    *_attr("replica_group"),
    OperandSpec("metadata_tensor", "read_write", SBUF_OR_HBM, _UINT32),
    *_attr("recv_counts_known", "has_rdispls"),
)

_COLLECTIVES = (
    _collective(
        "all_reduce", *_attr("replica_group"), _op("op"),
        rules=(k.groups, _REDUCE_OPS, k.same_shapes),
    ),
    _collective(
        "all_gather", *_attr("replica_group", "collective_dim"),
        rules=(k.groups, k.collective_dim),
    ),
    _collective("all_gather_v", *_V_OPERANDS, buffers=HBM, rules=(k.groups, k.metadata_shape)),
    _collective(
        "reduce_scatter", *_attr("replica_group", "collective_dim"), _op("op"),
        rules=(k.groups, _REDUCE_OPS, k.collective_dim),
    ),
    _collective(
        "all_to_all", *_attr("replica_group", "collective_dim"), buffers=HBM,
        rules=(k.groups, k.collective_dim, k.same_shapes),
    ),
    _collective("all_to_all_v", *_V_OPERANDS, buffers=HBM, rules=(k.groups, k.metadata_shape)),
    _collective(
        "collective_permute", *_attr("source_target_pairs"), buffers=HBM,
        rules=(k.permute_pairs, k.same_shapes),
    ),
    _collective(
        "collective_permute_implicit", _read("srcs_by_channel", SBUF_OR_HBM, several=True),
        _write("dsts_by_channel", SBUF_OR_HBM, several=True),
        *_attr("replica_group", "channel_ids"), pairs=False,
        rules=(k.groups, k.channels, k.same_shapes),
    ),
    _collective(
        "collective_permute_implicit_reduce",
        _read("srcs0_by_channel", SBUF_OR_HBM, several=True),
        _read("srcs1_by_channel", SBUF_OR_HBM, several=True),
        _write("dsts_by_channel", SBUF_OR_HBM, several=True), *_attr("replica_group"),
        _op("op"), *_attr("channel_ids"), pairs=False,
        rules=(k.groups, _REDUCE_OPS, k.channels, k.same_shapes),
    ),
    _row(
        "collective_permute_implicit_current_processing_rank_id", _register("dst"),
        *_attr("iteration_id", "replica_group", "channel_id"), engines=_SEQUENCER, tiles=False,
        rules=(k.groups,),
    ),
    _row("rank_id", _register("dst"), engines=_SEQUENCER, tiles=False),
)  # fmt: skip


def _computing(rows: tuple[InstructionSpec, ...]) -> tuple[InstructionSpec, ...]:
    """Rows of instructions that compute with numbers, which packed elements are not."""
    return tuple(replace(row, constraints=(o.not_packed, *row.constraints)) for row in rows)


TABLE: dict[str, InstructionSpec] = {
    row.op: row
    for rows in (
        _MOVEMENT,
        _MATMULS,
        _computing(_ELEMENTWISE),
        _computing(_REDUCTIONS),
        _INDEXING,
        _RANDOM,
        _CORES,
        _REGISTERS,
        _COLLECTIVES,
    )
    for row in rows
}

COLLECTIVES: frozenset[str] = frozenset(row.op for row in _COLLECTIVES)


def spec_of(op: str) -> InstructionSpec:
    """The row of an instruction.

    Raises:
        KeyError: there is no such instruction.
    """
    return TABLE[op]
