"""Index tuples of NKI beta 1, turned into accesses.

An index is basic (integers, slices, ``nl.ds``) or advanced (index expressions, integers, tiles of
row numbers); the two may not be mixed in one tuple. The tile of an advanced index has the broadcast
shape of its expressions.

Source: nki/programming_model.rst and nki/api/nki.errors.rst (SDK 2.26).
"""

from __future__ import annotations

from nki_lang.beta1.index import (
    IndexExpression,
    broadcast_shapes,
    is_integer,
    keys_of,
    refuse_index,
)
from nki_lang.beta1.tile import Dynamic, Tile
from nki_lang.beta1.values import ShapeLike, Value
from nki_lang.frontend.slices import DynamicSlice

__all__ = ["expand_keys", "select"]


def select(tile: Tile, key: Value) -> Tile:
    """Return ``tile[key]``."""
    if key is Ellipsis:
        return tile
    base = tile if tile.forms is None else Tile(tile.region())
    keys = expand_keys(key, len(base.shape), base.base.name)
    if any(isinstance(entry, (IndexExpression, Tile, Dynamic)) for entry in keys):
        return _advanced(base, keys)
    return _basic(base, keys)


def expand_keys(key: Value, rank: int, name: str) -> list[Value]:
    """Return the index tuple with ``...`` written out; missing dimensions stay missing."""
    keys = keys_of(key)
    for position, entry in enumerate(keys):
        if entry is Ellipsis:
            missing = rank - len(keys) + 1
            keys[position : position + 1] = [slice(None)] * missing
            break
    if len(keys) > rank:
        refuse_index(
            f"{len(keys)} indices for the {rank} dimensions of {name!r}",
            "pass at most one index for each dimension",
        )
    return keys


def _constant(value: int, shape: tuple[int, ...]) -> IndexExpression:
    return IndexExpression(shape, value, (0,) * len(shape))


def _integer(entry: Value, extent: int, name: str) -> int:
    if not is_integer(entry):
        refuse_index(
            f"{name!r} is indexed with {entry!r}",
            "use integers, slices, nl.ds, nl.arange or nl.mgrid expressions",
        )
    return int(entry) + extent if entry < 0 else int(entry)


def _range_of(entry: Value, extent: int, name: str) -> tuple[int, int, int]:
    """Return (first, count, step) of a slice; bounds are checked where it is used."""
    if isinstance(entry, DynamicSlice):
        return _integer(entry.start, extent, name), int(entry.size), 1
    start = 0 if entry.start is None else _integer(entry.start, extent, name)
    stop = extent if entry.stop is None else _integer(entry.stop, extent, name)
    step = 1 if entry.step is None else int(entry.step)
    count = len(range(start, stop, step))
    if not count:
        refuse_index(f"the slice {start}:{stop} of {name!r} is empty", "give a stop beyond start")
    return start, count, step


def _basic(tile: Tile, keys: list[Value]) -> Tile:
    """Integers drop their dimension, except the partitions; a tile keeps two dimensions."""
    base = tile.base
    keys = keys + [slice(None)] * (len(base.shape) - len(keys))
    axes: list[tuple[int, int, int]] = []
    positions: list[int | None] = []
    offsets: list[int] = []
    for dim, (entry, extent) in enumerate(zip(keys, base.shape, strict=True)):
        if isinstance(entry, (slice, DynamicSlice)):
            first, count, step = _range_of(entry, extent, base.name)
        elif dim == 0 and base.on_chip:
            first, count, step = _integer(entry, extent, base.name), 1, 1
        else:
            offsets.append(_integer(entry, extent, base.name))
            positions.append(None)
            continue
        positions.append(len(axes))
        offsets.append(first)
        axes.append((first, count, step))
    shape = tuple(count for _, count, _ in axes)
    if base.on_chip and len(shape) < 2:
        shape = (*shape, 1)
    forms = tuple(
        _constant(offset, shape)
        if position is None
        else IndexExpression(
            shape,
            offset,
            tuple(axes[position][2] if k == position else 0 for k in range(len(shape))),
        )
        for position, offset in zip(positions, offsets, strict=True)
    )
    return Tile(base, shape, forms)


def _advanced(tile: Tile, keys: list[Value]) -> Tile:
    base = tile.base
    if any(isinstance(entry, (slice, DynamicSlice)) for entry in keys):
        refuse_index(
            f"{base.name!r} is indexed with slices and index expressions in one tuple"
            " (err_unsupported_mixing_basic_advanced_tensor_indexing)",
            "use nl.arange or nl.mgrid for every dimension, or slices for every one",
        )
    scalars = [entry.expression if isinstance(entry, Dynamic) else entry for entry in keys]
    shape = broadcast_shapes(
        [entry.shape for entry in scalars if isinstance(entry, (IndexExpression, Tile))]
    )
    if len(shape) < 2:
        if any(isinstance(entry, IndexExpression) for entry in scalars):
            refuse_index(
                f"{base.name!r} is indexed with a one-dimensional nl.arange"
                " (err_1d_arange_not_supported)",
                "place it on an axis: nl.arange(128)[:, None] or nl.arange(512)[None, :]",
            )
        shape = (1,) * (2 - len(shape)) + shape
    unindexed = base.shape[len(keys) :]
    inner = len(shape)
    shape = shape + unindexed
    forms: list[IndexExpression] = []
    rows: tuple[Tile, int] | None = None
    scalar: tuple[Tile, int] | None = None
    for dim, entry in enumerate(keys):
        if isinstance(entry, Tile):
            is_scalar = base.on_chip or (entry.size == 1 and shape[0] > 1)
            rows, scalar = (rows, (entry, dim)) if is_scalar else ((entry, dim), scalar)
            forms.append(_constant(0, shape))
        elif isinstance(entry, Dynamic):
            scalar = (entry.scalar, dim)
            forms.append(_placed(entry.expression, base.shape[dim], inner, shape, base.name))
        else:
            forms.append(_placed(entry, base.shape[dim], inner, shape, base.name))
    for dim in range(len(keys), len(base.shape)):
        axis = inner + dim - len(keys)
        steps = tuple(int(k == axis) for k in range(len(shape)))
        forms.append(IndexExpression(shape, 0, steps))
    _check_runtime(tile, rows, scalar, shape)
    return Tile(base, shape, tuple(forms), rows, scalar)


def _placed(
    entry: Value, extent: int, inner: int, shape: tuple[int, ...], name: str
) -> IndexExpression:
    """Return an index over all axes of the tile; ``inner`` axes belong to the index tuple."""
    if not isinstance(entry, IndexExpression):
        return _constant(_integer(entry, extent, name), shape)
    aligned = entry.expanded(inner)
    return IndexExpression(shape, aligned.offset, aligned.steps + (0,) * (len(shape) - inner))


def _check_runtime(
    tile: Tile, rows: tuple[Tile, int] | None, scalar: tuple[Tile, int] | None, shape: ShapeLike
) -> None:
    name = tile.base.name
    if rows is not None and scalar is not None:
        refuse_index(f"{name!r} has two runtime indices", "use one index tile in an access")
    if rows is not None and rows[0].size != shape[0]:
        refuse_index(
            f"{name!r} is indexed with a tile of shape {rows[0].shape} on {shape[0]} rows"
            " (err_indirect_indices_free_dim)",
            "an index tile has one row number in each partition: shape (N, 1)",
        )
    if scalar is not None and scalar[0].size != 1:
        refuse_index(
            f"{name!r}, on chip, is indexed with a tile of shape {scalar[0].shape}"
            " (err_copy_dynamic_indirect_indices_not_natively_supported)",
            "a runtime index on chip is one element: tile[0, i]",
        )
