"""Products of a unit that contract its rows, as gradients of right operands do.

Each tile of rows is a part of the contraction, on partitions already: it is added to sums in PSUM,
which are stored behind the last tile of their place in the batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.graph.views import Dim, merge
from neff.compiler.lowering.emitter import Tile
from neff.compiler.lowering.reaches import tight
from neff.compiler.lowering.task import Port, window
from neff.compiler.lowering.tiling import PARTITIONS
from nki_lang.base.dtypes import DType

__all__ = ["Contraction", "OverRows"]

_BANK = 512
"""Columns of float32 in a bank of PSUM."""


@dataclass(frozen=True, slots=True)
class OverRows:
    """A product of two values of a unit over its rows.

    Attributes:
        out: where the result is, (batch..., columns of the left value, columns of the right value);
            the former are one dimension.
        dtype: type in which the tensor engine reads both.
        batch: how many of the unit's extents are batch dimensions.
    """

    out: Port
    dtype: DType
    batch: int


class Contraction:
    """The sums of one such product while a kernel is made.

    Args:
        spec: of the product.
        tensor: the result's buffer.
        places: the place in the batch of each tile that the kernel works on.
    """

    def __init__(self, spec: OverRows, tensor: Tile, places: Iterable[tuple[int, ...]]) -> None:
        self._spec, self._tensor = spec, tensor
        self._left = Counter(where[: spec.batch] for where in places)
        self._sums: dict[tuple[int, ...], list[Tile]] = {}

    def add(self, where: tuple[int, ...], left: Tile, right: Tile) -> None:
        """Add a tile's rows: (rows, columns of the left value) and (rows, columns of the right one)."""
        place = where[: self._spec.batch]
        known = self._sums.get(place)
        banks = known or _banks(left.shape[1], right.shape[1])
        first = 0
        for bank in banks:
            for number in range(bank.shape[1]):
                last = min(first + PARTITIONS, left.shape[1])
                part = bank[0 : last - first, number]
                nisa.nc_matmul(part, left[:, first:last], right, accumulate=known is not None)
                first = last
        self._sums[place] = banks
        self._left[place] -= 1
        if not self._left[place]:
            self._store(place, self._sums.pop(place))

    def _store(self, place: tuple[int, ...], banks: list[Tile]) -> None:
        out, batch = self._spec.out, self._spec.batch
        view = tight(out.view)
        down, *steps = view.strides[batch:]
        across = merge(
            [Dim(n, (step,)) for n, step in zip(view.shape[batch + 1 :], steps, strict=True)]
        )
        columns = [[dim.steps[0], dim.extent] for dim in across]
        start = sum(index * step for index, step in zip(place, view.strides, strict=False))
        left = view.shape[batch]
        for bank in banks:
            tile = nl.ndarray(bank.shape, dtype=out.dtype, buffer=nl.sbuf)
            whole, rest = divmod(min(left, bank.shape[1] * PARTITIONS), PARTITIONS)
            if whole:
                nisa.tensor_copy(tile[:, 0:whole], bank[:, 0:whole])
                pattern = [[down, PARTITIONS], [PARTITIONS * down, whole], *columns]
                nisa.dma_copy(window(self._tensor, out, start, pattern), tile[:, 0:whole])
            if rest:
                nisa.tensor_copy(tile[0:rest, whole], bank[0:rest, whole])
                begin = start + whole * PARTITIONS * down
                pattern = [[down, rest], *columns]
                nisa.dma_copy(window(self._tensor, out, begin, pattern), tile[0:rest, whole])
            start += bank.shape[1] * PARTITIONS * down
            left -= whole * PARTITIONS + rest


def _banks(rows: int, columns: int) -> list[Tile]:
    """Sums of so many columns for all rows, 128 on partitions: (128, some, columns) in each bank."""
    parts = -(-rows // PARTITIONS)
    most = max(1, _BANK // columns)
    sizes = [min(most, parts - first) for first in range(0, parts, most)]
    return [
        nl.ndarray((PARTITIONS, some, columns), dtype=nl.float32, buffer=nl.psum) for some in sizes
    ]
