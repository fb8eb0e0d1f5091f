"""The inputs and results that a snapshot stores with its module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from hlo_tools.evaluate.values import Array, Value
from hlo_tools.ir.module import Module
from hlo_tools.types.literal import Literal

if TYPE_CHECKING:
    from hlo_tools.schema.messages import HloSnapshot, HloUnoptimizedSnapshot, LiteralProto

__all__ = ["Recorded", "recorded_run"]


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded run.

    Attributes:
        inputs: for each device, one value for each parameter of the entry.
        results: the arrays of the first device's result, or None where it was not recorded.
    """

    inputs: list[list[Value]]
    results: list[Array] | None


def recorded_run(module: Module) -> Recorded | None:
    """Return the run that is recorded in the module's file, or None.

    Raises:
        HloFileError: a value is damaged or left out (HLO-LITERAL, HLO-ELIDED).
    """
    if module.envelope is None:
        return None
    kind = module.envelope.DESCRIPTOR.name
    if kind == "HloUnoptimizedSnapshot":
        parts = cast("HloUnoptimizedSnapshot", module.envelope).partitions
        argument_sets = [
            [_value(argument) for argument in snapshot.arguments] for snapshot in parts
        ]
        return Recorded(argument_sets, None) if any(argument_sets) else None
    if kind != "HloSnapshot":
        return None
    message = cast("HloSnapshot", module.envelope)
    inputs = [_value(argument) for argument in message.arguments]
    results = _arrays(_value(message.result)) if message.HasField("result") else None
    if not inputs and results is None:
        return None
    return Recorded([inputs], results)


def _value(proto: LiteralProto) -> Value:
    literal = Literal(proto)
    if literal.is_tuple:
        return tuple(_value(element.proto) for element in literal.parts)
    return literal.numpy() if literal.shape.is_array else None


def _arrays(value: Value) -> list[Array]:
    if isinstance(value, tuple):
        return [array for element in value for array in _arrays(element)]
    return [] if value is None else [value]
