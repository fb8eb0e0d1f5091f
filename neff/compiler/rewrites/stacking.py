"""Chains of updates of slices that are one concatenation: what an unrolled scan stacks."""

from __future__ import annotations

from neff.compiler.graph.nodes import Node, derived

__all__ = ["stacked"]

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
