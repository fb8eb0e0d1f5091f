"""Kernels one behind the other: one statement list for each core.

Every kernel's on-chip tensors get their place and a name of their own; its HBM tensors become
variables of the program; registers and instruction names are distinguished by the kernel's label.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from neff.compiler.assembly.engines import EngineChooser
from neff.compiler.assembly.memory import ChipMemory
from neff.errors import NeffCompileError
from neff.program import Variable
from nki_lang.base.dtypes import DType
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.source import SourceLocation
from nki_lang.base.targets import Target
from nki_lang.ir import (
    Access,
    Block,
    Engine,
    ForLoop,
    Instruction,
    KernelIR,
    Register,
    Statement,
    Tensor,
    WhileLoop,
)
from nki_lang.ir.accumulation import resolve_accumulation
from nki_lang.isa.table import TABLE

__all__ = ["Call", "Linker", "Repeat", "Window"]


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a variable whose place a register holds.

    Attributes:
        name: of the variable.
        register: elements (words of 64-bit elements) from the variable's start, less ``offset``.
        offset: elements.
    """

    name: str
    register: str
    offset: int = 0


@dataclass(slots=True)
class Repeat:
    """Calls that are a loop of the device.

    Attributes:
        first, last: numbers of the calls, ``last`` excluded. Of two loops with common calls one has
            all calls of the other.
        register: the counter; the condition of a loop without ``trips``.
        trips: turns: a number, or a register that holds it. None for a loop on a condition.
        location: of the user's loop.
    """

    first: int
    last: int
    register: str
    trips: int | str | None
    location: SourceLocation | None = None


@dataclass(slots=True)
class Call:
    """One kernel as the program runs it.

    Attributes:
        kernel: what runs.
        bindings: HBM tensor of the kernel -> variable of the program. Tensors that are not in
            it are the kernel's own.
        label: unique in the program; in front of the names of what the kernel allocates.
        location: of kernels that the compiler wrote: the line of the last node that it computes.
        op: the HLO instruction that calls it, "" for kernels that the compiler wrote.
        windows: HBM tensor of the kernel -> the part of its variable that it stands for.
        registers: those of the kernel that are the program's, and keep their names.
        everywhere: every core runs it, since it loads a register.
    """

    kernel: KernelIR
    bindings: dict[str, str]
    label: str
    location: SourceLocation | None = None
    op: str = ""
    windows: dict[str, Window] = field(default_factory=dict[str, Window])
    registers: frozenset[str] = frozenset()
    everywhere: bool = False


@dataclass(slots=True)
class _Core:
    memory: ChipMemory
    engines: EngineChooser
    body: Block = field(default_factory=list[Statement])


class Linker:
    """Takes calls in program order.

    Args:
        target: the family.
        cores: physical cores.
        variables: the program's variables by name.
        owners: gets the label of each instruction's call, by the instruction's ``id``.
    """

    def __init__(
        self,
        target: Target,
        cores: int,
        variables: dict[str, Variable],
        owners: dict[int, str] | None = None,
    ) -> None:
        self._cores = [_Core(ChipMemory(target), EngineChooser(target)) for _ in range(cores)]
        self._target = target
        self._variables = variables
        self._owners = owners
        self._shared = False
        self._shared_calls: list[bool] = []
        self.labels: dict[int, str] = {}
        """``id`` of the statements of the module's own kernels -> the label of the call."""

    @property
    def bodies(self) -> list[Block]:
        """The statements of each core so far."""
        return [core.body for core in self._cores]

    def peak(self, region: MemoryRegion) -> int:
        """Bytes of each partition that were in use, at most, on any core."""
        return max(core.memory.peak[region] for core in self._cores)

    def link(self, calls: list[Call], repeats: list[Repeat]) -> None:
        """Append calls, those of loops as loops.

        Raises:
            NeffCompileError: they need more cores than there are, or more memory.
        """
        ordered = sorted(repeats, key=lambda repeat: (repeat.first, -repeat.last))
        self._shared_calls = [len(call.kernel.bodies) > 1 or call.everywhere for call in calls]
        end, outer_repeats = self._span(calls, ordered, 0, len(calls))
        assert end == len(calls) and not outer_repeats

    def _span(
        self, calls: list[Call], repeats: list[Repeat], first: int, last: int
    ) -> tuple[int, list[Repeat]]:
        """Append calls of one nesting level; returns the loops that come behind them."""
        position = first
        while position < last or (
            repeats and repeats[0].first == position and repeats[0].last <= last
        ):
            if repeats and repeats[0].first == position and repeats[0].last <= last:
                loop = repeats[0]
                repeats = self._loop(loop, calls, repeats[1:])
                position = loop.last
            else:
                self.add(calls[position])
                position += 1
        return position, repeats

    def _loop(self, loop: Repeat, calls: list[Call], repeats: list[Repeat]) -> list[Repeat]:
        """Append a loop. Cores that share its work all run it, and meet at its first call.

        Cores that have to meet and do not share the loop's work meet in front of it: its turns,
        which may be none, would not be a place where they certainly do.
        """
        together = any(self._shared_calls[loop.first : loop.last])
        if self._shared and not together:
            self._append_barrier(calls[loop.first])
            self._shared = False
        outer = [core.body for core in self._cores]
        for core in self._cores:
            core.body = []
        self._shared = together
        _, repeats = self._span(calls, repeats, loop.first, loop.last)
        self._shared = self._shared or together
        for core, body in zip(self._cores, outer, strict=True):
            inside, core.body = core.body, body
            if inside:
                body.append(_loop_statement(loop, inside))
        return repeats

    def add(self, call: Call) -> None:
        """Append a kernel to the cores that it has a body for.

        Raises:
            NeffCompileError: it needs more cores than there are, or more memory.
        """
        kernel = resolve_accumulation(call.kernel)
        if len(kernel.bodies) > len(self._cores):
            raise NeffCompileError(
                f"kernel {kernel.name} was traced for {len(kernel.bodies)} cores, "
                f"the program is compiled for {len(self._cores)}",
                code="NEFF-LNC",
                place=call.label,
                remedy="compile with --logical-nc-config 2 (trn2 and trn3)",
            )
        if kernel.target != self._target.name:
            _check_available(kernel, self._target)
        bodies = kernel.bodies * (len(self._cores) if call.everywhere else 1)
        self._meet(call, len(bodies) > 1)
        for core, body in zip(self._cores, bodies, strict=False):
            body = core.engines.assign(body)
            placed = core.memory.plan(body, call.label + ".")
            renamed = _Renamer(call, placed, self._variables).block(body)
            if self._owners is not None:
                self._owners |= dict.fromkeys(map(id, instructions_of(renamed)), call.label)
            if call.op and len(bodies) > 1:
                self.labels |= dict.fromkeys(map(id, renamed), call.label)
            core.body += renamed

    def _meet(self, call: Call, together: bool) -> None:
        """Let the cores meet in front of a kernel that runs on all of them, and behind it."""
        must_meet = self._shared or (together and any(core.body for core in self._cores))
        self._shared = together
        if must_meet:
            self._append_barrier(call)

    def _append_barrier(self, call: Call) -> None:
        """Let the cores, if there are several, meet in front of a call."""
        if len(self._cores) == 1:
            return
        variable = self._variables[min(call.bindings.values(), default=min(self._variables))]
        tensor = Tensor(variable.name, variable.dtype, variable.shape, MemoryRegion.shared_hbm)
        for core in self._cores:
            operands = {
                "data": Access(tensor, 0, ((1, 1),)),
                "cores": tuple(range(len(self._cores))),
            }
            core.body.append(
                Instruction("core_barrier", operands, Engine.gpsimd, "", call.location)
            )


def _check_available(kernel: KernelIR, target: Target) -> None:
    """A kernel that was traced for one family can run on another that has its instructions.

    Raises:
        NeffCompileError: ``NEFF-TARGET``.
    """
    for instruction in kernel.instructions():
        spec = TABLE.get(instruction.op)
        if spec is None:
            continue
        engines = spec.engines[target.generation]
        chosen = instruction.engine
        if spec.minimum <= target.generation and (chosen is Engine.unknown or chosen in engines):
            continue
        what = (
            instruction.op
            if spec.minimum > target.generation
            else (f"{instruction.op} on the {chosen.name} engine")
        )
        raise NeffCompileError(
            f"kernel {kernel.name} was traced for {kernel.target} and uses {what}, which "
            f"{target.name} does not have",
            code="NEFF-TARGET",
            place=str(instruction.location or kernel.name),
            remedy=f"trace it for {target.name}: NEURON_PLATFORM_TARGET_OVERRIDE={target.name}",
        )


def instructions_of(body: Block) -> Iterator[Instruction]:
    """The instructions of a block and of the loops in it."""
    for statement in body:
        if isinstance(statement, Instruction):
            yield statement
        else:
            yield from instructions_of(statement.body)


def _loop_statement(loop: Repeat, body: Block) -> Statement:
    register = Register(loop.register)
    if loop.trips is None:
        return WhileLoop(register, body, loop.location)
    stop = Register(loop.trips) if isinstance(loop.trips, str) else loop.trips
    return ForLoop(register, 0, stop, 1, body, loop.location)


class _Renamer:
    """Rewrites the statements of one kernel for the program."""

    def __init__(
        self, call: Call, placed: dict[str, Tensor], variables: dict[str, Variable]
    ) -> None:
        self._call = call
        self._placed = placed
        self._variables = variables
        self._hbm: dict[str, tuple[Tensor, DType | None]] = {}
        self._names = call.label + "."

    def block(self, body: Block) -> Block:
        return [self._statement(statement) for statement in body]

    def _statement(self, statement: Statement) -> Statement:
        if isinstance(statement, Instruction):
            return Instruction(
                statement.op,
                {name: self._operand(value) for name, value in statement.operands.items()},
                statement.engine,
                self._names + statement.name if statement.name else "",
                statement.location or self._call.location,
                tuple(self._names + name for name in statement.depends_on),
            )
        if isinstance(statement, ForLoop):
            return ForLoop(
                self._operand(statement.register),
                self._operand(statement.start),
                self._operand(statement.stop),
                self._operand(statement.step),
                self.block(statement.body),
                statement.location or self._call.location,
            )
        if isinstance(statement, WhileLoop):
            condition = self._operand(statement.condition)
            return replace(statement, condition=condition, body=self.block(statement.body))
        return replace(statement, body=self.block(statement.body))

    def _operand(self, operand: Any) -> Any:
        if type(operand) is Access:
            return self._access(operand)
        if type(operand) is Register:
            is_own_register = operand.name not in self._call.registers
            return Register(self._names + operand.name) if is_own_register else operand
        if type(operand) in (tuple, list):
            return tuple(self._operand(item) for item in operand)
        return operand

    def _access(self, access: Access) -> Access:
        tensor = access.tensor
        if tensor.on_chip:
            access = access._replace(tensor=self._placed[tensor.name])
        else:
            shared, dtype = self._variable(tensor)
            if tensor.name in self._call.windows:
                return self._moved(access, shared, dtype)
            access = access._replace(
                tensor=shared,
                dtype=access.dtype or dtype,
                indirect_step=access.index_step if access.is_dynamic else None,
            )
        if access.is_dynamic:
            access = access._replace(
                scalar_offset=self._operand(access.scalar_offset),
                vector_offset=self._operand(access.vector_offset),
            )
        return access

    def _moved(self, access: Access, tensor: Tensor, dtype: DType | None) -> Access:
        """An access to a part of a variable."""
        assert not access.is_dynamic, "a window has one runtime offset"
        window = self._call.windows[access.tensor.name]
        kind = access.dtype or dtype
        words = tensor.dtype.itemsize // (kind or tensor.dtype).itemsize
        return access._replace(
            tensor=tensor,
            offset=access.offset + window.offset * words,
            dtype=kind,
            scalar_offset=Register(window.register),
            indirect_step=1,
        )

    def _variable(self, tensor: Tensor) -> tuple[Tensor, DType | None]:
        """The program's tensor, and the type to read it as when that is another."""
        entry = self._hbm.get(tensor.name)
        if entry is None:
            variable = self._variables[self._call.bindings[tensor.name]]
            is_own_variable = variable.name.startswith(
                self._names
            )  # others read the rest, in nl.hbm or not
            buffer = tensor.buffer if is_own_variable else MemoryRegion.shared_hbm
            shared = Tensor(variable.alias or variable.name, variable.dtype, variable.shape, buffer)
            entry = (shared, None if variable.dtype == tensor.dtype else tensor.dtype)
            self._hbm[tensor.name] = entry
        return entry
