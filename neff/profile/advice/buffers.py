"""Buffers that hold one value after the other, so that who writes waits for who reads."""

from __future__ import annotations

from collections.abc import Iterator

from neff.compiler.assembly.regions import operands_touched
from neff.profile.advice.rule import MIDDLE, Mend, Rule, Subject
from neff.profile.advice.versions import apart, runs_of, values_of
from nki_lang.base.memory import MemoryRegion
from nki_lang.ir import Access, Instruction, Tensor

__all__ = ["PSUM_BUFFER", "SINGLE_BUFFER"]

_MOST = (0, 2)
"""Tensors for each buffer: as many as values (a tile made inside the loop), or so many in turn."""


def _mends(subject: Subject, memory: MemoryRegion) -> Iterator[Mend]:
    single = _single(subject, memory)
    if not single:
        return
    count = sum(len(starts) for starts in single.values())
    culprits = tuple(one for starts in single.values() for one in starts)
    names = ", ".join(sorted({name.rpartition(".")[0] or name for name in single})[:4])
    message = (
        f"{len(single)} buffer(s) in {memory.value.upper()} ({names}) hold {count} values one "
        "after the other; each is only written when the one before it was read"
    )
    for most in _MOST:
        bodies = subject.changed(
            lambda body, most=most: apart(body, lambda one: one.name in single, most=most)[0]
        )
        yield Mend(message, culprits, bodies)


def _single(subject: Subject, memory: MemoryRegion) -> dict[str, list[Instruction]]:
    """Buffers with several values, with what begins these; not those that take turns."""
    found: dict[str, list[Instruction]] = {}
    homes: dict[object, set[str]] = {}
    for run in runs_of(subject.body):
        if not isinstance(run, list):
            continue
        values = values_of(run, lambda one: one.buffer is memory)
        for name, starts in values.items():
            if len(starts) > 1:
                found[name] = [run[start] for start in starts]
        for instruction in run:
            for tensor in _written(instruction):
                homes.setdefault(instruction.location, set()).add(tensor.name)
    return {
        name: starts
        for name, starts in found.items()
        if len(homes.get(starts[-1].location, ())) < 2
    }


def _written(instruction: Instruction) -> Iterator[Tensor]:
    for what, written in operands_touched(instruction):
        if written and type(what) is Access and what.tensor.on_chip:
            yield what.tensor


SINGLE_BUFFER = Rule(
    "PERF-SINGLE-BUFFER",
    "One buffer for all iterations",
    "While a tile is being computed on, the next one can only be loaded into another buffer "
    "(NKI performance guide, Opt #4: overlap data loading with computation; Opt #3: pipelining).",
    "allocate the tile inside the loop, or take two buffers in turn",
    lambda subject: _mends(subject, MemoryRegion.sbuf),
    takes=MIDDLE,
)

PSUM_BUFFER = Rule(
    "PERF-PSUM-BUFFER",
    "One PSUM buffer for all products",
    "The tensor engine waits until a bank was copied out before it writes it again; there are "
    "eight banks (NKI performance guide, Opt #3: overlap execution across engines).",
    "allocate the PSUM tile inside the loop, or take several banks in turn",
    lambda subject: _mends(subject, MemoryRegion.psum),
    takes=MIDDLE,
)
