"""Element by element: every operator, dtype, engine and target of the element-wise instructions."""

import itertools
import math
import random

import nki_lang.isa as nisa
import nki_lang.language as nl
from tests.oracles.machine import EDGES, Case
from tests.oracles.scalars import (
    ACTIVATIONS,
    BINARY,
    BITS,
    INTS,
    POSITIVE,
    bits,
    f32,
    rounded,
)

TYPES = ["float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2", "float8_e4m3fn",
         "tfloat32", "int8", "uint8", "int16", "uint16", "int32", "uint32"]  # fmt: skip
TARGETS = itertools.cycle(["trn1", "trn2", "trn3"])
TRN3 = frozenset({"abs_max", "abs_min"})


def values(dtype, count, seed, edges=True):
    """Numbers of a dtype: random ones, and the edges that it has."""
    source = random.Random(seed)
    if dtype in INTS:
        low, high = INTS[dtype]
        ends = [low, high, 0, 1]
        return (ends + [source.randint(low, high) for _ in range(count)])[:count]
    scale = 4.0 if "8" in dtype[:7] else 100.0
    numbers = [source.uniform(-scale, scale) for _ in range(count)]
    mixed = EDGES + numbers if edges else numbers
    return [rounded(f32(x), dtype) for x in mixed[:count]]


def rows(flat, width):
    """A list of rows."""
    return [flat[start : start + width] for start in range(0, len(flat), width)]


def op_of(name):
    """The operator of the language."""
    return getattr(nl, name)


def tensor_tensor():
    """All operators in float32, and addition and comparison between all dtypes."""
    for name, function in BINARY.items():
        target = "trn3" if name in TRN3 else next(TARGETS)
        a, b = values("float32", 40, 1), list(reversed(values("float32", 40, 2)))
        expected = [f32(function(x, y)) for x, y in zip(a, b, strict=True)]
        if name.startswith("abs_"):  # which operand NaN chooses is not documented
            expected = [None if math.isnan(x) or math.isnan(y) else w
                    for x, y, w in zip(a, b, expected, strict=True)]  # fmt: skip
        yield Case("tensor_tensor", target, {"data1": (rows(a, 10), "float32"),
                   "data2": (rows(b, 10), "float32")}, {"dst": ((4, 10), "float32")},
                   {"dst": expected}, {"op": op_of(name)}, note=name)  # fmt: skip
    for left, right, out in zip(TYPES, TYPES[5:] + TYPES[:5], TYPES[9:] + TYPES[:9], strict=True):
        a, b = values(left, 24, 3), values(right, 24, 4)
        expected = [rounded(f32(f32(x) + f32(y)), out) for x, y in zip(a, b, strict=True)]
        yield Case("tensor_tensor", next(TARGETS), {"data1": (rows(a, 8), left),
                   "data2": (rows(b, 8), right, "psum")}, {"dst": ((3, 8), out)},
                   {"dst": expected}, {"op": nl.add, "engine": nisa.engine.vector})  # fmt: skip
    for name, dtype in itertools.product(BITS, INTS):
        a, b = values(dtype, 12, 5), values(dtype, 12, 6)
        if "shift" in name:
            b = [abs(y) % 20 for y in b]
        expected = [bits(name, x, y, dtype) for x, y in zip(a, b, strict=True)]
        yield Case("tensor_tensor", next(TARGETS), {"data1": (rows(a, 6), dtype),
                   "data2": (rows(b, 6), dtype)}, {"dst": ((2, 6), dtype)},
                   {"dst": expected}, {"op": op_of(name)}, note=name)  # fmt: skip
    for name, dtype in itertools.product(("add", "subtract", "multiply"), ("int32", "uint32")):
        a, b = values(dtype, 12, 7), values(dtype, 12, 8)
        span, low = 1 << 32, INTS[dtype][0]
        exact = {"add": int.__add__, "subtract": int.__sub__, "multiply": int.__mul__}[name]
        expected = [(exact(x, y) - low) % span + low for x, y in zip(a, b, strict=True)]
        yield Case("tensor_tensor", next(TARGETS), {"data1": (rows(a, 6), dtype),
                   "data2": (rows(b, 6), dtype)}, {"dst": ((2, 6), dtype)},
                   {"dst": expected}, {"op": op_of(name)}, note=f"native {name}")  # fmt: skip
    big = values("float32", 128 * 512, 9)
    yield Case("tensor_tensor", "trn2", {"data1": (rows(big, 512), "float32"),
               "data2": (rows(big, 512), "float32")}, {"dst": ((128, 512), "bfloat16")},
               {"dst": [rounded(f32(x * x), "bfloat16") for x in big]}, {"op": nl.multiply},
               layouts=("whole",), note="largest tile")  # fmt: skip
    power = [0.5, 1.0, 2.0, 3.0, 10.0, 7.5]
    yield Case("tensor_tensor", "trn2", {"data1": ([power], "float32"),
               "data2": ([[2.0, 5.0, -1.0, 0.5, 3.0, 0.0]], "float32")},
               {"dst": ((1, 6), "float32")},
               {"dst": [a**b for a, b in zip(power, [2.0, 5.0, -1.0, 0.5, 3.0, 0.0], strict=True)]},
               {"op": nl.power}, close=1e-6)  # fmt: skip


def tensor_scalar():
    """One and two operators, numbers and vectors, both orders."""
    names = [name for name in BINARY if name not in TRN3]
    for index, name in enumerate(names):
        second = names[(index * 5 + 2) % len(names)]
        data = values("float32", 36, 11)
        vector = [2.5, -1.0, 0.0]
        reverse = index % 2 == 1
        expected = []
        for position, x in enumerate(data):
            y = vector[position // 12]
            first = f32(BINARY[name](*((y, x) if reverse else (x, y))))
            expected.append(f32(BINARY[second](*((first, 3.0) if reverse else (3.0, first)))))
        yield Case("tensor_scalar", next(TARGETS), {"data": (rows(data, 12), "float32"),
                   "operand0": ([[y] for y in vector], "float32")}, {"dst": ((3, 12), "float32")},
                   {"dst": expected}, {"op0": op_of(name), "reverse0": reverse, "op1": op_of(second),
                    "operand1": 3.0, "reverse1": not reverse}, note=f"{name} {second}")  # fmt: skip
    for left, out in zip(TYPES, TYPES[4:] + TYPES[:4], strict=True):
        data = values(left, 20, 12)
        expected = [rounded(f32(f32(f32(x) * 0.75) - 1.25), out) for x in data]
        yield Case("tensor_scalar", next(TARGETS), {"data": (rows(data, 5), left, "psum")},
                   {"dst": ((4, 5), out)}, {"dst": expected},
                   {"op0": nl.multiply, "operand0": 0.75, "op1": nl.subtract, "operand1": 1.25})  # fmt: skip
    for name, dtype in itertools.product(BITS, ("uint8", "int16", "int32")):
        data = values(dtype, 8, 13)
        expected = [bits(name, x, 3, dtype) for x in data]
        yield Case("tensor_scalar", next(TARGETS), {"data": (rows(data, 4), dtype)},
                   {"dst": ((2, 4), dtype)}, {"dst": expected}, {"op0": op_of(name), "operand0": 3},
                   note=name)  # fmt: skip
    unary = {"abs": abs, "rsqrt": lambda x: 1 / math.sqrt(x), "reciprocal": lambda x: 1 / x,
             "square": lambda x: x * x, "relu": lambda x: max(x, 0.0)}  # fmt: skip
    data = [0.25, 1.0, 3.5, 100.0]
    for name, function in unary.items():
        yield Case("tensor_scalar", "trn3", {"data": ([data], "float32")},
                   {"dst": ((1, 4), "float32")}, {"dst": [function(x) for x in data]},
                   {"op0": op_of(name), "operand0": None}, close=1e-6, note=name)  # fmt: skip


def scalar_tensor_tensor():
    """A number or vector, then a tile."""
    for index, (name, second) in enumerate(itertools.pairwise([*BINARY, "add"])):
        data, summand = values("float32", 20, 21), values("float32", 20, 22, edges=False)
        reverse = bool(index % 2)
        if name in TRN3 or second in TRN3:
            continue
        expected = []
        for x, z in zip(data, summand, strict=True):
            first = f32(BINARY[name](*((1.5, x) if reverse else (x, 1.5))))
            expected.append(
                rounded(f32(BINARY[second](*((z, first) if reverse else (first, z)))), "bfloat16")
            )
        yield Case("scalar_tensor_tensor", next(TARGETS), {"data": (rows(data, 10), "float32"),
                   "operand1": (rows(summand, 10), "float32", "psum")},
                   {"dst": ((2, 10), "bfloat16")}, {"dst": expected},
                   {"op0": op_of(name), "operand0": 1.5, "op1": op_of(second),
                    "reverse0": reverse, "reverse1": reverse}, note=f"{name} {second}")  # fmt: skip


def tensor_tensor_scan():
    """The recurrence of the stub, step by step."""
    for name, second, reverse in (("multiply", "add", False), ("add", "maximum", True),
                                  ("subtract", "add", True), ("maximum", "minimum", False)):  # fmt: skip
        left, right = values("float32", 20, 31, False), values("bfloat16", 20, 32, False)
        expected = []
        for row in range(2):
            state = [0.5, -1.0][row]
            for x, y in zip(
                left[row * 10 : row * 10 + 10], right[row * 10 : row * 10 + 10], strict=True
            ):
                first = f32(BINARY[name](*((state, x) if reverse else (x, state))))
                state = f32(BINARY[second](*((y, first) if reverse else (first, y))))
                expected.append(state)
        yield Case("tensor_tensor_scan", next(TARGETS), {"data0": (rows(left, 10), "float32"),
                   "data1": (rows(right, 10), "bfloat16"), "initial": ([[0.5], [-1.0]], "float32")},
                   {"dst": ((2, 10), "float32")}, {"dst": expected}, {"op0": op_of(name),
                   "op1": op_of(second), "reverse0": reverse, "reverse1": reverse},
                   note=f"{name} {second}")  # fmt: skip


def reciprocal():
    """One over each element."""
    for dtype, out in zip(TYPES, TYPES[3:] + TYPES[:3], strict=True):
        data = values(dtype, 24, 41)
        expected = [rounded(f32(ACTIVATIONS["reciprocal"](f32(x))), out) for x in data]
        yield Case("reciprocal", next(TARGETS), {"data": (rows(data, 8), dtype)},
                   {"dst": ((3, 8), out)}, {"dst": expected})  # fmt: skip


def activation():
    """Every function within its valid range, with scale, bias, dtypes and the registers."""
    for name, function in ACTIVATIONS.items():
        source = random.Random(name)
        low, high = (0.05, 30.0) if name in POSITIVE else (-3.0, 3.0)
        if name == "arctan":
            low, high = -0.75, 0.75
        data = [f32(source.uniform(low, high)) for _ in range(30)]
        expected = [function(x) for x in data]
        yield Case("activation", next(TARGETS), {"data": (rows(data, 10), "float32")},
                   {"dst": ((3, 10), "float32")}, {"dst": expected}, {"op": op_of(name)},
                   close=3e-5, note=name)  # fmt: skip
    data = values("bfloat16", 20, 51, False)
    for scale, out in ((0.5, "int16"), (-2.0, "float16"), (1.0, "uint8"), (3.0, "bfloat16")):
        biased = [
            f32(f32(x * scale) + y) for x, y in zip(data, [0.25] * 10 + [-4.0] * 10, strict=True)
        ]
        expected = [rounded(max(x, 0.0), out) for x in biased]
        totals = [f32(sum(max(x, 0.0) for x in biased[start : start + 10])) for start in (0, 10)]
        yield Case("activation", "trn2", {"data": (rows(data, 10), "bfloat16", "psum"),
                   "bias": ([[0.25], [-4.0]], "float32")}, {"dst": ((2, 10), out)}, {"dst": expected},
                   {"op": nl.relu, "scale": scale}, note=f"scale {scale}")  # fmt: skip
        yield Case("activation", "trn2", {"data": (rows(data, 10), "bfloat16"),
                   "bias": ([[0.25], [-4.0]], "float32")},
                   {"dst": ((2, 10), "float32"), "reduce_res": ((2, 1), "float32")},
                   {"reduce_res": totals}, {"op": nl.relu, "scale": scale, "reduce_op": nl.add,
                   "reduce_cmd": nisa.reduce_cmd.reset_reduce}, close=1e-6, note="sum")  # fmt: skip


def activation_reduce():
    """The activation and its sum or maximum."""
    data = values("float32", 24, 61, False)
    for name, function, start in (("add", lambda a, b: a + b, 0.0), ("maximum", max, -math.inf)):
        expected = [f32(x * x) for x in data]
        totals = []
        for row in rows(expected, 12):
            total = start
            for x in row:
                total = function(total, x)
            totals.append(total)
        yield Case("activation_reduce", "trn2", {"data": (rows(data, 12), "float32")},
                   {"dst": ((2, 12), "bfloat16"), "reduce_res": ((2, 1), "float32")},
                   {"dst": [rounded(x, "bfloat16") for x in expected], "reduce_res": totals},
                   {"op": nl.square, "reduce_op": op_of(name)}, close=1e-6, note=name)  # fmt: skip


def activate2():
    """The six pairs of operators, then a function."""
    data = values("float16", 12, 71, False)
    for first, second, reverse in (("multiply", "add", False), ("multiply", "subtract", True),
                                   ("multiply", "bypass", False), ("add", "bypass", False),
                                   ("subtract", "bypass", True), ("bypass", "bypass", False)):  # fmt: skip
        expected = []
        for x in data:
            y = x if first == "bypass" else f32(BINARY[first](*((2.0, x) if reverse else (x, 2.0))))
            if second != "bypass":
                y = f32(BINARY[second](*((0.5, y) if reverse else (y, 0.5))))
            expected.append(y if y >= 0 else f32(y * 0.25))
        low = first != "bypass"
        yield Case("activate2", "trn3", {"data": (rows(data, 6), "float16")},
                   {"dst": ((2, 6), "float32")}, {"dst": expected},
                   {"op": nl.prelu, "imm0": 2.0, "imm1": 0.5, "op0": op_of(first),
                    "op1": op_of(second), "relu_param": 0.25, "reverse0": reverse and low,
                    "reverse1": reverse and second != "bypass"}, note=f"{first} {second}")  # fmt: skip


def exponential():
    """exp of a difference, and the sum of the results."""
    data = values("float32", 20, 81, False)
    top = [max(data[:10]), max(data[10:])]
    expected = [math.exp(x - top[position // 10]) for position, x in enumerate(data)]
    for out in ("float32", "bfloat16", "uint8"):
        exact = [rounded(x, out) for x in expected] if out == "uint8" else expected
        yield Case("exponential", "trn3", {"src": (rows(data, 10), "float32"),
                   "max_value": ([[x] for x in top], "float32"),
                   "reduce_init": ([[1.0], [2.0]], "float32")},
                   {"dst": ((2, 10), out), "reduce_res": ((2, 1), "float32")},
                   {"dst": exact, "reduce_res": [sum(expected[:10]) + 1.0, sum(expected[10:]) + 2.0]},
                   {"reduce_cmd": nisa.reduce_cmd.load_reduce},
                   close=1e-6 if out == "float32" else 8e-3)  # fmt: skip


def memset():
    """A constant in every dtype."""
    for dtype in TYPES:
        for value in (0, 1, -3.7, 300.5, 1e30):
            is_integral = isinstance(value, int)
            yield Case("memset", next(TARGETS), {}, {"dst": ((3, 5), dtype, "sbuf")},
                       {"dst": [rounded(f32(value), dtype)] * 15},
                       {"value": value if is_integral else float(value)}, note=str(value))  # fmt: skip


CASES = [activate2, activation, activation_reduce, exponential, memset, reciprocal,
         scalar_tensor_tensor, tensor_scalar, tensor_tensor, tensor_tensor_scan]  # fmt: skip
