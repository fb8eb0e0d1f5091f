"""Aliases of results and inputs: of a module, and of a custom call or fusion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo_tools.schema.messages import HloInstructionProto, HloModuleProto

__all__ = ["Alias", "of_call", "of_module"]


@dataclass(frozen=True, slots=True)
class Alias:
    """A result that is written over an input.

    Attributes:
        output: the part of the result, as indices into nested tuples; () for all of it.
        source: number of the parameter (of a module) or operand (of a call).
        part: the part of that; () for all of it.
        must: the two have to be one buffer; else they may be.
    """

    output: tuple[int, ...]
    source: int
    part: tuple[int, ...] = ()
    must: bool = False


_MUST = 2


def of_module(proto: HloModuleProto) -> tuple[Alias, ...]:
    """The ``input_output_alias`` of a HloModuleProto."""
    return tuple(
        Alias(
            tuple(entry.output_shape_index),
            entry.parameter_number,
            tuple(entry.parameter_shape_index),
            entry.kind == _MUST,
        )
        for entry in proto.input_output_alias.entries
    )


def of_call(proto: HloInstructionProto) -> tuple[Alias, ...]:
    """The ``output_operand_aliasing`` of a HloInstructionProto."""
    return tuple(
        Alias(
            tuple(entry.output_shape_index),
            entry.operand_index,
            tuple(entry.operand_shape_index),
            True,
        )
        for entry in proto.output_operand_aliasing
    )
