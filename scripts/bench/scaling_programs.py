"""HLO programs of one opcode and any number of elements, for ``bench_scaling.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isqrt

from scripts.bench.scaling_control import (
    GROUPS,
    asynchronous,
    branches,
    called,
    collective,
    device_number,
    domain,
    loop,
    passing,
    random_bits,
    started,
)
from scripts.bench.scaling_operations import (
    batched_dot,
    bits,
    broadcast,
    chosen,
    clamped,
    complex_numbers,
    concatenated,
    converted,
    convolution,
    dot,
    dynamic_slice,
    dynamic_update,
    factored,
    factored_by_reflections,
    gathered,
    iota,
    large_constant,
    many_factored,
    normalised,
    padded,
    reduced,
    reshaped,
    resized,
    reverse,
    rounded,
    row_convolution,
    scattered,
    selected_and_scattered,
    sliced,
    sort,
    topk,
    transformed,
    transposed,
    windowed,
)
from scripts.bench.scaling_text import (
    Maker,
    Shape,
    binary,
    region,
    unary,
    unusual,
)

__all__ = ["DTYPES", "PROGRAMS", "SHAPES", "Program", "programs_of"]

DTYPES = ("f32", "bf16", "f8e4m3fn", "s32", "u32", "s64", "u64", "s16", "u8", "s4", "pred")

SHAPES: dict[str, Callable[[int], Shape]] = {
    "row": lambda count: (count,),
    "odd": lambda count: (count - 7,),
    "rows": lambda count: (count // 8, 8),
    "square": lambda count: (isqrt(count), isqrt(count)),
    "images": lambda count: (count // 1000, 10, 10, 10),
}


@dataclass(frozen=True, slots=True)
class Program:
    """The text of a module whose main operation has one opcode."""

    opcode: str
    variant: str
    text: str


_UNARY = (
    "abs", "acos", "acosh", "asin", "asinh", "atanh", "cbrt", "ceil", "copy", "cosh", "cosine",
    "count-leading-zeros", "erf", "exp2", "exponential", "exponential-minus-one", "floor", "log",
    "log-plus-one", "log2", "logistic", "negate", "not", "popcnt", "round-nearest-afz",
    "round-nearest-even", "rsqrt", "sign", "sine", "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip
_BINARY = (
    "add", "and", "atan2", "divide", "maximum", "minimum", "mulhi", "multiply", "or", "power",
    "remainder", "shift-left", "shift-right-arithmetic", "shift-right-logical", "subtract", "xor",
)  # fmt: skip
_PAIRS = ", source_target_pairs={{0,1},{1,0}}"
_SUM = GROUPS + ", to_apply=combine"

PROGRAMS: dict[str, dict[str, Maker]] = {
    **{opcode: {"": unary(opcode)} for opcode in _UNARY},
    **{opcode: {"": binary(opcode)} for opcode in _BINARY},
    "add-dependency": {"": passing},
    "after-all": {"": passing},
    "all-gather": {"": collective("all-gather", GROUPS + ", dimensions={0}", (2, 1))},
    "all-gather-done": {"": started("all-gather", GROUPS + ", dimensions={0}", 2)},
    "all-gather-start": {"": started("all-gather", GROUPS + ", dimensions={0}", 2)},
    "all-reduce": {"": collective("all-reduce", _SUM)},
    "all-reduce-done": {"": started("all-reduce", _SUM)},
    "all-reduce-start": {"": started("all-reduce", _SUM)},
    "all-to-all": {"": collective("all-to-all", GROUPS + ", dimensions={0}")},
    "async-done": {"": asynchronous},
    "async-start": {"": asynchronous},
    "async-update": {"": asynchronous},
    "batch-norm-grad": {"": normalised("batch-norm-grad")},
    "batch-norm-inference": {"": normalised("batch-norm-inference")},
    "batch-norm-training": {"": normalised("batch-norm-training")},
    "bitcast-convert": {"": bits},
    "broadcast": {"": broadcast},
    "call": {"": called("call")},
    "cholesky": {"square": factored("cholesky"), "many": many_factored},
    "clamp": {"": clamped},
    "collective-broadcast": {"": collective("collective-broadcast")},
    "collective-permute": {"": collective("collective-permute", _PAIRS)},
    "collective-permute-done": {"": started("collective-permute", _PAIRS)},
    "collective-permute-start": {"": started("collective-permute", _PAIRS)},
    "collective-reduce": {"": collective("collective-reduce", _SUM)},
    "compare": {"": binary("compare", ", direction=LT", "pred")},
    "complex": {"": complex_numbers("complex")},
    "concatenate": {"2": concatenated(2), "100": concatenated(100)},
    "conditional": {"": branches},
    "constant": {"": large_constant},
    "convert": {kind: converted(kind) for kind in ("f32", "s32", "s64", "u8", "bf16", "pred")},
    "convolution": {
        "image": convolution(1, 3),
        "channels": convolution(64, 3),
        "point": convolution(32, 1),
        "row": row_convolution,
    },
    "custom-call": {
        "nearest": resized("ResizeNearest"),
        "bilinear": resized("ResizeBilinear"),
        "factors": factored_by_reflections,
    },
    "domain": {"": domain},
    "dot": {
        "square": dot("square"),
        "vector": dot("vector"),
        "outer": dot("outer"),
        "inner": dot("inner"),
        "batched": batched_dot,
    },
    "dynamic-slice": {"": dynamic_slice},
    "dynamic-update-slice": {"": dynamic_update},
    "fft": {"": transformed},
    "fusion": {"": called("fusion")},
    "gather": {"elements": gathered(1), "rows": gathered(64)},
    "get-tuple-element": {"": passing},
    "imag": {"": complex_numbers("imag")},
    "iota": {"": iota},
    "is-finite": {"": unary("is-finite", result="pred")},
    "opt-barrier": {"": passing},
    "pad": {
        "edges": padded("3_5", 3, 5, 0),
        "holes": padded("0_0_1", 0, 0, 1),
        "cut": padded("-1_-1", -1, -1, 0),
    },
    "parameter": {"": passing},
    "partition-id": {"": device_number("partition-id")},
    "real": {"": complex_numbers("real")},
    "reduce": {
        **{which: reduced(which) for which in ("all", "first", "last")},
        "all maximum": reduced("all", lambda dtype: region(dtype, "maximum")),
        "all unusual": reduced("all", unusual),
        "last unusual": reduced("last", unusual),
        "first unusual": reduced("first", unusual),
    },
    "reduce-precision": {"": rounded},
    "reduce-scatter": {"": collective("reduce-scatter", _SUM + ", dimensions={0}", (1, 2))},
    "reduce-window": {
        "cumulative": windowed("cumulative"),
        "cumulative maximum": windowed("cumulative", "maximum"),
        "cumulative unusual": windowed("cumulative", combine="unusual"),
        "long": windowed("long"),
        "long maximum": windowed("long", "maximum"),
        "short": windowed("short"),
        "short unusual": windowed("short", combine="unusual"),
    },
    "replica-id": {"": device_number("replica-id")},
    "reshape": {"": reshaped},
    "reverse": {"": reverse},
    "rng-bit-generator": {kind: random_bits(kind) for kind in ("rng_three_fry", "rng_philox")},
    "scatter": {
        "elements": scattered(1, ""),
        "rows": scattered(64, ""),
        "sums": scattered(1, "add"),
        "sums of rows": scattered(64, "add"),
        "maxima": scattered(1, "maximum"),
    },
    "select": {"": chosen},
    "select-and-scatter": {"": selected_and_scattered},
    "slice": {"": sliced(1), "steps": sliced(3)},
    "sort": {"": sort(1), "pairs": sort(2), "first": sort(1, 0)},
    "topk": {"8": topk(8), "100": topk(100)},
    "transpose": {"": transposed},
    "triangular-solve": {"": factored("triangular-solve")},
    "tuple": {"": passing},
    "while": {"": loop(7), "many": loop(10_000)},
}
"""Opcode -> variant -> what makes its module from an element type and the shape of its operand."""


def programs_of(opcode: str, dtype: str, shape: Shape) -> Iterator[Program]:
    """Every variant of an opcode for an element type and a shape."""
    for variant, make in PROGRAMS[opcode].items():
        yield Program(opcode, variant, make(dtype, shape))
