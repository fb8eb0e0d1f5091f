"""Checks of ids, names and references: what must hold before anything else can be looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from hlo_tools.ids import LOCAL_MASK
from hlo_tools.verify.findings import Finding

__all__ = ["check_structure"]

Message = Any


def check_structure(proto: Message) -> Iterator[Finding]:
    """Findings about ids, names and references of a whole module."""
    ids = {row.id for row in proto.computations}
    yield from _module(proto, ids)
    for row in proto.computations:
        yield from _computation(row, ids)
    yield from _recursion(proto)


def _module(proto: Message, ids: set[int]) -> Iterator[Finding]:
    if proto.entry_computation_id not in ids:
        yield Finding("HLO-V001", f"the entry id {proto.entry_computation_id} names no computation")
    for number, count in Counter(row.id for row in proto.computations).items():
        if count > 1:
            yield Finding("HLO-V002", f"{count} computations have the id {number}")
    for name, count in Counter(row.name for row in proto.computations).items():
        if count > 1:
            yield Finding("HLO-V004", f"{count} computations are called '{name}'", computation=name)
    names = Counter(one.name for row in proto.computations for one in row.instructions)
    for row in proto.computations:
        for one in row.instructions:
            if names[one.name] > 1:
                yield Finding(
                    "HLO-V004", f"{names[one.name]} instructions are called '{one.name}'",
                    computation=row.name, instruction=one.name,
                )  # fmt: skip
                names[one.name] = 1


def _computation(row: Message, computations: set[int]) -> Iterator[Finding]:
    place = row.name
    local = {one.id & LOCAL_MASK for one in row.instructions}
    if len(local) != len(row.instructions):
        yield Finding("HLO-V003", "two of its instructions have one id", computation=place)
    if row.root_id & LOCAL_MASK not in local:
        yield Finding(
            "HLO-V007", f"the root id {row.root_id} names no instruction", computation=place
        )
    dangling = False
    for one in row.instructions:
        for number in one.operand_ids:
            if number & LOCAL_MASK not in local:
                dangling = True
                yield Finding("HLO-V005", f"the operand id {number} names no instruction",
                              computation=place, instruction=one.name)  # fmt: skip
        for number in one.control_predecessor_ids:
            if number & LOCAL_MASK not in local:
                dangling = True
                yield Finding("HLO-V008", f"the predecessor id {number} names no instruction",
                              computation=place, instruction=one.name)  # fmt: skip
        for number in one.called_computation_ids:
            if number not in computations:
                yield Finding("HLO-V006", f"the id {number} names no computation",
                              computation=place, instruction=one.name)  # fmt: skip
    if not dangling:
        yield from _circle(row)


def _circle(row: Message) -> Iterator[Finding]:
    """Depends-on circles; free where operands stand before their users."""
    position: dict[int, int] = {}
    backward = False
    for at, one in enumerate(row.instructions):
        for number in (*one.operand_ids, *one.control_predecessor_ids):
            if number & LOCAL_MASK not in position:
                backward = True
                break
        position[one.id & LOCAL_MASK] = at
    if not backward:
        return
    needs = {
        one.id & LOCAL_MASK: {
            n & LOCAL_MASK for n in (*one.operand_ids, *one.control_predecessor_ids)
        }
        for one in row.instructions
    }
    names = {one.id & LOCAL_MASK: one.name for one in row.instructions}
    stuck = _unorderable(needs)
    if stuck:
        listed = ", ".join(sorted(f"%{names[number]}" for number in stuck)[:5])
        yield Finding(
            "HLO-V009", f"these need each other: {listed}", computation=row.name,
            instruction=min(names[number] for number in stuck),
        )  # fmt: skip


def _unorderable(needs: dict[int, set[int]]) -> set[int]:
    """Nodes that are left when everything that needs nothing unfinished is taken out."""
    users: dict[int, list[int]] = {number: [] for number in needs}
    missing = {number: len(wanted) for number, wanted in needs.items()}
    for number, wanted in needs.items():
        for other in wanted:
            users.setdefault(other, []).append(number)
    ready = [number for number, count in missing.items() if count == 0]
    while ready:
        done = ready.pop()
        for user in users[done]:
            missing[user] -= 1
            if missing[user] == 0:
                ready.append(user)
    return {number for number, count in missing.items() if count > 0}


def _recursion(proto: Message) -> Iterator[Finding]:
    ids = {row.id for row in proto.computations}
    calls: dict[int, set[int]] = {number: set() for number in ids}
    for row in proto.computations:
        for one in row.instructions:
            if one.called_computation_ids:
                calls[row.id] |= {number for number in one.called_computation_ids if number in ids}
    stuck = _unorderable(calls)
    if stuck:
        names = {row.id: row.name for row in proto.computations}
        listed = sorted(names[number] for number in stuck)
        yield Finding("HLO-V010", f"these call each other: {', '.join(f'%{n}' for n in listed[:5])}",
                      computation=listed[0])  # fmt: skip
