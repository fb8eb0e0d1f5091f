"""Iterations of a loop that the kernel unrolled, several taken together on wider tiles.

Instructions of one line with equal access patterns are a site; its occurrences are the iterations.
Merging takes the sites that work on the same tiles, each with as many occurrences, and makes one
instruction of several: tiles grow along the free dimension or along the partitions.
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
    "cut",
    "is_matmul_too_wide",
    "merged",
]

FREE, PARTITIONS = "free", "partitions"

_MATMULS = frozenset({"nc_matmul", "nc_matmul_mx", "nc_transpose"})

Key = tuple[object, ...]
_Pattern = tuple[tuple[int, int], ...]


@dataclass(slots=True)
class Sites:
    """The sites of a run: the places of their instructions, and which site each one has."""

    run: list[Instruction]
    found: dict[Key, list[int]] = field(default_factory=dict[Key, list[int]])
    keys: list[Key] = field(default_factory=list[Key])

    def __post_init__(self) -> None:
        for index, instruction in enumerate(self.run):
            key = _key(instruction)
            self.keys.append(key)
            self.found.setdefault(key, []).append(index)

    def split(self, count: int) -> Sites:
        """Sites with a multiple of so many occurrences as several, which take turns."""
        sites = Sites([])
        sites.run, sites.keys = self.run, list(self.keys)
        for key, places in self.found.items():
            parts, rest = divmod(len(places), count)
            if rest or parts < 2:
                sites.found[key] = places
                continue
            for part in range(parts):
                own = sites.found[key, part] = places[part::parts]
                for place in own:
                    sites.keys[place] = key, part
        return sites

    def connected(self, seed: Key) -> set[Key]:
        """Sites with as many occurrences that share a tile which one of them writes."""
        count = len(self.found[seed])
        users: dict[str, set[Key]] = {}
        writers: dict[str, set[Key]] = {}
        for key, places in self.found.items():
            if len(places) != count:
                continue
            for place in places:
                for access, written in _chip(self.run[place]):
                    users.setdefault(access.tensor.name, set()).add(key)
                    if written:
                        writers.setdefault(access.tensor.name, set()).add(key)
        found, open_ = {seed}, [seed]
        while open_:
            key = open_.pop()
            for place in self.found[key]:
                for access, _ in _chip(self.run[place]):
                    name = access.tensor.name
                    if not writers.get(name):
                        continue
                    new = users[name] - found
                    found |= new
                    open_ += new
        return found


@dataclass(frozen=True, slots=True)
class Group:
    """How iterations are merged.

    Attributes:
        sites: that take part; each has as many occurrences.
        starts: number of the first occurrence of each group, and behind them the count.
        axis: along which tiles grow.
    """

    sites: frozenset[Key]
    starts: tuple[int, ...]
    axis: str


def chains(offsets: list[int], step: int) -> list[range]:
    """Runs of occurrences whose offsets differ by ``step``; any constant one when it is 0."""
    found: list[range] = []
    begin, wanted = 0, step
    for number in range(1, len(offsets) + 1):
        if number < len(offsets):
            delta = offsets[number] - offsets[number - 1]
            if not step and number == begin + 1:
                wanted = delta
            if delta == wanted and delta:
                continue
        found.append(range(begin, number))
        begin, wanted = number, step
    return found


def cut(found: Iterable[range], size: int) -> tuple[int, ...]:
    """The beginnings of groups of at most ``size`` occurrences, and the end of the last one."""
    starts: list[int] = []
    end = 0
    for chain in found:
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


def _chip(instruction: Instruction) -> list[tuple[Access, bool]]:
    return [
        (what, written)
        for what, written in operands_touched(instruction)
        if type(what) is Access and what.tensor.on_chip
    ]


def merged(sites: Sites, group: Group) -> list[Instruction] | None:
    """The run with the groups' occurrences as one instruction each; None when they cannot be."""
    number: dict[int, int] = {}
    for key in group.sites:
        for count, place in enumerate(sites.found[key]):
            number[place] = count
    ends = dict(pairwise(group.starts))
    wide = _widened(sites, group)
    if wide is None:
        return None
    found: list[Instruction] = []
    for index, instruction in enumerate(sites.run):
        count = number.get(index)
        if count is None:
            found.append(instruction)
        elif count in ends:
            members = [
                sites.run[one] for one in sites.found[sites.keys[index]][count : ends[count]]
            ]
            one = _one(members, group.axis, wide)
            if one is None:
                return None
            found.append(one)
    return found


def _sliced(sites: Sites, group: Group) -> set[str]:
    """Tiles of which each iteration of a group takes another part; they are wide enough already."""
    found: set[str] = set()
    for key in group.sites:
        places = sites.found[key]
        for start, end in pairwise(group.starts):
            if end - start < 2:
                continue
            first, second = _chip(sites.run[places[start]]), _chip(sites.run[places[start + 1]])
            for (one, _), (other, _) in zip(first, second, strict=False):
                if one.tensor.name == other.tensor.name and one.offset != other.offset:
                    found.add(one.tensor.name)
    return found


def _widened(sites: Sites, group: Group) -> dict[str, int] | None:
    """Tiles that grow, by how much at most; None when something does not allow it."""
    most = max((end - start for start, end in pairwise(group.starts)))
    names: set[str] = set()
    sliced = _sliced(sites, group)
    ordered = sorted(index for key in group.sites for index in sites.found[key])
    again = True
    while again:
        again = False
        for index in ordered:
            instruction = sites.run[index]
            if group.axis == PARTITIONS and instruction.op in _MATMULS:
                return None
            accesses = _chip(instruction)
            largest = max((_free(access) for access, _ in accesses), default=1)
            grows = _moves(instruction) or any(
                access.tensor.name in names and 2 * _free(access) >= largest
                for access, _ in accesses
            )
            for access, written in accesses:
                is_whole = group.axis == PARTITIONS or 2 * _free(access) >= largest
                if access.tensor.name in sliced:
                    continue
                if written and is_whole and (grows or group.axis == PARTITIONS):
                    again = again or access.tensor.name not in names
                    names.add(access.tensor.name)
    return dict.fromkeys(names, most)


def _moves(instruction: Instruction) -> bool:
    """Whether it brings data from HBM."""
    src = instruction.operands.get("src")
    return type(src) is Access and not src.tensor.on_chip


def _free(access: Access) -> int:
    count = 1
    for _, extent in access.pattern[1:]:
        count *= extent
    return count


def _one(members: list[Instruction], axis: str, wide: dict[str, int]) -> Instruction | None:
    first = members[0]
    if len(members) == 1 and not any(access.tensor.name in wide for access, _ in _chip(first)):
        return first
    operands = dict(first.operands)
    for name, value in first.operands.items():
        if type(value) is not Access:
            continue
        accesses = [member.operands[name] for member in members]
        found = _access(accesses, axis, wide)
        if found is None:
            return None
        operands[name] = found
    # Iterations on different engines: the compiler had the choice, and has it again.
    engines = {member.engine for member in members}
    engine = first.engine if len(engines) == 1 else Engine.unknown
    return replace(first, operands=operands, engine=engine)


def _access(accesses: list[Access], axis: str, wide: dict[str, int]) -> Access | None:
    first, count = accesses[0], len(accesses)
    if any(
        one.vector_offset is not None or one.scalar_offset != first.scalar_offset
        for one in accesses
    ):
        return None
    most = wide.get(first.tensor.name) if first.tensor.on_chip else None
    if most is not None:
        return _grown(first, axis, count, most)
    steps = {later.offset - one.offset for one, later in pairwise(accesses)}
    if len({access.tensor.name for access in accesses}) > 1:
        return first
    if len(steps) > 1:
        return None
    step = steps.pop() if steps else 0
    if count == 1 or (step == 0 and first.tensor.on_chip):
        return first
    if first.tensor.on_chip and axis == FREE:
        head, rest = first.pattern[:1], first.pattern[1:]
        return first._replace(pattern=(*head, *_joined(((step, count), *rest))))
    if axis == FREE and len(first.pattern) > 1:
        head, rest = first.pattern[:1], first.pattern[1:]
        return first._replace(pattern=(*head, *_joined(((step, count), *rest))))
    body = tuple(one for one in first.pattern[:-1] if one[1] != 1) + first.pattern[-1:]
    return first._replace(pattern=_joined(((step, count), *body), keep=1))


def _joined(pattern: _Pattern, *, keep: int = 0) -> _Pattern:
    """Dimensions that follow each other in memory as one; the last ``keep`` stay as they are."""
    found: list[tuple[int, int]] = []
    border = len(pattern) - keep
    for place, (step, count) in enumerate(pattern):
        if found and place < border and found[-1][0] == step * count:
            found[-1] = (step, found[-1][1] * count)
        else:
            found.append((step, count))
    return tuple(found)


def _grown(access: Access, axis: str, count: int, most: int) -> Access | None:
    """An access to a whole tile as one to ``count`` of them side by side in a wider tensor."""
    tensor = access.tensor
    if access.dtype is not None and access.dtype.itemsize != tensor.dtype.itemsize:
        return None
    width = max(1, tensor.free_elements)
    if axis == PARTITIONS:
        lanes = tensor.shape[0] if tensor.shape else 1
        grown = replace(tensor, shape=(lanes * most, *(tensor.shape[1:] or (1,))))
        (step, extent), *rest = access.pattern or ((width, 1),)
        return access._replace(tensor=grown, pattern=((step or width, extent * count), *rest))
    shape = (tensor.shape[0] if tensor.shape else 1, width * most)
    row, column = divmod(access.offset, width)
    (_, extent), *rest = access.pattern
    pattern = ((width * most, extent), *_joined(((width, count), *rest)))
    return access._replace(
        tensor=replace(tensor, shape=shape), offset=row * width * most + column, pattern=pattern
    )


def is_matmul_too_wide(instruction: Instruction) -> bool:
    """Whether a product's operands exceed what the tensor engine takes at once."""
    given = instruction.operands
    limits = {"stationary": 128, "moving": 512, "data": 128}
    for name, limit in limits.items():
        value = given.get(name)
        if instruction.op in _MATMULS and type(value) is Access and _free(value) > limit:
            return True
    dst = given.get("dst")
    return (
        type(dst) is Access
        and dst.tensor.buffer is MemoryRegion.psum
        and dst.tensor.free_bytes > 2048
    )
