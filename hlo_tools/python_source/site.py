"""How a row of a table sees the instruction that it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from hlo_tools.errors import HloUnsupportedError
from hlo_tools.ir.instruction import Instruction
from hlo_tools.types.shape import Shape

if TYPE_CHECKING:
    from hlo_tools.schema.messages import HloInstructionProto

__all__ = [
    "Rows",
    "Site",
    "Target",
    "UnwritableError",
    "memory_order",
    "simple_reducer",
    "tuple_text",
]


class UnwritableError(HloUnsupportedError):
    """An instruction that the target has no source for."""

    default_code = "HLO-PYTHON-OPCODE"


@dataclass(frozen=True, slots=True)
class Site:
    """One instruction, and how the source calls what it takes.

    Attributes:
        instruction: the instruction.
        operands: the expressions of its operands.
        functions: the functions that its called computations have become.
        dtypes: the prefix of element types, such as ``jnp.``.
    """

    instruction: Instruction
    operands: tuple[str, ...]
    functions: tuple[str, ...]
    dtypes: str

    @property
    def row(self) -> HloInstructionProto:
        """The instruction's message."""
        return self.instruction.proto

    @property
    def shape(self) -> Shape:
        """The shape of the result."""
        return self.instruction.shape

    @property
    def extents(self) -> tuple[int, ...]:
        """The extents of the result."""
        return tuple(self.shape.dimensions)

    @property
    def kind(self) -> str:
        """The kind of the result's elements: ``"float"``, ``"int"`` and so on."""
        return self.shape.element.kind

    @property
    def dtype(self) -> str:
        """The element type of the result as an expression."""
        return self.dtype_of(self.shape)

    def operand_shape(self, index: int) -> Shape:
        """The shape of an operand."""
        return self.instruction.operands[index].shape

    def dtype_of(self, shape: Shape) -> str:
        """An element type as an expression.

        Raises:
            UnwritableError: the target has no such type.
        """
        dtype = shape.dtype
        if dtype is None or shape.element.bits == 6:
            raise self.refused(f"has the element type {shape.element}")
        name = {"bool": "bool_"}.get(dtype.name, dtype.name)
        if self.dtypes == "np." and dtype.isbuiltin != 1:
            return f"ml_dtypes.{name}"
        return f"{self.dtypes}{name}"

    def refused(self, why: str) -> UnwritableError:
        """An error that names the instruction."""
        row = self.row
        return UnwritableError(
            f"{row.opcode} {why}",
            place=f"%{row.name}",
            remedy="nki-hlo slice cuts a part out without it; nki-hlo evaluate may compute it",
        )


Rows: TypeAlias = "Mapping[str, Callable[[Site], str]]"
"""Opcode -> the expression of its result."""


@dataclass(frozen=True, slots=True)
class Target:
    """A library that modules are written for.

    Attributes:
        rows: the expressions of opcodes.
        dtypes: the prefix of element types.
        imports: the import lines.
        support: the names of the files of this folder whose functions the expressions call.
        run: the call of the entry in ``main``, with ``{entry}`` and ``{arguments}``.
    """

    rows: Rows
    dtypes: str
    imports: str
    support: tuple[str, ...]
    run: str


def tuple_text(values: Iterable[object]) -> str:
    """A tuple as source: ``(1, 2)``, ``(1,)``, ``()``."""
    texts = [str(value) for value in values]
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


_REDUCERS = frozenset({"add", "multiply", "maximum", "minimum", "and", "or", "xor"})


def simple_reducer(instruction: Instruction, computation: int = 0) -> str:
    """The opcode of a called computation that is one operation on its two parameters, or ``""``.

    On booleans, ``add`` is ``or`` and ``multiply`` is ``and``.
    """
    body = instruction.called_computations[computation]
    rows: Sequence[Instruction] = body.instructions
    root = body.root
    if len(rows) != 3 or len(body.parameters) != 2 or root.opcode not in _REDUCERS:
        return ""
    if set(root.operands) != set(body.parameters):
        return ""
    if root.shape.element.kind == "pred":
        return {"add": "or", "multiply": "and"}.get(root.opcode, root.opcode)
    return root.opcode


def memory_order(shape: Shape) -> list[int]:
    """Return the dimensions of a shape from the slowest in memory to the fastest."""
    return list(reversed(shape.proto.layout.minor_to_major)) or list(range(len(shape.dimensions)))
