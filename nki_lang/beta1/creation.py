"""Making tensors; tensors with block dimensions are lists of tiles.

Source: nki/programming_model.rst and nki/nki_block_dimension_migration_guide.rst (SDK 2.26).
"""

from __future__ import annotations

import numpy as np

from nki_lang.base.dtypes import dtype_of
from nki_lang.base.errors import fail
from nki_lang.base.memory import HBM, MemoryRegion
from nki_lang.beta1.access import expand_keys
from nki_lang.beta1.index import is_integer, keys_of, refuse_index
from nki_lang.beta1.results import new_tile, tile_dtype
from nki_lang.beta1.session import require_session
from nki_lang.beta1.signature import checked_call
from nki_lang.beta1.tile import OPERATIONS, Tile
from nki_lang.beta1.values import ElementLike, ShapeLike, Value
from nki_lang.isa.movement import memset
from nki_lang.language import creation as current_creation
from nki_lang.language.creation import ndarray

__all__ = [
    "BlockTensor", "full", "make", "par_dim", "shared_constant", "shared_identity_matrix",
]  # fmt: skip


class ParDim(int):
    """The extent of the partition dimension, ``nl.par_dim(128)``."""

    __slots__ = ()


@checked_call
def par_dim(extent: int) -> ParDim:
    """Mark the partition dimension in a shape; the dimensions before it are blocks."""
    return ParDim(extent)


class BlockTensor:
    """A tensor on chip with block dimensions: a list of tiles, made when they are first used.

    Attributes:
        extents: of the block dimensions.
        inner: shape of one tile.
        fill: the value that a new tile is filled with, or None.
        blocks: tiles by block index.
        prefix: leading block indices that are fixed already.
    """

    __slots__ = ("allocate", "blocks", "buffer", "dtype", "extents", "fill", "inner", "prefix")

    def __init__(
        self,
        extents: tuple[int, ...],
        inner: tuple[int, ...],
        dtype: ElementLike,
        allocate: Value,
        fill: Value,
    ) -> None:
        self.extents = extents
        self.inner = inner
        self.dtype = tile_dtype(dtype)
        self.allocate = allocate
        self.fill = fill
        self.blocks: dict[tuple[int, ...], Tile] = {}
        self.prefix: tuple[int, ...] = ()
        self.buffer: Value = None

    def __repr__(self) -> str:
        return f"tensor of shape {self.shape} with {len(self.extents)} block dimensions"

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the blocks that are not fixed, then those of a tile."""
        return self.extents[len(self.prefix) :] + self.inner

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def _tile(self, index: tuple[int, ...]) -> Tile:
        tile = self.blocks.get(index)
        if tile is None:
            tile = self.blocks[index] = self.allocate(index)
            if self.fill is not None:
                _fill(tile, self.fill)
        return tile

    def __getitem__(self, key: Value) -> Value:
        keys = expand_keys(key, len(self.shape), "a tensor with block dimensions")
        missing = len(self.extents) - len(self.prefix)
        outer, inner = keys[:missing], keys[missing:]
        index = list(self.prefix)
        for entry, extent in zip(outer, self.extents[len(self.prefix) :], strict=False):
            index.append(_block_index(entry, extent))
        if len(outer) < missing:
            blocks = BlockTensor(self.extents, self.inner, self.dtype, self.allocate, self.fill)
            blocks.blocks, blocks.prefix, blocks.buffer = self.blocks, tuple(index), self.buffer
            return blocks
        tile = self._tile(tuple(index))
        return tile[tuple(inner)] if inner else tile

    def __setitem__(self, key: Value, value: Value) -> None:
        target = self[key]
        if isinstance(target, BlockTensor):
            refuse_index(
                f"{self!r} is assigned to as a whole", "assign to one block: tensor[i, ...] = tile"
            )
        OPERATIONS["assign"](target, value)


def _block_index(entry: Value, extent: int) -> int:
    if not is_integer(entry):
        refuse_index(
            f"a block dimension is indexed with {entry!r}"
            " (err_failed_to_infer_tile_from_local_tensor)",
            "index blocks with integers and loop indices; a tile holds one block",
        )
    index = int(entry) + extent if entry < 0 else int(entry)
    if not 0 <= index < extent:
        fail(f"block {index} of {extent} (err_tensor_access_out_of_bound)", "NKI-BETA1-BOUNDS",
             "index within the block dimension", "nki/api/nki.errors.rst")  # fmt: skip
    return index


def make(
    shape: ShapeLike, dtype: ElementLike, buffer: Value = None, name: str = "", fill: Value = None
) -> Value:
    """Return a new tensor: a tile, a list of tiles, or a tensor in HBM."""
    region, location = _memory(buffer)
    extents = tuple(keys_of(shape))
    if region in HBM:
        return _hbm_tensor(tuple(map(int, extents)), dtype, region, name, fill)
    first = next((i for i, extent in enumerate(extents) if isinstance(extent, ParDim)), 0)
    outer, inner = tuple(map(int, extents[:first])), tuple(map(int, extents[first:]))

    def allocate(index: tuple[int, ...]) -> Tile:
        if location is None:
            return Tile(ndarray(inner, tile_dtype(dtype), region, name))
        address = location(index, inner, tile_dtype(dtype).itemsize)
        return Tile(ndarray(inner, tile_dtype(dtype), region, name, address))

    if outer:
        tensor = BlockTensor(outer, inner, dtype, allocate, fill)
        tensor.buffer = region
        return tensor
    tile = allocate(())
    require_session().newest = None
    if fill is not None:
        _fill(tile, fill)
    return tile


def _memory(buffer: Value) -> tuple[MemoryRegion, Value]:
    """Return the memory, and the function of fixed addresses of an allocated kernel."""
    if buffer is None:
        return MemoryRegion.sbuf, None
    region = getattr(buffer, "region", buffer)
    if region == "hbm":
        region = MemoryRegion.shared_hbm
    try:
        return MemoryRegion(region), getattr(buffer, "place", None)
    except ValueError:
        fail(f"buffer={buffer!r} is not a memory", "NKI-BUFFER",
             "use nl.sbuf, nl.psum, nl.hbm or nl.shared_hbm", "nl.ndarray (beta 1)")  # fmt: skip


def _fill(tile: Tile, value: Value) -> None:
    memset(tile.base, np.asarray(value).item())
    require_session().filled.add(tile.base.storage.name)


def _hbm_tensor(
    shape: tuple[int, ...], dtype: ElementLike, region: MemoryRegion, name: str, fill: Value
) -> Tile:
    """Return a tensor in HBM; the programs of a grid share it, by the order of allocation."""
    session = require_session()
    if fill is not None:
        fail(
            "a tensor in HBM is created with values (err_hbm_tensor_with_init_value_not_supported)",
            "NKI-BUFFER",
            "create it with nl.ndarray and store into it",
            "nki/api/nki.errors.rst",
        )
    if region is MemoryRegion.private_hbm:
        return Tile(ndarray(shape, dtype_of(dtype), region, name))
    if session.shared_count < len(session.shared):
        tile = session.shared[session.shared_count]
        session.shared_count += 1
        if tile.shape != shape or tile.dtype != dtype_of(dtype):
            fail(
                f"program {session.program} creates {shape} {dtype} in HBM where the first program"
                f" creates {tile!r}",
                "NKI-CORES-DIVERGE",
                "create the tensors in HBM in the same order and shape in every program",
            )
        return tile
    tile = Tile(ndarray(shape, dtype_of(dtype), region, name))
    session.shared.append(tile)
    session.shared_count += 1
    return tile


def full(shape: ShapeLike, value: Value, dtype: ElementLike) -> Tile:
    """Return a new tile in SBUF filled with a number (``nisa.memset``)."""
    tile = new_tile(tuple(map(int, shape)), dtype)
    _fill(tile, value)
    return tile


@checked_call
def shared_constant(constant: Value, dtype: ElementLike = None) -> Tile:
    """An HBM tensor with the values of a NumPy array."""
    values = np.asarray(constant)
    if dtype is not None:
        values = values.astype(dtype_of(dtype).dtype)
    return Tile(current_creation.shared_constant(values))


@checked_call
def shared_identity_matrix(n: int, dtype: ElementLike = np.uint8) -> Tile:
    """An HBM tensor with the identity matrix; it is to be loaded."""
    return shared_constant(np.eye(n, dtype=np.float32), dtype)
