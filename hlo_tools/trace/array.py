"""TracedArray: what a traced function gets instead of a NumPy array.

Only its data is here; :mod:`hlo_tools.trace.array_methods` attaches operators, indexing and
methods, which need everything that is built on it.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any, NoReturn, cast

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.errors import TraceError, place, refuse
from hlo_tools.trace.graph import Array, DType, Graph, Node, Operand
from hlo_tools.trace.promotion import Kind, constant_of, narrow, require_plain

__all__ = [
    "NUMBERS",
    "TracedArray",
    "TracedScalar",
    "as_node",
    "graph_of",
    "kind_of",
    "operand",
    "ordered",
    "perhaps_view",
    "result",
    "view",
]

NUMBERS = (bool, int, float, complex)
"""Python's numbers, as operands."""
_WEAK = (int, float, complex)
"""Python numbers that take the dtype of the array beside them; a bool is NumPy's bool."""


class TracedArray:
    """An array whose elements are known only when the module runs.

    It has NumPy's shape, dtype, operators, methods and indexing, and is taken by NumPy's ufuncs
    and functions. Writing to it (``a[...] = b``, ``a += b``, ``out=a``) changes it, and what it is
    a view of, as in NumPy; a parameter that is written to becomes an output.

    Tracing makes them: ``node`` is the value in the traced graph. A module has no memory layout, so
    strides are not traced. ``is_contiguous`` says that NumPy's array is certainly in C order without
    gaps, so that ``reshape`` and ``ravel`` give views. ``reader`` is the place in Python code that
    last took an element.
    """

    __slots__ = (
        "_is_ordered", "_is_uncertain", "_node", "_overwritten", "_parent", "_read", "_version",
        "_write", "is_contiguous", "is_written", "reader", "version",
    )  # fmt: skip
    __array_priority__ = 1000

    # Attached by array_methods; declared here for the type checker.
    __add__: Callable[[Any], TracedArray]
    __sub__: Callable[[Any], TracedArray]
    __mul__: Callable[[Any], TracedArray]
    __truediv__: Callable[[Any], TracedArray]
    __pow__: Callable[[Any], TracedArray]
    __and__: Callable[[Any], TracedArray]
    __or__: Callable[[Any], TracedArray]
    __invert__: Callable[[], TracedArray]
    __neg__: Callable[[], TracedArray]
    __getitem__: Callable[[Any], TracedArray]
    __setitem__: Callable[[Any, Any], None]
    reshape: Callable[..., TracedArray]
    astype: Callable[..., TracedArray]

    def __init__(self, node: Node, is_contiguous: bool | None = None) -> None:
        self._node = node
        if is_contiguous is None:
            is_contiguous = node.is_c_ordered or sum([size != 1 for size in node.shape]) < 2
        self.is_contiguous = is_contiguous
        self._is_ordered = is_contiguous or node.is_c_ordered
        self._is_uncertain = False
        self._overwritten = ""
        self.reader: tuple[object, int] | None = None
        self._parent: TracedArray | None = None
        self._read: Any = None
        self._write: Any = None
        self._version: int = 0
        self.version: int = 0
        self.is_written = False

    # What it is

    @property
    def node(self) -> Node:
        """Its present value; that of a view is read again when its base was written to."""
        parent = self._parent
        if parent is None:
            if self._overwritten:
                raise _unknown_memory(
                    "an array that may share memory with this one was written to", self._overwritten
                )
            return self._node
        current = parent.node
        if parent.version != self._version:
            self._node, self._version = self._read(current), parent.version
            self.version += 1
        return self._node

    @property
    def graph(self) -> Graph:
        """The trace that it is in."""
        return self._node.graph

    @property
    def parent(self) -> TracedArray | None:
        """Return the array that this array is a view of, or None."""
        return self._parent

    @property
    def shape(self) -> tuple[int, ...]:
        return self._node.shape

    @shape.setter
    def shape(self, value: object) -> None:
        raise _fixed("shape", "a = a.reshape(...)")

    @property
    def dtype(self) -> DType:
        return self._node.dtype

    @dtype.setter
    def dtype(self, value: object) -> None:
        raise _fixed("dtype", "a = a.view(...)")

    @property
    def ndim(self) -> int:
        return len(self._node.shape)

    @property
    def size(self) -> int:
        return math.prod(self._node.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    def follow(
        self,
        base: TracedArray,
        read: Callable[[Node], Node],
        write: Callable[[Node, Node], Node] | None,
    ) -> None:
        """Become a view; see :func:`view`."""
        self._parent, self._read, self._write = base, read, write
        self._version = base.version

    def follow_perhaps(self, base: TracedArray) -> None:
        """Become what NumPy makes a view of ``base`` or a copy; see :func:`perhaps_view`."""
        self.follow(base, _refuse_change, None)
        self._is_uncertain = True

    def _settle(self) -> None:
        """Become an array of its own; what it may be a view of is not used any more."""
        root = self
        while root._parent is not None:
            if root._write is None and not root._is_uncertain:
                raise _unknown_memory("what may be a read-only view is written to", place())
            root = root._parent
        root._overwritten = place()
        self._parent, self._is_uncertain = None, False

    def write(self, node: Node) -> None:
        """Change its value, and that of what it is a view of.

        Raises:
            ValueError: it is a view that NumPy does not let anybody write to.
        """
        if self._is_uncertain:
            self._settle()
        if not self._is_ordered:
            node = hlo.unordered(node)
        parent = self._parent
        if parent is not None:
            if self._write is None:
                raise ValueError("assignment destination is read-only")
            parent.write(self._write(parent.node, node))
            self._version = parent.version
        self._node = node
        self.version += 1
        self.is_written = True

    # What it cannot do

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise refuse(
            f"the elements of a traced {self.dtype}{list(self.shape)} are needed here, and they "
            "are known only when the module runs",
            code="HLO-TRACE-VALUE",
            remedy="use NumPy functions that work on traced arrays instead of converting it",
        )

    def _scalar(self, *args: object) -> Any:
        raise refuse(
            "Python control flow or a Python number depends on a traced value",
            code="HLO-TRACE-VALUE",
            remedy="use numpy.where, numpy.maximum or masks; make it a keyword that is not an array",
        )

    def __format__(self, spec: str) -> str:
        return repr(self) if not spec else self._scalar()

    __bool__ = __int__ = __float__ = __complex__ = __index__ = __contains__ = _scalar
    item = tolist = _scalar

    def __hash__(self) -> int:
        raise refuse(
            "a traced value is hashed: put into a set, or used as the key of a dict or a cache",
            code="HLO-TRACE-VALUE",
            remedy="use its shape, its dtype or a Python number as the key",
        )

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise refuse(
            "a traced array is pickled, and its elements are known only when the module runs",
            code="HLO-TRACE-VALUE",
            remedy="return it from the function, and pickle the result",
        )

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"TracedArray({self.dtype}{list(self.shape)}, {self._node.opcode})"


def _unknown_memory(message: str, where: str) -> TraceError:
    return TraceError(
        f"{message}, and whether NumPy's reshape or ravel copies depends on a memory layout that a "
        "traced array does not have",
        code="HLO-TRACE-LAYOUT",
        place=where,
        remedy="reshape a copy: a.copy().reshape(...)",
    )


def _refuse_change(node: Node) -> Node:
    raise _unknown_memory("the array that this one was reshaped from was written to", place())


def _fixed(name: str, instead: str) -> Exception:
    return refuse(
        f"the {name} of a traced array is set",
        code="HLO-TRACE-FUNCTION",
        remedy=f"make another array: {instead}",
    )


class TracedScalar(TracedArray):
    """A number of NumPy: a full sum, or an element. It is never written to."""

    __slots__ = ()

    def write(self, node: Node) -> None:
        raise TypeError(f"'numpy.{self.dtype}' object does not support item assignment")


numbers.Number.register(TracedScalar)


def result(node: Node) -> TracedArray:
    """A new array, or a scalar when it has no dimensions, as NumPy's ufuncs and reductions give."""
    return TracedArray(node) if node.shape else TracedScalar(node)


def ordered(node: Node, order: str) -> TracedArray:
    """A new array in the order that a caller asks for.

    Raises:
        ValueError: as NumPy, when there is no such order.
    """
    if order not in ("C", "F", "A", "K"):
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r})")
    return TracedArray(hlo.unordered(node) if order == "F" else node, order == "C" or None)


def view(
    base: TracedArray,
    node: Node,
    read: Callable[[Node], Node],
    write: Callable[[Node, Node], Node] | None,
    *,
    is_contiguous: bool = False,
) -> TracedArray:
    """A new array that shares memory with ``base`` (a scalar has none to share).

    Args:
        read: the view's value for a value of the base.
        write: the base's new value for its old one and a new value of the view; None for a view
            that must not be written to.
        is_contiguous: the view certainly lies in C order without gaps.
    """
    is_number = isinstance(base, TracedScalar)
    if is_number and not node.shape:
        return TracedScalar(node)
    array = TracedArray(node, is_contiguous or is_number)
    if not is_number:
        array.follow(base, read, write)
    elif write is None:
        array.follow(TracedArray(base.node), read, None)
    return array


def perhaps_view(base: TracedArray, node: Node, *, is_contiguous: bool = False) -> TracedArray:
    """A new array that NumPy makes a view of ``base`` or a copy, by a layout that is not traced.

    The two differ when one is written to and the other is used afterwards: that is refused
    (HLO-TRACE-LAYOUT).
    """
    array = TracedArray(node, is_contiguous)
    array.follow_perhaps(base)
    return array


def kind_of(value: Operand) -> Kind:
    """Return what promotion reads of an operand: its dtype, or the type of a Python number."""
    if isinstance(value, TracedArray):
        return value.dtype
    if isinstance(value, (np.ndarray, np.generic)):
        return cast("Array", value).dtype
    for kind in _WEAK:
        if isinstance(value, kind) and not isinstance(value, bool):
            return kind
    return np.asarray(value).dtype


def graph_of(values: Operand) -> Graph:
    """The graph of the first traced array among operands (lists of operands are looked into)."""
    graph = _graph_in(values)
    if graph is None:
        raise TypeError("no traced array among the operands")
    return graph


def _graph_in(values: Operand) -> Graph | None:
    for value in values:
        if isinstance(value, TracedArray):
            return value.graph
        if isinstance(value, (list, tuple)):
            graph = _graph_in(value)
            if graph is not None:
                return graph
    return None


def as_node(value: Operand, graph: Graph, dtype: DType | None = None) -> Node:
    """An operand as a node, converted to ``dtype`` as NumPy converts what is assigned.

    Numbers and arrays become constants; without ``dtype``, 64-bit ones whose values fit in 32.

    Raises:
        OverflowError: a Python int that the dtype does not hold, as in NumPy.
        TraceError: an array of another function's trace (HLO-TRACE-LEAK); a masked array or a
            matrix (HLO-TRACE-ARGUMENT); dates, texts and values that 32 bits do not hold
            (HLO-TRACE-DTYPE).
    """
    if isinstance(value, TracedArray):
        node = value.node
        if node.graph is not graph:
            raise refuse(
                "an array of another trace is used here",
                code="HLO-TRACE-LEAK",
                remedy="pass arrays as arguments; do not keep them between calls",
            )
        return node if dtype is None else hlo.convert(node, dtype)
    if isinstance(value, (list, tuple)) and _graph_in(value) is not None:
        parts = cast("list[Operand]", value)
        numpy: Operand = np  # its stubs know nothing of traced arrays
        stacked = numpy.stack([v if isinstance(v, TracedArray) else np.asarray(v) for v in parts])
        return as_node(stacked, graph, dtype)
    if dtype is None:
        return graph.constant(constant_of(_as_array(value)))
    return graph.constant(_as_array(value, dtype))


def operand(value: Operand, graph: Graph, wide: DType) -> Node:
    """An operand that NumPy converts to ``wide``, in the dtype that stands for that.

    Raises:
        TraceError: as :func:`as_node`, and a value that only 64 bits hold (HLO-TRACE-DTYPE).
    """
    if isinstance(value, TracedArray) or _has_traced(value):
        return as_node(value, graph, narrow(wide))
    return graph.constant(constant_of(_as_array(value, wide)))


def _has_traced(value: Operand) -> bool:
    return isinstance(value, (list, tuple)) and _graph_in(value) is not None


def _as_array(value: Operand, dtype: DType | None = None) -> Array:
    """NumPy's array of a value, in a dtype that HLO has; a Python int must fit in it."""
    if type(value) is int and dtype is not None:
        with np.errstate(all="ignore"):
            return np.asarray(value, dtype)
    array = np.asarray(value)
    require_plain(cast("Array", value) if isinstance(value, np.ndarray) else array)
    narrow(array.dtype)
    with np.errstate(all="ignore"):
        return array if dtype is None else array.astype(dtype)
