"""Rows: the leading extents of a value, and whose elements it has or repeats along them."""

from __future__ import annotations

from neff.compiler.graph.nodes import Node

__all__ = ["product_rows", "same_elements", "source_of", "squeezed"]


def product_rows(node: Node) -> tuple[int, ...]:
    """The extents of a product's result in front of its columns: batch and rows."""
    left, fields = node.operands[0], node.attributes
    free = len(left.shape) - len(fields["lhs_contracting"])
    return squeezed(node.shape[:free])


def squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The extents that are not one."""
    return tuple(extent for extent in shape if extent != 1)


def same_elements(node: Node) -> Node:
    """Return the value without the reshapes and broadcasts that only add or drop ones."""
    source, axis = source_of(node)
    return source if axis == "same" else node


def source_of(node: Node) -> tuple[Node, str]:
    """Whose elements a value has: as they are (``same``), or each repeated along a row (``row``).

    Reshapes and broadcasts that only add or drop ones are looked through, and one broadcast whose
    operand has the leading dimensions.
    """
    axis = "same"
    while node.opcode in ("reshape", "broadcast") and node.operands:
        source = node.operands[0]
        if squeezed(source.shape) != squeezed(node.shape):
            if axis == "row" or not _repeats_rows(node):
                break
            axis = "row"
        node = source
    return node, axis


def _repeats_rows(node: Node) -> bool:
    if node.opcode != "broadcast":
        return False
    wide = [dim for dim, extent in enumerate(node.shape) if extent != 1]
    source = node.operands[0]
    row_extents = [
        target
        for extent, target in zip(source.shape, node.attributes["dimensions"], strict=True)
        if extent != 1
    ]
    return bool(row_extents) and row_extents == wide[: len(row_extents)]
