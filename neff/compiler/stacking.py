"""Arrays that are put together of parts: chains of updates as one concatenation, and parts that are
computed where they belong."""

from __future__ import annotations

from neff.compiler.fuse import Unit
from neff.compiler.graph import Node, derived
from neff.compiler.lowering.lowerer import Lowerer
from neff.compiler.types import held_as
from neff.compiler.views import View, row_major

__all__ = ["place_parts", "stacked"]

Uses = dict[int, int]
"""How often each node is read, by ``id``."""


def stacked(node: Node, uses: Uses) -> Node | None:
    """Updates of slices that are all of the array, side by side: what an unrolled scan stacks.

    The last update must be that of the array's begin or end, as it is in scans, so that a chain is
    walked twice at most.
    """
    dim = _updated(node)
    extent = node.shape[dim] if dim is not None else 0
    if dim is None or (_start(node, dim) != 0 and _limit(node, dim) != extent):
        return None
    parts: dict[int, Node] = {}
    covered, one = 0, node
    while one.opcode == "update-slice" and _updated(one) == dim:
        if one is not node and uses.get(id(one), 0) > 1:
            return None
        update = one.operands[1]
        if _start(one, dim) in parts or update.element is not node.element:
            return None
        parts[_start(one, dim)] = update
        covered += update.shape[dim]
        one = one.operands[0]
        if covered >= extent:
            break
    at = 0
    for start in sorted(parts):
        if start != at:
            return None
        at += parts[start].shape[dim]
    if at != extent or len(parts) < 2:
        return None
    ordered = tuple(parts[start] for start in sorted(parts))
    return derived(node, "concatenate", ordered, node.shape, node.element, dimensions=(dim,))


def _updated(node: Node) -> int | None:
    """The one dimension of which an update has a part, without gaps; None for any other update."""
    if node.opcode != "update-slice" or any(step != 1 for step in node.attributes["strides"]):
        return None
    update = node.operands[1]
    dims = [dim for dim, extent in enumerate(node.shape) if update.shape[dim] != extent]
    return dims[0] if len(dims) == 1 else None


def _start(node: Node, dim: int) -> int:
    starts: tuple[int, ...] = node.attributes["starts"]
    return starts[dim]


def _limit(node: Node, dim: int) -> int:
    limits: tuple[int, ...] = node.attributes["limits"]
    return limits[dim]


def place_parts(units: list[Unit], lowerer: Lowerer, homes: dict[int, str]) -> None:
    """Let operands of concatenations be computed where they belong, in one piece of memory.

    Args:
        units: of the outermost block, in order.
        lowerer: its ``homes`` are final.
        homes: those of the module's results alone. What shares memory for other reasons may be
            written over while a part is still read.
    """
    made = {id(node) for unit in units if unit.elementwise for node in unit.nodes}
    for unit in units:
        whole = unit.nodes[0]
        if whole.opcode != "concatenate" or not whole.size:
            continue
        if lowerer.homes.get(id(whole)) != homes.get(id(whole)):
            continue
        _place(whole, made, lowerer)


def _place(whole: Node, made: set[int], lowerer: Lowerer) -> None:
    dim: int = whole.attributes["dimensions"][0]
    dtype = held_as(whole).tile
    target: View | None = None
    begin = 0
    for operand in whole.operands:
        end = begin + operand.shape[dim]
        source = operand
        while source.opcode == "reshape":
            source = source.operands[0]
        free = id(source) not in lowerer.homes and id(source) not in lowerer.spots
        if id(source) in made and source.size and free and held_as(source).tile == dtype:
            target = target or _whole(whole, lowerer)
            if target is None:
                return
            starts, limits = [0] * len(whole.shape), list(whole.shape)
            starts[dim], limits[dim] = begin, end
            part = target.slice(tuple(starts), tuple(limits), (1,) * len(starts))
            view = part.reshape(source.shape) if part.contiguous else None
            if view is not None:
                lowerer.spots[id(source)] = view
        begin = end


def _whole(node: Node, lowerer: Lowerer) -> View | None:
    """The memory of a concatenation; None where elements outside are not as those on chip."""
    name = lowerer.homes.get(id(node))
    if name is None:
        view = lowerer.scratch(node.shape, held_as(node).tile)
        lowerer.spots[id(node)] = view
        return view
    port = lowerer.port(View(name, node.shape, row_major(node.shape)))
    return None if port.wide or port.dtype != held_as(node).tile else port.view
