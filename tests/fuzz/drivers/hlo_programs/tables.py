"""Opcodes by what their results may be compared with."""

from __future__ import annotations

__all__ = [
    "EXACT_FLOAT",
    "EXACT_PAIRS",
    "FLOAT_PAIRS",
    "INTEGER_ONES",
    "INTEGER_PAIRS",
    "SMOOTH",
    "SUMMED",
]

SMOOTH = [
    "exponential",
    "log",
    "log-plus-one",
    "exponential-minus-one",
    "sqrt",
    "rsqrt",
    "sine",
    "cosine",
    "tan",
    "tanh",
    "logistic",
    "cbrt",
    "erf",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atanh",
    "cosh",
    "sinh",
]
EXACT_FLOAT = [
    "negate",
    "abs",
    "floor",
    "ceil",
    "sign",
    "round-nearest-afz",
    "round-nearest-even",
    "copy",
    "is-finite",
]
INTEGER_ONES = ["negate", "abs", "not", "sign", "popcnt", "count-leading-zeros", "copy"]
FLOAT_PAIRS = ["add", "subtract", "multiply", "divide", "power", "atan2"]
EXACT_PAIRS = ["maximum", "minimum", "remainder"]
INTEGER_PAIRS = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "remainder",
    "maximum",
    "minimum",
    "and",
    "or",
    "xor",
    "shift-left",
    "shift-right-logical",
    "shift-right-arithmetic",
]
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
"""Types of sums."""
