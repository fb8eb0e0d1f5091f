"""How HLO's element types are held by the engines.

The engines have no 64-bit arithmetic. A 64-bit integer keeps its 64 bits in the module's inputs
and outputs; inside it is held in 32 bits, the low word, which is exact as long as values fit.
float64 can be converted to and from float32, which is how it is held, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neff.compiler.graph.nodes import Node, uncovered
from neff.errors import NeffCompileError
from nki_lang.base.dtypes import BY_NAME, Array, DType

__all__ = ["HELD", "Held", "held_as", "narrow_constant"]


@dataclass(frozen=True, slots=True)
class Held:
    """How values of an element type are held.

    Attributes:
        tile: type on chip and in scratch.
        outside: type of an input or output of the module.
        kind: ``float``, ``word`` (32-bit integers, exact on GpSimd), ``small`` (8 and 16 bits,
            computed as words), ``pred`` (0 or 1 in a byte) or ``double`` (float64, which is
            only converted, never computed with).
    """

    tile: DType
    outside: DType
    kind: str

    @property
    def wide(self) -> bool:
        """True when inputs and outputs have two words an element."""
        return self.outside.itemsize == 8


def _row(tile: str, kind: str, outside: str = "") -> Held:
    return Held(BY_NAME[tile], BY_NAME[outside or tile], kind)


HELD: dict[str, Held] = {
    "pred": _row("uint8", "pred"),
    "s2": _row("int8", "small"),  # these four are bytes when the module is imported
    "s4": _row("int8", "small"),
    "u2": _row("uint8", "small"),
    "u4": _row("uint8", "small"),
    "s8": _row("int8", "small"),
    "s16": _row("int16", "small"),
    "s32": _row("int32", "word"),
    "s64": _row("int32", "word", "int64"),
    "u8": _row("uint8", "small"),
    "u16": _row("uint16", "small"),
    "u32": _row("uint32", "word"),
    "u64": _row("uint32", "word", "uint64"),
    "f16": _row("float16", "float"),
    "bf16": _row("bfloat16", "float"),
    "f32": _row("float32", "float"),
    "f8e4m3": _row("float8_e4m3", "float"),
    "f8e4m3fn": _row("float8_e4m3fn", "float"),
    "f8e5m2": _row("float8_e5m2", "float"),
    "f64": Held(BY_NAME["float32"], DType("float64", np.float64, "float"), "double"),
}
"""Every element type that is covered."""


def held_as(node: Node) -> Held:
    """How the node's result is held.

    Raises:
        NeffCompileError: ``NEFF-DTYPE`` or ``NEFF-COMPLEX``; the engines have no such type.
    """
    holding = HELD.get(node.element.name)
    if holding is None:
        code = "NEFF-COMPLEX" if node.element.kind == "complex" else "NEFF-DTYPE"
        raise uncovered(node, f"the engines have no type for {node.element}", code=code)
    return holding


def narrow_constant(node: Node, value: Array) -> Array:
    """A constant as it is held; for 64-bit integers its low words.

    Raises:
        NeffCompileError: ``NEFF-INT64``; a value does not fit into 32 bits.
    """
    holding = held_as(node)
    if not holding.wide or holding.kind == "double":
        return np.ascontiguousarray(value).astype(holding.tile.dtype, copy=False)
    limits = np.iinfo(holding.tile.dtype)
    if value.size and (value.min() < limits.min or value.max() > limits.max):
        raise NeffCompileError(
            f"{node.describe()}: a constant beyond 32 bits ({value.min()} to {value.max()})",
            code="NEFF-INT64",
            place=node.place,
            remedy="64-bit integers are computed in 32 bits; use a smaller constant",
        )
    return value.astype(holding.tile.dtype)


def unsupported_type(node: Node, opcode: str) -> NeffCompileError:
    """The error for an operation that is not there for the node's element type."""
    return uncovered(node, f"{opcode} of {node.element} is not covered")
