"""Rules about ``__op$block_scaled_dot``: products of arrays that QuantizeMX made."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hlo_tools._messages import counted
from hlo_tools.ir.instruction import Instruction
from hlo_tools.lint.rule import Check, Graph, Hit, LintRule
from hlo_tools.types.shape import Shape

__all__ = ["RULES", "TARGET"]

TARGET = "__op$block_scaled_dot"
_OPERANDS = 4
_RESULTS = ("f32", "bf16")
_LISTS = tuple(
    f"{side}_{kind}_dimensions" for side in ("lhs", "rhs") for kind in ("batch", "contracting")
)


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the two matrices: its shape and the dimensions that the settings name."""

    name: str
    shape: Shape
    batch: tuple[int, ...]
    contracting: tuple[int, ...]

    @property
    def contracted(self) -> int:
        """The first named dimension; the last one of the array when none is named."""
        return self.contracting[0] if self.contracting else self.shape.rank - 1

    def size(self, dimension: int) -> int | None:
        """Extent of a dimension, or None when there is no such one."""
        return self.shape.dimensions[dimension] if self.has(dimension) else None

    def has(self, dimension: int) -> bool:
        return 0 <= dimension < self.shape.rank


@dataclass(frozen=True, slots=True)
class _Call:
    """One call; ``sides`` is empty when operands or settings do not determine them."""

    view: Instruction
    settings: dict[str, tuple[int, ...]] | None
    sides: tuple[_Side, ...] = field(default=())


def _settings(view: Instruction) -> dict[str, tuple[int, ...]] | None:
    """The four lists of dimensions, or None when they cannot be read."""
    text = view.backend_config
    if text in (b"", b"None"):
        return dict.fromkeys(_LISTS, ())
    try:
        record: Any = json.loads(text)
        inner = record.get("scaled_dot_backend_config", {})
        return {name: tuple(int(axis) for axis in inner.get(name, ())) for name in _LISTS}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _call(view: Instruction) -> _Call:
    settings = _settings(view)
    if settings is None or len(view.operands) != _OPERANDS:
        return _Call(view, settings)
    left, right = (
        _Side(
            side,
            operand.shape,
            settings[f"{side}_batch_dimensions"],
            settings[f"{side}_contracting_dimensions"],
        )
        for side, operand in zip(("lhs", "rhs"), view.operands, strict=False)
    )
    return _Call(view, settings, (left, right))


def _each(problem: Callable[[_Call], str]) -> Check:
    """A check from a function that says what is wrong with a call, or ""."""

    def check(graph: Graph) -> Iterator[Hit]:
        for view in graph.custom(TARGET):
            message = problem(_call(view))
            if message:
                yield Hit(message, view)

    return check


def _each_side(problem: Callable[[_Side], str]) -> Check:
    """A check of both matrices, those of too low a rank left to their own rules."""

    def of(call: _Call) -> str:
        sides = (side for side in call.sides if side.shape.rank > 1)
        return next((message for message in map(problem, sides) if message), "")

    return _each(of)


def _operands(call: _Call) -> str:
    count = len(call.view.operands)
    return "" if count == _OPERANDS else f"it has {counted(count, 'operand')}"


def _left_type(call: _Call) -> str:
    if not call.view.operands:
        return ""
    shape = call.view.operands[0].shape
    return "" if shape.element.name == "u32" else f"its left side is {shape}"


def _result_type(call: _Call) -> str:
    shape = call.view.shape
    return "" if shape.element.name in _RESULTS else f"it returns {shape}"


def _rank(position: int) -> Check:
    def problem(call: _Call) -> str:
        if len(call.view.operands) <= position:
            return ""
        shape = call.view.operands[position].shape
        return "" if shape.rank > 1 else f"%{call.view.operands[position].name} is {shape}"

    return _each(problem)


def _unreadable(call: _Call) -> str:
    return "" if call.settings is not None else "its backend_config cannot be read"


def _batches(call: _Call) -> str:
    if not call.sides:
        return ""
    left, right = call.sides
    if len(left.batch) != len(right.batch):
        return ""
    sizes = [[side.size(axis) for axis in side.batch] for side in call.sides]
    if any(size is None for axis in sizes for size in axis):
        return ""
    counts = [math.prod(size or 0 for size in axis) for axis in sizes]
    return (
        "" if counts[0] == counts[1] else f"its batches have {counts[0]} and {counts[1]} elements"
    )


def _contracted_sizes(call: _Call) -> str:
    if not call.sides:
        return ""
    sizes = [side.size(side.contracted) for side in call.sides]
    if None in sizes or sizes[0] == sizes[1]:
        return ""
    return f"its contracted dimensions have the sizes {sizes[0]} and {sizes[1]}"


def _overlap(side: _Side) -> str:
    if side.contracted not in side.batch:
        return ""
    return f"dimension {side.contracted} of its {side.name} is contracted and a batch"


def _batch_bounds(side: _Side) -> str:
    wrong = next((axis for axis in side.batch if not side.has(axis)), None)
    return "" if wrong is None else f"batch dimension {wrong} of its {side.name}, {side.shape}"


def _contracted_bounds(side: _Side) -> str:
    if side.has(side.contracted):
        return ""
    return f"contracting dimension {side.contracted} of its {side.name}, {side.shape}"


RULES = (
    LintRule(
        "NCC_EVRF043", "a scaled product takes four operands",
        "Left, right, scales of the left, scales of the right.",
        "pass these four",
        _each(_operands),
    ),
    LintRule(
        "NCC_EVRF044", "the left side of a scaled product is packed u32",
        "The instruction reads four 8-bit numbers from each element.",
        "pass the data that QuantizeMX returns",
        _each(_left_type),
    ),
    LintRule(
        "NCC_EVRF045", "a scaled product returns f32 or bf16",
        "The accumulators hold no other type.",
        "declare the result as f32 or bf16 and convert after it",
        _each(_result_type),
    ),
    LintRule(
        "NCC_EVRF046", "the left side of a scaled product is a matrix",
        "It needs rows and a contracted dimension.",
        "reshape it to two dimensions",
        _rank(0),
    ),
    LintRule(
        "NCC_EVRF047", "the right side of a scaled product is a matrix",
        "It needs columns and a contracted dimension.",
        "reshape it to two dimensions",
        _rank(1),
    ),
    LintRule(
        "NCC_EVRF048", "both sides of a scaled product have the same batches",
        "Each batch of the left meets one of the right.",
        "broadcast or reshape the batch dimensions to one count",
        _each(_batches),
    ),
    LintRule(
        "NCC_EVRF049", "the settings of a scaled product can be read",
        "backend_config is empty, None, or JSON whose lists of dimensions hold integers.",
        "write the dimensions as lists of integers in scaled_dot_backend_config",
        _each(_unreadable),
    ),
    LintRule(
        "NCC_EVRF050", "contracted dimensions of a scaled product have one size",
        "Elements are multiplied pairwise along them. Without a list, the last one is meant.",
        "name the dimensions of equal size, or transpose one side",
        _each(_contracted_sizes),
    ),
    LintRule(
        "NCC_EVRF053", "a contracted dimension of a scaled product is no batch",
        "A dimension has one role.",
        "take it out of one of the two lists",
        _each_side(_overlap),
    ),
    LintRule(
        "NCC_EVRF054", "batch dimensions of a scaled product exist",
        "Dimensions are counted from 0 to rank-1.",
        "name dimensions that the operand has",
        _each_side(_batch_bounds),
    ),
    LintRule(
        "NCC_EVRF055", "contracting dimensions of a scaled product exist",
        "Dimensions are counted from 0 to rank-1.",
        "name dimensions that the operand has",
        _each_side(_contracted_bounds),
    ),
)  # fmt: skip
