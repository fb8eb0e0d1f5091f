"""Merging of unrolled loop iterations: one instruction on a wider tile replaces several.

Instructions of one line with equal access patterns are a site; its occurrences are the iterations.
Merging takes the sites that work on the same tiles with equally many occurrences and replaces
several instructions by one: tiles grow along the free dimension or along the partitions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise

from neff.compiler.assembly.regions import operands_touched
from nki_lang.base.memory import MemoryRegion
from nki_lang.ir import Access, Engine, Instruction

__all__ = [
    "FREE",
    "PARTITIONS",
    "Group",
    "Key",
    "Sites",
    "chains",
    "group_starts",
    "is_matmul_too_wide",
    "merged",
]

FREE, PARTITIONS = "free", "partitions"

_MATMULS = frozenset({"nc_matmul", "nc_matmul_mx", "nc_transpose"})

Key = tuple[object, ...]
_Pattern = tuple[tuple[int, int], ...]


@dataclass(slots=True)
class Sites:
    """The sites of a run: the indices of their instructions, and the site of each instruction."""

    run: list[Instruction]
    places: dict[Key, list[int]] = field(default_factory=dict[Key, list[int]])
    keys: list[Key] = field(default_factory=list[Key])

    def __post_init__(self) -> None:
        for index, instruction in enumerate(self.run):
            key = _key(instruction)
            self.keys.append(key)
            self.places.setdefault(key, []).append(index)

    def split(self, count: int) -> Sites:
        """Return the sites with occurrences in multiples of ``count`` as several interleaved
        sites.
        """
        sites = Sites([])
        sites.run, sites.keys = self.run, list(self.keys)
        for key, occurrences in self.places.items():
            phases, remainder = divmod(len(occurrences), count)
            if remainder or phases < 2:
                sites.places[key] = occurrences
                continue
            for phase in range(phases):
                phase_places = sites.places[key, phase] = occurrences[phase::phases]
                for position in phase_places:
                    sites.keys[position] = key, phase
        return sites

    def connected(self, seed: Key) -> set[Key]:
        """Return the sites with equally many occurrences that share a tile that one of them
        writes.
        """
        count = len(self.places[seed])
        users: dict[str, set[Key]] = {}
        writers: dict[str, set[Key]] = {}
        for key, positions in self.places.items():
            if len(positions) != count:
                continue
            for position in positions:
                for access, written in _chip_accesses(self.run[position]):
                    users.setdefault(access.tensor.name, set()).add(key)
                    if written:
                        writers.setdefault(access.tensor.name, set()).add(key)
        connected, pending = {seed}, [seed]
        while pending:
            key = pending.pop()
            for position in self.places[key]:
                for access, _ in _chip_accesses(self.run[position]):
                    name = access.tensor.name
                    if not writers.get(name):
                        continue
                    added = users[name] - connected
                    connected |= added
                    pending += added
        return connected


@dataclass(frozen=True, slots=True)
class Group:
    """The sites to merge and the sizes of their groups.

    Attributes:
        sites: merged sites, with equally many occurrences.
        starts: number of the first occurrence of each group, then the count.
        axis: along which tiles grow.
    """

    sites: frozenset[Key]
    starts: tuple[int, ...]
    axis: str


def chains(offsets: list[int], step: int) -> list[range]:
    """Return runs of occurrences whose offsets differ by ``step``; by any constant when it is 0."""
    runs: list[range] = []
    begin, expected = 0, step
    for number in range(1, len(offsets) + 1):
        if number < len(offsets):
            delta = offsets[number] - offsets[number - 1]
            if not step and number == begin + 1:
                expected = delta
            if delta == expected and delta:
                continue
        runs.append(range(begin, number))
        begin, expected = number, step
    return runs


def group_starts(occurrence_runs: Iterable[range], size: int) -> tuple[int, ...]:
    """Return the starts of groups of at most ``size`` occurrences, and the end of the last
    group.
    """
    starts: list[int] = []
    end = 0
    for chain in occurrence_runs:
        starts += chain[::size]
        end = chain.stop
    return (*starts, end)


def _key(instruction: Instruction) -> Key:
    forms: list[object] = []
    for name, value in instruction.operands.items():
        if isinstance(value, str | int | float):
            forms.append((name, value))
        elif type(value) is Access:
            tensor = value.tensor
            home = id(tensor.buffer) if tensor.on_chip else tensor.name
            forms.append((name, value.pattern, tensor.dtype, value.dtype, home))
    return instruction.op, instruction.location, tuple(forms)


def _chip_accesses(instruction: Instruction) -> list[tuple[Access, bool]]:
    return [
        (operand, written)
        for operand, written in operands_touched(instruction)
        if type(operand) is Access and operand.tensor.on_chip
    ]


def merged(sites: Sites, group: Group) -> list[Instruction] | None:
    """Return the run with one instruction for each group's occurrences; None when they cannot
    merge.
    """
    number: dict[int, int] = {}
    for key in group.sites:
        for count, position in enumerate(sites.places[key]):
            number[position] = count
    ends = dict(pairwise(group.starts))
    wide = _widened(sites, group)
    if wide is None:
        return None
    statements: list[Instruction] = []
    for index, instruction in enumerate(sites.run):
        count = number.get(index)
        if count is None:
            statements.append(instruction)
        elif count in ends:
            members = [
                sites.run[position]
                for position in sites.places[sites.keys[index]][count : ends[count]]
            ]
            wider = _merged_instruction(members, group.axis, wide)
            if wider is None:
                return None
            statements.append(wider)
    return statements


def _sliced(sites: Sites, group: Group) -> set[str]:
    """Return the tiles of which each iteration of a group uses a different region: they are wide
    enough.
    """
    names: set[str] = set()
    for key in group.sites:
        positions = sites.places[key]
        for start, end in pairwise(group.starts):
            if end - start < 2:
                continue
            first, second = (
                _chip_accesses(sites.run[positions[start]]),
                _chip_accesses(sites.run[positions[start + 1]]),
            )
            for (before, _), (after, _) in zip(first, second, strict=False):
                if before.tensor.name == after.tensor.name and before.offset != after.offset:
                    names.add(before.tensor.name)
    return names


def _widened(sites: Sites, group: Group) -> dict[str, int] | None:
    """Return the tiles that grow, with their largest factors; None when an instruction forbids
    it.
    """
    max_group_size = max((end - start for start, end in pairwise(group.starts)))
    names: set[str] = set()
    sliced = _sliced(sites, group)
    ordered = sorted(index for key in group.sites for index in sites.places[key])
    changed = True
    while changed:
        changed = False
        for index in ordered:
            instruction = sites.run[index]
            if group.axis == PARTITIONS and instruction.op in _MATMULS:
                return None
            accesses = _chip_accesses(instruction)
            largest = max((_free_elements(access) for access, _ in accesses), default=1)
            grows = _loads_from_hbm(instruction) or any(
                access.tensor.name in names and 2 * _free_elements(access) >= largest
                for access, _ in accesses
            )
            for access, written in accesses:
                is_whole = group.axis == PARTITIONS or 2 * _free_elements(access) >= largest
                if access.tensor.name in sliced:
                    continue
                if written and is_whole and (grows or group.axis == PARTITIONS):
                    changed = changed or access.tensor.name not in names
                    names.add(access.tensor.name)
    return dict.fromkeys(names, max_group_size)


def _loads_from_hbm(instruction: Instruction) -> bool:
    """Return whether an instruction loads data from HBM."""
    src = instruction.operands.get("src")
    return type(src) is Access and not src.tensor.on_chip


def _free_elements(access: Access) -> int:
    count = 1
    for _, extent in access.pattern[1:]:
        count *= extent
    return count


def _merged_instruction(
    members: list[Instruction], axis: str, wide: dict[str, int]
) -> Instruction | None:
    first = members[0]
    if len(members) == 1 and not any(
        access.tensor.name in wide for access, _ in _chip_accesses(first)
    ):
        return first
    operands = dict(first.operands)
    for name, value in first.operands.items():
        if type(value) is not Access:
            continue
        accesses = [member.operands[name] for member in members]
        access = _merged_access(accesses, axis, wide)
        if access is None:
            return None
        operands[name] = access
    # Iterations on different engines: the compiler had the choice, and has it again.
    engines = {member.engine for member in members}
    engine = first.engine if len(engines) == 1 else Engine.unknown
    return replace(first, operands=operands, engine=engine)


def _merged_access(accesses: list[Access], axis: str, wide: dict[str, int]) -> Access | None:
    first, count = accesses[0], len(accesses)
    if any(
        access.vector_offset is not None or access.scalar_offset != first.scalar_offset
        for access in accesses
    ):
        return None
    factor = wide.get(first.tensor.name) if first.tensor.on_chip else None
    if factor is not None:
        return _grown(first, axis, count, factor)
    steps = {later.offset - earlier.offset for earlier, later in pairwise(accesses)}
    if len({access.tensor.name for access in accesses}) > 1:
        return first
    if len(steps) > 1:
        return None
    step = steps.pop() if steps else 0
    if count == 1 or (step == 0 and first.tensor.on_chip):
        return first
    if first.tensor.on_chip and axis == FREE:
        head, inner_dims = first.pattern[:1], first.pattern[1:]
        return first._replace(pattern=(*head, *_joined(((step, count), *inner_dims))))
    if axis == FREE and len(first.pattern) > 1:
        head, inner_dims = first.pattern[:1], first.pattern[1:]
        return first._replace(pattern=(*head, *_joined(((step, count), *inner_dims))))
    body = tuple(dim for dim in first.pattern[:-1] if dim[1] != 1) + first.pattern[-1:]
    return first._replace(pattern=_joined(((step, count), *body), keep=1))


def _joined(pattern: _Pattern, *, keep: int = 0) -> _Pattern:
    """Merge dimensions that are contiguous in memory; the last ``keep`` stay as they are."""
    joined: list[tuple[int, int]] = []
    border = len(pattern) - keep
    for position, (step, count) in enumerate(pattern):
        if joined and position < border and joined[-1][0] == step * count:
            joined[-1] = (step, joined[-1][1] * count)
        else:
            joined.append((step, count))
    return tuple(joined)


def _grown(access: Access, axis: str, count: int, factor: int) -> Access | None:
    """Return an access to ``count`` adjacent copies of the tile in a wider tensor."""
    tensor = access.tensor
    if access.dtype is not None and access.dtype.itemsize != tensor.dtype.itemsize:
        return None
    width = max(1, tensor.free_elements)
    if axis == PARTITIONS:
        lanes = tensor.shape[0] if tensor.shape else 1
        grown = replace(tensor, shape=(lanes * factor, *(tensor.shape[1:] or (1,))))
        (step, extent), *inner_dims = access.pattern or ((width, 1),)
        return access._replace(tensor=grown, pattern=((step or width, extent * count), *inner_dims))
    shape = (tensor.shape[0] if tensor.shape else 1, width * factor)
    row, column = divmod(access.offset, width)
    (_, extent), *inner_dims = access.pattern
    pattern = ((width * factor, extent), *_joined(((width, count), *inner_dims)))
    return access._replace(
        tensor=replace(tensor, shape=shape), offset=row * width * factor + column, pattern=pattern
    )


def is_matmul_too_wide(instruction: Instruction) -> bool:
    """Return whether a product's operands exceed the limits of one tensor engine instruction."""
    operands = instruction.operands
    limits = {"stationary": 128, "moving": 512, "data": 128}
    for name, limit in limits.items():
        value = operands.get(name)
        if instruction.op in _MATMULS and type(value) is Access and _free_elements(value) > limit:
            return True
    dst = operands.get("dst")
    return (
        type(dst) is Access
        and dst.tensor.buffer is MemoryRegion.psum
        and dst.tensor.free_bytes > 2048
    )
