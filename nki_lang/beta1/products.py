"""Products of the tensor engine."""

from __future__ import annotations

from nki_lang.base.memory import MemoryRegion
from nki_lang.beta1.mask import mask_boxes
from nki_lang.beta1.movement import nc_transposed
from nki_lang.beta1.operands import off_psum, require_tile
from nki_lang.beta1.results import new_tile, produce
from nki_lang.beta1.tile import Tile
from nki_lang.beta1.values import MaskLike, Value
from nki_lang.isa.enums import matmul_perf_mode
from nki_lang.isa.matmul import nc_matmul
from nki_lang.isa.movement import tensor_copy

__all__ = ["matmul", "product"]

_PSUM = frozenset({MemoryRegion.psum})


def matmul(x: Value, y: Value, transpose_x: bool = False, mask: MaskLike = None) -> Tile:
    """``x @ y``, or ``x.T @ y``; float32 in PSUM."""
    left = off_psum(require_tile(x, "nl.matmul"))
    right = off_psum(require_tile(y, "nl.matmul"))
    if not transpose_x:
        turned = nc_transposed(left)
        moved = new_tile(turned.shape, left.dtype)
        tensor_copy(moved.base, turned.base)
        left = moved
    return product(_same_width(left, right), _same_width(right, left), mask)


def _same_width(tile: Tile, operand: Tile) -> Tile:
    """Return the tile in float32 if the operand one is: the tensor engine does not mix them."""
    if operand.dtype.name != "float32" or tile.dtype.name == "float32":
        return tile
    wide = new_tile(tile.shape, "float32")
    tensor_copy(wide.base, tile.region())
    return wide


def product(
    stationary: Tile, moving: Tile, mask: MaskLike = None, perf_mode: Value = None, **options: Value
) -> Tile:
    """``stationary.T @ moving``, which an assignment can redirect and ``+=`` accumulate."""
    double = perf_mode is not None and "double_row" in str(getattr(perf_mode, "name", perf_mode))
    if double:
        options["perf_mode"] = matmul_perf_mode.double_row
    free = 2 if double else 1
    rows = _extent(stationary.shape[free:])
    columns = moving.shape[free:]

    def write(target: Tile, keep: bool, accumulate: bool | None = False) -> None:
        shape = (rows, *columns)
        for box in mask_boxes(mask, shape):
            inner = tuple((0, extent) for extent in moving.shape[:free])
            left = stationary.region()
            if box[0] != (0, rows):
                left = stationary.region(
                    (*((0, extent) for extent in stationary.shape[:free]), box[0])
                )
            right = moving.region((*inner, *box[1:]))
            nc_matmul(target.region(box), left, right, accumulate=accumulate, **options)

    return produce((rows, *columns), "float32", write, MemoryRegion.psum, _PSUM, is_product=True)


def _extent(shape: tuple[int, ...]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count
