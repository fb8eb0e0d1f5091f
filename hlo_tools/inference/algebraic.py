"""Inference of opcodes that combine elements: dot, convolution, reduce, window, FFT, solvers."""

from __future__ import annotations

from typing import Any, NamedTuple

from hlo_tools._messages import counted
from hlo_tools.inference.reducers import check_chooser, check_mapped, check_reducer
from hlo_tools.inference.rule import Call, rule
from hlo_tools.inference.types import Array, TupleType, Type, number

__all__: list[str] = []

Message = Any

_BF16, _F32, _F64, _C64, _C128 = (number(name) for name in ("bf16", "f32", "f64", "c64", "c128"))


@rule("dot")
def _dot(call: Call) -> Type:
    return _contract(call, call.array(0), call.array(1), call.row.dot_dimension_numbers)


@rule("scaled-dot")
def _scaled_dot(call: Call) -> Type:
    """Operands: lhs, rhs, scales of lhs, scales of rhs; one of the scales is no scalar."""
    call.check(
        call.array(2).rank > 0 or call.array(3).rank > 0, "has scalars for both of its scales"
    )
    for operand_number, contracting in enumerate(
        (call.row.dot_dimension_numbers.lhs_contracting_dimensions,
         call.row.dot_dimension_numbers.rhs_contracting_dimensions)
    ):  # fmt: skip
        _check_scale(
            call, call.array(operand_number), call.array(operand_number + 2), len(contracting)
        )
    return _contract(call, call.array(0), call.array(1), call.row.dot_dimension_numbers)


def _check_scale(call: Call, operand: Array, scale: Array, contracting: int) -> None:
    """Check a scale per block of its operand; bf16 scales of extent 1 mean no scale."""
    unscaled = operand.element == scale.element == _BF16 and set(scale.dimensions) <= {1}
    if unscaled and set(operand.dimensions) != {1}:
        return
    call.check(
        scale.rank == operand.rank
        and contracting == 1
        and all(
            b and a % b == 0 for a, b in zip(operand.dimensions, scale.dimensions, strict=True)
        ),
        f"has the scales {scale} for {operand} and {counted(contracting, 'contracting dimension')}",
    )


class _Paired(NamedTuple):
    """The dimensions of a product's operands that it has for itself."""

    left_batch: tuple[int, ...]
    right_batch: tuple[int, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]


def _paired(call: Call, lhs: Array, rhs: Array, numbers: Message) -> _Paired:
    """The dimension numbers, each used once; those of one operand fit those of the other."""
    paired = _Paired(
        call.axes(numbers.lhs_batch_dimensions, lhs.rank, "lhs_batch_dims"),
        call.axes(numbers.rhs_batch_dimensions, rhs.rank, "rhs_batch_dims"),
        call.axes(numbers.lhs_contracting_dimensions, lhs.rank, "lhs_contracting_dims"),
        call.axes(numbers.rhs_contracting_dimensions, rhs.rank, "rhs_contracting_dims"),
    )
    call.axes(
        (*paired.left_batch, *paired.left), lhs.rank, "batch and contracting dimensions of lhs"
    )
    call.axes(
        (*paired.right_batch, *paired.right), rhs.rank, "batch and contracting dimensions of rhs"
    )
    for what, left_axes, right_axes in (
        ("batch", paired.left_batch, paired.right_batch), ("contracting", paired.left, paired.right),
    ):  # fmt: skip
        call.check(
            [lhs.dimensions[axis] for axis in left_axes]
            == [rhs.dimensions[axis] for axis in right_axes],
            f"has {what} dimensions of different extents in {lhs} and {rhs}",
        )
    return paired


def _contract(call: Call, lhs: Array, rhs: Array, numbers: Message) -> Array:
    left_batch, right_batch, left, right = _paired(call, lhs, rhs, numbers)
    extents = [lhs.dimensions[axis] for axis in left_batch]
    extents += [
        size for axis, size in enumerate(lhs.dimensions) if axis not in (*left_batch, *left)
    ]
    extents += [
        size for axis, size in enumerate(rhs.dimensions) if axis not in (*right_batch, *right)
    ]
    return Array(call.result_element(lhs, rhs), tuple(extents))


def _each_dimension_once(call: Call, numbers: Message, spatial: int) -> None:
    for operand, first, second, spatial_name in (
        ("lhs", "input_batch", "input_feature", "input"),
        ("rhs", "kernel_input_feature", "kernel_output_feature", "kernel"),
        ("result", "output_batch", "output_feature", "output"),
    ):
        named = [getattr(numbers, f"{name}_dimension") for name in (first, second)]
        named += getattr(numbers, f"{spatial_name}_spatial_dimensions")
        call.check(
            sorted(named) == list(range(spatial + 2)),
            f"names the dimensions {named} of its {operand}, not each of {spatial + 2} once",
        )


def _extent(array: Array, dimension: int) -> int:
    return array.dimensions[dimension]


@rule("convolution")
def _convolution(call: Call) -> Type:
    lhs, rhs, row = call.array(0), call.array(1), call.row
    numbers, window = row.convolution_dimension_numbers, row.window.dimensions
    spatial = len(numbers.input_spatial_dimensions)
    call.check(
        lhs.rank == rhs.rank == spatial + 2,
        f"takes operands of {spatial + 2} dimensions, not {lhs} and {rhs}",
    )
    call.check(
        len(window) in (0, spatial), f"has {counted(len(window), 'window dimension')} for {spatial}"
    )
    _each_dimension_once(call, numbers, spatial)
    groups: int = row.feature_group_count or 1
    batches: int = row.batch_group_count or 1
    features = _extent(lhs, numbers.input_feature_dimension)
    kernel_in = _extent(rhs, numbers.kernel_input_feature_dimension)
    kernel_out = _extent(rhs, numbers.kernel_output_feature_dimension)
    batch = _extent(lhs, numbers.input_batch_dimension)
    call.check(
        kernel_in * groups == features,
        f"has {features} features for {kernel_in} of the kernel in {groups} groups",
    )
    call.check(kernel_out % groups == 0 and batch % batches == 0 and kernel_out % batches == 0,
               "has groups that do not divide its features or its batch")  # fmt: skip
    for dimension in window:
        _check_steps(call, dimension)
    extents = [0] * (spatial + 2)
    extents[numbers.output_batch_dimension] = batch // batches
    extents[numbers.output_feature_dimension] = kernel_out
    for axis in range(spatial):
        size = _extent(lhs, numbers.input_spatial_dimensions[axis])
        kernel = _extent(rhs, numbers.kernel_spatial_dimensions[axis])
        dimension = window[axis] if window else None
        call.check(
            dimension is None or dimension.size == kernel,
            f"has a window of {dimension.size if dimension else 0} for a kernel of {kernel}",
        )
        extents[numbers.output_spatial_dimensions[axis]] = _windowed(size, kernel, dimension)
    return Array(call.result_element(lhs, rhs), tuple(extents))


def _dilated(size: int, dilation: int) -> int:
    return 0 if size == 0 else (size - 1) * dilation + 1


def _check_window(call: Call) -> None:
    for row in call.row.window.dimensions:
        call.check(row.size > 0, f"needs windows of at least one element, not {row.size}")
        _check_steps(call, row)


def _check_steps(call: Call, row: Message) -> None:
    """Dilations that are not set are one."""
    steps = (row.stride, row.base_dilation or 1, row.window_dilation or 1)
    call.check(min(steps) > 0, f"needs strides and dilations of at least one, not {min(steps)}")


def _windowed(size: int, window: int, row: Message | None) -> int:
    """Positions of a window over an extent."""
    if row is None:
        return max(0, size - window + 1)
    padded = row.padding_low + _dilated(size, row.base_dilation or 1) + row.padding_high
    reach = _dilated(window, row.window_dilation or 1)
    return 0 if padded < reach else (padded - reach) // (row.stride or 1) + 1


@rule("reduce")
def _reduce(call: Call) -> Type:
    inputs, inits = _halves(call)
    first = inputs[0]
    axes = call.axes(call.row.dimensions, first.rank, "dimensions")
    check_reducer(call, inputs, inits)
    result_axes = [axis for axis in range(first.rank) if axis not in axes]
    extents = tuple(first.dimensions[axis] for axis in result_axes)
    dynamic = tuple(position for position, axis in enumerate(result_axes) if axis in first.dynamic)
    elements = _reduced_elements(call, inputs)
    return _reduced(call, [Array(element, extents, dynamic) for element in elements])


def _reduced(call: Call, parts: list[Array]) -> Type:
    """A tuple where the reducer returns one, even of one part."""
    if call.called and isinstance(call.program()[1], TupleType):
        return TupleType(tuple(parts))
    return call.one_or_tuple(parts)


def _reduced_elements(call: Call, inputs: list[Array]) -> list[int]:
    """The reducer's result says the element types."""
    if not call.called:
        return [array.element for array in inputs]
    result = call.program()[1]
    parts = result.parts if isinstance(result, TupleType) else (result,)
    return [
        element_type.element if isinstance(element_type, Array) else inputs[0].element
        for element_type in parts
    ]


def _halves(call: Call) -> tuple[list[Array], list[Array]]:
    count = len(call.operands)
    call.check(count > 0 and count % 2 == 0, f"takes an even number of operands, not {count}")
    inputs, inits = call.arrays(0, count // 2), call.arrays(count // 2)
    for array, init in zip(inputs, inits, strict=True):
        call.check(
            array.dimensions == inputs[0].dimensions,
            f"takes inputs of one shape, not {inputs[0]} and {array}",
        )
        call.check(init.rank == 0, f"takes scalars as initial values, not {init}")
    return inputs, inits


@rule("reduce-window")
def _reduce_window(call: Call) -> Type:
    inputs, inits = _halves(call)
    check_reducer(call, inputs, inits)
    window = call.row.window.dimensions
    call.check(
        len(window) == inputs[0].rank,
        f"has {counted(len(window), 'window dimension')} for {inputs[0]}",
    )
    _check_window(call)
    extents = tuple(
        _windowed(size, row.size, row)
        for size, row in zip(inputs[0].dimensions, window, strict=True)
    )
    return _reduced(call, [Array(init.element, extents) for init in inits])


@rule("select-and-scatter")
def _select_and_scatter(call: Call) -> Type:
    operand, source = call.array(0), call.array(1)
    window = call.row.window.dimensions
    call.check(
        len(window) == operand.rank, f"has {counted(len(window), 'window dimension')} for {operand}"
    )
    _check_window(call)
    expected = tuple(
        _windowed(size, row.size, row) for size, row in zip(operand.dimensions, window, strict=True)
    )
    call.check(source.dimensions == expected, f"takes a source of {list(expected)}, not {source}")
    check_chooser(call, [operand], "selection", number=0)
    check_reducer(call, [source], call.arrays(2), number=1)
    return operand


@rule("map")
def _map(call: Call) -> Type:
    first = call.array(0)
    for operand in call.arrays(1):
        call.check(
            operand.dimensions == first.dimensions,
            f"takes operands of one shape, not {first} and {operand}",
        )
    return first._replace(element=check_mapped(call, call.arrays()).element)


@rule("sort")
def _sort(call: Call) -> Type:
    operands = call.arrays()
    call.check(len(operands) > 0, "takes at least one operand")
    for operand in operands[1:]:
        call.check(
            operand.dimensions == operands[0].dimensions,
            f"sorts operands of one shape, not {operands[0]} and {operand}",
        )
    call.axis(call.row.dimensions, operands[0].rank, "dimensions")
    return call.one_or_tuple(operands)


@rule("fft")
def _fft(call: Call) -> Type:
    operand, lengths = call.array(0), list(call.row.fft_length)
    call.check(
        1 <= len(lengths) <= min(3, operand.rank),
        f"has {counted(len(lengths), 'FFT length')} for {operand}",
    )
    inner = list(operand.dimensions[-len(lengths) :])
    outer = operand.dimensions[: -len(lengths)]
    kind = call.row.fft_type
    call.check(kind in (0, 1, 2, 3), f"has the FFT type {kind}, which there is not")
    if kind == 2:  # RFFT: real to half spectrum
        call.check(
            operand.element in (_F32, _F64) and inner == lengths,
            f"takes real {lengths}, not {operand}",
        )
        element = _C64 if operand.element == _F32 else _C128
        return Array(element, (*outer, *inner[:-1], lengths[-1] // 2 + 1))
    call.check(operand.kind == "complex", f"takes complex elements, not {operand}")
    if kind == 3:  # IRFFT
        call.check(
            inner[-1] == lengths[-1] // 2 + 1 and inner[:-1] == lengths[:-1],
            f"takes the half spectrum of {lengths}, not {operand}",
        )
        return Array(_F32 if operand.element == _C64 else _F64, (*outer, *lengths))
    return operand  # XLA does not compare the lengths of a complex transform


@rule("triangular-solve")
def _triangular(call: Call) -> Type:
    a, b = call.array(0), call.array(1)
    call.check(
        a.kind in ("float", "complex") and a.element == b.element,
        f"takes float or complex elements of one type, not {a} and {b}",
    )
    call.check(
        a.rank >= 2 and a.rank == b.rank and a.dimensions[-1] == a.dimensions[-2],
        f"takes a square matrix, not {a}",
    )
    side = -2 if call.row.triangular_solve_options.left_side else -1
    call.check(a.dimensions[-1] == b.dimensions[side], f"cannot solve {a} for {b}")
    return b


@rule("cholesky")
def _cholesky(call: Call) -> Type:
    a = call.array(0)
    call.check(a.kind in ("float", "complex"), f"takes float or complex elements, not {a}")
    call.check(
        a.rank >= 2 and a.dimensions[-1] == a.dimensions[-2], f"takes square matrices, not {a}"
    )
    return a


@rule("ragged-dot")
def _ragged_dot(call: Call) -> Type:
    """Modes by what the ragged dimension is: a result row, a contraction, a batch (XLA docs)."""
    lhs, rhs, sizes = call.array(0), call.array(1), call.array(2)
    ragged = call.row.ragged_dot_dimension_numbers
    numbers = ragged.dot_dimension_numbers
    axis = call.axis(ragged.lhs_ragged_dimensions, lhs.rank, "lhs_ragged_dims")
    groups = call.axes(ragged.rhs_group_dimensions, rhs.rank, "rhs_group_dims")
    left_batch, right_batch, left, right = _paired(call, lhs, rhs, numbers)
    _check_groups(call, axis in left or axis in left_batch, groups, bool(left_batch))
    extents: list[int] = [lhs.dimensions[position] for position in left_batch]
    extents += [
        size for position, size in enumerate(lhs.dimensions) if position not in (*left_batch, *left)
    ]
    extents += [
        size
        for position, size in enumerate(rhs.dimensions)
        if position not in (*right_batch, *right, *groups)
    ]
    if axis in left:
        extents.insert(0, sizes.dimensions[-1])
    return Array(call.result_element(lhs, rhs), tuple(extents))


def _check_groups(call: Call, is_shared: bool, groups: tuple[int, ...], has_batch: bool) -> None:
    """The sizes of groups fit the group dimension of the right side, which only result rows have.

    Args:
        is_shared: the ragged dimension is contracted or a batch dimension.
    """
    rhs, sizes = call.array(1), call.array(2)
    needed = 0 if is_shared else 1
    call.check(
        len(groups) == needed,
        f"needs {counted(needed, 'dimension')} in rhs_group_dims, not {list(groups)}",
    )
    call.check(
        sizes.rank == 1 or (has_batch and sizes.rank > 1),
        f"takes the sizes of its groups, not {sizes}",
    )
    if groups:
        call.check(
            sizes.dimensions[-1] == rhs.dimensions[groups[0]],
            f"takes the sizes of {counted(rhs.dimensions[groups[0]], 'group')}, not {sizes}",
        )
