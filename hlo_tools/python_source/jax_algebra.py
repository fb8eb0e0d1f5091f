"""Products, reductions, windows and decompositions as calls of ``jax.lax``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hlo_tools.python_source.site import Rows, Site, simple_reducer, tuple_text

if TYPE_CHECKING:
    from hlo_tools.schema.messages import DotDimensionNumbers, WindowDimension

__all__ = ["ALGEBRA"]

_REDUCERS = {
    "add": "lax.add", "multiply": "lax.mul", "maximum": "lax.max", "minimum": "lax.min",
    "and": "lax.bitwise_and", "or": "lax.bitwise_or", "xor": "lax.bitwise_xor",
}  # fmt: skip


# -- products ------------------------------------------------------------------------------------


def _dot_numbers(numbers: DotDimensionNumbers) -> str:
    contracting = (
        tuple(numbers.lhs_contracting_dimensions),
        tuple(numbers.rhs_contracting_dimensions),
    )
    batch = (tuple(numbers.lhs_batch_dimensions), tuple(numbers.rhs_batch_dimensions))
    return str((contracting, batch))


def _factors(site: Site) -> list[str]:
    """Both factors in a type that JAX multiplies: that of the result where they differ."""
    if site.row.sparsity_config.ByteSize():
        raise site.refused("has sparse operands")
    first, second = (site.operand_shape(index).element for index in (0, 1))
    if first == second:
        return list(site.operands[:2])
    return [f"lax.convert_element_type({operand}, {site.dtype})" for operand in site.operands[:2]]


def _dot(site: Site) -> str:
    left, right = _factors(site)
    numbers = _dot_numbers(site.row.dot_dimension_numbers)
    if site.kind == "pred":
        product = f"lax.dot_general({left}.astype(jnp.int32), {right}.astype(jnp.int32), {numbers})"
        return f"lax.ne({product}, np.int32(0))"
    return f"lax.dot_general({left}, {right}, {numbers}, preferred_element_type={site.dtype})"


def _ragged_dot(site: Site) -> str:
    left, right = _factors(site)
    ragged = site.row.ragged_dot_dimension_numbers
    numbers = (
        f"lax.RaggedDotDimensionNumbers({_dot_numbers(ragged.dot_dimension_numbers)}, "
        f"{tuple(ragged.lhs_ragged_dimensions)}, {tuple(ragged.rhs_group_dimensions)})"
    )
    return (
        f"lax.ragged_dot_general({left}, {right}, {site.operands[2]}, {numbers}, "
        f"preferred_element_type={site.dtype})"
    )


def _scaled_dot(site: Site) -> str:
    left, right, left_scale, right_scale = site.operands
    product = (
        f"lax.dot_general(scaled({left}, {left_scale}), scaled({right}, {right_scale}), "
        f"{_dot_numbers(site.row.dot_dimension_numbers)})"
    )
    return f"lax.convert_element_type({product}, {site.dtype})"


def _convolution(site: Site) -> str:
    left, right = _factors(site)
    row = site.row
    numbers = row.convolution_dimension_numbers
    rows = row.window.dimensions
    kernel_axes = list(numbers.kernel_spatial_dimensions)
    reversed_axes = tuple(
        axis for axis, r in zip(kernel_axes, rows, strict=True) if r.window_reversal
    )
    if reversed_axes:
        right = f"lax.rev({right}, {reversed_axes})"
    specs = (
        (numbers.input_batch_dimension, numbers.input_feature_dimension,
         *numbers.input_spatial_dimensions),
        (numbers.kernel_output_feature_dimension, numbers.kernel_input_feature_dimension,
         *kernel_axes),
        (numbers.output_batch_dimension, numbers.output_feature_dimension,
         *numbers.output_spatial_dimensions),
    )  # fmt: skip
    return (
        f"lax.conv_general_dilated({left}, {right}, window_strides={_strides(rows)}, "
        f"padding={_padding(rows)}, lhs_dilation={_base_dilation(rows)}, "
        f"rhs_dilation={_window_dilation(rows)}, "
        f"dimension_numbers=lax.ConvDimensionNumbers{specs}, "
        f"feature_group_count={row.feature_group_count or 1}, "
        f"batch_group_count={row.batch_group_count or 1}, preferred_element_type={site.dtype})"
    )


def _strides(rows: Sequence[WindowDimension]) -> tuple[int, ...]:
    return tuple(r.stride or 1 for r in rows)


def _padding(rows: Sequence[WindowDimension]) -> tuple[tuple[int, int], ...]:
    return tuple((r.padding_low, r.padding_high) for r in rows)


def _base_dilation(rows: Sequence[WindowDimension]) -> tuple[int, ...]:
    return tuple(r.base_dilation or 1 for r in rows)


def _window_dilation(rows: Sequence[WindowDimension]) -> tuple[int, ...]:
    return tuple(r.window_dilation or 1 for r in rows)


# -- reductions ----------------------------------------------------------------------------------


def _reducing(site: Site) -> tuple[str, str, str]:
    """The operands, the initial values and the reducer, as ``lax.reduce`` takes them."""
    count = len(site.operands) // 2
    for operand, init in zip(
        site.instruction.operands, site.instruction.operands[count:], strict=False
    ):
        if operand.shape.element != init.shape.element:
            raise site.refused("starts with a value of another type than its operand")
    if count > 1:
        reducer = f"lambda left, right: {site.functions[0]}(*left, *right)"
        return tuple_text(site.operands[:count]), tuple_text(site.operands[count:]), reducer
    simple = simple_reducer(site.instruction)
    return site.operands[0], site.operands[1], _REDUCERS.get(simple) or site.functions[0]


def _reduce(site: Site) -> str:
    operands, inits, reducer = _reducing(site)
    reduced = f"lax.reduce({operands}, {inits}, {reducer}, {tuple(site.row.dimensions)})"
    return f"tuple({reduced})" if site.shape.is_tuple else reduced


def _reduce_window(site: Site) -> str:
    operands, inits, reducer = _reducing(site)
    rows = site.row.window.dimensions
    sizes = tuple(int(r.size) for r in rows)
    reduced = (
        f"lax.reduce_window({operands}, {inits}, {reducer}, window_dimensions={sizes}, "
        f"window_strides={_strides(rows)}, padding={_padding(rows)}, "
        f"base_dilation={_base_dilation(rows)}, window_dilation={_window_dilation(rows)})"
    )
    return f"tuple({reduced})" if site.shape.is_tuple else reduced


def _map(site: Site) -> str:
    return f"jnp.vectorize({site.functions[0]})({', '.join(site.operands)})"


def _select_and_scatter(site: Site) -> str:
    rows = site.row.window.dimensions
    if any((r.base_dilation or 1) != 1 or (r.window_dilation or 1) != 1 for r in rows):
        raise site.refused("has a dilated window")
    select, scatter = site.functions
    return (
        f"select_and_scatter({select}, {scatter}, {', '.join(site.operands)}, "
        f"window={tuple(int(r.size) for r in rows)}, strides={_strides(rows)}, "
        f"padding={tuple(r.padding_low for r in rows)})"
    )


# -- decompositions and others -------------------------------------------------------------------

_FFT_TYPES = ("fft", "ifft", "rfft", "irfft")


def _fft(site: Site) -> str:
    name = _FFT_TYPES[site.row.fft_type]
    return f'lax.fft({site.operands[0]}, "{name}", {tuple(site.row.fft_length)})'


def _cholesky(site: Site) -> str:
    function = "lax.linalg.cholesky" if site.row.cholesky_options.lower else "upper_cholesky"
    return f"{function}({site.operands[0]}, symmetrize_input=False)"


def _triangular_solve(site: Site) -> str:
    options = site.row.triangular_solve_options
    return (
        f"lax.linalg.triangular_solve({', '.join(site.operands)}, left_side={options.left_side}, "
        f"lower={options.lower}, transpose_a={options.transpose_a in (2, 3)}, "
        f"conjugate_a={options.transpose_a == 3}, unit_diagonal={options.unit_diagonal})"
    )


def _batch_norm(site: Site) -> str:
    function = site.row.opcode.replace("-", "_")
    return (
        f"{function}({', '.join(site.operands)}, epsilon={site.row.epsilon!r}, "
        f"axis={site.row.feature_index})"
    )


_ALGORITHMS = {0: "RNG_DEFAULT", 1: "RNG_THREE_FRY", 2: "RNG_PHILOX"}


def _random_bits(site: Site) -> str:
    state, result = site.operand_shape(0), site.shape.tuple_shapes[1]
    if state.element.name != "u64" or list(state.dimensions) != [2] or result.element.bits < 32:
        raise site.refused("has a state or a result that JAX does not make")
    bits = (
        f"lax.rng_bit_generator({site.operands[0]}, {tuple(result.dimensions)}, "
        f"jnp.uint{result.element.bits}, lax.RandomAlgorithm.{_ALGORITHMS[site.row.rng_algorithm]})"
    )
    if result.element.kind == "uint":
        return f"tuple({bits})"
    return f"bits_as({bits}, {site.dtype_of(result)})"


ALGEBRA: Rows = {
    "dot": _dot,
    "ragged-dot": _ragged_dot,
    "scaled-dot": _scaled_dot,
    "convolution": _convolution,
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "map": _map,
    "select-and-scatter": _select_and_scatter,
    "fft": _fft,
    "cholesky": _cholesky,
    "triangular-solve": _triangular_solve,
    **dict.fromkeys(
        ("batch-norm-training", "batch-norm-inference", "batch-norm-grad"), _batch_norm
    ),
    "rng-bit-generator": _random_bits,
}
