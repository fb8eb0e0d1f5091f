"""Fields that the schema lacks: refused by what interprets a module, told by what shows it."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlo_tools
import neff
from hlo_tools import schema
from hlo_tools.cli import main
from hlo_tools.errors import HloUnsupportedError
from hlo_tools.evaluate import evaluate
from hlo_tools.ir.dialects import to_dialect
from hlo_tools.ir.module import MANY_INSTRUCTIONS, Module
from hlo_tools.ir.renumbering import set_ids
from hlo_tools.outline.unknown import holds_unknown_fields
from hlo_tools.passes import Pipeline
from hlo_tools.schema.unknown import unknown_fields
from hlo_tools.text import parse
from hlo_tools.verify import Severity, verify

FIELD = b"\xa2\x3f\x02ab"
"""Field 1012, which no schema has."""
NUMBER = b"\x98\x3f\x07"
"""Field 1011, a number."""
GROUP = b"\x93\x3f\x94\x3f"
"""Field 1010, a group."""
CODE = "HLO-UNKNOWN-FIELD"


def text(count: int = 1) -> str:
    rows = "".join(f"  n{number} = f32[2,3] negate(p)\n" for number in range(count))
    return (
        f"HloModule m\nENTRY e {{ p = f32[2,3] parameter(0)\n{rows}  ROOT r = f32[2,3] add(p, p) }}"
    )


def module_with(place: Callable[[Any], Any], field: bytes = FIELD, count: int = 1) -> Any:
    proto = parse(text(count))
    place(proto).MergeFromString(field)
    return proto


def last(proto: Any) -> Any:
    return proto.computations[0].instructions[-1]


PLACES: dict[str, Callable[[Any], Any]] = {
    "HloModuleProto": lambda p: p,
    "HloComputationProto": lambda p: p.computations[0],
    "HloInstructionProto": last,
    "ShapeProto": lambda p: last(p).shape,
    "LayoutProto": lambda p: last(p).shape.layout,
    "OpMetadata": lambda p: last(p).metadata,
    "OpSharding": lambda p: last(p).sharding.tuple_shardings.add(),
    "WindowDimension": lambda p: last(p).window.dimensions.add(),
    "ProgramShapeProto": lambda p: p.computations[0].program_shape,
    "AliasEntryProto": lambda p: p.input_output_alias.entries.add(),
    "InstructionSequence": lambda p: p.schedule.sequences[3],
    "EmptyOptionsProto": lambda p: last(p).empty_options,
}


@pytest.mark.parametrize("count", [1, MANY_INSTRUCTIONS])
@pytest.mark.parametrize("name", PLACES)
def test_a_field_of_every_message_is_seen(name: str, count: int) -> None:
    module = hlo_tools.load(module_with(PLACES[name], count=count).SerializeToString())
    with pytest.raises(HloUnsupportedError, match=f"field 1012 of {name}") as refused:
        module.to_text()
    assert refused.value.code == CODE
    if name not in ("HloModuleProto", "HloComputationProto", "ProgramShapeProto", "AliasEntryProto",
                    "InstructionSequence"):  # fmt: skip
        assert "in the add %r" in refused.value.message
        assert refused.value.place.endswith("%e/%r")


@pytest.mark.parametrize("count", [1, MANY_INSTRUCTIONS])
@pytest.mark.parametrize("field", [FIELD, NUMBER, GROUP], ids=["bytes", "number", "group"])
def test_fields_of_every_wire_type_are_seen(field: bytes, count: int) -> None:
    data = module_with(last, field, count).SerializeToString()
    with pytest.raises(HloUnsupportedError, match="field 101"):
        hlo_tools.load(data).to_text()


def test_columns_and_messages_see_the_same_fields() -> None:
    descriptor = schema.HloModuleProto.DESCRIPTOR
    for location in PLACES.values():
        for field in (b"", FIELD, NUMBER):
            proto = module_with(location, field)
            is_seen = bool(list(unknown_fields(proto)))
            assert is_seen == bool(field)
            assert holds_unknown_fields(proto.SerializeToString(), descriptor) == is_seen


def test_every_field_of_the_schema_is_known() -> None:
    data = parse(text()).SerializeToString()
    assert not holds_unknown_fields(data, schema.HloModuleProto.DESCRIPTOR)


@pytest.mark.parametrize("count", [1, MANY_INSTRUCTIONS])
def test_fields_that_xla_gave_up_are_passed_over(count: int) -> None:
    """Old files have them: a layout's format (4), an instruction's cost (42)."""
    proto = module_with(lambda p: last(p).shape.layout, b"\x20\x01", count)
    last(proto).MergeFromString(b"\xd0\x02\x05")
    module = hlo_tools.load(proto.SerializeToString())
    assert "add" in module.to_text()
    assert not list(verify(module))
    last(proto).MergeFromString(b"\xb2\x05\x00")  # 86, the sparsity of a dot, changes results
    with pytest.raises(HloUnsupportedError, match="field 86"):
        Module(proto).to_text()


def saved(form: str) -> Callable[[Module], object]:
    from hlo_tools.ir.formats import render

    return lambda module: render(module, form)


OPERATIONS: dict[str, Callable[[Module], object]] = {
    "evaluate": lambda m: evaluate(m, [np.zeros((2, 3), np.float32)]),
    "compile": lambda m: neff.compile(m, target="trn2"),
    "text": lambda m: m.to_text(),
    "passes": lambda m: Pipeline.parse("dce").run(m),
    "ids": lambda m: set_ids(m, "legacy"),
    "dialect": lambda m: to_dialect(m, "2024"),
    "edit": lambda m: m.entry.set_root(m.entry.parameters[0]),
    **{form: saved(form) for form in ("text", "json", "pbtxt", "hlo-proto", "proto")},
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_refuses(name: str) -> None:
    data = module_with(last).SerializeToString()
    with pytest.raises(HloUnsupportedError) as refused:
        OPERATIONS[name](hlo_tools.load(data))
    assert refused.value.code == CODE
    OPERATIONS[name](hlo_tools.load(data, allow_unknown_fields=True))


def test_a_message_that_was_changed_is_looked_at_again() -> None:
    module = hlo_tools.load(text().encode())
    module.to_text()
    last(module.proto).MergeFromString(FIELD)
    module.touch()
    with pytest.raises(HloUnsupportedError):
        module.to_text()
    with pytest.raises(HloUnsupportedError):
        evaluate(module, [np.zeros((2, 3), np.float32)])


def test_a_module_that_is_looked_at_is_written_again_as_it_was() -> None:
    data = module_with(last).SerializeToString()
    module = hlo_tools.load(data)
    assert [view.name for view in module.instructions] == ["p", "n0", "r"]
    assert module.to_bytes() == data


@pytest.mark.parametrize("count", [1, MANY_INSTRUCTIONS])
@pytest.mark.parametrize("kind", ["HloProto", "HloSnapshot", "HloUnoptimizedSnapshot"])
def test_messages_around_modules(kind: str, count: int) -> None:
    for inner in (True, False):
        envelope: Any = schema.message(kind)()
        target = envelope.hlo.hlo_module if kind == "HloSnapshot" else envelope.hlo_module
        target.CopyFrom(module_with(last, FIELD if inner else b"", count))
        if not inner:
            envelope.MergeFromString(FIELD)
        module = hlo_tools.load(envelope.SerializeToString())
        with pytest.raises(HloUnsupportedError, match="HloInstructionProto" if inner else "of Hlo"):
            module.to_text()


def test_constants_that_stay_in_the_file(tmp_path: Path) -> None:
    proto = module_with(last)
    constant = proto.computations[0].instructions[1]
    constant.opcode = "constant"
    del constant.operand_ids[:]
    constant.literal.shape.CopyFrom(constant.shape)
    constant.literal.f32s.extend([0.0] * 6)
    path = tmp_path / "m.pb.gz"
    path.write_bytes(gzip.compress(proto.SerializeToString()))
    module = hlo_tools.load(path, leave_constants=8)
    assert module.has_kept_constants
    with pytest.raises(HloUnsupportedError):
        module.to_text()


@pytest.mark.parametrize("count", [1, MANY_INSTRUCTIONS])
def test_the_verifier_lists_them(count: int) -> None:
    proto = module_with(last, count=count)
    proto.computations[0].instructions[0].shape.MergeFromString(NUMBER)
    problems = verify(Module(proto))
    assert [(problem.code, problem.place) for problem in problems] == [
        ("HLO-V044", "%e/%p"),
        ("HLO-V044", "%e/%r"),
    ]
    assert "field 1011 of ShapeProto (shape) in the parameter %p" in problems[0].message
    allowed = verify(Module(proto, allow_unknown_fields=True))
    assert {problem.severity for problem in allowed} == {Severity.warning}


@pytest.mark.parametrize(
    ("command", "interprets"),
    [
        (["show"], False), (["show", "-s"], False), (["stats"], False), (["graph"], False),
        (["diff", "FILE"], False), (["show", "--text"], True), (["convert", "--to", "text"], True),
        (["convert", "-o", "OUT.pb"], True), (["opt", "-p", "dce", "-o", "OUT.pb"], True),
        (["evaluate", "--fill", "zeros"], True), (["slice", "-i", "r", "-o", "OUT.pb"], True),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_commands(
    command: list[str], interprets: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "m.pb"
    file.write_bytes(module_with(last).SerializeToString())
    words = [
        word.replace("OUT", str(tmp_path / "out")).replace("FILE", str(file)) for word in command
    ]
    words.insert(1, str(file))
    code, message = run(words, capsys)
    assert (code == 3) == interprets, message
    assert (f"error[{CODE}]" if interprets else "does not know") in message
    code, message = run([*words, "--allow-unknown-fields"], capsys)
    assert code == 0, message


def run(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    return main(words), capsys.readouterr().err


def test_opcodes_of_newer_versions_are_told_as_such() -> None:
    proto = parse(text())
    last(proto).opcode = "exp10"
    (finding, *_) = verify(Module(proto))
    assert (finding.code, finding.message) == (
        "HLO-V011",
        "the opcode 'exp10' is newer than this version",
    )
    with pytest.raises(hlo_tools.HloTextError, match="newer than this version"):
        parse("HloModule m\nENTRY e { p = f32[] parameter(0)\n ROOT r = f32[] bessel(p) }")
    last(proto).opcode = "ex\x07"
    assert verify(Module(proto))[0].message.startswith("there is no opcode")
