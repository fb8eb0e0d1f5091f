"""Lines made from columns are those that the printer makes one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hlo_tools import Module, load, schema
from hlo_tools.text import parse, pieces, print_lines, printer
from hlo_tools.text.options import DEFAULT, PRESETS
from hlo_tools.text.printer import print_module
from hlo_tools.wire import fields as wire
from hlo_tools.wire.large_constants import encode_field
from nki_lang.base.unknown_fields import ALLOW_VARIABLE
from tests.text.test_repeated import BODIES, HEAD

MORE = {
    "asynchronous": """
  a = ((f32[4]{0}), f32[4]{0}) negate-start(x)
  b = f32[4]{0} negate-done(a)
  c = ((f32[4]{0}), f32[4]{0}) negate-start(y), metadata={op_name="c"}
  d = f32[4]{0} negate-done(c)
""",
    "choices": """
  p = pred[] constant(true)
  a = f32[4]{0} conditional(p, x, y), true_computation={ q = f32[4]{0} parameter(0)
    ROOT r = f32[4]{0} negate(q) }, false_computation={ q = f32[4]{0} parameter(0)
    ROOT r = f32[4]{0} abs(q) }
""",
    "many operands": """
  a = (f32[4]{0}, f32[4]{0}, f32[4]{0}, f32[4]{0}, f32[4]{0}, f32[4]{0}) tuple(x, y, x, y, x, y)
  b = (f32[4]{0}, f32[4]{0}, f32[4]{0}, f32[4]{0}, f32[4]{0}, f32[4]{0}) tuple(y, y, x, y, x, x)
""",
    "what stands behind metadata": """
  a = f32[4]{0} custom-call(x), custom_call_target="f", metadata={op_name="a"}, backend_config="\\n"
  b = f32[4]{0} custom-call(y), custom_call_target="f", metadata={op_name="b"}, backend_config={"k":"metadata={}"}
  c = f32[4]{0} custom-call(y), custom_call_target="f", backend_config="\\n"
""",
}


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("scheduled", [False, True])
@pytest.mark.parametrize("body", [*BODIES, *MORE])
def test_the_same_as_one_by_one(
    body: str, scheduled: bool, preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = HEAD.replace("HloModule m", "HloModule m, is_scheduled=true") if scheduled else HEAD
    proto = parse(head + (BODIES | MORE)[body] + "  ROOT last = f32[4]{0} add(x, y)\n}\n")
    for sequence in proto.schedule.sequences.values():
        sequence.instruction_ids[:] = reversed(sequence.instruction_ids)
    expected = print_module(proto, PRESETS[preset])
    monkeypatch.setattr(printer, "_MANY", 0)
    assert print_module(proto, PRESETS[preset]) == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"ids": False, "operand_shapes": True, "indent": 0},
        {"percent": False, "result_shape": False, "operand_shapes": True},
        {"extra_attributes": False, "layouts": False, "metadata": False},
    ],
)
@pytest.mark.parametrize("body", [*BODIES, *MORE])
def test_options(changes: dict[str, Any], body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = replace(DEFAULT, **changes)
    proto = parse(HEAD + (BODIES | MORE)[body] + "}\n")
    expected = print_module(proto, options)
    monkeypatch.setattr(printer, "_MANY", 0)
    assert print_module(proto, options) == expected


def test_lines_are_put_together_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    proto = parse(HEAD + MORE["many operands"] + "}\n")
    expected = print_module(proto)
    monkeypatch.setattr(printer, "_MANY", 0)
    monkeypatch.setattr(print_lines, "_MAX_LINES_PER_BATCH", 3)
    monkeypatch.setattr(pieces, "_MAX_PIECES_PER_BATCH", 2)
    assert print_module(proto) == expected


def _reversed(fields: list[bytes]) -> list[bytes]:
    return fields[::-1]


def _doubled(fields: list[bytes]) -> list[bytes]:
    doubled = {number << 3 | 2 for number in (1, 2, 3, 7)}
    return [field for field in fields for _ in range(2 if field[0] in doubled else 1)]


def _unpacked(fields: list[bytes]) -> list[bytes]:
    head = b"\xa2\x02"
    one_by_one = [b"\xa0\x02" + bytes([n]) for f in fields if f[:2] == head for n in f[3:]]
    return [field for field in fields if field[:2] != head] + one_by_one


def _unnamed(fields: list[bytes]) -> list[bytes]:
    return [field for field in fields if field[0] not in (1 << 3 | 2, 3 << 3 | 2)]


def _unknown(fields: list[bytes]) -> list[bytes]:
    return [b"\xf8\x7f\x05", *fields, b"\xf8\x7f\x06"]


def _grouped(fields: list[bytes]) -> list[bytes]:
    return [*fields, b"\xfb\x3f\x08\x01\xfc\x3f"]


def _renamed(fields: list[bytes]) -> list[bytes]:
    metadata = 7 << 3 | 2
    more = b"\x12\x05later"
    return [f if f[0] != metadata else encode_field(7, f[2:] + more) for f in fields]


@pytest.mark.parametrize(
    "change", [_renamed, _reversed, _doubled, _unpacked, _unnamed, _unknown, _grouped]
)
def test_fields_that_stand_elsewhere(
    change: Callable[[list[bytes]], list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ALLOW_VARIABLE, "1")
    proto = parse(HEAD + BODIES["metadata"] + "}\n")
    for computation in proto.computations:
        for number, row in enumerate(computation.instructions, 1):
            row.id = number
    data = _rewritten(proto.SerializeToString(), (3, 2), change)
    module = load(data)
    assert module.untouched() is not None
    assert module.to_bytes() == data
    expected = print_module(load(data).proto)
    monkeypatch.setattr(printer, "_MANY", 0)
    assert print_module(module) == expected


def _rewritten(
    data: bytes, path: tuple[int, ...], change: Callable[[list[bytes]], list[bytes]]
) -> bytes:
    """A message whose parts on the path have other fields."""
    fields = list(wire.fields(data))
    if not path:
        return b"".join(change([data[field.offset : field.end] for field in fields]))
    return b"".join(
        encode_field(field.number, _rewritten(data[field.begin : field.end], path[1:], change))
        if field.number == path[0]
        else data[field.offset : field.end]
        for field in fields
    )


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"op_name": ""},
        {"op_name": "x" * 70, "op_type": 't"', "source_line": -3, "deduplicated_name": "\n"},
        {"op_name": "a['b']\\ é\x7f", "profile_type": [1, 7]},
        {"op_type": 'op_name="x"', "op_name": 'op_name="x"'},
        {"op_type": "only"},
    ],
)
def test_metadata(metadata: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    proto = parse(HEAD + BODIES["attributes"] + "}\n")
    row = proto.computations[-1].instructions[4]
    row.metadata.CopyFrom(schema.OpMetadata(**metadata))
    row.name, proto.computations[-1].instructions[0].name = "é", "ü"
    expected = print_module(proto)
    monkeypatch.setattr(printer, "_MANY", 0)
    assert print_module(proto) == expected


def _by_proto(module: Module) -> None:
    module.proto.computations[-1].instructions[0].name = "other"


def _by_view(module: Module) -> None:
    module.entry.parameters[0].proto.name = "other"


def _by_method(module: Module) -> None:
    module.computations[-1].add("negate", module.entry.parameters[0].shape, [], name="other")


def _by_attributes(module: Module) -> None:
    attributes: Any = module.frontend_attributes
    attributes["other"] = "1"


@pytest.mark.parametrize("change", [_by_proto, _by_view, _by_method, _by_attributes])
def test_changes_that_nobody_told_of_are_printed(
    change: Callable[[Module], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printer, "_MANY", 0)
    module = load(parse(HEAD + BODIES["attributes"] + "}\n").SerializeToString())
    assert "other" not in print_module(module)
    change(module)
    assert "other" in print_module(module)


def test_operands_and_computations_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    proto = parse(HEAD + BODIES["attributes"] + "}\n")
    proto.computations[-1].instructions[4].operand_ids[0] = 99
    proto.computations[-1].instructions[4].control_predecessor_ids.append(98)
    proto.computations[-1].instructions[5].called_computation_ids[0] = 77
    del proto.computations[0].instructions[2].operand_ids[:]
    expected = print_module(proto)
    assert all(f"<missing {number}>" in expected for number in (99, 98, 77))
    monkeypatch.setattr(printer, "_MANY", 0)
    assert print_module(proto) == expected


def test_values_without_a_name_are_printed_as_numbers() -> None:
    proto = parse("HloModule m\nENTRY e {\nx = f32[2,2] parameter(0)\n"
                  "ROOT d = f32[2,2] dot(x, x), lhs_contracting_dims={1}, "
                  "rhs_contracting_dims={0}, operand_precision={high,high}\n}\n")  # fmt: skip
    dot = proto.computations[0].instructions[1]
    dot.precision_config.operand_precision[0] = 77
    dot.sharding.type = 7
    text = print_module(proto)
    assert "operand_precision={77,high}" in text and "sharding={7}" in text
