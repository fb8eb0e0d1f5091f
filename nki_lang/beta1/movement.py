"""Moving data: load, store, copies, repetition and transposes."""

from __future__ import annotations

import numpy as np

from nki_lang.base.errors import fail
from nki_lang.base.memory import MemoryRegion
from nki_lang.beta1.mask import mask_boxes
from nki_lang.beta1.operands import cut, fitted, off_psum, read, require_tile, tile_kind
from nki_lang.beta1.results import new_tile, produce, run_masked
from nki_lang.beta1.session import require_session
from nki_lang.beta1.tile import Tile
from nki_lang.beta1.values import ElementLike, EngineLike, MaskLike, Value
from nki_lang.isa.dma import dma_copy, dma_transpose
from nki_lang.isa.enums import oob_mode as oob_modes
from nki_lang.isa.matmul import nc_transpose
from nki_lang.isa.movement import memset, tensor_copy

__all__ = ["broadcast", "copy", "load", "load_transpose2d", "store", "transpose"]

_SBUF = frozenset({MemoryRegion.sbuf})
_PSUM = frozenset({MemoryRegion.psum})


def tile_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape on chip of an access to HBM: at least two dimensions."""
    return shape if len(shape) > 1 else (shape or (1,)) + (1,)


def load(src: Value, mask: MaskLike = None, dtype: ElementLike = None, mode: Value = None) -> Tile:
    """A new tile in SBUF with the elements of an HBM tensor; the first axis is the partitions."""
    source = require_tile(src, "nl.load", on_chip=False)
    shape = tile_shape(source.shape)
    if shape[0] > 128:
        fail(
            f"nl.load of shape {shape} takes {shape[0]} partitions"
            " (err_num_partition_exceed_arch_limit)",
            "NKI-PARTITION",
            "a tile has at most 128 partitions (nl.tile_size.pmax); load tiles in a loop",
            "nki/api/nki.errors.rst",
        )

    def write(target: Tile, keep: bool) -> None:
        for box in mask_boxes(mask, shape):
            piece = source.region(box if source.shape == shape else box[: len(source.shape)])
            _transfer(target.region(box), fitted(piece, tuple(b - a for a, b in box)), mode)

    return produce(shape, dtype or source.dtype, write, buffers=_SBUF)


def _transfer(dst: Value, src: Value, mode: Value = None) -> None:
    if mode is not None and getattr(mode, "name", mode) == "skip":
        dma_copy(dst, src, oob_mode=oob_modes.skip)
    else:
        dma_copy(dst, src)


def store(dst: Value, value: Value, mask: MaskLike = None, mode: Value = None) -> None:
    """Write a tile, or a number, into an HBM tensor."""
    target = require_tile(dst, "nl.store", on_chip=False)
    shape = tile_shape(target.shape)
    if isinstance(value, (bool, int, float, np.generic)):
        source = new_tile((min(shape[0], 128), *shape[1:]), target.dtype)
        memset(source.base, np.asarray(value).item())
    else:
        source = off_psum(require_tile(value, "nl.store"))
    require_session().newest = None
    for box in mask_boxes(mask, shape):
        piece = target.region(box if target.shape == shape else box[: len(target.shape)])
        extents = tuple(stop - start for start, stop in box)
        if source.shape == shape or len(source.shape) == len(shape):
            data = cut(source, shape, box)
        else:
            data = fitted(source.region(), extents)
        _transfer(fitted(piece, extents), data, mode)


def copy(
    src: Value, dtype: ElementLike = None, mask: MaskLike = None, engine: EngineLike = None
) -> Tile:
    """A copy of a tile, in SBUF."""
    source = require_tile(src, "nl.copy")

    def write(target: Tile, keep: bool) -> None:
        def issue(dst: Value, box: Value) -> None:
            if engine is None:
                tensor_copy(dst, read(source, box))
            else:
                tensor_copy(dst, read(source, box), engine)

        run_masked(target, mask, keep, issue)

    return produce(source.shape, dtype or tile_kind(source), write)


def broadcast(src: Value, shape: tuple[int, ...]) -> Tile:
    """A tile of the given shape: dimensions of extent 1 are repeated.

    Free dimensions are repeated as a view. A repeated partition takes one transfer that reads it
    again and again.
    """
    tile = require_tile(src, "broadcast_to")
    if tile.shape == shape:
        return tile
    if tile.shape[0] == shape[0]:
        return Tile(fitted(tile.region(), shape))
    source = off_psum(tile).region()
    row = fitted(source, (1, *shape[1:]))
    repeated = row.derive(shape, (0, *row.strides[1:]), row.offset)
    session = require_session()
    session.newest = None
    out = new_tile(shape, tile.dtype)
    dma_copy(out.base, repeated)
    return out


def transpose(src: Value, dtype: ElementLike = None, mask: MaskLike = None) -> Tile:
    """A tile of two dimensions with its axes swapped, in SBUF."""
    tile = require_tile(src, "nl.transpose")
    if len(tile.shape) != 2:
        fail(f"nl.transpose of {tile!r}", "NKI-SHAPE", "a transpose takes two dimensions",
             "nki/api/nki.errors.rst")  # fmt: skip
    turned = nc_transposed(off_psum(tile), mask)
    return copy(turned, dtype=dtype)


def nc_transposed(
    tile: Tile, mask: MaskLike = None, dtype: ElementLike = None, engine: EngineLike = None
) -> Tile:
    """The transpose of a tile, in PSUM from the tensor engine; the free dimensions are one."""
    rows = tile.shape[0]
    columns = tile.size // rows
    on_vector = engine is not None and getattr(engine, "name", "") == "vector"
    is_tensor = not on_vector
    source = off_psum(tile) if is_tensor else tile
    buffer = MemoryRegion.psum if is_tensor else MemoryRegion.sbuf

    def write(target: Tile, keep: bool) -> None:
        for box in mask_boxes(mask, source.shape):
            piece = read(source, box)
            area = (box[1], box[0]) if len(box) == 2 else None
            dst = target.region(area)
            if dst.dtype == piece.dtype:
                _issue_transpose(dst, piece, engine if on_vector else None)
                continue
            turned = new_tile(dst.shape, piece.dtype, buffer)
            _issue_transpose(turned.base, piece, engine if on_vector else None)
            tensor_copy(dst, turned.base)

    buffers = _PSUM if is_tensor else _SBUF | _PSUM
    return produce((columns, rows), dtype or source.dtype, write, buffer, buffers)


def _issue_transpose(dst: Value, src: Value, engine: EngineLike) -> None:
    if engine is None:
        nc_transpose(dst, src)
    else:
        nc_transpose(dst, src, engine)


def load_transpose2d(src: Value, mask: MaskLike = None, dtype: ElementLike = None) -> Tile:
    """A new tile in SBUF with the transpose of a two-dimensional HBM tensor."""
    source = require_tile(src, "nl.load_transpose2d", on_chip=False)
    if len(source.shape) != 2:
        fail(f"nl.load_transpose2d of shape {source.shape}", "NKI-SHAPE",
             "the source has two dimensions", "nki/api/nki.errors.rst")  # fmt: skip
    rows, columns = source.shape

    def write(target: Tile, keep: bool) -> None:
        for box in mask_boxes(mask, (columns, rows)):
            piece = source.region((box[1], box[0]))
            dst = target.region(box)
            if dst.dtype == piece.dtype:
                dma_transpose(dst, piece)
                continue
            turned = new_tile(dst.shape, piece.dtype)
            dma_transpose(turned.base, piece)
            tensor_copy(dst, turned.base)

    return produce((columns, rows), dtype or source.dtype, write, buffers=_SBUF)
