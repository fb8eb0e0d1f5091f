"""Alternating activation functions, whose tables are loaded again and again."""

from __future__ import annotations

from collections.abc import Iterator

from neff.profile.advice.reorder import grouped_by
from neff.profile.advice.rule import Fix, Rule, Subject
from neff.profile.advice.versions import runs_of, with_separate_values
from neff.timing.lowering import table_of
from nki_lang.ir import Block, Engine, Instruction

__all__ = ["TABLES"]

_ACTIVATION_GROUP_SIZES = (1 << 30, 64, 16, 4)
"""Sizes to try: activations of one function before another's; fewer when their tiles do not fit."""


def _fixes(subject: Subject) -> Iterator[Fix]:
    loads, first, functions = 0, True, set[str]()
    culprits: list[Instruction] = []
    loaded_table = ""
    for instruction in subject.instructions():
        table = _table(instruction)
        if table and table != loaded_table:
            loaded_table, loads = table, loads + 1
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
    yield Fix(
        message,
        tuple(culprits),
        subject.changed(lambda body: _grouped(body, _ACTIVATION_GROUP_SIZES[0])),
    )
    for group_size in _ACTIVATION_GROUP_SIZES:
        bodies = subject.changed(
            lambda body, group_size=group_size: _grouped(
                with_separate_values(body, lambda tensor: True)[0], group_size
            )
        )
        yield Fix(message, tuple(culprits), bodies)


def _table(instruction: Instruction) -> str:
    return table_of(instruction) if instruction.engine is Engine.scalar else ""


def _grouped(body: Block, group_size: int) -> Block:
    statements: Block = []
    for run in runs_of(body):
        statements += grouped_by(run, _table, group_size) if isinstance(run, list) else [run]
    return statements


TABLES = Rule(
    "PERF-TABLES",
    "Tables of activation functions are loaded again and again",
    "The scalar engine holds the table of one set of functions; a function of another set loads its table first "
    "(scalar.table_load_ns in the table of parameters).",
    "apply one function to all tiles before the next function, or compute one function on another engine",
    _fixes,
)
