"""The attributes of an HLO instruction, read once when a module is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hlo_tools.types.literal import Literal
from neff.compiler.expansions.spans import spans_of

__all__ = ["ATTRIBUTES"]


def _dimensions(one: Any) -> dict[str, Any]:
    return {"dimensions": tuple(one.dimensions)}


def _constant(one: Any) -> dict[str, Any]:
    return {"value": Literal(one.literal).numpy()}


def _slice(one: Any) -> dict[str, Any]:
    return {
        "starts": tuple(part.start for part in one.slice_dimensions),
        "limits": tuple(part.limit for part in one.slice_dimensions),
        "strides": tuple(part.stride or 1 for part in one.slice_dimensions),
    }


def _pad(one: Any) -> dict[str, Any]:
    return {
        "padding": tuple(
            (part.edge_padding_low, part.edge_padding_high, part.interior_padding)
            for part in one.padding_config.dimensions
        )
    }


def _dot(one: Any) -> dict[str, Any]:
    numbers = one.dot_dimension_numbers
    return {
        "lhs_contracting": tuple(numbers.lhs_contracting_dimensions),
        "rhs_contracting": tuple(numbers.rhs_contracting_dimensions),
        "lhs_batch": tuple(numbers.lhs_batch_dimensions),
        "rhs_batch": tuple(numbers.rhs_batch_dimensions),
    }


def _gather(one: Any) -> dict[str, Any]:
    numbers = one.gather_dimension_numbers
    return {
        "offset_dims": tuple(numbers.offset_dims),
        "collapsed": tuple(numbers.collapsed_slice_dims),
        "start_map": tuple(numbers.start_index_map),
        "index_vector": numbers.index_vector_dim,
        "operand_batching": tuple(numbers.operand_batching_dims),
        "start_batching": tuple(numbers.start_indices_batching_dims),
        "sizes": tuple(one.gather_slice_sizes),
    }


def _scatter(one: Any) -> dict[str, Any]:
    numbers = one.scatter_dimension_numbers
    return {
        "window_dims": tuple(numbers.update_window_dims),
        "inserted": tuple(numbers.inserted_window_dims),
        "start_map": tuple(numbers.scatter_dims_to_operand_dims),
        "index_vector": numbers.index_vector_dim,
        "operand_batching": tuple(numbers.input_batching_dims),
        "start_batching": tuple(numbers.scatter_indices_batching_dims),
    }


def _convolution(one: Any) -> dict[str, Any]:
    numbers = one.convolution_dimension_numbers
    return {
        "spans": spans_of(one.window),
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
        "feature_groups": one.feature_group_count,
        "batch_groups": one.batch_group_count,
    }  # fmt: skip


def _triangular(one: Any) -> dict[str, Any]:
    options = one.triangular_solve_options
    return {
        "left": options.left_side,
        "lower": options.lower,
        "unit": options.unit_diagonal,
        "transposed": options.transpose_a > 1,
    }


ATTRIBUTES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "cholesky": lambda one: {"lower": one.cholesky_options.lower},
    "triangular-solve": _triangular,
    "convolution": _convolution,
    "reduce-window": lambda one: {"spans": spans_of(one.window)},
    "select-and-scatter": lambda one: {"spans": spans_of(one.window)},
    "gather": _gather,
    "scatter": _scatter,
    "constant": _constant,
    "compare": lambda one: {"direction": one.comparison_direction},
    "slice": _slice,
    "pad": _pad,
    "dot": _dot,
    "dynamic-slice": lambda one: {"sizes": tuple(one.dynamic_slice_sizes)},
    "reduce-precision": lambda one: {"bits": (one.exponent_bits, one.mantissa_bits)},
    **dict.fromkeys(
        ("batch-norm-grad", "batch-norm-inference", "batch-norm-training"),
        lambda one: {"epsilon": one.epsilon, "feature": one.feature_index},
    ),
    **dict.fromkeys(
        ("broadcast", "transpose", "reduce", "concatenate", "iota", "reverse"), _dimensions
    ),
}
"""Opcode -> its attributes, read from an instruction; opcodes without any are left out."""
