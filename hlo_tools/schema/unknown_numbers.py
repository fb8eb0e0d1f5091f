"""Enum numbers that the schema lacks: protobuf keeps them, and nothing here knows their meaning.

Readers take an unknown number for none of the values they know, that is, often for the default. A
newer producer may choose by it how an operation computes, so it is refused like an unknown field.
The numbers of element types, which every shape has, are checked with the shapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from hlo_tools.errors import HloUnsupportedError

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hlo_tools.schema.messages import HloInstructionProto, HloModuleProto
    from hlo_tools.schema.unknown import AnyDescriptor

__all__ = ["UnknownNumber", "refuse_number", "unknown_numbers"]

_PRECISION = ("precision_config",)
_BY_OPCODE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("dot", "ragged-dot", "scaled-dot"), _PRECISION),
    "convolution": ("conv_kind", *_PRECISION),
    "custom-call": (
        "padding_type", "custom_call_schedule", "custom_call_api_version", *_PRECISION,
    ),
    "fft": ("fft_type",),
    "rng": ("distribution",),
    "rng-bit-generator": ("rng_algorithm",),
    "scan": ("is_associative",),
    "triangular-solve": ("triangular_solve_options",),
}  # fmt: skip
"""Opcode -> its fields with enums; shardings and accuracies are checked on every instruction."""
_ON_EVERY_OPCODE = ("sharding", "result_accuracy")


@dataclass(frozen=True, slots=True)
class UnknownNumber:
    """An enum number that the schema lacks.

    Attributes:
        field: names of the fields that lead to it, joined by dots.
        enum: name of the enum.
        number: the number.
        computation, opcode, instruction: where it stands; "" outside of instructions.
    """

    field: str
    enum: str
    number: int
    computation: str = ""
    opcode: str = ""
    instruction: str = ""

    def __str__(self) -> str:
        inside = f" in the {self.opcode} %{self.instruction}" if self.opcode else ""
        return f"this version does not know {self.enum} {self.number} ({self.field}){inside}"


def unknown_numbers(module: HloModuleProto) -> Iterator[UnknownNumber]:
    """Every enum number of a module that the schema lacks, element types apart."""
    for path, enum, number in _in_message(module.input_output_alias, "input_output_alias"):
        yield UnknownNumber(path, enum, number)
    for computation in module.computations:
        for inst in computation.instructions:
            for path, enum, number in _in_instruction(inst):
                yield UnknownNumber(path, enum, number, computation.name, inst.opcode, inst.name)


def refuse_number(unknown: UnknownNumber, path: str = "") -> HloUnsupportedError:
    """The error of a module with an unknown number.

    Args:
        unknown: the number.
        path: the module's file.
    """
    names = (unknown.computation, unknown.instruction)
    location = "/".join(f"%{name}" for name in names if name)
    return HloUnsupportedError(
        f"{unknown}; the module is from a newer producer, and the number would be ignored",
        code="HLO-UNKNOWN-FIELD",
        place=": ".join(text for text in (path, location) if text),
        remedy="install a newer nki-hlo, or pass over the number with --allow-unknown-fields "
        "(hlo_tools.load(..., allow_unknown_fields=True)): results may be wrong",
    )


def _in_instruction(inst: HloInstructionProto) -> Iterator[tuple[str, str, int]]:
    for name in _BY_OPCODE.get(inst.opcode, ()):
        field = inst.DESCRIPTOR.fields_by_name[name]
        if field.enum_type is not None:
            number = cast("int", getattr(inst, name))
            if number not in field.enum_type.values_by_number:
                yield name, field.enum_type.name, number
        elif inst.HasField(cast("Any", name)):
            yield from _in_message(cast("Message", getattr(inst, name)), name)
    for name in _ON_EVERY_OPCODE:
        if inst.HasField(name):
            yield from _in_message(getattr(inst, name), name)


def _in_message(message: Message, path: str) -> Iterator[tuple[str, str, int]]:
    """(fields, enum, number) of the unknown numbers of a message, at any depth."""
    for field, value in message.ListFields():
        inner_path = f"{path}.{field.name}"
        if field.enum_type is not None:
            numbers = cast("Iterable[int]", value if field.is_repeated else (value,))
            for number in numbers:
                if number not in field.enum_type.values_by_number:
                    yield inner_path, field.enum_type.name, number
        elif field.message_type is not None and _has_enums(field.message_type):
            messages = cast("Iterable[Message]", value if field.is_repeated else (value,))
            for inner in messages:
                yield from _in_message(inner, inner_path)


@cache
def _has_enums(descriptor: AnyDescriptor) -> bool:
    """Return True if messages of a type hold enums, at any depth."""
    types = [descriptor]
    for seen_type in types:
        for field in seen_type.fields:
            if field.enum_type is not None:
                return True
            if field.message_type is not None and field.message_type not in types:
                types.append(field.message_type)
    return False
