"""Rules about element types: what no engine computes with, or not on this target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from hlo_tools.lint.rule import Check, Graph, Hit, LintRule
from hlo_tools.types.element_types import BY_NAME

__all__ = ["RULES", "element_types"]

_UINT32_MOST = 0xFFFFFFFF

_NOT_GENERATED = (
    "f64", "f4e2m1fn", "f6e2m3fn", "f6e3m2fn", "s4", "u4", "s2", "u2", "s1", "u1",
)  # fmt: skip
"""The vendor names f4e2m1fn; the others are wider or narrower than what its tables of data types
list (FP32, TF32, BF16, FP16, FP8, 8- to 32-bit integers, 64-bit integers by narrowing)."""


def element_types(shape: Any) -> Iterator[int]:
    """The element types in a shape, parts of tuples too."""
    if shape.tuple_shapes:
        for element_shape in shape.tuple_shapes:
            yield from element_types(element_shape)
    else:
        yield shape.element_type


def _uses(names: Iterable[str]) -> Check:
    """A check that finds the first instructions that make a value of one of some types.

    One finding a type and computation: the type spreads from where it enters to all that follows.
    """
    numbers = {BY_NAME[name].number: name for name in names}

    def check(graph: Graph) -> Iterator[Hit]:
        reported: set[tuple[int, int]] = set()
        for computation in graph.module.computations:
            for view in computation.instructions:
                for number in element_types(view.proto.shape):
                    key = (computation.id, number)
                    if number in numbers and key not in reported:
                        reported.add(key)
                        yield Hit(f"{view.opcode} returns {view.shape}", view)

    return check


def _large_constants(graph: Graph) -> Iterator[Hit]:
    """u64 constants with a value that 32 bits do not hold."""
    number = BY_NAME["u64"].number
    for view in graph.of("constant"):
        if view.proto.shape.element_type != number:
            continue
        literal = view.literal
        if literal is None or literal.is_elided:
            continue
        largest = int(literal.numpy().max(initial=np.uint64(0)))
        if largest > _UINT32_MOST:
            yield Hit(f"the constant holds {largest}; 32 bits hold up to {_UINT32_MOST}", view)


def _dynamic(graph: Graph) -> Iterator[Hit]:
    for view in graph.of():
        if _is_dynamic(view.proto.shape):
            yield Hit(f"{view.opcode} has the shape {view.shape}", view)


def _is_dynamic(shape: Any) -> bool:
    if shape.tuple_shapes:
        return any(_is_dynamic(element_shape) for element_shape in shape.tuple_shapes)
    return any(shape.is_dynamic_dimension) or any(size < 0 for size in shape.dimensions)


def _f8e4m3fn(graph: Graph) -> Iterator[Hit]:
    """Operands of the type, and quantisation that asks for it."""
    yield from _operands_of(graph, "f8e4m3fn")
    for view in graph.custom("QuantizeMX"):
        if b"float8_e4m3fn" in view.backend_config:
            yield Hit("QuantizeMX is asked for float8_e4m3fn", view)


def _f8e4m3(graph: Graph) -> Iterator[Hit]:
    yield from _operands_of(graph, "f8e4m3")


def _operands_of(graph: Graph, name: str) -> Iterator[Hit]:
    """The first instruction of each computation that takes a value of a type."""
    number = BY_NAME[name].number
    for computation in graph.module.computations:
        for view in computation.instructions:
            operand = next((o for o in view.operands if o.proto.shape.element_type == number), None)
            if operand is not None:
                yield Hit(f"{view.opcode} takes %{operand.name}, which is {name}", view)
                break


_LEGALISED = (
    "compute in f32, bf16, f16 or an 8-bit float that the target has; "
    "nki-hlo opt -p 'dtype-legalisation{boundary=change}' rewrites the module so"
)

RULES = (
    LintRule(
        "NCC_EMOD025", "every dimension has a fixed size",
        "Programs are planned for one set of sizes; a bound is not enough.",
        "trace with fixed sizes (torch.compile: dynamic=False), or pad to a few sizes",
        _dynamic,
    ),
    LintRule(
        "NCC_ESFH002", "u64 constants fit in 32 bits",
        "64-bit integers are narrowed to 32 bits; a larger constant would change its value.",
        "use a smaller constant, or build it from 32-bit parts",
        _large_constants,
    ),
    LintRule(
        "NCC_ESPP004", "element types are ones that code is generated for",
        "No engine computes with this type.",
        _LEGALISED,
        _uses(_NOT_GENERATED),
    ),
    LintRule(
        "NCC_ESPP047", "8-bit floats are of a kind that the hardware has",
        "Of the 8-bit floats the engines know E4M3, E4M3FN (third generation of Trainium) and "
        "E5M2; other splits of exponent and mantissa are not computed with.",
        _LEGALISED,
        _uses(("f8e3m4", "f8e8m0fnu")),
    ),
    LintRule(
        "NCC_EVRF004", "no complex numbers",
        "The engines have no complex arithmetic.",
        "keep real and imaginary parts in two arrays, or leave that part to the host",
        _uses(("c64", "c128")),
    ),
    LintRule(
        "NCC_EVRF005", "no FNUZ 8-bit floats",
        "The formats without negative zero are other hardware's.",
        _LEGALISED,
        _uses(("f8e4m3fnuz", "f8e4m3b11fnuz", "f8e5m2fnuz")),
    ),
    LintRule(
        "NCC_EVRF051", "f8e4m3fn only from trn3 on",
        "trn1 and trn2 have the IEEE-like E4M3, whose range is another one.",
        "compile for trn3, use f8e4m3, or let the compiler convert "
        "(--experimental-unsafe-fp8e4m3fn-as-fp8e4m3)",
        _f8e4m3fn, until=3,
    ),
    LintRule(
        "NCC_EVRF052", "f8e4m3 only up to trn3",
        "What comes after trn3 has E4M3FN in its place.",
        "use f8e4m3fn",
        _f8e4m3, since=5,
    ),
)  # fmt: skip
