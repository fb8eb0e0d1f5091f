"""The graph that the compiler works on: one list of nodes, each with one array as its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from hlo_tools.types.element_types import BY_NAME, ElementType
from neff.compiler.unsupported import UNSUPPORTED, kind_of
from neff.errors import NeffCompileError
from nki_lang.base.dtypes import Array

__all__ = ["Graph", "Node", "derived", "sliced", "uncovered"]


@dataclass(slots=True, eq=False, repr=False)
class Node:
    """One operation with one array as its result.

    A kernel call has a node ``kernel`` (without a shape of its own) and a node ``result`` for
    each of its results.

    Attributes:
        opcode: as HLO writes it.
        operands: nodes that stand before it.
        shape: extents of the result.
        element: element type of the result.
        attributes: what the opcode needs besides operands, under HLO's names.
        name: name of the HLO instruction.
        place: source line or op name of the user's program, for messages and profiles.
    """

    opcode: str
    operands: tuple[Node, ...]
    shape: tuple[int, ...]
    element: ElementType
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    name: str = ""
    place: str = ""

    @property
    def size(self) -> int:
        """Elements of the result."""
        return prod(self.shape)

    @property
    def value(self) -> Array | None:
        """The value of a constant, else None."""
        return self.attributes["value"] if self.opcode == "constant" else None

    @property
    def splat(self) -> Any:
        """The one value that all elements have, as a NumPy scalar, when it is known; else None."""
        if self.opcode in ("broadcast", "reshape", "transpose", "slice", "reverse", "restride"):
            return self.operands[0].splat
        value = self.value
        if value is None or value.size == 0:
            return None
        first = value.reshape(-1)[0]
        if value.size == 1 or self.attributes.get("uniform"):
            return first
        return None

    def describe(self) -> str:
        """``f32[2,3] add.4``: what messages call it."""
        return f"{self.element}[{','.join(map(str, self.shape))}] {self.opcode} {self.name}"

    def __repr__(self) -> str:
        """Return the description; operands share operands, so all of them would be endless."""
        return f"<Node {self.describe()}>"

    def like(self, opcode: str, *operands: Node, element: str = "", **attributes: Any) -> Node:
        """A node of this one's shape and place, for rewrites."""
        kind = BY_NAME[element] if element else self.element
        return Node(opcode, operands, self.shape, kind, attributes, self.name, self.place)


@dataclass(slots=True)
class Graph:
    """A module's entry computation, everything that it calls inlined.

    Attributes:
        name: the module's name.
        parameters: in the order of their numbers.
        nodes: what the results need, operands first; parameters among them.
        results: in result order; one node may stand there twice.
        returns_tuple: the root is a tuple.
        attributes: the module's frontend attributes.
        pairs: 64-bit integers are pairs of words, but for parameters and results.
    """

    name: str
    parameters: list[Node]
    nodes: list[Node]
    results: list[Node]
    returns_tuple: bool
    attributes: dict[str, str] = field(default_factory=dict[str, str])
    pairs: bool = False


def derived(
    like: Node,
    opcode: str,
    operands: Sequence[Node],
    shape: Sequence[int],
    element: ElementType | None = None,
    **fields: Any,
) -> Node:
    """A node with the name and the place of ``like``, and the type of its first operand."""
    kind = element or operands[0].element
    return Node(opcode, tuple(operands), tuple(shape), kind, fields, like.name, like.place)


def sliced(like: Node, value: Node, dim: int, start: int, limit: int) -> Node:
    """The elements from ``start`` to ``limit`` along a dimension."""
    if (start, limit) == (0, value.shape[dim]):
        return value
    starts, limits = [0] * len(value.shape), list(value.shape)
    starts[dim], limits[dim] = start, limit
    shape = [high - low for low, high in zip(starts, limits, strict=True)]
    fields = {"starts": tuple(starts), "limits": tuple(limits), "strides": (1,) * len(shape)}
    return derived(like, "slice", (value,), shape, value.element, **fields)


def uncovered(node: Node, why: str = "", remedy: str = "", *, code: str = "") -> NeffCompileError:
    """The error for a node that the compiler does not cover.

    Args:
        node: what is refused.
        why: what is wrong with it; that its opcode is not covered when empty.
        remedy: what to do; that of the kind when empty.
        code: a key of ``UNSUPPORTED``; by opcode and types when empty.
    """
    code = code or kind_of(node.opcode, [value.element for value in (node, *node.operands)])
    return NeffCompileError(
        f"{node.describe()}: {why or f'the compiler does not cover {node.opcode}'}",
        code=code,
        place=node.place,
        remedy=remedy or UNSUPPORTED[code].remedy,
    )
