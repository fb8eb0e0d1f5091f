"""TracedArray: what a traced function gets instead of a NumPy array, and does everything with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.errors import refuse
from hlo_tools.trace.graph import Graph, Node
from hlo_tools.trace.promotion import Kind, narrow, narrow_array

__all__ = ["TracedArray", "as_node", "graph_of", "kind_of", "view"]

_NUMBERS = (bool, int, float, complex)
_WEAK = (int, float, complex)
"""Python numbers that take the dtype of the array beside them; a bool is NumPy's bool."""
_FUNCTIONS: dict[Any, Callable[..., Any]] = {}
"""NumPy function to what it does with traced arrays; filled by :mod:`hlo_tools.trace.functions`."""


def _operator(name: str, *, swapped: bool = False) -> Callable[[Any, Any], Any]:
    ufunc = getattr(np, name)

    def operator(self: TracedArray, other: Any) -> Any:
        from hlo_tools.trace.ufuncs import call

        if not isinstance(other, (TracedArray, np.ndarray, np.generic, *_NUMBERS, list, tuple)):
            return NotImplemented
        return call(ufunc, (other, self) if swapped else (self, other), {})

    return operator


def _in_place(name: str) -> Callable[[Any, Any], Any]:
    ufunc = getattr(np, name)

    def operator(self: TracedArray, other: Any) -> TracedArray:
        from hlo_tools.trace.ufuncs import call

        return call(ufunc, (self, other), {"out": (self,)})

    return operator


class TracedArray:
    """An array whose elements are known only when the module runs.

    It has NumPy's shape, dtype, operators, methods and indexing, and is taken by NumPy's ufuncs
    and functions. Writing to it (``a[...] = b``, ``a += b``, ``out=a``) changes it, and what it is
    a view of, as in NumPy; a parameter that is written to becomes an output.
    """

    __slots__ = ("_node", "_parent", "_read", "_version", "_write", "is_written", "version")
    __array_priority__ = 1000

    def __init__(self, node: Node) -> None:
        self._node = node
        self._parent: TracedArray | None = None
        self._read: Any = None
        self._write: Any = None
        self._version = 0
        self.version = 0
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
    def shape(self) -> tuple[int, ...]:
        return self._node.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._node.dtype

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
        """Those of a C-contiguous array; traced arrays have no other."""
        steps = [self.itemsize]
        for size in self.shape[:0:-1]:
            steps.append(steps[-1] * size)
        return tuple(reversed(steps)) if self.shape else ()

    @property
    def T(self) -> TracedArray:
        return np.transpose(self)  # pyright: ignore

    @property
    def mT(self) -> TracedArray:
        return np.swapaxes(self, -1, -2)  # pyright: ignore

    @property
    def real(self) -> TracedArray:
        return np.real(self)  # pyright: ignore

    @property
    def imag(self) -> TracedArray:
        return np.imag(self)  # pyright: ignore

    @property
    def flat(self) -> Iterator[TracedArray]:
        return iter(np.ravel(self))  # pyright: ignore

    def write(self, node: Node) -> None:
        """Change its value, and that of what it is a view of."""
        parent = self._parent
        if parent is not None:
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

    def _scalar(self) -> Any:
        raise refuse(
            "Python control flow or a Python number depends on a traced value",
            code="HLO-TRACE-VALUE",
            remedy="use numpy.where, numpy.maximum or masks; make it a keyword that is no array",
        )

    __bool__ = __int__ = __float__ = __complex__ = __index__ = _scalar
    item = tolist = _scalar

    # NumPy's protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from hlo_tools.trace import ufuncs

        return ufuncs.dispatch(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        implementation = _FUNCTIONS.get(func)
        if implementation is None:
            from hlo_tools.trace import functions

            functions.load()
            implementation = _FUNCTIONS.get(func)
        if implementation is None:
            name = f"{getattr(func, '__module__', 'numpy')}.{getattr(func, '__name__', func)}"
            raise refuse(
                f"{name} is not known for traced arrays",
                code="HLO-TRACE-FUNCTION",
                remedy="write it with functions that are; the list is hlo_tools.trace.supported()",
            )
        return implementation(*args, **kwargs)

    # Operators

    __add__, __radd__, __iadd__ = _operator("add"), _operator("add", swapped=True), _in_place("add")
    __sub__, __rsub__ = _operator("subtract"), _operator("subtract", swapped=True)
    __mul__, __rmul__ = _operator("multiply"), _operator("multiply", swapped=True)
    __truediv__, __rtruediv__ = _operator("divide"), _operator("divide", swapped=True)
    __floordiv__ = _operator("floor_divide")
    __rfloordiv__ = _operator("floor_divide", swapped=True)
    __mod__, __rmod__ = _operator("remainder"), _operator("remainder", swapped=True)
    __divmod__, __rdivmod__ = _operator("divmod"), _operator("divmod", swapped=True)
    __pow__, __rpow__ = _operator("power"), _operator("power", swapped=True)
    __matmul__, __rmatmul__ = _operator("matmul"), _operator("matmul", swapped=True)
    __and__, __rand__ = _operator("bitwise_and"), _operator("bitwise_and", swapped=True)
    __or__, __ror__ = _operator("bitwise_or"), _operator("bitwise_or", swapped=True)
    __xor__, __rxor__ = _operator("bitwise_xor"), _operator("bitwise_xor", swapped=True)
    __lshift__, __rlshift__ = _operator("left_shift"), _operator("left_shift", swapped=True)
    __rshift__, __rrshift__ = _operator("right_shift"), _operator("right_shift", swapped=True)
    __isub__, __imul__, __itruediv__ = _in_place("subtract"), _in_place("multiply"), _in_place("divide")  # fmt: skip
    __ifloordiv__, __imod__, __ipow__ = _in_place("floor_divide"), _in_place("remainder"), _in_place("power")  # fmt: skip
    __iand__, __ior__, __ixor__ = _in_place("bitwise_and"), _in_place("bitwise_or"), _in_place("bitwise_xor")  # fmt: skip
    __ilshift__, __irshift__, __imatmul__ = _in_place("left_shift"), _in_place("right_shift"), _in_place("matmul")  # fmt: skip
    __lt__, __le__ = _operator("less"), _operator("less_equal")
    __gt__, __ge__ = _operator("greater"), _operator("greater_equal")
    __eq__, __ne__ = _operator("equal"), _operator("not_equal")  # pyright: ignore
    __hash__ = None  # pyright: ignore

    def __neg__(self) -> Any:
        return np.negative(self)  # pyright: ignore

    def __pos__(self) -> Any:
        return np.positive(self)  # pyright: ignore

    def __abs__(self) -> Any:
        return np.absolute(self)  # pyright: ignore

    def __invert__(self) -> Any:
        return np.invert(self)  # pyright: ignore

    # Indexing

    def __getitem__(self, key: Any) -> TracedArray:
        from hlo_tools.trace import indexing

        return indexing.get(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        from hlo_tools.trace import indexing

        indexing.put(self, key, value)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[TracedArray]:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        return (self[number] for number in range(self.shape[0]))

    def __repr__(self) -> str:
        return f"TracedArray({self.dtype}{list(self.shape)}, {self._node.opcode})"

    # Methods: those of numpy.ndarray that are not functions of the same name (see below)

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> TracedArray:
        return TracedArray(hlo.convert(self.node, narrow(dtype)))

    def view(self, dtype: Any) -> TracedArray:
        target = np.dtype(dtype)
        if target.itemsize != self.itemsize:
            raise refuse(
                f"a traced {self.dtype} array has no view as {target}, of another size",
                code="HLO-TRACE-FUNCTION",
                remedy="view as a type of the same size, or use astype",
            )
        return TracedArray(hlo.bitcast(self.node, target))

    def reshape(self, *shape: Any, order: str = "C", **kwargs: Any) -> TracedArray:
        target = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return np.reshape(self, target, order=order)  # pyright: ignore

    def transpose(self, *axes: Any) -> TracedArray:
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return np.transpose(self, order or None)  # pyright: ignore

    def flatten(self, order: str = "C") -> TracedArray:
        return TracedArray(np.ravel(self, order).node)  # pyright: ignore

    def fill(self, value: Any) -> None:
        self[...] = value

    def conj(self) -> TracedArray:
        return np.conjugate(self)  # pyright: ignore

    conjugate = conj

    def dot(self, other: Any) -> TracedArray:
        return np.dot(self, other)  # pyright: ignore


def _method(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def method(self: TracedArray, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    method.__name__ = name
    return method


for _name in (
    "sum", "prod", "max", "min", "mean", "var", "std", "any", "all", "argmax", "argmin",
    "cumsum", "cumprod", "ptp", "squeeze", "swapaxes", "ravel", "repeat", "take", "clip", "round",
    "copy", "trace", "diagonal", "argsort",
):  # fmt: skip
    setattr(TracedArray, _name, _method(_name))


def view(
    base: TracedArray, node: Node, read: Callable[[Node], Node], write: Callable[[Node, Node], Node]
) -> TracedArray:
    """A new array that shares memory with ``base``.

    Args:
        read: the view's value for a value of the base.
        write: the base's new value for its old one and a new value of the view.
    """
    array = TracedArray(node)
    array._parent, array._read, array._write = base, read, write
    array._version = base.version
    return array


def kind_of(value: Any) -> Kind:
    """What promotion needs to know of an operand: its dtype, or the type of a Python number."""
    if isinstance(value, TracedArray):
        return value.dtype
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype
    for kind in _WEAK:
        if isinstance(value, kind) and not isinstance(value, bool):
            return kind
    return np.asarray(value).dtype


def graph_of(values: Any) -> Graph:
    """The graph of the first traced array among operands (lists of operands are looked into)."""
    found = _graph_in(values)
    if found is None:
        raise TypeError("no traced array among the operands")
    return found


def _graph_in(values: Any) -> Graph | None:
    for value in values:
        if isinstance(value, TracedArray):
            return value._node.graph
        if isinstance(value, (list, tuple)):
            found = _graph_in(value)
            if found is not None:
                return found
    return None


def as_node(value: Any, graph: Graph, dtype: np.dtype[Any] | None = None) -> Node:
    """An operand as a node, converted to ``dtype``; numbers and arrays become constants.

    Raises:
        OverflowError: a Python number that the dtype does not hold, as in NumPy.
        TraceError: an array of another function's trace (HLO-TRACE-LEAK).
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
        stacked = np.stack([v if isinstance(v, TracedArray) else np.asarray(v) for v in value])
        return as_node(stacked, graph, dtype)
    if isinstance(value, np.ndarray) or dtype is None:
        array = narrow_array(np.asarray(value))
        with np.errstate(all="ignore"):
            return graph.constant(array if dtype is None else array.astype(dtype))
    if isinstance(value, np.generic) or not isinstance(value, _NUMBERS):
        with np.errstate(all="ignore"):
            return graph.constant(np.asarray(value).astype(dtype))
    return graph.constant(np.asarray(value, dtype))
