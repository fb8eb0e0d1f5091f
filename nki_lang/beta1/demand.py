"""Reorder the instructions of a kernel whose tiles do not fit on chip in source order.

The vendor's compiler was free to fuse the loops of a beta 1 kernel: one loop often loads all tiles
and a later one uses them (``nki.language.affine_range``, SDK 2.26: iterations may run in any order).
In demand order, each store to HBM follows the instructions that it needs and that have not run yet,
so that a tile is made when it is first used. Instructions that touch one tensor, of which one
writes, keep their order; so do stores, prints, and random numbers. Results are the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nki_lang.analysis.liveness import accesses_of, written_by
from nki_lang.base.errors import NkiValidationError
from nki_lang.base.memory import ON_CHIP
from nki_lang.frontend.builder import TraceBuilder
from nki_lang.ir import Instruction
from nki_lang.semantics import TRAITS
from nki_lang.tracing.capacity import check_capacity

__all__ = ["demand_order", "fit_on_chip"]

_STATE = "state of the engines"
"""Stands for a tensor: random numbers and running reductions, which instructions read and write."""


def fit_on_chip(builder: TraceBuilder) -> None:
    """Put a traced kernel into demand order if its tiles do not fit in source order.

    A kernel that does not fit in demand order either stays as it is: the tracer refuses it. So does
    one whose author placed tiles, which may share memory.
    """
    if any(tensor.address is not None for tensor in builder.tensors.values()):
        return
    source_order = list(builder.body)
    instructions = [entry for entry in source_order if type(entry) is Instruction]
    if len(instructions) != len(source_order) or any(entry.depends_on for entry in instructions):
        return
    try:
        check_capacity(builder)
        return
    except NkiValidationError:
        builder.body[:] = demand_order(instructions)
    try:
        check_capacity(builder)
    except NkiValidationError:
        builder.body[:] = source_order


def demand_order(instructions: Sequence[Instruction]) -> list[Instruction]:
    """Return the instructions in the order in which stores to HBM demand them."""
    needs = _dependencies(instructions)
    result: list[Instruction] = []
    is_placed = [False] * len(instructions)
    roots = [location for location, entry in enumerate(instructions) if not _stays_on_chip(entry)]
    for root in (*roots, *range(len(instructions))):  # results that nothing reads come last
        pending = [(root, iter(needs[root]))] if not is_placed[root] else []
        while pending:
            location, remaining = pending[-1]
            following = next((need for need in remaining if not is_placed[need]), None)
            if following is not None:
                pending.append((following, iter(needs[following])))
                continue
            pending.pop()
            if not is_placed[location]:
                is_placed[location] = True
                result.append(instructions[location])
    return result


def _stays_on_chip(instruction: Instruction) -> bool:
    """Return True if an instruction writes tiles in SBUF and PSUM, and nothing else."""
    targets = list(written_by(instruction))
    return bool(targets) and all(access.tensor.buffer in ON_CHIP for access in targets)


def _dependencies(instructions: Sequence[Instruction]) -> list[list[int]]:
    """Return the earlier instructions that each instruction must follow, in source order."""
    last_write: dict[str, int] = {}
    reads_since: dict[str, list[int]] = {}
    needs: list[list[int]] = []
    for location, instruction in enumerate(instructions):
        written = set(_names_written(instruction))
        required: set[int] = set()
        for name in {*_names_used(instruction), *written}:
            if name in last_write:
                required.add(last_write[name])
            if name in written:
                required.update(reads_since.pop(name, ()))
                last_write[name] = location
            else:
                reads_since.setdefault(name, []).append(location)
        needs.append(sorted(required))
    return needs


def _names_used(instruction: Instruction) -> Iterator[str]:
    for access in accesses_of(instruction):
        yield access.tensor.name


def _names_written(instruction: Instruction) -> Iterator[str]:
    if _has_state(instruction):
        yield _STATE
    for access in written_by(instruction):
        yield access.tensor.name


def _has_state(instruction: Instruction) -> bool:
    """Return True if an instruction can use or change the state of an engine."""
    traits = TRAITS.get(instruction.op)
    if traits is None:
        return True
    reduces_nothing = (
        instruction.op == "activation"
        and instruction.operands.get("reduce_res") is None
        and instruction.operands.get("reduce_cmd") in (None, "idle")
    )
    return "state" in traits.injected and not reduces_nothing
