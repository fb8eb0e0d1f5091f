"""Activation functions that take turns, so that their tables are loaded again and again."""

from __future__ import annotations

from collections.abc import Iterator

from neff.profile.advice.reorder import grouped_by
from neff.profile.advice.rule import Mend, Rule, Subject
from neff.profile.advice.versions import apart, runs_of
from neff.timing.lowering import table_of
from nki_lang.ir import Block, Engine, Instruction

__all__ = ["TABLES"]

_AT_ONCE = (1 << 30, 64, 16, 4)
"""Activations of one function before another one's; fewer when their tiles do not fit."""


def _mends(subject: Subject) -> Iterator[Mend]:
    loads, first, functions = 0, True, set[str]()
    culprits: list[Instruction] = []
    now = ""
    for instruction in subject.instructions():
        table = _table(instruction)
        if table and table != now:
            now, loads = table, loads + 1
            functions.add(table)
            if not first:
                culprits.append(instruction)
            first = False
    if loads <= len(functions):
        return
    nanoseconds = subject.profile.parameters["scalar.table_load_ns"].value
    message = (
        f"{', '.join(sorted(functions))} take turns on the scalar engine: {loads} loads of a "
        f"table, {nanoseconds / 1e3:.2f} µs each, for {len(functions)} functions"
    )
    yield Mend(message, tuple(culprits), subject.changed(lambda body: _grouped(body, _AT_ONCE[0])))
    for most in _AT_ONCE:
        bodies = subject.changed(
            lambda body, most=most: _grouped(apart(body, lambda one: True)[0], most)
        )
        yield Mend(message, tuple(culprits), bodies)


def _table(instruction: Instruction) -> str:
    return table_of(instruction) if instruction.engine is Engine.scalar else ""


def _grouped(body: Block, most: int) -> Block:
    found: Block = []
    for run in runs_of(body):
        found += grouped_by(run, _table, most) if isinstance(run, list) else [run]
    return found


TABLES = Rule(
    "PERF-TABLES",
    "Tables of activation functions are loaded again and again",
    "The scalar engine holds the table of one set of functions; another one is loaded first "
    "(scalar.table_load_ns in the table of parameters).",
    "apply one function to all tiles before the next one, or compute one of them on another engine",
    _mends,
)
