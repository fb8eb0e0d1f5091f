"""Differences of two instructions in words: in HLO's own notation where it has one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, cast

import numpy as np
from google.protobuf.message import Message as AnyMessage

from hlo_tools.diff.contents import is_void
from hlo_tools.diff.fields import LEFT_OUT, METADATA, STRUCTURE
from hlo_tools.diff.keys import Body, order_of
from hlo_tools.diff.result import Change
from hlo_tools.errors import HloError
from hlo_tools.text.print_attributes import print_attributes
from hlo_tools.text.print_values import print_literal
from hlo_tools.types.literal import Literal
from hlo_tools.types.shape_text import print_shape

__all__ = ["describe", "one_line", "property_changes", "short"]

Message = Any

_MAX_VALUE_CHARACTERS = 200
"""Longer values are cut in reports."""
_SEPARATE = (
    "opcode", "shape", "literal", *METADATA["HloInstructionProto"],
    *LEFT_OUT["HloInstructionProto"], *STRUCTURE["HloInstructionProto"],
)  # fmt: skip
"""Fields that are compared by themselves, or not at all."""
_ORDER = ("type", "order")
"""Attributes that state the order of a comparison."""


def describe(left: Body, x: int, right: Body, y: int, ignored: Collection[str]) -> Iterator[Change]:
    """Yield the differences between two instructions except operands and calls."""
    left_row, right_row = left.rows[x], right.rows[y]
    if left_row.opcode != right_row.opcode:
        yield Change("opcode", left_row.opcode, right_row.opcode)
    if "shape" not in ignored:
        layouts = "layout" not in ignored
        shapes = [print_shape(row.shape, layouts=layouts) for row in (left_row, right_row)]
        if shapes[0] != shapes[1]:
            yield Change("shape", *shapes)
    if "literal" not in ignored and (left_row.HasField("literal") or right_row.HasField("literal")):
        yield from _literals(left, left_row, right, right_row)
    attributes = list(_attributes(left_row, right_row))
    if left_row.opcode == right_row.opcode == "compare":
        attributes = [change for change in attributes if change.field not in _ORDER]
        orders = order_of(left, x), order_of(right, y)
        attributes += [Change("order", *orders)] if orders[0] != orders[1] else []
    yield from attributes
    # Fields that the notation leaves out, or that only the metadata has.
    shown = {"sharding", "frontend_attributes", "backend_config"} - set(ignored)
    yield from property_changes(left_row, right_row, shown)
    if "metadata" not in ignored:
        yield from property_changes(left_row, right_row, METADATA["HloInstructionProto"])
    if not attributes and left_row.opcode == right_row.opcode:
        orders = ("comparison_type", "comparison_order") if left_row.opcode == "compare" else ()
        skipped = {*_SEPARATE, *orders, *shown, *ignored, "backend_config_payload"}
        names = {f.name for row in (left_row, right_row) for f, _ in row.ListFields()}
        yield from property_changes(left_row, right_row, names - skipped)


def _attributes(left_row: Message, right_row: Message) -> Iterator[Change]:
    before, after = dict(print_attributes(left_row)), dict(print_attributes(right_row))
    for name in dict.fromkeys((*before, *after)):
        if before.get(name) != after.get(name):
            yield Change(name, short(before.get(name, "")), short(after.get(name, "")))


def _literals(left: Body, left_row: Message, right: Body, right_row: Message) -> Iterator[Change]:
    before = left.computation.resolve(left_row.id).literal
    after = right.computation.resolve(right_row.id).literal
    texts = [_literal_text(literal) for literal in (before, after)]
    if texts[0] != texts[1]:
        yield Change("value", *texts)
        return
    if before is None or after is None:
        return
    note = _difference(before, after)
    if note:
        yield Change("value", texts[0], f"{texts[1]} ({note})")


def _literal_text(literal: Literal | None) -> str:
    if literal is None:
        return ""
    return short(print_literal(literal.proto, large=False))


def _difference(before: Literal, after: Literal) -> str:
    """Describe the difference of two constants that are too large to print."""
    try:
        left_values, right_values = before.numpy(), after.numpy()
    except HloError:
        return "" if before.proto == after.proto else "elements differ"
    if left_values.shape != right_values.shape:
        return ""
    count = int(np.count_nonzero(left_values != right_values))
    if not count:  # only signs of zeros, or bits of NaNs
        return "" if left_values.tobytes() == right_values.tobytes() else "bits differ"
    return f"{count} of {left_values.size} elements differ"


def property_changes(
    left_row: Message, right_row: Message, names: Iterable[str]
) -> Iterator[Change]:
    """Fields of two messages of one type that differ."""
    for name in sorted(names):
        before, after = _field(left_row, name), _field(right_row, name)
        if _plain(before) != _plain(after):
            yield Change(name, short(_text(before)), short(_text(after)))


def _plain(value: object) -> object:
    """Return a value that compares by its bytes: NaN equals NaN, 0 differs from -0."""
    if isinstance(value, (bytes, str, int)) or value is None:
        return value
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, AnyMessage):
        return value.SerializeToString(deterministic=True)
    return [_plain(element) for element in cast("Iterable[object]", value)]


def _field(message: Message, name: str) -> Any:
    """The field's value; None for a message that is not there, or says nothing."""
    value = getattr(message, name)
    absent = hasattr(value, "DESCRIPTOR") and not message.HasField(name)
    return None if absent or is_void(name, value) else value


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if hasattr(value, "DESCRIPTOR") and value.DESCRIPTOR.name == "FrontendAttributes":
        return ", ".join(f"{name}={text}" for name, text in sorted(value.map.items())) or "{}"
    if hasattr(value, "DESCRIPTOR"):
        from google.protobuf import text_format

        return text_format.MessageToString(value, as_one_line=True) or "{}"
    if isinstance(value, (bool, int, float, str)):
        return str(value)
    return " ".join(_text(element) for element in value)


def short(text: str) -> str:
    """A value as it is shown: the beginning of a long one."""
    return text if len(text) <= _MAX_VALUE_CHARACTERS else f"{text[: _MAX_VALUE_CHARACTERS - 1]}…"


def one_line(body: Body, position: int) -> str:
    """An instruction as text, large values left out."""
    row = body.rows[position]
    if row.opcode == "parameter":
        inside = str(row.parameter_number)
    elif row.opcode == "constant":
        inside = short(print_literal(row.literal, large=False))
    else:
        inside = ", ".join(f"%{body.names[n]}" for n in body.operands[position])
    text = f"%{row.name} = {print_shape(row.shape)} {row.opcode}({inside})"
    return short("".join((text, *(f", {name}={value}" for name, value in print_attributes(row)))))
