"""The graph that a traced NumPy function leaves: nodes in the order in which they were made."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

import numpy as np

from hlo_tools.trace.location import user_line

__all__ = ["Array", "DType", "Graph", "Node", "Operand", "current_graph"]

Array = np.ndarray[Any, Any]
DType = np.dtype[Any]
Operand: TypeAlias = Any
"""Everything that NumPy accepts as an array: traced arrays, its own, numbers, and nested lists."""

Shape = tuple[int, ...]

_current: ContextVar[Graph | None] = ContextVar("graph", default=None)


def current_graph() -> Graph | None:
    """The graph that is being traced here; None outside of tracing."""
    return _current.get()


class Node:
    """One HLO instruction to be.

    Attributes:
        graph: the graph that it is in.
        opcode: HLO's opcode.
        shape, dtype: of its result; for a tuple, tuples of shapes and dtypes.
        operands: the nodes that it uses.
        attributes: fields of ``HloInstructionProto`` by name, and ``apply`` for what it calls.
        source: (file, line) of the user's code.
        number: place in the graph.
        is_c_ordered: NumPy is certain to keep a new array of this value in C order. Only what is a
            view and what a copy depends on it.
    """

    __slots__ = (
        "attributes", "dtype", "graph", "is_c_ordered", "number", "opcode", "operands", "shape",
        "source",
    )  # fmt: skip

    def __init__(
        self,
        graph: Graph,
        opcode: str,
        shape: Any,
        dtype: Any,
        operands: tuple[Node, ...],
        attributes: dict[str, Any],
        source: tuple[str, int] | None,
        number: int,
    ) -> None:
        self.graph = graph
        self.opcode = opcode
        self.shape = shape
        self.dtype = dtype
        self.operands = operands
        self.attributes = attributes
        self.source = source
        self.number = number
        self.is_c_ordered = opcode in _NEW_MEMORY or all(node.is_c_ordered for node in operands)


_NEW_MEMORY = frozenset(("dot", "convolution", "custom-call"))
"""Instructions whose results are in C order, however their operands lie in memory."""


class Graph:
    """A computation being traced.

    Attributes:
        op_type: the library whose operations it records, for the metadata of its instructions.
        is_told: a warning says that 32 bits stand for 64.
    """

    def __init__(self, name: str, op_type: str = "NumPy") -> None:
        self.name = name
        self.op_type = op_type
        self.nodes: list[Node] = []
        self.parameters: list[Node] = []
        self.parameter_names: list[str] = []
        self.is_told = False
        self._constants: dict[Any, Node] = {}

    @contextmanager
    def current(self) -> Generator[None]:
        """Let :func:`current_graph` be this one in the block."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def emit(
        self,
        opcode: str,
        shape: object,
        dtype: object,
        operands: tuple[Node, ...] = (),
        **attributes: object,
    ) -> Node:
        """Add an instruction at the user's present line."""
        nodes = self.nodes
        node = Node(self, opcode, shape, dtype, operands, attributes, user_line(), len(nodes))
        nodes.append(node)
        return node

    def parameter(self, shape: Shape, dtype: DType, name: str) -> Node:
        """Add the next parameter."""
        node = self.emit("parameter", shape, dtype, parameter_number=len(self.parameters))
        node.source = None
        self.parameters.append(node)
        self.parameter_names.append(name)
        return node

    def constant(self, value: Array) -> Node:
        """A constant with the elements and the dtype of ``value``; equal scalars are shared."""
        if value.ndim:
            node = self.emit("constant", value.shape, value.dtype, value=value.copy())
            node.is_c_ordered = value.flags.c_contiguous
            return node
        key = (value.dtype, value.tobytes())
        node = self._constants.get(key)
        if node is None:
            node = self._constants[key] = self.emit("constant", (), value.dtype, value=value)
        return node

    def shared(self, key: tuple[object, ...], node: Node | None = None) -> Node | None:
        """The node that was kept under ``key``; keeps ``node`` when one is given."""
        if node is not None:
            self._constants[key] = node
        return self._constants.get(key)

    def live(self, results: Sequence[Node]) -> list[Node]:
        """Parameters, and the nodes that results need, in order."""
        needed = {id(node) for node in self.parameters}
        stack = list(results)
        while stack:
            node = stack.pop()
            if id(node) in needed:
                continue
            needed.add(id(node))
            stack += node.operands
        return [node for node in self.nodes if id(node) in needed]
