"""The same elements in another shape or order. Where NumPy gives a view, so do these."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.array import TracedArray, as_node, graph_of, perhaps_view, view
from hlo_tools.trace.errors import refuse
from hlo_tools.trace.functions import implements
from hlo_tools.trace.functions.arguments import axes_of, one_axis, traced, unsupported, xp
from hlo_tools.trace.graph import Node, Operand

__all__: list[str] = []

Shape = tuple[int, ...]


def reshaped(array: TracedArray, shape: Shape) -> TracedArray:
    """As many elements in another shape: a view of an array in C order, perhaps one of another."""
    source_shape = array.shape
    node = hlo.reshape(array.node, shape)
    if array.size and not array.is_contiguous and not _only_splits(source_shape, shape):
        return perhaps_view(array, node)
    return view(
        array, node,
        lambda node: hlo.reshape(node, shape), lambda old, new: hlo.reshape(new, source_shape),
        is_contiguous=array.is_contiguous,
    )  # fmt: skip


def _longer(shape: Shape) -> list[int]:
    """The dimensions of several elements; those of one element make no copy."""
    return [size for size in shape if size != 1]


def _only_splits(shape: Shape, target: Shape) -> bool:
    """Return True if no dimensions are merged: then NumPy never copies."""
    parts = iter(_longer(target))
    for size in _longer(shape):
        length = 1
        while length < size:
            length *= next(parts, size + 1)
        if length != size:
            return False
    return True


def permuted(array: TracedArray, order: tuple[int, ...]) -> TracedArray:
    """A view with its dimensions in another order."""
    back = tuple(int(i) for i in np.argsort(order))
    moved = [axis for axis in order if array.shape[axis] != 1]
    return view(
        array, hlo.transpose(array.node, order),
        lambda node: hlo.transpose(node, order), lambda old, new: hlo.transpose(new, back),
        is_contiguous=array.is_contiguous and moved == sorted(moved),
    )  # fmt: skip


def _as_shape(value: Operand) -> Shape:
    """A number or several as a tuple."""
    return (int(value),) if np.ndim(value) == 0 else tuple(int(n) for n in value)


def _target_shape(shape: Any, size: int, source: Shape) -> Shape:
    """A shape with its -1 worked out.

    Raises:
        ValueError: as NumPy, when the number of elements differs.
    """
    target = requested = _as_shape(shape)
    if target.count(-1) > 1:
        raise ValueError("can only specify one unknown dimension")
    known_size = math.prod(n for n in target if n != -1)
    if -1 in target and known_size:
        target = tuple(size // known_size if n == -1 else n for n in target)
    if math.prod(target) != size or -1 in target:
        raise ValueError(
            f"cannot reshape array of size {size} with shape {source} into shape {requested}"
        )
    return target


@implements(np.reshape)
def reshape(
    a: Operand, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None
) -> TracedArray:
    array = traced(a)
    target = _target_shape(shape if shape is not None else newshape, array.size, array.shape)
    if order not in ("C", "F", "A"):
        raise ValueError(f"order must be one of 'C', 'F', 'A' (got {order!r})")
    is_f = _is_fortran(array, order)
    if copy:
        array = TracedArray(array.node, is_contiguous=not is_f or None)
    elif copy is False and (is_f or not array.is_contiguous):
        raise _unknown_order("reshape with copy=False", "reshape an array in C order")
    return _in_fortran_order(array, target) if is_f else reshaped(array, target)


def _is_fortran(array: TracedArray, order: str) -> bool:
    """Return True if elements are read with the first index changing fastest.

    Raises:
        TraceError: the memory layout decides (HLO-TRACE-LAYOUT).
    """
    if order in ("A", "K") and not array.is_contiguous and len(_longer(array.shape)) > 1:
        raise _unknown_order(f"the order {order!r} of elements", 'use order="C" or order="F"')
    return order == "F" and array.ndim > 1


def _unknown_order(what: str, remedy: str) -> Exception:
    return refuse(
        f"{what} depends on the memory layout of an array that is not certainly in C order, and "
        "traced arrays have no layout",
        code="HLO-TRACE-LAYOUT",
        remedy=remedy,
    )


def _in_fortran_order(array: TracedArray, target: Shape) -> TracedArray:
    turned = permuted(array, tuple(range(array.ndim))[::-1])
    return permuted(reshaped(turned, target[::-1]), tuple(range(len(target)))[::-1])


@implements(np.ravel)
def ravel(a: Operand, order: str = "C") -> TracedArray:
    array = traced(a)
    if order not in ("C", "F", "A", "K"):
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r})")
    walked = xp.transpose(array) if _is_fortran(array, order) else array
    if walked.is_contiguous:
        return reshaped(walked, (array.size,))
    node = hlo.reshape(walked.node, (array.size,))
    return perhaps_view(walked, node, is_contiguous=True)


@implements(np.transpose)
def transpose(a: Operand, axes: Any = None) -> TracedArray:
    array = traced(a)
    if axes is None:
        return permuted(array, tuple(range(array.ndim))[::-1])
    if len(axes) != array.ndim:
        raise ValueError("axes don't match array")
    order = tuple(one_axis(axis, array.ndim) for axis in axes)
    if len(set(order)) != len(order):
        raise ValueError("repeated axis in transpose")
    return permuted(array, order)


@implements(np.swapaxes)
def swapaxes(a: Operand, axis1: int, axis2: int) -> TracedArray:
    array = traced(a)
    order = list(range(array.ndim))
    first, second = one_axis(axis1, array.ndim), one_axis(axis2, array.ndim)
    order[first], order[second] = order[second], order[first]
    return permuted(array, tuple(order))


@implements(np.moveaxis)
def moveaxis(a: Operand, source: Any, destination: Any) -> TracedArray:
    array = traced(a)
    sources, targets = axes_of(source, array.ndim), axes_of(destination, array.ndim)
    if len(sources) != len(targets):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")  # fmt: skip
    order = [axis for axis in range(array.ndim) if axis not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return permuted(array, tuple(order))


@implements(np.expand_dims)
def expand_dims(a: Operand, axis: Any) -> TracedArray:
    array = traced(a)
    new_axes = _as_shape(axis)
    rank = array.ndim + len(new_axes)
    positions = axes_of(new_axes, rank)
    sizes = iter(array.shape)
    return reshaped(array, tuple(1 if i in positions else next(sizes) for i in range(rank)))


@implements(np.squeeze)
def squeeze(a: Operand, axis: Any = None) -> TracedArray:
    array = traced(a)
    if axis is None:
        return reshaped(array, tuple(size for size in array.shape if size != 1))
    if not array.ndim and axis in (0, -1):
        axis = ()
    positions = axes_of(axis, array.ndim)
    if any(array.shape[position] != 1 for position in positions):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return reshaped(array, tuple(size for i, size in enumerate(array.shape) if i not in positions))


def _at_least(rank: int, location: Callable[[int], Shape]) -> Callable[..., Any]:
    def function(*arrays: Operand) -> Any:
        done: list[TracedArray] = []
        for value in arrays:
            array = traced(value, arrays)
            lacking = max(rank - array.ndim, 0)
            done.append(xp.expand_dims(array, location(array.ndim)) if lacking else array)
        return done[0] if len(done) == 1 else tuple(done)

    return function


implements(np.atleast_1d)(_at_least(1, lambda rank: (0,)))
implements(np.atleast_2d)(_at_least(2, lambda rank: (0,) if rank == 1 else (0, 1)))
implements(np.atleast_3d)(_at_least(3, lambda rank: {0: (0, 1, 2), 1: (0, 2), 2: (2,)}[rank]))


@implements(np.broadcast_to)
def broadcast_to(array: Operand, shape: Any, subok: bool = False) -> TracedArray:
    source = traced(array)
    target = _as_shape(shape)
    if np.broadcast_shapes(source.shape, target) != target:
        raise ValueError(
            f"operands could not be broadcast together with remapped shapes {source.shape} "
            f"and requested shape {target}"
        )

    def read(node: Node) -> Node:
        spread = hlo.broadcast(node, target)
        # Repeated elements have a stride of 0, which NumPy takes for the innermost one in copies.
        if node.shape and spread is not node:
            spread.is_c_ordered = False
        return spread

    same = target == source.shape
    return view(source, read(source.node), read, None, is_contiguous=same and source.is_contiguous)


@implements(np.broadcast_arrays)
def broadcast_arrays(*arrays: Operand, subok: bool = False) -> tuple[TracedArray, ...]:
    shape = np.broadcast_shapes(*(np.shape(array) for array in arrays))
    return tuple(broadcast_to(traced(array, arrays), shape) for array in arrays)


@implements(np.flip)
def flip(m: Operand, axis: Any = None) -> TracedArray:
    array = traced(m)
    axes = axes_of(axis, array.ndim)
    if not array.ndim:  # NumPy indexes with (), which gives a scalar and no view
        return array[()]
    same = all(array.shape[axis] <= 1 for axis in axes)
    return view(
        array, hlo.reverse(array.node, axes),
        lambda node: hlo.reverse(node, axes), lambda old, new: hlo.reverse(new, axes),
        is_contiguous=same and array.is_contiguous,
    )  # fmt: skip


@implements(np.fliplr)
def fliplr(m: Operand) -> TracedArray:
    return flip(m, 1)


@implements(np.flipud)
def flipud(m: Operand) -> TracedArray:
    return flip(m, 0)


@implements(np.rot90)
def rot90(m: Operand, k: int = 1, axes: Any = (0, 1)) -> TracedArray:
    array = traced(m)
    first, second = axes_of(tuple(axes), array.ndim)
    iterations = k % 4
    if iterations == 2:
        return flip(array, (first, second))
    if iterations == 1:
        return swapaxes(flip(array, second), first, second)
    return flip(swapaxes(array, first, second), second) if iterations else array


@implements(np.roll)
def roll(a: Operand, shift: Any, axis: Any = None) -> TracedArray:
    array = traced(a)
    if axis is None:
        return reshaped(roll(ravel(array), shift, 0), array.shape)
    pairs = np.broadcast(shift, axes_of(axis, array.ndim))
    if pairs.ndim > 1:
        raise ValueError("'shift' and 'axis' should be scalars or 1D sequences")
    node = array.node
    for distance, location in pairs:
        node = _rolled(node, int(distance), int(location))
    return TracedArray(node)


def _rolled(node: Node, distance: int, axis: int) -> Node:
    size = node.shape[axis]
    cut = -distance % size if size else 0
    if not cut:
        return node
    zeros, ends = [0] * len(node.shape), list(node.shape)
    starts = [cut if i == axis else 0 for i in range(len(ends))]
    limits = [cut if i == axis else end for i, end in enumerate(ends)]
    return hlo.concatenate([hlo.slice_(node, starts, ends), hlo.slice_(node, zeros, limits)], axis)


@implements(np.repeat)
def repeat(a: Operand, repeats: Any, axis: Any = None) -> TracedArray:
    array = traced(a)
    if axis is None or (not array.ndim and axis in (0, -1)):
        array, axis = ravel(array), 0
    axis_index = one_axis(axis, array.ndim)
    if isinstance(repeats, TracedArray):
        raise unsupported("repeats decides a shape and must not be traced", "pass it as a number")
    counts = np.asarray(repeats)
    if counts.size != 1:
        return xp.take(
            array, np.repeat(np.arange(array.shape[axis_index]), counts), axis=axis_index
        )
    count = int(counts.reshape(()))
    shape = array.shape
    spread = (*shape[: axis_index + 1], count, *shape[axis_index + 1 :])
    node = hlo.reshape(array.node, (*shape[: axis_index + 1], 1, *shape[axis_index + 1 :]))
    joined = (*shape[:axis_index], shape[axis_index] * count, *shape[axis_index + 1 :])
    return TracedArray(hlo.reshape(hlo.broadcast(node, spread), joined))


@implements(np.tile)
def tile(A: Operand, reps: Any) -> TracedArray:
    array = traced(A)
    counts = _as_shape(reps)
    rank = max(array.ndim, len(counts))
    if all(count == 1 for count in counts) and rank == array.ndim:
        return TracedArray(array.node)
    shape = (1,) * (rank - array.ndim) + array.shape
    counts = (1,) * (rank - len(counts)) + counts
    single = tuple(n for size in shape for n in (1, size))
    spread = tuple(n for pair in zip(counts, shape, strict=True) for n in pair)
    joined = tuple(count * size for count, size in zip(counts, shape, strict=True))
    if not array.size:  # which NumPy copies nothing of, so that it stays read-only
        return xp.reshape(array, joined)
    node = hlo.broadcast(hlo.reshape(array.node, single), spread)
    return TracedArray(hlo.reshape(node, joined))


@implements(np.pad)
def pad(array: Operand, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> TracedArray:
    """Constant, edge, reflect, symmetric, wrap and empty; other modes need values."""
    source = traced(array)
    if isinstance(pad_width, dict):
        table = np.zeros((source.ndim, 2), int)
        for axis, width in cast("dict[int, int]", pad_width).items():
            table[axis] = width
        pad_width = table
    widths = xp.broadcast_to(np.asarray(pad_width), (source.ndim, 2)).tolist()
    np.pad(np.zeros((1,) * source.ndim, source.dtype), 0, mode, **kwargs)  # NumPy's errors
    if mode in ("constant", "empty"):
        padded = _pad_constant(source, widths, kwargs.get("constant_values", 0))
    elif mode not in ("edge", "reflect", "symmetric", "wrap"):
        raise unsupported(
            f"pad mode {mode!r} is not supported", "use constant, edge, reflect, wrap"
        )
    else:
        padded = _pad_repeated(source, widths, mode, kwargs)
    return TracedArray(padded.node)


def _pad_repeated(
    source: TracedArray, widths: list[list[int]], mode: Any, options: dict[str, Any]
) -> TracedArray:
    """Padded with the array's own elements; with ``reflect_type="odd"`` mirrored at the edge's."""
    is_odd = options.get("reflect_type", "even") == "odd"
    for axis, width in enumerate(widths):
        if not any(width):
            continue
        size = source.shape[axis]
        if is_odd and mode in ("reflect", "symmetric"):
            source = _pad_odd(source, axis, width, mode)
        else:
            source = xp.take(
                source, np.pad(np.arange(size), width, mode=mode, **options), axis=axis
            )
    return source


def _pad_odd(source: TracedArray, axis: int, width: list[int], mode: str) -> TracedArray:
    """Twice the edge minus the mirrored element, chunk by chunk, as NumPy goes outwards."""
    edge = 1 if mode == "reflect" else 0
    left, right = width
    if source.shape[axis] == 1:
        return xp.take(source, np.zeros(1 + left + right, int), axis=axis)
    period = source.shape[axis] - edge
    while left or right:
        size = source.shape[axis]
        maximum = (size - edge) // period * period
        before, after = min(left, maximum), min(right, maximum)
        first, last = xp.take(source, [0], axis=axis), xp.take(source, [size - 1], axis=axis)
        near = xp.take(source, list(range(before - 1 + edge, edge - 1, -1)), axis=axis)
        far = xp.take(source, [size - 1 - edge - i for i in range(after)], axis=axis)
        parts = [(first * 2 - near).astype(source.dtype)] if before else []
        parts += [source, *([(last * 2 - far).astype(source.dtype)] if after else [])]
        source = xp.concatenate(parts, axis=axis)
        left, right = left - before, right - after
    return source


def _pad_constant(source: TracedArray, widths: list[list[int]], values: Operand) -> TracedArray:
    graph = graph_of((source,))
    if np.ndim(values) == 0:
        fill = as_node(values, graph, source.dtype)
        low, high = [w[0] for w in widths], [w[1] for w in widths]
        return TracedArray(hlo.pad(source.node, fill, low, high))
    table = xp.broadcast_to(np.asarray(values), (source.ndim, 2)).tolist()
    node = source.node
    for axis, (width, pair) in enumerate(zip(widths, table, strict=True)):
        for side, value in enumerate(pair):
            edges = [[0] * source.ndim, [0] * source.ndim]
            edges[side][axis] = width[side]
            node = hlo.pad(node, as_node(value, graph, source.dtype), edges[0], edges[1])
    return TracedArray(node)


@implements(np.shape)
def shape(a: Operand) -> Shape:
    return a.shape


@implements(np.ndim)
def ndim(a: Operand) -> int:
    return a.ndim


@implements(np.size)
def size(a: Operand, axis: Any = None) -> int:
    return a.size if axis is None else math.prod(a.shape[i] for i in axes_of(axis, a.ndim))
