"""Rules about QuantizeMX: MXFP8 quantisation with one scale for each 32 elements."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from hlo_tools._messages import counted
from hlo_tools.ir.instruction import Instruction
from hlo_tools.lint.rule import Check, Graph, Hit, LintRule
from hlo_tools.types.element_types import BY_NAME
from hlo_tools.types.shape import Shape

__all__ = ["RULES", "TARGET"]

TARGET = "QuantizeMX"
_BLOCK, _METHOD, _LANES = 32, "EMAX", 4
_FORMATS = ("float8_e5m2", "float8_e4m3fn")
_INPUTS = ("bf16", "f16")


@dataclass(frozen=True, slots=True)
class _Call:
    """One call: its settings (None when they cannot be read), its only operand, if it is that."""

    view: Instruction
    settings: dict[str, Any] | None
    operand: Shape | None

    @property
    def dimension(self) -> int | None:
        """Return the quantised dimension, from the front; None if it is not allowed."""
        if self.operand is None or self.settings is None:
            return None
        dim, rank = self.settings.get("dim", 0), self.operand.rank
        if not isinstance(dim, int) or isinstance(dim, bool):
            return None
        location = dim + rank if dim < 0 else dim
        return location if 0 <= location < rank and location >= rank - 2 else None


def _settings(view: Instruction) -> dict[str, Any] | None:
    try:
        record = json.loads(view.backend_config)
    except (ValueError, RecursionError):
        return None
    return cast(dict[str, Any], record) if isinstance(record, dict) else None


def _each(problem: Callable[[_Call], str]) -> Check:
    """A check from a function that says what is wrong with a call, or ""."""

    def check(graph: Graph) -> Iterator[Hit]:
        for view in graph.custom(TARGET):
            operand = view.operands[0].shape if len(view.operands) == 1 else None
            message = problem(_Call(view, _settings(view), operand))
            if message:
                yield Hit(message, view)

    return check


def _unreadable(call: _Call) -> str:
    return "" if call.settings is not None else "its backend_config is not a JSON object"


def _operands(call: _Call) -> str:
    return (
        "" if call.operand is not None else f"it has {counted(len(call.view.operands), 'operand')}"
    )


def _dimension(call: _Call) -> str:
    if call.operand is None or call.settings is None or call.dimension is not None:
        return ""
    return f"dim is {call.settings.get('dim', 0)!r}, the input has rank {call.operand.rank}"


def _block(call: _Call) -> str:
    size = (call.settings or {}).get("block_size", _BLOCK)
    return "" if size == _BLOCK else f"block_size is {size!r}"


def _method(call: _Call) -> str:
    method = (call.settings or {}).get("scale_method", _METHOD)
    return "" if method == _METHOD else f"scale_method is {method!r}"


def _input(call: _Call) -> str:
    if call.operand is None or call.operand.element.name in _INPUTS:
        return ""
    return f"its input is {call.operand}"


def _results(call: _Call) -> str:
    shape = call.view.shape
    if shape.is_tuple and len(shape.tuple_shapes) == 2:
        return ""
    return f"it returns {shape}"


def _divisible(call: _Call) -> str:
    location = call.dimension
    if call.operand is None or location is None:
        return ""
    size = call.operand.dimensions[location]
    return f"dimension {location} has size {size}" if size % _LANES else ""


def _format(call: _Call) -> str:
    """The number format asked for and what the packed result looks like."""
    if call.settings is None:
        return ""
    name = call.settings.get("dtype")
    if name not in _FORMATS:
        return f"dtype is {name!r}, not one of {', '.join(_FORMATS)}"
    parts = call.view.shape.tuple_shapes
    if len(parts) != 2:
        return ""
    packed = parts[0]
    if packed.proto.element_type != BY_NAME["u32"].number:
        return f"its quantised data is {packed}, not u32"
    return _packed_size(call, packed)


def _packed_size(call: _Call, packed: Shape) -> str:
    location, operand = call.dimension, call.operand
    if operand is None or location is None or packed.rank != operand.rank:
        return ""
    extents = list(operand.dimensions)
    extents[location] //= _LANES
    return "" if list(packed.dimensions) == extents else f"its data is {packed}, not u32{extents}"


RULES = (
    LintRule(
        "NCC_EVRF036", "QuantizeMX has its settings as a JSON object",
        "The settings are in backend_config; without them the format is unknown.",
        "write a JSON object with at least dtype into backend_config",
        _each(_unreadable),
    ),
    LintRule(
        "NCC_EVRF037", "QuantizeMX takes one operand",
        "It quantises one array.",
        "pass the array alone",
        _each(_operands),
    ),
    LintRule(
        "NCC_EVRF038", "QuantizeMX quantises one of the last two dimensions",
        "Blocks lie along the last dimension or the one before it. Without dim, dimension 0 is "
        "meant.",
        "set dim to -1 or -2 (or to rank-1, rank-2), or transpose before",
        _each(_dimension),
    ),
    LintRule(
        "NCC_EVRF039", "QuantizeMX uses blocks of 32",
        "The OCP microscaling format has one scale for 32 elements.",
        "set block_size to 32",
        _each(_block),
    ),
    LintRule(
        "NCC_EVRF040", "QuantizeMX computes scales by EMAX",
        "No other way is implemented.",
        'set scale_method to "EMAX"',
        _each(_method),
    ),
    LintRule(
        "NCC_EVRF041", "QuantizeMX takes bf16 or f16",
        "The instruction reads 16-bit floats.",
        "convert the input to bf16 first",
        _each(_input),
    ),
    LintRule(
        "NCC_EVRF042", "QuantizeMX returns packed data of its format",
        "Four 8-bit numbers are packed in one u32, so the data is u32 with a quarter of the "
        "quantised dimension; dtype names the 8-bit format.",
        'set dtype to "float8_e5m2" or "float8_e4m3fn" and declare the data as u32',
        _each(_format),
    ),
    LintRule(
        "NCC_EVRF057", "QuantizeMX returns data and scales",
        "Its result is a tuple of these two.",
        "declare a tuple of two arrays",
        _each(_results),
    ),
    LintRule(
        "NCC_EVRF058", "QuantizeMX quantises a multiple of four",
        "Four numbers are packed into one element.",
        "pad the dimension to a multiple of four",
        _each(_divisible),
    ),
)  # fmt: skip
