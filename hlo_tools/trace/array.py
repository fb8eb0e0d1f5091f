"""TracedArray: what a traced function gets instead of a NumPy array.

Only its data is here; :mod:`hlo_tools.trace.array_methods` attaches operators, indexing and
methods, which need everything that is built on it.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.errors import refuse
from hlo_tools.trace.graph import Array, DType, Graph, Node, Operand
from hlo_tools.trace.layout import Strides, elementwise, plain, strides_of
from hlo_tools.trace.promotion import Kind, constant_of, require_plain

__all__ = [
    "NUMBERS",
    "TracedArray",
    "TracedScalar",
    "as_node",
    "graph_of",
    "kind_of",
    "layout_of",
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

    Tracing makes them: ``node`` is the value in the traced graph, ``layout`` the strides in
    elements where they are not those of C order.
    """

    __slots__ = (
        "_node", "_parent", "_read", "_version", "_write", "is_written", "layout", "version",
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

    def __init__(self, node: Node, layout: Strides = None) -> None:
        self._node = node
        self.layout = layout
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
        """What it is a view of."""
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

    @property
    def strides(self) -> tuple[int, ...]:
        """Those of NumPy's array, in bytes."""
        layout = plain(self.shape) if self.layout is None else self.layout
        return tuple(step * self.itemsize for step in layout)

    def follow(
        self,
        base: TracedArray,
        read: Callable[[Node], Node],
        write: Callable[[Node, Node], Node] | None,
    ) -> None:
        """Become a view; see :func:`view`."""
        self._parent, self._read, self._write = base, read, write
        self._version = base.version

    def write(self, node: Node) -> None:
        """Change its value, and that of what it is a view of.

        Raises:
            ValueError: it is a view that NumPy does not let anybody write to.
        """
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

    __bool__ = __int__ = __float__ = __complex__ = __index__ = _scalar
    item = tolist = _scalar

    __hash__ = None  # pyright: ignore

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"TracedArray({self.dtype}{list(self.shape)}, {self._node.opcode})"


def _fixed(name: str, instead: str) -> Exception:
    return refuse(
        f"the {name} of a traced array is set",
        code="HLO-TRACE-FUNCTION",
        remedy=f"make another array: {instead}",
    )


class TracedScalar(TracedArray):
    """What NumPy gives as a number: a sum over everything, an element. It is never written to."""

    __slots__ = ()

    def write(self, node: Node) -> None:
        raise TypeError(f"'numpy.{self.dtype}' object does not support item assignment")


numbers.Number.register(TracedScalar)


def result(node: Node, layout: Strides = None) -> TracedArray:
    """A new array, or a scalar when it has no dimensions, as NumPy's ufuncs and reductions give."""
    return TracedArray(node, layout) if node.shape else TracedScalar(node)


def view(
    base: TracedArray,
    node: Node,
    read: Callable[[Node], Node],
    write: Callable[[Node, Node], Node] | None,
    layout: Strides = None,
) -> TracedArray:
    """A new array that shares memory with ``base`` (a scalar has none to share).

    Args:
        read: the view's value for a value of the base.
        write: the base's new value for its old one and a new value of the view; None for a view
            that must not be written to.
    """
    is_number = isinstance(base, TracedScalar)
    if is_number and not node.shape:
        return TracedScalar(node)
    array = TracedArray(node, layout)
    if not is_number:
        array.follow(base, read, write)
    elif write is None:
        array.follow(TracedArray(base.node), read, None)
    return array


def kind_of(value: Operand) -> Kind:
    """What promotion needs to know of an operand: its dtype, or the type of a Python number."""
    if isinstance(value, TracedArray):
        return value.dtype
    if isinstance(value, (np.ndarray, np.generic)):
        return cast("Array", value).dtype
    for kind in _WEAK:
        if isinstance(value, kind) and not isinstance(value, bool):
            return kind
    return np.asarray(value).dtype


def layout_of(value: Operand) -> tuple[tuple[int, ...], Strides]:
    """Shape and strides, in elements, of an operand."""
    if isinstance(value, TracedArray):
        return value.shape, value.layout
    array = np.asarray(value)
    return array.shape, strides_of(array)


def same_order(operands: tuple[Any, ...], shape: tuple[int, ...]) -> Strides:
    """The strides of a new elementwise result: it lies in memory as its operands do (order K)."""
    if len(shape) < 2:
        return None
    for value in operands:
        if isinstance(value, TracedArray):
            if value.layout is not None:
                break
        elif isinstance(value, np.ndarray) and not value.flags.c_contiguous:
            break
    else:
        return None
    return elementwise([layout_of(value) for value in operands], shape)


def graph_of(values: Operand) -> Graph:
    """The graph of the first traced array among operands (lists of operands are looked into)."""
    found = _graph_in(values)
    if found is None:
        raise TypeError("no traced array among the operands")
    return found


def _graph_in(values: Operand) -> Graph | None:
    for value in values:
        if isinstance(value, TracedArray):
            return value.graph
        if isinstance(value, (list, tuple)):
            found = _graph_in(value)
            if found is not None:
                return found
    return None


def as_node(value: Operand, graph: Graph, dtype: DType | None = None) -> Node:
    """An operand as a node, converted to ``dtype``; numbers and arrays become constants.

    Raises:
        OverflowError: a Python int that the dtype does not hold, as in NumPy.
        TraceError: an array of another function's trace (HLO-TRACE-LEAK); a masked array or a
            matrix (HLO-TRACE-ARGUMENT).
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
    if isinstance(value, np.ndarray):
        require_plain(cast("Array", value))
    plain_value = cast("Operand", value)
    if isinstance(value, np.ndarray) or dtype is None:
        return graph.constant(constant_of(np.asarray(plain_value), dtype))
    cuts = isinstance(value, float) and dtype.kind in "iu"
    if cuts or isinstance(value, np.generic) or not isinstance(value, NUMBERS):
        with np.errstate(all="ignore"):
            return graph.constant(np.asarray(plain_value).astype(dtype))
    return graph.constant(np.asarray(value, dtype))
