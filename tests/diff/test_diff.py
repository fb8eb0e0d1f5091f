"""Differences: none where only names and order differ, and the smallest ones elsewhere."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hlo_tools import HloError, Module
from hlo_tools.cli import main
from hlo_tools.diff import ModuleDiff, diff_modules
from hlo_tools.ir.renumbering import set_ids
from hlo_tools.text import parse

TEXT = """
HloModule layer
%sum { %a = f32[] parameter(0)
 %b = f32[] parameter(1)
 ROOT %r = f32[] add(%a, %b) }
%square { %p = f32[4,4]{1,0} parameter(0)
 ROOT %q = f32[4,4]{1,0} multiply(%p, %p) }
ENTRY %main {
  %x = f32[4,4]{1,0} parameter(0)
  %w = f32[4,4]{1,0} parameter(1)
  %dot = f32[4,4]{1,0} dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/dot" source_file="model.py" source_line=3}
  %two = f32[] constant(2)
  %twos = f32[4,4]{1,0} broadcast(%two), dimensions={}
  %scaled = f32[4,4]{1,0} multiply(%dot, %twos)
  %other = f32[4,4]{1,0} multiply(%scaled, %twos)
  %squared = f32[4,4]{1,0} call(%other), to_apply=%square
  %zero = f32[] constant(0)
  %total = f32[4]{0} reduce(%squared, %zero), dimensions={1}, to_apply=%sum
  %exp = f32[4]{0} exponential(%total)
  %back = f32[4,4]{1,0} broadcast(%exp), dimensions={0}
  ROOT %out = f32[4,4]{1,0} subtract(%squared, %back)
}
"""  # fmt: skip


def module(text: str = TEXT) -> Module:
    return Module(parse(text))


def changed(*replacements: tuple[str, str]) -> Module:
    text = TEXT
    for before, after in replacements:
        assert before in text
        text = text.replace(before, after)
    return module(text)


def rows(difference: ModuleDiff) -> list[tuple[str, str, str, str]]:
    """(instruction, field, before, after) of every change of the first computation."""
    return [
        (pair.left, c.field, c.before, c.after)
        for computation in difference.computations
        for pair in computation.changed
        for c in pair.changes
    ]


def shuffled(seed: int) -> Module:
    """The module under other names, in other orders, with other ids."""
    copied = module()
    chance = random.Random(seed)
    for computation in copied.proto.computations:
        for row in computation.instructions:
            row.name = f"n{chance.randrange(1 << 40)}"
        by_id = {row.id: row for row in computation.instructions}
        order: list[int] = []
        while len(order) < len(by_id):
            ready = [n for n, row in by_id.items() if n not in order and set(row.operand_ids) <= set(order)]  # fmt: skip
            order.append(chance.choice(ready))
        computation.instructions.sort(key=lambda row, order=order: order.index(row.id))
        computation.name = f"c{chance.randrange(1 << 40)}"
    set_ids(copied, chance.choice(["wide", "legacy"]))
    return copied


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1 << 30))
def test_names_ids_and_order_make_no_difference(seed: int) -> None:
    difference = diff_modules(module(), shuffled(seed))
    assert difference.is_equal, rows(difference)
    assert difference.counts == {"alike": 18, "changed": 0, "removed": 0, "added": 0}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("exponential(%total)", "tanh(%total)", ("exp", "opcode", "exponential", "tanh")),
        (
            "broadcast(%exp), dimensions={0}", "broadcast(%exp), dimensions={1}",
            ("back", "dimensions", "{0}", "{1}"),
        ),
        ("%two = f32[] constant(2)", "%two = f32[] constant(3)", ("two", "value", "2", "3")),
        (
            "%out = f32[4,4]{1,0} subtract", "%out = f32[4,4]{0,1} subtract",
            ("out", "shape", "f32[4,4]{1,0}", "f32[4,4]{0,1}"),
        ),
        (
            "subtract(%squared, %back)", "subtract(%scaled, %back)",
            ("out", "operand 0", "%squared", "%scaled"),
        ),
        ("add(%a, %b)", "maximum(%a, %b)", ("r", "opcode", "add", "maximum")),
        (
            "lhs_contracting_dims={1}", "lhs_contracting_dims={0}",
            ("dot", "lhs_contracting_dims", "{1}", "{0}"),
        ),
    ],
)  # fmt: skip
def test_one_change_is_one_difference(
    before: str, after: str, expected: tuple[str, str, str, str]
) -> None:
    difference = diff_modules(module(), changed((before, after)))
    assert [row for row in rows(difference) if "entry" not in row[1]] == [expected]
    assert difference.counts["added"] == difference.counts["removed"] == 0


def test_an_instruction_that_came_between() -> None:
    new = changed(
        ("  %two = ", "  %negative = f32[4,4]{1,0} negate(%dot)\n  %two = "),
        ("multiply(%dot, %twos)", "multiply(%negative, %twos)"),
    )
    difference = diff_modules(module(), new)
    (entry,) = (computation for computation in difference.computations if not computation.is_equal)
    assert entry.added == ("%negative = f32[4,4]{1,0} negate(%dot)",)
    assert rows(difference) == [("scaled", "operand 0", "%dot", "%negative")]
    back = diff_modules(new, module())
    assert back.counts == {"alike": 17, "changed": 1, "removed": 1, "added": 0}


def test_one_of_two_alike_is_removed() -> None:
    new = changed(
        ("  %other = f32[4,4]{1,0} multiply(%scaled, %twos)\n", ""),
        ("call(%other)", "call(%scaled)"),
    )
    counts = diff_modules(module(), new).counts
    assert (counts["removed"], counts["added"]) == (1, 0)


def test_another_computation_is_called() -> None:
    new = changed(
        ("to_apply=%square", "to_apply=%twice"),
        ("%square {", "%twice {"),
        ("multiply(%p, %p)", "add(%p, %p)"),
    )
    assert rows(diff_modules(module(), new)) == [("q", "opcode", "multiply", "add")]


def test_a_computation_of_one_side_only() -> None:
    new = changed((", to_apply=%square", ""), ("call(%other)", "negate(%other)"))
    difference = diff_modules(module(), new)
    assert difference.removed == ()  # still there under its name, called by nobody
    (row,) = [r for r in rows(difference) if r[1] == "opcode"]
    assert row == ("squared", "opcode", "call", "negate")
    less = module(re.sub(r"%square \{.*?\}\n(?=ENTRY)", "", TEXT, flags=re.DOTALL).replace("call(%other), to_apply=%square", "negate(%other)"))  # fmt: skip
    assert diff_modules(module(), less).removed == ("square",)
    assert diff_modules(less, module()).added == ("square",)


def test_metadata_counts_when_asked() -> None:
    new = changed(("source_line=3", "source_line=4"))
    assert diff_modules(module(), new).is_equal
    difference = diff_modules(module(), new, ignore=())
    assert [row[:2] for row in rows(difference)] == [("dot", "metadata")]


def test_names_count_when_asked() -> None:
    new = changed(("%dot", "%product"))
    assert diff_modules(module(), new).is_equal
    assert rows(diff_modules(module(), new, names=True)) == [("dot", "name", "dot", "product")]


@pytest.mark.parametrize(
    ("what", "before", "after"),
    [
        ("layout", "%out = f32[4,4]{1,0} s", "%out = f32[4,4]{0,1} s"),
        ("shape", "%exp = f32[4]{0} e", "%exp = f32[5]{0} e"),
        ("literal", "constant(2)", "constant(3)"),
        ("frontend_attributes", "exponential(%total)", "exponential(%total), frontend_attributes={a=\"b\"}"),
        ("sharding", "exponential(%total)", "exponential(%total), sharding={replicated}"),
        ("backend_config", "exponential(%total)", 'exponential(%total), backend_config="b"'),
    ],
)  # fmt: skip
def test_what_is_left_out(what: str, before: str, after: str) -> None:
    new = changed((before, after))
    assert not diff_modules(module(), new).is_equal
    assert diff_modules(module(), new, ignore=("metadata", what)).is_equal


def test_leaving_out_something_unknown() -> None:
    with pytest.raises(HloError) as caught:
        diff_modules(module(), module(), ignore=("colour",))
    assert caught.value.code == "HLO-ARGUMENT"


def test_large_constants_tell_how_many_elements_differ() -> None:
    text = "HloModule m\nENTRY %e {{ ROOT %c = f32[40]{{0}} constant({{{}}}) }}"
    values = [str(n) for n in range(40)]
    left = module(text.format(", ".join(values)))
    right = module(text.format(", ".join([*values[:38], "7", "8"])))
    ((_, field, _, after),) = rows(diff_modules(left, right))
    assert field == "value"
    assert "2 of 40 elements differ" in after


def test_the_module_itself_differs() -> None:
    new = module(TEXT.replace("HloModule layer", "HloModule layer, input_output_alias={ {}: (0, {}, may-alias) }"))  # fmt: skip
    difference = diff_modules(module(), new)
    assert [change.field for change in difference.changes] == ["input_output_alias"]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_removed_instruction_is_found_under_other_names(data: st.DataObject) -> None:
    """Any instruction replaced by its first operand of the same shape is one removal."""
    new = shuffled(data.draw(st.integers(0, 1 << 20)))
    candidates = [v for v in new.entry if v.operands and v.operands[0].shape == v.shape]
    gone = data.draw(st.sampled_from(range(len(candidates))))
    view = candidates[gone]
    view.replace_uses(view.operands[0])
    view.remove()
    difference = diff_modules(module(), new)
    assert (difference.counts["removed"] >= 1) and not difference.is_equal
    assert difference.counts["added"] == 0


# The command


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "a.hlo").write_text(TEXT)
    (tmp_path / "b.hlo").write_text(TEXT.replace("exponential", "tanh"))
    return str(tmp_path / "a.hlo"), str(tmp_path / "b.hlo")


def test_prints_differences(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *files]) == 1
    out = capsys.readouterr().out.splitlines()[2:]
    assert out == [
        "", "@@ %main @@", "! %exp exponential", "    opcode: exponential -> tanh", "",
        "instructions: 17 alike, 1 changed, 0 removed, 0 added",
    ]  # fmt: skip


def test_equal_modules_print_nothing(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", files[0], files[0]]) == 0
    assert capsys.readouterr().out == ""
    assert main(["diff", *files, "--exit-zero"]) == 0


def test_json(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *files, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["equal"]) == ("nki-hlo/1", False)
    assert document["computations"][0]["changed"][0]["changes"][0]["after"] == "tanh"


def test_html_is_one_page_of_its_own(files: tuple[str, str], tmp_path: Path) -> None:
    out = tmp_path / "diff.html"
    assert main(["diff", *files, "--format", "html", "-o", str(out)]) == 1
    page = out.read_text()
    assert "<td class=new>tanh</td>" in page
    assert "http" not in page and "<script" not in page


def test_html_shows_names_as_text() -> None:
    from hlo_tools.diff.page import render_page

    left, right = module(), changed(("exponential", "tanh"))
    left.entry.find("exp").proto.name = "<script>"
    assert "<script>" not in render_page(diff_modules(left, right))


@pytest.mark.parametrize("words", [["-", "-"], ["a", "b", "--format", "xml"]])
def test_usage_errors(words: list[str]) -> None:
    assert main(["diff", *words]) == 2


# Order of operands


def test_operands_of_a_commutative_operation_in_the_other_order() -> None:
    swapped = changed(("multiply(%dot, %twos)", "multiply(%twos, %dot)"))
    difference = diff_modules(module(), swapped)
    assert rows(difference) == [("scaled", "operand order", "%dot, %twos", "%twos, %dot")]
    assert not difference.is_equal
    assert diff_modules(module(), swapped, ignore=("metadata", "operand-order")).is_equal


def test_operands_of_any_other_operation_in_the_other_order() -> None:
    swapped = changed(("subtract(%squared, %back)", "subtract(%back, %squared)"))
    ignore = ("metadata", "operand-order")
    assert {row[1] for row in rows(diff_modules(module(), swapped, ignore=ignore))} == {
        "operand 0", "operand 1",
    }  # fmt: skip


def test_another_operand_beside_the_other_order_is_all_that_is_told() -> None:
    altered = changed(
        ("multiply(%scaled, %twos)", "multiply(%twos, %dot)"),
        ("multiply(%dot, %twos)", "multiply(%twos, %dot)"),
    )
    changes = rows(diff_modules(module(), altered, ignore=("metadata", "operand-order")))
    assert changes == [("other", "operand 0", "%scaled", "%dot")]


@given(st.integers(0, 1 << 16))
@settings(deadline=None, max_examples=20)
def test_any_order_of_commuting_operands_is_equal_when_ignored(seed: int) -> None:
    shuffled_module = shuffled(seed)
    chance = random.Random(seed)
    swapped = 0
    for computation in shuffled_module.proto.computations:
        for row in computation.instructions:
            if row.opcode in ("add", "multiply") and chance.random() < 0.5:
                swapped += len(set(row.operand_ids)) > 1
                row.operand_ids[:] = list(row.operand_ids)[::-1]
    shuffled_module.touch()
    assert diff_modules(module(), shuffled_module, ignore=("metadata", "operand-order")).is_equal
    messages = rows(diff_modules(module(), shuffled_module))
    fields = [field for _, field, _, _ in messages]
    assert set(fields) <= {"operand order"} and len(fields) <= swapped


TWICE = """
HloModule m
ENTRY main {
  x = f32[4] parameter(0)
  r = f32[4] copy(x)
  first = f32[4] tanh(r)
  second = f32[4] tanh(r)
  a = f32[4] exponential(second)
  b = f32[4] negate(first)
  ROOT out = (f32[4], f32[4]) tuple(a, b)
}
"""


def test_of_two_that_are_one_afterwards_the_namesake_stays() -> None:
    once = TWICE.replace("  second = f32[4] tanh(r)\n", "").replace("(second)", "(first)")
    for after in (once, once.replace("  r = f32[4] copy(x)\n", "").replace("(r)", "(x)")):
        difference = diff_modules(module(TWICE), module(after))
        [entry] = difference.computations
        assert [text.split()[0] for text in entry.removed if "tanh" in text] == ["%second"]
        assert not entry.added


def test_names_find_what_has_another_element_type() -> None:
    small = TWICE.replace("f32", "bf16").replace("x = bf16[4]", "x = f32[4]")
    small = small.replace("r = bf16[4] copy(x)", "r = bf16[4] convert(x)")
    [entry] = diff_modules(module(TWICE), module(small)).computations
    assert not [text for text in (*entry.removed, *entry.added) if "tanh" in text]
    pairs = {change.left: change.right for change in entry.changed}
    assert pairs["first"] == "first" and pairs["second"] == "second"


def test_colours_only_where_they_are_wanted(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--color", "always", "diff", *files]) == 1
    shown = capsys.readouterr().out
    assert main(["diff", *files]) == 1
    plain = capsys.readouterr().out
    assert "\x1b[" in shown and "\x1b[" not in plain
    assert re.sub(r"\x1b\[\d*m", "", shown) == plain


def test_empty_messages_are_none_but_a_sharding_is_one() -> None:
    """XLA's readers of text fill in messages that its writers leave out."""
    text = "HloModule m\nENTRY e { x = f32[4] parameter(0)\n ROOT n = f32[4] negate(x) }"
    left, right = Module(parse(text)), Module(parse(text))
    row = right.entry.root.proto
    for name in ("sparsity_config", "window", "precision_config"):
        getattr(row, name).SetInParent()
    assert diff_modules(left, right).is_equal
    row.sharding.SetInParent()
    [entry] = diff_modules(left, right).computations[0].changed
    assert [change.field for change in entry.changes] == ["sharding"]


@pytest.mark.parametrize(
    ("layout", "value", "alike"),
    [("{0,1}", "{{0,1,2},{3,4,5}}", True), ("{1,0}", "{{0,1,2},{3,4,5}}", True),
     ("{0,1}", "{{0,2,4},{1,3,5}}", False), ("{1,0}", "{{0,2,4},{1,3,5}}", False)],
)  # fmt: skip
def test_constants_are_compared_by_value_when_layouts_are_ignored(
    layout: str, value: str, alike: bool
) -> None:
    """The third has the same bytes, in another order."""
    text = """HloModule m
    ENTRY e {{ x = f32[2,3]{{1,0}} parameter(0)
     c = f32[2,3]{} constant({})
     ROOT r = f32[2,3]{{1,0}} add(x, c) }}"""
    left, right = (
        Module(parse(text.format(*layout_and_value)))
        for layout_and_value in (("{1,0}", "{{0,1,2},{3,4,5}}"), (layout, value))
    )
    assert diff_modules(left, right, ignore=("layout",)).is_equal == alike
