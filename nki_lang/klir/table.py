"""The table of KLIR operators: the operator of each instruction, and the field of each operand.

A row names the instruction, the constructor of KLIR's ``Operator``, the operands in the order
of the public signature, and for every field of the operator's structure a codec with its
operand. Operands without a field are listed with the value that a reader uses when the companion
record has no other value:

* ``defaults``: KLIR could not express the effect of the operand; another value is noted;
* ``required``: another value changes the instruction's semantics, so the companion record contains
  the whole instruction.

Sources: leanprover/KLR (commit 7ccd18c), KLR/Trace/ISA.lean, for how its frontend fills the
fields; the public ``nki.isa`` signatures (NKI 0.6.0) for the operands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from nki_lang.klir import codecs, schema, special
from nki_lang.klir.codecs import (
    ALU,
    AXES,
    AXIS,
    BOOL,
    DGE,
    DTYPE_OF_DST,
    ENGINE,
    FUNCTION,
    GROUPS,
    IMMEDIATE,
    IMMEDIATES,
    INT,
    INT32,
    INT_LISTS,
    INTS,
    NATS,
    OOB,
    OPERAND,
    OPT_ALU,
    OPT_IMMEDIATE,
    OPT_INT_LISTS,
    OPT_NAT,
    OPT_NATS,
    OPT_OPERAND,
    OPT_REF,
    PATTERN,
    PERF_MODE,
    PLAIN_DTYPE_OF_DST,
    REDUCE,
    REF,
    REFS,
    REGISTER,
    REVERSE,
    STRING,
    Codec,
    constant,
)  # fmt: skip
from nki_lang.klir.names import Names
from nki_lang.klir.values import SOME_HEAD

__all__ = ["ROW_OF_OP", "UNNAMED_OP_PREFIX", "Row", "operand_names", "row_of", "row_of_operator"]

UNNAMED_OP_PREFIX = "klir."
"""Prefix, in our IR, of the names of operators that no public function creates."""


@dataclass(frozen=True, slots=True)
class Row:
    """One instruction and its KLIR operator.

    Attributes:
        op: name of the instruction.
        operator: constructor of KLIR's ``Operator``.
        operands: names in the order of the public signature.
        fields: (codec, operand, or None when the codec takes all operands) in the order of the
            operator's structure.
        prefix: the bytes of a statement before its first field.
        extras: (operand, default value, True if another value makes the instruction private).
    """

    op: str
    operator: str
    operands: tuple[str, ...]
    fields: tuple[tuple[Codec, str | None], ...]
    prefix: bytes
    extras: tuple[tuple[str, Any, bool], ...]

    @property
    def encoders(self) -> tuple[tuple[Callable[..., bytes], str | None], ...]:
        """The (function, operand) of each field."""
        return tuple((codec.encode, name) for codec, name in self.fields)

    @property
    def has_engine(self) -> bool:
        """True if the operator has a field for its engine."""
        return any(codec is ENGINE for codec, _ in self.fields)


def _structure(operator: str) -> str:
    (type_,) = schema.field_types("Operator", operator).values()
    return type_


def _row(
    op: str,
    operator: str,
    signature: str,
    fields: dict[str, tuple[Codec, str | None] | Codec],
    defaults: dict[str, object] | None = None,
    required: dict[str, object] | None = None,
) -> Row:
    structure = _structure(operator)
    names = schema.field_types(structure)
    if set(names) != set(fields):
        raise ValueError(f"{op}: {sorted(set(names) ^ set(fields))} of {structure} do not fit")
    ordered: list[tuple[Codec, str | None]] = []
    for name in names:
        entry = fields[name]
        ordered.append((entry, None) if isinstance(entry, Codec) else entry)
    prefix = (
        schema.head("Stmt", "oper") + schema.head("Operator", operator) + schema.head(structure)
    )
    extras = [(name, value, False) for name, value in (defaults or {}).items()]
    extras += [(name, value, True) for name, value in (required or {}).items()]
    return Row(op, operator, tuple(signature.split()), tuple(ordered), prefix, tuple(extras))


def _some(codec: Codec, optional: Codec) -> Codec:
    """Return the codec of an option that is always present; None cannot be encoded."""

    def encode(value: object, names: Names) -> bytes:
        return SOME_HEAD + codec.encode(value, names)

    return Codec(optional.type, encode, optional.decode)


_BIAS = special.bias()
_SOME_INT = special.some_int()
_SOME_ALU = _some(ALU, OPT_ALU)
_SOME_REF = _some(REF, OPT_REF)
_NO_COMPUTE = constant("DgeComputeOp", "none")
_NOT_UNIQUE = constant("Bool", False)
_KEEP_RATE = constant("DropoutThresholdType", "KeepRate")
_IDLE = constant("AccumCmd", "Idle")
_RESET_REDUCE = constant("AccumCmd", "ZeroAccumulate")
_NO_REVERSE = constant("TensorScalarReverseOps", "none")
_STDOUT = constant("PrintOutputBuffer", "stdout")
_ONE = constant("Int", 1)
_SOME_ONE = constant("Option Int", 1)
_ANY_GROUPS = constant("ReplicaGroup", "unspecified")
_DTYPE = (DTYPE_OF_DST, "dst")


def _in_to_out(op: str, operator: str, src: str = "data") -> Row:
    """Return the row of an operator with one source, one destination and nothing else."""
    fields: dict[str, Any] = {"dst": (REF, "dst"), "src": (REF, src), "dtype": _DTYPE}
    return _row(op, operator, f"dst {src}", fields)


def _collective(op: str, operator: str, signature: str, specific: dict[str, Any]) -> Row:
    fields: dict[str, Any] = {
        "dsts": (REFS, "dsts"),
        "srcs": (REFS, "srcs"),
        "op": special.no("AluOp"),
        "replicaGroup": (GROUPS, "replica_group"),
        "concatDim": special.no("Int"),
        "sourceTargetPairs": special.no("(List (List Int))"),
        "channel_id": special.no("Int"),
        "num_channels": special.no("Int"),
        "priority": (OPT_NAT, "priority"),
    }
    return _row(op, operator, signature, fields | specific)


_TABLE = (
    # --- data movement
    _row(
        "dma_copy", "ncDmaCopy", "dst src priority oob_mode dge_mode",
        {"dst": (REF, "dst"), "src": (REF, "src"), "compute_op": _NO_COMPUTE,
         "oobMode": (OOB, "oob_mode"), "dgeMode": (DGE, "dge_mode"), "uniqueIndices": _NOT_UNIQUE,
         "priority": (OPT_NAT, "priority"), "engine": ENGINE},
    ),
    _row(
        "dma_transpose", "dmaTranspose", "dst src axes priority dge_mode oob_mode",
        {"dst": (REF, "dst"), "src": (REF, "src"), "axes": AXES, "dtype": _DTYPE,
         "dgeMode": (DGE, "dge_mode"), "oobMode": (OOB, "oob_mode"),
         "priority": (OPT_NAT, "priority")},
    ),
    _row(
        "dma_compute", "dmaCompute", "dst srcs reduce_op scales unique_indices oob_mode",
        {"dst": (REF, "dst"), "srcs": (REFS, "srcs"), "scales": (IMMEDIATES, "scales"),
         "reduceOp": (ALU, "reduce_op")},
        required={"unique_indices": True, "oob_mode": "error"},
    ),
    _row(
        "tensor_copy", "ncCopy", "dst src",
        {"dst": (REF, "dst"), "src": (REF, "src"), "dtype": special.no("Dtype"), "engine": ENGINE},
    ),
    _row(
        "tensor_copy_predicated", "copyPredicated", "dst src predicate reverse_pred",
        {"dst": (REF, "dst"), "src": (REF, "src"), "predicate": (REF, "predicate"),
         "dtype": _DTYPE, "reversePred": (BOOL, "reverse_pred")},
    ),
    _row(
        "memset", "memSet", "dst value",
        {"dst": (REF, "dst"), "value": (IMMEDIATE, "value"),
         "dtype": (PLAIN_DTYPE_OF_DST, "dst"), "engine": ENGINE},
    ),
    _row(
        "local_gather", "ncLocalGather",
        "dst src_buffer index num_elem_per_idx num_valid_indices",
        {"dst": (REF, "dst"), "src": (REF, "src_buffer"), "index": (REF, "index"),
         "numElemPerIdx": (IMMEDIATE, "num_elem_per_idx"),
         "numValidIndicies": (OPT_IMMEDIATE, "num_valid_indices")},
    ),
    _row(
        "nc_n_gather", "ncNGather", "dst data indices",
        {"dst": (REF, "dst"), "data": (REF, "data"), "indices": (REF, "indices"),
         "dtype": _DTYPE},
    ),
    _row(
        "nc_stream_shuffle", "shuffle", "dst src shuffle_mask",
        {"dst": (REF, "dst"), "src": (REF, "src"), "shuffleMask": (IMMEDIATES, "shuffle_mask"),
         "dtype": _DTYPE},
    ),
    _row(
        "sendrecv", "sendRecv", "src dst send_to_rank recv_from_rank pipe_id dma_engine",
        {"dst": (REF, "dst"), "src": (REF, "src"), "sendToRank": (IMMEDIATE, "send_to_rank"),
         "recvFromRank": (IMMEDIATE, "recv_from_rank"), "pipeId": (IMMEDIATE, "pipe_id"),
         "useGpsimdDma": (special.gpsimd_dma(), "dma_engine")},
    ),
    _row(
        "core_barrier", "coreBarrier", "data cores",
        {"data": (REF, "data"), "cores": (INTS, "cores"), "engine": ENGINE},
    ),
    # --- tensor engine
    _row(
        "nc_matmul", "ncMatMul",
        "dst stationary moving is_stationary_onezero is_moving_onezero is_transpose accumulate"
        " tile_position tile_size perf_mode",
        {"dst": (REF, "dst"), "stationary": (REF, "stationary"), "moving": (REF, "moving"),
         "isStationaryOneZero": (BOOL, "is_stationary_onezero"),
         "isMovingZero": (BOOL, "is_moving_onezero"), "isTranspose": (BOOL, "is_transpose"),
         "tilePosition": (NATS, "tile_position"), "tileSize": (NATS, "tile_size"),
         "perfMode": (PERF_MODE, "perf_mode")},
        defaults={"accumulate": None},
    ),
    _row(
        "nc_matmul_mx", "ncMatMulMX",
        "dst stationary moving stationary_scale moving_scale tile_position tile_size accumulate",
        {"dst": (REF, "dst"), "stationary": (REF, "stationary"), "moving": (REF, "moving"),
         "stationaryScale": (REF, "stationary_scale"), "movingScale": (REF, "moving_scale"),
         "tilePosition": (OPT_NATS, "tile_position"), "tileSize": (OPT_NATS, "tile_size")},
        defaults={"accumulate": None},
    ),
    _row(
        "nc_transpose", "transpose", "dst data",
        {"dst": (REF, "dst"), "src": (REF, "data"), "dtype": _DTYPE, "engine": ENGINE},
    ),
    _row(
        "quantize_mx", "quantizeMX", "dst src dst_scale",
        {"dst": (REF, "dst"), "src": (REF, "src"), "dstScale": (REF, "dst_scale")},
    ),
    # --- element by element
    _row(
        "tensor_tensor", "tensorTensor", "dst data1 data2 op",
        {"dst": (REF, "dst"), "src0": (REF, "data1"), "src1": (REF, "data2"), "op": (ALU, "op"),
         "dtype": _DTYPE, "engine": ENGINE},
    ),
    _row(
        "tensor_scalar", "tensorScalar",
        "dst data op0 operand0 reverse0 op1 operand1 reverse1",
        {"dst": (REF, "dst"), "src": (REF, "data"), "imm0": (OPERAND, "operand0"),
         "op0": (ALU, "op0"), "imm1": (OPT_OPERAND, "operand1"), "op1": (OPT_ALU, "op1"),
         "reverse": REVERSE, "engine": ENGINE, "dtype": _DTYPE},
    ),
    _row(
        "scalar_tensor_tensor", "ncScalarTensorTensor",
        "dst data op0 operand0 op1 operand1 reverse0 reverse1",
        {"dst": (REF, "dst"), "data": (REF, "data"), "src0": (OPERAND, "operand0"),
         "src1": (OPERAND, "operand1"), "op0": (ALU, "op0"), "op1": (ALU, "op1"),
         "reverseOperands": REVERSE, "dtype": _DTYPE},
    ),
    _row(
        "activation", "ncActivate",
        "dst op data bias scale reduce_op reduce_res reduce_cmd",
        {"dst": (REF, "dst"), "src": (REF, "data"), "accumulatorCmd": (REDUCE, "reduce_cmd"),
         "activationFunc": (FUNCTION, "op"), "scale": (OPERAND, "scale"),
         "bias": (_BIAS, "bias"), "reduceOp": (OPT_ALU, "reduce_op"),
         "reduceRes": (OPT_REF, "reduce_res"), "dtype": _DTYPE},
    ),
    _row(
        "activation_reduce", "activationReduce", "dst op data reduce_op reduce_res bias scale",
        {"dst": (REF, "dst"), "src": (REF, "data"), "accumulatorCmd": _RESET_REDUCE,
         "activationFunc": (FUNCTION, "op"), "scale": (OPERAND, "scale"),
         "bias": (_BIAS, "bias"), "reduceOp": (OPT_ALU, "reduce_op"),
         "reduceRes": (OPT_REF, "reduce_res"), "dtype": _DTYPE},
    ),
    _row(
        "activate2", "activate2",
        "dst op data imm0 imm1 op0 op1 relu_param reverse0 reverse1 reduce_op reduce_res"
        " reduce_cmd",
        {"dst": (REF, "dst"), "src": (REF, "data"), "op0": (ALU, "op0"), "op1": (ALU, "op1"),
         "imm0": (OPERAND, "imm0"), "imm1": (OPERAND, "imm1"), "activationFunc": (FUNCTION, "op"),
         "reluParam": (OPERAND, "relu_param"), "reduceOp": (special.op_or_bypass(), "reduce_op"),
         "reduceRes": (OPT_REF, "reduce_res"), "reduceCmd": (REDUCE, "reduce_cmd"),
         "reverse0": (BOOL, "reverse0"), "reverse1": (BOOL, "reverse1"), "dtype": _DTYPE},
    ),
    _row(
        "exponential", "exponential",
        "dst src max_value reduce_res reduce_cmd reduce_init",
        {"dst": (REF, "dst"), "src": (REF, "src"), "maxValue": (OPERAND, "max_value"),
         "reduceRes": (OPT_REF, "reduce_res"), "reducecmd": (REDUCE, "reduce_cmd"),
         "reduceInit": (OPERAND, "reduce_init")},
    ),
    _in_to_out("reciprocal", "reciprocal"),
    _row(
        "dropout", "dropout", "dst data prob",
        {"dst": (REF, "dst"), "src": (REF, "data"), "thresholdType": _KEEP_RATE,
         "threshold": (OPERAND, "prob"), "dtype": _DTYPE},
    ),
    # --- along an axis
    _row(
        "tensor_reduce", "tensorReduce", "dst op data axis negate keepdims",
        {"dst": (REF, "dst"), "src": (REF, "data"), "op": (ALU, "op"), "opDim": AXIS,
         "negated": (BOOL, "negate"), "dtype": _DTYPE, "keepdims": (BOOL, "keepdims")},
    ),
    _row(
        "tensor_partition_reduce", "tensorPartitionReduce", "dst op data",
        {"dst": (REF, "dst"), "op": (ALU, "op"), "data": (REF, "data"), "dtype": _DTYPE},
    ),
    _row(
        "tensor_scalar_reduce", "tensorScalarReduce",
        "dst data op0 operand0 reduce_op reduce_res reverse0 reduce_cmd reduce_init"
        " reduce_res_negate",
        {"dst": (REF, "dst"), "src": (REF, "data"), "operand0": (OPERAND, "operand0"),
         "op0": (ALU, "op0"), "reverse0": (BOOL, "reverse0"), "dtype": _DTYPE,
         "reduceOp": (OPT_ALU, "reduce_op"), "reduceRes": (REF, "reduce_res"),
         "reduceCmd": (REDUCE, "reduce_cmd"), "reduceInit": (OPT_IMMEDIATE, "reduce_init")},
        required={"reduce_res_negate": False},
    ),
    _row(
        "tensor_scalar_cumulative", "tensorScalarCumulative",
        "dst src op0 op1 imm0 imm1 reduce_cmd",
        {"dst": (REF, "dst"), "src": (REF, "src"), "op0": (ALU, "op0"), "op1": (ALU, "op1"),
         "imm0": (OPERAND, "imm0"), "imm1": (OPT_OPERAND, "imm1"),
         "reduceCmd": (REDUCE, "reduce_cmd"), "reverse": _NO_REVERSE, "dtype": _DTYPE},
    ),
    _row(
        "tensor_tensor_scan", "tensorTensorScan",
        "dst data0 data1 initial op0 op1 reverse0 reverse1",
        {"dst": (REF, "dst"), "src0": (REF, "data0"), "src1": (REF, "data1"),
         "op0": (ALU, "op0"), "op1": (ALU, "op1"), "reverseOperands": REVERSE,
         "imm0": (OPERAND, "initial"), "accumulatorCmd": _IDLE, "dtype": _DTYPE},
    ),
    _in_to_out("bn_stats", "batchNormStats"),
    _in_to_out("bn_aggr", "batchNormAggregate"),
    # --- selection
    _row(
        "affine_select", "ncAffineSelect",
        "dst pattern channel_multiplier on_true_tile on_false_value cmp_op offset",
        {"dst": (REF, "dst"), "pred": PATTERN, "onTrueTile": (REF, "on_true_tile"),
         "onFalseValue": (IMMEDIATE, "on_false_value"), "dtype": _DTYPE,
         "cmpOp": (ALU, "cmp_op")},
    ),
    _row(
        "range_select", "ncRangeSelect",
        "dst on_true_tile comp_op0 comp_op1 bound0 bound1 reduce_cmd reduce_res reduce_op"
        " range_start on_false_value",
        {"dst": (REF, "dst"), "reduceCommand": (REDUCE, "reduce_cmd"),
         "reduceRes": (OPT_REF, "reduce_res"), "reduceOp": (OPT_ALU, "reduce_op"),
         "compOp0": (ALU, "comp_op0"), "compOp1": (ALU, "comp_op1"), "bound0": (REF, "bound0"),
         "bound1": (REF, "bound1"), "rangeStart": (IMMEDIATE, "range_start"),
         "onTrueTile": (REF, "on_true_tile"), "onFalseValue": (special.fill(), "on_false_value"),
         "dtype": _DTYPE},
    ),
    _row(
        "select_reduce", "selectReduce",
        "dst predicate on_true on_false reduce_res reduce_cmd reduce_op reverse_pred",
        {"dst": (REF, "dst"), "predicate": (REF, "predicate"), "onTrue": (REF, "on_true"),
         "onFalse": (OPERAND, "on_false"), "reduceRes": (OPT_REF, "reduce_res"),
         "reduceCmd": (REDUCE, "reduce_cmd"), "reduceOp": (ALU, "reduce_op"),
         "reversePred": (BOOL, "reverse_pred"), "dtype": _DTYPE},
    ),
    _row(
        "sequence_bounds", "sequenceBounds", "dst segment_ids",
        {"dst": (REF, "dst"), "segmentIds": (REF, "segment_ids"), "dtype": special.no("Dtype")},
    ),
    _in_to_out("max8", "max8", "src"),
    _row(
        "nc_find_index8", "findIndex8", "dst data vals",
        {"dst": (REF, "dst"), "src": (REF, "data"), "vals": (REF, "vals"), "dtype": _DTYPE},
    ),
    _row(
        "nc_match_replace8", "matchReplace8", "dst data vals imm dst_idx",
        {"dst": (REF, "dst"), "src": (REF, "data"), "vals": (REF, "vals"),
         "replaceValue": (IMMEDIATE, "imm"), "dstIdx": (OPT_REF, "dst_idx"), "dtype": _DTYPE},
    ),
    _row(
        "nonzero_with_count", "nonzeroWithCount", "dst src index_offset padding_val",
        {"dst": (REF, "dst"), "src": (REF, "src"), "indexOffset": (IMMEDIATE, "index_offset"),
         "paddingVal": (IMMEDIATE, "padding_val")},
    ),
    # --- numbers made on the device
    _row(
        "iota", "iota", "dst pattern offset channel_multiplier",
        {"dst": (REF, "dst"), "pattern": PATTERN, "dtype": _DTYPE},
    ),
    _row("rng", "rng", "dst", {"dst": (REF, "dst"), "engine": ENGINE}),
    _row(
        "rand2", "rand2", "dst min max",
        {"dst": (REF, "dst"), "min": (OPERAND, "min"), "max": (OPERAND, "max")},
    ),
    _row("rand_get_state", "randGetState", "dst", {"dst": (REF, "dst"), "engine": ENGINE}),
    _row(
        "rand_set_state", "randSetState", "src_seeds",
        {"src": (REF, "src_seeds"), "engine": ENGINE},
    ),
    _row("set_rng_seed", "setRngSeed", "src_seeds", {"src": (REF, "src_seeds")}),
    # --- registers
    _row(
        "register_move", "registerMove", "dst src",
        {"dst": (REGISTER, "dst"), "imm": (INT32, "src")},
    ),
    _row(
        "register_load", "tensorLoad", "dst src",
        {"dst": (REGISTER, "dst"), "src": (REF, "src")},
    ),
    _row(
        "register_store", "tensorStore", "dst src",
        {"dst": (REF, "dst"), "src": (REGISTER, "src")},
    ),
    _row(
        "register_alu", "registerAluOp", "dst op src0 src1",
        {"dst": (REGISTER, "dst"), "src": (REGISTER, "src0"), "imm": (INT32, "src1"),
         "op": (ALU, "op")},
    ),
    # --- other ranks, and the host
    _collective(
        "all_reduce", "allReduce", "srcs dsts replica_group op priority",
        {"op": (_SOME_ALU, "op")},
    ),
    _collective(
        "all_gather", "allGather", "srcs dsts replica_group collective_dim priority",
        {"concatDim": (_SOME_INT, "collective_dim")},
    ),
    _collective(
        "reduce_scatter", "reduceScatter",
        "srcs dsts replica_group collective_dim op priority",
        {"op": (_SOME_ALU, "op"), "concatDim": (_SOME_INT, "collective_dim")},
    ),
    _collective(
        "all_to_all", "allToAll", "srcs dsts replica_group collective_dim priority",
        {"concatDim": (_SOME_INT, "collective_dim")},
    ),
    _collective(
        "collective_permute", "collectivePermute", "srcs dsts source_target_pairs priority",
        {"replicaGroup": _ANY_GROUPS, "sourceTargetPairs": (OPT_INT_LISTS, "source_target_pairs")},
    ),
    _collective(
        "collective_permute_implicit", "collectivePermuteImplicit",
        "srcs_by_channel dsts_by_channel replica_group channel_ids priority",
        {"dsts": (special.one_channel(REFS), "dsts_by_channel"),
         "srcs": (special.one_channel(REFS), "srcs_by_channel"),
         "channel_id": (special.one_channel(_SOME_INT), "channel_ids"), "num_channels": _SOME_ONE},
    ),
    _collective(
        "collective_permute_implicit_reduce", "collectivePermuteImplicitReduce",
        "srcs0_by_channel srcs1_by_channel dsts_by_channel replica_group op channel_ids priority",
        {"dsts": (special.one_channel(REFS), "dsts_by_channel"), "srcs": special.two_sources(),
         "op": (_SOME_ALU, "op"), "channel_id": (special.one_channel(_SOME_INT), "channel_ids"),
         "num_channels": _SOME_ONE},
    ),
    _row("rank_id", "rankId", "dst", {"dst": (REGISTER, "dst")}),
    _row(
        "collective_permute_implicit_current_processing_rank_id", "currentProcessingRankId",
        "dst iteration_id replica_group channel_id",
        {"dst": (REGISTER, "dst"), "iterationId": (INT, "iteration_id"),
         "channelId": (INT, "channel_id"), "numChannels": _ONE,
         "replicaGroup": (INT_LISTS, "replica_group")},
    ),
    _row(
        "device_print", "devicePrint", "print_prefix tensor",
        {"src": (REF, "tensor"), "printPrefix": (STRING, "print_prefix"), "buffer": _STDOUT},
    ),
)  # fmt: skip

ROW_OF_OP: MappingProxyType[str, Row] = MappingProxyType({row.op: row for row in _TABLE})

_COUNTED_COLLECTIVE = (
    "srcs", "dsts", "replica_group", "metadata_tensor", "recv_counts_known", "has_rdispls",
    "priority",
)  # fmt: skip
_OPERANDS_WITHOUT_ROW: MappingProxyType[str, tuple[str, ...]] = MappingProxyType(
    {
        "register_alloc": ("dst", "x"),
        "topk": ("val_dst", "idx_dst", "src", "n"),
        "all_gather_v": _COUNTED_COLLECTIVE,
        "all_to_all_v": _COUNTED_COLLECTIVE,
    }
)
"""Operands of the instructions that only the companion record expresses."""

_BY_OPERATOR = {row.operator: row for row in _TABLE}
_BRANCH_OPERATORS = frozenset({"cmpBranch"})


def row_of(op: str) -> Row | None:
    """Return the row of an instruction by its name; None if KLIR has no operator for it."""
    row = ROW_OF_OP.get(op)
    if row is None and op.startswith(UNNAMED_OP_PREFIX):
        operator = op[len(UNNAMED_OP_PREFIX) :]
        return row_of_operator(operator) if operator in schema.constructors("Operator") else None
    return row


def operand_names(op: str) -> tuple[str, ...] | None:
    """Return the operands that an instruction may have; None for an unknown instruction."""
    row = row_of(op)
    return _OPERANDS_WITHOUT_ROW.get(op) if row is None else row.operands


@cache
def row_of_operator(operator: str) -> Row | None:
    """Return the row of a KLIR operator.

    An operator that no public function creates becomes the instruction ``klir.<operator>`` whose
    operands are its fields; None when our IR cannot express its fields.
    """
    row = _BY_OPERATOR.get(operator)
    if row is not None or operator in _BRANCH_OPERATORS:
        return row
    types = schema.field_types(_structure(operator))
    fields: dict[str, Any] = {}
    for name, type_ in types.items():
        codec = _plain(type_)
        if codec is None:
            return None
        fields[name] = (codec, name)
    return _row(UNNAMED_OP_PREFIX + operator, operator, " ".join(types), fields)


def _plain(type_: str) -> Codec | None:
    """Return the codec of a type without context; enumerations of the schema keep their own
    names.
    """
    codec = codecs.BY_TYPE.get(type_)
    if codec is not None:
        return codec
    try:
        names = schema.constructors(type_)
    except KeyError:
        return None
    if any(schema.field_types(type_, name) for name in names):
        return None
    return codecs.enumeration(type_, {})
