"""A group of elementwise nodes as one kernel: tile by tile, load, compute, store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from neff.compiler.graph.nodes import Node
from neff.compiler.graph.views import View
from neff.compiler.lowering.balance import Balance
from neff.compiler.lowering.emitter import Emitter, Value
from neff.compiler.lowering.expressions import Evaluator, Facts
from neff.compiler.lowering.spreads import RowEmitter
from neff.compiler.lowering.task import SPARSE, Port, Task, own_part
from neff.compiler.lowering.tiling import Piece, nest, stacked, tiles
from neff.compiler.lowering.wide import load_value, store_value
from nki_lang.base.targets import Target

__all__ = ["Group", "copy_task", "group_task"]

_ELEMENTS = 4096
"""Elements of a copy's tile in each partition at most; see :class:`neff.compiler.plans.Tuning`."""

_TEMPORARIES = 6
"""Tiles that the rule of one operation may hold besides its operands."""

_PLAIN = frozenset(
    {"add", "subtract", "multiply", "maximum", "minimum", "negate", "exponential", "tanh", "log",
     "logistic", "sqrt", "rsqrt", "abs", "and", "or", "xor", "not", "select", "clamp"}
)  # fmt: skip
"""Operations that need no tile besides operands and result."""


@dataclass(slots=True)
class Group:
    """What a group's kernel needs to know.

    Attributes:
        nodes: in an order in which operands come first.
        inputs: what the group reads, by ``id`` of the node: where it is, or its one number.
        outputs: what others read: (node, where it goes).
        sources: ``id`` of an operand -> (``id`` of the node that it has the elements of, ``same``).
    """

    nodes: list[Node]
    inputs: dict[int, Port | np.generic]
    outputs: list[tuple[Node, Port]]
    sources: dict[int, tuple[int, str]]


def group_task(
    name: str, group: Group, target: Target, elements: int, *, in_place: bool = False
) -> Task:
    """The kernel of a group.

    Args:
        name: of the kernel.
        group: what it computes.
        target: family.
        elements: of a tile in each partition at most.
        in_place: a result has the memory of an operand.
    """
    ports = {key: port for key, port in group.inputs.items() if isinstance(port, Port)}
    reads = list(dict.fromkeys(port.view.buffer for port in ports.values()))
    writes = list(dict.fromkeys(port.view.buffer for _, port in group.outputs))
    order = list(ports)
    views = [ports[key].view for key in order] + [port.view for _, port in group.outputs]
    dims = nest(_aligned(views))
    steps = [port.view.strides[-1] for port in ports.values() if port.view.shape]
    apart = sum(step - 1 for step in steps if 2 <= step <= SPARSE)
    limit = _tile_limit(group, target, elements, apart)

    facts = Facts(group.nodes, {id(node) for node, _ in group.outputs}, group.sources)
    numbers = target.generation >= 3

    def body(tensors: dict[str, Any]) -> None:
        constants: dict[Any, Any] = {}
        balance = Balance(target.generation >= 3)
        pieces = tiles(dims, limit, len(views))
        for piece in own_part(pieces if in_place else stacked(pieces)):
            emitter = RowEmitter(piece.partitions, 1, piece.elements, constants)
            _Tile(group, piece, tensors, order, emitter).run(facts, numbers, balance)

    return Task(name, reads, writes, body, facts.idioms, divides=True)


def copy_task(name: str, source: Port, target: Port) -> Task:
    """A kernel that copies one view to another of the same shape, 64-bit integers too."""
    views = _aligned([source.view, target.view])
    dims = nest(views)
    reads, writes = [source.view.buffer], [target.view.buffer]

    def body(tensors: dict[str, Any]) -> None:
        for piece in tiles(dims, _ELEMENTS, 2):
            emitter = Emitter(piece.partition.extent, piece.elements, {})
            tile = load_value(emitter, tensors[source.view.buffer], source, piece, 0, target.dtype)
            store_value(emitter, tensors[target.view.buffer], target, piece, 1, tile)

    return Task(name, reads, writes, body)


class _Tile:
    """The work on one tile."""

    def __init__(
        self,
        group: Group,
        piece: Piece,
        tensors: dict[str, Any],
        order: list[int],
        emitter: RowEmitter,
    ) -> None:
        self._group = group
        self._piece = piece
        self._tensors = tensors
        self._order = order
        self._emitter = emitter

    def run(self, facts: Facts, numbers: bool, balance: Balance) -> None:
        stores: dict[int, list[tuple[int, Port]]] = {}
        for number, (node, port) in enumerate(self._group.outputs, start=len(self._order)):
            stores.setdefault(id(node), []).append((number, port))
        values = Evaluator(facts, lambda _: self._emitter, self._load, numbers, balance)
        for node in self._group.nodes:
            values.compute(node)
            for number, port in stores.get(id(node), ()):
                tensor = self._tensors[port.view.buffer]
                tile = values.result(node)
                store_value(self._emitter, tensor, port, self._piece, number, tile)

    def _load(self, key: int) -> Value:
        source = self._group.inputs[key]
        if not isinstance(source, Port):
            return source
        tensor = self._tensors[source.view.buffer]
        return load_value(self._emitter, tensor, source, self._piece, self._order.index(key))


def _aligned(views: list[View]) -> list[View]:
    """The views without dimensions of one element, so that all have one shape."""
    aligned: list[View] = []
    for view in views:
        kept = [dim for dim, count in enumerate(view.shape) if count != 1]
        aligned.append(
            View(
                view.buffer,
                tuple(view.shape[dim] for dim in kept),
                tuple(view.strides[dim] for dim in kept),
                view.offset,
            )
        )
    return aligned


def _tile_limit(group: Group, target: Target, elements: int, apart: int) -> int:
    """Elements of a tile in each partition: a power of two, so that what is alive at once fits
    into two thirds of SBUF and the rest can hold what is being loaded or stored.

    ``apart``: elements that are loaded besides each one that is wanted, of all operands.
    """
    alive = _most_alive(group) + apart
    if any(node.opcode not in _PLAIN for node in group.nodes):
        alive += _TEMPORARIES
    room = target.sbuf_usable_bytes * 2 // 3 // (4 * alive)
    return max(16, min(elements, 1 << (room.bit_length() - 1)))


def _most_alive(group: Group) -> int:
    """Values that are needed at the same time, at most."""
    last: dict[int, int] = {}
    for number, node in enumerate(group.nodes):
        for operand in node.operands:
            last[group.sources[id(operand)][0]] = number
    alive: set[int] = set()
    most = 0
    for number, node in enumerate(group.nodes):
        alive.update(group.sources[id(operand)][0] for operand in node.operands)
        alive.add(id(node))
        most = max(most, len(alive))
        alive = {key for key in alive if last.get(key, -1) > number}
    return most
