"""Instructions that read or write where an index says."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from tests.fuzz.drivers.hlo_programs.parts import array_constant, region
from tests.fuzz.drivers.hlo_programs.program import listed
from tests.fuzz.drivers.hlo_programs.tables import SUMMED

if TYPE_CHECKING:
    from tests.fuzz.drivers.hlo_programs.generate import Maker
    from tests.fuzz.drivers.programs import Value

__all__ = ["dynamic", "gather", "scatter"]


def dynamic(make: Maker) -> Value | None:
    """dynamic-slice and dynamic-update-slice, each dimension at its own start."""
    x = make.pick()
    if x is None or not x.rank or 0 in x.shape:
        return None
    starts = _starts(make, x.rank)
    names = ", ".join(start.name for start in starts)
    sizes = tuple(make.chance.randrange(1, n + 1) for n in x.shape)
    if make.chance.random() < 0.5:
        text = f"dynamic-slice({x.name}, {names}), dynamic_slice_sizes={listed(sizes)}"
        return make.emit(text, sizes, x.dtype, (x, *starts), jumps=True)
    parts = ", ".join(f"[0:{n}:1]" for n in sizes)
    piece = make.emit(f"slice({x.name}), slice={{{parts}}}", sizes, x.dtype, (x,))
    if piece is None:
        return None
    text = f"dynamic-update-slice({x.name}, {piece.name}, {names})"
    return make.emit(text, x.shape, x.dtype, (x, piece, *starts), jumps=True)


def _starts(make: Maker, count: int) -> list[Value]:
    """Scalars of one type, known or not.

    The index 255 of u8 is -1 in jaxlib where it is constant, 255 where it is an argument.
    """
    first = make.pick(
        "iu", exact=True, rank=0, dtypes=("int32", "int64", "uint32", "int8", "uint8")
    )
    if first is not None and first.kind == "u" and not first.name.startswith("x"):
        first = None
    starts: list[Value] = []
    for _ in range(count):
        if first is not None and make.chance.random() < 0.5:
            starts.append(first)
        else:
            dtype = "int32" if first is None else first.dtype
            low = -2 if dtype[0] == "i" else 0
            starts.append(make.number(str(make.chance.randrange(low, 6)), dtype))
    return starts


class _Places(NamedTuple):
    """Which part of an operand each index vector names.

    Attributes:
        batch: extents of the indices without the dimension of the vectors.
        vector: where that dimension is; after the last when it is left out.
        mapped: dimensions of the operand by component of a vector.
        collapsed: dimensions of size 1 that parts do not have.
        pairs: dimensions that operand and indices share, in ``batch``'s count.
        window: extents of a part, of every other dimension of the operand.
        offsets: where these are in the result, or in the updates.
    """

    batch: tuple[int, ...]
    vector: int
    mapped: tuple[int, ...]
    collapsed: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]
    window: tuple[int, ...]
    offsets: tuple[int, ...]

    def kept(self, rank: int) -> list[int]:
        """Dimensions of the operand that parts have."""
        left = {*self.collapsed, *(dim for dim, _ in self.pairs)}
        return [d for d in range(rank) if d not in left]

    def indices(self) -> tuple[int, ...]:
        """Extents of the indices."""
        if self.vector == len(self.batch) and len(self.mapped) == 1:
            return self.batch
        return (*self.batch[: self.vector], len(self.mapped), *self.batch[self.vector :])

    def among_indices(self) -> list[int]:
        """The shared dimensions, as the indices count them."""
        return [b + (b >= self.vector) for _, b in self.pairs]

    def whole(self) -> tuple[int, ...]:
        """Extents of the result, or of the updates."""
        parts, batch = iter(self.window), iter(self.batch)
        rank = len(self.window) + len(self.batch)
        return tuple(next(parts) if d in self.offsets else next(batch) for d in range(rank))


def _places(make: Maker, shape: tuple[int, ...]) -> _Places:
    chance, rank = make.chance, len(shape)
    order = chance.sample(range(rank), rank)
    mapped = tuple(order[: chance.randrange(1, rank + 1)])
    unmapped = order[len(mapped) :]
    shared = sorted(unmapped[: chance.choice((0, 0, 1, 2))])
    batch = [chance.randrange(1, 4) for _ in range(chance.randrange(0, 3))]
    pairs: list[tuple[int, int]] = []
    for number, dimension in enumerate(shared):
        batch.insert(number, shape[dimension])
        pairs.append((dimension, number))
    collapsed = tuple(sorted(d for d in mapped if chance.random() < 0.5))
    window_dims = [d for d in range(rank) if d not in (*collapsed, *shared)]
    window = tuple(chance.randrange(1, shape[d] + 1) for d in window_dims)
    offsets = sorted(chance.sample(range(len(window_dims) + len(batch)), len(window_dims)))
    vector = chance.randrange(len(batch) + 1)
    return _Places(tuple(batch), vector, mapped, collapsed, tuple(pairs), window, tuple(offsets))


def _operand(make: Maker, dtypes: tuple[str, ...]) -> Value | None:
    x = make.pick("fiub", dtypes=dtypes)
    return None if x is None or not x.rank or 0 in x.shape else x


def _indices(make: Maker, locations: _Places) -> Value | None:
    """Known ones, or an argument; some are outside of the operand."""
    shape = locations.indices()
    if math.prod(shape) > 64:
        return None
    if make.chance.random() < 0.4:
        return array_constant(make, shape, make.chance.choice(("int32", "int64")), -2)
    return make.argument(shape, make.chance.choice(("int32", "int32", "int64", "int16")), 0.0)


def gather(make: Maker) -> Value | None:
    """Parts of an operand, its dimensions in any role."""
    x = _operand(make, (*SUMMED, "bool", "uint64"))
    if x is None:
        return None
    positions = _places(make, x.shape)
    indices = _indices(make, positions)
    if indices is None:
        return None
    sizes = dict(zip(positions.kept(x.rank), positions.window, strict=True))
    pairs = [d for d, _ in positions.pairs]
    shared = (f", operand_batching_dims={listed(pairs)},"
              f" start_indices_batching_dims={listed(positions.among_indices())}") if pairs else ""  # fmt: skip
    text = (
        f"gather({x.name}, {indices.name}), offset_dims={listed(positions.offsets)}, collapsed_slice_dims={listed(positions.collapsed)},"
        f" start_index_map={listed(positions.mapped)}{shared}, index_vector_dim={positions.vector},"
        f" slice_sizes={listed(sizes.get(d, 1) for d in range(x.rank))}"
    )
    return make.emit(text, positions.whole(), x.dtype, (x, indices), jumps=True)


def scatter(make: Maker) -> Value | None:
    """Updates of parts of an operand, its dimensions in any role."""
    x = _operand(make, SUMMED)
    if x is None:
        return None
    positions = _places(make, x.shape)
    indices = _indices(make, positions)
    if indices is None or math.prod(positions.whole()) > 400:
        return None
    update = make.pick(shape=positions.whole(), dtypes=(x.dtype,)) or make.argument(
        positions.whole(), x.dtype, 0.0
    )
    op = make.chance.choice(("add", "maximum", "minimum", "multiply"))
    name = f"{op}_{x.dtype}"
    inserted = positions.collapsed
    pairs = [d for d, _ in positions.pairs]
    shared = (f", input_batching_dims={listed(pairs)},"
              f" scatter_indices_batching_dims={listed(positions.among_indices())}") if pairs else ""  # fmt: skip
    text = (
        f"scatter({x.name}, {indices.name}, {update.name}), update_window_dims={listed(positions.offsets)},"
        f" inserted_window_dims={listed(inserted)}, scatter_dims_to_operand_dims={listed(positions.mapped)}{shared},"
        f" index_vector_dim={positions.vector}, to_apply={name}"
    )
    exact = x.kind in "iu" or op in ("maximum", "minimum")
    return make.emit(text, x.shape, x.dtype, (x, indices, update), exact=exact, jumps=True,
                     called=(region(name, x.dtype, op),))  # fmt: skip
