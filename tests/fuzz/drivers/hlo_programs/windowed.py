"""Instructions that move a window: reductions, running ones, convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tests.fuzz.drivers.hlo_programs.parts import array_constant, region

if TYPE_CHECKING:
    from tests.fuzz.drivers.hlo_programs.generate import Maker
    from tests.fuzz.drivers.programs import Value

__all__ = ["convolution", "running", "windows"]

T = TypeVar("T")


def windows(make: Maker) -> Value | None:
    """reduce-window with gaps, of padded, cut or spread operands."""
    x = make.pick("fi", dtypes=("float32", "int32", "bfloat16", "uint8", "float16"))
    if x is None or not x.rank or 0 in x.shape:
        return None
    chance = make.chance
    rows = [
        {"size": (size := chance.randrange(1, min(n, 3) + 1)), "stride": chance.randrange(1, 3),
         "pad": (chance.randrange(-1, size), chance.randrange(0, size)),
         "lhs_dilate": chance.choice((1, 1, 1, 2)), "rhs_dilate": chance.choice((1, 1, 2))}
        for n in x.shape
    ]  # fmt: skip
    return _reduced_windows(make, x, rows, chance.choice(("add", "maximum", "minimum")))


def running(make: Maker) -> Value | None:
    """A sum, product or extreme of all on one side of each element."""
    x = make.pick("fi", dtypes=("float32", "int32", "bfloat16", "uint8", "float16"))
    if x is None or not x.rank or 0 in x.shape:
        return None
    chance = make.chance
    rows = [{"size": 1, "stride": 1, "pad": (0, 0)} for _ in x.shape]
    axis = chance.randrange(x.rank)
    far = x.shape[axis] - 1
    rows[axis] |= {"size": far + 1, "pad": chance.choice(((far, 0), (0, far)))}
    return _reduced_windows(make, x, rows, chance.choice(("add", "maximum", "minimum", "multiply")))


Row = dict[str, Any]
"""A dimension of a window by the fields of HLO's text."""


def _reduced_windows(make: Maker, x: Value, rows: list[Row], op: str) -> Value | None:
    shape = _windowed(x.shape, rows)
    if min(shape) < 1:
        return None
    integer = np.iinfo(x.dtype) if x.kind in "iu" else None
    starts = {
        "add": "0", "multiply": "1",
        "maximum": str(integer.min) if integer else "-inf",
        "minimum": str(integer.max) if integer else "inf",
    }  # fmt: skip
    first = make.number(starts[op], x.dtype)
    name = f"{op}_{x.dtype}"
    text = f"reduce-window({x.name}, {first.name}), window={{{_window(rows)}}}, to_apply={name}"
    exact = integer is not None or op in ("maximum", "minimum")
    return make.emit(
        text, shape, x.dtype, (x, first), exact=exact, called=(region(name, x.dtype, op),)
    )


def _windowed(shape: Sequence[int], rows: Sequence[Row]) -> tuple[int, ...]:
    """How many windows fit along each dimension."""
    extents: list[int] = []
    for n, row in zip(shape, rows, strict=True):
        room = (n - 1) * row.get("lhs_dilate", 1) + 1 + sum(row["pad"])
        reach = (row["size"] - 1) * row.get("rhs_dilate", 1) + 1
        extents.append((room - reach) // row["stride"] + 1)
    return tuple(extents)


def _window(rows: Sequence[Row]) -> str:
    """The window's attribute."""
    return " ".join(
        f"{field}=" + "x".join(
            "_".join(map(str, row[field])) if field == "pad" else str(row[field]) for row in rows
        )
        for field in rows[0]
    )  # fmt: skip


def convolution(make: Maker) -> Value | None:
    """With its dimensions in any order, gaps, reversal, and groups of features or of the batch."""
    chance = make.chance
    x = make.pick("fi", dtypes=("float32", "bfloat16", "int32"), rank=chance.choice((3, 4)))
    if x is None or 0 in x.shape:
        image_shape = tuple(chance.randrange(1, 5) for _ in range(chance.choice((3, 4))))
        x = array_constant(make, image_shape, chance.choice(("float32", "bfloat16", "int32")), -7)
    if x is None:
        return None
    batch, feature, *spatial = chance.sample(range(x.rank), x.rank)
    groups = chance.choice([n for n in range(1, 5) if x.shape[feature] % n == 0])
    parts = chance.choice([n for n in range(1, 4) if x.shape[batch] % n == 0]) if groups == 1 else 1
    sizes = [chance.randrange(1, 4) for _ in spatial]
    outputs = groups * parts * chance.randrange(1, 3)
    rows = [
        {"size": size, "stride": chance.randrange(1, 3), "lhs_dilate": chance.choice((1, 1, 2)),
         "rhs_dilate": chance.choice((1, 1, 2)), "rhs_reversal": chance.randrange(2),
         "pad": (chance.randrange(-1, 3), chance.randrange(0, 3))}
        for size in sizes
    ]  # fmt: skip
    extents = _windowed([x.shape[axis] for axis in spatial], rows)
    if min(extents) < 1:
        return None
    kernel_order, made_order = (chance.sample(range(x.rank), x.rank) for _ in range(2))
    kernel = array_constant(
        make, _placed([x.shape[feature] // groups, outputs, *sizes], kernel_order), x.dtype, -7
    )
    if kernel is None:
        return None
    names = [*"01"[: len(spatial)]]
    labels = (_placed(["b", "f", *names], [batch, feature, *spatial]),
              _placed(["i", "o", *names], kernel_order), _placed(["b", "f", *names], made_order))  # fmt: skip
    text = (f"convolution({x.name}, {kernel.name}), window={{{_window(rows)}}}, dim_labels={''.join(labels[0])}_"
            f"{''.join(labels[1])}->{''.join(labels[2])}, feature_group_count={groups}, batch_group_count={parts}")  # fmt: skip
    shape = _placed([x.shape[batch] // parts, outputs, *extents], made_order)
    return make.emit(text, shape, x.dtype, (x, kernel), exact=x.kind == "i")


def _placed(values: Sequence[T], order: Sequence[int]) -> tuple[T, ...]:
    """Each value at its place."""
    return tuple(values[order.index(index)] for index in range(len(order)))
