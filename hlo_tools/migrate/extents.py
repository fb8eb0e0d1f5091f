"""Texts of the extents of index expressions, so that a rewrite holds for all shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from hlo_tools.migrate.source import (
    Scope,
    Source,
    dotted_name,
    integer_of,
    parenthesized,
    same_number,
    text_of,
)

__all__ = ["axis_texts", "difference", "is_stable", "product", "start_texts", "total"]

MAX_NAMES_FOLLOWED = 16
"""Assignments that are followed from a name to its range."""

GRID_AXES = "pxyzw"
"""Names of the axes of ``nl.mgrid``."""


@dataclass(frozen=True, slots=True)
class Span:
    """A range of integers: texts of start, stop and step."""

    start: str
    stop: str
    step: str = "1"

    @property
    def extent(self) -> str:
        """Text of the number of elements."""
        if self.step == "1":
            return difference(self.stop, self.start)
        numbers = [same_number(entry) for entry in (self.start, self.stop, self.step)]
        if None not in numbers:
            return str(len(range(*[int(entry) for entry in (self.start, self.stop, self.step)])))
        return f"len(range({self.start}, {self.stop}, {self.step}))"


def total(left: str, right: str) -> str:
    """Return the text of a sum."""
    numbers = same_number(left), same_number(right)
    if numbers[0] is not None and numbers[1] is not None:
        return str(numbers[0] + numbers[1])
    if numbers[0] == 0 or numbers[1] == 0:
        return right if numbers[0] == 0 else left
    return f"{left} + {right}"


def difference(left: str, right: str) -> str:
    """Return the text of a difference."""
    numbers = same_number(left), same_number(right)
    if numbers[0] is not None and numbers[1] is not None:
        return str(numbers[0] - numbers[1])
    if numbers[1] == 0:
        return left
    return f"{left} - {_subtrahend(right)}"


def _subtrahend(text: str) -> str:
    """Return the text, in parentheses unless it binds tighter than a difference."""
    node = cst.parse_expression(text)
    is_product = isinstance(node, cst.BinaryOperation) and isinstance(
        node.operator, (cst.Multiply, cst.FloorDivide, cst.Modulo)
    )
    return text if is_product else parenthesized(text)


def product(left: str, right: str) -> str:
    """Return the text of a product."""
    numbers = same_number(left), same_number(right)
    if numbers[0] is not None and numbers[1] is not None:
        return str(numbers[0] * numbers[1])
    if 0 in numbers:
        return "0"
    if 1 in numbers:
        return right if numbers[0] == 1 else left
    return f"{parenthesized(left)} * {parenthesized(right)}"


def axis_texts(
    node: cst.BaseExpression, scope: Scope, source: Source, depth: int = 0
) -> list[str | None]:
    """Return the text of the extent of each axis of an index expression, None where unknown.

    A text is used where all its names keep their value between the range and its use.
    """
    return [None if span is None else _stable(span.extent, scope)
            for span in _axes(node, scope, source, depth)]  # fmt: skip


def start_texts(node: cst.BaseExpression, scope: Scope, source: Source) -> list[str | None]:
    """Return the text of the first value along each axis."""
    return [None if span is None else span.start for span in _axes(node, scope, source, 0)]


def is_stable(text: str, scope: Scope) -> bool:
    """Return True if every name in a text is bound once."""
    names = _NamesIn()
    cst.parse_expression(text).visit(names)
    return all(scope.is_constant(name) for name in names.names)


def _stable(text: str, scope: Scope) -> str | None:
    return text if is_stable(text, scope) else None


class _NamesIn(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        node.value.visit(self)
        return False

    def visit_Name(self, node: cst.Name) -> None:
        self.names.add(node.value)


def _axes(node: cst.BaseExpression, scope: Scope, source: Source, depth: int) -> list[Span | None]:
    if depth > MAX_NAMES_FOLLOWED:
        return []
    if isinstance(node, cst.Name):
        value = scope.value_of(node.value)
        return [] if value is None else _axes(value, scope, source, depth + 1)
    if isinstance(node, cst.Call):
        is_range = source.resolved(node.func).endswith(".arange")
        return [_range(node.args)] if is_range and 1 <= len(node.args) <= 3 else []
    if isinstance(node, cst.Subscript):
        return _subscript(node, scope, source, depth)
    if isinstance(node, cst.Attribute) and node.attr.value in GRID_AXES:
        return _grid_axis(node.value, GRID_AXES.index(node.attr.value), scope, source, depth)
    if isinstance(node, cst.BinaryOperation):
        sides = [_axes(side, scope, source, depth + 1) for side in (node.left, node.right)]
        return _joined(*sides)
    if isinstance(node, cst.UnaryOperation):
        return _axes(node.expression, scope, source, depth + 1)
    return []


def _range(arguments: Sequence[cst.Arg]) -> Span:
    texts = [text_of(entry.value) for entry in arguments]
    if len(texts) == 1:
        return Span("0", texts[0])
    return Span(texts[0], texts[1], texts[2] if len(texts) == 3 else "1")


def _subscript(node: cst.Subscript, scope: Scope, source: Source, depth: int) -> list[Span | None]:
    keys = [element.slice for element in node.slice]
    first = keys[0]
    if len(keys) == 1 and isinstance(first, cst.Index) and integer_of(first.value) is not None:
        return _grid_axis(node.value, integer_of(first.value) or 0, scope, source, depth)
    inner = _axes(node.value, scope, source, depth + 1)
    result: list[Span | None] = []
    for key in keys:
        if isinstance(key, cst.Index):
            result.append(Span("0", "1"))
        else:
            result.append(inner.pop(0) if inner else None)
    return result + inner


def _grid_axis(
    node: cst.BaseExpression, location: int, scope: Scope, source: Source, depth: int
) -> list[Span | None]:
    """Return the axes of one expression of ``nl.mgrid[...]``."""
    if isinstance(node, cst.Name):
        value = scope.value_of(node.value)
        if value is None or depth > MAX_NAMES_FOLLOWED:
            return []
        return _grid_axis(value, location, scope, source, depth + 1)
    if not isinstance(node, cst.Subscript) or not dotted_name(node.value).endswith("mgrid"):
        return []
    keys = [element.slice for element in node.slice]
    if location >= len(keys):
        return []
    key = keys[location]
    if not isinstance(key, cst.Slice) or key.upper is None:
        return []
    start = "0" if key.lower is None else text_of(key.lower)
    step = "1" if key.step is None else text_of(key.step)
    span = Span(start, text_of(key.upper), step)
    return [span if axis == location else Span("0", "1") for axis in range(len(keys))]


def _joined(left: list[Span | None], right: list[Span | None]) -> list[Span | None]:
    rank = max(len(left), len(right))
    unit: Span | None = Span("0", "1")
    left = [unit] * (rank - len(left)) + left
    right = [unit] * (rank - len(right)) + right
    return [b if a is not None and a.extent == "1" else a for a, b in zip(left, right, strict=True)]
