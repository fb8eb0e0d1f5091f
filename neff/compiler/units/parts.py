"""Parts of a concatenation, computed where they belong."""

from __future__ import annotations

from neff.compiler.graph.nodes import Node
from neff.compiler.graph.types import held_as
from neff.compiler.graph.views import View, row_major
from neff.compiler.lowering.lowerer import Lowerer
from neff.compiler.units.fuse import Unit

__all__ = ["place_parts"]

_RUN = 128
"""Bytes of a row from which on rows are stored apart from each other: a copy would read and write them
so too."""


def place_parts(units: list[Unit], lowerer: Lowerer, homes: dict[int, str]) -> None:
    """Let operands of concatenations be computed where they belong, in one piece of memory.

    Args:
        units: of the outermost block, in order.
        lowerer: its ``homes`` are final.
        homes: those of the module's results alone. What shares memory for other reasons may be
            written over while a part is still read.
    """
    computed = {id(node) for unit in units if unit.elementwise for node in unit.nodes}
    for unit in units:
        concatenate = unit.nodes[0]
        if concatenate.opcode != "concatenate" or not concatenate.size:
            continue
        if lowerer.homes.get(id(concatenate)) != homes.get(id(concatenate)):
            continue
        _place(concatenate, computed, lowerer)


def _place(concatenate: Node, computed: set[int], lowerer: Lowerer) -> None:
    dim: int = concatenate.attributes["dimensions"][0]
    dtype = held_as(concatenate).tile
    target: View | None = None
    begin = 0
    for operand in concatenate.operands:
        end = begin + operand.shape[dim]
        source = operand
        while source.opcode in ("reshape", "transpose"):
            source = source.operands[0]
        free = id(source) not in lowerer.homes and id(source) not in lowerer.spots
        if id(source) in computed and source.size and free and held_as(source).tile == dtype:
            target = target or _whole(concatenate, lowerer)
            if target is None:
                return
            starts, limits = [0] * len(concatenate.shape), list(concatenate.shape)
            starts[dim], limits[dim] = begin, end
            region = target.slice(tuple(starts), tuple(limits), (1,) * len(starts))
            view = _seen_from(source, operand, region)
            if view is not None and not (view.contiguous or _stores_runs(source, view)):
                view = None
            if view is not None:
                lowerer.spots[id(source)] = view
        begin = end


def _seen_from(source: Node, operand: Node, region: View) -> View | None:
    """Where a value's elements are when a reshaped or transposed form of it is in ``region``."""
    view: View | None = region
    while operand is not source and view is not None:
        (inner,) = operand.operands
        if operand.opcode == "reshape":
            view = view.reshape(inner.shape)
        else:
            order: tuple[int, ...] = operand.attributes["dimensions"]
            view = view.transpose(tuple(map(order.index, range(len(order)))))
        operand = inner
    return view


def _stores_runs(source: Node, view: View) -> bool:
    """A product each of whose rows is one long piece of memory there."""
    if source.opcode != "dot" or view.strides[-1] != 1:
        return False
    right, fields = source.operands[1], source.attributes
    used_dims = (*fields["rhs_batch"], *fields["rhs_contracting"])
    free = [
        extent for dim, extent in enumerate(right.shape) if dim not in used_dims and extent != 1
    ]
    return free == [source.shape[-1]] and free[0] * held_as(source).tile.itemsize >= _RUN


def _whole(node: Node, lowerer: Lowerer) -> View | None:
    """The memory of a concatenation; None where elements outside are not as those on chip."""
    name = lowerer.homes.get(id(node))
    if name is None:
        view = lowerer.scratch(node.shape, held_as(node).tile)
        lowerer.spots[id(node)] = view
        return view
    port = lowerer.port(View(name, node.shape, row_major(node.shape)))
    if port.wide or port.dtype != held_as(node).tile:
        return None
    lowerer.spots[id(node)] = port.view
    return port.view
