"""Instructions that make, find and gather by position."""

import itertools
import random

import nki_lang.isa as nisa
import nki_lang.language as nl
from tests.oracles.elementwise import TARGETS, op_of, rows, values
from tests.oracles.machine import Case
from tests.oracles.scalars import BINARY, rounded

PATTERNS = [
    [[1, 8]],
    [[-2, 2], [3, 4]],
    [[0, 2], [5, 2], [1, 2]],
    [[7, 1], [100, 2], [-1, 2], [3, 2]],
]


def ramp(partitions, pattern, offset, multiplier):
    """The stub's nested loops."""
    numbers = []
    for channel in range(partitions):
        for location in itertools.product(*(range(count) for _, count in pattern)):
            steps = sum(index * step for index, (step, _) in zip(location, pattern, strict=True))
            numbers.append(offset + channel * multiplier + steps)
    return numbers


def iota():
    """Integers from a pattern, in any dtype."""
    for pattern, dtype in itertools.product(PATTERNS, ("int32", "float32", "uint8", "bfloat16")):
        expected = [rounded(float(x), dtype) for x in ramp(3, pattern, 5, 10)]
        yield Case("iota", next(TARGETS), {}, {"dst": ((3, 8), dtype)}, {"dst": expected},
                   {"pattern": pattern, "offset": 5, "channel_multiplier": 10})  # fmt: skip


def affine_select():
    """A tile where the affine value compares with zero, a number elsewhere."""
    for name, dtype in itertools.product(
        ("equal", "less", "greater_equal", "not_equal", "greater", "less_equal"),
        ("float32", "int16"),
    ):
        data = values(dtype, 24, 301)
        positions = ramp(3, [[1, 2], [-2, 4]], -3, 2)
        expected = [x if BINARY[name](p, 0) else 7 for x, p in zip(data, positions, strict=True)]
        yield Case("affine_select", next(TARGETS), {"on_true_tile": (rows(data, 8), dtype)},
                   {"dst": ((3, 8), dtype)}, {"dst": expected},
                   {"pattern": [[1, 2], [-2, 4]], "channel_multiplier": 2, "offset": -3,
                    "on_false_value": 7.0, "cmp_op": op_of(name)}, note=name)  # fmt: skip


def local_gather():
    """Each 16 partitions by the indices that lie in them, partition first."""
    source = random.Random(7)
    for width, columns in ((1, 2), (4, 1), (2, 3)):
        data = values("float32", 32 * 12, 311, False)
        index = [[source.randrange(12 // width) for _ in range(columns)] for _ in range(32)]
        table = rows(data, 12)
        expected = []
        for row in range(32):
            group = row // 16 * 16
            order = [index[group + lane][column] for column in range(columns) for lane in range(16)]
            for start in order:
                expected += table[row][start : start + width]
        yield Case("local_gather", next(TARGETS), {"src_buffer": (table, "float32"),
                   "index": (index, "uint16")},
                   {"dst": ((32, 16 * columns * width), "float32")}, {"dst": expected},
                   {"num_elem_per_idx": width}, note=f"{width} {columns}")  # fmt: skip


def nc_n_gather():
    """Each partition from its own flattened elements."""
    source = random.Random(8)
    for dtype in ("float32", "uint8", "bfloat16"):
        data = values(dtype, 40, 321)
        index = [[source.randrange(10) for _ in range(15)] for _ in range(4)]
        expected = [data[row * 10 + location] for row in range(4) for location in index[row]]
        yield Case("nc_n_gather", next(TARGETS), {"data": (rows(data, 10), dtype),
                   "indices": (index, "uint32")}, {"dst": ((4, 15), dtype)}, {"dst": expected})  # fmt: skip


def max8():
    """The eight largest, falling."""
    for width in (8, 11, 300):
        data = values("float32", 2 * width, 331, False)
        expected = [x for row in rows(data, width) for x in sorted(row, reverse=True)[:8]]
        yield Case("max8", next(TARGETS), {"src": (rows(data, width), "float32")},
                   {"dst": ((2, 8), "float32")}, {"dst": expected}, note=str(width))  # fmt: skip


DATA = [
    [3.0, 8.0, 1.0, 8.0, 5.0, 8.0, 2.0, 9.0, 7.0, 4.0],
    [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 0.0, 6.0],
]
VALS = [[8.0, 8.0, 3.0, 100.0, 8.0, 8.0, 9.0, 2.0], [1.0, 1.0, 1.0, 4.0, 2.0, 0.0, 5.0, 6.0]]


def found_places(order):
    """Position of each value; equal values take one occurrence each, in ``order``."""
    positions = []
    for data, expected in zip(DATA, VALS, strict=True):
        free, line = {x: [i for i, y in enumerate(data) if y == x] for x in expected}, [None] * 8
        for column in order:
            queue = free[expected[column]]
            line[column] = queue.pop(0) if queue else None
        positions.append(line)
    return positions


def nc_find_index8():
    """Occurrences in rising order; all ones for what is not there."""
    for dtype, missing in (("uint32", 2**32 - 1), ("uint16", 2**16 - 1)):
        expected = [missing if p is None else p for line in found_places(range(8)) for p in line]
        yield Case("nc_find_index8", next(TARGETS), {"data": (DATA, "float32"), "vals": (VALS, "float32")},
                   {"dst": ((2, 8), dtype)}, {"dst": expected})  # fmt: skip


def nc_match_replace8():
    """One occurrence of each value replaced, from the last column on."""
    positions = found_places(range(7, -1, -1))
    expected = [[-5.0 if i in line else x for i, x in enumerate(row)]
            for row, line in zip(DATA, positions, strict=True)]  # fmt: skip
    index = [2**32 - 1 if p is None else p for line in positions for p in line]
    yield Case("nc_match_replace8", next(TARGETS), {"data": (DATA, "float32"), "vals": (VALS, "float32")},
               {"dst": ((2, 10), "float32"), "dst_idx": ((2, 8), "uint32")},
               {"dst": expected, "dst_idx": index}, {"imm": -5.0})  # fmt: skip
    stub = ([[1.0, 2.0, 3.0, 4.0, *[8.0] * 7]], [[3.0, *[8.0] * 7]])
    yield Case("nc_match_replace8", "trn2", {"data": (stub[0], "float32"), "vals": (stub[1], "float32")},
               {"dst": ((1, 11), "float32"), "dst_idx": ((1, 8), "uint32")},
               {"dst": [1.0, 2.0, 0.0, 4.0, *[0.0] * 7], "dst_idx": [2, 10, 9, 8, 7, 6, 5, 4]},
               {"imm": 0.0}, note="of the stub")  # fmt: skip


def nonzero_with_count():
    """Where every sixteenth partition is not zero, padding, and how many."""
    for dtype in ("float32", "int32"):
        data = [[(row * 7 + column * 3) % 4 % 3 for column in range(8)] for row in range(32)]
        expected = []
        for row, line in enumerate(data):
            if row % 16:
                expected += [-9] * 9
                continue
            hits = [column + 16 for column, x in enumerate(line) if x]
            expected += [*hits, *[-1] * (8 - len(hits)), len(hits)]
        yield Case("nonzero_with_count", "trn2", {"src": (data, dtype)}, {"dst": ((32, 9), "int32")},
                   {"dst": expected}, {"index_offset": 16, "padding_val": -1},
                   {"dst": [-9] * (32 * 9)})  # fmt: skip


def topk():
    """The largest of a snake over 16 partitions, rising; every partition gets them."""
    numbers = random.Random(9).sample(range(-120, 121), 42)
    snake = [[float(numbers[column * 16 + lane]) if column * 16 + lane < 42 else 0.0
              for column in range(3)] for lane in range(16)]  # fmt: skip
    for count in (1, 8, 42):
        best = sorted(range(42), key=lambda i: numbers[i])[-count:]
        yield Case("topk", next(TARGETS), {"src": (snake, "bfloat16")},
                   {"val_dst": ((16, count), "bfloat16"), "idx_dst": ((16, count), "uint32")},
                   {"val_dst": [float(numbers[i]) for i in best] * 16, "idx_dst": best * 16},
                   {"n": 42}, note=str(count))  # fmt: skip


def sequence_bounds():
    """Where each segment begins and ends; padding gets n and -1."""
    for dtype in ("float32", "int32"):
        ids = [0, 0, 1, 1, 1, 4, 2, 2, 0, 3]
        first, last = [], []
        for position, name in enumerate(ids):
            begin = end = position
            while begin and ids[begin - 1] == name:
                begin -= 1
            while end < len(ids) and ids[end] == name:
                end += 1
            first.append(len(ids) if name == 0 else begin)
            last.append(-1 if name == 0 else end)
        yield Case("sequence_bounds", next(TARGETS), {"segment_ids": ([ids], dtype)},
                   {"dst": ((1, 2, 10), dtype)}, {"dst": first + last})  # fmt: skip


def xorwow(state, count):
    """Marsaglia's generator, one lane, in Python's integers."""
    mask = 2**32 - 1
    x, y, z, w, v, d = state
    numbers = []
    for _ in range(count):
        t = x ^ (x >> 2)
        x, y, z, w = y, z, w, v
        v = (v ^ (v << 4) ^ t ^ (t << 1)) & mask
        d = (d + 362437) & mask
        numbers.append((d + v) & mask)
    return numbers, [x, y, z, w, v, d]


def _seeds(words):
    source = random.Random(10)
    return [[source.randrange(1, 2**32) for _ in range(words)] for _ in range(4)]


def _set(seeds, engine):
    """A step that seeds the generators of an engine from constants."""

    def step():
        tile = nl.ndarray((len(seeds), len(seeds[0])), nl.uint32, nl.sbuf)
        for row, line in enumerate(seeds):
            line_tile = nl.ndarray((1, len(line)), nl.uint32, nl.sbuf)
            for column, word in enumerate(line):
                nisa.memset(line_tile[:, column : column + 1], word)
            nisa.dma_copy(tile[row : row + 1], line_tile)
        nisa.rand_set_state(tile, engine=engine)

    return step


def rng():
    """XORWOW from a given state on GpSimd; narrow types keep the low bits."""
    seeds = _seeds(6)
    for dtype, width in (("uint32", 32), ("uint16", 16), ("int8", 8)):
        expected = []
        for line in seeds:
            for word in xorwow(line, 7)[0]:
                low = word % (1 << width)
                expected.append(low - (1 << width) if dtype == "int8" and low > 127 else low)
        yield Case("rng", "trn2", {}, {"dst": ((4, 7), dtype)}, {"dst": expected},
                   {"engine": nisa.engine.gpsimd}, before=_set(seeds, nisa.engine.gpsimd))  # fmt: skip


def rand_get_state():
    """The state that was set, and the one after some numbers were drawn."""
    seeds = _seeds(6)

    def draw():
        _set(seeds, nisa.engine.gpsimd)()
        nisa.rng(nl.ndarray((4, 5), nl.uint32, nl.sbuf), engine=nisa.engine.gpsimd)

    for count, before in ((0, _set(seeds, nisa.engine.gpsimd)), (5, draw)):
        expected = [word for line in seeds for word in xorwow(line, count)[1]]
        yield Case("rand_get_state", "trn3", {}, {"dst": ((4, 6), "uint32")}, {"dst": expected},
                   {"engine": nisa.engine.gpsimd}, before=before, note=str(count))  # fmt: skip


def rand2():
    """Uniform numbers from four generators of a lane that take turns."""
    seeds = _seeds(24)
    expected = []
    for line in seeds:
        streams = [xorwow(line[6 * g : 6 * g + 6], 2)[0] for g in range(4)]
        for position in range(6):
            expected.append(-1.0 + 3.0 * (streams[position % 4][position // 4] >> 8) / 2**24)
    yield Case("rand2", "trn3", {}, {"dst": ((4, 6), "float32")}, {"dst": expected},
               {"min": -1.0, "max": 2.0}, before=_set(seeds, nisa.engine.vector), close=1e-6)  # fmt: skip


def dropout():
    """Nothing is dropped with probability 0, all with 1; by XORWOW in between."""
    seeds, data = _seeds(24), values("float32", 24, 341, False)
    for chance in (0.0, 0.4, 1.0):
        expected = []
        for row, line in enumerate(seeds):
            streams = [xorwow(line[6 * g : 6 * g + 6], 2)[0] for g in range(4)]
            for position in range(6):
                is_kept = (streams[position % 4][position // 4] >> 8) / 2**24 >= chance
                expected.append(data[row * 6 + position] if is_kept else 0.0)
        yield Case("dropout", "trn3", {"data": (rows(data, 6), "float32")}, {"dst": ((4, 6), "float32")},
                   {"dst": expected}, {"prob": chance}, before=_set(seeds, nisa.engine.vector),
                   note=str(chance))  # fmt: skip


CASES = [affine_select, dropout, iota, local_gather, max8, nc_find_index8, nc_match_replace8,
         nc_n_gather, nonzero_with_count, rand2, rand_get_state, rng, sequence_bounds, topk]  # fmt: skip
