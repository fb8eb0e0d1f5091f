"""The opcodes of HLO as one table: operand count and the attributes each takes in text.

Facts: XLA's text grammar as of 2026-08 (operand counts, attribute names, which are required, and
which opcodes may leave out their result shape).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["COMMON_ATTRIBUTES", "COMMUTATIVE", "OPCODES", "Opcode"]


@dataclass(frozen=True, slots=True)
class Opcode:
    """One opcode.

    Attributes:
        name: as it stands in text and protos.
        arity: number of operands, or None when it takes any number.
        required, optional: its own attributes beside the common ones.
        infers_shape: text may leave out the result shape.
    """

    name: str
    arity: int | None
    required: frozenset[str]
    optional: frozenset[str]
    infers_shape: bool

    @property
    def attributes(self) -> frozenset[str]:
        """Every attribute that the opcode may have."""
        return self.required | self.optional | COMMON_ATTRIBUTES


COMMON_ATTRIBUTES = frozenset(
    {
        "sharding", "frontend_attributes", "statistics", "parameter_replication",
        "control-predecessors", "origin", "metadata", "backend_config",
    }
)  # fmt: skip

COMMUTATIVE = frozenset({"add", "multiply", "maximum", "minimum", "and", "or", "xor"})
"""Their two operands may stand in either order (the sign of a zero from maximum may differ)."""

OPCODES: dict[str, Opcode] = {}


def _add(
    names: str, arity: int | None, required: str = "", optional: str = "", *, infers: bool = True
) -> None:
    for name in names.split():
        OPCODES[name] = Opcode(
            name, arity, frozenset(required.split()), frozenset(optional.split()), infers
        )


_COLLECTIVE = "replica_groups channel_id constrain_layout use_global_device_ids"
_DOT = "lhs_contracting_dims rhs_contracting_dims lhs_batch_dims rhs_batch_dims operand_precision"

_add(
    "acos acosh asin asinh atanh exponential-minus-one log log-plus-one logistic sqrt cbrt rsqrt "
    "tanh erf sine sinh cosine cosh tan exponential",
    1,
    "",
    "result_accuracy",
)
_add(
    "abs round-nearest-afz round-nearest-even ceil count-leading-zeros copy opt-barrier imag "
    "is-finite floor not negate popcnt real sign",
    1,
)
_add("all-gather-done all-reduce-done bitcast collective-permute-done copy-done", 1, infers=False)
_add(
    "add divide multiply subtract atan2 complex maximum minimum power remainder and or xor "
    "shift-left shift-right-arithmetic shift-right-logical add-dependency mulhi",
    2,
)
_add("stochastic-convert", 2, infers=False)
_add("clamp select", 3)
_add("convert bitcast-convert", 1, infers=False)
_add("parameter constant", 0, infers=False)
_add("iota", 0, "iota_dimension", infers=False)
_add("topk", 1, "k", "largest")
_add("all-gather all-gather-start", None, "dimensions", _COLLECTIVE, infers=False)
_add("all-reduce all-reduce-start", None, "to_apply", _COLLECTIVE + " mode", infers=False)
_add("reduce-scatter", None, "to_apply", _COLLECTIVE + " mode dimensions", infers=False)
_add("all-to-all", None, "", "replica_groups channel_id dimensions constrain_layout", infers=False)
_add("ragged-all-to-all", None, "", "replica_groups channel_id dimensions", infers=False)
_add("collective-broadcast", None, "", "replica_groups channel_id", infers=False)
_add(
    "collective-permute collective-permute-start",
    None,
    "source_target_pairs",
    "channel_id slice_sizes",
    infers=False,
)
_add(
    "async-start", None, "", "calls async_execution_thread output_to_operand_aliasing", infers=False
)
_add("async-update async-done", 1, "", "calls async_execution_thread", infers=False)
_add("copy-start", 1, "", "cross_program_prefetch_index", infers=False)
_add("replica-id partition-id", 0)
_add("dynamic-reshape", None, infers=False)
_add("reshape", 1, "", "inferred_dimension", infers=False)
_add("after-all", None)
_add("sort", None, "dimensions to_apply", "is_stable")
_add("tuple", None)
_add("while", 1, "condition body")
_add("recv recv-done send-done", 1, "", "channel_id is_host_transfer", infers=False)
_add("send", 2, "", "channel_id is_host_transfer", infers=False)
_add("get-tuple-element", 1, "index")
_add("call", None, "to_apply", "is_composite")
_add("reduce-window", None, "to_apply", "window")
_add(
    "convolution",
    2,
    "dim_labels",
    "window feature_group_count batch_group_count conv_kind convolution_kind sparsity_config "
    "operand_precision",
)
_add("fft", 1, "fft_type fft_length")
_add("triangular-solve", 2, "", "left_side lower unit_diagonal transpose_a")
_add("cholesky", 1, "", "lower")
_add("compare", 2, "direction", "type")
_add("broadcast", 1, "", "dimensions")
_add("concatenate reverse transpose", None, "dimensions")
_add("map", None, "to_apply", "dimensions")
_add("scan", None, "to_apply dimensions num_carries", "is_reverse is_associative")
_add("reduce", None, "to_apply dimensions")
_add("select-and-scatter", 3, "select scatter", "window")
_add("slice", 1, "slice", infers=False)
_add("dynamic-slice", None, "dynamic_slice_sizes", infers=False)
_add("dynamic-update-slice", None, infers=False)
_add("batch-norm-training", 3, "epsilon feature_index")
_add("batch-norm-inference batch-norm-grad", 5, "epsilon feature_index")
_add("pad", 2, "padding")
_add("fusion", None, "calls kind", "output_to_operand_aliasing", infers=False)
_add("infeed", 1, "", "infeed_config", infers=False)
_add("outfeed", 2, "", "outfeed_config outfeed_shape", infers=False)
_add("rng", None, "distribution", infers=False)
_add("rng-get-and-update-state", 0, "delta", infers=False)
_add("rng-bit-generator", None, "algorithm", infers=False)
_add("reduce-precision", 1, "exponent_bits mantissa_bits", infers=False)
_add("conditional", None, "", "true_computation false_computation branch_computations")
_add(
    "custom-call",
    None,
    "custom_call_target",
    "window dim_labels feature_group_count batch_group_count operand_layout_constraints "
    "custom_call_has_side_effect to_apply called_computations output_to_operand_aliasing "
    "padding_type literal operand_precision schedule api_version",
    infers=False,
)
_add("dot", 2, "", _DOT + " algorithm")
_add("ragged-dot", 3, "", _DOT + " lhs_ragged_dims rhs_group_dims")
_add("scaled-dot", 4, "", _DOT + " algorithm")
_add(
    "gather",
    2,
    "offset_dims collapsed_slice_dims start_index_map index_vector_dim slice_sizes",
    "indices_are_sorted operand_batching_dims start_indices_batching_dims",
)
_add(
    "scatter",
    None,
    "update_window_dims inserted_window_dims scatter_dims_to_operand_dims index_vector_dim to_apply",
    "indices_are_sorted unique_indices input_batching_dims scatter_indices_batching_dims",
)
_add("domain", 1, "domain")
_add("get-dimension-size", 1, "dimensions")
_add("set-dimension-size", 2, "dimensions")
for _name in ("reverse", "transpose"):
    OPCODES[_name] = Opcode(_name, 1, frozenset({"dimensions"}), frozenset(), True)
