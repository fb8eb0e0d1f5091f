"""Checks of ids, names and references: what must hold before anything else can be checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from hlo_tools.types.ids import LOCAL_MASK, NO_ROOT
from hlo_tools.verify.findings import Finding

__all__ = ["Calls", "calls_of", "check_structure"]

Message = Any
Calls = dict[int, list[Message]]


def calls_of(proto: Message) -> Calls:
    """The instructions that call computations, by the id of their own."""
    callers_by_computation: Calls = {}
    for row in proto.computations:
        calling = [inst for inst in row.instructions if inst.called_computation_ids]
        if calling:
            callers_by_computation.setdefault(row.id, []).extend(calling)
    return callers_by_computation


def check_structure(proto: Message, calls: Calls) -> Iterator[Finding]:
    """Findings about ids, names and references of a whole module."""
    ids = {row.id for row in proto.computations}
    yield from _module(proto, ids)
    for row in proto.computations:
        yield from _computation(row, ids, calls.get(row.id, []))
    yield from _recursion(proto, calls)


def _module(proto: Message, ids: set[int]) -> Iterator[Finding]:
    if proto.entry_computation_id not in ids:
        yield Finding(
            "HLO-V001", f"the entry id {proto.entry_computation_id} refers to no computation"
        )
    for number, count in Counter(row.id for row in proto.computations).items():
        if count > 1:
            yield Finding("HLO-V002", f"{count} computations have the id {number}")
    for name, count in Counter(row.name for row in proto.computations).items():
        if count > 1:
            yield Finding("HLO-V004", f"{count} computations are called '{name}'", computation=name)
    names = [inst.name for row in proto.computations for inst in row.instructions]
    if len(set(names)) == len(names) and "" not in names:
        return
    counts = Counter(names)
    for row in proto.computations:
        for inst in row.instructions:
            if not inst.name:
                yield Finding(
                    "HLO-V004", f"the instruction {inst.id} ({inst.opcode}) has no name",
                    computation=row.name,
                )  # fmt: skip
            elif counts[inst.name] > 1:
                yield Finding(
                    "HLO-V004", f"{counts[inst.name]} instructions are called '{inst.name}'",
                    computation=row.name, instruction=inst.name,
                )  # fmt: skip
                counts[inst.name] = 1


def _computation(row: Message, computations: set[int], calling: list[Message]) -> Iterator[Finding]:
    location = row.name
    rows = list(row.instructions)
    local = {inst.id & LOCAL_MASK: position for position, inst in enumerate(rows)}
    if len(local) != len(rows):
        yield Finding("HLO-V003", "two of its instructions have one id", computation=location)
    if row.root_id & LOCAL_MASK not in local:
        what, remedy = f"the root id {row.root_id} refers to no instruction", ""
        if row.root_id == NO_ROOT:
            what, remedy = "the computation has no root", "call computation.set_root(INSTRUCTION)"
        yield Finding("HLO-V007", what, computation=location, remedy=remedy)
    dangling = backward = False
    for position, inst in enumerate(rows):
        for number in inst.operand_ids[:]:
            needed = local.get(number & LOCAL_MASK)
            if needed is None:
                dangling = True
                yield Finding("HLO-V005", f"the operand id {number} refers to no instruction",
                              computation=location, instruction=inst.name)  # fmt: skip
            elif needed >= position:
                backward = True
        for number in inst.control_predecessor_ids:
            needed = local.get(number & LOCAL_MASK)
            if needed is None:
                dangling = True
                yield Finding("HLO-V008", f"the predecessor id {number} refers to no instruction",
                              computation=location, instruction=inst.name)  # fmt: skip
            elif needed >= position:
                backward = True
    for inst in calling:
        for number in inst.called_computation_ids:
            if number not in computations:
                yield Finding("HLO-V006", f"the id {number} refers to no computation",
                              computation=location, instruction=inst.name)  # fmt: skip
    if backward and not dangling and len(local) == len(rows):
        yield from _circle(row)


def _circle(row: Message) -> Iterator[Finding]:
    """Report a cycle of instructions that need each other."""
    needs = {
        inst.id & LOCAL_MASK: {
            n & LOCAL_MASK for n in (*inst.operand_ids, *inst.control_predecessor_ids)
        }
        for inst in row.instructions
    }
    names = {inst.id & LOCAL_MASK: inst.name for inst in row.instructions}
    stuck = _unorderable(needs)
    if stuck:
        listed = ", ".join(sorted(f"%{names[number]}" for number in stuck)[:5])
        yield Finding(
            "HLO-V009", f"these depend on each other in a cycle: {listed}", computation=row.name,
            instruction=min(names[number] for number in stuck),
        )  # fmt: skip


def _unorderable(needs: dict[int, set[int]]) -> set[int]:
    """Nodes that are left when everything that needs nothing unfinished is taken out."""
    users: dict[int, list[int]] = {number: [] for number in needs}
    missing = {number: len(needed_nodes) for number, needed_nodes in needs.items()}
    for number, needed_nodes in needs.items():
        for needed in needed_nodes:
            users.setdefault(needed, []).append(number)
    ready = [number for number, count in missing.items() if count == 0]
    while ready:
        done = ready.pop()
        for user in users[done]:
            missing[user] -= 1
            if missing[user] == 0:
                ready.append(user)
    return {number for number, count in missing.items() if count > 0}


def _recursion(proto: Message, calling: Calls) -> Iterator[Finding]:
    calls: dict[int, set[int]] = {row.id: set() for row in proto.computations}
    for number, rows in calling.items():
        for inst in rows:
            calls[number].update(
                called for called in inst.called_computation_ids if called in calls
            )
    stuck = _unorderable(calls)
    if stuck:
        names = {row.id: row.name for row in proto.computations}
        listed = sorted(names[number] for number in stuck)
        yield Finding("HLO-V010", f"these call each other in a cycle: {', '.join(f'%{n}' for n in listed[:5])}",
                      computation=listed[0])  # fmt: skip
