"""Buffers that hold several values in succession, so that each writer waits for the readers."""

from __future__ import annotations

from collections.abc import Iterator

from neff.compiler.assembly.regions import operands_touched
from neff.profile.advice.rule import MEAN_FIX, Fix, Rule, Subject
from neff.profile.advice.versions import runs_of, values_of, with_separate_values
from nki_lang.base.memory import MemoryRegion
from nki_lang.ir import Access, Instruction, Tensor

__all__ = ["PSUM_BUFFER", "SINGLE_BUFFER"]

_TENSORS_PER_BUFFER = (0, 2)
"""Numbers to try: one tensor per value (0: a tile made inside the loop), or two in rotation."""


def _fixes(subject: Subject, memory: MemoryRegion) -> Iterator[Fix]:
    single = _single(subject, memory)
    if not single:
        return
    count = sum(len(starts) for starts in single.values())
    culprits = tuple(inst for starts in single.values() for inst in starts)
    names = ", ".join(sorted({name.rpartition(".")[0] or name for name in single})[:4])
    message = (
        f"{len(single)} buffer(s) in {memory.value.upper()} ({names}) hold {count} values: "
        "a value is written only after the previous one was read"
    )
    for max_tensors in _TENSORS_PER_BUFFER:
        bodies = subject.changed(
            lambda body, max_tensors=max_tensors: with_separate_values(
                body, lambda tensor: tensor.name in single, max_tensors=max_tensors
            )[0]
        )
        yield Fix(message, culprits, bodies)


def _single(subject: Subject, memory: MemoryRegion) -> dict[str, list[Instruction]]:
    """Return the buffers with several values and their first instructions, not rotating ones."""
    multiple: dict[str, list[Instruction]] = {}
    homes: dict[object, set[str]] = {}
    for run in runs_of(subject.body):
        if not isinstance(run, list):
            continue
        values = values_of(run, lambda tensor: tensor.buffer is memory)
        for name, starts in values.items():
            if len(starts) > 1:
                multiple[name] = [run[start] for start in starts]
        for instruction in run:
            for tensor in _written(instruction):
                homes.setdefault(instruction.location, set()).add(tensor.name)
    return {
        name: starts
        for name, starts in multiple.items()
        if len(homes.get(starts[-1].location, ())) < 2
    }


def _written(instruction: Instruction) -> Iterator[Tensor]:
    for operand, written in operands_touched(instruction):
        if written and type(operand) is Access and operand.tensor.on_chip:
            yield operand.tensor


SINGLE_BUFFER = Rule(
    "PERF-SINGLE-BUFFER",
    "One buffer for all iterations",
    "While instructions read a tile, the next tile can only be loaded into a second buffer "
    "(NKI performance guide, Opt #4: overlap data loading with computation; Opt #3: pipelining).",
    "allocate the tile inside the loop, or alternate between two buffers",
    lambda subject: _fixes(subject, MemoryRegion.sbuf),
    takes=MEAN_FIX,
)

PSUM_BUFFER = Rule(
    "PERF-PSUM-BUFFER",
    "One PSUM buffer for all products",
    "The tensor engine writes a bank again only after its previous sums were copied out; there are "
    "eight banks (NKI performance guide, Opt #3: overlap execution across engines).",
    "allocate the PSUM tile inside the loop, or alternate between several banks",
    lambda subject: _fixes(subject, MemoryRegion.psum),
    takes=MEAN_FIX,
)
