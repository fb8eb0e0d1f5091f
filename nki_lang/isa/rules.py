"""The documented rules as small factories: each returns the constraint that a row lists."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from nki_lang.base.memory import MemoryRegion
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.ir import Engine
from nki_lang.isa.call import CheckedCall
from nki_lang.isa.spec import Constraint

__all__ = [
    "ACTIVATIONS",
    "ARITHMETIC",
    "BITVEC",
    "COMPARISONS",
    "REDUCTIONS",
    "UNARY",
    "aluops",
    "custom",
    "free_elements",
    "no_gpsimd_psum",
    "not_both_psum",
    "one_of",
    "operators",
    "priority",
    "same_dtype",
    "same_size",
    "same_tile",
    "vector",
]

_SHARED = "nki/api/nki.api.shared.rst"

BITVEC = frozenset(
    {"invert", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"}
)
COMPARISONS = frozenset({"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"})
UNARY = frozenset({"abs", "square", "relu", "rsqrt", "reciprocal", "copy", "bypass", "logical_not"})
ARITHMETIC = (
    frozenset(
        {"add", "subtract", "multiply", "divide", "maximum", "minimum", "abs_max", "abs_min",
         "power", "mod", "fmod", "logical_and", "logical_or", "logical_xor"}
    )
    | COMPARISONS
)  # fmt: skip
REDUCTIONS = frozenset(
    {"add", "subtract", "multiply", "maximum", "minimum", "abs_max", "abs_min", "logical_and",
     "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"}
)  # fmt: skip
ACTIVATIONS = frozenset(
    {"copy", "square", "sigmoid", "relu", "prelu", "gelu", "gelu_dx", "gelu_apprx_tanh",
     "gelu_apprx_sigmoid", "gelu_apprx_sigmoid_dx", "silu", "silu_dx", "tanh", "softplus", "mish",
     "erf", "erf_dx", "exp", "log", "sin", "arctan", "sqrt", "rsqrt", "reciprocal", "sign", "abs"}
)  # fmt: skip
_TRN3_ONLY = frozenset({"abs_max", "abs_min"})
_INTEGERS = frozenset({"int8", "int16", "int32", "uint8", "uint16", "uint32"})


def custom(
    code: str, rule: str, source: str
) -> Callable[[Callable[[CheckedCall], str]], Constraint]:
    """Decorator: a function from a call to what is wrong ("" when nothing) as a constraint."""
    return lambda check: Constraint(code, rule, source, check)


def free_elements(tensor: NkiTensor) -> int:
    """Elements per partition."""
    return prod(tensor.shape[1:])


def _tile(value: object) -> bool:
    return isinstance(value, NkiTensor)


def same_tile(first: str, *other_names: str) -> Constraint:
    """Equal partitions and equal elements per partition."""

    def check(call: CheckedCall) -> str:
        model = call[first]
        for name in other_names:
            tile = call[name]
            if not _tile(tile):
                continue
            if tile.shape[0] != model.shape[0]:
                return f"partitions differ: {call.describe(first)}, {call.describe(name)}"
            if free_elements(tile) != free_elements(model):
                return (
                    f"elements per partition differ: {call.describe(first)}, {call.describe(name)}"
                )
        return ""

    names = ", ".join((first, *other_names))
    rule = f"{names} have the same partitions and the same elements per partition"
    return Constraint("NKI-SHAPE", rule, "Layout and tile size of the instruction", check)


def same_size(first: str, second: str) -> Constraint:
    """Equal numbers of elements, whatever their shapes (DMA)."""

    def check(call: CheckedCall) -> str:
        a, b = call[first], call[second]
        if a.size == b.size:
            return ""
        return f"{a.size} and {b.size} elements: {call.describe(first)}, {call.describe(second)}"

    rule = f"{first} and {second} have the same number of elements"
    return Constraint("NKI-SHAPE", rule, "nisa.dma_copy, Tile size", check)


def same_dtype(first: str, *other_names: str) -> Constraint:
    """Equal dtypes."""

    def check(call: CheckedCall) -> str:
        for name in other_names:
            if _tile(call[name]) and call[name].dtype != call[first].dtype:
                return f"dtypes differ: {call.describe(first)}, {call.describe(name)}"
        return ""

    rule = f"{', '.join((first, *other_names))} have the same dtype"
    return Constraint("NKI-DTYPE", rule, "Data types of the instruction", check)


def vector(name: str, of: str, dtypes: frozenset[str] = frozenset()) -> Constraint:
    """A tile operand with one element for each partition of another."""

    def check(call: CheckedCall) -> str:
        value = call[name]
        if not _tile(value):
            return ""
        if value.shape[0] != call[of].shape[0] or free_elements(value) != 1:
            return f"{call.describe(name)} for {call.describe(of)}"
        if dtypes and value.dtype.name not in dtypes:
            return f"{call.describe(name)}; allowed dtypes: {', '.join(sorted(dtypes))}"
        return ""

    rule = f"{name} is a number or a tile of shape ({of}.shape[0], 1)"
    return Constraint("NKI-VECTOR-OPERAND", rule, "Layout of the instruction", check)


def not_both_psum(first: str, second: str) -> Constraint:
    """At most one of two inputs in PSUM."""

    def check(call: CheckedCall) -> str:
        pair = (call[first], call[second])
        if all(_tile(value) and value.buffer is MemoryRegion.psum for value in pair):
            return f"{first} and {second} are both in PSUM"
        return ""

    rule = "copy one of them to SBUF first"
    return Constraint("NKI-BOTH-PSUM", rule, "nisa.tensor_tensor, the three legal cases", check)


@custom("NKI-BUFFER", "the GpSimd engine cannot access PSUM; use SBUF or another engine",
        "nki/guides/architecture/trainium_inferentia2_arch.rst, engines")  # fmt: skip
def no_gpsimd_psum(call: CheckedCall) -> str:
    if call.engine is not Engine.gpsimd:
        return ""
    for name, tensor in call.tensors():
        if tensor.buffer is MemoryRegion.psum:
            return f"engine=gpsimd with {call.describe(name)}"
    return ""


def operators(name: str, allowed: frozenset[str], source: str = _SHARED) -> Constraint:
    """The operators that a parameter takes."""

    def check(call: CheckedCall) -> str:
        operator = call.operator(name)
        if operator and operator not in allowed:
            return f"{name}=nl.{operator} is not supported"
        if operator in _TRN3_ONLY and call.generation < 4:
            return f"{name}=nl.{operator} exists on trn3 and later"
        return ""

    rule = f"{name} is one of {', '.join(sorted(allowed))}"
    return Constraint("NKI-OPERATOR", rule, source, check)


def aluops(names: tuple[str, ...], tensors: tuple[str, ...]) -> Constraint:
    """Operators of one kind, and integers for the bitwise ones."""

    def check(call: CheckedCall) -> str:
        kinds = {call.operator(name) in BITVEC for name in names if call.operator(name)}
        if len(kinds) > 1:
            return "bitwise and arithmetic operators in one instruction"
        if True not in kinds:
            return ""
        for name in tensors:
            if _tile(call[name]) and call[name].dtype.name not in _INTEGERS:
                return f"a bitwise operator with {call.describe(name)}"
        return ""

    rule = "all operators are arithmetic, or all are bitwise and all tiles are integers"
    return Constraint("NKI-BITVEC", rule, f"{_SHARED}, nki-aluop", check)


def one_of(name: str, allowed: tuple[Any, ...], source: str) -> Constraint:
    """The values that an attribute may have."""

    def check(call: CheckedCall) -> str:
        return "" if call[name] in allowed else f"{name}={call[name]!r}"

    rule = f"{name} is one of {', '.join(map(str, allowed))}"
    return Constraint("NKI-VALUE", rule, source, check)


@custom("NKI-PRIORITY", "priority is 0 to 3, on trn3 and later", "nisa.dma_copy, priority")
def priority(call: CheckedCall) -> str:
    value = call["priority"]
    if value is None:
        return ""
    if value not in (0, 1, 2, 3):
        return f"priority={value!r}"
    return f"priority={value!r} on generation {call.generation}" if call.generation < 4 else ""
