"""Tiles that are too small: short rows, small transfers, few partitions, short instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from neff.profile.advice.merge import (
    FREE,
    PARTITIONS,
    Group,
    Key,
    Sites,
    chains,
    cut,
    is_matmul_too_wide,
    merged,
)
from neff.profile.advice.rule import Mend, Rule, Subject
from neff.profile.advice.versions import runs_of
from neff.timing.transfers import COPIES, transfer_of
from neff.timing.work import Transfer
from nki_lang.ir import Access, Block, Instruction

__all__ = ["DMA_ROWS", "FEW_PARTITIONS"]

_SHORT_ROW = 512
"""Bytes; a packet of less costs nearly as much (dma.descriptor_ns, dma.short_store_ns)."""

_GOOD_ROW = 2048
"""Bytes of a row from which on packets are efficient (NKI DMA bandwidth guide)."""

_SMALL = 4096
"""Bytes; the vendor's profiler warns of smaller transfers."""

_FEW = 64
"""Partitions; half of the lanes idle below."""

_LANES = 128


@dataclass(frozen=True, slots=True)
class _Seed:
    """A transfer whose tile is too small: its site, how its iterations go on, how many to take."""

    key: Key
    axis: str
    found: tuple[range, ...]
    size: int


def _transfer(instruction: Instruction) -> Transfer | None:
    if instruction.op not in COPIES:
        return None
    work = transfer_of(instruction, False)
    return work if type(work) is Transfer and work.to_hbm != work.from_hbm else None


def _sides(instruction: Instruction) -> tuple[Access, Access]:
    """The tile, and the part of a tensor in HBM."""
    dst, src = instruction.operands["dst"], instruction.operands["src"]
    return (dst, src) if dst.tensor.on_chip else (src, dst)


def _elements(access: Access) -> int:
    count = 1
    for _, extent in access.pattern[1:]:
        count *= extent
    return count


def _short_rows(sites: Sites) -> Iterator[_Seed]:
    """Transfers of short rows whose neighbours are moved by later iterations."""
    for key, places in sites.found.items():
        first = sites.run[places[0]]
        work = _transfer(first)
        if work is None or work.gathered or len(places) < 2:
            continue
        tile, far = _sides(first)
        row = _elements(tile) * tile.element_type.itemsize
        if (work.row_bytes >= _SHORT_ROW and work.nbytes >= _SMALL) or row >= _GOOD_ROW:
            continue
        offsets = [_sides(sites.run[place])[1].offset for place in places]
        found = chains(offsets, far.pattern[-1][0] * _elements(tile))
        yield _Seed(key, FREE, tuple(found), max(1, _GOOD_ROW // row))


def _few_partitions(sites: Sites) -> Iterator[_Seed]:
    """Transfers to few partitions whose next rows are moved by later iterations."""
    for key, places in sites.found.items():
        first = sites.run[places[0]]
        work = _transfer(first)
        if work is None or work.gathered or len(places) < 2:
            continue
        tile, _ = _sides(first)
        lanes = tile.pattern[0][1] if tile.pattern else 1
        if lanes > _FEW:
            continue
        offsets = [_sides(sites.run[place])[1].offset for place in places]
        yield _Seed(key, PARTITIONS, tuple(chains(offsets, 0)), _LANES // lanes)


def _wider(
    run: list[Instruction], seeds: Callable[[Sites], Iterator[_Seed]]
) -> tuple[Block, list[Instruction]]:
    """The run with the small tiles merged, and the transfers that had them."""
    culprits: list[Instruction] = []
    done: set[Key] = set()
    while True:
        sites = Sites(run)
        for seed in seeds(sites):
            if seed.key in done:
                continue
            done.add(seed.key)
            found = _merged(sites, seed)
            if found is not None:
                culprits += [run[place] for place in sites.found[seed.key]]
                run = found
                break
        else:
            return list(run), culprits


def _merged(sites: Sites, seed: _Seed) -> list[Instruction] | None:
    """With tiles as wide as they should be, or as wide as the tensor engine allows."""
    size = min(seed.size, max(map(len, seed.found)))
    connected = frozenset(sites.connected(seed.key))
    while size > 1:
        found = merged(sites, Group(connected, cut(seed.found, size), seed.axis))
        if found is None:
            return None
        if not any(is_matmul_too_wide(one) for one in found):
            return found
        size //= 2
    return None


def _mends(
    subject: Subject,
    seeds: Callable[[Sites], Iterator[_Seed]],
    message: Callable[[list[Instruction]], str],
) -> Iterator[Mend]:
    culprits: list[Instruction] = []
    found: Block = []
    for run in runs_of(subject.body):
        if isinstance(run, list):
            wider, own = _wider(run, seeds)
            found += wider
            culprits += own
        else:
            found.append(run)
    if culprits:
        yield Mend(message(culprits), tuple(culprits), subject.with_body(found))


def _rows_message(culprits: list[Instruction]) -> str:
    works = [work for one in culprits if (work := _transfer(one)) is not None]
    shortest = min(work.row_bytes for work in works)
    mean = sum(work.nbytes for work in works) // len(works)
    return f"{len(works)} transfers of rows of {shortest} bytes or more, {mean:,} bytes each on average"


def _lanes_message(culprits: list[Instruction]) -> str:
    lanes = min(_sides(one)[0].pattern[0][1] for one in culprits)
    return f"{len(culprits)} transfers fill {lanes} of {_LANES} partitions; so does what computes on them"


DMA_ROWS = Rule(
    "PERF-DMA-ROWS",
    "Transfers of short rows",
    "Each descriptor and each transfer has a fixed cost; rows below 512 bytes, and transfers below "
    "4 KiB, move few bytes for it (NKI performance guide, Opt #9: perform sufficiently large DMA "
    "transfers; dma.descriptor_ns, dma.issue_ns).",
    "load wider tiles: rows of 2 KiB or more",
    lambda subject: _mends(subject, _short_rows, _rows_message),
)

FEW_PARTITIONS = Rule(
    "PERF-PARTITIONS",
    "Work on few partitions",
    "An instruction takes as long on one partition as on 128 (NKI performance guide, Opt #5b: use "
    "sufficiently large input tiles in partition dimension).",
    "put rows on the partitions: tiles of 128 rows",
    lambda subject: _mends(subject, _few_partitions, _lanes_message),
)
