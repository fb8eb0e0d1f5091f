"""Prepare a closure that executes an instruction.

Whatever is the same for every execution (views of memory, numbers, operators) is resolved once;
registers, dynamic addresses, gathers and scatters are resolved at each execution.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nki_lang.base.dtypes import Array
from nki_lang.base.errors import NkiError, NkiExecutionError
from nki_lang.execute.memory import Memory
from nki_lang.ir.types import Access, Instruction, Register
from nki_lang.isa.indirection import index_group
from nki_lang.semantics import SEMANTICS, TRAITS
from nki_lang.semantics.movement import transposed_axes
from nki_lang.semantics.numbers import convert, round_tfloat32

__all__ = ["OPERAND_ERRORS", "failure", "injected", "is_skipped", "is_static", "prepare"]

Step = Callable[[], None]


def prepare(instruction: Instruction, memory: Memory) -> Step:
    """Return a closure that executes ``instruction`` on ``memory`` each time it is called.

    Run it under ``np.errstate(all="ignore")``: the engines raise no floating point signals.

    Raises:
        NkiExecutionError: ``NKI-OUT-OF-BOUNDS`` for a static access outside its tensor,
            ``NKI-NO-MEANING`` for an unknown instruction; the closure raises the same for
            dynamic ones.
    """
    function = SEMANTICS.get(instruction.op)
    if function is None:
        raise NkiExecutionError(
            f"there is no instruction {instruction.op!r}",
            code="NKI-NO-MEANING",
            location=instruction.location,
            remedy=f"instructions are {', '.join(sorted(SEMANTICS))}",
        )
    try:
        if is_static(instruction, TRAITS[instruction.op].raw):
            return _static(function, instruction, memory)
        return functools.partial(_dynamic, function, instruction, memory)
    except NkiError as error:
        raise failure(error, instruction) from None


OPERAND_ERRORS = (ValueError, TypeError, LookupError, ArithmeticError)
"""Exceptions that an instruction's function raises for an operand of an unsupported size or
kind.
"""


def failure(error: BaseException, instruction: Instruction) -> NkiExecutionError:
    """Return the error as an NkiExecutionError, located at the instruction."""
    if isinstance(error, NkiExecutionError):
        if error.location is not None:
            return error
        return NkiExecutionError(
            error.message,
            code=error.code,
            location=instruction.location,
            remedy=error.remedy,
            source=error.source,
            details=error.details,
        )
    return NkiExecutionError(
        f"{instruction.op} cannot be executed: {error}",
        code="NKI-EXEC",
        location=instruction.location,
        remedy="use a divisor other than zero"
        if isinstance(error, ZeroDivisionError)
        else "check the shapes and types of its operands",
    )


def is_static(instruction: Instruction, raw: bool) -> bool:
    """Return True if no operand has a dynamic address, or (unless ``raw``) is a register."""
    return all(_fixed(value, raw) for value in instruction.operands.values())


def _fixed(value: Any, raw: bool) -> bool:
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is Access:
        return value.scalar_offset is None and value.vector_offset is None
    if kind is Register:
        return raw
    if kind is tuple or kind is list:
        return all(_fixed(entry, raw) for entry in value)
    return True


def injected(instruction: Instruction, memory: Memory) -> dict[str, Any]:
    """Return the arguments of the instruction's function besides its operands, see
    :mod:`nki_lang.semantics.table`.
    """
    parameters = TRAITS[instruction.op].injected
    arguments: dict[str, Any] = {}
    if "state" in parameters:
        arguments["state"] = memory.state
    if "accesses" in parameters:
        arguments["accesses"] = instruction.operands
    if "engine" in parameters:
        arguments["engine"] = instruction.engine
    if "location" in parameters:
        arguments["location"] = instruction.location
    return arguments


def _static(function: Callable[..., None], instruction: Instruction, memory: Memory) -> Step:
    arguments = {name: _resolve(value, memory) for name, value in instruction.operands.items()}
    step = functools.partial(function, **arguments, **injected(instruction, memory))
    coarse = [arguments[name] for name in _tfloat32(instruction)]
    return functools.partial(_then_round, step, coarse) if coarse else step


def _resolve(value: Any, memory: Memory) -> Any:
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is Access:
        return memory.view(value)
    if kind is tuple or kind is list:
        return tuple([_resolve(entry, memory) for entry in value])
    return value


def _tfloat32(instruction: Instruction) -> list[str]:
    """Return the operands that the instruction writes as tfloat32."""
    operands = instruction.operands
    return [
        name
        for name in TRAITS[instruction.op].writes
        if type(access := operands.get(name)) is Access and access.element_type.name == "tfloat32"
    ]


def _then_round(step: Step, written: list[Array]) -> None:
    step()
    for view in written:
        round_tfloat32(view)


@dataclass(frozen=True, slots=True)
class _Resolver:
    """Reads and writes the operands of one dynamic instruction."""

    memory: Memory
    raw: bool
    skip: bool
    group: int

    def value(self, operand: Any) -> Any:
        """Return the current value of an operand, in the form that the instruction's function
        takes.
        """
        kind = type(operand)  # pyright: ignore[reportUnknownVariableType]
        if kind is Access:
            return self.memory.read(operand, skip=self.skip, group=self.group)
        if kind is Register:
            return operand if self.raw else self.memory.state.registers[operand.name]
        if kind is tuple or kind is list:
            return tuple([self.value(entry) for entry in operand])
        return operand

    def scratch(self, access: Access, *, keep: bool) -> Array:
        """Return an array that receives the values to scatter."""
        if keep:
            return self.value(access)
        anywhere = access._replace(pattern=(), vector_offset=None, offset=0)
        dtype = self.memory.storage(access.tensor).layout(anywhere).dtype
        return np.zeros(access.shape, dtype)

    def scatter(self, access: Access, value: Array) -> None:
        """Scatter the scratch array to its destination."""
        self.memory.write(access, value, skip=self.skip, group=self.group)


def _dynamic(function: Callable[..., None], instruction: Instruction, memory: Memory) -> None:
    """Resolve all operands now, execute the instruction, and scatter its results."""
    traits = TRAITS[instruction.op]
    operands = instruction.operands
    skip = operands.get("oob_mode") == "skip"
    if is_skipped(instruction, memory):
        return
    group = index_group(instruction.op)
    resolver = _Resolver(memory, traits.raw, skip, group)
    arguments: dict[str, Any] = {}
    scattered: list[tuple[Access, Array]] = []
    for name, operand in operands.items():
        if name in traits.writes and type(operand) is Access and operand.vector_offset is not None:
            arguments[name] = resolver.scratch(operand, keep=skip or name in traits.updates)
            scattered.append((operand, arguments[name]))
        else:
            arguments[name] = resolver.value(operand)
    if skip:
        _keep_missing(instruction, memory, arguments)
    function(**arguments, **injected(instruction, memory))
    for name in _tfloat32(instruction):
        round_tfloat32(arguments[name])
    for access, value in scattered:
        resolver.scatter(access, value)


def is_skipped(instruction: Instruction, memory: Memory) -> bool:
    """Return True if a dynamic index is out of bounds under ``oob_mode.skip``: nothing is read or
    written.
    """
    operands = instruction.operands
    return operands.get("oob_mode") == "skip" and not all(
        memory.in_bounds(value)
        for value in operands.values()
        if type(value) is Access and value.scalar_offset is not None
    )


def _keep_missing(instruction: Instruction, memory: Memory, arguments: dict[str, Any]) -> None:
    """Keep the destination rows of a ``oob_mode.skip`` transfer whose index does not exist."""
    access = instruction.operands.get("src")
    if type(access) is not Access or access.vector_offset is None:
        return
    good = memory.rows(access, skip=True).good
    if good.all():
        return
    target = arguments["dst"]
    if instruction.op == "dma_transpose":
        target = target.transpose(np.argsort(transposed_axes(arguments.get("axes"), target.ndim)))
    source = convert(arguments["src"], target.dtype).copy()
    source[~good] = target.reshape(source.shape)[~good]
    arguments["src"] = source
