"""Reductions, running results, statistics and selections, step by step."""

import itertools
import math

import nki_lang.isa as nisa
import nki_lang.language as nl
from tests.oracles.elementwise import TARGETS, op_of, rows, values
from tests.oracles.machine import Case
from tests.oracles.scalars import BINARY, bits, f32, rounded

LOWEST = -(2.0**128 - 2.0**104)
START = {"add": 0.0, "subtract": 0.0, "multiply": 1.0, "maximum": -math.inf, "minimum": math.inf,
         "logical_and": 1.0, "logical_or": 0.0, "logical_xor": 0.0}  # fmt: skip


def folded(name, numbers):
    """One after the other, from the identity, rounded to float32 at each step."""
    total = START[name]
    for x in numbers:
        total = f32(BINARY[name](total, x))
    return total


def tensor_reduce():
    """The last one, two or three free dimensions, negated or not, and bits."""
    for name, dtype in itertools.product(START, ("float32", "bfloat16", "int16", "float8_e5m2")):
        data = values(dtype, 2 * 3 * 4, 201, False)
        if name == "multiply":
            data = [rounded(x / 50, dtype) or rounded(1.5, dtype) for x in data]
        for axis, size in (((2,), 4), ((1, 2), 12), (-1, 4)):
            groups = rows(data, size)
            expected = [-folded(name, group) for group in groups]
            yield Case("tensor_reduce", next(TARGETS), {"data": ([rows(data[:12], 4), rows(data[12:], 4)],
                       dtype)}, {"dst": ((2, 12 // size), "float32")}, {"dst": expected},
                       {"op": op_of(name), "axis": axis, "negate": True}, close=1e-5,
                       note=f"{name} {axis}")  # fmt: skip
    for name, dtype in itertools.product(("bitwise_and", "bitwise_or", "bitwise_xor"),
                                         ("uint8", "int32", "uint16")):  # fmt: skip
        data = values(dtype, 12, 202)
        expected = []
        for group in rows(data, 6):
            total = group[0]
            for x in group[1:]:
                total = bits(name, total, x, dtype)
            expected.append(total)
        yield Case("tensor_reduce", next(TARGETS), {"data": (rows(data, 6), dtype, "psum")},
                   {"dst": ((2, 1), dtype)}, {"dst": expected}, {"op": op_of(name), "axis": 1},
                   note=name)  # fmt: skip
    edge = [
        [math.nan, 1.0, 2.0],
        [math.inf, -math.inf, 1.0],
        [math.inf, 1.0, 2.0],
        [-0.0, 0.0, 0.0],
    ]
    for name in ("add", "maximum", "minimum"):
        yield Case("tensor_reduce", "trn2", {"data": (edge, "float32")}, {"dst": ((4, 1), "float32")},
                   {"dst": [folded(name, row) for row in edge]}, {"op": op_of(name), "axis": 1},
                   note=f"edges {name}")  # fmt: skip
    numbers = values("float32", 4, 203, False)
    yield Case("tensor_reduce", "trn2", {"data": (rows(numbers, 1), "float32")},
               {"dst": ((4, 1), "float32")}, {"dst": numbers}, {"op": nl.add, "axis": 1},
               note="one element")  # fmt: skip
    big = [float(x % 7 - 3) for x in range(128 * 512)]
    yield Case("tensor_reduce", "trn2", {"data": (rows(big, 512), "float32")},
               {"dst": ((128, 1), "float32")}, {"dst": [sum(row) for row in rows(big, 512)]},
               {"op": nl.add, "axis": 1}, layouts=("whole",), note="largest tile")  # fmt: skip


def tensor_partition_reduce():
    """Across the partitions."""
    for name, function in (("add", sum), ("maximum", max), ("average", lambda c: sum(c) / len(c))):
        data = values("float32", 20, 211, False)
        expected = [function([data[row * 4 + column] for row in range(5)]) for column in range(4)]
        yield Case("tensor_partition_reduce", next(TARGETS), {"data": (rows(data, 4), "float32")},
                   {"dst": ((1, 4), "float32")}, {"dst": expected}, {"op": op_of(name)}, close=1e-5,
                   note=name)  # fmt: skip
    for name in ("bitwise_and", "bitwise_or"):
        data = values("int32", 12, 212)
        expected = []
        for column in range(4):
            total = data[column]
            for row in (1, 2):
                total = bits(name, total, data[row * 4 + column], "int32")
            expected.append(total)
        yield Case("tensor_partition_reduce", next(TARGETS), {"data": (rows(data, 4), "int32")},
                   {"dst": ((1, 4), "int32")}, {"dst": expected}, {"op": op_of(name)}, note=name)  # fmt: skip


def tensor_scalar_cumulative():
    """reg = op1(op0(x, imm0), reg), as the stub's loop has it."""
    for first, second in (("add", "add"), ("multiply", "subtract"), ("maximum", "multiply"),
                          ("subtract", "maximum"), ("multiply", "minimum")):  # fmt: skip
        for command in ("reset_reduce", "load_reduce"):
            data = [x / 20 for x in values("bfloat16", 20, 221, False)]
            data = [rounded(x, "bfloat16") for x in data]
            expected = []
            for row in rows(data, 10):
                state = START[second] if command == "reset_reduce" else 0.5
                for x in row:
                    state = f32(BINARY[second](f32(BINARY[first](x, 0.75)), state))
                    expected.append(state)
            yield Case("tensor_scalar_cumulative", next(TARGETS), {"src": (rows(data, 10), "bfloat16")},
                       {"dst": ((2, 10), "float32")}, {"dst": expected},
                       {"op0": op_of(first), "op1": op_of(second), "imm0": 0.75,
                        "imm1": 0.5 if command == "load_reduce" else None,
                        "reduce_cmd": nisa.reduce_cmd[command]}, note=f"{second} {command}")  # fmt: skip


def tensor_scalar_reduce():
    """A tile and the reduction of it, begun anew or from a loaded value, negated or not."""
    for name, reduce, command in itertools.product(
        ("add", "multiply", "maximum", "less"), ("add", "multiply", "maximum", "minimum"),
        ("reset_reduce", "load_reduce"),
    ):  # fmt: skip
        data = values("float16", 16, 231, False)
        expected = [f32(BINARY[name](x, 1.5)) for x in data]
        totals = []
        for row in rows(expected, 8):
            total = START[reduce] if command == "reset_reduce" else 2.0
            for x in row:
                total = BINARY[reduce](total, x)
            totals.append(-total)
        init = 2.0 if command == "load_reduce" else None
        yield Case("tensor_scalar_reduce", next(TARGETS), {"data": (rows(data, 8), "float16")},
                   {"dst": ((2, 8), "float32"), "reduce_res": ((2, 1), "float32")},
                   {"dst": expected, "reduce_res": totals},
                   {"op0": op_of(name), "operand0": 1.5, "reduce_op": op_of(reduce),
                    "reduce_cmd": nisa.reduce_cmd[command], "reduce_init": init,
                    "reduce_res_negate": True}, close=1e-5, note=f"{name} {reduce} {command}")  # fmt: skip


def range_select():
    """Columns between two bounds, the lowest float32 elsewhere, and the maximum."""
    for low, high in (("greater_equal", "less"), ("greater", "less_equal"), ("equal", "less")):
        data = values("bfloat16", 30, 241, False)
        bounds = [(2.0, 7.0), (5.0, 5.0), (11.0, 20.0)]
        expected, tops = [], []
        for row, (first, last) in zip(rows(data, 10), bounds, strict=True):
            line = [x if BINARY[low](column + 3.0, first) and BINARY[high](column + 3.0, last) else LOWEST
                    for column, x in enumerate(row)]  # fmt: skip
            expected += line
            tops.append(max(line))
        yield Case("range_select", "trn2", {"on_true_tile": (rows(data, 10), "bfloat16"),
                   "bound0": ([[b[0]] for b in bounds], "float32"),
                   "bound1": ([[b[1]] for b in bounds], "float32")},
                   {"dst": ((3, 10), "float32"), "reduce_res": ((3, 1), "float32")},
                   {"dst": expected, "reduce_res": tops}, {"comp_op0": op_of(low),
                    "comp_op1": op_of(high), "range_start": 3}, note=low)  # fmt: skip


def select_reduce():
    """One of two by a predicate, and the maximum."""
    for mask, reverse in itertools.product(("uint8", "int8", "int16", "uint16"), (False, True)):
        data, chosen = values("float16", 16, 251, False), [0, 1, 5, 0, 1, 0, 0, 1] * 2
        expected = [x if bool(c) != reverse else 0.5 for x, c in zip(data, chosen, strict=True)]
        yield Case("select_reduce", next(TARGETS), {"on_true": (rows(data, 8), "float16"),
                   "predicate": (rows(chosen, 8), mask, "psum")},
                   {"dst": ((2, 8), "float32"), "reduce_res": ((2, 1), "float32")},
                   {"dst": expected, "reduce_res": [max(expected[:8]), max(expected[8:])]},
                   {"on_false": 0.5, "reverse_pred": reverse,
                    "reduce_cmd": nisa.reduce_cmd.reset_reduce})  # fmt: skip


def bn_stats():
    """Count, mean and variance times count of the even and of the odd elements."""
    for width in (1, 2, 9, 512):
        data = values("float32", 2 * width, 261, False)
        expected = []
        for row in rows(data, width):
            for half in (row[0::2], row[1::2]):
                mean = math.fsum(half) / len(half) if half else 0.0
                expected += [float(len(half)), mean, math.fsum((x - mean) ** 2 for x in half)]
        yield Case("bn_stats", next(TARGETS), {"data": (rows(data, width), "float32")},
                   {"dst": ((2, 6), "float32")}, {"dst": expected}, close=1e-4, note=str(width))  # fmt: skip


def bn_aggr():
    """Mean and variance of all elements from the statistics of parts."""
    parts = [[1.0, 2.0, 4.0, 8.0], [-3.0, 5.0], [0.5], [10.0, 11.0, 12.0]]
    triples, everything = [], []
    for piece in parts:
        mean = sum(piece) / len(piece)
        triples += [float(len(piece)), mean, sum((x - mean) ** 2 for x in piece)]
        everything += piece
    mean = sum(everything) / len(everything)
    variance = sum((x - mean) ** 2 for x in everything) / len(everything)
    for dtype in ("float32", "bfloat16"):
        yield Case("bn_aggr", next(TARGETS), {"data": ([triples, triples], "float32")},
                   {"dst": ((2, 2), dtype)}, {"dst": [mean, variance] * 2},
                   close=1e-6 if dtype == "float32" else 8e-3)  # fmt: skip


CASES = [bn_aggr, bn_stats, range_select, select_reduce, tensor_partition_reduce, tensor_reduce,
         tensor_scalar_cumulative, tensor_scalar_reduce]  # fmt: skip
