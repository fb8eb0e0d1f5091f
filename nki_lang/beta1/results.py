"""Results of value-returning functions, and assignments that redirect them.

``t[...] = nl.exp(x)`` writes into ``t`` directly: the assignment withdraws the instructions that
wrote the new tile and issues them again with the target. So does ``p += nl.matmul(a, b)``, which
accumulates in PSUM.
"""

from __future__ import annotations

from collections.abc import Callable

from nki_lang.base.dtypes import dtype_of
from nki_lang.base.memory import ON_CHIP, MemoryRegion
from nki_lang.beta1.index import Mask
from nki_lang.beta1.mask import Box, align_condition, mask_boxes
from nki_lang.beta1.session import Result, Session, require_session
from nki_lang.beta1.tile import Tile
from nki_lang.beta1.values import ElementLike, MaskLike, Value
from nki_lang.frontend.operators import BY_NAME
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.ir import walk
from nki_lang.isa.dma import dma_copy
from nki_lang.isa.elementwise import tensor_scalar
from nki_lang.isa.indexing import affine_select
from nki_lang.isa.movement import memset, tensor_copy_predicated
from nki_lang.language.creation import ndarray

__all__ = ["new_tile", "produce", "redirect", "run_masked", "starts_well", "tile_dtype"]

_START_PARTITIONS = ((32, 32), (64, 64), (128, 128))
"""(partitions at most, multiple that the start partition is of); D, start partitions."""


def tile_dtype(dtype: ElementLike) -> Value:
    """Return the type of a tile: bool is stored as uint8 on chip."""
    element = dtype_of(dtype)
    return dtype_of("uint8") if element.kind == "bool" else element


def new_tile(shape: tuple[int, ...], dtype: ElementLike, buffer: Value = MemoryRegion.sbuf) -> Tile:
    """Return a new tile with undefined contents."""
    return Tile(ndarray(shape, tile_dtype(dtype), buffer))


def produce(
    shape: tuple[int, ...],
    dtype: ElementLike,
    write: Callable[..., None],
    buffer: MemoryRegion = MemoryRegion.sbuf,
    buffers: frozenset[MemoryRegion] = ON_CHIP,
    is_product: bool = False,
) -> Tile:
    """Return a new tile that ``write`` fills, and remember how to write another one instead."""
    session = require_session()
    tile = new_tile(shape, dtype, buffer)
    block = session.builder.block
    result = Result(tile, write, buffers, block, len(block), is_product=is_product)
    session.newest = None
    write(tile, False)
    result.stop = len(block)
    session.newest = result
    return tile


def redirect(value: Value, target: Tile, *, accumulate: bool | None = False) -> bool:
    """Write the newest result into ``target`` instead of its own tile.

    Args:
        value: the result.
        target: the tile written.
        accumulate: of a product: True adds to the target's content, None adds from the second
            write on; other results take False.

    Returns:
        True if this was possible: ``value`` is the newest result, of the target's shape, and its
        instructions can write the target's memory.
    """
    session = require_session()
    result = session.newest
    if result is None or result.tile is not value or target.buffer not in result.buffers:
        return False
    if value.shape != target.shape or (accumulate is not False and not result.is_product):
        return False
    _withdraw(session, result)
    session.newest = None
    if result.is_product:
        result.write(target, True, accumulate)
    else:
        result.write(target, True)
    return True


def _withdraw(session: Session, result: Result) -> None:
    """Remove the instructions that wrote the result, but not the ones behind them.

    The first use of a block of ``nl.zeros`` fills it: ``blocks[i, i_p, i_f] = nl.load(x)``.
    """
    builder = session.builder
    if builder.eager:
        return
    for instruction in walk(result.block[result.start : result.stop]):
        if builder.named.get(instruction.name) is instruction:
            del builder.named[instruction.name]
    del result.block[result.start : result.stop]
    name = result.tile.base.name
    builder.tensors.pop(name, None)
    builder.homes.pop(name, None)
    builder.tensor_locations.pop(name, None)


def run_masked(
    target: Tile,
    mask: MaskLike,
    keep: bool,
    issue: Callable[[NkiTensor, Box], object],
    shape: tuple[int, ...] | None = None,
) -> None:
    """Issue an instruction of the compute engines for the elements where the mask holds.

    Args:
        target: the tile written.
        mask: over the axes of ``shape``.
        keep: elements of the target outside of the mask keep their content; otherwise they are
            undefined, and may be computed.
        issue: issues the instruction for a box of elements into a view of the target.
        shape: of the computation, that of the target by default.
    """
    extents = target.shape if shape is None else shape
    boxes = mask_boxes(mask, extents)
    if not boxes:
        return
    if len(boxes) == 1:
        dst = target.region(boxes[0])
        if starts_well(dst):
            issue(dst, boxes[0])
            return
        if dst.buffer is MemoryRegion.sbuf:  # the engines cannot start there, a transfer can
            temporary = ndarray(dst.shape, dst.dtype)
            issue(temporary, boxes[0])
            dma_copy(dst, temporary)
            return
    hull = _hull(boxes)
    if not keep:
        issue(target.region(hull), hull)
        return
    computed = new_tile(extents, target.dtype)
    issue(computed.region(hull), hull)
    predicate = _predicate(mask, extents)
    tensor_copy_predicated(target.region(hull), computed.region(hull), predicate.region(hull))


def starts_well(view: NkiTensor) -> bool:
    """Return True if the compute engines can access a view from its first partition on."""
    rows = view.shape[0]
    multiple = next(m for maximum, m in _START_PARTITIONS if rows <= maximum)
    return view.start_partition % multiple == 0


def _hull(boxes: list[Box]) -> Box:
    """Return the smallest box around all of them that starts at partition 0."""
    spans = [
        (min(box[axis][0] for box in boxes), max(box[axis][1] for box in boxes))
        for axis in range(len(boxes[0]))
    ]
    return ((0, spans[0][1]), *spans[1:])


def _predicate(mask: Mask, shape: tuple[int, ...]) -> Tile:
    """Return a tile of 1 where the mask holds and 0 elsewhere."""
    chosen = new_tile(shape, "float32")
    memset(chosen.base, 1.0)
    for expression, relation in mask.conditions:
        aligned = align_condition(expression, shape)
        following = new_tile(shape, "float32")
        pattern = [
            [step, extent] for step, extent in zip(aligned.steps[1:], shape[1:], strict=True)
        ]
        name = {">=": "greater_equal", "==": "equal", "!=": "not_equal"}[relation]
        affine_select(following.base, pattern, aligned.steps[0], chosen.base, 0.0,
                      BY_NAME[name], aligned.offset)  # fmt: skip
        chosen = following
    bits = new_tile(shape, "uint8")
    tensor_scalar(bits.base, chosen.base, BY_NAME["not_equal"], 0.0)
    return bits
