"""The instructions that modules are made of, by family, with weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from hlo_programs.grids import random_bits
from hlo_programs.parts import array_constant, listed, region
from hlo_programs.program import ELEMENTS
from hlo_programs.tables import (
    EXACT_FLOAT,
    EXACT_PAIRS,
    FLOAT_PAIRS,
    INTEGER_ONES,
    INTEGER_PAIRS,
    SMOOTH,
)
from hlo_programs.windowed import convolution, running, windows

if TYPE_CHECKING:
    from programs import Value

    from hlo_programs.generate import Maker

__all__ = ["STEPS"]

DIRECTIONS = ("EQ", "NE", "LT", "LE", "GT", "GE")
CONVERTED = tuple(one for one in ELEMENTS if one not in ("complex64", "int4", "uint4"))
WIDTH = {**dict.fromkeys(("float32", "int32", "uint32"), 32), "int8": 8, "uint8": 8, "float64": 64,
         "bfloat16": 16, "float16": 16, "int16": 16, "uint16": 16, "int64": 64, "uint64": 64,
         "float8_e4m3fn": 8, "float8_e5m2": 8}  # fmt: skip
SUMMED = (
    "float32",
    "int32",
    "uint8",
    "int8",
    "float16",
    "bfloat16",
    "uint32",
    "int64",
    "float64",
    "int16",
)


def _type(dtype: str, shape: tuple[int, ...]) -> str:
    return f"{ELEMENTS[dtype]}[{','.join(map(str, shape))}]"


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
    if op in ("count-leading-zeros", "abs") and x.kind in "iu" and x.name.startswith("v"):
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
    dtype = make.chance.choice([one for one in WIDTH if WIDTH[one] in widths and "int" in one])
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
    places = sorted(make.chance.sample(range(rank), x.rank))
    shape = [make.chance.randrange(1, 4) for _ in range(rank)]
    for place, extent in zip(places, x.shape, strict=True):
        shape[place] = extent
    return make.emit(
        f"broadcast({x.name}), dimensions={listed(places)}", tuple(shape), x.dtype, (x,)
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
    text = "x".join("_".join(map(str, one)) for one in sides)
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
    fits = [(one, at) for one in make.values for at, n in enumerate(one.shape)
            if n == x.shape[dim] and one.dtype == x.dtype]  # fmt: skip
    y, at = make.chance.choice(fits)
    batches = [
        (i, j)
        for i, n in enumerate(x.shape)
        for j, m in enumerate(y.shape)
        if n == m and i != dim and j != at
    ]
    batch = make.chance.sample(batches, 1) if batches and make.chance.random() < 0.5 else []
    left, right = {dim, *(i for i, _ in batch)}, {at, *(j for _, j in batch)}
    shape = (*(x.shape[i] for i, _ in batch), *(n for d, n in enumerate(x.shape) if d not in left),
             *(n for d, n in enumerate(y.shape) if d not in right))  # fmt: skip
    more = ""
    if batch:
        more = f", lhs_batch_dims={listed([i for i, _ in batch])}, rhs_batch_dims={listed([j for _, j in batch])}"
    dtype = make.chance.choice(("int8", "int32")) if x.dtype == "int8" else x.dtype
    text = f"dot({x.name}, {y.name}){more}, lhs_contracting_dims={{{dim}}}, rhs_contracting_dims={{{at}}}"
    return make.emit(text, shape, dtype, (x, y), exact=x.kind == "i")


def sort(make: Maker) -> Value | None:
    """Stable, by the first of one or two operands; also backwards."""
    x = make.pick("fiu", exact=True, dtypes=(*SUMMED, "uint16", "uint64"))
    if x is None or not x.rank:
        return None
    y = make.pick(shape=x.shape, exact=True) or x
    kind, other = ELEMENTS[x.dtype], ELEMENTS[y.dtype]
    total = ", type=TOTALORDER" if x.kind == "f" else ""
    order = make.chance.choice(("LT", "GT"))
    name = f"{order}_{x.dtype}_{y.dtype}"
    region_text = (
        f"{name} {{ a = {kind}[] parameter(0) b = {kind}[] parameter(1) c = {other}[] parameter(2)"
        f" d = {other}[] parameter(3) ROOT r = pred[] compare(a, b), direction={order}{total} }}"
    )
    shapes = f"({_type(x.dtype, x.shape)}, {_type(y.dtype, y.shape)})"
    at = make.chance.randrange(2)
    both = f"sort_{name}_{x.name}_{y.name}_{len(make.statements)}"
    dim = make.chance.randrange(x.rank)
    wrapper = (
        f"{both} {{ p = {_type(x.dtype, x.shape)} parameter(0) q = {_type(y.dtype, y.shape)} parameter(1)"
        f" s = {shapes} sort(p, q), dimensions={{{dim}}}, is_stable=true, to_apply={name}"
        f" ROOT g = {_type((x, y)[at].dtype, x.shape)} get-tuple-element(s), index={at} }}"
    )
    chosen = (x, y)[at]
    return make.emit(f"call({x.name}, {y.name}), to_apply={both}", x.shape, chosen.dtype, (x, y),
                     jumps=True, called=(region_text, wrapper))  # fmt: skip


def dynamic(make: Maker) -> Value | None:
    x = make.pick()
    at = make.pick("iu", exact=True, rank=0, dtypes=("int32", "int64", "uint32", "int8", "uint8"))
    if x is None or not x.rank or 0 in x.shape:
        return None
    if at is not None and at.kind == "u" and at.name.startswith("v"):
        at = None  # the index 255 of u8 is -1 in jaxlib where it is constant, 255 where it is an argument
    at = at or make.number(str(make.chance.randrange(-2, 6)), "int32")
    starts = ", ".join([at.name] * x.rank)
    sizes = tuple(make.chance.randrange(1, n + 1) for n in x.shape)
    if make.chance.random() < 0.5:
        text = f"dynamic-slice({x.name}, {starts}), dynamic_slice_sizes={listed(sizes)}"
        return make.emit(text, sizes, x.dtype, (x, at), jumps=True)
    parts = ", ".join(f"[0:{n}:1]" for n in sizes)
    part = make.emit(f"slice({x.name}), slice={{{parts}}}", sizes, x.dtype, (x,))
    if part is None:
        return None
    return make.emit(
        f"dynamic-update-slice({x.name}, {part.name}, {starts})",
        x.shape,
        x.dtype,
        (x, part, at),
        jumps=True,
    )


def gather(make: Maker) -> Value | None:
    """Rows of a matrix by an array of indices; or a scatter of them."""
    x = make.pick("fiu", rank=2, dtypes=SUMMED)
    at = make.pick("i", exact=True, rank=1, dtypes=("int32", "int64"))
    if x is None or at is None or 0 in (*x.shape, *at.shape):
        return None
    rows, columns = at.shape[0], make.chance.randrange(1, x.shape[1] + 1)
    if make.chance.random() < 0.5:
        text = (f"gather({x.name}, {at.name}), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}},"
                f" index_vector_dim=1, slice_sizes={{1,{columns}}}")  # fmt: skip
        return make.emit(text, (rows, columns), x.dtype, (x, at), jumps=True)
    op = make.chance.choice(("add", "maximum", "minimum"))
    name = f"{op}_{x.dtype}"
    one = make.number("2", x.dtype)
    update = make.emit(
        f"broadcast({one.name}), dimensions={{}}", (rows, x.shape[1]), x.dtype, (one,)
    )
    if update is None:
        return None
    text = (f"scatter({x.name}, {at.name}, {update.name}), update_window_dims={{1}}, inserted_window_dims={{0}},"
            f" scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply={name}")  # fmt: skip
    exact = op != "add" or x.kind in "iu"
    return make.emit(text, x.shape, x.dtype, (x, at, update), exact=exact, jumps=True,
                     called=(region(name, x.dtype, op),))  # fmt: skip


def control(make: Maker) -> Value | None:
    """call, map, conditional and while around one operation."""
    x = make.pick("fi", dtypes=("float32", "int32", "bfloat16"))
    if x is None:
        return None
    kind, scalar = _type(x.dtype, x.shape), ELEMENTS[x.dtype]
    tag = f"{x.dtype}_{'_'.join(map(str, x.shape))}"
    twice = f"twice_{tag} {{ p = {kind} parameter(0) ROOT r = {kind} add(p, p) }}"
    minus = f"minus_{tag} {{ p = {kind} parameter(0) ROOT r = {kind} negate(p) }}"
    which = make.chance.choice(("call", "map", "conditional", "branches", "while"))
    test, at = (
        make.pick("b", rank=0, exact=True),
        make.pick("i", rank=0, exact=True, dtypes=("int32",)),
    )
    if which == "call":
        return make.emit(
            f"call({x.name}), to_apply=twice_{tag}",
            x.shape,
            x.dtype,
            (x,),
            exact=False,
            called=(twice,),
        )
    if which == "map" and x.rank:
        mapped = f"m_{x.dtype} {{ p = {scalar}[] parameter(0) ROOT r = {scalar}[] add(p, p) }}"
        text = f"map({x.name}), dimensions={listed(range(x.rank))}, to_apply=m_{x.dtype}"
        return make.emit(text, x.shape, x.dtype, (x,), exact=False, called=(mapped,))
    if which == "conditional" and test is not None:
        text = f"conditional({test.name}, {x.name}, {x.name}), true_computation=twice_{tag}, false_computation=minus_{tag}"
        return make.emit(text, x.shape, x.dtype, (test, x), exact=False, called=(twice, minus))
    if which == "branches" and at is not None:
        text = f"conditional({at.name}, {x.name}, {x.name}), branch_computations={{twice_{tag}, minus_{tag}}}"
        return make.emit(text, x.shape, x.dtype, (at, x), exact=False, called=(twice, minus))
    return _loop(make, x, kind, tag, at)


def _loop(make: Maker, x: Value, kind: str, tag: str, at: Value | None) -> Value | None:
    """A loop whose bound is a constant, or a value within 0 and 4."""
    if at is None or make.chance.random() < 0.5:
        bound = make.number(str(make.chance.randrange(5)), "int32")
    else:
        low, high = make.number("0", "int32"), make.number("4", "int32")
        clamped = make.emit(
            f"clamp({low.name}, {at.name}, {high.name})", (), "int32", (low, at, high)
        )
        assert clamped is not None
        bound = clamped
    state = f"(s32[], s32[], {kind})"
    parts = f"i = s32[] get-tuple-element(s), index=0 n = s32[] get-tuple-element(s), index=1 v = {kind} get-tuple-element(s), index=2"
    body = (f"body_{tag} {{ s = {state} parameter(0) {parts} one = s32[] constant(1) j = s32[] add(i, one)"
            f" w = {kind} add(v, v) ROOT t = {state} tuple(j, n, w) }}")  # fmt: skip
    test = f"test_{tag} {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] get-tuple-element(s), index=1 ROOT r = pred[] compare(i, n), direction=LT }}"
    whole = (f"loop_{tag} {{ n = s32[] parameter(0) p = {kind} parameter(1) z = s32[] constant(0) s = {state} tuple(z, n, p)"
             f" w = {state} while(s), condition=test_{tag}, body=body_{tag} ROOT g = {kind} get-tuple-element(w), index=2 }}")  # fmt: skip
    return make.emit(f"call({bound.name}, {x.name}), to_apply=loop_{tag}", x.shape, x.dtype, (bound, x),
                     exact=x.kind == "i", jumps=True, called=(body, test, whole))  # fmt: skip


def again(make: Maker) -> Value | None:
    """The same instruction once more, for what merges them."""
    if not make.statements:
        return None
    old = make.chance.choice(make.statements)
    uses = tuple(one for one in make.values if one.name in old.uses)
    made = make.emit(
        old.text, old.made.shape, old.made.dtype, uses, jumps=old.jumps, called=old.called
    )
    if made is not None and not old.made.exact:
        make.values[-1] = old.made
    return made


def complexes(make: Maker) -> Value | None:
    x = make.pick("f", dtypes=("float32",))
    if x is None:
        return None
    y = make.like(x)
    return make.emit(f"complex({x.name}, {y.name})", x.shape, "complex64", (x, y))


STEPS: tuple[tuple[Callable[[Maker], Value | None], int], ...] = (
    (unary, 7), (binary, 8), (compare, 3), (select, 3), (clamp, 1), (convert, 6), (bitcast_convert, 2),
    (reduce_precision, 1), (broadcast, 3), (rearranged, 7), (iota, 1), (constant, 2), (reduce, 4), (windows, 2), (running, 1), (dot, 3), (convolution, 2),
    (sort, 2), (dynamic, 2), (gather, 2), (control, 3), (again, 2), (complexes, 1),
    (random_bits, 1),
)  # fmt: skip
