"""Instructions that stand for whole algorithms: transforms, factors, norms, ragged products."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tests.fuzz.drivers.hlo_programs.parts import region
from tests.fuzz.drivers.hlo_programs.program import ELEMENTS, listed, typed_as

if TYPE_CHECKING:
    from tests.fuzz.drivers.hlo_programs.generate import Maker
    from tests.fuzz.drivers.programs import Value

__all__ = [
    "batch_norm", "fourier", "high_product", "largest", "pairs_reduced", "ragged", "selected", "size_of",
    "solved",
]  # fmt: skip


def fourier(make: Maker) -> Value | None:
    """Transforms over the last dimensions, to complex numbers or back."""
    x = make.pick("fc", dtypes=("float32", "complex64"))
    if x is None or not x.rank or 0 in x.shape:
        return None
    kind = make.chance.choice(("FFT", "IFFT", "IRFFT")) if x.kind == "c" else "RFFT"
    over = make.chance.randrange(1, min(x.rank, 3) + 1)
    length = list(x.shape[-over:])
    shape, dtype = x.shape, "complex64"
    if kind == "RFFT":
        shape = (*x.shape[:-1], x.shape[-1] // 2 + 1)
    elif kind == "IRFFT":
        length[-1] = 2 * (x.shape[-1] - 1) + make.chance.randrange(2)
        if not length[-1]:
            return None
        shape, dtype = (*x.shape[:-1], length[-1]), "float32"
    text = f"fft({x.name}), fft_type={kind}, fft_length={listed(length)}"
    return make.emit(text, shape, dtype, (x,), exact=False)


def solved(make: Maker) -> Value | None:
    """cholesky of a positive definite matrix; triangular-solve with one whose diagonal is strong."""
    n, chance = make.chance.randrange(1, 6), make.chance
    batch = (2,) if chance.random() < 0.3 else ()
    square = make.argument((*batch, n, n), "float32", 0.0)
    kind, name = typed_as("float32", square.shape), make.unique("solved")
    lower = f"lower={str(chance.random() < 0.5).lower()}"
    matrix = _within_one(square)
    if chance.random() < 0.5:
        text = f"{name} {{ {matrix} {_squared(square)} ROOT r = {kind} cholesky(m), {lower} }}"
        return make.emit(f"call({square.name}), to_apply={name}", square.shape, "float32", (square,),
                         exact=False, called=(text,))  # fmt: skip
    left, columns = chance.random() < 0.5, chance.randrange(1, 4)
    right_side = make.argument(
        (*batch, n, columns) if left else (*batch, columns, n), "float32", 0.0
    )
    unit, turned = chance.random() < 0.3, chance.choice(("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"))
    right_kind = typed_as("float32", right_side.shape)
    text = (
        f"{name} {{ {matrix} m = {kind} add(c, d) b = {right_kind} parameter(1) ROOT r = {right_kind} triangular-solve(m, b),"
        f" left_side={str(left).lower()}, {lower}, unit_diagonal={str(unit).lower()}, transpose_a={turned} }}"
    )
    return make.emit(f"call({square.name}, {right_side.name}), to_apply={name}", right_side.shape, "float32",
                     (square, right_side), exact=False, called=(text,))  # fmt: skip


def _within_one(square: Value) -> str:
    """``c``, the argument between -1 and 1, and ``d``, 6 on the diagonal and 0 elsewhere."""
    shape, rank = square.shape, square.rank
    kind, flags, counts = (typed_as(dtype, shape) for dtype in ("float32", "bool", "int32"))
    return (
        f"p = {kind} parameter(0) one = f32[] constant(1) less = f32[] constant(-1) c = {kind} clamp(less, p, one)"
        f" i = {counts} iota(), iota_dimension={rank - 2} j = {counts} iota(), iota_dimension={rank - 1}"
        f" e = {flags} compare(i, j), direction=EQ six = f32[] constant(6) zero = f32[] constant(0)"
        f" w = {kind} broadcast(six), dimensions={{}} o = {kind} broadcast(zero), dimensions={{}}"
        f" d = {kind} select(e, w, o)"
    )


def _squared(square: Value) -> str:
    """``m``, the product of ``c`` with itself transposed, plus ``d``."""
    kind, rank = typed_as("float32", square.shape), square.rank
    dims = [f"{side}_contracting_dims={{{rank - 1}}}" for side in ("lhs", "rhs")]
    dims += [f"{side}_batch_dims={{0}}" for side in ("lhs", "rhs") if rank == 3]
    return f"q = {kind} dot(c, c), {', '.join(dims)} m = {kind} add(q, d)"


def batch_norm(make: Maker) -> Value | None:
    """One result of a batch norm or of its gradient."""
    x = make.pick("f", dtypes=("float32",))
    if x is None or not x.rank or 0 in x.shape:
        return None
    chance, feature = make.chance, make.chance.randrange(x.rank)
    feature_shape = (x.shape[feature],)
    kind, small = typed_as("float32", x.shape), typed_as("float32", feature_shape)
    which = chance.choice(("inference", "training", "grad"))
    shapes = {
        "inference": (feature_shape,) * 4,
        "training": (feature_shape,) * 2,
        "grad": (feature_shape, feature_shape, feature_shape, x.shape),
    }[which]
    result_index = 0 if which == "inference" else chance.randrange(3)
    operands = [x, *(make.argument(shape, "float32", 0.0) for shape in shapes)]
    name = make.unique("norm")
    lines = [
        f"p{n} = {typed_as('float32', operand.shape)} parameter({n})"
        for n, operand in enumerate(operands)
    ]
    names = [f"p{n}" for n in range(len(operands))]
    if which != "training":  # a variance is no less than zero
        location = 4 if which == "inference" else 3
        lines.append(f"square = {small} multiply(p{location}, p{location})")
        names[location] = "square"
    result_kind = kind if which == "inference" else f"({kind}, {small}, {small})"
    lines.append(
        f"n = {result_kind} batch-norm-{which}({', '.join(names)}), epsilon=0.01, feature_index={feature}"
    )
    shape = feature_shape if result_index else x.shape
    ending = "copy(n)" if which == "inference" else f"get-tuple-element(n), index={result_index}"
    lines.append(f"ROOT r = {typed_as('float32', shape)} {ending}")
    text = f"{name} {{ {' '.join(lines)} }}"
    arguments = ", ".join(operand.name for operand in operands)
    return make.emit(f"call({arguments}), to_apply={name}", shape, "float32", tuple(operands), exact=False,
                     called=(text,))  # fmt: skip


def ragged(make: Maker) -> Value | None:
    """A product whose rows, or summands, come in groups."""
    chance = make.chance
    m, k, n, groups = (chance.randrange(1, 5) for _ in range(4))
    dtype = chance.choice(("float32", "float32", "bfloat16", "int32"))
    summed = chance.random() < 0.3
    x = make.argument((m, k), dtype, 0.0)
    y = make.argument((k, n) if summed else (groups, k, n), dtype, 0.0)
    index = make.argument((groups,), "int32", 0.0)
    low, high = make.number("0", "int32"), make.number("3", "int32")
    sizes = make.emit(
        f"clamp({low.name}, {index.name}, {high.name})", (groups,), "int32", (low, index, high)
    )
    if sizes is None:
        return None
    group = "" if summed else ", rhs_group_dims={0}"
    text = (
        f"ragged-dot({x.name}, {y.name}, {sizes.name}), lhs_contracting_dims={{1}},"
        f" rhs_contracting_dims={{{0 if summed else 1}}}, lhs_ragged_dims={{{int(summed)}}}{group}"
    )
    shape = (groups, m, n) if summed else (m, n)
    return make.emit(text, shape, dtype, (x, y, sizes), exact=dtype == "int32")


def largest(make: Maker) -> Value | None:
    """The first of a row when sorted, or where they are."""
    x = make.pick("fi", exact=True, dtypes=("float32", "int32", "bfloat16"))
    if x is None or not x.rank or 0 in x.shape:
        return None
    k, index = make.chance.randrange(1, x.shape[-1] + 1), make.chance.randrange(2)
    shape = (*x.shape[:-1], k)
    dtype = "int32" if index else x.dtype
    kinds = typed_as(x.dtype, shape), typed_as("int32", shape)
    name = make.unique("topk")
    text = (
        f"{name} {{ p = {typed_as(x.dtype, x.shape)} parameter(0) t = ({', '.join(kinds)}) topk(p), k={k},"
        f" largest=true ROOT g = {kinds[index]} get-tuple-element(t), index={index} }}"
    )
    return make.emit(
        f"call({x.name}), to_apply={name}", shape, dtype, (x,), jumps=True, called=(text,)
    )


def _distinct(make: Maker, x: Value) -> Value | None:
    """Whole numbers that differ all: 13 bits of an element's, and 11 of its place."""
    count = math.prod(x.shape)
    assert count <= 1 << 11
    kind, word_kind = typed_as(x.dtype, x.shape), typed_as("int32", x.shape)
    name = make.unique("distinct")
    lines = (
        f"p = {kind} parameter(0)", f"b = {word_kind} bitcast-convert(p)",
        f"c = s32[] constant({19 if x.kind == 'f' else 0})", f"w = {word_kind} broadcast(c), dimensions={{}}",
        f"h = {word_kind} shift-right-arithmetic(b, w)", "t = s32[] constant(11)",
        f"u = {word_kind} broadcast(t), dimensions={{}}", f"m = {word_kind} shift-left(h, u)",
        f"i = s32[{count}] iota(), iota_dimension=0", f"j = {word_kind} reshape(i)",
        f"o = {word_kind} add(m, j)", f"ROOT r = {kind} convert(o)",
    )  # fmt: skip
    text = f"{name} {{ {' '.join(lines)} }}"
    return make.emit(f"call({x.name}), to_apply={name}", x.shape, x.dtype, (x,), jumps=True, called=(text,))  # fmt: skip


def selected(make: Maker) -> Value | None:
    """select-and-scatter: each source to where its window is the largest, or the smallest.

    Of equal elements it takes any, by the order in which XLA walks a window: so there are none.
    """
    x = make.pick("fi", exact=True, dtypes=("float32", "int32"))
    if x is None or not x.rank or 0 in x.shape:
        return None
    x = _distinct(make, x)
    if x is None:
        return None
    chance = make.chance
    sizes = [chance.randrange(1, min(n, 3) + 1) for n in x.shape]
    steps = [chance.randrange(1, 4) for _ in x.shape]
    pads = [(chance.randrange(size), chance.randrange(size)) for size in sizes]
    shape = tuple((n + sum(pad) - size) // step + 1
                  for n, pad, size, step in zip(x.shape, pads, sizes, steps, strict=True))  # fmt: skip
    if min(shape) < 1:
        return None
    source = make.argument(shape, x.dtype, 0.0)
    start = make.number(chance.choice("01"), x.dtype)
    kind, mode = ELEMENTS[x.dtype], chance.choice(("GE", "LE"))
    chosen = f"choose_{mode}_{x.dtype}"
    test = (f"{chosen} {{ a = {kind}[] parameter(0) b = {kind}[] parameter(1)"
            f" ROOT r = pred[] compare(a, b), direction={mode} }}")  # fmt: skip
    text = (
        f"select-and-scatter({x.name}, {source.name}, {start.name}), window={{size={'x'.join(map(str, sizes))}"
        f" stride={'x'.join(map(str, steps))} pad={'x'.join(f'{a}_{b}' for a, b in pads)}}}, select={chosen},"
        f" scatter=add_{x.dtype}"
    )
    return make.emit(text, x.shape, x.dtype, (x, source, start), exact=x.kind == "i", jumps=True,
                     called=(test, region(f"add_{x.dtype}", x.dtype, "add")))  # fmt: skip


def pairs_reduced(make: Maker) -> Value | None:
    """The extreme of a dimension, or where it is first."""
    x = make.pick("fi", exact=True, dtypes=("float32", "int32", "bfloat16", "int8"))
    if x is None or not x.rank or 0 in x.shape:
        return None
    dim, index, mode = (
        make.chance.randrange(x.rank),
        make.chance.randrange(2),
        make.chance.choice(("GT", "LT")),
    )
    shape = tuple(n for d, n in enumerate(x.shape) if d != dim)
    kind, counts = ELEMENTS[x.dtype], typed_as("int32", x.shape)
    region_name, name = f"first_{mode}_{x.dtype}", make.unique("where")
    test = (
        f"{region_name} {{ a = {kind}[] parameter(0) i = s32[] parameter(1) b = {kind}[] parameter(2) j = s32[] parameter(3)"
        f" more = pred[] compare(a, b), direction={mode} same = pred[] compare(a, b), direction=EQ nan = pred[] compare(a, a), direction=NE"
        f" before = pred[] compare(i, j), direction=LT both = pred[] and(same, before) one = pred[] or(more, nan) keep = pred[] or(one, both)"
        f" v = {kind}[] select(keep, a, b) w = s32[] select(keep, i, j) ROOT t = ({kind}[], s32[]) tuple(v, w) }}"
    )
    ends = {
        "f": ("-inf", "inf"),
        "i": ("-128", "127") if x.dtype == "int8" else ("-2147483648", "2147483647"),
    }
    start = ends[x.kind][mode == "LT"]
    kinds = typed_as(x.dtype, shape), typed_as("int32", shape)
    text = (
        f"{name} {{ p = {typed_as(x.dtype, x.shape)} parameter(0) i = {counts} iota(), iota_dimension={dim}"
        f" s = {kind}[] constant({start}) z = s32[] constant(2147483647)"
        f" r = ({', '.join(kinds)}) reduce(p, i, s, z), dimensions={{{dim}}}, to_apply={region_name}"
        f" ROOT g = {kinds[index]} get-tuple-element(r), index={index} }}"
    )
    return make.emit(f"call({x.name}), to_apply={name}", shape, "int32" if index else x.dtype, (x,), jumps=True,
                     called=(test, text))  # fmt: skip


def high_product(make: Maker) -> Value | None:
    """The high half of a product of integers."""
    x = make.pick("iu", exact=True, dtypes=("int32", "uint32", "int8", "uint8", "int16", "uint16"))
    if x is None:
        return None
    y = make.like(x, exact=True)
    return make.emit(f"mulhi({x.name}, {y.name})", x.shape, x.dtype, (x, y), jumps=True)


def size_of(make: Maker) -> Value | None:
    """The extent of a dimension."""
    x = make.pick()
    if x is None or not x.rank:
        return None
    text = f"get-dimension-size({x.name}), dimensions={{{make.chance.randrange(x.rank)}}}"
    return make.emit(text, (), "int32", (x,))
