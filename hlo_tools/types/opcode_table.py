"""The rows of the opcode table; :mod:`hlo_tools.types.opcodes` explains the columns."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["OPCODE_ROWS", "Row"]


class Row(NamedTuple):
    """Opcodes that differ in nothing but their name; lists are words separated by blanks."""

    names: str
    kind: str
    arity: int | None
    cost: str = "none"
    element_kinds: str = ""
    traits: str = ""
    required: str = ""
    optional: str = ""
    infers_shape: bool = True


_COLLECTIVE = "replica_groups channel_id constrain_layout use_global_device_ids"
_DOT = "lhs_contracting_dims rhs_contracting_dims lhs_batch_dims rhs_batch_dims operand_precision"
_ASYNC = "calls async_execution_thread"
_HOST = "channel_id is_host_transfer"
_REFERENCE = "reference unmoved"

_NUMERIC = "int uint float complex"
_BITS = "pred int uint"

_ELEMENTWISE = (
    Row(
        "acos acosh asin asinh atanh cosh cosine exp2 exponential "
        "exponential-minus-one log log2 log-plus-one logistic rsqrt sine sinh sqrt tan tanh",
        "elementwise",
        1,
        "transcendental",
        "float complex",
        optional="result_accuracy",
    ),
    Row("cbrt erf", "elementwise", 1, "transcendental", "float", optional="result_accuracy"),
    Row(
        "ceil floor round-nearest-afz round-nearest-even",
        "elementwise",
        1,
        "flop",
        "float",
        "exact",
    ),
    Row("negate", "elementwise", 1, "flop", _NUMERIC, "exact"),
    Row("sign", "elementwise", 1, "flop", "int float complex", "exact"),
    Row("not", "elementwise", 1, "flop", _BITS),
    Row("popcnt count-leading-zeros", "elementwise", 1, "flop", "int uint"),
    Row("abs imag is-finite real", "elementwise", 1, "flop", traits="exact"),
    Row("add multiply", "elementwise", 2, "flop", _NUMERIC + " pred", "commutative exact"),
    Row("maximum minimum", "elementwise", 2, "flop", _NUMERIC + " pred", "commutative exact"),
    Row("subtract divide", "elementwise", 2, "flop", _NUMERIC, "exact"),
    Row("remainder", "elementwise", 2, "flop", _NUMERIC),
    Row("power", "elementwise", 2, "transcendental", _NUMERIC),
    Row("atan2", "elementwise", 2, "transcendental", "float complex"),
    Row("and or xor", "elementwise", 2, "flop", _BITS, "commutative"),
    Row(
        "shift-left shift-right-arithmetic shift-right-logical mulhi",
        "elementwise",
        2,
        "flop",
        "int uint",
    ),
    Row("complex", "elementwise", 2, "flop", traits="exact"),
    Row(
        "compare",
        "elementwise",
        2,
        "flop",
        traits="exact",
        required="direction",
        optional="type order",
    ),
    Row("clamp select", "elementwise", 3, "flop", traits="exact"),
    Row("convert bitcast-convert", "elementwise", 1, "flop", traits="exact", infers_shape=False),
    Row(
        "reduce-precision",
        "elementwise",
        1,
        "flop",
        traits="exact",
        required="exponent_bits mantissa_bits",
        infers_shape=False,
    ),
    Row("stochastic-convert", "elementwise", 2, "flop", infers_shape=False),
)

_MOVEMENT = (
    Row("copy", "movement", 1, traits="reference"),
    Row("bitcast", "movement", 1, traits="forwarding " + _REFERENCE, infers_shape=False),
    Row("broadcast", "movement", 1, traits="exact reference", optional="dimensions"),
    Row(
        "reshape",
        "movement",
        1,
        traits="exact reference",
        optional="inferred_dimension",
        infers_shape=False,
    ),
    Row("reverse transpose", "movement", 1, traits="exact reference", required="dimensions"),
    Row("slice", "movement", 1, traits="exact reference", required="slice", infers_shape=False),
    Row("concatenate", "movement", None, traits="exact", required="dimensions"),
    Row("pad", "movement", 2, traits="exact", required="padding"),
    Row(
        "dynamic-slice",
        "movement",
        None,
        traits="exact",
        required="dynamic_slice_sizes",
        infers_shape=False,
    ),
    Row("dynamic-update-slice", "movement", None, traits="exact", infers_shape=False),
    Row("dynamic-reshape", "movement", None, infers_shape=False),
    Row("get-dimension-size", "source", 1, required="dimensions"),
    Row("set-dimension-size", "movement", 2, required="dimensions"),
    Row(
        "gather",
        "movement",
        2,
        traits="exact",
        required="offset_dims collapsed_slice_dims start_index_map index_vector_dim slice_sizes",
        optional="indices_are_sorted operand_batching_dims start_indices_batching_dims",
    ),
)

_SOURCES = (
    Row("parameter constant", "source", 0, traits=_REFERENCE, infers_shape=False),
    Row(
        "iota", "source", 0, traits="exact reference", required="iota_dimension", infers_shape=False
    ),
    Row("partition-id replica-id", "source", 0),
    Row(
        "rng",
        "source",
        None,
        "transcendental",
        traits="participant",
        required="distribution",
        infers_shape=False,
    ),
    Row(
        "rng-get-and-update-state",
        "source",
        0,
        traits="participant",
        required="delta",
        infers_shape=False,
    ),
    Row(
        "rng-bit-generator",
        "source",
        None,
        "transcendental",
        required="algorithm",
        infers_shape=False,
    ),
)

_PRODUCTS = (
    Row("dot", "product", 2, "formula", optional=_DOT + " algorithm sparsity_config"),
    Row("ragged-dot", "product", 3, optional=_DOT + " lhs_ragged_dims rhs_group_dims"),
    Row("scaled-dot", "product", 4, optional=_DOT + " algorithm"),
    Row(
        "convolution",
        "product",
        2,
        "formula",
        required="dim_labels",
        optional="window feature_group_count batch_group_count conv_kind convolution_kind "
        "sparsity_config operand_precision algorithm",
    ),
    Row("fft", "algebra", 1, "formula", required="fft_type fft_length"),
    Row(
        "triangular-solve",
        "algebra",
        2,
        "formula",
        optional="left_side lower unit_diagonal transpose_a",
    ),
    Row("cholesky", "algebra", 1, "formula", optional="lower"),
    Row("batch-norm-training", "normalization", 3, required="epsilon feature_index"),
    Row(
        "batch-norm-inference batch-norm-grad", "normalization", 5, required="epsilon feature_index"
    ),
)

_REDUCTIONS = (
    Row("reduce", "reduction", None, "applied", required="to_apply dimensions"),
    Row("reduce-window", "reduction", None, "applied", required="to_apply", optional="window"),
    Row("map", "reduction", None, "applied", required="to_apply", optional="dimensions"),
    Row(
        "select-and-scatter",
        "reduction",
        3,
        "applied",
        required="select scatter",
        optional="window",
    ),
    Row(
        "scatter",
        "reduction",
        None,
        "applied",
        required="update_window_dims inserted_window_dims scatter_dims_to_operand_dims "
        "index_vector_dim to_apply",
        optional="indices_are_sorted unique_indices input_batching_dims scatter_indices_batching_dims",
    ),
    Row("sort", "reduction", None, "formula", required="dimensions to_apply", optional="is_stable"),
    Row("topk", "reduction", 1, required="k", optional="largest is_stable"),
    Row(
        "scan",
        "reduction",
        None,
        required="to_apply dimensions num_carries",
        optional="is_reverse is_associative",
    ),
)

_COLLECTIVES = (
    Row(
        "all-gather all-gather-start",
        "collective",
        None,
        traits="participant",
        required="dimensions",
        optional=_COLLECTIVE,
        infers_shape=False,
    ),
    Row(
        "all-reduce all-reduce-start",
        "collective",
        None,
        "applied",
        traits="participant",
        required="to_apply",
        optional=_COLLECTIVE + " mode",
        infers_shape=False,
    ),
    Row(
        "reduce-scatter",
        "collective",
        None,
        "applied",
        traits="participant",
        required="to_apply",
        optional=_COLLECTIVE + " mode dimensions",
        infers_shape=False,
    ),
    Row(
        "all-to-all",
        "collective",
        None,
        traits="participant",
        optional="replica_groups channel_id dimensions constrain_layout",
        infers_shape=False,
    ),
    Row(
        "ragged-all-to-all",
        "collective",
        None,
        traits="participant",
        optional="replica_groups channel_id dimensions",
        infers_shape=False,
    ),
    Row(
        "collective-broadcast",
        "collective",
        None,
        traits="participant",
        optional="replica_groups channel_id has_dynamic_root",
        infers_shape=False,
    ),
    Row(
        "collective-reduce",
        "collective",
        None,
        "applied",
        traits="participant",
        required="to_apply",
        optional=_COLLECTIVE + " has_dynamic_root",
        infers_shape=False,
    ),
    Row(
        "collective-permute collective-permute-start",
        "collective",
        None,
        traits="participant",
        required="source_target_pairs",
        optional="channel_id slice_sizes",
        infers_shape=False,
    ),
    Row(
        "all-gather-done all-reduce-done collective-permute-done",
        "collective",
        1,
        traits="participant",
        infers_shape=False,
    ),
)

_TRANSFERS = (
    Row(
        "recv recv-done send-done",
        "transfer",
        1,
        traits="participant",
        optional=_HOST,
        infers_shape=False,
    ),
    Row("send", "transfer", 2, traits="participant", optional=_HOST, infers_shape=False),
    Row(
        "infeed", "transfer", 1, traits="participant", optional="infeed_config", infers_shape=False
    ),
    Row(
        "outfeed",
        "transfer",
        2,
        traits="participant",
        optional="outfeed_config outfeed_shape",
        infers_shape=False,
    ),
    Row(
        "async-start",
        "async",
        None,
        traits="participant unmoved",
        optional=_ASYNC + " output_to_operand_aliasing",
        infers_shape=False,
    ),
    Row(
        "async-update async-done",
        "async",
        1,
        traits="participant unmoved",
        optional=_ASYNC,
        infers_shape=False,
    ),
    Row(
        "copy-start",
        "async",
        1,
        traits="participant",
        optional="cross_program_prefetch_index",
        infers_shape=False,
    ),
    Row("copy-done", "async", 1, traits="participant", infers_shape=False),
)

_STRUCTURE = (
    Row("call", "control", None, traits=_REFERENCE, required="to_apply", optional="is_composite"),
    Row("while", "control", 1, traits=_REFERENCE, required="condition body"),
    Row(
        "conditional",
        "control",
        None,
        traits=_REFERENCE,
        optional="true_computation false_computation branch_computations",
    ),
    Row(
        "fusion",
        "control",
        None,
        traits="reference",
        required="calls kind",
        optional="output_to_operand_aliasing",
        infers_shape=False,
    ),
    Row("opt-barrier", "order", 1, traits="forwarding participant " + _REFERENCE),
    Row("domain", "order", 1, traits="forwarding participant unmoved", required="domain"),
    Row("add-dependency", "order", 2, traits="forwarding unmoved"),
    Row("after-all", "order", None, traits="participant unmoved"),
    Row("tuple", "tuple", None, traits="reference"),
    Row("get-tuple-element", "tuple", 1, traits=_REFERENCE, required="index"),
    Row(
        "custom-call",
        "custom",
        None,
        required="custom_call_target",
        optional="window dim_labels feature_group_count batch_group_count "
        "operand_layout_constraints custom_call_has_side_effect to_apply called_computations "
        "output_to_operand_aliasing padding_type literal operand_precision schedule api_version",
        infers_shape=False,
    ),
)

OPCODE_ROWS: tuple[Row, ...] = (
    *_ELEMENTWISE,
    *_MOVEMENT,
    *_SOURCES,
    *_PRODUCTS,
    *_REDUCTIONS,
    *_COLLECTIVES,
    *_TRANSFERS,
    *_STRUCTURE,
)
