"""Loads small right operands of the products of a batch: one transfer for several batch indices.

Starting a transfer costs an engine the same time for any size.
"""

from __future__ import annotations

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.lowering.tiles.emitter import Tile
from neff.compiler.lowering.tiles.task import Port, window
from neff.compiler.lowering.tiles.tiling import PARTITIONS
from nki_lang.base.dtypes import DType

__all__ = ["RightBatches"]

_MAX_TRANSFER_BYTES = 2048
"""Limit on the bytes of each partition that a transfer loads."""


class RightBatches:
    """The right operands of a product, by batch index.

    Args:
        port: the operands, (batch..., depth, columns).
        dtype: type of the tiles.
        batch: number of batch dimensions.
    """

    def __init__(self, port: Port, dtype: DType, batch: int) -> None:
        self._port, self._dtype, self._batch = port, dtype, batch
        self._loaded: dict[tuple[int, ...], Tile] = {}
        depth, columns = port.view.shape[-2:]
        down, along = port.view.strides[-2:]
        lies_across = down == 1 and along != 1 and columns > 1 and depth > 1
        self._run = _MAX_TRANSFER_BYTES // (columns * dtype.itemsize)
        if not batch or depth > PARTITIONS or lies_across:
            self._run = 1

    @property
    def resident(self) -> int:
        """Bytes of a partition that operands take besides the one in use."""
        return 2 * _MAX_TRANSFER_BYTES if self._run > 1 else 0

    def tile(self, tensor: Tile, where: tuple[int, ...]) -> Tile | None:
        """Return the operand of a batch index (depth, columns); None if operands are not small.

        Args:
            tensor: the buffer.
            where: the batch index, of ``batch`` numbers.
        """
        if self._run < 2:
            return None
        if where not in self._loaded:
            self._load(tensor, where)
        return self._loaded[where]

    def _load(self, tensor: Tile, where: tuple[int, ...]) -> None:
        view = self._port.view
        *outer, first = where
        count = min(self._run, view.shape[self._batch - 1] - first)
        start = sum(index * step for index, step in zip(where, view.strides, strict=False))
        depth, columns = view.shape[-2:]
        block = nl.ndarray((depth, count, columns), dtype=self._dtype, buffer=nl.sbuf)
        pattern = [
            [view.strides[-2], depth], [view.strides[self._batch - 1], count],
            [view.strides[-1], columns],
        ]  # fmt: skip
        nisa.dma_copy(block, window(tensor, self._port, start, pattern))
        self._loaded = {(*outer, first + index): block[:, index] for index in range(count)}
