"""Emits the kernel IR instruction of a call of a public function.

Every instruction takes this path, so it is short: operands are converted to their form in the
kernel IR, and the checks run once for each combination of shapes, dtypes, memories and attributes
in a kernel; a later call with the same combination costs one look-up in a set.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, cast

import numpy as np

from nki_lang.base.dtypes import DType
from nki_lang.base.errors import fail
from nki_lang.base.memory import HBM
from nki_lang.frontend.builder import TraceBuilder, current
from nki_lang.frontend.objects import NKIObject, is_sequence
from nki_lang.frontend.operators import Operator
from nki_lang.frontend.registers import VirtualRegister
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.ir import Access, Engine, Instruction
from nki_lang.isa.checks import validate
from nki_lang.isa.spec import InstructionSpec

__all__ = ["NkiInstruction", "issue"]

_COMMON_TYPES = frozenset({bool, str, int, type(None)})


class NkiInstruction(NKIObject):
    """The handle of an emitted instruction.

    Args:
        handle: the :class:`~nki_lang.ir.Instruction`.
    """

    __slots__ = ("handle",)

    def __init__(self, handle: Instruction) -> None:
        self.handle = handle

    def __repr__(self) -> str:
        name = f" {self.handle.name}" if self.handle.name else ""
        return f"NkiInstruction({self.handle.op}{name} at {self.handle.location})"

    def depends_on(self, *producers: object) -> NkiInstruction:
        """This instruction runs after every producer has completed.

        Raises:
            NkiValidationError: code ``NKI-DEPENDS``; a producer is inside a device loop that
                this instruction is not in.
        """
        builder = current()
        names = list(self.handle.depends_on)
        for producer in producers:
            if not isinstance(producer, NkiInstruction):
                fail(
                    f"depends_on takes instructions, not {producer!r}",
                    "NKI-DEPENDS",
                    "pass the result of an nisa function, not its tile",
                )
            _same_loop(builder, self.handle, producer.handle)
            name = builder.name_of(producer.handle)
            if name not in names:
                names.append(name)
        self.handle.depends_on = tuple(names)
        return self


def _same_loop(builder: TraceBuilder, consumer: Instruction, producer: Instruction) -> None:
    """Require the producer to be in the consumer's block or in an enclosing one."""
    if builder.eager:  # loops are unrolled and instructions are not kept
        return
    around = builder.enclosing_blocks(consumer)
    if any(statement is producer for block in around for statement in block):
        return
    fail(
        "a dependency cannot lead into or out of a loop that runs on the device",
        "NKI-DEPENDS",
        "put both instructions into the same loop body",
        "nisa.NkiInstruction.depends_on",
    )


def issue(
    spec: InstructionSpec, values: tuple[Any, ...], engine: Any = Engine.unknown, name: Any = None
) -> NkiInstruction:
    """Check one call and emit its instruction."""
    builder = current()
    operands: dict[str, Any] = {}
    key: list[Any] = [spec.op, id(engine)]
    for (slot, immediate), value in zip(spec.slots, values):  # noqa: B905  (equal by construction)
        kind = type(value)  # pyright: ignore[reportUnknownVariableType]
        if kind is NkiTensor:
            operands[slot] = value.access
            key.append(-value.signature)
        elif kind is float:
            operands[slot] = value
            key.append(float if immediate else value)
        elif kind is Operator:
            operands[slot] = value.name
            key.append(value.name)
        elif kind in _COMMON_TYPES:
            operands[slot] = value
            key.append(kind if immediate else value)
        else:
            operands[slot] = _convert(value, spec, slot)
            key.append(_mark(value))
    combination = tuple(key)
    if combination not in builder.checked:
        validate(spec, values, engine, builder)
        builder.checked.add(combination)
    for slot in spec.hbm_writes:
        _note_write(builder, operands[slot])
    if name is None:
        name = ""
    elif type(name) is not str:
        fail(f"name={name!r} is not a string", "NKI-NAME", "pass a string or leave name out")
    return NkiInstruction(builder.emit(spec.op, operands, engine, name))


def _note_write(builder: TraceBuilder, operand: Any) -> None:
    if not isinstance(operand, Access):
        for entry in operand or ():
            _note_write(builder, entry)
    elif operand.tensor.buffer in HBM:
        builder.written.add(operand.tensor.name)


def _convert(value: object, spec: InstructionSpec, slot: str) -> Any:
    """Return an operand of a less common type in its kernel IR form."""
    if isinstance(value, NkiTensor):
        return value.access
    if isinstance(value, VirtualRegister):
        return value.register
    if isinstance(value, Operator):
        return value.name
    if value is Ellipsis or value is None:
        return None
    if isinstance(value, (bool, int, float, str, DType)) and not isinstance(value, Enum):
        return value
    if isinstance(value, Enum):
        return value.name
    if is_sequence(value):
        return tuple(_convert(entry, spec, slot) for entry in value)
    if isinstance(value, np.generic):
        return cast(Any, value).item()
    hook = getattr(value, "nki_operand", None)
    if hook is not None:
        return hook()
    name = getattr(value, "__name__", "")
    if name and callable(value):
        fail(
            f"nisa.{spec.op}: {slot}={value!r} is not an operator of nki.language",
            "NKI-OPERATOR",
            f"pass {slot}=nl.{name} or another operator of nki.language",
            f"nisa.{spec.op}",
        )
    is_array = isinstance(value, np.ndarray)
    shown = f"an array of shape {np.shape(cast(Any, value))}" if is_array else f"{value!r:.80}"
    fail(
        f"nisa.{spec.op} got {shown} ({type(value).__name__}) for {slot}",
        "NKI-OPERAND",
        "pass the array to the kernel, or load nl.shared_constant(array) into a tile"
        if is_array
        else "pass tensors, numbers, registers, operators such as nl.add, or enum members",
        f"nisa.{spec.op}",
    )
    return None


def _mark(value: object) -> Any:
    """Return the key of a less common value in the set of passed checks."""
    if isinstance(value, NkiTensor):
        return -value.signature
    if is_sequence(value):
        return tuple(_mark(entry) for entry in value)
    if isinstance(value, VirtualRegister):
        return VirtualRegister
    if isinstance(value, (Enum, DType)):
        return value
    return repr(value)
