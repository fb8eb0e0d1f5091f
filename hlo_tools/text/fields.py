"""Fields of the messages that the parser makes: copied, compared, named."""

from __future__ import annotations

from typing import Any

from hlo_tools import schema

__all__ = ["async_inner", "copy_field", "empty_fields", "same_type", "unique"]

Message = Any


def copy_field(source: Message, target: Message, name: str) -> None:
    """Copy one field, bytes or message, from one message to another."""
    value = getattr(source, name)
    if isinstance(value, bytes):
        setattr(target, name, value)
    else:
        getattr(target, name).CopyFrom(value)


def async_inner(wrapped: str) -> Message | None:
    """The instruction that ``OPCODE-start`` wraps; None for a plain opcode."""
    return schema.HloInstructionProto(opcode=wrapped) if wrapped else None


def unique(base: str, used_names: dict[str, int]) -> str:
    """``base``, or ``base.N`` with the first number that is not used."""
    if base not in used_names:
        return base
    number = 1
    while f"{base}.{number}" in used_names:
        number += 1
    return f"{base}.{number}"


def empty_fields(row: Message) -> None:
    """Set the sub-messages that XLA always writes, though they are empty."""
    row.metadata.SetInParent()
    row.frontend_attributes.SetInParent()
    row.statistics_viz.SetInParent()


def same_type(first: Message, second: Message) -> bool:
    """Return True for equal element types and dimensions, in any layouts."""
    if first.element_type != second.element_type or len(first.tuple_shapes) != len(
        second.tuple_shapes
    ):
        return False
    if list(first.dimensions) != list(second.dimensions):
        return False
    pairs = zip(first.tuple_shapes, second.tuple_shapes, strict=True)
    return all(same_type(left, right) for left, right in pairs)
