"""A run without some of its instructions: who read their results waits for something earlier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from neff.compiler.assembly.regions import Region, operands_touched, region_of
from neff.profile.advice.versions import apart
from nki_lang.ir import Access, Instruction

__all__ = ["producers", "without"]


def without(
    run: list[Instruction],
    dropped: Mapping[int, frozenset[int]],
    *,
    gone: frozenset[int] = frozenset(),
) -> list[Instruction]:
    """The run with instructions dropped, and the tiles that they wrote taken as given.

    Args:
        run: instructions between two loops' edges.
        dropped: what is dropped -> the instructions that its readers have to come after instead.
        gone: instructions that are dropped without anything in their place.
    """
    names = {_written(run[index])[0] for index in dropped}
    body, _ = apart(list(run), lambda one: one.name in names)
    values: dict[str, list[tuple[Region, int]]] = {}
    named: set[int] = set()
    found: list[Instruction] = []
    for index, instruction in enumerate(body):
        assert isinstance(instruction, Instruction)
        if index in dropped:
            name, region = _written(instruction)
            values.setdefault(name, []).append((region, index))
        elif index not in gone:
            later = {one for drop in _read(instruction, values) for one in _kept(drop, dropped)}
            named |= later
            more = tuple(f"#{one}" for one in sorted(later))
            found.append(
                replace(instruction, name=f"#{index}", depends_on=(*instruction.depends_on, *more))
            )
    wanted = {f"#{one}" for one in named}
    return [one if one.name in wanted else _named_as(one, run[int(one.name[1:])]) for one in found]


def _named_as(instruction: Instruction, before: Instruction) -> Instruction:
    return replace(instruction, name=before.name)


def _written(instruction: Instruction) -> tuple[str, Region]:
    dst = instruction.operands["dst"]
    return dst.tensor.name, region_of(dst, (0, 0))


def _read(instruction: Instruction, values: dict[str, list[tuple[Region, int]]]) -> set[int]:
    """Dropped instructions whose tiles it touches."""
    found: set[int] = set()
    for what, _ in operands_touched(instruction):
        if type(what) is Access and (own := values.get(what.tensor.name)):
            region = region_of(what, (0, 0))
            found.update(index for other, index in own if not other.apart(region))
    return found


def _kept(index: int, dropped: Mapping[int, frozenset[int]]) -> set[int]:
    """What stands for a dropped instruction; that may have been dropped itself."""
    found: set[int] = set()
    for other in dropped[index]:
        found |= _kept(other, dropped) if other in dropped else {other}
    return found


def producers(run: list[Instruction]) -> list[set[int]]:
    """For each instruction the ones that wrote last what it reads on chip or in HBM."""
    last: dict[str, list[tuple[Region, int]]] = {}
    found: list[set[int]] = []
    for index, instruction in enumerate(run):
        own: set[int] = set()
        writes: list[tuple[str, Region]] = []
        for what, written in operands_touched(instruction):
            if type(what) is not Access:
                continue
            name, region = what.tensor.name, region_of(what, (0, 0))
            if written:
                writes.append((name, region))
            else:
                own.update(one for other, one in last.get(name, ()) if not other.apart(region))
        for name, region in writes:
            kept = [one for one in last.get(name, ()) if not _covers(region, one[0])]
            last[name] = [*kept, (region, index)]
        found.append(own)
    return found


def _covers(region: Region, other: Region) -> bool:
    if region.pitch and region.pitch != other.pitch:
        return False
    columns = not region.pitch or (region.left <= other.left and other.right <= region.right)
    return (
        columns
        and region.first <= other.first
        and other.last <= region.last
        and region.low <= other.low
        and other.high <= region.high
    )
