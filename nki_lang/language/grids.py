"""The functions that make grids of tiles and blocks."""

from __future__ import annotations

from math import prod
from typing import TypeVar, cast, overload

from nki_lang.base.dtypes import DTypeLike
from nki_lang.base.errors import NkiTypeError, NkiValueError, fail
from nki_lang.base.memory import ON_CHIP, MemoryRegion
from nki_lang.frontend.grids import (
    GridAxis,
    NkiBlockGrid,
    NkiGrid,
    NkiTileGrid,
    refuse_grid,
    tiled_axes,
)
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.language.creation import ndarray

__all__ = ["alloc_blocks", "alloc_tiles", "blocks", "empty_like", "tiles"]

G = TypeVar("G", bound=NkiGrid)

_TRANSPOSED = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}
"""The order of dimensions that nisa.dma_transpose writes, by rank."""


def tiles(
    source: NkiTensor | NkiTileGrid | NkiBlockGrid, *, tile_shape: tuple[int, ...] | None = None
) -> NkiTileGrid:
    """The tiles of a tensor, or those inside blocks; nothing is copied.

    The last tiles are clamped at the edges. Leading dimensions of an HBM tensor that ``tile_shape``
    does not name are indexed element by element.

    Args:
        source: a tensor, or a grid of tiles or blocks.
        tile_shape: the elements of a tile, a tuple for the last dimensions of the tensor.

    Returns:
        NkiTileGrid: the grid.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-TILE-GRID.

    Source: nl.tiles (nki/api/nki/language, NKI 0.7.0).

    Example, given x (128, 512) float32 in HBM::

        grid = nl.tiles(x, tile_shape=(64, 200))
        for j in range(grid.shape[1]):
            tile = nl.ndarray(grid[0, j].element_shape, x.dtype)
            nisa.dma_copy(dst=tile, src=grid[0, j].data)
    """
    if isinstance(source, NkiGrid):
        _require_same(source, tile_shape)
        axes = tuple(axis.ungrouped() for axis in source.axes)
        return NkiTileGrid(backing=source.backing, axes=axes, capacity=source.has_capacity_layout)
    shape = _exact(tile_shape, "tile_shape")
    _check_source(source, shape)
    return NkiTileGrid(backing=source, axes=tiled_axes(source.shape, shape), capacity=False)


def blocks(
    source: NkiTensor | NkiTileGrid | NkiBlockGrid,
    *,
    tile_shape: tuple[int, ...] | None = None,
    block_shape: tuple[int, ...],
) -> NkiBlockGrid:
    """Groups of neighboring tiles of a tensor or of a grid; nothing is copied.

    The last blocks have fewer tiles when the tiles do not fill them.

    Args:
        source: a tensor, or a grid of tiles or blocks.
        tile_shape: the elements of a tile, a tuple for the last dimensions of the tensor.
        block_shape: tiles of a block, a number for each dimension of tile_shape.

    Returns:
        NkiBlockGrid: the grid.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-TILE-GRID.

    Source: nl.blocks (nki/api/nki/language, NKI 0.7.0).

    Example, given x (128, 512) float32 in HBM::

        grid = nl.blocks(x, tile_shape=(64, 128), block_shape=(2, 2))
        assert grid.shape == (1, 2) and nl.tiles(grid[0, 1]).shape == (2, 2)
    """
    return _grouped(tiles(source, tile_shape=tile_shape), block_shape)


def alloc_tiles(
    *,
    tile_shape: tuple[int, ...],
    element_shape: tuple[int, ...],
    buffer: MemoryRegion,
    dtype: DTypeLike,
    address: tuple[int, int] | None = None,
    name: str = "",
) -> NkiTileGrid:
    """A grid of tiles over one new tensor with undefined contents.

    In HBM the tensor has ``element_shape``. In SBUF and PSUM it has the partitions of a tile, and
    the tiles side by side in row-major order, each with room for a whole one.

    Args:
        tile_shape: the elements of a tile, a tuple for the last dimensions of the tensor.
        element_shape: the elements in each dimension, a tuple.
        buffer: the memory: nl.sbuf, nl.psum, nl.private_hbm or nl.shared_hbm.
        dtype: of the result, such as nl.bfloat16; that of the operand when None.
        address: (partition, byte in the partition) for SBUF and PSUM; None lets the tracer
            choose.
        name: of the tensor, as files and profiles show it.

    Returns:
        NkiTileGrid: the grid.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-TILE-GRID, NKI-PARTITION,
            NKI-CAPACITY, NKI-BUFFER, NKI-DTYPE, NKI-SHAPE.

    Source: nl.alloc_tiles (nki/api/nki/language, NKI 0.7.0).

    Example, given x (128, 512) float32 in HBM::

        grid = nl.alloc_tiles(tile_shape=(128, 128), element_shape=(256, 500), buffer=nl.sbuf, dtype=x.dtype)
        nisa.dma_copy(dst=grid[1, 0].data, src=x[:, 0:128])
    """
    tile = _exact(tile_shape, "tile_shape")
    element = _exact(element_shape, "element_shape")
    if not 2 <= len(tile) <= len(element):
        fail(f"tile_shape {tile} for element_shape {element}", "NKI-TILE-GRID",
             "a tile has 2 dimensions or more, and no more than the elements",
             "nki.language.alloc_tiles (nki/api, NKI 0.7.0)", NkiValueError)  # fmt: skip
    if not isinstance(buffer, MemoryRegion):  # pyright: ignore[reportUnnecessaryIsInstance]
        fail(f"buffer={buffer!r} is not a MemoryRegion", "NKI-TILE-GRID",
             "use nl.sbuf, nl.psum, nl.private_hbm or nl.shared_hbm",
             "nki.language.alloc_tiles (nki/api, NKI 0.7.0)", NkiTypeError)  # fmt: skip
    axes = tiled_axes(element, tile)
    return NkiTileGrid(
        backing=_backing(axes, dtype, buffer, name, address),
        axes=axes,
        capacity=buffer in ON_CHIP,
    )


def alloc_blocks(
    *,
    tile_shape: tuple[int, ...],
    block_shape: tuple[int, ...],
    element_shape: tuple[int, ...],
    buffer: MemoryRegion,
    dtype: DTypeLike,
    address: tuple[int, int] | None = None,
    name: str = "",
) -> NkiBlockGrid:
    """A grid of blocks over one new tensor with undefined contents, laid out as by alloc_tiles.

    Args:
        tile_shape: the elements of a tile, a tuple for the last dimensions of the tensor.
        block_shape: tiles of a block, a number for each dimension of tile_shape.
        element_shape: the elements in each dimension, a tuple.
        buffer: the memory: nl.sbuf, nl.psum, nl.private_hbm or nl.shared_hbm.
        dtype: of the result, such as nl.bfloat16; that of the operand when None.
        address: (partition, byte in the partition) for SBUF and PSUM; None lets the tracer
            choose.
        name: of the tensor, as files and profiles show it.

    Returns:
        NkiBlockGrid: the grid.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-TILE-GRID, NKI-PARTITION,
            NKI-CAPACITY, NKI-BUFFER, NKI-DTYPE, NKI-SHAPE.

    Source: nl.alloc_blocks (nki/api/nki/language, NKI 0.7.0).

    Example, given x (128, 512) float32 in HBM; a and b (128, 512) float32 tiles in SBUF::

        grid = nl.alloc_blocks(
            tile_shape=(64, 128), block_shape=(2, 2), element_shape=(128, 512), buffer=nl.private_hbm,
            dtype=x.dtype,
        )
        nisa.dma_copy(dst=grid[0, 1].data, src=a[:, 256:512])
    """
    grid = alloc_tiles(
        tile_shape=tile_shape, element_shape=element_shape, buffer=buffer, dtype=dtype,
        address=address, name=name,
    )  # fmt: skip
    return _grouped(grid, block_shape)


@overload
def empty_like(
    x: NkiTensor,
    dtype: DTypeLike | None = None,
    buffer: MemoryRegion | str | None = None,
    name: str = "",
    *,
    transpose_axes: tuple[int, ...] | None = None,
    address: tuple[int, int] | None = None,
) -> NkiTensor: ...
@overload
def empty_like(
    x: G,
    dtype: DTypeLike | None = None,
    buffer: MemoryRegion | str | None = None,
    name: str = "",
    *,
    transpose_axes: tuple[int, ...] | None = None,
    address: tuple[int, int] | None = None,
) -> G: ...
def empty_like(
    x: NkiTensor | NkiGrid,
    dtype: DTypeLike | None = None,
    buffer: MemoryRegion | str | None = None,
    name: str = "",
    *,
    transpose_axes: tuple[int, ...] | None = None,
    address: tuple[int, int] | None = None,
) -> NkiTensor | NkiGrid:
    """A new tensor or grid with the shape of ``x`` and undefined contents.

    A grid keeps its type, coordinates, grouping and partial tiles; gaps of its selection are closed.
    ``transpose_axes`` makes the destination of a ``nisa.dma_transpose`` in SBUF.

    Args:
        x: a tile in SBUF or PSUM.
        dtype: of the result, such as nl.bfloat16; that of the operand when None.
        buffer: the memory: nl.sbuf, nl.psum, nl.private_hbm or nl.shared_hbm.
        name: of the tensor, as files and profiles show it.
        transpose_axes: (1, 0), (2, 1, 0) or (3, 1, 2, 0), by rank; None keeps the order.
        address: (partition, byte in the partition) for SBUF and PSUM; None lets the tracer
            choose.

    Returns:
        NkiTensor, or the type of the grid: new.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-TILE-GRID, NKI-PARTITION,
            NKI-CAPACITY, NKI-BUFFER, NKI-DTYPE, NKI-SHAPE.

    Source: nl.empty_like (nki/api/nki/language, NKI 0.7.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        tile = nl.empty_like(a, dtype=nl.bfloat16)
    """
    element = dtype or x.dtype
    region = buffer or x.buffer
    if transpose_axes is not None:
        region = buffer or MemoryRegion.sbuf
        if MemoryRegion(region) is not MemoryRegion.sbuf:
            refuse_grid(f"transpose_axes with buffer={region}",
                        "the destination of nisa.dma_transpose is in SBUF")  # fmt: skip
    if isinstance(x, NkiTensor):
        shape = x.shape
        if transpose_axes is not None:
            shape = tuple(shape[axis] for axis in _transposition(transpose_axes, len(shape)))
        return ndarray(shape, element, region, name, address)
    axes = tuple(axis.packed() for axis in x.axes)
    if transpose_axes is not None:
        untiled = [axis for axis in axes if not axis.tile]
        tiled = [axis for axis in axes if axis.tile]
        order = _transposition(transpose_axes, len(tiled))
        axes = (*untiled, *(tiled[axis] for axis in order))
    memory = MemoryRegion(region)
    backing = _backing(axes, element, memory, name, address)
    return type(x)(backing=backing, axes=axes, capacity=memory in ON_CHIP)


def _transposition(axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    if _TRANSPOSED.get(rank) != axes:
        orders = ", ".join(map(str, _TRANSPOSED.values()))
        refuse_grid(f"transpose_axes={axes!r} for {rank} dimensions", f"it is one of {orders}")
    return axes


def _backing(
    axes: tuple[GridAxis, ...],
    dtype: DTypeLike,
    buffer: MemoryRegion,
    name: str,
    address: tuple[int, int] | None,
) -> NkiTensor:
    """Return a new tensor for the tiles of a grid."""
    if buffer not in ON_CHIP:
        return ndarray(tuple(axis.extent for axis in axes), dtype, buffer, name, address)
    tile = [axis.tile for axis in axes if axis.tile]
    count = prod(-(-axis.extent // axis.width) for axis in axes)
    return ndarray((tile[0], count * prod(tile[1:])), dtype, buffer, name, address)


def _grouped(grid: NkiTileGrid, block_shape: object) -> NkiBlockGrid:
    counts = _exact(block_shape, "block_shape")
    tiled = [axis for axis in grid.axes if axis.tile]
    if len(counts) != len(tiled):
        refuse_grid(f"block_shape {counts} for tiles of {len(tiled)} dimensions",
                    "it has one number of tiles for each dimension of tile_shape")  # fmt: skip
    remaining = iter(counts)
    axes = tuple(axis.grouped(next(remaining)) if axis.tile else axis for axis in grid.axes)
    return NkiBlockGrid(backing=grid.backing, axes=axes, capacity=grid.has_capacity_layout)


def _exact(shape: object, name: str) -> tuple[int, ...]:
    source = "nki.language.tiles (nki/api, NKI 0.7.0)"
    if not isinstance(shape, tuple) or any(
        type(extent) is not int for extent in cast("tuple[object, ...]", shape)
    ):
        fail(f"{name}={shape!r} is not a tuple of integers", "NKI-TILE-GRID",
             f"pass {name}=(128, 512) or the like", source, NkiTypeError)  # fmt: skip
    extents = cast("tuple[int, ...]", shape)
    if not extents or min(extents) < 1:
        fail(f"{name}={extents} has an extent below 1", "NKI-TILE-GRID",
             "extents are 1 or more", source, NkiValueError)  # fmt: skip
    return extents


def _require_same(grid: NkiGrid, tile_shape: object) -> None:
    if tile_shape is not None and _exact(tile_shape, "tile_shape") != grid.tile_shape:
        refuse_grid(f"tile_shape {tile_shape} for {grid!r}",
                    "leave it out: the tiles of a grid stay; tile the tensor again for others")  # fmt: skip


def _check_source(source: object, tile_shape: tuple[int, ...]) -> None:
    if not isinstance(source, NkiTensor):
        fail(f"{source!r} has no tiles", "NKI-TILE-GRID", "pass a tensor or a grid",
             "nki.language.tiles (nki/api, NKI 0.7.0)", NkiTypeError)  # fmt: skip
    rank, count = len(source.shape), len(tile_shape)
    if count > rank or (source.on_chip and count < rank):
        refuse_grid(
            f"tile_shape {tile_shape} for tensor {source.name!r} of shape {source.shape}",
            "it names the last dimensions in HBM, and all of them in SBUF and PSUM",
        )
    if source.is_indirect():
        refuse_grid(f"tensor {source.name!r} has a runtime index", "tile it before indexing it")
