"""Readers of the attributes of HLO instructions, used once when a module is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hlo_tools.types.literal import Literal
from neff.compiler.expansions.spans import spans_of

if TYPE_CHECKING:
    from hlo_tools.schema.messages import HloInstructionProto

__all__ = ["ATTRIBUTES"]


def _dimensions(row: HloInstructionProto) -> dict[str, Any]:
    return {"dimensions": tuple(row.dimensions)}


def _constant(row: HloInstructionProto) -> dict[str, Any]:
    return {"value": Literal(row.literal).numpy()}


def _slice(row: HloInstructionProto) -> dict[str, Any]:
    return {
        "starts": tuple(dimension.start for dimension in row.slice_dimensions),
        "limits": tuple(dimension.limit for dimension in row.slice_dimensions),
        "strides": tuple(dimension.stride or 1 for dimension in row.slice_dimensions),
    }


def _pad(row: HloInstructionProto) -> dict[str, Any]:
    return {
        "padding": tuple(
            (dimension.edge_padding_low, dimension.edge_padding_high, dimension.interior_padding)
            for dimension in row.padding_config.dimensions
        )
    }


def _dot(row: HloInstructionProto) -> dict[str, Any]:
    numbers = row.dot_dimension_numbers
    return {
        "lhs_contracting": tuple(numbers.lhs_contracting_dimensions),
        "rhs_contracting": tuple(numbers.rhs_contracting_dimensions),
        "lhs_batch": tuple(numbers.lhs_batch_dimensions),
        "rhs_batch": tuple(numbers.rhs_batch_dimensions),
    }


def _gather(row: HloInstructionProto) -> dict[str, Any]:
    numbers = row.gather_dimension_numbers
    return {
        "offset_dims": tuple(numbers.offset_dims),
        "collapsed": tuple(numbers.collapsed_slice_dims),
        "start_map": tuple(numbers.start_index_map),
        "index_vector": numbers.index_vector_dim,
        "operand_batching": tuple(numbers.operand_batching_dims),
        "start_batching": tuple(numbers.start_indices_batching_dims),
        "sizes": tuple(row.gather_slice_sizes),
    }


def _scatter(row: HloInstructionProto) -> dict[str, Any]:
    numbers = row.scatter_dimension_numbers
    return {
        "window_dims": tuple(numbers.update_window_dims),
        "inserted": tuple(numbers.inserted_window_dims),
        "start_map": tuple(numbers.scatter_dims_to_operand_dims),
        "index_vector": numbers.index_vector_dim,
        "operand_batching": tuple(numbers.input_batching_dims),
        "start_batching": tuple(numbers.scatter_indices_batching_dims),
    }


def _convolution(row: HloInstructionProto) -> dict[str, Any]:
    numbers = row.convolution_dimension_numbers
    return {
        "spans": spans_of(row.window),
        "input": (
            numbers.input_batch_dimension, numbers.input_feature_dimension,
            *numbers.input_spatial_dimensions,
        ),
        "kernel": (
            numbers.kernel_input_feature_dimension, numbers.kernel_output_feature_dimension,
            *numbers.kernel_spatial_dimensions,
        ),
        "output": (
            numbers.output_batch_dimension, numbers.output_feature_dimension,
            *numbers.output_spatial_dimensions,
        ),
        "feature_groups": row.feature_group_count,
        "batch_groups": row.batch_group_count,
    }  # fmt: skip


def _triangular(row: HloInstructionProto) -> dict[str, Any]:
    options = row.triangular_solve_options
    return {
        "left": options.left_side,
        "lower": options.lower,
        "unit": options.unit_diagonal,
        "transposed": options.transpose_a > 1,
    }


ATTRIBUTES: dict[str, Callable[[HloInstructionProto], dict[str, Any]]] = {
    "cholesky": lambda row: {"lower": row.cholesky_options.lower},
    "triangular-solve": _triangular,
    "convolution": _convolution,
    "reduce-window": lambda row: {"spans": spans_of(row.window)},
    "select-and-scatter": lambda row: {"spans": spans_of(row.window)},
    "gather": _gather,
    "scatter": _scatter,
    "constant": _constant,
    "compare": lambda row: {"direction": row.comparison_direction},
    "slice": _slice,
    "pad": _pad,
    "dot": _dot,
    "dynamic-slice": lambda row: {"sizes": tuple(row.dynamic_slice_sizes)},
    "reduce-precision": lambda row: {"bits": (row.exponent_bits, row.mantissa_bits)},
    **dict.fromkeys(
        ("batch-norm-grad", "batch-norm-inference", "batch-norm-training"),
        lambda row: {"epsilon": row.epsilon, "feature": row.feature_index},
    ),
    **dict.fromkeys(
        ("broadcast", "transpose", "reduce", "concatenate", "iota", "reverse"), _dimensions
    ),
}
"""Opcode -> reader of its attributes; opcodes without attributes have no entry."""
