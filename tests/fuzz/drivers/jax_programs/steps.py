"""The steps that programs are made of: a table of expressions by family, with weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.fuzz.drivers.jax_programs.generate import Maker
    from tests.fuzz.drivers.programs import Value

__all__ = ["STEPS", "Step"]


class Step(NamedTuple):
    """A family of expressions.

    Attributes:
        propose: an expression, the values that it reads, and whether it keeps exact ones exact.
        weight: how often it is tried.
        jumps: whether a small change of an operand may be a large one of the result.
    """

    propose: Callable[[Maker], tuple[str, tuple[Value, ...], bool] | None]
    weight: int
    jumps: bool = False


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


SMOOTH = _names(
    "jnp.exp jnp.log jnp.log1p jnp.expm1 jnp.sqrt lax.rsqrt jnp.sin jnp.cos jnp.tan jnp.arcsin"
    " jnp.arccos jnp.arctan jnp.sinh jnp.cosh jnp.tanh jnp.arcsinh jnp.arccosh jnp.arctanh jnp.square"
    " jnp.cbrt jnp.reciprocal lax.erf lax.erfc jax.nn.gelu"
    " jax.nn.silu jax.nn.softplus jax.nn.sigmoid jax.nn.log_sigmoid jax.nn.elu jax.nn.selu jnp.exp2"
    " jnp.log2 jnp.log10 jnp.sinc jax.nn.swish jax.nn.mish jax.nn.celu jax.nn.soft_sign jnp.rad2deg"
    " lax.logistic lax.bessel_i1e lax.bessel_i0e"
)
JUMPING = _names(
    "jnp.floor jnp.ceil jnp.round jnp.trunc jnp.sign jnp.isnan jnp.isinf jnp.isfinite jnp.signbit"
    " jnp.isposinf jnp.isneginf"
)
POLES = _names("lax.lgamma lax.digamma lax.erf_inv")
"""Rounded, and they jump: a rounding error leaves their poles at 0, -1, -2, ..., or at 1 and -1."""
EXACT = ("jnp.abs", "jnp.negative", "jax.nn.relu", "jnp.nan_to_num", "jax.nn.relu6", "jnp.positive")
FLOAT_PAIRS = _names(
    "jnp.add jnp.subtract jnp.multiply jnp.divide jnp.power jnp.arctan2 jnp.hypot jnp.logaddexp"
    " jnp.logaddexp2 jnp.true_divide lax.pow"
)
JUMPING_PAIRS = _names(
    "jnp.fmod jnp.remainder jnp.floor_divide lax.rem jnp.copysign jnp.equal jnp.not_equal jnp.less"
    " jnp.less_equal jnp.greater jnp.greater_equal jnp.nextafter jnp.heaviside jnp.maximum jnp.minimum"
    " jnp.fmax jnp.fmin"
)
INTEGER_PAIRS = _names(
    "jnp.add jnp.subtract jnp.multiply jnp.floor_divide jnp.remainder lax.div lax.rem jnp.bitwise_and"
    " jnp.bitwise_or jnp.bitwise_xor jnp.left_shift jnp.right_shift lax.shift_right_logical"
    " lax.shift_right_arithmetic lax.shift_left jnp.maximum jnp.minimum jnp.equal jnp.less"
    " jnp.greater_equal jnp.gcd jnp.fmod"
)
INTEGER_ONES = _names(
    "jnp.negative jnp.abs jnp.invert jnp.sign lax.population_count lax.clz jnp.square"
    " jnp.bitwise_count"
)
NUMBERS = ("0.0", "1.0", "-1.0", "0.5", "2.0", "-2.5", "3.0", "1e-3", "jnp.inf", "-0.0")
CASTS = (
    "float32",
    "bfloat16",
    "float16",
    "int32",
    "uint32",
    "int16",
    "uint16",
    "int8",
    "uint8",
    "bool",
)
BITS = {"float32": ("int32", "uint32"), "int32": ("float32", "uint32"), "uint32": ("int32",),
        "bfloat16": ("uint16", "int16"), "float16": ("uint16",), "int16": ("bfloat16", "uint16"),
        "uint16": ("float16",), "int8": ("uint8",), "uint8": ("int8",)}  # fmt: skip


def smooth(make: Maker):
    x = make.pick("f")
    return x and (f"{make.chance.choice(SMOOTH)}({x.name})", (x,), False)


def jumping(make: Maker):
    x = make.pick("f", exact=True)
    name = make.chance.choice((*JUMPING, *POLES))
    return x and (f"{name}({x.name})", (x,), name not in POLES)


def exact(make: Maker):
    x = make.pick("f")
    return x and (f"{make.chance.choice(EXACT)}({x.name})", (x,), True)


def float_pair(make: Maker):
    x = make.pick("f")
    if x is None:
        return None
    name = make.chance.choice(FLOAT_PAIRS)
    if make.chance.random() < 0.3:
        pair = [x.name, make.chance.choice(NUMBERS)]
        make.chance.shuffle(pair)
        return f"{name}({', '.join(pair)})", (x,), False
    y = make.like(x)
    return f"{name}({x.name}, {y.name})", (x, y), False


def jumping_pair(make: Maker):
    x = make.pick("f", exact=True)
    if x is None:
        return None
    y = make.like(x, exact=True)
    return f"{make.chance.choice(JUMPING_PAIRS)}({x.name}, {y.name})", (x, y), True


def integer_pair(make: Maker):
    x = make.pick("iu")
    if x is None:
        return None
    name = make.chance.choice(INTEGER_PAIRS)
    if make.chance.random() < 0.25:
        return f"{name}({x.name}, {make.chance.choice((0, 1, 2, 3, 7, 31))})", (x,), True
    y = make.like(x, exact=True)
    return f"{name}({x.name}, {y.name})", (x, y), True


def integer_one(make: Maker):
    x = make.pick("iu")
    return x and (f"{make.chance.choice(INTEGER_ONES)}({x.name})", (x,), True)


def logical(make: Maker):
    x = make.pick("b")
    if x is None:
        return None
    y = make.like(x)
    name = make.chance.choice(("jnp.logical_and", "jnp.logical_or", "jnp.logical_xor", "jnp.equal"))
    return f"{name}({x.name}, {y.name})", (x, y), True


def mixed(make: Maker):
    """Two dtypes promoted."""
    x, y = make.pick("fiub", exact=True), make.pick("fiub", exact=True)
    op = make.chance.choice("+-*")
    return x and y and (f"{x.name} {op} {y.name}", (x, y), x.kind in "iub" and y.kind in "iub")


def cast(make: Maker):
    x = make.pick("fiub", exact=True)
    if x is None:
        return None
    dtypes = (*CASTS, "int64", "uint64", "float64") if make.wide else CASTS
    if make.chance.random() < 0.25 and x.dtype in BITS:
        kind = make.chance.choice(BITS[x.dtype])
        return f"lax.bitcast_convert_type({x.name}, jnp.{kind})", (x,), True
    return f"{x.name}.astype(jnp.{make.chance.choice(dtypes)}.dtype)", (x,), True


def where(make: Maker):
    test, x = make.pick("b"), make.pick("fiu")
    if test is None or x is None:
        return None
    y = make.like(x)
    return f"jnp.where({test.name}, {x.name}, {y.name})", (test, x, y), True


def clamp(make: Maker):
    x = make.pick("fi")
    if x is None:
        return None
    low, high = ("-1.5", "2.0") if x.kind == "f" else ("-3", "5")
    return f"jnp.clip({x.name}, {low}, {high})", (x,), True


def _axis(make: Maker, x: Value) -> str:
    return "None" if make.chance.random() < 0.25 else str(make.chance.randrange(-x.rank, x.rank))


def reduction(make: Maker):
    x = make.pick("fiu")
    if x is None or not x.rank:
        return None
    name = make.chance.choice(("sum", "sum", "prod", "mean", "var", "std"))
    keep = make.chance.choice(("", ", keepdims=True"))
    data = f"jnp.clip({x.name}, -2, 2)" if name == "prod" and x.kind == "f" else x.name
    return (
        f"jnp.{name}({data}, axis={_axis(make, x)}{keep})",
        (x,),
        x.kind in "iu" and name in ("sum", "prod"),
    )


def exact_reduction(make: Maker):
    x = make.pick("fiub", exact=True)
    if x is None or not x.rank:
        return None
    names = (
        ("any", "all")
        if x.kind == "b"
        else ("max", "min", "argmax", "argmin", "any", "count_nonzero")
    )
    return f"jnp.{make.chance.choice(names)}({x.name}, axis={_axis(make, x)})", (x,), True


def cumulative(make: Maker):
    x = make.pick("fi")
    if x is None or not x.rank:
        return None
    name = make.chance.choice(
        ("jnp.cumsum", "jnp.cumprod", "lax.cummax", "lax.cummin", "lax.cumlogsumexp")
    )
    axis = make.chance.randrange(x.rank)
    reverse = ", reverse=True" if name.startswith("lax") and make.chance.random() < 0.4 else ""
    data = f"jnp.clip({x.name}, -2, 2)" if name == "jnp.cumprod" and x.kind == "f" else x.name
    return f"{name}({data}, axis={axis}{reverse})", (x,), x.kind == "i"


def softmax(make: Maker):
    x = make.pick("f")
    if x is None or not x.rank:
        return None
    name = make.chance.choice(
        ("jax.nn.softmax", "jax.nn.log_softmax", "jax.nn.logsumexp", "jax.nn.standardize")
    )
    return f"{name}({x.name}, axis=-1)", (x,), False


def movement(make: Maker):
    x = make.pick()
    if x is None or not x.rank:
        return None
    axis, second_axis = make.chance.randrange(x.rank), make.chance.randrange(x.rank)
    shift = make.chance.randrange(-3, 4)
    order = make.chance.sample(range(x.rank), x.rank)
    size = 1
    for extent in x.shape:
        size *= extent
    factor = make.chance.choice([n for n in range(1, size + 1) if size % n == 0] or [1])
    text = make.chance.choice((
        f"jnp.transpose({x.name}, {order})", f"jnp.flip({x.name}, {axis})", f"jnp.roll({x.name}, {shift}, {axis})",
        f"{x.name}.reshape({factor}, {size // factor if factor else 0})", f"jnp.swapaxes({x.name}, {axis}, {second_axis})",
        f"jnp.expand_dims({x.name}, {axis})", f"jnp.tile({x.name}, 2)", f"jnp.repeat({x.name}, 2, axis={axis})",
        f"jnp.broadcast_to({x.name}, (2, *{x.shape}))", f"jnp.pad({x.name}, [(1, 2)] * {x.rank})",
        f"jnp.pad({x.name}, 2, mode={make.chance.choice(('edge', 'reflect', 'wrap', 'symmetric'))!r})",
        f"lax.pad({x.name}, jnp.zeros((), {x.name}.dtype), [({shift}, 1, {make.chance.randrange(3)})] * {x.rank})",
        f"jnp.tril({x.name}, {shift})", f"jnp.triu({x.name}, {shift})", f"jnp.diagonal({x.name})", f"jnp.rot90({x.name})",
        f"{x.name}.ravel()", f"lax.rev({x.name}, {sorted({axis, second_axis})})", f"jnp.moveaxis({x.name}, {axis}, {second_axis})",
    ))  # fmt: skip
    return text, (x,), True


def joined(make: Maker):
    x = make.pick()
    if x is None or not x.rank:
        return None
    y = make.like(x)
    axis = make.chance.randrange(x.rank)
    name = make.chance.choice(("concatenate", "stack"))
    return f"jnp.{name}([{x.name}, {y.name}, {x.name}], axis={axis})", (x, y), True


def sliced(make: Maker):
    x = make.pick()
    if x is None or not x.rank:
        return None
    parts = []
    for extent in x.shape:
        start = make.chance.randrange(-2, extent + 1)
        kind = make.chance.randrange(5)
        parts.append((":", str(make.chance.randrange(extent)) if extent else ":", f"{start}:",
                      f":{start}", f"::{make.chance.choice((2, -1, 3, -2))}")[kind])  # fmt: skip
    return f"{x.name}[{', '.join(parts)}]", (x,), True


def dynamic(make: Maker):
    """Slices and updates at positions that run time gives, some of them outside."""
    x, index = make.pick(), make.pick("iu", exact=True)
    if x is None or index is None or not x.rank:
        return None
    start = f"{index.name}.ravel()[0]" if index.rank else index.name
    if 0 in index.shape:
        return None
    sizes = tuple(make.chance.randrange(1, extent + 1) if extent else 0 for extent in x.shape)
    starts = "(" + ", ".join([start] + [f"jnp.zeros((), {index.name}.dtype)"] * (x.rank - 1)) + ",)"
    text = make.chance.choice((
        f"lax.dynamic_slice({x.name}, {starts}, {sizes})",
        f"lax.dynamic_update_slice({x.name}, jnp.ones({sizes}, {x.name}.dtype), {starts})",
        f"lax.dynamic_index_in_dim({x.name}, {start}, 0)", f"{x.name}[{start}]",
        f"{x.name}.at[{start}].set(0)", f"{x.name}.at[..., {start}].get(mode='fill', fill_value=7)",
    ))  # fmt: skip
    return text, (x, index), True


def indexed(make: Maker):
    """Gathers and scatters by arrays of indices, some of them outside."""
    x, index = make.pick("fiu"), make.pick("iu", exact=True)
    if x is None or index is None or not x.rank or index.rank > 2:
        return None
    axis = make.chance.randrange(x.rank)
    mode = make.chance.choice(("clip", "fill", "wrap"))
    change = make.chance.choice(("set", "add", "max", "min", "multiply"))
    scatter = make.chance.choice(("", ", mode='drop'", ", mode='clip'"))
    rows = make.pick("iu", exact=True, rank=x.rank) or index
    text, uses, keeps = make.chance.choice((
        (f"jnp.take({x.name}, {index.name}, axis={axis}, mode={mode!r})", (x, index), True),
        (f"{x.name}[{index.name}]", (x, index), True),
        (f"{x.name}[{index.name} % {x.shape[0] or 1}]", (x, index), True),
        (f"jnp.take_along_axis({x.name}, {rows.name}, axis={axis}, mode={mode!r})", (x, rows), True),
        (f"{x.name}.at[{index.name}].{change}(jnp.array(2, {x.name}.dtype){scatter})", (x, index),
         change in ("set", "max", "min") or x.kind in "iu"),
        (f"{x.name}.at[{index.name} % {x.shape[0] or 1}].{change}(3)", (x, index),
         change in ("set", "max", "min") or x.kind in "iu"),
        (f"jax.nn.one_hot({index.name}, 5)", (index,), True),
        (f"jax.ops.segment_sum({x.name}, {index.name}, num_segments=4)", (x, index), x.kind in "iu"),
        (f"jnp.bincount({index.name}.ravel(), length=6)", (index,), True),
    ))  # fmt: skip
    return text, uses, keeps


def sorting(make: Maker):
    x = make.pick("fiu", exact=True)
    if x is None or not x.rank:
        return None
    axis = make.chance.randrange(x.rank)
    down = make.chance.choice(("", ", descending=True"))
    y = make.pick("fiu", exact=True)
    text, uses = make.chance.choice((
        (f"jnp.sort({x.name}, axis={axis}{down})", (x,)),
        (f"jnp.argsort({x.name}, axis={axis}{down})", (x,)),
        (f"lax.top_k({x.name}, {make.chance.randrange(1, 4)})[{make.chance.randrange(2)}]", (x,)),
        (f"jnp.median({x.name}, axis={axis})", (x,)),
        (f"lax.sort(({x.name}, {y.name}), dimension={axis}, num_keys=1)[1]", (x, y)),
        (f"lax.sort(({x.name}, {y.name}), dimension={axis}, num_keys=2)[1]", (x, y)),
        (f"jnp.searchsorted(jnp.sort({x.name}.ravel()), {x.name})", (x,)),
        (f"jnp.unique({x.name}, size=4, fill_value=0)", (x,)),
        (f"jnp.nonzero({x.name}, size=3, fill_value=-1)[0]", (x,)),
        (f"jnp.digitize({x.name}, jnp.array([0, 1, 2]))", (x,)),
    ))  # fmt: skip
    return text, uses, "median" not in text


def product(make: Maker):
    x = make.pick("fi")
    if x is None or not x.rank:
        return None
    y = make.pick("fi", rank=make.chance.choice((1, 2, x.rank))) or x
    axis = make.chance.randrange(x.rank)
    fits = [(value, position) for value in make.values for position, extent in enumerate(value.shape)
            if extent == x.shape[axis] and value.dtype == x.dtype]  # fmt: skip
    right, right_axis = make.chance.choice(fits)
    wider = (
        ", preferred_element_type=jnp.float32"
        if x.kind == "f"
        else ", preferred_element_type=jnp.int32"
    )
    wider = make.chance.choice(("", wider))
    uses, text = make.chance.choice((
        ((x, right), f"lax.dot_general({x.name}, {right.name}, (([{axis}], [{right_axis}]), ([], [])){wider})"),
        ((x, y), f"jnp.matmul({x.name}, {y.name})"), ((x, y), f"jnp.dot({x.name}, {y.name})"),
        ((x,), f"jnp.matmul({x.name}, jnp.swapaxes({x.name}, -1, -2))"), ((x, y), f"jnp.inner({x.name}, {y.name})"),
        ((x, right), f"jnp.tensordot({x.name}, {right.name}, axes=([{axis}], [{right_axis}]))"),
        ((x,), f"jnp.einsum('...i,...j->...ij', {x.name}, {x.name})"), ((x, y), f"jnp.outer({x.name}, {y.name})"),
        ((x,), f"jnp.einsum('ij,ik->jk', {x.name}, {x.name})"), ((x,), f"jnp.trace({x.name})"),
        ((x,), f"jnp.einsum('bij,bkj->bik', {x.name}, {x.name})"), ((x, right), f"jnp.vdot({x.name}, {right.name})"),
    ))  # fmt: skip
    return text, uses, x.kind == "i"


def convolution(make: Maker):
    """The arguments of a batch, drawn from the existing values."""
    x = make.pick("f")
    if x is None or not x.rank or 0 in x.shape:
        return None
    chance = make.chance
    groups, channels = chance.choice(((1, 2), (2, 2), (1, 3)))
    dims = chance.choice((1, 2))
    extents = [chance.randrange(3, 7) for _ in range(dims)]
    window = [chance.randrange(1, 4) for _ in range(dims)]
    finite = f"jnp.clip(jnp.nan_to_num({x.name}), -1e4, 1e4)"  # XLA multiplies no hole by infinity
    data = f"jnp.resize({finite}, {(2, channels, *extents)})"
    kernel = f"jnp.resize({finite}[::-1], {(2 * groups, channels // groups, *window)})"
    padding = chance.choice(
        (
            "'SAME'",
            "'VALID'",
            str([(chance.randrange(-1, 3), chance.randrange(3)) for _ in range(dims)]),
        )
    )
    strides = [chance.randrange(1, 3) for _ in range(dims)]
    left = [chance.choice((1, 1, 2)) for _ in range(dims)]
    right = [chance.choice((1, 1, 2)) for _ in range(dims)]
    text = chance.choice((
        f"lax.conv_general_dilated({data}, {kernel}, {strides}, {padding}, {left if 'S' not in padding else [1] * dims},"
        f" {right}, feature_group_count={groups})",
        f"lax.conv_transpose({data}, {kernel}, {strides}, 'SAME', dimension_numbers=('NC{'HW'[:dims]}', 'OI{'HW'[:dims]}', 'NC{'HW'[:dims]}'))",
        f"lax.reduce_window({data}, -jnp.inf, lax.max, {(1, 1, *window)}, {(1, 1, *strides)}, {chance.choice(('SAME', 'VALID'))!r})",
        f"lax.reduce_window({data}, 0.0, lax.add, {(1, 1, *window)}, {(1, 1, *strides)}, {chance.choice(('SAME', 'VALID'))!r})",
    ))  # fmt: skip
    return text, (x,), False


def control(make: Maker):
    """Conditions and loops, with bounds that run time gives."""
    x, index = make.pick("fi"), make.pick("iu", exact=True)
    if x is None:
        return None
    count = make.chance.randrange(0, 6)
    ones = f"jnp.ones((), {x.name}.dtype)"
    texts = [
        f"lax.fori_loop(0, {count}, lambda i, a: a * 0.5 + i if a.dtype.kind == 'f' else a + i.astype(a.dtype), {x.name})",
        f"lax.scan(lambda c, r: (c + r, c - r), jnp.zeros_like({x.name}[0]), {x.name})[1]"
        if x.rank
        else "0",
        f"lax.scan(lambda c, r: (c + r, c), jnp.zeros_like({x.name}[0]), {x.name}, reverse=True)[0]"
        if x.rank
        else "0",
        f"lax.map(lambda r: r * r + {ones}, {x.name})",
        f"jax.vmap(lambda r: r - r.max())({x.name})" if x.rank > 1 else "0",
        f"lax.associative_scan(jnp.add, {x.name})",
        f"lax.while_loop(lambda s: s[0] < {count}, lambda s: (s[0] + 1, s[1] + s[1]), (0, {x.name}))[1]",
    ]
    uses: tuple[Value, ...] = (x,)
    if index is not None and 0 not in index.shape:
        uses = (x, index)
        n = f"({index.name}.ravel()[0].astype(jnp.int32))"
        texts += [
            f"lax.cond({n} > 0, lambda a: a + a, lambda a: -a, {x.name})",
            f"lax.switch({n}, [lambda a: a, lambda a: a * 2, lambda a: a - a], {x.name})",
            f"lax.fori_loop(0, jnp.clip({n}, 0, 5), lambda i, a: a + a, {x.name})",
            f"lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 3, s[1] + 1), (jnp.minimum({n}, 9), {x.name}))[1]",
        ]
    text = make.chance.choice(texts)
    return None if text == "0" else (text, uses, x.kind == "i")


def random_numbers(make: Maker):
    seed = make.pick("iu", exact=True)
    if seed is None or 0 in seed.shape:
        return None
    implementation = make.chance.choice(("", "", ", impl='rbg'", ", impl='unsafe_rbg'"))
    key = f"jax.random.key({seed.name}.ravel()[0].astype(jnp.uint32){implementation})"
    shape = make.chance.choice(((), (3,), (4, 5), (130,)))
    draw = make.chance.choice((
        "uniform(KEY, SHAPE)", "bits(KEY, SHAPE)", "bits(KEY, SHAPE, 'uint8')", "randint(KEY, SHAPE, -5, 9)",
        "normal(KEY, SHAPE)", "bernoulli(KEY, 0.3, SHAPE)", "permutation(KEY, 9)", "gumbel(KEY, SHAPE)",
        "exponential(KEY, SHAPE)", "truncated_normal(KEY, -1.0, 1.0, SHAPE)", "categorical(KEY, jnp.arange(4.0))",
        "uniform(jax.random.split(KEY)[1], SHAPE)", "bits(jax.random.fold_in(KEY, 3), SHAPE, 'uint16')",
        "choice(KEY, 7, SHAPE)", "uniform(KEY, SHAPE, jnp.bfloat16)", "laplace(KEY, SHAPE)", "randint(KEY, SHAPE, 0, 200, 'uint8')",
    ))  # fmt: skip
    text = draw.replace("KEY", key).replace("SHAPE", str(shape))
    exact_draw = draw.startswith(
        ("uniform", "bits", "randint", "bernoulli", "permutation", "choice")
    )
    return f"jax.random.{text}", (seed,), exact_draw


def gradient(make: Maker):
    x = make.pick("f")
    if x is None:
        return None
    name = make.chance.choice(SMOOTH)
    text = make.chance.choice((
        f"jax.grad(lambda a: {name}(a).sum())({x.name})", f"jax.grad(lambda a: (a.max() * a).sum())(jnp.tanh({x.name}))",
        f"jax.grad(lambda a: jax.nn.softmax(a, -1).var())({x.name})", f"jax.grad(lambda a: jnp.sort(a, -1)[..., 0].sum())({x.name})",
        f"jax.jvp({name}, ({x.name},), ({x.name},))[1]", f"jax.grad(lambda a: jnp.cumsum(a, -1).std())({x.name})",
    ))  # fmt: skip
    return text, (x,), False


STEPS: tuple[Step, ...] = (
    Step(smooth, 6), Step(jumping, 2, jumps=True), Step(exact, 2), Step(float_pair, 6), Step(jumping_pair, 4, jumps=True),
    Step(integer_pair, 6, jumps=True), Step(integer_one, 2), Step(logical, 1), Step(mixed, 2), Step(cast, 5, jumps=True),
    Step(where, 2), Step(clamp, 1), Step(reduction, 4), Step(exact_reduction, 3, jumps=True), Step(cumulative, 2),
    Step(softmax, 1), Step(movement, 5), Step(joined, 2), Step(sliced, 4), Step(dynamic, 3, jumps=True),
    Step(indexed, 5, jumps=True), Step(sorting, 4, jumps=True), Step(product, 4), Step(convolution, 3), Step(control, 4, jumps=True),
    Step(random_numbers, 2, jumps=True), Step(gradient, 2, jumps=True),
)  # fmt: skip
