"""Spellings of jaxlib 0.12, which jaxlib 0.10 neither writes nor reads.

The texts are what jaxlib 0.12.0.1 prints of modules that were written for this test.
"""

from __future__ import annotations

import pytest

from hlo_tools.ir.module import Module
from hlo_tools.text import parse, print_module
from hlo_tools.verify import verify
from tests.text.test_agreement import agree

ADD = "%add (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n" \
    "  ROOT %c = f32[] add(%a, %b)\n}\n\n"  # fmt: skip
GROUPS = "replica_groups={{0,1},{2,3}}"

LINES = {
    "exp2": "f32[8]{0} exp2(%x), result_accuracy={mode=highest}",
    "log2": "f32[8]{0} log2(%x)",
    "topk": "(f32[8]{0}, s32[8]{0}) topk(%x), k=8, largest=true, is_stable=true",
    "reduce": f"f32[8]{{0}} collective-reduce(%x), {GROUPS}, to_apply=%add",
    "global ids": f"f32[8]{{0}} collective-reduce(%x), channel_id=1, {GROUPS}, "
    "use_global_device_ids=true, to_apply=%add",
    "dynamic root": f"f32[8]{{0}} collective-reduce(%x, %r), {GROUPS}, has_dynamic_root=true, "
    "to_apply=%add",
    "two roots": f"(f32[8]{{0}}, f32[8]{{0}}) collective-reduce(%x, %x, %r2), {GROUPS}, "
    "has_dynamic_root=true, to_apply=%add",
    "broadcast": f"f32[8]{{0}} collective-broadcast(%x, %r), {GROUPS}, has_dynamic_root=true",
}


def text_of(line: str) -> str:
    return (
        f"HloModule m, replica_count=4\n\n{ADD}ENTRY %e {{\n  %x = f32[8]{{0}} parameter(0)\n"
        "  %r = s32[1]{0} parameter(1)\n  %r2 = s32[2]{0} parameter(2)\n"
        f"  ROOT %o = {line}\n}}\n"
    )


@pytest.mark.parametrize("name", LINES)
def test_lines_are_read_verified_and_printed(name: str) -> None:
    module = parse(text_of(LINES[name]))
    assert not verify(Module(module))
    assert f"ROOT %o = {LINES[name]}\n" in print_module(module)
    assert parse(print_module(module)) == module


@pytest.mark.xla_text
@pytest.mark.parametrize(
    "accuracy",
    ["mode=highest", "mode=default", "tolerance={atol=0,rtol=0.5,ulps=2}",
     "tolerance={atol=1e-09,rtol=0.1,ulps=0}", "tolerance={}"],
)  # fmt: skip
def test_the_accuracy_of_a_result_is_printed_as_xla_prints_it(accuracy: str) -> None:
    agree(
        "HloModule m\nENTRY e { x = f32[4] parameter(0)\n y = f32[4] sqrt(x)\n ROOT r = f32[4] tan(x), "
        f'control-predecessors={{y}}, origin={{{{"q"}}}}, result_accuracy={{{accuracy}}} }}'
    )


def test_a_root_that_is_the_first_device_may_be_stated() -> None:
    stated = text_of(LINES["reduce"].replace(", to_apply", ", has_dynamic_root=false, to_apply"))
    assert parse(stated) == parse(text_of(LINES["reduce"]))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"f32[8]{{0}} collective-broadcast(%x, %r2), {GROUPS}, has_dynamic_root=true", "as roots"),
        (f"f32[8]{{0}} collective-broadcast(%r), {GROUPS}, has_dynamic_root=true", "as roots"),
        (f"s32[2]{{0}} collective-reduce(%r2), {GROUPS}, to_apply=%add", "f32[]"),
        (f"f32[4]{{0}} collective-reduce(%x), {GROUPS}, to_apply=%add", "f32[4]"),
        (
            "f32[8]{0} collective-reduce(%x), replica_groups={{0,0}}, to_apply=%add",
            "more than once",
        ),
        ("s32[8]{0} exp2(%x)", "s32[8]"),
        ("s32[2]{0} log2(%r2)", "s32"),
    ],
)
def test_wrong_lines_are_found(line: str, message: str) -> None:
    (finding, *_) = verify(Module(parse(text_of(line))))
    assert message in finding.message


def test_a_mesh_of_one_device_has_two_spellings() -> None:
    line = "f32[8]{{0}} sqrt(%x), sharding={{{}[device_id=3]}}"
    older, newer = (parse(text_of(line.format(w))) for w in ("maximal_mesh", "single_device"))
    assert older == newer
    pair = '(f32[8]{{0}}, f32[8]{{0}}) tuple(%x, %x), sharding={{{{{0}[device_id=0]}}, {{{0}[device_id=3], metadata={{{{op_name="a"}}}}}}}}'
    older, newer = (parse(text_of(pair.format(w))) for w in ("maximal_mesh", "single_device"))
    assert older == newer
