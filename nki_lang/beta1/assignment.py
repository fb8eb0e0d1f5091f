"""Assignment to tiles: ``t[...] = value`` and ``t += value``."""

from __future__ import annotations

import numpy as np

from nki_lang.base.errors import fail
from nki_lang.base.memory import MemoryRegion
from nki_lang.beta1 import elementwise
from nki_lang.beta1.access import select
from nki_lang.beta1.movement import broadcast, copy
from nki_lang.beta1.operands import cut, fitted, operator_of, require_same_dtype, require_tile
from nki_lang.beta1.results import redirect, run_masked
from nki_lang.beta1.session import require_session
from nki_lang.beta1.tile import OPERATIONS, Tile
from nki_lang.beta1.values import ElementLike, MaskLike, OperatorLike, Value
from nki_lang.isa.dma import dma_copy
from nki_lang.isa.movement import memset, tensor_copy

__all__ = ["LoopValue", "assign", "update"]


class LoopValue:
    """The value of ``nl.loop_reduce``, which is folded into the tile it is assigned to.

    Attributes:
        tile: the value of one iteration.
        op: the operator that folds.
        mask: elements that take part.
        dtype: element type of the result, or None for that of the tile it is assigned to.
    """

    __slots__ = ("dtype", "mask", "op", "tile")

    def __init__(
        self, tile: Tile, op: OperatorLike, mask: MaskLike, dtype: ElementLike = None
    ) -> None:
        self.tile = tile
        self.op = op
        self.mask = mask
        self.dtype = dtype


def assign(target: Tile, value: Value) -> None:
    """``target[...] = value``: a tile, repeated along free dimensions of extent 1, or a number."""
    session = require_session()
    session.filled.add(target.base.storage.name)
    if isinstance(value, LoopValue):
        require_same_dtype(target, value.dtype, "nl.loop_reduce")
        operator: Value = operator_of(value.op)
        value = elementwise.binary(operator.name, target, value.tile, target.dtype, value.mask)
    if isinstance(value, Tile):
        if redirect(value, target):
            return
        session.newest = None
        source, written = value.region(), target.region()
        if source.storage is written.storage and source.access == written.access:
            return  # Python assigns the result of ``t[i] += x`` once more
        if not (target.on_chip and value.on_chip):
            _transfer(target, value)
        else:
            run_masked(
                target, None, True, lambda dst, box: tensor_copy(dst, cut(value, target.shape, box))
            )
    elif isinstance(value, (bool, int, float, np.generic)):
        session.newest = None
        number = np.asarray(value).item()
        run_masked(target, None, True, lambda dst, box: memset(dst, number))
    else:
        require_tile(value, "an assignment to a tile")


def _transfer(target: Tile, value: Tile) -> None:
    psum = MemoryRegion.psum
    if target.buffer is psum or value.buffer is psum:
        fail("an assignment between PSUM and HBM", "NKI-BUFFER",
             "go through a tile in SBUF: nl.copy, then nl.store")  # fmt: skip
    dma_copy(target.region(), fitted(value.region(), target.shape))


def update(target: Tile, value: Value, name: str) -> Tile:
    """``target <op>= value``; a product added to a tile in PSUM accumulates there."""
    if name == "add" and target.buffer is MemoryRegion.psum:
        is_filled = target.base.storage.name in require_session().filled
        if redirect(value, target, accumulate=is_filled or None):
            return target
    assign(target, elementwise.binary(name, target, value))
    return target


OPERATIONS.update(
    assign=assign,
    binary=elementwise.binary,
    broadcast=broadcast,
    copy=copy,
    select=select,
    unary=elementwise.unary,
    update=update,
)
