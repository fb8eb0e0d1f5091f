"""Every numeric function of ``nki.language`` beside Python's own arithmetic."""

import functools
import itertools
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.base.targets import target_of
from nki_lang.execute import simulate
from nki_lang.kernel import Kernel
from tests.oracles.elementwise import TARGETS, TRN3, op_of, rows, values
from tests.oracles.machine import array_of
from tests.oracles.scalars import ACTIVATIONS, BINARY, BITS, POSITIVE, bits, f32, rounded

UNARY = {
    **{name: ACTIVATIONS[name] for name in ACTIVATIONS},
    "cos": math.cos, "sin": math.sin, "tan": math.tan, "arctan": math.atan,
    "ceil": lambda x: float(math.ceil(x)), "floor": lambda x: float(math.floor(x)),
    "trunc": lambda x: float(math.trunc(x)), "negative": lambda x: -x,
}  # fmt: skip


@dataclass
class Call:
    """A function of the language on tiles.

    Attributes:
        name: of the function in ``nki.language``.
        call: makes the resulting tile, given the loaded tiles.
        reads: (values, dtype) of each tile.
        expected: the elements of the result, in order; None for what nobody says.
        dtype: of the result, or "" when it is not looked at.
        close: relative error allowed.
        target: family.
    """

    name: str
    call: Any
    reads: list[Any]
    expected: Any
    dtype: str = ""
    close: float = 0.0
    target: str = ""
    note: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name}-{self.target}-{self.dtype}-{self.note}"


def stored(tile):
    """A tile in HBM, whatever memory it is in."""
    if nl.is_hbm(tile.buffer):
        step = nl.load(tile)
    elif tile.buffer is nl.psum:
        step = nl.ndarray(tile.shape, tile.dtype, nl.sbuf)
        nisa.tensor_copy(dst=step, src=tile)
    else:
        step = tile
    out = nl.ndarray(tile.shape, tile.dtype, nl.shared_hbm)
    nl.store(out, step)
    return out


def run(call):
    """The result, interpreted eagerly and by the executor, which agree."""

    def kernel(arrays):
        return stored(call.call(*[nl.load(x) for x in arrays]))

    family = target_of(call.target)
    arrays = [array_of(entry, dtype) for entry, dtype in call.reads]
    kernel_object = Kernel(kernel, target=family)
    eager, fast = simulate(kernel_object, target=family)(arrays), kernel_object(arrays)
    assert np.array_equal(eager.astype(np.float64), fast.astype(np.float64), equal_nan=True)
    return eager


def _call(name, call, reads, expected, dtype="", close=0.0, target="", note=""):
    return Call(name, call, reads, expected, dtype, close, target or next(TARGETS), note)


def unary():
    """Functions of one tile, in float32 and rounded to another dtype."""
    for name, function in UNARY.items():
        data = values("float32", 40, 401, False)
        data = [f32(abs(x) / 10 + 0.05) if name in POSITIVE else f32(x / 20) for x in data]
        if name == "tan":  # away from the poles, where float32 says little
            data = [x for x in data if abs(math.cos(x)) > 0.3] + [0.5] * 40
            data = data[:40]
        expected = [function(x) for x in data]
        yield _call(name, op_of(name), [(rows(data, 10), "float32")], expected, "float32", 4e-5)
        half = [rounded(x, "bfloat16") for x in data]
        expected = [function(x) for x in half]
        if name == "tan":
            expected = [x if abs(x) < 3 else None for x in expected]
        yield _call(name, op_of(name), [(rows(half, 10), "bfloat16")], expected, "bfloat16", 8e-3)
        yield _call(name, functools.partial(op_of(name), dtype=nl.float32),
                    [(rows(half, 10), "bfloat16")], expected, "float32", 4e-5, note="dtype")  # fmt: skip
    ints = values("int16", 10, 402)
    yield _call("invert", nl.invert, [([ints], "int16")], [~x for x in ints], "int16")
    yield _call("logical_not", nl.logical_not, [([[0.0, 1.0, 1.0, 0.0]], "float32")],
                [1.0, 0.0, 0.0, 1.0], "float32")  # fmt: skip


def binary():
    """Functions of two tiles, of a tile and a number, and of a number and a tile."""
    for name, function in BINARY.items():
        target = "trn3" if name in TRN3 else ""
        a, b = values("float32", 24, 411, False), values("float32", 24, 412, False)
        expected = [f32(function(x, y)) for x, y in zip(a, b, strict=True)]
        yield _call(name, op_of(name), [(rows(a, 8), "float32"), (rows(b, 8), "float32")], expected,
                    "float32", 1e-6, target)  # fmt: skip
        for swapped in (False, True):
            f = op_of(name)
            call = (lambda x, f=f: f(2.5, x)) if swapped else (lambda x, f=f: f(x, 2.5))
            expected = [f32(function(*((2.5, x) if swapped else (x, 2.5)))) for x in a]
            yield _call(name, call, [(rows(a, 8), "float32")], expected, "float32", 1e-6, target,
                        "number")  # fmt: skip
    for name, dtype in itertools.product(BITS, ("int32", "uint8")):
        a, b = values(dtype, 12, 413), [1, 2, 3] * 4
        expected = [bits(name, x, y, dtype) for x, y in zip(a, b, strict=True)]
        yield _call(name, op_of(name), [(rows(a, 6), dtype), (rows(b, 6), dtype)], expected, dtype)
    a, b = [0.5, 2.0, 3.0, 9.0], [2.0, 3.0, -1.0, 0.5]
    yield _call("power", nl.power, [([a], "float32"), ([b], "float32")],
                [x**y for x, y in zip(a, b, strict=True)], "float32", 1e-6)  # fmt: skip
    a, b = [7.5, -7.5, 7.5, -7.5, 0.5], [2.0, 2.0, -2.0, -2.0, 3.0]
    yield _call("fmod", nl.fmod, [([a], "float32"), ([b], "float32")],
                [math.fmod(x, y) for x, y in zip(a, b, strict=True)], "float32")  # fmt: skip
    yield _call("mod", nl.mod, [([a], "float32"), ([b], "float32")],
                [x - y * math.floor(x / y) for x, y in zip(a, b, strict=True)], "float32")  # fmt: skip


def reductions():
    """Along the last free axes."""
    data = [f32(x / 40) for x in values("float32", 48, 421, False)]
    table = [[data[24 * p + 4 * r : 24 * p + 4 * r + 4] for r in range(6)] for p in range(2)]
    folds = {"sum": math.fsum, "max": max, "min": min, "prod": math.prod,
             "mean": lambda g: math.fsum(g) / len(g),
             "all": lambda g: float(all(g))}  # fmt: skip
    for name, fold in folds.items():
        for axis, size in ((2, 4), ((1, 2), 24), (-1, 4)):
            expected = [fold(group) for group in rows(data, size)]
            yield _call(name, functools.partial(op_of(name), axis=axis), [(table, "float32")], expected,
                        "float32", 3e-5, note=str(axis))  # fmt: skip
    for axis, size in ((2, 4), ((1, 2), 24)):
        expected = []
        for group in rows(data, size):
            mean = math.fsum(group) / size
            expected.append(math.fsum((x - mean) ** 2 for x in group) / size)
        yield _call("var", lambda x, a=axis: nl.var(x, a), [(table, "float32")], expected, "float32",
                    3e-5, note=str(axis))  # fmt: skip


def composed():
    """Functions of several instructions."""
    data = [f32(x / 30) for x in values("float32", 24, 431, False)]
    expected = []
    for row in rows(data, 8):
        total = math.fsum(math.exp(x - max(row)) for x in row)
        expected += [math.exp(x - max(row)) / total for x in row]
    yield _call("softmax", nl.softmax, [(rows(data, 8), "float32")], expected, "float32", 1e-5)
    weights = [f32(0.5 + 0.1 * i) for i in range(8)] * 3
    expected = []
    for row, scale in zip(rows(data, 8), rows(weights, 8), strict=True):
        root = math.sqrt(math.fsum(x * x for x in row) / 8 + 1e-6)
        expected += [x / root * w for x, w in zip(row, scale, strict=True)]
    yield _call("rms_norm", lambda x, w: nl.rms_norm(x, w, 1, 8),
                [(rows(data, 8), "float32"), (rows(weights, 8), "float32")], expected, "float32", 1e-5)  # fmt: skip
    mask = [0.0, 1.0, 1.0, 0.0] * 6
    expected = [x if m else 9.0 for x, m in zip(data, mask, strict=True)]
    yield _call("where", lambda m, x: nl.where(m, x, 9.0),
                [(rows(mask, 8), "float32"), (rows(data, 8), "float32")], expected, "float32")  # fmt: skip
    for rate in (0.0, 1.0):
        yield _call("dropout", lambda x, r=rate: nl.dropout(x, r), [(rows(data, 8), "float32")],
                    data if rate == 0 else [0.0] * 24, "float32", note=str(rate))  # fmt: skip
    yield _call("transpose", nl.transpose, [(rows(data, 8), "float32")],
                [data[r * 8 + c] for c in range(8) for r in range(3)], "float32")  # fmt: skip
    left, right = rows(data, 8), rows(data, 3)
    expected = [
        math.fsum(left[m][k] * right[k][n] for k in range(8)) for m in range(3) for n in range(3)
    ]
    yield _call(
        "matmul", nl.matmul, [(left, "float32"), (right, "float32")], expected, "float32", 1e-5
    )
    turned = [[left[m][k] for m in range(3)] for k in range(8)]
    yield _call("matmul", lambda x, y: nl.matmul(x, y, transpose_x=True),
                [(turned, "float32"), (right, "float32")], expected, "float32", 1e-5, note="turned")  # fmt: skip
    index = [[3, 0, 7], [1, 1, 2], [5, 6, 0]]
    yield _call("gather_flattened", nl.gather_flattened, [(left, "float32"), (index, "uint32")],
                [left[r][i] for r in range(3) for i in index[r]], "float32")  # fmt: skip
    yield _call("broadcast_to", lambda x: nl.broadcast_to(x, (3, 4)), [([[1.0], [2.0], [3.0]], "float32")],
                [1.0] * 4 + [2.0] * 4 + [3.0] * 4, "float32")  # fmt: skip
    yield _call("broadcast_to", lambda x: nl.broadcast_to(x, (3, 4)), [([[1.0, 2.0, 3.0, 4.0]], "float32")],
                [1.0, 2.0, 3.0, 4.0] * 3, "float32", note="partitions")  # fmt: skip
    yield _call("expand_dims", lambda x: nl.expand_dims(x, 1), [(left, "float32")], data, "float32")
    yield _call("copy", lambda x: nl.copy(x, dtype=nl.int8), [(left, "float32")],
                [rounded(x, "int8") for x in data], "int8", note="rounded")  # fmt: skip


def creation():
    """Tensors made from nothing, from constants and from HBM."""
    for name, value in (("zeros", 0.0), ("ones", 1.0)):
        for buffer, dtype in (("sbuf", "float32"), ("psum", "float32"), ("shared_hbm", "bfloat16")):
            call = functools.partial(getattr(nl, name), (3, 4), op_of(dtype), op_of(buffer))
            yield _call(name, call, [], [value] * 12, dtype, note=buffer)
    yield _call("full", lambda: nl.full((2, 3), -2.5, nl.float16), [], [-2.5] * 6, "float16")
    yield _call(
        "zeros_like",
        lambda x: nl.zeros_like(x),
        [([[1.5, 2.5]], "bfloat16")],
        [0.0, 0.0],
        "bfloat16",
    )

    def empty_like(x):
        empty = nl.empty_like(x)
        nisa.tensor_copy(empty, x)
        return empty

    yield _call("empty_like", empty_like, [([[1, 2]], "int16")], [1, 2], "int16")
    yield _call(
        "ndarray", lambda x: empty_like(x), [([[1.5, 2.0]], "float32")], [1.5, 2.0], "float32"
    )
    numbers = np.arange(12, dtype=np.float32).reshape(3, 4)
    yield _call(
        "shared_constant", lambda: nl.shared_constant(numbers), [], list(range(12)), "float32"
    )
    for dtype in ("float32", "bfloat16", "uint8"):
        eye = [float(i == j) for i in range(5) for j in range(5)]
        yield _call("shared_identity_matrix",
                    lambda d=dtype: nl.shared_identity_matrix(5, getattr(nl, d)), [], eye, dtype)  # fmt: skip
    data = values("float32", 12, 441, False)
    yield _call("load", lambda x: x, [(rows(data, 4), "float32")], data, "float32")
    yield _call("store", lambda x: x, [(rows(data, 4), "bfloat16")],
                [rounded(x, "bfloat16") for x in data], "bfloat16")  # fmt: skip
    yield _call("load_transpose2d", lambda x: nl.load_transpose2d(stored(x)), [(rows(data, 4), "float32")],
                [data[r * 4 + c] for c in range(4) for r in range(3)], "float32")  # fmt: skip

    def drawn(seed):
        nl.random_seed(seed)
        first = nl.rand((8, 16), nl.float32)
        nl.random_seed(seed)
        again = nl.rand((8, 16), nl.float32)
        inside = nl.multiply(nl.greater_equal(first, 0.0), nl.less(first, 1.0))
        return nl.multiply(nl.equal(first, again), inside)

    for name in ("rand", "random_seed"):
        yield _call(name, drawn, [([[77]], "int32")], [1.0] * 128, "float32")


def control():
    """Loops, programs and slices that decide which numbers come out."""
    data = values("float32", 12, 451, False)

    def sliced(x):
        return nl.copy(x[:, nl.ds(1, 2)])

    yield _call("ds", sliced, [(rows(data, 4), "float32")],
                [data[4 * r + c] for r in range(3) for c in (1, 2)], "float32")  # fmt: skip

    def repeated(loop):
        def call(x):
            total = nl.zeros((3, 4), nl.float32)
            loop(lambda: nisa.tensor_tensor(total, total, x, nl.add))
            return total

        return call

    def by_for(make):
        def loop(body):
            for _ in make():
                body()

        return loop

    def by_while(body):
        counter = nisa.register_alloc(3)

        def turn(register):
            body()
            return register - 1

        nl.while_loop(counter, turn)

    loops = {
        "affine_range": by_for(lambda: nl.affine_range(3)),
        "sequential_range": by_for(lambda: nl.sequential_range(1, 7, 2)),
        "static_range": by_for(lambda: nl.static_range(3)),
        "dynamic_range": by_for(lambda: nl.dynamic_range(nisa.register_alloc(3))),
        "fori_loop": lambda body: nl.fori_loop(nisa.register_alloc(2), 8, lambda i: body(), 2),
        "while_loop": by_while,
    }
    for name, loop in loops.items():
        yield _call(name, repeated(loop), [(rows(data, 4), "float32")],
                    [f32(f32(x + x) + x) for x in data], "float32")  # fmt: skip

    def ordered(x):
        with nl.no_reorder():
            return nl.add(nl.add(x, 1.0), x)

    yield _call("no_reorder", ordered, [(rows(data, 4), "float32")],
                [f32(f32(x + 1.0) + x) for x in data], "float32")  # fmt: skip


def grids():
    """Grids of tiles and blocks, by which a tensor is copied tile by tile."""
    data = values("float32", 40, 461, False)
    table = rows(data, 8)

    def reversed_tiles(x):
        grid = nl.tiles(x, tile_shape=(5, 4))
        reverse = nl.alloc_tiles(
            tile_shape=(5, 4), element_shape=(5, 8), buffer=nl.sbuf, dtype=nl.float32
        )
        for j in range(2):
            nisa.tensor_copy(reverse[0, 1 - j].data, grid[0, j].data)
        return reverse[0, :].data

    def blocked(x):
        grid = nl.blocks(x, tile_shape=(5, 2), block_shape=(1, 3))
        copied = nl.alloc_blocks(
            tile_shape=(5, 2), block_shape=(1, 3), element_shape=(5, 8), buffer=nl.sbuf,
            dtype=nl.float32,
        )  # fmt: skip
        nisa.tensor_copy(copied[0, 1].data, grid[0, 1].data)
        nisa.tensor_copy(copied[0, 0].data, grid[0, 0].data)
        return copied[0, :].data

    for name in ("tiles", "alloc_tiles"):
        yield _call(name, reversed_tiles, [(table, "float32")],
                    [x for row in table for x in (*row[4:], *row[:4])], "float32")  # fmt: skip
    for name in ("blocks", "alloc_blocks"):
        yield _call(name, blocked, [(table, "float32")], data, "float32")


CALLS = [binary, composed, control, creation, grids, reductions, unary]
