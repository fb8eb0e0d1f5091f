"""Lowers a group of elementwise nodes to one kernel: tile by tile, load, compute, store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from neff.compiler.assembly.budget import Budget
from neff.compiler.graph.nodes import Node
from neff.compiler.graph.views import View
from neff.compiler.lowering.rows.expressions import Evaluator, Facts
from neff.compiler.lowering.rows.spreads import RowEmitter
from neff.compiler.lowering.tiles.balance import Balance
from neff.compiler.lowering.tiles.emitter import Constants, Emitter, Tile, Value
from neff.compiler.lowering.tiles.interleaving import interleaved, takes_turns
from neff.compiler.lowering.tiles.origins import computing
from neff.compiler.lowering.tiles.task import MAX_SPARSE_STEP, Port, Task, core_share
from neff.compiler.lowering.tiles.tiling import Piece, nest, stacked, tiles
from neff.compiler.lowering.tiles.wide import load_value, store_value
from nki_lang.base.targets import Target

__all__ = ["Group", "copy_task", "group_task"]

_MAX_COPY_ELEMENTS = 4096
"""Limit on the elements of a copy's tile in each partition; see
:class:`neff.compiler.plans.Tuning`.
"""

_MAX_INTERLEAVED = 4
"""Tiles that are interleaved: fewer are not enough for both engines, more have short tiles."""

_MAX_TEMPORARIES = 6
"""Tiles that the rule of an operation may need besides its operands."""

_NO_TEMPORARY_OPCODES = frozenset(
    {"add", "subtract", "multiply", "maximum", "minimum", "negate", "exponential", "tanh", "log",
     "logistic", "sqrt", "rsqrt", "abs", "and", "or", "xor", "not", "select", "clamp"}
)  # fmt: skip
"""Operations that need no tile besides operands and result."""


@dataclass(slots=True)
class Group:
    """The input of a group's kernel.

    Attributes:
        nodes: the nodes, operands first.
        inputs: values that the group reads, by ``id`` of the node: a port, or a number.
        outputs: values that are stored: (node, port).
        sources: ``id`` of an operand -> (``id`` of the node whose elements it has, ``same``).
    """

    nodes: list[Node]
    inputs: dict[int, Port | np.generic]
    outputs: list[tuple[Node, Port]]
    sources: dict[int, tuple[int, str]]


def group_task(
    name: str, group: Group, target: Target, elements: int, *, in_place: bool = False
) -> Task:
    """Return the kernel of a group.

    Args:
        name: the name of the kernel.
        group: the computation.
        target: the family.
        elements: limit on the elements of a tile in each partition.
        in_place: a result has the memory of an operand.
    """
    ports = {key: port for key, port in group.inputs.items() if isinstance(port, Port)}
    reads = list(dict.fromkeys(port.view.buffer for port in ports.values()))
    writes = list(dict.fromkeys(port.view.buffer for _, port in group.outputs))
    order = list(ports)
    views = [ports[key].view for key in order] + [port.view for _, port in group.outputs]
    dims = nest(_aligned(views))
    steps = [port.view.strides[-1] for port in ports.values() if port.view.shape]
    skipped_elements = sum(step - 1 for step in steps if 2 <= step <= MAX_SPARSE_STEP)
    at_once = 1 if in_place else _tiles_at_once(group, target)
    limit = _tile_limit(group, target, elements, at_once, skipped_elements)

    facts = Facts(group.nodes, {id(node) for node, _ in group.outputs}, group.sources)
    numbers = target.generation >= 3

    def body(tensors: dict[str, Tile]) -> None:
        constants: Constants = {}
        balance = Balance(target.generation >= 3)
        pieces = tiles(dims, limit, len(views))
        tile_steps = (
            _Tile(
                group, piece, tensors, order,
                RowEmitter(piece.partitions, 1, piece.elements, constants),
            ).run(facts, numbers, balance)
            for piece in core_share(pieces if in_place else stacked(pieces))
        )  # fmt: skip
        interleaved(tile_steps, at_once)

    return Task(name, reads, writes, body, facts.idioms, divides=True)


def copy_task(name: str, source: Port, target: Port) -> Task:
    """Return a kernel that copies a view to another of the same shape, 64-bit integers too."""
    views = _aligned([source.view, target.view])
    dims = nest(views)
    reads, writes = [source.view.buffer], [target.view.buffer]

    def body(tensors: dict[str, Tile]) -> None:
        for piece in tiles(dims, _MAX_COPY_ELEMENTS, 2):
            emitter = Emitter(piece.partition.extent, piece.elements, {})
            tile = load_value(emitter, tensors[source.view.buffer], source, piece, 0, target.dtype)
            store_value(emitter, tensors[target.view.buffer], target, piece, 1, tile)

    return Task(name, reads, writes, body)


class _Tile:
    """Computes a group on one tile."""

    def __init__(
        self,
        group: Group,
        piece: Piece,
        tensors: dict[str, Tile],
        order: list[int],
        emitter: RowEmitter,
    ) -> None:
        self._group = group
        self._piece = piece
        self._tensors = tensors
        self._order = order
        self._emitter = emitter

    def run(self, facts: Facts, numbers: bool, balance: Balance) -> Iterator[None]:
        """Load, compute, store; yield after each node."""
        stores: dict[int, list[tuple[int, Port]]] = {}
        for number, (node, port) in enumerate(self._group.outputs, start=len(self._order)):
            stores.setdefault(id(node), []).append((number, port))
        values = Evaluator(facts, lambda _: self._emitter, self._load, numbers, balance)
        for node in self._group.nodes:
            values.compute(node)
            with computing(node):
                for number, port in stores.get(id(node), ()):
                    tensor = self._tensors[port.view.buffer]
                    tile = values.result(node)
                    store_value(self._emitter, tensor, port, self._piece, number, tile)
            yield

    def _load(self, key: int) -> Value:
        source = self._group.inputs[key]
        if not isinstance(source, Port):
            return source
        tensor = self._tensors[source.view.buffer]
        return load_value(self._emitter, tensor, source, self._piece, self._order.index(key))


def _aligned(views: list[View]) -> list[View]:
    """Return the views without dimensions of one element, so that all have one shape."""
    aligned: list[View] = []
    for view in views:
        dims = [dim for dim, count in enumerate(view.shape) if count != 1]
        aligned.append(
            View(
                view.buffer,
                tuple(view.shape[dim] for dim in dims),
                tuple(view.strides[dim] for dim in dims),
                view.offset,
            )
        )
    return aligned


def _tiles_at_once(group: Group, target: Target) -> int:
    """Return how many tiles are interleaved; on trn1 GpSimd and the vector engine share a port."""
    return _MAX_INTERLEAVED if target.generation >= 3 and takes_turns(group.nodes) else 1


def _tile_limit(
    group: Group, target: Target, elements: int, at_once: int, skipped_elements: int
) -> int:
    """Return the elements of a tile in each partition: a power of two.

    The tiles that are live at the same time fit into two thirds of SBUF; the last third holds loads and
    stores in progress. ``skipped_elements`` are loaded besides each element, for all operands.
    """
    alive = _max_live_values(group) + skipped_elements
    if any(node.opcode not in _NO_TEMPORARY_OPCODES for node in group.nodes):
        alive += _MAX_TEMPORARIES
    tile_elements = Budget(target).working_bytes() // (4 * alive * at_once)
    return max(16, min(elements, 1 << (tile_elements.bit_length() - 1)))


def _max_live_values(group: Group) -> int:
    """Return the largest number of values that are live at the same time."""
    last: dict[int, int] = {}
    for number, node in enumerate(group.nodes):
        for operand in node.operands:
            last[group.sources[id(operand)][0]] = number
    alive: set[int] = set()
    maximum = 0
    for number, node in enumerate(group.nodes):
        alive.update(group.sources[id(operand)][0] for operand in node.operands)
        alive.add(id(node))
        maximum = max(maximum, len(alive))
        alive = {key for key in alive if last.get(key, -1) > number}
    return maximum
