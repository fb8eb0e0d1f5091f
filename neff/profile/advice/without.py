"""A run without some of its instructions, whose readers wait for earlier ones instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from neff.compiler.assembly.regions import Region, operands_touched, region_of
from neff.profile.advice.versions import with_separate_values
from nki_lang.ir import Access, Instruction

__all__ = ["producers", "without"]


def without(
    run: list[Instruction],
    dropped: Mapping[int, frozenset[int]],
    *,
    removed: frozenset[int] = frozenset(),
) -> list[Instruction]:
    """Return the run without the dropped instructions; their results count as available.

    Args:
        run: instructions between two loops' edges.
        dropped: dropped instruction -> the instructions that its readers must follow instead.
        removed: instructions that are dropped without a replacement.
    """
    names = {_written(run[index])[0] for index in dropped}
    body, _ = with_separate_values(list(run), lambda tensor: tensor.name in names)
    values: dict[str, list[tuple[Region, int]]] = {}
    awaited_indices: set[int] = set()
    remaining: list[Instruction] = []
    for index, instruction in enumerate(body):
        assert isinstance(instruction, Instruction)
        if index in dropped:
            name, region = _written(instruction)
            values.setdefault(name, []).append((region, index))
        elif index not in removed:
            awaited = {
                source
                for drop in _read(instruction, values)
                for source in _remaining(drop, dropped)
            }
            awaited_indices |= awaited
            dependencies = tuple(f"#{source}" for source in sorted(awaited))
            remaining.append(
                replace(
                    instruction,
                    name=f"#{index}",
                    depends_on=(*instruction.depends_on, *dependencies),
                )
            )
    waited_names = {f"#{source}" for source in awaited_indices}
    return [
        inst if inst.name in waited_names else _named_as(inst, run[int(inst.name[1:])])
        for inst in remaining
    ]


def _named_as(instruction: Instruction, before: Instruction) -> Instruction:
    return replace(instruction, name=before.name)


def _written(instruction: Instruction) -> tuple[str, Region]:
    dst = instruction.operands["dst"]
    return dst.tensor.name, region_of(dst, (0, 0))


def _read(instruction: Instruction, values: dict[str, list[tuple[Region, int]]]) -> set[int]:
    """Return the dropped instructions whose tiles an instruction touches."""
    indices: set[int] = set()
    for operand, _ in operands_touched(instruction):
        if type(operand) is Access and (written_regions := values.get(operand.tensor.name)):
            region = region_of(operand, (0, 0))
            indices.update(index for written, index in written_regions if not written.apart(region))
    return indices


def _remaining(index: int, dropped: Mapping[int, frozenset[int]]) -> set[int]:
    """Return the remaining sources of a dropped instruction; sources may be dropped too."""
    indices: set[int] = set()
    for source in dropped[index]:
        indices |= _remaining(source, dropped) if source in dropped else {source}
    return indices


def producers(run: list[Instruction]) -> list[set[int]]:
    """Return for each instruction the last writers of what it reads on chip or in HBM."""
    last: dict[str, list[tuple[Region, int]]] = {}
    sources: list[set[int]] = []
    for index, instruction in enumerate(run):
        inst_sources: set[int] = set()
        writes: list[tuple[str, Region]] = []
        for operand, written in operands_touched(instruction):
            if type(operand) is not Access:
                continue
            name, region = operand.tensor.name, region_of(operand, (0, 0))
            if written:
                writes.append((name, region))
            else:
                inst_sources.update(
                    writer for box, writer in last.get(name, ()) if not box.apart(region)
                )
        for name, region in writes:
            uncovered = [write for write in last.get(name, ()) if not _covers(region, write[0])]
            last[name] = [*uncovered, (region, index)]
        sources.append(inst_sources)
    return sources


def _covers(region: Region, inner: Region) -> bool:
    if region.pitch and region.pitch != inner.pitch:
        return False
    columns = not region.pitch or (region.left <= inner.left and inner.right <= region.right)
    return (
        columns
        and region.first <= inner.first
        and inner.last <= region.last
        and region.low <= inner.low
        and inner.high <= region.high
    )
