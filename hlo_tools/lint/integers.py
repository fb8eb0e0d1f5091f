"""Rules about integers where the hardware computes in floating point."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hlo_tools.ir.instruction import Instruction
from hlo_tools.lint.rule import Check, Graph, Hit, LintRule
from hlo_tools.types.element_types import BY_NUMBER, INVALID, ElementType

__all__ = ["RULES"]

_FIRST_WITHOUT_INTEGER_MATMUL = 3
_COMPUTING = frozenset({"add", "multiply", "minimum", "maximum"})
_SHIFTED = frozenset({"s32", "u32", "f32"})


def _element(view: Instruction) -> ElementType:
    return BY_NUMBER.get(view.proto.shape.element_type, INVALID)


def _is_integer(element: ElementType, *bits: int) -> bool:
    return element.kind in ("int", "uint") and element.bits in bits


def _dot(graph: Graph) -> Iterator[Hit]:
    """64-bit integers everywhere, 32-bit ones from trn2 on."""
    newer = graph.target.generation >= _FIRST_WITHOUT_INTEGER_MATMUL
    bits = (32, 64) if newer else (64,)
    for view in graph.of("dot"):
        wrong = next((o for o in view.operands if _is_integer(_element(o), *bits)), None)
        if wrong is not None:
            yield Hit(f"the dot takes %{wrong.name}, which is {wrong.shape}", view)


def _collective(*opcodes: str) -> Check:
    def check(graph: Graph) -> Iterator[Hit]:
        for view in graph.of(*opcodes):
            wrong = next((o for o in view.operands if _is_integer(_element(o), 32, 64)), None)
            if wrong is not None:
                yield Hit(f"{view.opcode} takes %{wrong.name}, which is {wrong.shape}", view)

    return check


def _power(graph: Graph) -> Iterator[Hit]:
    for view in graph.of("power"):
        if any(_is_integer(_element(o), 64) for o in view.operands):
            yield Hit(f"power returns {view.shape}", view)


def _combines(view: Instruction) -> str:
    """The arithmetic that a scatter combines values with, or ""."""
    called = view.called_computations
    opcode: Any = called[0].root.opcode if called else ""
    return opcode if opcode in _COMPUTING else ""


def _scattered(view: Instruction) -> tuple[Instruction, ...]:
    """Destinations and updates of a scatter, without its indices."""
    count = len(view.operands) // 2
    return view.operands[:count] + view.operands[count + 1 :]


def _scatter(graph: Graph) -> Iterator[Hit]:
    for view in graph.of("scatter"):
        how = _combines(view)
        wrong = next((o for o in _scattered(view) if _is_integer(_element(o), 32, 64)), None)
        if how and wrong is not None:
            yield Hit(f"the scatter combines {wrong.shape} by {how}", view)


def _scatter_narrow(graph: Graph) -> Iterator[Hit]:
    """Check what :func:`_scatter` does not: booleans, also combined by or/and, narrow integers."""
    for view in graph.of("scatter"):
        called = view.called_computations
        plain = not called or called[0].root.opcode == "parameter"
        for operand in _scattered(view):
            element = _element(operand)
            narrow = element.kind == "pred" or _is_integer(element, 1, 2, 4, 8, 16)
            if narrow and not plain:
                yield Hit(f"the scatter reduces {operand.shape}", view)
                break


def _shift(graph: Graph) -> Iterator[Hit]:
    for view in graph.of("shift-right-arithmetic"):
        if view.operands and _element(view.operands[0]).name not in _SHIFTED:
            yield Hit(f"its first operand is {view.operands[0].shape}", view)


def _topk(graph: Graph) -> Iterator[Hit]:
    calls = [*graph.of("topk"), *graph.custom("AwsNeuronTopK"), *graph.custom("TopK")]
    for view in calls:
        if view.operands and _is_integer(_element(view.operands[0]), 32, 64):
            yield Hit(f"TopK takes {view.operands[0].shape}", view)


_EXACT = "f32 holds integers exactly up to 2^24 only"

RULES = (
    LintRule(
        "NCC_EVRF013", "TopK takes floating-point numbers",
        "The engines search for largest values in floating point.",
        "convert the input to f32 (exact up to 2^24) before TopK",
        _topk,
    ),
    LintRule(
        "NCC_EVRF016", "a reducing scatter takes no booleans and no narrow integers",
        "Scatter with a reduction runs in floating point only.",
        "convert destination and updates to f32 or bf16 and the result back",
        _scatter_narrow,
    ),
    LintRule(
        "NCC_EVRF022", "arithmetic right shifts take 32-bit numbers",
        "The shift exists for 32-bit lanes; the first operand decides.",
        "convert the first operand to s32 or u32 and the result back",
        _shift,
    ),
    LintRule(
        "NCC_EVRF035", "matrix products take no wide integers",
        f"The matrix engine computes in floating point from trn2 on, and {_EXACT}. trn1 takes "
        "32-bit integers with a warning.",
        "convert the operands to f32 or bf16, or accept the loss with "
        "--implicit-integer-downcast=dot",
        _dot,
    ),
    LintRule(
        "NCC_EVRF060", "a scatter that computes takes no wide integers",
        f"It is done in floating point, and {_EXACT}.",
        "convert the operands to f32, or accept the loss with --implicit-integer-downcast=scatter",
        _scatter,
    ),
    LintRule(
        "NCC_EVRF061", "all-reduce takes no wide integers",
        f"Collectives reduce in floating point, and {_EXACT}.",
        "convert the operands to f32, or accept the loss with "
        "--implicit-integer-downcast=all_reduce",
        _collective("all-reduce", "all-reduce-start"),
    ),
    LintRule(
        "NCC_EVRF062", "power takes no 64-bit integers",
        "It is done with 32-bit integers; larger values would be cut.",
        "convert to s32 or f32, or accept the loss with --implicit-integer-downcast=pow",
        _power,
    ),
    LintRule(
        "NCC_EVRF063", "reduce-scatter takes no wide integers",
        f"Collectives reduce in floating point, and {_EXACT}.",
        "convert the operands to f32, or accept the loss with "
        "--implicit-integer-downcast=reduce_scatter",
        _collective("reduce-scatter"),
    ),
)  # fmt: skip
