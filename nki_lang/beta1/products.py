"""Products of the tensor engine."""

from __future__ import annotations

from nki_lang.base.memory import MemoryRegion
from nki_lang.beta1.index import refuse_mask
from nki_lang.beta1.mask import Box, mask_boxes, whole_box
from nki_lang.beta1.movement import nc_transposed
from nki_lang.beta1.operands import off_psum, require_tile
from nki_lang.beta1.results import new_tile, produce
from nki_lang.beta1.tile import MaskedOperand, Tile
from nki_lang.beta1.values import MaskLike, Value
from nki_lang.isa.enums import matmul_perf_mode
from nki_lang.isa.matmul import nc_matmul
from nki_lang.isa.movement import tensor_copy

__all__ = ["masked_product", "matmul", "product"]

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


def masked_product(
    stationary: Value, moving: Value, mask: MaskLike, perf_mode: Value, **options: Value
) -> Tile:
    """``stationary.T @ moving`` of tiles, each of which may have a mask of its own."""
    tiles: list[Tile] = []
    masks: list[MaskLike] = []
    for value in (stationary, moving):
        is_masked = isinstance(value, MaskedOperand)
        tile = require_tile(value.tile if is_masked else value, "nisa.nc_matmul")
        tiles.append(off_psum(tile))
        masks.append(value.mask if is_masked else None)
    return product(tiles[0], tiles[1], mask, perf_mode, (masks[0], masks[1]), **options)


def product(
    stationary: Tile,
    moving: Tile,
    mask: MaskLike = None,
    perf_mode: Value = None,
    operand_masks: tuple[MaskLike, MaskLike] = (None, None),
    **options: Value,
) -> Tile:
    """``stationary.T @ moving``, which an assignment can redirect and ``+=`` accumulate.

    Args:
        stationary, moving: tiles with the contracted axis first.
        mask: over the axes of the result.
        perf_mode: ``double_row`` contracts two rows at one time.
        operand_masks: elements of each operand that take part: along the contracted axis those that
            both masks leave, along the other axes the rows and columns of the result.
        options: of the instruction.
    """
    double = perf_mode is not None and "double_row" in str(getattr(perf_mode, "name", perf_mode))
    if double:
        options["perf_mode"] = matmul_perf_mode.double_row
    free = 2 if double else 1
    rows = _extent(stationary.shape[free:])
    columns = moving.shape[free:]
    areas = [
        _operand_box(tile, operand_mask)
        for tile, operand_mask in zip((stationary, moving), operand_masks, strict=True)
    ]

    def write(target: Tile, keep: bool, accumulate: bool | None = False) -> None:
        left_area, right_area = areas
        if left_area is None or right_area is None:
            return
        inner = tuple(map(_common, left_area[:free], right_area[:free]))
        selected = (_row_span(stationary, left_area[free:]), *right_area[free:])
        for box in mask_boxes(mask, (rows, *columns)):
            outer = tuple(map(_common, box, selected))
            if any(start >= stop for start, stop in (*inner, *outer)):
                continue
            if outer[0] == (0, rows):
                left = stationary.region((*inner, *whole_box(stationary.shape[free:])))
            else:
                left = stationary.region((*inner, outer[0]))
            right = moving.region((*inner, *outer[1:]))
            nc_matmul(target.region(outer), left, right, accumulate=accumulate, **options)

    return produce((rows, *columns), "float32", write, MemoryRegion.psum, _PSUM, is_product=True)


def _operand_box(tile: Tile, mask: MaskLike) -> Box | None:
    """Return the box of the elements of an operand that take part; None when there is none."""
    boxes = mask_boxes(mask, tile.shape)
    if not boxes:
        return None
    if len(boxes) > 1:
        refuse_mask(
            f"an operand of nisa.nc_matmul, {tile!r}, under conditions on several axes",
            "compare one axis in each condition, or clear the other elements with nisa.affine_select",
        )
    return boxes[0]


def _row_span(stationary: Tile, box: Box) -> tuple[int, int]:
    """Return the rows of the result that a box of the stationary operand's free axes selects."""
    if len(box) == 1:
        return box[0]
    extents = stationary.shape[len(stationary.shape) - len(box) :]
    if box != whole_box(extents):
        refuse_mask(
            f"the stationary operand of nisa.nc_matmul, {stationary!r}, with several free axes"
            " under a mask",
            "index it with one free axis",
        )
    return (0, _extent(extents))


def _common(span: tuple[int, int], other_span: tuple[int, int]) -> tuple[int, int]:
    """Return the range that two ranges share; empty if its start is not below its stop."""
    return max(span[0], other_span[0]), min(span[1], other_span[1])


def _extent(shape: tuple[int, ...]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count
