"""Products of a unit that contract its rows, as gradients of right operands do.

Each tile of rows is a range of the contraction, on partitions already: it is added to sums in PSUM,
which are stored after the last tile of their batch index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.graph.views import Dim, merge
from neff.compiler.lowering.rows.reaches import tight
from neff.compiler.lowering.tiles.emitter import Tile
from neff.compiler.lowering.tiles.task import Port, window
from neff.compiler.lowering.tiles.tiling import PARTITIONS
from nki_lang.base.dtypes import DType

__all__ = ["Contraction", "OverRows"]

_BANK_COLUMNS = 512
"""Columns of float32 in a bank of PSUM."""


@dataclass(frozen=True, slots=True)
class OverRows:
    """A product of two values of a unit over its rows.

    Attributes:
        out: the result, (batch..., columns of the left value, columns of the right value); the
            left columns are one dimension.
        dtype: type in which the tensor engine reads both.
        batch: number of the unit's extents that are batch dimensions.
    """

    out: Port
    dtype: DType
    batch: int


class Contraction:
    """The sums of one such product while a kernel is traced.

    Args:
        spec: the product.
        tensor: the result's buffer.
        tile_indices: the batch index of each tile of the kernel.
    """

    def __init__(
        self, spec: OverRows, tensor: Tile, tile_indices: Iterable[tuple[int, ...]]
    ) -> None:
        self._spec, self._tensor = spec, tensor
        self._left = Counter(index[: spec.batch] for index in tile_indices)
        self._sums: dict[tuple[int, ...], list[Tile]] = {}

    def add(self, index: tuple[int, ...], left: Tile, right: Tile) -> None:
        """Add a tile's rows: (rows, columns of the left value) and (rows, columns of the right
        value).
        """
        batch_index = index[: self._spec.batch]
        sums = self._sums.get(batch_index)
        banks = sums or _banks(left.shape[1], right.shape[1])
        first = 0
        for bank in banks:
            for number in range(bank.shape[1]):
                last = min(first + PARTITIONS, left.shape[1])
                target = bank[0 : last - first, number]
                nisa.nc_matmul(target, left[:, first:last], right, accumulate=sums is not None)
                first = last
        self._sums[batch_index] = banks
        self._left[batch_index] -= 1
        if not self._left[batch_index]:
            self._store(batch_index, self._sums.pop(batch_index))

    def _store(self, batch_index: tuple[int, ...], banks: list[Tile]) -> None:
        out, batch = self._spec.out, self._spec.batch
        view = tight(out.view)
        down, *steps = view.strides[batch:]
        across = merge(
            [
                Dim(extent, (step,))
                for extent, step in zip(view.shape[batch + 1 :], steps, strict=True)
            ]
        )
        columns = [[dim.steps[0], dim.extent] for dim in across]
        start = sum(index * step for index, step in zip(batch_index, view.strides, strict=False))
        left = view.shape[batch]
        for bank in banks:
            tile = nl.ndarray(bank.shape, dtype=out.dtype, buffer=nl.sbuf)
            full_blocks, remainder = divmod(min(left, bank.shape[1] * PARTITIONS), PARTITIONS)
            if full_blocks:
                nisa.tensor_copy(tile[:, 0:full_blocks], bank[:, 0:full_blocks])
                pattern = [[down, PARTITIONS], [PARTITIONS * down, full_blocks], *columns]
                nisa.dma_copy(window(self._tensor, out, start, pattern), tile[:, 0:full_blocks])
            if remainder:
                nisa.tensor_copy(tile[0:remainder, full_blocks], bank[0:remainder, full_blocks])
                begin = start + full_blocks * PARTITIONS * down
                pattern = [[down, remainder], *columns]
                nisa.dma_copy(
                    window(self._tensor, out, begin, pattern), tile[0:remainder, full_blocks]
                )
            start += bank.shape[1] * PARTITIONS * down
            left -= full_blocks * PARTITIONS + remainder


def _banks(rows: int, columns: int) -> list[Tile]:
    """Return sums of ``columns`` columns for all rows: (128, blocks of rows, columns) in each
    bank.
    """
    row_blocks = -(-rows // PARTITIONS)
    blocks_per_bank = max(1, _BANK_COLUMNS // columns)
    sizes = [
        min(blocks_per_bank, row_blocks - first) for first in range(0, row_blocks, blocks_per_bank)
    ]
    return [
        nl.ndarray((PARTITIONS, block_count, columns), dtype=nl.float32, buffer=nl.psum)
        for block_count in sizes
    ]
