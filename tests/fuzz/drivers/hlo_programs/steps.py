"""The instructions that modules are made of, by family, with weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tests.fuzz.drivers.hlo_programs.algebra import (
    batch_norm,
    fourier,
    high_product,
    largest,
    pairs_reduced,
    ragged,
    selected,
    size_of,
    solved,
)
from tests.fuzz.drivers.hlo_programs.control import barrier, control
from tests.fuzz.drivers.hlo_programs.grids import random_bits
from tests.fuzz.drivers.hlo_programs.indexed import dynamic, gather, scatter
from tests.fuzz.drivers.hlo_programs.parts import array_constant, region
from tests.fuzz.drivers.hlo_programs.program import ELEMENTS, listed, typed_as
from tests.fuzz.drivers.hlo_programs.tables import (
    EXACT_FLOAT,
    EXACT_PAIRS,
    FLOAT_PAIRS,
    INTEGER_ONES,
    INTEGER_PAIRS,
    SMOOTH,
    SUMMED,
)
from tests.fuzz.drivers.hlo_programs.windowed import convolution, running, windows

if TYPE_CHECKING:
    from tests.fuzz.drivers.hlo_programs.generate import Maker
    from tests.fuzz.drivers.programs import Value

__all__ = ["SIMPLE", "STEPS", "Steps"]

DIRECTIONS = ("EQ", "NE", "LT", "LE", "GT", "GE")
CONVERTED = tuple(dtype for dtype in ELEMENTS if dtype not in ("complex64", "int4", "uint4"))
WIDTH = {**dict.fromkeys(("float32", "int32", "uint32"), 32), "int8": 8, "uint8": 8, "float64": 64,
         "bfloat16": 16, "float16": 16, "int16": 16, "uint16": 16, "int64": 64, "uint64": 64,
         **dict.fromkeys((dtype for dtype in ELEMENTS if dtype.startswith("float8")), 8)}  # fmt: skip


def unary(make: Maker) -> Value | None:
    x = make.pick("fiubc")
    if x is None:
        return None
    smooth = x.kind == "c" or (x.kind == "f" and make.chance.random() < 0.6)
    names = (
        SMOOTH
        if smooth
        else EXACT_FLOAT
        if x.kind == "f"
        else INTEGER_ONES
        if x.kind in "iu"
        else ["not", "copy"]
    )
    if x.kind == "c":
        names = ["negate", "exponential", "tanh", "sine", "abs", "real", "imag", "log", "sqrt"]
    op = make.chance.choice(names)
    if x.dtype.endswith("int4") and (op not in ("not", "sign", "copy") or op + x.kind == "notu"):
        return None  # jaxlib computes in bytes, and keeps what overflows until it is stored
    if op in ("count-leading-zeros", "abs") and x.kind in "iu" and not x.name.startswith("x"):
        return (
            None  # XLA folds the first of the lowest constant to -32, and takes squares as positive
        )
    if (x.kind == "u" and op in ("negate", "abs", "sign")) or (
        not smooth and x.kind == "f" and not x.exact
    ):
        return None
    dtype = {"is-finite": "bool"}.get(op, x.dtype)
    dtype = "float32" if x.kind == "c" and op in ("abs", "real", "imag") else dtype
    return make.emit(f"{op}({x.name})", x.shape, dtype, (x,), exact=not smooth, jumps=not smooth)


def binary(make: Maker) -> Value | None:
    x = make.pick("fiubc")
    if x is None:
        return None
    if x.dtype.endswith("int4"):
        return None  # jaxlib computes in bytes
    y = make.like(x)
    if x.kind == "b":
        op = make.chance.choice(("and", "or", "xor"))
    elif x.kind in "iu":
        op = make.chance.choice(INTEGER_PAIRS)
    else:
        op = make.chance.choice(
            FLOAT_PAIRS if x.kind == "c" or make.chance.random() < 0.7 else EXACT_PAIRS
        )
        if x.kind == "c" and op in ("atan2", "power"):
            return None
        if op == "remainder" and not (x.exact and y.exact):
            return None
    exact = x.kind in "iub" or op in EXACT_PAIRS
    return make.emit(
        f"{op}({x.name}, {y.name})", x.shape, x.dtype, (x, y), exact=exact, jumps=exact
    )


def compare(make: Maker) -> Value | None:
    x = make.pick("fiub", exact=True)
    if x is None:
        return None
    y = make.like(x, exact=True)
    total = (
        ", type=TOTALORDER"
        if x.dtype in ("float32", "float16") and make.chance.random() < 0.25
        else ""
    )
    text = f"compare({x.name}, {y.name}), direction={make.chance.choice(DIRECTIONS)}{total}"
    return make.emit(text, x.shape, "bool", (x, y), jumps=True)


def select(make: Maker) -> Value | None:
    scalar = make.pick("b", rank=0) if make.chance.random() < 0.2 else None
    test = scalar or make.pick("b")
    x = test and (make.pick() if scalar else make.pick(shape=test.shape))
    if test is None or x is None:
        return None
    y = make.like(x)
    return make.emit(f"select({test.name}, {x.name}, {y.name})", x.shape, x.dtype, (test, x, y))


def clamp(make: Maker) -> Value | None:
    x = make.pick("fiu")
    if x is None:
        return None
    low, high = make.like(x), make.like(x)
    if make.chance.random() < 0.5 and x.dtype in SUMMED:
        low, high = make.number("0", x.dtype), make.number("3", x.dtype)
    return make.emit(f"clamp({low.name}, {x.name}, {high.name})", x.shape, x.dtype, (low, x, high))


def convert(make: Maker) -> Value | None:
    x = make.pick("fiub", exact=True)
    if x is None:
        return None
    dtype = make.chance.choice(CONVERTED)
    return make.emit(f"convert({x.name})", x.shape, dtype, (x,), jumps=True)


def bitcast_convert(make: Maker) -> Value | None:
    """To integers (XLA's CPU client flushes subnormals), of the same width or in pieces."""
    x = make.pick("fiu", exact=True, dtypes=tuple(WIDTH))
    if x is None:
        return None
    widths = (WIDTH[x.dtype], 8, 16)
    dtype = make.chance.choice([kind for kind in WIDTH if WIDTH[kind] in widths and "int" in kind])
    before, after = WIDTH[x.dtype], WIDTH[dtype]
    if after > before:
        if not x.rank or x.shape[-1] != after // before:
            return None
        return make.emit(f"bitcast-convert({x.name})", x.shape[:-1], dtype, (x,), jumps=True)
    shape = x.shape if before == after else (*x.shape, before // after)
    return make.emit(f"bitcast-convert({x.name})", shape, dtype, (x,), jumps=True)


def reduce_precision(make: Maker) -> Value | None:
    x = make.pick("f", exact=True, dtypes=("float32", "float64", "float16"))
    bits = make.chance.choice(((8, 7), (5, 10), (4, 3), (5, 2), (8, 10), (3, 4)))
    if x is None:
        return None
    text = f"reduce-precision({x.name}), exponent_bits={bits[0]}, mantissa_bits={bits[1]}"
    return make.emit(text, x.shape, x.dtype, (x,), jumps=True)


def broadcast(make: Maker) -> Value | None:
    x = make.pick()
    if x is None or x.rank > 3:
        return None
    rank = x.rank + make.chance.randrange(1, 3)
    positions = sorted(make.chance.sample(range(rank), x.rank))
    shape = [make.chance.randrange(1, 4) for _ in range(rank)]
    for position, extent in zip(positions, x.shape, strict=True):
        shape[position] = extent
    return make.emit(
        f"broadcast({x.name}), dimensions={listed(positions)}", tuple(shape), x.dtype, (x,)
    )


def rearranged(make: Maker) -> Value | None:
    x = make.pick()
    if x is None or not x.rank:
        return None
    chance, size = make.chance, math.prod(x.shape)
    kind = chance.choice(("transpose", "reshape", "reverse", "slice", "pad", "concatenate"))
    if kind == "transpose":
        order = chance.sample(range(x.rank), x.rank)
        return make.emit(
            f"transpose({x.name}), dimensions={listed(order)}",
            tuple(x.shape[d] for d in order),
            x.dtype,
            (x,),
        )
    if kind == "reshape":
        first = chance.choice([n for n in range(1, size + 1) if size % n == 0] or [0])
        shape = (first, size // first) if first else (3, 0)
        return make.emit(f"reshape({x.name})", shape, x.dtype, (x,))
    if kind == "reverse":
        dims = [d for d in range(x.rank) if chance.random() < 0.5]
        return make.emit(f"reverse({x.name}), dimensions={listed(dims)}", x.shape, x.dtype, (x,))
    if kind == "slice":
        starts = [chance.randrange(n + 1) for n in x.shape]
        limits = [chance.randrange(a, n + 1) for a, n in zip(starts, x.shape, strict=True)]
        steps = [chance.choice((1, 1, 2, 3)) for _ in x.shape]
        parts = ", ".join(f"[{a}:{b}:{s}]" for a, b, s in zip(starts, limits, steps, strict=True))
        shape = tuple(-(-(b - a) // s) for a, b, s in zip(starts, limits, steps, strict=True))
        return make.emit(f"slice({x.name}), slice={{{parts}}}", shape, x.dtype, (x,))
    if kind == "concatenate":
        y, dim = make.like(x), chance.randrange(x.rank)
        shape = tuple(3 * n if d == dim else n for d, n in enumerate(x.shape))
        return make.emit(
            f"concatenate({x.name}, {y.name}, {x.name}), dimensions={{{dim}}}",
            shape,
            x.dtype,
            (x, y),
        )
    return _pad(make, x)


def _pad(make: Maker, x: Value) -> Value | None:
    sides = [
        (
            make.chance.randrange(-2, 3),
            make.chance.randrange(-1, 3),
            make.chance.choice((0, 0, 1, 2)),
        )
        for _ in x.shape
    ]
    shape = tuple(
        a + b + n + max(n - 1, 0) * c for n, (a, b, c) in zip(x.shape, sides, strict=True)
    )
    if x.kind == "c" or min(shape) < 0 or x.dtype in ("int4", "uint4"):
        return None
    fill = make.pick(rank=0, dtypes=(x.dtype,)) or make.number(
        "false" if x.kind == "b" else "1", x.dtype
    )
    text = "x".join("_".join(map(str, side)) for side in sides)
    return make.emit(f"pad({x.name}, {fill.name}), padding={text}", shape, x.dtype, (x, fill))


def iota(make: Maker) -> Value | None:
    dtype = make.chance.choice(("int32", "float32", "uint8", "int64", "bfloat16", "float16"))
    shape = make.chance.choice(((5,), (2, 3), (3, 2, 4)))
    return make.emit(f"iota(), iota_dimension={make.chance.randrange(len(shape))}", shape, dtype)


def constant(make: Maker) -> Value | None:
    """Elements that a file holds in any order: the layout of their literal."""
    dtype = make.chance.choice(("int32", "float32", "uint8", "bool", "int64", "bfloat16"))
    shape = make.chance.choice(((5,), (2, 3), (3, 2, 4), (1, 4, 1, 3)))
    return array_constant(make, shape, dtype, 0)


def reduce(make: Maker) -> Value | None:
    """Sums, products, extrema over some dimensions; predicates by and and or."""
    x = make.pick("fiub", dtypes=(*SUMMED, "bool"))
    if x is None or not x.rank:
        return None
    op = make.chance.choice(
        ("and", "or") if x.kind == "b" else ("add", "maximum", "minimum", "multiply")
    )
    start = {"add": "0", "multiply": "1", "and": "true", "or": "false"}.get(op)
    if start is None:
        extreme = {"f": "-inf" if op == "maximum" else "inf"}
        info = None if x.kind == "f" else np.iinfo(x.dtype)
        start = extreme.get(x.kind) or str(info.min if op == "maximum" else info.max)  # type: ignore[union-attr]
    first = make.number(start, x.dtype)
    dims = [d for d in range(x.rank) if make.chance.random() < 0.6] or [0]
    shape = tuple(n for d, n in enumerate(x.shape) if d not in dims)
    name = f"{op}_{x.dtype}"
    exact = x.kind in "iub" or op in ("maximum", "minimum")
    text = f"reduce({x.name}, {first.name}), dimensions={listed(dims)}, to_apply={name}"
    return make.emit(
        text, shape, x.dtype, (x, first), exact=exact, called=(region(name, x.dtype, op),)
    )


def dot(make: Maker) -> Value | None:
    x = make.pick("fi", dtypes=("float32", "bfloat16", "float16", "int32", "float64", "int8"))
    if x is None or not x.rank:
        return None
    dim = make.chance.randrange(x.rank)
    fits = [(value, axis) for value in make.values for axis, n in enumerate(value.shape)
            if n == x.shape[dim] and value.dtype == x.dtype]  # fmt: skip
    y, right_dim = make.chance.choice(fits)
    batches = [
        (i, j)
        for i, n in enumerate(x.shape)
        for j, m in enumerate(y.shape)
        if n == m and i != dim and j != right_dim
    ]
    batch = make.chance.sample(batches, 1) if batches and make.chance.random() < 0.5 else []
    left, right = {dim, *(i for i, _ in batch)}, {right_dim, *(j for _, j in batch)}
    shape = (*(x.shape[i] for i, _ in batch), *(n for d, n in enumerate(x.shape) if d not in left),
             *(n for d, n in enumerate(y.shape) if d not in right))  # fmt: skip
    more = ""
    if batch:
        more = f", lhs_batch_dims={listed([i for i, _ in batch])}, rhs_batch_dims={listed([j for _, j in batch])}"
    dtype = make.chance.choice(("int8", "int32")) if x.dtype == "int8" else x.dtype
    text = f"dot({x.name}, {y.name}){more}, lhs_contracting_dims={{{dim}}}, rhs_contracting_dims={{{right_dim}}}"
    return make.emit(text, shape, dtype, (x, y), exact=x.kind == "i")


def sort(make: Maker) -> Value | None:
    """Stable, by the first of one or two operands; also backwards."""
    x = make.pick("fiu", exact=True, dtypes=(*SUMMED, "uint16", "uint64"))
    if x is None or not x.rank:
        return None
    y = make.pick(shape=x.shape, exact=True) or x
    kind, second_kind = ELEMENTS[x.dtype], ELEMENTS[y.dtype]
    total = ", type=TOTALORDER" if x.kind == "f" else ""
    order = make.chance.choice(("LT", "GT"))
    name = f"{order}_{x.dtype}_{y.dtype}"
    region_text = (
        f"{name} {{ a = {kind}[] parameter(0) b = {kind}[] parameter(1) c = {second_kind}[] parameter(2)"
        f" d = {second_kind}[] parameter(3) ROOT r = pred[] compare(a, b), direction={order}{total} }}"
    )
    shapes = f"({typed_as(x.dtype, x.shape)}, {typed_as(y.dtype, y.shape)})"
    index = make.chance.randrange(2)
    sorted_pair = make.unique(f"sort_{name}")
    dim = make.chance.randrange(x.rank)
    wrapper = (
        f"{sorted_pair} {{ p = {typed_as(x.dtype, x.shape)} parameter(0) q = {typed_as(y.dtype, y.shape)} parameter(1)"
        f" s = {shapes} sort(p, q), dimensions={{{dim}}}, is_stable=true, to_apply={name}"
        f" ROOT g = {typed_as((x, y)[index].dtype, x.shape)} get-tuple-element(s), index={index} }}"
    )
    chosen = (x, y)[index]
    return make.emit(f"call({x.name}, {y.name}), to_apply={sorted_pair}", x.shape, chosen.dtype, (x, y),
                     jumps=True, called=(region_text, wrapper))  # fmt: skip


def again(make: Maker) -> Value | None:
    """The same instruction once more, for what merges them."""
    if not make.statements:
        return None
    old = make.chance.choice(make.statements)
    if old.text.startswith("fusion"):
        return None  # a fusion's computation has one caller
    uses = tuple(value for value in make.values if value.name in old.uses)
    copied = make.emit(
        old.text, old.result.shape, old.result.dtype, uses, jumps=old.jumps, called=old.called
    )
    if copied is not None and not old.result.exact:
        make.values[-1] = old.result
    return copied


def complexes(make: Maker) -> Value | None:
    x = make.pick("f", dtypes=("float32",))
    if x is None:
        return None
    y = make.like(x)
    return make.emit(f"complex({x.name}, {y.name})", x.shape, "complex64", (x, y))


Steps = tuple[tuple["Callable[[Maker], Value | None]", int], ...]
"""The instructions that may be added, with their weights."""

STEPS: Steps = (
    (unary, 7), (binary, 8), (compare, 3), (select, 3), (clamp, 1), (convert, 6), (bitcast_convert, 2),
    (reduce_precision, 1), (broadcast, 3), (rearranged, 7), (iota, 1), (constant, 2), (reduce, 4), (windows, 2), (running, 1), (dot, 3), (convolution, 2),
    (sort, 2), (dynamic, 2), (gather, 2), (scatter, 2), (control, 3), (barrier, 1), (again, 2), (complexes, 1),
    (random_bits, 1), (fourier, 1), (solved, 1), (batch_norm, 1), (ragged, 1), (largest, 1), (selected, 1),
    (pairs_reduced, 1), (high_product, 1), (size_of, 1),
)  # fmt: skip

SIMPLE: Steps = (
    (unary, 7), (binary, 8), (compare, 3), (select, 3), (clamp, 1), (convert, 6), (reduce_precision, 1),
    (broadcast, 3), (rearranged, 7), (iota, 1), (constant, 2), (again, 1),
)  # fmt: skip
"""Those that XLA's CPU client takes in a fusion."""
