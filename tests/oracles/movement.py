"""Copies, transposes, products and block formats, element by element."""

import itertools
import math
import random

import numpy as np

import nki_lang.isa as nisa
import nki_lang.language as nl
from tests.oracles.elementwise import TARGETS, TYPES, rows, values
from tests.oracles.machine import Case
from tests.oracles.scalars import INTS, f32, rounded


def _copies(op, reads, writes, edges):
    for left, right in itertools.product(TYPES, TYPES):
        data = values(left, 20, 101, edges)
        same = left == right and left in INTS
        expected = data if same else [rounded(f32(x), right) for x in data]
        yield Case(op, next(TARGETS), {reads: (rows(data, 5), left)},
                   {writes: ((4, 5), right)}, {writes: expected})  # fmt: skip


def dma_copy():
    """Through float32 between different dtypes, exact between equal ones."""
    yield from _copies("dma_copy", "src", "dst", True)


def tensor_copy():
    """The same on chip; the Scalar Engine rounds 32-bit integers to float32."""
    yield from _copies("tensor_copy", "src", "dst", True)
    data = [2**24 + 1, 2**31 - 1, -(2**31), 16777219, 5]
    yield Case("tensor_copy", "trn2", {"src": ([data], "int32")}, {"dst": ((1, 5), "int32", "psum")},
               {"dst": [rounded(f32(x), "int32") for x in data]},
               {"engine": nisa.engine.scalar}, note="scalar engine")  # fmt: skip


def tensor_copy_predicated():
    """Where the predicate is not zero, a tile or a number; elsewhere what was there."""
    for dtype, mask, reverse in itertools.product(
        ("float32", "bfloat16", "int32"), ("uint8", "uint16", "uint32"), (False, True)
    ):
        data, old = values(dtype, 12, 111), values(dtype, 12, 112, False)
        chosen = [0, 1, 0, 200, 0, 0, 7, 1, 0, 3, 0, 1]
        expected = [
            x if bool(c) != reverse else y for x, y, c in zip(data, old, chosen, strict=True)
        ]
        yield Case("tensor_copy_predicated", next(TARGETS), {"src": (rows(data, 6), dtype),
                   "predicate": (rows(chosen, 6), mask)}, {"dst": ((2, 6), dtype, "psum")},
                   {"dst": expected}, {"reverse_pred": reverse}, {"dst": old})  # fmt: skip
    yield Case("tensor_copy_predicated", "trn2", {"predicate": ([[0, 1, 1]], "uint8")},
               {"dst": ((1, 3), "bfloat16")}, {"dst": [1.0, *[rounded(0.3, "bfloat16")] * 2]},
               {"src": 0.3}, {"dst": [1.0, 2.0, 3.0]}, note="number")  # fmt: skip


def nc_stream_shuffle():
    """Each quadrant by the same mask; 255 keeps."""
    source = random.Random(5)
    mask = [source.choice([255, *range(32)]) for _ in range(32)]
    for dtype in ("float32", "uint8", "bfloat16"):
        data, old = values(dtype, 64 * 3, 121, False), values(dtype, 64 * 3, 122, False)
        expected = []
        for row in range(64):
            base, source_row = row // 32 * 32, mask[row % 32]
            origin, line = (old, row) if source_row == 255 else (data, base + source_row)
            expected += origin[line * 3 : line * 3 + 3]
        yield Case("nc_stream_shuffle", next(TARGETS), {"src": (rows(data, 3), dtype)},
                   {"dst": ((64, 3), dtype)}, {"dst": expected}, {"shuffle_mask": mask},
                   {"dst": old})  # fmt: skip


def nc_transpose():
    """Rows become columns, bit for bit, on both engines."""
    for dtype in ("float32", "bfloat16", "int32", "uint8", "float8_e5m2"):
        data = values(dtype, 60, 131)
        expected = [data[row * 12 + column] for column in range(12) for row in range(5)]
        for memory in ("psum", "sbuf"):
            yield Case("nc_transpose", next(TARGETS), {"data": (rows(data, 12), dtype)},
                       {"dst": ((12, 5), dtype, memory)}, {"dst": expected}, note=memory)  # fmt: skip


def dma_transpose():
    """Two, three and four dimensions by the documented permutations."""
    for shape, axes in (((6, 10), (1, 0)), ((3, 4, 5), (2, 1, 0)), ((2, 3, 4, 5), (3, 1, 2, 0))):
        data = values("bfloat16", math.prod(shape), 141, False)
        new = [shape[axis] for axis in axes]
        expected = []
        for location in itertools.product(*(range(extent) for extent in new)):
            old = [0] * len(shape)
            for index, axis in zip(location, axes, strict=True):
                old[axis] = index
            flat = 0
            for index, extent in zip(old, shape, strict=True):
                flat = flat * extent + index
            expected.append(data[flat])
        for permutation in (axes, None):
            yield Case("dma_transpose", next(TARGETS),
                       {"src": (np.array(data).reshape(shape).tolist(), "bfloat16")},
                       {"dst": (tuple(new), "bfloat16")}, {"dst": expected}, {"axes": permutation},
                       note=str(len(shape)))  # fmt: skip


def _product(left, right):
    """``left.T @ right`` of lists of rows, summed exactly and rounded once."""
    return [
        [
            math.fsum(left[k][m] * right[k][n] for k in range(len(left)))
            for n in range(len(right[0]))
        ]
        for m in range(len(left[0]))
    ]


def nc_matmul():
    """Products of every pair of dtypes, accumulation, transposes, double rows."""
    pairs = [("float32", "float32"), ("float32", "tfloat32"), ("bfloat16", "float16"),
             ("float8_e4m3", "float8_e5m2"), ("bfloat16", "float8_e5m2")]  # fmt: skip
    for left, right in pairs:
        a, b = rows(values(left, 9 * 4, 151, False), 4), rows(values(right, 9 * 6, 152, False), 6)
        expected = _product(a, b)
        old = values("float32", 24, 153, False)
        flat = [x for row in expected for x in row]
        reads = {"stationary": (a, left), "moving": (b, right)}
        yield Case("nc_matmul", next(TARGETS), reads, {"dst": ((4, 6), "float32", "psum")},
                   {"dst": flat}, close=3e-5)  # fmt: skip
        yield Case("nc_matmul", "trn3", reads, {"dst": ((4, 6), "float32", "psum")},
                   {"dst": [x + y for x, y in zip(flat, old, strict=True)]}, {"accumulate": True},
                   {"dst": old}, close=3e-5, note="accumulate")  # fmt: skip
        yield Case("nc_matmul", "trn3", reads, {"dst": ((4, 6), "bfloat16", "psum")},
                   {"dst": flat}, close=8e-3, note="bfloat16 out")  # fmt: skip
    a = [[[1.0, 2.0], [-3.0, 0.5]], [[0.25, 4.0], [8.0, -1.0]]]
    b = [[[2.0, 1.0, 0.5], [1.0, -1.0, 4.0]], [[3.0, 0.0, 1.0], [0.5, 2.0, -2.0]]]
    expected = [[sum(a[k][r][m] * b[k][r][n] for k in range(2) for r in range(2)) for n in range(3)]
            for m in range(2)]  # fmt: skip
    yield Case("nc_matmul", "trn2", {"stationary": (a, "float8_e4m3"), "moving": (b, "float8_e5m2")},
               {"dst": ((2, 3), "float32", "psum")}, {"dst": expected},
               {"perf_mode": nisa.matmul_perf_mode.double_row}, note="double row")  # fmt: skip
    data = values("float32", 20, 154)
    eye = [[1.0 if i == j else 0.0 for j in range(5)] for i in range(5)]
    yield Case("nc_matmul", "trn2", {"stationary": (rows(data, 4), "float32"),
               "moving": (eye, "float32")}, {"dst": ((4, 5), "float32", "psum")},
               {"dst": [data[k * 4 + m] for m in range(4) for k in range(5)]},
               {"is_transpose": True}, note="transpose keeps NaN and infinity")  # fmt: skip


FORMATS = {"float8_e4m3fn_x4": (4, 3, 448.0, 8), "float8_e5m2_x4": (5, 2, 57344.0, 15),
           "float4_e2m1fn_x4": (2, 1, 6.0, 2)}  # fmt: skip


def decoded(code, packed):
    """One lane of a packed element from its bits."""
    exponent_bits, mantissa, _, _ = FORMATS[packed]
    width = 1 + exponent_bits + mantissa
    bias = 2 ** (exponent_bits - 1) - 1
    fraction = code & ((1 << mantissa) - 1)
    exponent = code >> mantissa & ((1 << exponent_bits) - 1)
    if exponent == 0:
        value = math.ldexp(fraction, 1 - bias - mantissa)
    else:
        value = math.ldexp((1 << mantissa) + fraction, exponent - bias - mantissa)
    return -value if code >> (width - 1) else value


def lanes(word, packed):
    """The four values of a packed element."""
    width = 4 if packed.startswith("float4") else 8
    return [decoded(word >> (width * lane) & ((1 << width) - 1), packed) for lane in range(4)]


def nc_matmul_mx():
    """Products of packed elements times powers of two, one for 8 partitions and 4 lanes."""
    source = random.Random(6)
    for left, right in itertools.product(FORMATS, FORMATS):

        def words(packed, columns):
            limit, kind = (
                (1 << 16, np.uint16) if packed.startswith("float4") else (1 << 32, np.uint32)
            )
            mask = 0x7777 if packed.startswith("float4") else 0x3B3B3B3B
            return np.array([[source.randrange(limit) & mask for _ in range(columns)]
                             for _ in range(32)], kind)  # fmt: skip

        a, b = words(left, 4), words(right, 3)
        sa = [[source.randrange(120, 134) for _ in range(4)] for _ in range(4)]
        sb = [[source.randrange(120, 134) for _ in range(3)] for _ in range(4)]

        def value(data, scale, packed, row, column, lane):
            return lanes(int(data[row, column]), packed)[lane] * 2.0 ** (
                scale[row // 8][column] - 127
            )

        expected = [math.fsum(value(a, sa, left, k, m, lane) * value(b, sb, right, k, n, lane)
                          for k in range(32) for lane in range(4))
                for m in range(4) for n in range(3)]  # fmt: skip
        yield Case("nc_matmul_mx", "trn3", {"stationary": (a, left), "moving": (b, right),
                   "stationary_scale": (sa, "uint8"), "moving_scale": (sb, "uint8")},
                   {"dst": ((4, 3), "float32", "psum")}, {"dst": expected}, close=3e-5,
                   layouts=("whole",))  # fmt: skip


def quantize_mx():
    """The scale rule of the stub, and the elements rounded to the packed format."""
    for packed, dtype in itertools.product(list(FORMATS)[:2], ("bfloat16", "float16")):
        data = values(dtype, 32 * 8, 161, False)
        data[:8] = [0.0] * 8
        table = rows(data, 8)
        exponent_bits, mantissa, largest, top = FORMATS[packed]
        name = packed.removesuffix("_x4")
        words, scales = [[0, 0] for _ in range(32)], [[0, 0] for _ in range(4)]
        for group, block in itertools.product(range(4), range(2)):
            members = [(row, 4 * block + lane) for row in range(8 * group, 8 * group + 8)
                       for lane in range(4)]  # fmt: skip
            peak = max(abs(table[r][c]) for r, c in members)
            power = math.frexp(peak)[1] - 1 - (top - 1) if peak else -127
            scales[group][block] = power + 127
            for row, column in members:
                scaled = table[row][column] / 2.0**power
                small = rounded(max(-largest, min(largest, scaled)), name)
                width = 1 + exponent_bits + mantissa
                code = next(c for c in range(1 << width) if decoded(c, packed) == small and
                            math.copysign(1, decoded(c, packed)) == math.copysign(1, small))  # fmt: skip
                words[row][block] |= code << (8 * (column % 4))
        yield Case("quantize_mx", "trn3", {"src": (table, dtype)},
                   {"dst": ((32, 2), packed), "dst_scale": ((4, 2), "uint8")},
                   {"dst": words, "dst_scale": scales}, layouts=("whole",))  # fmt: skip


def dma_compute():
    """A sum of several sources."""
    for out in ("float32", "bfloat16", "int16"):
        sources = [values("float32", 10, 171 + i, False) for i in range(3)]
        expected = [rounded(f32(f32(a + b) + c), out) for a, b, c in zip(*sources, strict=True)]
        reads = {f"s{i}": (rows(data, 5), "float32") for i, data in enumerate(sources)}
        yield Case("dma_compute", next(TARGETS), reads, {"dst": ((2, 5), out)}, {"dst": expected},
                   {"reduce_op": nl.add, "scales": [1.0, 1.0, 1.0], "gathered": "srcs"})  # fmt: skip


CASES = [dma_compute, dma_copy, dma_transpose, nc_matmul, nc_matmul_mx, nc_stream_shuffle,
         nc_transpose, quantize_mx, tensor_copy, tensor_copy_predicated]  # fmt: skip
