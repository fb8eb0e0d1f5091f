"""Operations that mix floats of several types: found, or allowed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hlo_tools import schema
from hlo_tools.inference.types import Array, TupleType, Type, called_types, number
from hlo_tools.verify.structure import Message

__all__ = ["mixture", "relax_program", "relax_row", "relax_type"]

_F32 = number("f32")
_KIND = "float"


_MIXING = frozenset(
    [
        "call",
        "conditional",
        "constant",
        "convolution",
        "dot",
        "ragged-dot",
        "scaled-dot",
        "all-reduce",
        "all-reduce-start",
        "all-reduce-done",
        "collective-reduce",
        "all-gather",
        "all-gather-start",
        "all-gather-done",
        "async-done",
        "async-update",
        "async-start",
        "collective-permute",
        "collective-permute-start",
        "collective-permute-done",
        "copy-done",
        "copy-start",
        "custom-call",
        "domain",
        "fusion",
        "get-tuple-element",
        "opt-barrier",
        "infeed",
        "outfeed",
        "parameter",
        "recv",
        "recv-done",
        "reduce-precision",
        "reduce-window",
        "send",
        "send-done",
        "sort",
        "tuple",
        "while",
        "reshape",
        "broadcast",
        "bitcast",
        "rng-bit-generator",
        "iota",
        "scan",
        "dynamic-reshape",
        "ragged-all-to-all",
    ]
)
"""Opcodes whose operands may be of several floats (XLA's ``CheckMixedPrecisionOperands``)."""
_APPLYING = frozenset({"map", "reduce", "reduce-window"})


def mixture(opcode: str, operands: Sequence[Type], programs: Sequence[Message]) -> str:
    """Return the mixture of float types that an operation does not support, or ""."""
    if opcode not in _MIXING:
        floats = {leaf.element for kind in operands for leaf in _leaves(kind) if leaf.kind == _KIND}
        if len(floats) > 1:
            return f"{opcode} takes floats of different types: {', '.join(map(str, operands))}"
    if opcode in _APPLYING and programs:
        for position, (parameter, passed) in enumerate(
            zip(called_types(programs[0])[0], operands, strict=False)
        ):
            if (
                isinstance(parameter, Array)
                and isinstance(passed, Array)
                and parameter.element != passed.element
            ):
                return f"{opcode} applies a computation that takes {parameter} as parameter {position} to {passed}"
    return ""


def _leaves(kind: Type) -> Iterator[Array]:
    if isinstance(kind, TupleType):
        for element in kind.parts:
            yield from _leaves(element)
    else:
        yield kind


def relax_type(kind: Type) -> Type:
    """A type with f32 for every float."""
    if isinstance(kind, TupleType):
        return TupleType(tuple(relax_type(element) for element in kind.parts))
    return kind._replace(element=_F32) if kind.kind == _KIND else kind


def relax_row(row: Message) -> Message:
    """A copy of an instruction whose shape has f32 for every float."""
    copy: Message = schema.HloInstructionProto.FromString(row.SerializeToString())
    _relax_shape(copy.shape)
    return copy


def relax_program(program: Message) -> Message:
    """A copy of a program shape with f32 for every float."""
    copy: Message = schema.ProgramShapeProto.FromString(program.SerializeToString())
    for shape in (*copy.parameters, copy.result):
        _relax_shape(shape)
    return copy


def _relax_shape(shape: Message) -> None:
    for element_shape in shape.tuple_shapes:
        _relax_shape(element_shape)
    if Array(shape.element_type).kind == _KIND:
        shape.element_type = _F32
