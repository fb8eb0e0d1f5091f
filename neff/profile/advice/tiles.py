"""Tiles that are too small: short rows, small transfers, few partitions, short instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from neff.profile.advice.layouts import along_rows, folded, sides_of, transfer_in
from neff.profile.advice.merge import (
    FREE,
    PARTITIONS,
    Group,
    Key,
    Sites,
    chains,
    group_starts,
    is_matmul_too_wide,
    merged,
)
from neff.profile.advice.rule import Fix, Rule, Subject
from neff.profile.advice.versions import runs_of
from nki_lang.ir import Access, Block, Instruction

__all__ = ["DMA_ROWS", "FEW_PARTITIONS"]

_MIN_ROW_BYTES = 512
"""A shorter packet costs nearly the same (dma.descriptor_ns, dma.short_store_ns)."""

_EFFICIENT_ROW_BYTES = 2048
"""Packets of rows from this length on are efficient (NKI DMA bandwidth guide)."""

_MIN_TRANSFER_BYTES = 4096
"""The vendor's profiler warns of smaller transfers."""

_MIN_PARTITIONS = 64
"""Half of the partitions idle below."""

_PARTITIONS = 128


@dataclass(frozen=True, slots=True)
class _Seed:
    """A transfer whose tile is too small: its site, the chains of its iterations, the group
    size.
    """

    key: Key
    axis: str
    chains: tuple[range, ...]
    size: int


def _elements(access: Access) -> int:
    count = 1
    for _, extent in access.pattern[1:]:
        count *= extent
    return count


def _short_rows(sites: Sites) -> Iterator[_Seed]:
    """Transfers of short rows whose neighbours are moved by later iterations."""
    for key, positions in sites.places.items():
        first = sites.run[positions[0]]
        work = transfer_in(first)
        if work is None or work.gathered or len(positions) < 2:
            continue
        tile, far = sides_of(first)
        row = _elements(tile) * tile.element_type.itemsize
        if (
            work.row_bytes >= _MIN_ROW_BYTES and work.nbytes >= _MIN_TRANSFER_BYTES
        ) or row >= _EFFICIENT_ROW_BYTES:
            continue
        sides = [sides_of(sites.run[position]) for position in positions]
        offset_chains = chains(
            [side.offset for _, side in sides], far.pattern[-1][0] * _elements(tile)
        )
        pieces = [piece for chain in offset_chains for piece in _within_tiles(chain, sides)]
        # Slices of one tile can all come at once; separate tiles grow to an efficient row.
        size = max(map(len, pieces)) if _is_sliced(sides) else max(1, _EFFICIENT_ROW_BYTES // row)
        yield _Seed(key, FREE, tuple(pieces), size)


def _is_sliced(sides: list[tuple[Access, Access]]) -> bool:
    return any(
        before.tensor.name == after.tensor.name and before.offset != after.offset
        for (before, _), (after, _) in pairwise(sides)
    )


def _within_tiles(chain: range, sides: list[tuple[Access, Access]]) -> Iterator[range]:
    """Cut a chain where the tile changes when iterations fill slices of one tile."""
    begin = chain.start
    if _is_sliced(sides):
        for number in chain[1:]:
            if sides[number][0].tensor.name != sides[number - 1][0].tensor.name:
                yield range(begin, number)
                begin = number
    yield range(begin, chain.stop)


def _few_partitions(sites: Sites) -> Iterator[_Seed]:
    """Transfers to few partitions whose next rows are moved by later iterations."""
    for key, positions in sites.places.items():
        first = sites.run[positions[0]]
        work = transfer_in(first)
        if work is None or work.gathered or len(positions) < 2:
            continue
        tile, _ = sides_of(first)
        lanes = tile.pattern[0][1] if tile.pattern else 1
        if lanes > _MIN_PARTITIONS:
            continue
        offsets = [sides_of(sites.run[position])[1].offset for position in positions]
        yield _Seed(key, PARTITIONS, tuple(chains(offsets, 0)), _PARTITIONS // lanes)


def _wider(
    run: list[Instruction], seeds: Callable[[Sites], Iterator[_Seed]]
) -> tuple[list[Instruction], list[Instruction]]:
    """Return the run with the small tiles merged, and the transfers that had them."""
    culprits: list[Instruction] = []
    done: set[Key] = set()
    while True:
        sites = Sites(run)
        for seed in seeds(sites):
            if seed.key in done:
                continue
            done.add(seed.key)
            wider = _merged(sites, seed)
            if wider is not None:
                culprits += [run[position] for position in sites.places[seed.key]]
                run = wider
                break
        else:
            return list(run), culprits


def _merged(sites: Sites, seed: _Seed) -> list[Instruction] | None:
    """Merge into efficient tiles, or into the widest that the tensor engine allows."""
    size = min(seed.size, max(map(len, seed.chains)))
    sites = sites.split(len(sites.places[seed.key]))
    connected = frozenset(sites.connected(seed.key))
    while size > 1:
        wider = merged(sites, Group(connected, group_starts(seed.chains, size), seed.axis))
        if wider is None:
            return None
        if not any(is_matmul_too_wide(inst) for inst in wider):
            return wider
        size //= 2
    return None


Change = Callable[[list[Instruction]], tuple[list[Instruction], list[Instruction]]]
"""A run without a fault, and the instructions that had it."""


def _fixes(
    subject: Subject,
    changes: tuple[Change, ...],
    message: Callable[[list[Instruction]], str],
) -> Iterator[Fix]:
    culprits: list[Instruction] = []
    statements: Block = []
    for run in runs_of(subject.body):
        if isinstance(run, list):
            for change in changes:
                run, changed = change(run)
                culprits += changed
            statements += run
        else:
            statements.append(run)
    if culprits:
        yield Fix(message(culprits), tuple(culprits), subject.with_body(statements))


def _rows_merged(run: list[Instruction]) -> tuple[list[Instruction], list[Instruction]]:
    return _wider(run, _short_rows)


def _lanes_merged(run: list[Instruction]) -> tuple[list[Instruction], list[Instruction]]:
    return _wider(run, _few_partitions)


def _rows_message(culprits: list[Instruction]) -> str:
    works = [work for inst in culprits if (work := transfer_in(inst)) is not None]
    shortest = min(work.row_bytes for work in works)
    mean = sum(work.nbytes for work in works) // len(works)
    return f"{len(works)} transfers of rows of {shortest} bytes or more, {mean:,} bytes each on average"


def _lanes_message(culprits: list[Instruction]) -> str:
    lanes = min(sides_of(inst)[0].pattern[0][1] for inst in culprits)
    return f"{len(culprits)} transfers fill {lanes} of {_PARTITIONS} partitions; so does what computes on them"


DMA_ROWS = Rule(
    "PERF-DMA-ROWS",
    "Transfers of short rows",
    "Each descriptor and each transfer has a fixed cost; rows below 512 bytes, and transfers below "
    "4 KiB, move few bytes for that cost (NKI performance guide, Opt #9: perform sufficiently large DMA "
    "transfers; dma.descriptor_ns, dma.issue_ns).",
    "load wider tiles: rows of 2 KiB or more",
    lambda subject: _fixes(subject, (along_rows, _rows_merged), _rows_message),
)

FEW_PARTITIONS = Rule(
    "PERF-PARTITIONS",
    "Work on few partitions",
    "An instruction takes as long on one partition as on 128 (NKI performance guide, Opt #5b: use "
    "sufficiently large input tiles in partition dimension).",
    "put rows on the partitions: tiles of 128 rows",
    lambda subject: _fixes(subject, (_lanes_merged, folded), _lanes_message),
)
