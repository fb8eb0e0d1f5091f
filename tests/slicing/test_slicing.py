"""Slices compute what the whole module computes at the same instructions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hlo_tools import HloError, Module, load
from hlo_tools.cli import main
from hlo_tools.evaluate import Evaluator
from hlo_tools.ir.renumbering import set_ids
from hlo_tools.slicing import (
    extract_slice,
    find_targets,
    grow,
    parse_source,
    select_scope,
    select_source,
)
from hlo_tools.text import parse
from hlo_tools.types.scopes import is_in_scope, scope_names
from hlo_tools.verify import verify

TEXT = """
HloModule layer
%sum { %a = f32[] parameter(0)
 %b = f32[] parameter(1)
 ROOT %r = f32[] add(%a, %b) }
%square { %p = f32[3,4]{1,0} parameter(0)
 ROOT %q = f32[3,4]{1,0} multiply(%p, %p) }
ENTRY %main {
  %x = f32[3,4]{1,0} parameter(0)
  %unused = f32[7]{0} parameter(1)
  %w = f32[4,4]{1,0} parameter(2)
  %dot = f32[3,4]{1,0} dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/dot" source_file="/home/a/model.py" source_line=3}
  %two = f32[] constant(2)
  %twos = f32[3,4]{1,0} broadcast(%two), dimensions={}
  %scaled = f32[3,4]{1,0} multiply(%dot, %twos), metadata={source_file="/home/a/model.py" source_line=4}
  %squared = f32[3,4]{1,0} call(%scaled), to_apply=%square, metadata={source_file="/home/a/other.py" source_line=4}
  %zero = f32[] constant(0)
  %total = f32[3]{0} reduce(%squared, %zero), dimensions={1}, to_apply=%sum, metadata={source_file="/home/a/model.py" source_line=5}
  %back = f32[3,4]{1,0} broadcast(%total), dimensions={0}
  %shifted = f32[3,4]{1,0} subtract(%squared, %back)
  %pair = (f32[3,4]{1,0}, f32[3]{0}) tuple(%shifted, %total)
  ROOT %first = f32[3,4]{1,0} get-tuple-element(%pair), index=0
}
"""  # fmt: skip
NAMES = ("x", "w", "dot", "twos", "scaled", "squared", "total", "back", "shifted", "pair", "first")


@pytest.fixture(params=["wide", "legacy"])
def module(request: pytest.FixtureRequest) -> Module:
    built = Module(parse(TEXT))
    set_ids(built, request.param)
    return built


def all_values(module: Module) -> dict[str, Any]:
    """Every value of the entry for fixed inputs."""
    random = np.random.default_rng(1)
    inputs = [
        random.standard_normal(p.shape.dimensions).astype(np.float32)
        for p in module.entry.parameters
    ]
    values: dict[str, Any] = {}

    def watch(body: Any, row: Any, value: Any) -> None:
        if body.id == module.entry.id:
            values[row.name] = value

    Evaluator(module, watch=watch).run(inputs)
    return values


def leaves(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [leaf for piece in value for leaf in leaves(piece)]
    return [value]


def check_slice(module: Module, names: list[str], operands: int | None, users: int) -> None:
    targets = find_targets(module, names)
    extracted = extract_slice(grow(targets, operands=operands, users=users), targets=targets)
    assert verify(extracted.module) == []
    values = all_values(module)
    results = Evaluator(extracted.module).run([values[view.name] for view in extracted.inputs])
    expected = [values[view.name] for view in extracted.outputs]
    for result, reference in zip(leaves(results), leaves(expected), strict=True):
        np.testing.assert_array_equal(result, reference)
    reparsed = load(extracted.module.to_bytes())
    assert [i.name for i in reparsed.instructions] == [
        i.name for i in extracted.module.instructions
    ]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["wide", "legacy"]),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True),
    st.one_of(st.none(), st.integers(0, 4)),
    st.integers(0, 3),
)
def test_a_slice_computes_the_same(
    ids: str, names: list[str], operands: int | None, users: int
) -> None:
    module = Module(parse(TEXT))
    set_ids(module, ids)
    before = module.to_bytes()
    check_slice(module, names, operands, users)
    assert module.to_bytes() == before


def test_everything_an_instruction_needs(module: Module) -> None:
    extracted = extract_slice(grow(find_targets(module, ["%scaled"])))
    assert [view.name for view in extracted.inputs] == ["x", "w"]
    assert [view.name for view in extracted.outputs] == ["scaled"]
    assert [c.name for c in extracted.module.computations] == ["main"]


def test_called_computations_come_along(module: Module) -> None:
    extracted = extract_slice(grow(find_targets(module, ["total"]), operands=1))
    assert [c.name for c in extracted.module.computations] == ["sum", "square", "main"]


def test_constants_may_be_parameters(module: Module) -> None:
    extracted = extract_slice(find_targets(module, ["scaled"]), constants=False)
    assert [view.name for view in extracted.inputs] == ["dot", "twos"]


def test_users(module: Module) -> None:
    neighborhood = grow(find_targets(module, ["total"]), operands=0, users=1)
    assert {view.name for view in neighborhood} == {"total", "back", "pair"}


def test_inside_a_called_computation(module: Module) -> None:
    extracted = extract_slice(find_targets(module, ["square/q"]))
    assert extracted.module.entry.name == "square"
    assert verify(extracted.module) == []


def test_parameters_only_are_handed_through(module: Module) -> None:
    extracted = extract_slice(find_targets(module, ["x"]))
    assert [view.name for view in extracted.outputs] == ["x"]
    assert verify(extracted.module) == []


@pytest.mark.parametrize(
    ("place", "names"),
    [
        ("model.py:3", {"dot"}),
        ("/home/a/model.py:4-5", {"scaled", "total"}),
        ("a/model.py", {"dot", "scaled", "total"}),
    ],
)
def test_by_source_line(module: Module, place: str, names: set[str]) -> None:
    assert {view.name for view in select_source(module, parse_source(place))} == names


@pytest.mark.parametrize("place", ["odel.py:3", "model.py:99"])
def test_a_line_that_made_nothing(module: Module, place: str) -> None:
    with pytest.raises(HloError) as caught:
        select_source(module, parse_source(place))
    assert caught.value.code == "HLO-NO-INSTRUCTION"


@pytest.mark.parametrize(
    ("names", "code"),
    [(["none"], "HLO-NO-INSTRUCTION"), (["square/q", "dot"], "HLO-ARGUMENT")],
)
def test_names_that_cannot_be_cut_out(module: Module, names: list[str], code: str) -> None:
    with pytest.raises(HloError) as caught:
        find_targets(module, names)
    assert caught.value.code == code


def test_a_name_in_several_computations_must_say_which() -> None:
    module = Module(parse(TEXT))
    for computation in ("sum", "square"):
        module.computation(computation).root.proto.name = "same"
    module.touch()
    with pytest.raises(HloError) as caught:
        find_targets(module, ["same"])
    assert caught.value.code == "HLO-AMBIGUOUS"
    assert "square/same" in caught.value.remedy


def test_nothing_chosen_is_an_error() -> None:
    with pytest.raises(HloError) as caught:
        extract_slice([])
    assert caught.value.code == "HLO-ARGUMENT"


def test_both_parts_of_an_asynchronous_pair_are_taken() -> None:
    module = Module(
        parse(
            "HloModule m\nENTRY %e { %x = f32[4]{0} parameter(0)\n"
            " %s = (f32[4]{0}, f32[4]{0}, u32[]) copy-start(%x)\n"
            " %d = f32[4]{0} copy-done(%s)\n ROOT %n = f32[4]{0} negate(%d) }"
        )
    )
    extracted = extract_slice(find_targets(module, ["d"]))
    assert [view.opcode for view in extracted.module.entry] == [
        "parameter",
        "copy-start",
        "copy-done",
    ]


def test_constants_left_in_the_file_stay_there(tmp_path: Path) -> None:
    values = ", ".join(map(str, range(5000)))
    text = f"HloModule m\nENTRY %e {{ %c = f32[5000]{{0}} constant({{{values}}})\n ROOT %n = f32[5000]{{0}} negate(%c) }}"
    Module(parse(text)).save(tmp_path / "m.pb")
    module = load(tmp_path / "m.pb", leave_constants=100)
    extracted = extract_slice(grow(find_targets(module, ["n"])))
    extracted.module.save(tmp_path / "part.pb")
    (result,) = Evaluator(load(tmp_path / "part.pb")).run([])
    np.testing.assert_array_equal(result, -np.arange(5000, dtype=np.float32))


# The command


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "m.hlo").write_text(TEXT)
    return str(tmp_path / "m.hlo")


def test_prints_text(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["slice", file, "--source", "model.py:3-4"]) == 0
    captured = capsys.readouterr()
    extracted = Module(parse(captured.out))
    assert [view.name for view in extracted.entry.parameters] == ["x", "w"]
    assert captured.err == "6 instructions: %x, %w -> %scaled\n"


def test_writes_a_file(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "part.pb"
    words = ["slice", file, "-i", "total", "--operands", "1", "--users", "1", "-o", str(out)]
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [output["name"] for output in document["outputs"]] == ["total", "back", "pair"]
    assert load(out).entry.root.opcode == "tuple"


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["-i", "dot", "--source", "model.py"],
        ["-i", "dot", "--operands", "some"],
        ["-i", "dot", "--json"],
        ["--source", "model.py:9-3"],
    ],
)
def test_usage_errors(file: str, words: list[str]) -> None:
    assert main(["slice", file, *words]) == 2


def test_lines_that_made_nothing_are_counted_right(module: Module) -> None:
    with pytest.raises(HloError, match=r"comes from model.py, line 99"):
        select_source(module, parse_source("model.py:99"))
    with pytest.raises(HloError, match=r"comes from model.py, lines 98 to 99"):
        select_source(module, parse_source("model.py:98-99"))


SCOPES = {
    "jit(f)/layer3/dot": True,
    "jit(f)/jvp(layer3)/dot": True,
    "jit(f)/transpose(jvp(layer3))/mul": True,
    "jit(f)/jvp(model)/layer3/attention/dot": True,
    "jit(f)/layer30/dot": False,
    "jit(f)/layer3": False,
    "jit(f)/add": False,
    "": False,
}


@pytest.mark.parametrize("op_name", SCOPES)
def test_scopes_are_found_in_both_directions(op_name: str) -> None:
    assert is_in_scope(op_name, "layer3") == SCOPES[op_name]


def test_nested_scopes() -> None:
    name = "jit(train)/transpose(jvp(model))/checkpoint/layer/div(a/b)/dot"
    assert scope_names(name)[1] == ("transpose(jvp(model))", "jvp(model)", "model")
    assert is_in_scope(name, "model/checkpoint") and is_in_scope(name, "train")
    assert is_in_scope(name, "jvp(model)/checkpoint/layer/")
    assert not is_in_scope(name, "model/layer") and not is_in_scope(name, "dot")
    assert is_in_scope(name, "div(a/b)")


def scoped(module: Module) -> Module:
    names = {"dot": "jit(f)/layer/dot", "scaled": "jit(f)/transpose(jvp(layer))/mul"}
    for view in module.entry:
        if view.name in names:
            view.proto.metadata.op_name = names[view.name]
    module.touch()
    return module


def test_a_slice_of_a_scope(module: Module, tmp_path: Path) -> None:
    scoped(module)
    targets = select_scope(module, "layer")
    assert [view.name for view in targets] == ["dot", "scaled"]
    values_by_name = all_values(module)
    piece = extract_slice(grow(targets, operands=0)).module
    values = [values_by_name[view.name] for view in piece.entry.parameters]
    np.testing.assert_array_equal(Evaluator(piece).run(values)[0], values_by_name["scaled"])
    module.save(tmp_path / "m.pb")
    words = ["slice", str(tmp_path / "m.pb"), "--scope", "f/layer", "-o", str(tmp_path / "p.pb")]
    assert main(words) == 0
    names = [view.name for view in load(tmp_path / "p.pb").entry]
    assert {"dot", "scaled"} <= set(names) and "squared" not in names


def test_scopes_that_select_nothing_are_refused(module: Module, tmp_path: Path) -> None:
    with pytest.raises(HloError, match=r"HLO-NO-INSTRUCTION.*has the scope lay"):
        select_scope(scoped(module), "lay")
    with pytest.raises(HloError, match="HLO-ARGUMENT"):
        select_scope(module, "/")
    module.save(tmp_path / "m.pb")
    words = ["slice", str(tmp_path / "m.pb"), "--scope", "layer", "-i", "dot"]
    assert main(words) == 2
