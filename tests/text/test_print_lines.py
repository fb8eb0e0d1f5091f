"""Lines made from columns are those that the printer makes one by one."""

from __future__ import annotations

import pytest

from hlo_tools.text import parse, printer
from hlo_tools.text.options import PRESETS
from hlo_tools.text.printer import print_module
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


def test_operands_and_computations_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    proto = parse(HEAD + BODIES["attributes"] + "}\n")
    proto.computations[-1].instructions[4].operand_ids[0] = 99
    proto.computations[-1].instructions[5].called_computation_ids[0] = 77
    del proto.computations[0].instructions[2].operand_ids[:]
    expected = print_module(proto)
    assert "<missing 99>" in expected and "<missing 77>" in expected
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
