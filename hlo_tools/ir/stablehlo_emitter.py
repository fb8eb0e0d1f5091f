"""Messages that take the place of an instruction, for notations that lack its opcode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from hlo_tools import schema
from hlo_tools.errors import HloUnsupportedError
from hlo_tools.types.element_types import BY_NUMBER, ElementType
from hlo_tools.types.ids import LOCAL_MASK
from hlo_tools.types.literal import literal_of
from hlo_tools.types.shape import array_shape

if TYPE_CHECKING:
    from hlo_tools.schema.messages import (
        HloComputationProto,
        HloInstructionProto,
        HloModuleProto,
        ShapeProto,
    )

__all__ = ["Emitter", "NewIds"]

_REMEDY = "save the module as HLO: .hlo, .pb"


class NewIds:
    """Ids and names that a module does not use yet."""

    __slots__ = ("_computation", "_local", "_names")

    def __init__(self, proto: HloModuleProto) -> None:
        rows = [row for body in proto.computations for row in body.instructions]
        self._local = max((row.id & LOCAL_MASK for row in rows), default=0)
        self._computation = max((body.id for body in proto.computations), default=0)
        self._names = {row.name for row in rows} | {body.name for body in proto.computations}

    def instruction_id(self, like: int) -> int:
        """An id in the computation, and the scheme, of another one."""
        self._local += 1
        return like & ~LOCAL_MASK | self._local

    def computation_id(self) -> int:
        """An id of a new computation."""
        self._computation += 1
        return self._computation

    def name(self, base: str) -> str:
        """``base`` with a number."""
        number = 1
        while (name := f"{base}.{number}") in self._names:
            number += 1
        self._names.add(name)
        return name


class Emitter:
    """Builds what replaces one instruction; the last message that a form returns takes its id.

    Attributes:
        row: the instruction that is replaced.
        rows: the messages so far.
        computations: new computations that they call.
    """

    __slots__ = ("_body", "_rows_by_id", "computations", "ids", "row", "rows")

    def __init__(
        self,
        row: HloInstructionProto,
        body: HloComputationProto,
        rows_by_id: dict[int, HloInstructionProto],
        ids: NewIds,
    ) -> None:
        self.row = row
        self.ids = ids
        self.rows: list[HloInstructionProto] = []
        self.computations: list[HloComputationProto] = []
        self._body = body
        self._rows_by_id = rows_by_id

    @property
    def operands(self) -> list[HloInstructionProto]:
        """The messages of the instruction's operands."""
        return [self.definition(number) for number in self.row.operand_ids]

    def definition(self, number: int) -> HloInstructionProto:
        """The instruction of the computation with an id."""
        return self._rows_by_id[number & LOCAL_MASK]

    @property
    def element(self) -> ElementType:
        """The element type of the result."""
        return BY_NUMBER[self.row.shape.element_type]

    def add(
        self,
        opcode: str,
        shape: ShapeProto,
        *operands: HloInstructionProto,
        **fields: Any,
    ) -> HloInstructionProto:
        """Add an instruction with fields of HloInstructionProto."""
        row = schema.HloInstructionProto(
            name=self.ids.name(self.row.name), opcode=opcode,
            id=self.ids.instruction_id(self.row.id), **fields,
        )  # fmt: skip
        row.shape.CopyFrom(shape)
        row.operand_ids.extend(operand.id for operand in operands)
        self.rows.append(row)
        return row

    def like(
        self,
        opcode: str,
        first: HloInstructionProto,
        *more_operands: HloInstructionProto,
        **fields: object,
    ) -> HloInstructionProto:
        """Add an elementwise operation whose result has the shape of its first operand."""
        return self.add(opcode, first.shape, first, *more_operands, **fields)

    def number(self, value: float, like: HloInstructionProto) -> HloInstructionProto:
        """Add an array of one value with the shape of another instruction."""
        element = BY_NUMBER[like.shape.element_type]
        scalar_shape = array_shape(element)
        literal = literal_of(np.asarray(value, scalar_shape.dtype), element=element.name)
        scalar = self.add("constant", scalar_shape.proto, literal=literal.proto)
        if not like.shape.dimensions:
            return scalar
        return self.add("broadcast", like.shape, scalar)

    def array(
        self, element: ElementType | str, extents: Sequence[int], opcode: str,
        *operands: HloInstructionProto, **fields: object,
    ) -> HloInstructionProto:  # fmt: skip
        """Add an instruction whose result is a row-major array."""
        return self.add(opcode, array_shape(element, extents).proto, *operands, **fields)

    def converted(self, value: HloInstructionProto, element: str) -> HloInstructionProto:
        """``value`` with elements of another type; itself if it has them."""
        if BY_NUMBER[value.shape.element_type].name == element:
            return value
        return self.array(element, value.shape.dimensions, "convert", value)

    def compared(
        self, direction: str, left: HloInstructionProto, right: HloInstructionProto
    ) -> HloInstructionProto:
        """A comparison in the default order of the element type."""
        return self.array(
            "pred", left.shape.dimensions, "compare", left, right, comparison_direction=direction
        )

    def refuse(self, reason: str = "", remedy: str = "") -> NoReturn:
        """Refuse the instruction.

        Raises:
            HloUnsupportedError: always (HLO-STABLEHLO-OPCODE).
        """
        detail = f": {reason}" if reason else ""
        raise HloUnsupportedError(
            f"StableHLO has no {self.row.opcode}{detail}", code="HLO-STABLEHLO-OPCODE",
            place=f"%{self._body.name}/%{self.row.name}", remedy=remedy or _REMEDY,
        )  # fmt: skip
