"""The same elements in another shape or order. Where NumPy gives a view, so do these."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.array import TracedArray, as_node, graph_of, view
from hlo_tools.trace.functions import implements
from hlo_tools.trace.functions.arguments import axes_of, one_axis, traced, unsupported, xp
from hlo_tools.trace.graph import Node

__all__: list[str] = []

Shape = tuple[int, ...]


def reshaped(array: TracedArray, shape: Shape) -> TracedArray:
    """A view in another shape of as many elements."""
    own = array.shape
    if shape == own:
        return view(array, array.node, lambda node: node, lambda old, new: new)
    return view(
        array, hlo.reshape(array.node, shape),
        lambda node: hlo.reshape(node, shape), lambda old, new: hlo.reshape(new, own),
    )  # fmt: skip


def permuted(array: TracedArray, order: tuple[int, ...]) -> TracedArray:
    """A view with its dimensions in another order."""
    back = tuple(int(i) for i in np.argsort(order))
    return view(
        array, hlo.transpose(array.node, order),
        lambda node: hlo.transpose(node, order), lambda old, new: hlo.transpose(new, back),
    )  # fmt: skip


def _as_shape(value: Any) -> Shape:
    """A number or several as a tuple."""
    return (int(value),) if np.ndim(value) == 0 else tuple(int(n) for n in value)


def _target_shape(shape: Any, size: int, own: Shape) -> Shape:
    """A shape with its -1 worked out.

    Raises:
        ValueError: as NumPy, when the number of elements differs.
    """
    given = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    wanted = tuple(int(n) for n in given)
    if wanted.count(-1) > 1:
        raise ValueError("can only specify one unknown dimension")
    known = math.prod(n for n in wanted if n != -1)
    if -1 in wanted and known:
        wanted = tuple(size // known if n == -1 else n for n in wanted)
    if math.prod(wanted) != size or -1 in wanted:
        raise ValueError(f"cannot reshape array of size {size} with shape {own} into shape {given}")
    return wanted


@implements(np.reshape)
def reshape(
    a: Any, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None
) -> TracedArray:
    array = traced(a)
    target = _target_shape(shape if shape is not None else newshape, array.size, array.shape)
    if order in ("C", "A", "K"):
        return reshaped(array, target)
    turned = permuted(array, tuple(range(array.ndim))[::-1])
    return permuted(reshaped(turned, target[::-1]), tuple(range(len(target)))[::-1])


@implements(np.ravel)
def ravel(a: Any, order: str = "C") -> TracedArray:
    return reshape(a, (-1,) if np.size(a) else (0,), order)


@implements(np.transpose)
def transpose(a: Any, axes: Any = None) -> TracedArray:
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
def swapaxes(a: Any, axis1: int, axis2: int) -> TracedArray:
    array = traced(a)
    order = list(range(array.ndim))
    first, second = one_axis(axis1, array.ndim), one_axis(axis2, array.ndim)
    order[first], order[second] = order[second], order[first]
    return permuted(array, tuple(order))


@implements(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> TracedArray:
    array = traced(a)
    sources, targets = axes_of(source, array.ndim), axes_of(destination, array.ndim)
    if len(sources) != len(targets):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")  # fmt: skip
    order = [axis for axis in range(array.ndim) if axis not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return permuted(array, tuple(order))


@implements(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> TracedArray:
    array = traced(a)
    wanted = axis if isinstance(axis, (tuple, list)) else (axis,)
    rank = array.ndim + len(wanted)
    places = axes_of(tuple(wanted), rank)
    sizes = iter(array.shape)
    return reshaped(array, tuple(1 if i in places else next(sizes) for i in range(rank)))


@implements(np.squeeze)
def squeeze(a: Any, axis: Any = None) -> TracedArray:
    array = traced(a)
    if axis is None:
        return reshaped(array, tuple(size for size in array.shape if size != 1))
    places = axes_of(axis, array.ndim)
    if any(array.shape[place] != 1 for place in places):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return reshaped(array, tuple(size for i, size in enumerate(array.shape) if i not in places))


def _at_least(rank: int, place: Callable[[int], Shape]) -> Callable[..., Any]:
    def function(*arrays: Any) -> Any:
        done = []
        for value in arrays:
            array = traced(value, arrays)
            lacking = max(rank - array.ndim, 0)
            done.append(xp.expand_dims(array, place(array.ndim)) if lacking else array)
        return done[0] if len(done) == 1 else tuple(done)

    return function


implements(np.atleast_1d)(_at_least(1, lambda rank: (0,)))
implements(np.atleast_2d)(_at_least(2, lambda rank: (0,) if rank == 1 else (0, 1)))
implements(np.atleast_3d)(_at_least(3, lambda rank: {0: (0, 1, 2), 1: (0, 2), 2: (2,)}[rank]))


@implements(np.broadcast_to)
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> TracedArray:
    source = traced(array)
    target = _as_shape(shape)
    if np.broadcast_shapes(source.shape, target) != target:
        raise ValueError(
            f"operands could not be broadcast together with remapped shapes {source.shape} "
            f"and requested shape {target}"
        )
    return TracedArray(hlo.broadcast(source.node, target))


@implements(np.broadcast_arrays)
def broadcast_arrays(*arrays: Any, subok: bool = False) -> tuple[TracedArray, ...]:
    shape = np.broadcast_shapes(*(np.shape(array) for array in arrays))
    return tuple(broadcast_to(traced(array, arrays), shape) for array in arrays)


@implements(np.flip)
def flip(m: Any, axis: Any = None) -> TracedArray:
    array = traced(m)
    axes = axes_of(axis, array.ndim)
    return view(
        array, hlo.reverse(array.node, axes),
        lambda node: hlo.reverse(node, axes), lambda old, new: hlo.reverse(new, axes),
    )  # fmt: skip


@implements(np.fliplr)
def fliplr(m: Any) -> TracedArray:
    return flip(m, 1)


@implements(np.flipud)
def flipud(m: Any) -> TracedArray:
    return flip(m, 0)


@implements(np.rot90)
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> TracedArray:
    array = traced(m)
    first, second = axes_of(tuple(axes), array.ndim)
    turns = k % 4
    if turns == 2:
        return flip(array, (first, second))
    if turns == 1:
        return swapaxes(flip(array, second), first, second)
    return flip(swapaxes(array, first, second), second) if turns else array


@implements(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> TracedArray:
    array = traced(a)
    if axis is None:
        return reshaped(roll(ravel(array), shift, 0), array.shape)
    pairs = np.broadcast(shift, axes_of(axis, array.ndim))
    if pairs.ndim > 1:
        raise ValueError("'shift' and 'axis' should be scalars or 1D sequences")
    node = array.node
    for distance, place in pairs:
        node = _rolled(node, int(distance), int(place))
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
def repeat(a: Any, repeats: Any, axis: Any = None) -> TracedArray:
    array = traced(a)
    if axis is None:
        array, axis = ravel(array), 0
    place = one_axis(axis, array.ndim)
    if isinstance(repeats, TracedArray):
        raise unsupported("repeats decides a shape and must not be traced", "pass it as a number")
    counts = np.asarray(repeats)
    if counts.size != 1:
        return xp.take(array, np.repeat(np.arange(array.shape[place]), counts), axis=place)
    count = int(counts.reshape(()))
    shape = array.shape
    spread = (*shape[: place + 1], count, *shape[place + 1 :])
    node = hlo.reshape(array.node, (*shape[: place + 1], 1, *shape[place + 1 :]))
    joined = (*shape[:place], shape[place] * count, *shape[place + 1 :])
    return TracedArray(hlo.reshape(hlo.broadcast(node, spread), joined))


@implements(np.tile)
def tile(A: Any, reps: Any) -> TracedArray:
    array = traced(A)
    counts = _as_shape(reps)
    rank = max(array.ndim, len(counts))
    shape = (1,) * (rank - array.ndim) + array.shape
    counts = (1,) * (rank - len(counts)) + counts
    single = tuple(n for size in shape for n in (1, size))
    spread = tuple(n for pair in zip(counts, shape, strict=True) for n in pair)
    joined = tuple(count * size for count, size in zip(counts, shape, strict=True))
    node = hlo.broadcast(hlo.reshape(array.node, single), spread)
    return TracedArray(hlo.reshape(node, joined))


@implements(np.pad)
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> TracedArray:
    """Constant, edge, reflect, symmetric, wrap and empty; other modes need values."""
    source = traced(array)
    if isinstance(pad_width, dict):
        table = np.zeros((source.ndim, 2), int)
        for axis, width in pad_width.items():
            table[axis] = width
        pad_width = table
    widths = xp.broadcast_to(np.asarray(pad_width), (source.ndim, 2)).tolist()
    if mode in ("constant", "empty"):
        return _pad_constant(source, widths, kwargs.get("constant_values", 0))
    if mode not in ("edge", "reflect", "symmetric", "wrap"):
        raise unsupported(f"pad mode {mode!r} is not known", "use constant, edge, reflect, wrap")
    for axis, width in enumerate(widths):
        places = np.pad(np.arange(source.shape[axis]), width, mode=mode, **kwargs)
        if any(width):
            source = xp.take(source, places, axis=axis)
    return source


def _pad_constant(source: TracedArray, widths: list[list[int]], values: Any) -> TracedArray:
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
def shape(a: Any) -> Shape:
    return a.shape


@implements(np.ndim)
def ndim(a: Any) -> int:
    return a.ndim


@implements(np.size)
def size(a: Any, axis: Any = None) -> int:
    return a.size if axis is None else math.prod(a.shape[i] for i in axes_of(axis, a.ndim))
