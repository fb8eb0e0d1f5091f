"""The engines' arithmetic one number at a time, in Python's floats: no NumPy, no ml_dtypes.

Python's floats have 53 bits of mantissa, more than twice those of float32 plus two, so a sum,
product or quotient of float32 numbers that is rounded to float32 afterwards is the correctly
rounded one.
"""

import math
import struct

# name -> (exponent bits, mantissa bits, largest finite, what becomes of larger ones)
FLOATS = {
    "float32": (8, 23, 2.0**128 - 2.0**104, math.inf),
    "tfloat32": (8, 10, 2.0**128 - 2.0**117, math.inf),
    "bfloat16": (8, 7, 2.0**128 - 2.0**120, math.inf),
    "float16": (5, 10, 65504.0, math.inf),
    "float8_e4m3": (4, 3, 240.0, math.inf),
    "float8_e5m2": (5, 2, 57344.0, math.inf),
    "float8_e4m3fn": (4, 3, 448.0, math.nan),
}
INTS = {
    "int8": (-128, 127), "int16": (-(2**15), 2**15 - 1), "int32": (-(2**31), 2**31 - 1),
    "uint8": (0, 255), "uint16": (0, 2**16 - 1), "uint32": (0, 2**32 - 1),
}  # fmt: skip


def rounded(x, name):
    """``x`` as an element of the dtype: to nearest even, integers saturate, NaN becomes 0 there."""
    if name in INTS:
        low, high = INTS[name]
        if math.isnan(x):
            return 0
        return low if x <= low else high if x >= high else round(x)
    exponent_bits, mantissa, largest, beyond = FLOATS[name]
    if math.isnan(x):
        return math.nan
    if math.isinf(x):
        return math.nan if math.isnan(beyond) else x
    magnitude = abs(x)
    lowest = 2 - 2 ** (exponent_bits - 1)
    exponent = max(math.frexp(magnitude)[1] - 1, lowest)
    unit = math.ldexp(1.0, exponent - mantissa)
    value = round(magnitude / unit) * unit  # Python rounds halves to even
    return math.copysign(beyond if value > largest else value, x)


def f32(x):
    """``x`` as float32."""
    try:
        return struct.unpack("f", struct.pack("f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


def divided(a, b):
    """``a / b`` as IEEE 754 has it."""
    if b == 0:
        if a == 0 or math.isnan(a) or math.isnan(b):
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1, b)
    if math.isinf(a) and math.isinf(b):
        return math.nan
    return a / b


def times(a, b):
    """``a * b`` where 0 * inf is NaN."""
    return a * b


def larger(a, b):
    """The maximum, NaN when one is."""
    if math.isnan(a) or math.isnan(b):
        return math.nan
    return a if a > b else b


def smaller(a, b):
    """The minimum, NaN when one is."""
    if math.isnan(a) or math.isnan(b):
        return math.nan
    return a if a < b else b


def flag(test):
    """A comparison that gives 1 or 0."""
    return lambda a, b: 1.0 if test(a, b) else 0.0


BINARY = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": times,
    "divide": divided,
    "maximum": larger,
    "minimum": smaller,
    "equal": flag(lambda a, b: a == b),
    "not_equal": flag(lambda a, b: a != b),
    "less": flag(lambda a, b: a < b),
    "less_equal": flag(lambda a, b: a <= b),
    "greater": flag(lambda a, b: a > b),
    "greater_equal": flag(lambda a, b: a >= b),
    "logical_and": flag(lambda a, b: a != 0 and b != 0),
    "logical_or": flag(lambda a, b: a != 0 or b != 0),
    "logical_xor": flag(lambda a, b: (a != 0) != (b != 0)),
    "abs_max": lambda a, b: a if abs(a) > abs(b) else b,
    "abs_min": lambda a, b: a if abs(a) < abs(b) else b,
}
"""On float32 numbers; what they give is rounded to float32."""

BITS = {
    "bitwise_and": lambda a, b, width: a & b,
    "bitwise_or": lambda a, b, width: a | b,
    "bitwise_xor": lambda a, b, width: a ^ b,
    "left_shift": lambda a, b, width: a << b if b < width else 0,
    "right_shift": lambda a, b, width: a >> b if b < width else 0,
}
"""On bit patterns of ``width`` bits."""


def bits(op, a, b, name):
    """A bit operator on two integers of a dtype."""
    low, high = INTS[name]
    width = (high - low + 1).bit_length() - 1
    mask = (1 << width) - 1
    result = BITS[op](a & mask, b & mask, width) & mask
    return result - (1 << width) if low < 0 and result > high else result


def erf_dx(x):
    """Derivative of the error function."""
    return 2 / math.sqrt(math.pi) * math.exp(-x * x)


def sigmoid(x):
    """The logistic function, without overflow."""
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def normal(x):
    """Distribution function of the normal distribution."""
    return 0.5 * math.erfc(-x / math.sqrt(2))


def softplus(x):
    """log(1 + exp(x))."""
    return max(x, 0) + math.log1p(math.exp(-abs(x)))


def gelu_tanh(x):
    """The approximation of gelu by tanh."""
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def difference(function):
    """The derivative, by central differences of a smooth function in double precision."""
    return lambda x: (function(x + 1e-5) - function(x - 1e-5)) / 2e-5


ACTIVATIONS = {
    "copy": lambda x: x,
    "square": lambda x: x * x,
    "sigmoid": sigmoid,
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: x * normal(x),
    "gelu_dx": difference(lambda x: x * normal(x)),
    "gelu_apprx_tanh": gelu_tanh,
    "gelu_apprx_sigmoid": lambda x: x * sigmoid(1.702 * x),
    "gelu_apprx_sigmoid_dx": difference(lambda x: x * sigmoid(1.702 * x)),
    "silu": lambda x: x * sigmoid(x),
    "silu_dx": difference(lambda x: x * sigmoid(x)),
    "tanh": math.tanh,
    "softplus": softplus,
    "mish": lambda x: x * math.tanh(softplus(x)),
    "erf": math.erf,
    "erf_dx": erf_dx,
    "exp": math.exp,
    "log": math.log,
    "sin": math.sin,
    "arctan": math.atan,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "reciprocal": lambda x: divided(1.0, x),
    "sign": lambda x: math.copysign(1.0, x) if x else 0.0,
    "abs": abs,
}
POSITIVE = frozenset({"log", "sqrt", "rsqrt", "reciprocal"})
"""Those whose arguments are taken positive."""
