"""Real arrays with operators: what rules for complex numbers write their formulas with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from hlo_tools.ir.instruction import Instruction
from hlo_tools.rewrite.emitting import constant, plain, with_element
from hlo_tools.types.shape import Shape

__all__ = ["REAL_ELEMENTS", "Operand", "Pair", "RealArray", "is_complex"]

REAL_ELEMENTS = {"c64": "f32", "c128": "f64"}
"""Complex element type -> that of its parts."""


@dataclass(frozen=True, slots=True)
class RealArray:
    """An array of real numbers, or of truth values; operators add instructions to its computation.

    Attributes:
        view: the instruction.
        source: the instruction of the module that the new instructions are for; they get its
            metadata and its name.
    """

    view: Instruction
    source: Instruction

    @property
    def shape(self) -> Shape:
        """Shape of the instruction."""
        return self.view.shape

    def add(
        self, opcode: str, *operands: Operand, element: str = "", **fields: object
    ) -> RealArray:
        """Add an elementwise operation of this array and other operands.

        Args:
            opcode: the operation.
            operands: arrays of the same shape, or numbers.
            element: element type of the result; that of this array when not given.
            fields: other fields of the instruction.
        """
        views = [self.view, *(self._array(operand).view for operand in operands)]
        shape = with_element(self.shape, element) if element else self.shape
        return RealArray(plain(self.source, opcode, shape, views, **fields), self.source)

    def filled(self, number: float) -> RealArray:
        """Return an array of this shape and type with one number everywhere."""
        return RealArray(constant(self.source, number, self.shape), self.source)

    def select(self, chosen: Operand, otherwise: Operand) -> RealArray:
        """Select elements where this array of truth values is true."""
        like = chosen if isinstance(chosen, RealArray) else otherwise
        assert isinstance(like, RealArray)
        arrays = [like._array(operand) for operand in (chosen, otherwise)]
        views = [self.view, *(array.view for array in arrays)]
        return RealArray(plain(self.source, "select", like.shape, views), self.source)

    def compare(self, direction: str, operand: Operand) -> RealArray:
        """Compare: ``EQ``, ``NE``, ``LT``, ``LE``, ``GT`` or ``GE``."""
        return self.add("compare", operand, element="pred", comparison_direction=direction)

    def is_infinite(self) -> RealArray:
        """Return True where the element is infinite."""
        return abs(self).compare("EQ", float("inf"))

    def _array(self, operand: Operand) -> RealArray:
        return operand if isinstance(operand, RealArray) else self.filled(operand)

    def __add__(self, operand: Operand) -> RealArray:
        return self.add("add", operand)

    def __sub__(self, operand: Operand) -> RealArray:
        return self.add("subtract", operand)

    def __mul__(self, operand: Operand) -> RealArray:
        return self.add("multiply", operand)

    def __truediv__(self, operand: Operand) -> RealArray:
        return self.add("divide", operand)

    def __neg__(self) -> RealArray:
        return self.add("negate")

    def __abs__(self) -> RealArray:
        return self.add("abs")

    def __and__(self, operand: RealArray) -> RealArray:
        return self.add("and", operand)

    def __or__(self, operand: RealArray) -> RealArray:
        return self.add("or", operand)


Operand: TypeAlias = "RealArray | float"


@dataclass(frozen=True, slots=True)
class Pair:
    """The real and the imaginary parts of a complex array, of the same shape."""

    real: RealArray
    imag: RealArray

    @property
    def source(self) -> Instruction:
        """The instruction that the pair is for."""
        return self.real.source

    @property
    def views(self) -> tuple[Instruction, Instruction]:
        """Both instructions."""
        return self.real.view, self.imag.view

    def on_behalf_of(self, source: Instruction) -> Pair:
        """Return the same arrays, to which formulas of another instruction are applied."""
        return Pair(RealArray(self.real.view, source), RealArray(self.imag.view, source))


def is_complex(shape: Shape) -> bool:
    """Return True for complex arrays, and for tuples that contain any."""
    return any(leaf.element.name in REAL_ELEMENTS for _, leaf in shape.leaves())
