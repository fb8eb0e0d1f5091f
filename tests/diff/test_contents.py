"""Instructions are compared without the ignored fields, as if protobuf had cleared them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import Message

import hlo_tools
from hlo_tools import schema
from hlo_tools.diff import diff_modules
from hlo_tools.diff.contents import FIELDS, contents
from hlo_tools.outline import Outline
from hlo_tools.text import parse

WHO = (
    "id", "name", "operand_ids", "called_computation_ids", "control_predecessor_ids",
    "comparison_type", "comparison_order",
)  # fmt: skip
SOURCES = sorted((Path(__file__).parents[1] / "passes" / "golden").glob("*.hlo"))


def module() -> Any:
    """Instructions with fields of every length and number, unknown ones and empty messages."""
    message = schema.HloModuleProto(name="m", entry_computation_id=1)
    body = message.computations.add(name="main", id=1, root_id=1)
    for number in range(300):
        row = body.instructions.add(name="x" * (number % 150), id=number, opcode=f"op{number % 3}")
        row.shape.dimensions.extend([number % 2] * (number % 5))
        row.metadata.op_name = "y" * (number * 70 % 40000)
        row.metadata.source_line = number % 2
        row.operand_ids.extend(range(number % 140))
        row.custom_call_target = "t" * (number % 2)
        row.backend_config_payload.value = b"p" * (number % 3)
        if number % 4 == 0:
            row.window.SetInParent()
        if number % 6 == 0:
            row.sharding.SetInParent()
        if number % 7 == 0:
            row.MergeFromString(b"\xa2\x3f\x02ab")  # field 1012, which no schema has
    body.instructions[7].literal.f32s.extend([1.5] * 40000)
    body.instructions[10].literal.f32s.extend([2.5] * 40000)
    return message


def cleared(row: Any, ignored: tuple[str, ...]) -> bytes:
    copy = type(row)()
    copy.CopyFrom(row)
    for name in (*WHO, *(field for kind in ignored for field in FIELDS[kind])):
        copy.ClearField(name)
    for descriptor, value in copy.ListFields():  # an empty sharding means replicated
        if (
            isinstance(value, Message)
            and not value.ByteSize()
            and "sharding" not in descriptor.name
        ):
            copy.ClearField(descriptor.name)
    return copy.SerializeToString(deterministic=True)


@pytest.mark.parametrize("ignored", [(), ("metadata",), ("literal", "shape"), tuple(FIELDS)])
def test_fields_that_make_no_difference_are_cut_out(ignored: tuple[str, ...]) -> None:
    source = module()
    outlined = list(contents(Outline(source.SerializeToString(deterministic=True)), ignored))
    expected = [cleared(row, ignored) for row in source.computations[0].instructions]
    small = [position for position, text in enumerate(expected) if len(text) < 1 << 16]
    assert [outlined[n] for n in small] == [expected[n] for n in small]
    assert len(set(outlined)) == len(set(expected))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_instructions_of_modules_are_alike_as_their_messages_are(source: Path) -> None:
    text = source.read_text().split("// becomes")[0].partition("\n")[2]
    proto = parse(text)
    outlined = list(contents(Outline(proto.SerializeToString(deterministic=True)), ("metadata",)))
    rows = [row for body in proto.computations for row in body.instructions]
    assert outlined == [cleared(row, ("metadata",)) for row in rows]


@pytest.mark.parametrize("differs", [False, True])
def test_constants_that_stay_in_the_file_are_compared(tmp_path: Path, differs: bool) -> None:
    modules: list[hlo_tools.Module] = []
    for iteration in range(2):
        values = np.arange(5000, dtype=np.float32)
        values[4000] += iteration * differs
        source = hlo_tools.Module.new("constants")
        body = source.add_computation("main")
        literal = hlo_tools.literal_of(values)
        body.set_root(body.add("constant", literal.shape, literal=literal.proto))
        path = tmp_path / f"{iteration}.pb"
        source.save(path)
        modules.append(hlo_tools.load(path, leave_constants=1000))
        assert modules[-1].has_kept_constants
    difference = diff_modules(*modules)
    assert difference.is_equal is not differs
    if differs:
        [change] = difference.computations[0].changed[0].changes
        assert "1 of 5000 elements differ" in change.after


def test_instructions_may_stand_behind_their_users_and_wait_for_each_other() -> None:
    text = """HloModule m
ENTRY %main { %x = f32[2]{0} parameter(0)
 %a = f32[2]{0} negate(%x)
 %b = f32[2]{0} abs(%x), control-predecessors={%a}
 ROOT %c = f32[2]{0} add(%a, %b) }"""
    before, after = parse(text), parse(text)
    rows = after.computations[0].instructions
    rows.sort(key=lambda row: row.opcode)
    difference = diff_modules(hlo_tools.Module(before), hlo_tools.Module(after))
    assert difference.is_equal
    del next(row for row in rows if row.opcode == "abs").control_predecessor_ids[:]
    difference = diff_modules(hlo_tools.Module(before), hlo_tools.Module(after))
    [change] = difference.computations[0].changed[0].changes
    assert (change.field, change.before, change.after) == ("control-predecessors", "%a", "")
