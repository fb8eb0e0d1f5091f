"""Each DMA engine serves eight partitions: narrow transfers use few engines."""

from __future__ import annotations

import numpy as np
import pytest

from neff.compiler import compile_kernel
from neff.timing import Event, Parameters, Pricing, estimate
from neff.timing.machine import DmaEngines
from neff.timing.transfers import transfer_of
from neff.timing.work import Transfer
from nki_lang import isa as nisa
from nki_lang import language as nl
from nki_lang.base.dtypes import BY_NAME
from nki_lang.base.memory import MemoryRegion
from nki_lang.ir import Access, Instruction, Tensor
from nki_lang.kernel import Kernel

COLUMNS = 4096


def load(first: int, count: int) -> Transfer:
    """Return the load of so many partitions of bf16, from a partition on."""
    source = Tensor("x", BY_NAME["bfloat16"], (count, COLUMNS), MemoryRegion.shared_hbm)
    tile = Tensor("tile", BY_NAME["bfloat16"], (count, COLUMNS), MemoryRegion.sbuf, (first, 0))
    pattern = ((COLUMNS, count), (1, COLUMNS))
    operands = {"dst": Access(tile, 0, pattern), "src": Access(source, 0, pattern)}
    work = transfer_of(Instruction("dma_copy", operands), False)
    assert isinstance(work, Transfer)
    return work


@pytest.mark.parametrize(
    ("first", "count", "lanes"),
    [(0, 1, 1), (0, 8, 1), (0, 9, 2), (4, 8, 2), (120, 8, 1), (0, 16, 2), (0, 32, 4), (0, 64, 8),
     (64, 64, 8), (0, 128, 16)],
)  # fmt: skip
def test_partitions_determine_the_engines(first: int, count: int, lanes: int) -> None:
    work = load(first, count)
    assert (work.first_lane, work.lane_count) == (first // 8, lanes)


def test_four_partitions_take_the_documented_time() -> None:
    """The guide's [4, 4096] bf16 takes 1416 ns on one engine; sixteen would take a tenth of it."""
    cost = Pricing(Parameters("trn2")).cost(load(0, 4))
    assert cost.moving == pytest.approx(1416, rel=0.15)
    assert cost.packets * cost.lane_count + cost.extra_packets == 8


def test_a_slice_of_a_tile_counts_from_its_first_partition() -> None:
    tile = Tensor("tile", BY_NAME["float32"], (128, 64), MemoryRegion.sbuf, (0, 0))
    source = Tensor("x", BY_NAME["float32"], (16, 64), MemoryRegion.shared_hbm)
    pattern = ((64, 16), (1, 64))
    operands = {"dst": Access(tile, 96 * 64, pattern), "src": Access(source, 0, pattern)}
    work = transfer_of(Instruction("dma_copy", operands), False)
    assert isinstance(work, Transfer)
    assert (work.first_lane, work.lane_count) == (12, 2)


def test_transfers_of_other_partitions_do_not_wait() -> None:
    pricing = Pricing(Parameters("trn2"))
    engines = DmaEngines(pricing.numbers)
    low, high = pricing.cost(load(0, 8)), pricing.cost(load(64, 8))
    _, first_end = engines.move(0.0, low)
    _, other_end = engines.move(0.0, high)
    start, _ = engines.move(0.0, low)
    assert other_end < 1.1 * first_end
    assert start > first_end - 10


def narrow(x, partitions):
    """Load 4 KiB rows as [partitions, columns] tiles and store them again."""
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, rows, partitions):
        tile = nl.ndarray((partitions, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, x[start : start + partitions])
        nisa.dma_copy(out[start : start + partitions], tile)
    return out


def moved_ns(partitions: int) -> float:
    x = np.ones((64, 1024), np.float32)
    program = compile_kernel(Kernel(narrow).trace((x,), {"partitions": partitions}, target="trn2"))
    moves = [
        event
        for event in estimate(program).cores[0].events
        if isinstance(event, Event) and event.lane.startswith("dma.") and event.nbytes
    ]
    return max(event.end - event.start for event in moves) / moves[0].nbytes


def test_the_estimate_of_a_kernel_has_its_partitions() -> None:
    """A byte takes four times as long on two engines as on eight."""
    assert moved_ns(16) > 2.5 * moved_ns(64)
