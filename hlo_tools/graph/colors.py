"""Colors of graph nodes: one per kind of work, dark enough for white letters."""

from __future__ import annotations

from hlo_tools.types.opcodes import OPCODES, Kind

__all__ = ["COLORS", "kind_of"]

COLORS = {
    "kernel": "#7c3aed",
    "input": "#64748b",
    "constant": "#78716c",
    "matrix": "#2563eb",
    "reduction": "#0f766e",
    "elementwise": "#15803d",
    "movement": "#a16207",
    "control": "#db2777",
    "collective": "#dc2626",
    "other": "#475569",
}

_COLOR_OF_KIND: dict[Kind, str] = {
    "algebra": "matrix",
    "async": "control",
    "collective": "collective",
    "control": "control",
    "custom": "control",
    "elementwise": "elementwise",
    "movement": "movement",
    "normalization": "reduction",
    "order": "control",
    "product": "matrix",
    "reduction": "reduction",
    "source": "input",
    "transfer": "collective",
    "tuple": "movement",
}
_COLOR_OF_OPCODE = {
    "constant": "constant",
    "copy-done": "movement",
    "copy-start": "movement",
    "infeed": "input",
    "map": "control",
    "partition-id": "collective",
    "replica-id": "collective",
    "scan": "control",
    "scatter": "movement",
}
"""Opcodes that readers of a graph group differently from the opcode table."""


def kind_of(opcode: str, is_kernel: bool) -> str:
    """Return the color name of an opcode; opcodes that the table lacks are ``other``."""
    if is_kernel:
        return "kernel"
    if opcode not in OPCODES:
        return "other"
    return _COLOR_OF_OPCODE.get(opcode) or _COLOR_OF_KIND[OPCODES[opcode].kind]
