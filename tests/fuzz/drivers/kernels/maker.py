"""State of a generation: the tiles that are there, and how a statement is made from them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.fuzz.drivers.kernels.program import Argument, Statement

__all__ = [
    "FLOATS",
    "INTEGERS",
    "NUMBERS",
    "PARTITIONS",
    "Maker",
    "Tile",
    "declared",
    "operator",
    "spelled",
]

FLOATS = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")
INTEGERS = ("int32", "uint32", "int16", "uint16", "int8", "uint8")
SELDOM = ("float8_e4m3fn", "float8_e8m0fnu", "bool", "int64", "uint64")
"""Dtypes of one tile in twelve."""
BINARY = (
    "add", "subtract", "multiply", "maximum", "minimum", "divide", "power", "equal", "not_equal",
    "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_xor",
    "fmod", "mod",
)  # fmt: skip
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -2.5, 1e-3, 100.0, 3e-39, 1e30)
PARTITIONS = (1, 2, 3, 16, 32, 33, 64, 96, 128)


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile, or a view of one, as an expression.

    Attributes:
        text: Python expression.
        name: the tensor behind it.
        shape: partitions, then free dimensions.
        dtype: name.
        memory: ``sbuf`` or ``psum``.
    """

    text: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    memory: str

    @property
    def kind(self) -> str:
        """Its dtype in source."""
        return spelled(self.dtype)


@dataclass(slots=True)
class Maker:
    """State of one generation.

    Attributes:
        chance: source of random numbers.
        target: family.
        tiles: those that later statements may read.
        statements: made so far.
        count: for names.
        core: name of the number of the core, when there are two.
        packed: tiles of packed elements with their scales, in pairs.
    """

    chance: random.Random
    target: str
    tiles: list[Tile] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    count: int = 0
    core: str = ""
    packed: list[Tile] = field(default_factory=list)
    constants: list[str] = field(default_factory=list)
    arguments: list[Argument] = field(default_factory=list)
    features: set[str] = field(default_factory=set)

    def name(self, stem: str = "t") -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def dtype(self) -> str:
        if self.chance.random() < 1 / 12:
            return self.chance.choice(SELDOM)
        return self.chance.choice(FLOATS if self.chance.random() < 0.65 else INTEGERS)

    def like(self, shape: tuple[int, ...], dtype: str = "", memory: str = "") -> Tile:
        """A new tile; it is declared by the statement that writes it."""
        memory = memory or ("psum" if self.chance.random() < 0.15 else "sbuf")
        name = self.name()
        return Tile(name, name, shape, dtype or self.dtype(), memory)

    def emit(self, result: Tile, call: str, *read: Tile, extra: tuple[str, ...] = ()) -> None:
        """A statement that declares a tile and writes it by a call."""
        uses = {operand.name for operand in read} | {
            constant for constant in self.constants if constant in call
        }
        self.statements.append(
            Statement((declared(result), *extra, call), (result.name,), tuple(sorted(uses)))
        )
        self.tiles.append(result)

    def number(self, vectors: tuple[int, ...] | None = None) -> tuple[str, list[Tile]]:
        """A number, a constant of the call, or a vector with one element a partition."""
        columns = [
            tile for tile in self.tiles
            if vectors and tile.dtype == "float32" and tile.shape[0] == vectors[0] and tile.memory == "sbuf"
        ]  # fmt: skip
        if columns and self.chance.random() < 0.3:
            column = self.chance.choice(columns)
            text = f"{column.text}[:, 0:1]" if len(column.shape) == 2 else column.text
            return text, [column]
        if self.constants and self.chance.random() < 0.3:
            return self.chance.choice(self.constants), []
        return repr(self.chance.choice(NUMBERS)), []

    def pick(self, *, dtypes: tuple[str, ...] = (), memory: str = "", views: bool = True) -> Tile:
        """A tile that is there, often a view of it."""
        candidates = [
            candidate for candidate in self.tiles
            if (not dtypes or candidate.dtype in dtypes) and (not memory or candidate.memory == memory)
        ] or self.tiles  # fmt: skip
        tile = self.chance.choice(candidates)
        return self.view(tile) if views and self.chance.random() < 0.35 else tile

    def scratch(self) -> str:
        """Memory of a tensor in HBM; no other core's, which would write there at the same time."""
        return self.chance.choice(("hbm", "private_hbm", *(() if self.core else ("shared_hbm",))))

    def view(self, tile: Tile) -> Tile:
        """A part of a tile: rows, columns, steps, another order, an access pattern."""
        rows, columns = tile.shape[0], tile.shape[-1]
        kind = self.chance.choice(("columns", "step", "rows", "pattern", "fold", "same"))
        if kind == "columns" and columns > 1:
            start = self.chance.randrange(columns)
            stop = self.chance.randrange(start, columns) + 1
            index = ", ".join([":"] * (len(tile.shape) - 1) + [f"{start}:{stop}"])
            shape = (*tile.shape[:-1], stop - start)
            return Tile(f"{tile.text}[{index}]", tile.name, shape, tile.dtype, tile.memory)
        if kind == "step" and columns > 2:
            index = ", ".join([":"] * (len(tile.shape) - 1) + ["::2"])
            shape = (*tile.shape[:-1], (columns + 1) // 2)
            return Tile(f"{tile.text}[{index}]", tile.name, shape, tile.dtype, tile.memory)
        if kind == "rows" and rows > 32:
            start = self.chance.choice([first for first in (0, 32, 64, 96) if first < rows])
            size = self.chance.randrange(1, min(rows - start, 32) + 1)
            shape = (size, *tile.shape[1:])
            return Tile(
                f"{tile.text}[{start}:{start + size}]", tile.name, shape, tile.dtype, tile.memory
            )
        if kind == "pattern" and tile.text == tile.name and len(tile.shape) == 2:
            width = self.chance.randrange(1, columns + 1)
            offset = self.chance.randrange(columns - width + 1)
            if self.chance.random() < 0.05:  # beyond the partition: refused
                width += columns
            return Tile(
                f"{tile.text}.ap([[{columns}, {rows}], [1, {width}]], offset={offset})",
                tile.name, (rows, width), tile.dtype, tile.memory,
            )  # fmt: skip
        if kind == "fold" and len(tile.shape) == 2 and columns % 2 == 0:
            shape = (rows, 2, columns // 2)
            return Tile(
                f"{tile.text}.reshape_dim(1, (2, {columns // 2}))",
                tile.name,
                shape,
                tile.dtype,
                tile.memory,
            )
        return tile

    def partner(self, tile: Tile) -> Tile:
        """Another tile of the same shape, or the tile itself."""
        same = [candidate for candidate in self.tiles if candidate.shape == tile.shape]
        return self.chance.choice(same) if same else tile


def spelled(dtype: str) -> str:
    """A dtype in source: the language has no name for integers of 64 bits."""
    return repr(dtype) if dtype in ("int64", "uint64") else f"nl.{dtype}"


def declared(tile: Tile) -> str:
    """The line that makes a tile."""
    return f"{tile.name} = nl.ndarray({tile.shape}, {tile.kind}, nl.{tile.memory})"


def operator(make: Maker, tile: Tile) -> str:
    """An operator that suits a tile's dtype."""
    bits = tile.dtype in INTEGERS and make.chance.random() < 0.4
    return "nl." + make.chance.choice(BITS if bits else BINARY)
