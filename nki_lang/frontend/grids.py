"""Grids of tiles and blocks: a tensor seen as its tiles, with partial tiles at the edges.

A grid is navigation only. It selects elements of one backing tensor; indexing and grouping move
nothing and issue no instruction. :attr:`NkiGrid.data` is the selection as a tensor, which
instructions take.

In HBM a grid addresses the elements where they are. A grid that is allocated in SBUF or PSUM has
two dimensions: the partitions of one tile, and all tiles side by side in row-major order, each with
room for a whole tile.

Source: nki.language.NkiGrid, NkiTileGrid and NkiBlockGrid (nki/api, NKI 0.7.0).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod
from operator import index as to_int
from typing import Any, NoReturn, Self, SupportsIndex, cast

from nki_lang.base.dtypes import DType
from nki_lang.base.errors import NkiTypeError, fail
from nki_lang.base.memory import MemoryRegion
from nki_lang.frontend.objects import NKIObject
from nki_lang.frontend.tensor import NkiTensor

__all__ = ["GridAxis", "NkiBlockGrid", "NkiGrid", "NkiTileGrid", "refuse_grid", "tiled_axes"]

_SOURCE = "nki.language.NkiGrid (nki/api, NKI 0.7.0)"


def refuse_grid(message: str, remedy: str) -> NoReturn:
    """Raise NKI-TILE-GRID at the user's line."""
    fail(message, "NKI-TILE-GRID", remedy, _SOURCE)


@dataclass(frozen=True, slots=True)
class GridAxis:
    """The selection in one dimension of the backing tensor.

    Attributes:
        cells: the tiles of each coordinate; a coordinate of a tile grid has one tile. Untiled
            dimensions have tiles of one element.
        tile: nominal elements of a tile; 0 for an untiled dimension.
        extent: elements of the dimension.
        group: nominal tiles of a coordinate.
        step: elements between neighbouring coordinates.
        consumed: an integer has selected the coordinate.
    """

    cells: tuple[tuple[int, ...], ...]
    tile: int
    extent: int
    group: int
    step: int
    consumed: bool = False

    @property
    def width(self) -> int:
        """Nominal elements of a tile; 1 in an untiled dimension."""
        return self.tile or 1

    @property
    def tiles(self) -> tuple[int, ...]:
        """Numbers of all selected tiles."""
        return tuple(tile for cell in self.cells for tile in cell)

    def size_of(self, tile: int) -> int:
        """Return the elements of a tile, clamped at the edge."""
        return min(self.width, self.extent - tile * self.width)

    @property
    def elements(self) -> int:
        """Selected elements."""
        return sum(map(self.size_of, self.tiles))

    @property
    def is_contiguous(self) -> bool:
        """True when no element between two selected ones is left out."""
        return all(later == earlier + 1 for earlier, later in pairwise(self.tiles))

    @property
    def is_remainder(self) -> bool:
        """True when an edge clamps the selection."""
        nominal = len(self.cells) * self.group * self.width
        return self.elements < nominal

    def selected(self, key: object, position: int) -> GridAxis:
        """Return the axis with the coordinates of an integer or a slice."""
        count = len(self.cells)
        if isinstance(key, slice):
            bounds = cast("slice[int | None, int | None, int | None]", key)
            start, stop, step = _bounds(bounds, count, position)
            return self._with(self.cells[start:stop:step], self.step * step, consumed=False)
        if not isinstance(key, SupportsIndex):
            fail(f"{key!r} ({type(key).__name__}) is no coordinate of a grid", "NKI-INDEX",
                 "index with integers, slices or ...", _SOURCE)  # fmt: skip
        number = to_int(key)
        if not -count <= number < count:
            fail(f"coordinate {number} is outside dimension {position} of a grid, which has {count}",
                 "NKI-INDEX", "iterate over range(grid.shape[i])", _SOURCE)  # fmt: skip
        return self._with((self.cells[number],), self.step, consumed=True)

    def _with(self, cells: tuple[tuple[int, ...], ...], step: int, *, consumed: bool) -> GridAxis:
        return GridAxis(cells, self.tile, self.extent, self.group, step, consumed)

    def ungrouped(self) -> GridAxis:
        """Return the tiles of the selection as coordinates of their own."""
        if not self.tile:
            return self
        tiles = self.tiles
        step = tiles[1] - tiles[0] if len(tiles) > 1 else 1
        return GridAxis(
            tuple((tile,) for tile in tiles), self.tile, self.extent, 1, step * self.width
        )

    def grouped(self, count: int) -> GridAxis:
        """Return groups of ``count`` neighbouring tiles; the last one may have fewer."""
        if not self.tile:
            return self
        tiles = self.tiles
        cells = tuple(tiles[first : first + count] for first in range(0, len(tiles), count))
        step = (cells[1][0] - cells[0][0]) * self.width if len(cells) > 1 else count * self.width
        return GridAxis(cells, self.tile, self.extent, count, step)

    def packed(self) -> GridAxis:
        """Return the selection without the gaps between its tiles, remainders kept.

        Only the last tile of a dimension is partial, so the packed ones stay in line.
        """
        cells: list[tuple[int, ...]] = []
        number = 0
        for cell in self.cells:
            cells.append(tuple(range(number, number + len(cell))))
            number += len(cell)
        step = (cells[1][0] - cells[0][0]) * self.width if len(cells) > 1 else self.step
        return GridAxis(tuple(cells), self.tile, self.elements, self.group, step, self.consumed)


def _bounds(
    key: slice[int | None, int | None, int | None], count: int, position: int
) -> tuple[int, int, int]:
    step = 1 if key.step is None else to_int(key.step)
    first = 0 if key.start is None else to_int(key.start)
    last = count if key.stop is None else to_int(key.stop)
    first, last = (bound + count if bound < 0 else bound for bound in (first, last))
    if step < 1 or not 0 <= first < last <= count:
        shown = ":".join("" if bound is None else str(bound) for bound in (key.start, key.stop))
        fail(f"slice {shown} with step {step} in dimension {position} of a grid, which has {count}"
             " coordinates", "NKI-INDEX", "select one coordinate or more; steps are 1 or more",
             _SOURCE)  # fmt: skip
    return first, last, step


def tiled_axes(shape: tuple[int, ...], tile_shape: tuple[int, ...]) -> tuple[GridAxis, ...]:
    """Return the axes of all tiles of a tensor; ``tile_shape`` belongs to its last dimensions."""
    untiled = len(shape) - len(tile_shape)
    axes = [
        GridAxis(tuple((position,) for position in range(extent)), 0, extent, 1, 1)
        for extent in shape[:untiled]
    ]
    for extent, tile in zip(shape[untiled:], tile_shape, strict=True):
        cells = tuple((position,) for position in range(-(-extent // tile)))
        axes.append(GridAxis(cells, tile, extent, 1, tile))
    return tuple(axes)


class NkiGrid(NKIObject):
    """A selection of tiles or blocks of one tensor; made by ``nl.tiles`` and its neighbors.

    Args:
        kwargs: ``backing``, ``axes`` and ``capacity``, set by the functions that make grids.
    """

    __slots__ = ("_axes", "_backing", "_capacity")

    def __init__(self, **kwargs: Any) -> None:
        if set(kwargs) != {"backing", "axes", "capacity"}:
            fail(f"{type(self).__name__} is not made by hand", "NKI-TILE-GRID",
                 "call nl.tiles, nl.blocks, nl.alloc_tiles or nl.alloc_blocks", _SOURCE,
                 NkiTypeError)  # fmt: skip
        self._backing: NkiTensor = kwargs["backing"]
        self._axes: tuple[GridAxis, ...] = kwargs["axes"]
        self._capacity: bool = kwargs["capacity"]

    @property
    def backing(self) -> NkiTensor:
        """The tensor that holds the elements."""
        return self._backing

    @property
    def axes(self) -> tuple[GridAxis, ...]:
        """The selection in each dimension of the tiled tensor."""
        return self._axes

    @property
    def has_capacity_layout(self) -> bool:
        """True when the tiles are side by side in a tensor of two dimensions."""
        return self._capacity

    @property
    def shape(self) -> tuple[int, ...]:
        """Coordinates in each dimension that no integer has selected."""
        return tuple(len(axis.cells) for axis in self._axes if not axis.consumed)

    @property
    def tile_shape(self) -> tuple[int, ...]:
        """Nominal elements of one tile, for each tiled dimension."""
        return tuple(axis.tile for axis in self._axes if axis.tile)

    @property
    def element_shape(self) -> tuple[int, ...]:
        """Elements that are selected in each dimension of the tensor, clamped at the edge."""
        return tuple(axis.elements for axis in self._axes)

    @property
    def index_step_elements(self) -> tuple[int, ...]:
        """Elements from one coordinate to the next, for each dimension of :attr:`shape`."""
        return tuple(axis.step for axis in self._axes if not axis.consumed)

    @property
    def is_remainder(self) -> bool:
        """True when an edge of the tensor clamps the selection."""
        return any(axis.is_remainder for axis in self._axes if axis.tile)

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        return self._backing.dtype

    @property
    def buffer(self) -> MemoryRegion:
        """The memory of the elements."""
        return self._backing.buffer

    @property
    def is_data_representable(self) -> bool:
        """True when one access pattern covers the selection, so that :attr:`data` exists."""
        if self._capacity:
            return self._tiles_are_in_line()
        return all(axis.is_contiguous or not axis.tile for axis in self._axes)

    @property
    def data(self) -> NkiTensor:
        """The selection as one tensor of the shape :attr:`element_shape`.

        In SBUF and PSUM it has the dimensions of a tile: untiled ones are left out.

        Raises:
            NkiValidationError: code ``NKI-TILE-GRID``; no single access pattern covers it.
        """
        if not self.is_data_representable:
            refuse_grid(
                f"no single access pattern covers {self!r}",
                "index one tile, or the tiles of one row, and use their .data",
            )
        return self._capacity_view() if self._capacity else self._element_view()

    def _element_view(self) -> NkiTensor:
        keys = tuple(
            slice(
                axis.tiles[0] * axis.width,
                axis.tiles[-1] * axis.width + axis.size_of(axis.tiles[-1]),
                1 if axis.tile or len(axis.tiles) == 1 else axis.tiles[1] - axis.tiles[0],
            )
            for axis in self._axes
        )
        return self._backing[keys]

    def _tiles_are_in_line(self) -> bool:
        """Return True when the tiles form rows of the last dimension in the capacity layout."""
        *outer, last = self._axes
        if any(len(axis.tiles) != 1 for axis in outer):
            return False
        flat = prod(self.tile_shape[1:-1]) == 1
        return len(last.tiles) == 1 or (last.is_contiguous and flat)

    def _capacity_view(self) -> NkiTensor:
        counts = [-(-axis.extent // axis.width) for axis in self._axes]
        number = 0
        for axis, count in zip(self._axes, counts, strict=True):
            number = number * count + axis.tiles[0]
        tile_shape = self.tile_shape
        room = prod(tile_shape[1:])
        widths = [*tile_shape[1:-1], tile_shape[-1] * len(self._axes[-1].tiles)]
        start = number * room
        view = self._backing[:, start : start + prod(widths)]
        tiled = [axis for axis in self._axes if axis.tile]
        if len(tile_shape) > 2:
            view = view.reshape((view.shape[0], *widths))
        return view[tuple(slice(0, axis.elements) for axis in tiled)]

    def __getitem__(self, key: object) -> Self:
        """Select coordinates: an integer for one, a slice for several; the type stays."""
        keys = list(cast("tuple[object, ...]", key)) if isinstance(key, tuple) else [key]
        positions = [position for position, axis in enumerate(self._axes) if not axis.consumed]
        if keys.count(Ellipsis) == 1:
            location = keys.index(Ellipsis)
            missing = max(len(positions) - len(keys) + 1, 0)
            keys[location : location + 1] = [slice(None)] * missing
        if len(keys) > len(positions):
            fail(f"{len(keys)} indices for a grid of {len(positions)} dimensions", "NKI-INDEX",
                 "pass at most one index for each dimension of grid.shape", _SOURCE)  # fmt: skip
        axes = list(self._axes)
        for number, (location, entry) in enumerate(zip(positions, keys, strict=False)):
            axes[location] = axes[location].selected(entry, number)
        return type(self)(backing=self._backing, axes=tuple(axes), capacity=self._capacity)

    def __iter__(self) -> NoReturn:
        fail("a grid cannot be iterated over", "NKI-TILE-GRID",
             "iterate over range(grid.shape[i]) and index the grid", _SOURCE, NkiTypeError)  # fmt: skip

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self._backing.name}: {list(self.shape)} of"
            f" {list(self.tile_shape)} {self.dtype} in {self.buffer})"
        )


class NkiTileGrid(NkiGrid):
    """A grid whose coordinates are tiles.

    Args:
        kwargs: set by the functions that make grids.
    """

    __slots__ = ()


class NkiBlockGrid(NkiGrid):
    """A grid whose coordinates are blocks of tiles.

    Args:
        kwargs: set by the functions that make grids.
    """

    __slots__ = ()

    @property
    def block_shape(self) -> tuple[int, ...]:
        """Nominal tiles of a block, for each tiled dimension."""
        return tuple(axis.group for axis in self._axes if axis.tile)
