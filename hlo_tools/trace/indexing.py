"""NumPy's indexing of traced arrays: views for slices, gather and scatter for index arrays."""

from __future__ import annotations

import math
import operator
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, SupportsIndex, cast

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.array import TracedArray, TracedScalar, as_node, kind_of, view
from hlo_tools.trace.errors import refuse
from hlo_tools.trace.graph import Array, DType, Graph, Node
from hlo_tools.trace.promotion import narrow

__all__ = ["fitted", "get", "put"]

S32 = np.dtype(np.int32)
BOOL = np.dtype(bool)


def get(array: TracedArray, key: Any) -> TracedArray:
    """``array[key]``.

    Raises:
        IndexError: as NumPy, for constant indices out of bounds and too many of them. A traced
            index out of bounds is not seen: HLO takes the nearest element.
    """
    caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    array.reader = caller.f_code, caller.f_lasti
    parts = _parse(array, key)
    basic = _basic_view(array, parts)
    is_element = not parts.has_ellipsis and not basic.shape
    arrays = parts.arrays
    if not arrays:
        if is_element:
            return TracedScalar(basic.node)
        if isinstance(basic, TracedScalar):  # s[...]
            return TracedArray(basic.node)
        return TracedArray(basic.node) if parts.copies else basic
    if all(isinstance(axis.index, TracedScalar) for axis in arrays):
        element_view = _Dynamic(basic, parts).view(basic)
        return (
            TracedScalar(element_view.node)
            if not element_view.shape and not parts.has_ellipsis
            else element_view
        )
    gather = _Gather(basic, parts)
    node = gather.read(basic.node)
    if not node.shape and not parts.has_ellipsis:
        return TracedScalar(node)
    return TracedArray(node)


def put(array: TracedArray, key: Any, value: Any) -> None:
    """``array[key] = value``; of several values for one element, one is kept.

    Raises:
        TraceError: a function that is not traced exchanges elements (HLO-TRACE-FUNCTION).
    """
    caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    _refuse_exchange(array, caller)
    if isinstance(array, TracedScalar):
        array.write(array.node)
    mask = _single_mask(array, key)
    if mask is not None:
        _put_where(array, mask, value)
        return
    parts = _parse(array, key)
    target = _basic_view(array, parts)
    graph = array.node.graph
    if not isinstance(value, TracedArray) and not np.ndim(value):
        is_element = not parts.arrays and not target.shape and not parts.has_ellipsis
        value = _assigned(value, array.dtype, is_element=is_element)
    if not parts.arrays:
        node = as_node(value, graph, array.dtype)
        if node.shape and not target.shape and not parts.has_ellipsis:
            raise ValueError("setting an array element with a sequence.")
        target.write(hlo.broadcast(fitted(node, target.shape), target.shape))
        return
    if all(isinstance(axis.index, TracedScalar) for axis in parts.arrays):
        element_view = _Dynamic(target, parts).view(target)
        if not element_view.shape and not parts.has_ellipsis and np.ndim(value):
            raise ValueError("setting an array element with a sequence.")
        put(element_view, ..., value)
        return
    gather = _Gather(target, parts)
    node = as_node(value, graph, array.dtype)
    update = hlo.broadcast(fitted(node, gather.shape), gather.shape)
    target.write(gather.written(target.node, update))


def _refuse_exchange(array: TracedArray, caller: FrameType) -> None:
    """Refuse shuffles, which take arrays for lists: an element that is a view changes meanwhile.

    One instruction of Python reads or writes an element; code in C does both in one.
    """
    in_c = array.reader == (caller.f_code, caller.f_lasti)
    if in_c or caller.f_code.co_filename == random.__file__:
        raise refuse(
            "the elements of a traced array are exchanged one by one by a function that is not traced",
            code="HLO-TRACE-FUNCTION",
            remedy="index with a permutation: a[...] = a[numpy.random.permutation(len(a))]",
        )


def _assigned(value: object, dtype: DType, *, is_element: bool) -> Array:
    """A number as NumPy assigns it to an element or to several, or NumPy's error."""
    narrow(kind_of(value))
    array = np.empty(1, dtype)
    with np.errstate(all="ignore"):
        array[0 if is_element else slice(None)] = value
    return array[0]


def fitted(node: Node, shape: tuple[int, ...]) -> Node:
    """A value for assignment: leading ones go, as NumPy lets them.

    Raises:
        ValueError: it does not broadcast to what is assigned to.
    """
    surplus = len(node.shape) - len(shape)
    if surplus > 0 and all(size == 1 for size in node.shape[:surplus]):
        node = hlo.reshape(node, node.shape[surplus:])
    try:
        fits = np.broadcast_shapes(node.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"could not broadcast input array from shape {node.shape} into shape {shape}"
        )
    return node


def _single_mask(array: TracedArray, key: Any) -> TracedArray | None:
    """A traced boolean key of the array's first dimensions."""
    if not isinstance(key, TracedArray) or key.dtype != BOOL:
        return None
    if key.shape != array.shape[: key.ndim]:
        raise IndexError(
            f"boolean index of shape {key.shape} does not match array of shape {array.shape}"
        )
    return key


def _put_where(array: TracedArray, mask: TracedArray, value: Any) -> None:
    """Assignment under a traced mask: every element is chosen from old and new."""
    if np.ndim(value) > array.ndim - mask.ndim:
        raise refuse(
            "an array is assigned under a traced mask, and how many of its elements are used is "
            "known only when the module runs",
            code="HLO-TRACE-VALUE",
            remedy="use numpy.where(mask, values, array) with values of the array's shape",
        )
    spread = hlo.reshape(mask.node, mask.shape + (1,) * (array.ndim - mask.ndim))
    node = hlo.broadcast(as_node(value, array.node.graph, array.dtype), array.shape)
    array.write(hlo.select(hlo.broadcast(spread, array.shape), node, array.node))


# What a key means


@dataclass(slots=True)
class _Axis:
    """Selection along one dimension of the array (or a new one, of size 1).

    ``kind`` is ``slice``, ``number`` (a slice of one element, dropped), ``new`` or ``array``.
    """

    kind: str
    start: int = 0
    count: int = 1
    step: int = 1
    index: Any = None


@dataclass(slots=True)
class _Parts:
    """A whole key: an entry for every dimension and every new one, in order."""

    axes: list[_Axis]
    separated: bool
    has_ellipsis: bool
    copies: bool

    @property
    def arrays(self) -> list[_Axis]:
        return [axis for axis in self.axes if axis.kind == "array"]


def _parse(array: TracedArray, key: Any) -> _Parts:
    items: list[Any] = list(cast("tuple[Any, ...]", key)) if isinstance(key, tuple) else [key]
    masks: dict[int, int] = {}
    items = [x for item in items for x in _as_indices(item, masks)]
    used = sum(1 for item in items if item is not None and item is not Ellipsis)
    if used > array.ndim:
        raise IndexError(
            f"too many indices for array: array is {array.ndim}-dimensional, "
            f"but {used} were indexed"
        )
    if sum(item is Ellipsis for item in items) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    has_arrays = any(_is_array(item) for item in items)
    has_ellipsis = any(item is Ellipsis for item in items)
    separated = has_arrays and _are_separated(items)
    items = _fill_ellipsis(items, array.ndim - used)
    axes: list[_Axis] = []
    position = 0
    for item in items:
        if item is None:
            axes.append(_Axis("new"))
            continue
        size = array.shape[position]
        if masks.get(id(item), size) != size:
            raise IndexError(
                f"boolean index did not match indexed array along axis {position}; size of axis is "
                f"{size} but size of corresponding boolean axis is {masks[id(item)]}"
            )
        axes.append(_axis(item, size, position, has_arrays))
        position += 1
    # An integer in a 0-d array selects as a number does, but NumPy copies.
    copies = any(isinstance(item, np.ndarray) for item in items)
    return _Parts(axes, separated, has_ellipsis, copies)


def _as_indices(item: Any, masks: dict[int, int]) -> list[Any]:
    """A boolean array stands for the indices of its true elements; ``masks`` gets their sizes."""
    if isinstance(item, (list, tuple)):
        item = _index_array(cast("list[Any]", item))
    if isinstance(item, TracedArray) and item.dtype == BOOL:
        raise refuse(
            "a traced boolean array selects as many elements as are true",
            code="HLO-TRACE-VALUE",
            remedy="use numpy.where(mask, x, y), or assign a number under the mask",
        )
    if isinstance(item, (np.bool_, bool)):
        raise _scalar_boolean()
    if isinstance(item, np.ndarray) and cast("Array", item).dtype == BOOL:
        mask = cast("Array", item)
        if not mask.ndim:
            raise _scalar_boolean()
        indices = list(np.nonzero(mask))
        masks.update({id(index): size for index, size in zip(indices, mask.shape, strict=True)})
        return indices
    return [item]


def _index_array(items: Sequence[Any]) -> Any:
    """A list of indices as an array; an empty one selects nothing."""
    if any(isinstance(index, TracedArray) for index in items):
        stack: Any = np.stack
        return stack(items)
    array = np.asarray(items)
    return array if array.size else array.astype(int)


def _scalar_boolean() -> Exception:
    return refuse(
        "a single True or False as an index",
        code="HLO-TRACE-ARGUMENT",
        remedy="use None for a new dimension, or an empty slice",
    )


def _is_array(item: Any) -> bool:
    return isinstance(item, (np.ndarray, TracedArray)) and not (
        isinstance(item, np.ndarray) and item.ndim == 0
    )


def _fill_ellipsis(items: list[Any], missing: int) -> list[Any]:
    full = [slice(None)] * missing
    for position, item in enumerate(items):
        if item is Ellipsis:
            return items[:position] + full + items[position + 1 :]
    return items + full


def _axis(item: Any, size: int, position: int, has_arrays: bool) -> _Axis:
    if isinstance(item, slice):
        return _sliced(cast("slice[Any, Any, Any]", item), size)
    if isinstance(item, TracedArray):
        return _Axis("array", index=item)
    if isinstance(item, np.ndarray) and item.ndim:
        _check_bounds(cast("Array", item), size, position)
        return _Axis("array", index=item)
    if not isinstance(item, SupportsIndex):
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or "
            "boolean arrays are valid indices"
        )
    number = operator.index(cast("int", item))
    if not -size <= number < size:
        raise IndexError(f"index {number} is out of bounds for axis {position} with size {size}")
    if has_arrays:
        return _Axis("array", index=np.asarray(number))
    return _Axis("number", start=number % size)


def _sliced(item: slice, size: int) -> _Axis:
    if any(isinstance(bound, TracedArray) for bound in (item.start, item.stop, item.step)):
        raise refuse(
            "the bounds of a slice are traced values, and they decide a shape",
            code="HLO-TRACE-VALUE",
            remedy="index with start + numpy.arange(length), whose length is known",
        )
    positions = range(*item.indices(size))
    if positions.step > 0 or not positions:
        return _Axis(
            "slice", positions.start if positions else 0, len(positions), abs(positions.step)
        )
    return _Axis("slice", positions[-1], len(positions), positions.step)


def _check_bounds(item: Array, size: int, position: int) -> None:
    if item.dtype.kind not in "iu":
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    if item.size and not (-size <= int(item.min()) and int(item.max()) < size):
        worst = int(item.max()) if int(item.max()) >= size else int(item.min())
        raise IndexError(f"index {worst} is out of bounds for axis {position} with size {size}")


def _are_separated(items: list[Any]) -> bool:
    """Return True if a slice, a new dimension or an ellipsis (an empty one too) separates indices:
    then the dimensions of the index arrays come first.
    """
    positions = [
        position
        for position, item in enumerate(items)
        if item is not None and item is not Ellipsis and not isinstance(item, slice)
    ]
    return positions[-1] - positions[0] + 1 != len(positions)


# Slices, numbers and new dimensions: a view


def _basic_view(array: TracedArray, parts: _Parts) -> TracedArray:
    """The array with everything done but the index arrays, whose dimensions stay whole."""
    source = array.node
    sizes = iter(source.shape)
    plan = [
        _Axis("slice", 0, size, 1) if axis.kind == "array" else axis
        for axis in parts.axes
        if axis.kind != "new"
        for size in (next(sizes),)
    ]
    middle = tuple(axis.count for axis in plan)
    counts = iter(middle)
    shape = tuple(
        1 if axis.kind == "new" else count
        for axis in parts.axes
        for count in ((1,) if axis.kind == "new" else (next(counts),))
        if axis.kind != "number"
    )

    def read(node: Node) -> Node:
        return hlo.reshape(_read_slices(node, plan), shape)

    def write(old: Node, new: Node) -> Node:
        return _write_slices(old, hlo.reshape(new, middle), plan)

    rows = array.is_contiguous and _are_whole_rows(plan, source.shape)
    return view(array, read(source), read, write, is_contiguous=rows)


def _are_whole_rows(plan: list[_Axis], shape: tuple[int, ...]) -> bool:
    """Return True if slices leave no gaps: only the first dimension of several elements may be
    cut.
    """
    cut = [(axis, size) for axis, size in zip(plan, shape, strict=True)]
    while cut and cut[0][0].count == 1:
        cut.pop(0)
    if any(axis.step != 1 and axis.count > 1 for axis, _ in cut):
        return False
    return all(axis.count == size for axis, size in cut[1:])


def _read_slices(node: Node, plan: list[_Axis]) -> Node:
    starts = [axis.start for axis in plan]
    limits = [_limit(axis) for axis in plan]
    steps = [abs(axis.step) for axis in plan]
    picked = hlo.slice_(node, starts, limits, steps)
    return hlo.reverse(picked, [i for i, axis in enumerate(plan) if axis.step < 0])


def _limit(axis: _Axis) -> int:
    return axis.start + (axis.count - 1) * abs(axis.step) + 1 if axis.count else axis.start


def _write_slices(old: Node, new: Node, plan: list[_Axis]) -> Node:
    """``old`` with ``new`` in the sliced places."""
    new = hlo.reverse(new, [i for i, axis in enumerate(plan) if axis.step < 0])
    if new.shape == old.shape or 0 in new.shape:
        return new if new.shape == old.shape else old
    starts = [axis.start for axis in plan]
    steps = [abs(axis.step) if axis.count > 1 else 1 for axis in plan]
    if all(step == 1 for step in steps):
        return hlo.dynamic_update_slice(old, new, starts)
    high = [size - _limit(axis) for size, axis in zip(old.shape, plan, strict=True)]
    inner = [step - 1 for step in steps]
    graph = old.graph
    spread = hlo.pad(new, hlo.constant(graph, 0, new.dtype), starts, high, inner)
    yes = hlo.full(graph, new.shape, True, BOOL)
    mask = hlo.pad(yes, hlo.constant(graph, False, BOOL), starts, high, inner)
    return hlo.select(mask, spread, old)


# Index arrays: gather and scatter


def _plain_index(index: Any, size: int, graph: Graph) -> Node:
    """An index from 0 up, one that is counted from the end made plain."""
    if not isinstance(index, TracedArray):
        return graph.constant(np.remainder(index, max(size, 1)).astype(np.int32))
    if index.dtype.kind not in "iu":
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    node = index.node
    if index.dtype.kind == "u":
        return hlo.convert(node, S32)
    node = hlo.convert(node, S32)
    if node.opcode == "iota":
        return node
    negative = hlo.compare("LT", node, hlo.full(graph, node.shape, 0, S32))
    from_end = hlo.elementwise("add", node, hlo.full(graph, node.shape, size, S32))
    return hlo.select(negative, from_end, node)


class _Dynamic:
    """Traced numbers on some dimensions of an array, the others taken whole: a view."""

    def __init__(self, array: TracedArray, parts: _Parts) -> None:
        axes = [axis for axis in parts.axes if axis.kind != "number"]
        graph = array.node.graph
        self.places = [i for i, axis in enumerate(axes) if axis.kind == "array"]
        self.whole = [i for i in range(array.ndim) if i not in self.places]
        self.sizes = tuple(1 if i in self.places else n for i, n in enumerate(array.shape))
        zero = hlo.constant(graph, 0, S32)
        self.starts = tuple(
            _plain_index(axes[i].index, array.shape[i], graph) if i in self.places else zero
            for i in range(array.ndim)
        )
        if any(not array.shape[i] for i in self.places):
            raise IndexError("an index into a dimension of size 0 is out of bounds")

    def view(self, array: TracedArray) -> TracedArray:
        leading = self.places == list(range(len(self.places)))
        return view(
            array, self.read(array.node), self.read, self.written,
            is_contiguous=array.is_contiguous and leading,
        )  # fmt: skip

    def read(self, node: Node) -> Node:
        sliced = node
        if self.sizes != node.shape:
            sliced = node.graph.emit(
                "dynamic-slice", self.sizes, node.dtype, (node, *self.starts),
                dynamic_slice_sizes=self.sizes,
            )  # fmt: skip
        return hlo.reshape(sliced, tuple(self.sizes[i] for i in self.whole))

    def written(self, node: Node, update: Node) -> Node:
        return hlo.dynamic_update_slice(node, hlo.reshape(update, self.sizes), self.starts)


class _Gather:
    """Index arrays on some dimensions of an array, the others taken whole.

    Attributes:
        shape: of what is gathered, or of what is written.
        is_outermost: the dimensions of the index arrays come first in the result.
    """

    def __init__(self, array: TracedArray, parts: _Parts) -> None:
        axes = [axis for axis in parts.axes if axis.kind != "number"]
        self.places = [i for i, axis in enumerate(axes) if axis.kind == "array"]
        arrays = [axes[i].index for i in self.places]
        self.batch = np.broadcast_shapes(*(np.shape(index) for index in arrays))
        self.source = array.shape
        graph = array.node.graph
        self.indices = self._indices(arrays, graph)
        if 0 not in self.batch and any(not array.shape[i] for i in self.places):
            raise IndexError("an index into a dimension of size 0 is out of bounds")
        first = 0 if parts.separated else self.places[0]
        window = [size for i, size in enumerate(array.shape) if i not in self.places]
        self.shape = (*window[:first], *self.batch, *window[first:])
        self.is_outermost = math.prod(window[:first]) == 1
        inside = range(first, first + len(self.batch))
        self.windows = [i for i in range(len(self.shape)) if i not in inside]

    def _indices(self, arrays: list[Any], graph: Any) -> Node:
        """All indices, [batch..., array], from 0 up, those counted from the end made plain."""
        columns: list[Node] = []
        for index, position in zip(arrays, self.places, strict=True):
            size = self.source[position]
            node = _plain_index(index, size, graph)
            columns.append(hlo.reshape(hlo.broadcast(node, self.batch), (*self.batch, 1)))
        return hlo.concatenate(columns, len(self.batch))

    def read(self, node: Node) -> Node:
        if 0 in self.shape:
            return hlo.full(node.graph, self.shape, 0, node.dtype)
        sizes = tuple(1 if i in self.places else n for i, n in enumerate(self.source))
        numbers = {
            "offset_dims": self.windows,
            "collapsed_slice_dims": self.places,
            "start_index_map": self.places,
            "index_vector_dim": len(self.batch),
        }
        picked = node.graph.emit(
            "gather", self.shape, node.dtype, (node, self.indices),
            gather_dimension_numbers=numbers, gather_slice_sizes=sizes,
        )  # fmt: skip
        # NumPy fills the result index by index, wherever the dimensions of the indices stand.
        picked.is_c_ordered &= self.is_outermost
        return picked

    def written(self, node: Node, update: Node) -> Node:
        """``node`` with ``update`` in the indexed places."""
        if 0 in self.shape:
            return node
        numbers = {
            "update_window_dims": self.windows,
            "inserted_window_dims": self.places,
            "scatter_dims_to_operand_dims": self.places,
            "index_vector_dim": len(self.batch),
        }
        return node.graph.emit(
            "scatter", node.shape, node.dtype, (node, self.indices, update),
            scatter_dimension_numbers=numbers, apply=("second", node.dtype),
        )  # fmt: skip
