"""From kernel calls in order to a program: scratch placed, kernels linked, engines scheduled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from neff.compiler.assembly.engines import TRANSFERS
from neff.compiler.assembly.history import History
from neff.compiler.assembly.link import Call, Linker, Repeat
from neff.compiler.assembly.meetings import require_meetings
from neff.compiler.assembly.memory import Arena
from neff.compiler.assembly.overwrites import Touched, require_values
from neff.compiler.assembly.regions import operands_touched
from neff.compiler.assembly.schedule import Offsets, schedule
from neff.errors import NeffCompileError
from neff.program import KERNEL_LANGUAGE, Program, SubGraph, Variable
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.targets import Target
from nki_lang.ir import Access, Block, Instruction, KernelIR, Tensor

__all__ = ["Parts", "assemble", "scheduled"]


@dataclass(slots=True)
class Parts:
    """The pieces from which a program is assembled.

    Attributes:
        name, target, cores: of the program.
        variables: every HBM tensor except what kernels allocate for themselves.
        inputs, outputs: names in order.
        calls: kernels in program order.
        repeats: which of them are loops of the device.
        returns_tuple: the module's root is a tuple.
        metadata: see ``Program.metadata``.
        history: the values that the calls of a graph mean; None for a kernel by itself.
    """

    name: str
    target: Target
    cores: int
    variables: dict[str, Variable] = field(default_factory=dict[str, Variable])
    inputs: list[str] = field(default_factory=list[str])
    outputs: list[str] = field(default_factory=list[str])
    calls: list[Call] = field(default_factory=list[Call])
    repeats: list[Repeat] = field(default_factory=list[Repeat])
    returns_tuple: bool = False
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    history: History | None = None


def assemble(parts: Parts, owners: dict[int, str] | None = None) -> Program:
    """The program.

    Args:
        parts: of it.
        owners: gets the label of each instruction's call, by the instruction's ``id``.

    Raises:
        NeffCompileError: it does not fit into a memory of the target.
    """
    touched = [_own_tensors(call, parts) for call in parts.calls]
    scratch = _place_scratch(parts)
    if parts.history is not None:
        require_values(parts.history, parts.calls, parts.repeats, touched, parts.variables)
    _check_hbm(parts, scratch)
    linker = Linker(parts.target, parts.cores, parts.variables, owners)
    linker.link(parts.calls, parts.repeats)
    if parts.history is not None:
        require_meetings(linker.bodies, parts.variables, linker.labels)
    subgraphs = [scheduled(body, parts.variables) for body in linker.bodies]
    statistics = {
        "instructions": sum(_count(graph) for graph in subgraphs),
        "kernels": len(parts.calls),
        "sbuf_peak_bytes_per_partition": linker.peak(MemoryRegion.sbuf),
        "psum_peak_bytes_per_partition": linker.peak(MemoryRegion.psum),
        "scratch_bytes": scratch,
        "semaphores": max(graph.semaphores for graph in subgraphs),
    }
    return Program(
        parts.name,
        parts.target.name,
        parts.inputs,
        parts.outputs,
        parts.variables,
        subgraphs,
        scratch,
        parts.returns_tuple,
        {**parts.metadata, **_language(parts), "statistics": statistics},
    )


def _language(parts: Parts) -> dict[str, str]:
    """Return the metadata of a program with kernels in another language than the current one."""
    languages = {call.kernel.metadata.get("language", "") for call in parts.calls}
    return {KERNEL_LANGUAGE: "beta1"} if "beta1" in languages else {}


def _own_tensors(call: Call, parts: Parts) -> Touched:
    """Scratch variables for the HBM tensors that a kernel allocates and keeps to itself.

    Returns:
        The names of all its HBM tensors that are read, and that are written.
    """
    kernel = call.kernel
    reads, writes = set[str](), set[str]()
    for core, body in enumerate(kernel.bodies):
        tensors: dict[str, Tensor] = {}
        for access, is_written in _all_accesses(body):
            if not access.tensor.on_chip:
                tensors.setdefault(access.tensor.name, access.tensor)
                (writes if is_written else reads).add(access.tensor.name)
        for tensor in tensors.values():
            if tensor.name in call.bindings:
                continue
            private = tensor.buffer is MemoryRegion.private_hbm and len(kernel.bodies) > 1
            name = f"{call.label}.{tensor.name}" + (f".core{core}" if private else "")
            while name in parts.variables:
                name += "_"
            call.bindings[tensor.name] = name
            parts.variables[name] = Variable(
                name, "scratch", tensor.dtype, tensor.shape, core=core if private else -1
            )
    return Touched(frozenset(reads), frozenset(writes))


def _all_accesses(body: Block) -> Iterable[tuple[Access, bool]]:
    for statement in body:
        if isinstance(statement, Instruction):
            for what, written in operands_touched(statement):
                if type(what) is Access:
                    yield what, written
        else:
            yield from _all_accesses(statement.body)


def _place_scratch(parts: Parts) -> int:
    """Give every scratch variable its offset; returns the size of the area in bytes.

    A variable is needed from the first to the last kernel that touches it, and its bytes are
    used again afterwards. One that a loop shares with what is around it is needed in all its turns.
    """
    around = _loops_around(parts)
    touches: dict[str, list[int]] = {}
    for number, call in enumerate(parts.calls):
        for name in call.bindings.values():
            if parts.variables[name].kind == "scratch":
                touches.setdefault(name, []).append(number)
    spans = {name: _span(numbers, around) for name, numbers in touches.items()}
    arena = Arena(1 << 62)
    ends: dict[int, list[tuple[int, int]]] = {}
    size = 0
    for name, (first, last) in sorted(spans.items(), key=lambda item: (item[1][0], item[0])):
        for end in sorted(end for end in ends if end < first):
            for extent in ends.pop(end):
                arena.give(extent)
        extent = arena.take(parts.variables[name].nbytes)
        assert extent is not None
        parts.variables[name].offset = extent[0]
        ends.setdefault(last, []).append(extent)
        size = max(size, extent[1])
    return size


def _loops_around(parts: Parts) -> list[tuple[Repeat, ...]]:
    """The loops that each call is in, the outermost first."""
    around: list[list[Repeat]] = [[] for _ in parts.calls]
    for loop in sorted(parts.repeats, key=lambda repeat: repeat.first - repeat.last):
        for number in range(loop.first, loop.last):
            around[number].append(loop)
    return [tuple(loops) for loops in around]


def _span(numbers: list[int], around: list[tuple[Repeat, ...]]) -> tuple[int, int]:
    """First and last call that a variable is needed for, by those that touch it."""
    if len(numbers) == 1 or not any(around[number] for number in numbers):
        return numbers[0], numbers[-1]
    common = 0
    for loops in zip(*(around[number] for number in numbers), strict=False):
        if any(loop is not loops[0] for loop in loops):
            break
        common += 1
    first, last = numbers[0], numbers[-1]
    for number in numbers:
        if len(around[number]) > common:
            loop = around[number][common]
            first, last = min(first, loop.first), max(last, loop.last - 1)
    return first, last


def _check_hbm(parts: Parts, scratch: int) -> None:
    sizes: dict[str, int] = {"input": 0, "output": 0, "constant": 0}
    for variable in parts.variables.values():
        if variable.kind in sizes and not variable.alias:
            sizes[variable.kind] += variable.nbytes
    sizes["scratch"] = scratch
    total = sum(sizes.values())
    if total <= parts.target.hbm_bytes:
        return
    size_text = ", ".join(f"{kind} {size}" for kind, size in sizes.items())
    largest = sorted(parts.variables.values(), key=lambda variable: -variable.nbytes)[:5]
    raise NeffCompileError(
        f"the program needs {total} bytes of device memory ({size_text}), {parts.target.name} has "
        f"{parts.target.hbm_bytes}; largest: "
        + ", ".join(f"{variable.name} {variable.nbytes}" for variable in largest),
        code="NEFF-HBM",
        place=parts.name,
        remedy="use smaller tensors, fewer of them, or a target with more memory",
    )


def scheduled(body: Block, variables: dict[str, Variable]) -> SubGraph:
    """The engine programs of one core; the statements have engines and placed tensors."""
    offsets: Offsets = {}
    for access, written in _all_accesses(body):
        tensor = access.tensor
        if not written or tensor.on_chip or tensor.name in offsets:
            continue
        variable = variables[tensor.name]
        if variable.kind == "scratch":
            offsets[tensor.name] = ("scratch", variable.offset)
        else:
            offsets[tensor.name] = (f"hbm:{tensor.name}", 0)
    return schedule(body, offsets, TRANSFERS)


def _count(graph: SubGraph) -> int:
    def steps(entries: list[Any]) -> int:
        return sum(steps(entry.body) if hasattr(entry, "body") else 1 for entry in entries)

    return sum(steps(program) for program in graph.engines.values())


def kernel_parts(kernel: KernelIR, target: Target) -> Parts:
    """The parts of a program that is one kernel, called on arrays.

    Inputs have the names of the kernel's arguments, outputs are ``output_0`` and so on. An
    output that the kernel writes into an argument shares the argument's memory.
    """
    parts = Parts(kernel.name, target, kernel.lnc, returns_tuple=kernel.returns_tuple)
    bindings: dict[str, str] = {}
    for tensor in kernel.inputs:
        parts.variables[tensor.name] = Variable(tensor.name, "input", tensor.dtype, tensor.shape)
        parts.inputs.append(tensor.name)
        bindings[tensor.name] = tensor.name
    for constant in kernel.constants:
        tensor = constant.tensor
        parts.variables[tensor.name] = Variable(
            tensor.name, "constant", tensor.dtype, tensor.shape, value=constant.value
        )
        bindings[tensor.name] = tensor.name
    for number, tensor in enumerate(kernel.outputs):
        name = f"output_{number}"
        while name in parts.variables:
            name += "_"
        alias = bindings.get(tensor.name, "")
        parts.variables[name] = Variable(name, "output", tensor.dtype, tensor.shape, alias=alias)
        parts.outputs.append(name)
        if not alias:
            bindings[tensor.name] = name
    parts.calls.append(Call(kernel, bindings, "k0"))
    return parts
