"""Rewrites chains of slice updates to one concatenation: an unrolled scan stacks its results so."""

from __future__ import annotations

from neff.compiler.graph.nodes import Node, derived

__all__ = ["stacked"]

Uses = dict[int, int]
"""Number of readers of each node, by ``id``."""


def stacked(node: Node, uses: Uses) -> Node | None:
    """Concatenate the values of slice updates that cover the array, as an unrolled scan has.

    The last update must write the begin or the end of the array, as in scans, so that a chain is
    walked at most twice.
    """
    dim = _updated(node)
    extent = node.shape[dim] if dim is not None else 0
    if dim is None or (_start(node, dim) != 0 and _limit(node, dim) != extent):
        return None
    parts: dict[int, Node] = {}
    covered, update_node = 0, node
    while update_node.opcode == "update-slice" and _updated(update_node) == dim:
        if update_node is not node and uses.get(id(update_node), 0) > 1:
            return None
        update = update_node.operands[1]
        if _start(update_node, dim) in parts or update.element is not node.element:
            return None
        parts[_start(update_node, dim)] = update
        covered += update.shape[dim]
        update_node = update_node.operands[0]
        if covered >= extent:
            break
    offset = 0
    for start in sorted(parts):
        if start != offset:
            return None
        offset += parts[start].shape[dim]
    if offset != extent or len(parts) < 2:
        return None
    ordered = tuple(parts[start] for start in sorted(parts))
    return derived(node, "concatenate", ordered, node.shape, node.element, dimensions=(dim,))


def _updated(node: Node) -> int | None:
    """Return the only dimension that an update covers in part, without gaps; else None."""
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
