"""Rewriting by patterns."""

from __future__ import annotations

import pytest

from hlo_tools import Module
from hlo_tools.passes import PassError, Pipeline
from hlo_tools.passes.algebraic_simplification import AlgebraicSimplification
from hlo_tools.rewrite.emitting import plain, splat
from hlo_tools.rewrite.patterns import Rules, op, rewrite_all
from hlo_tools.text import parse
from tests.counting import calls_made


def entry_of(body: str) -> Module:
    return Module(parse(f"HloModule m\n\nENTRY main {{\n{body}\n}}\n"))


def opcodes(module: Module) -> list[str]:
    return [view.opcode for view in module.entry]


PAIR = "x = f32[2] parameter(0)\ny = f32[2] parameter(1)\n"


@pytest.mark.parametrize("order", ["negate(x)", "y"])
def test_operands_of_a_commuting_pattern_stand_in_either_order(order: str) -> None:
    operands = "n, y" if order == "y" else "y, n"
    module = entry_of(PAIR + f"n = f32[2] negate(x)\nROOT s = f32[2] add({operands})")
    rule = (
        op("add", "a", op("negate", "b"), commutes=True),
        lambda it, a, b: plain(it, "subtract", it.shape, [a, b]),
    )
    assert rewrite_all(Rules(rule), module.entry) == 1
    assert [operand.name for operand in module.entry.root.operands] == ["y", "x"]


def test_the_same_capture_is_the_same_instruction() -> None:
    module = entry_of(PAIR + "a = f32[2] add(x, y)\nROOT b = f32[2] add(a, a)")
    twice = Rules((op("add", "v", "v"), lambda it, v: plain(it, "sine", it.shape, [v])))
    assert rewrite_all(twice, module.entry) == 1
    assert opcodes(module) == ["parameter", "parameter", "add", "sine"]


def test_tables_are_joined_and_tried_in_order() -> None:
    module = entry_of(PAIR + "ROOT a = f32[2] add(x, y)")
    first = Rules((op("add", "v", "w"), lambda it, v, w: None))
    second = Rules((op("add", "v", "w"), lambda it, v, w: v))
    assert len(first + second) == 2
    assert rewrite_all(first, module.entry) == 0
    assert rewrite_all(first + second, module.entry) == 1
    assert module.entry.root.name == "x"


def test_a_replacement_of_another_shape_or_layout_is_not_taken() -> None:
    module = entry_of("x = f32[2,3]{1,0} parameter(0)\nROOT c = f32[2,3]{0,1} copy(x)")
    assert rewrite_all(Rules((op("copy", "v"), lambda it, v: v)), module.entry) == 0


def test_control_edges_and_shardings_hold_instructions_in_place() -> None:
    module = entry_of(
        PAIR + "a = f32[2] negate(x), sharding={replicated}\nb = f32[2] negate(y)\n"
        "c = f32[2] negate(x), control-predecessors={b}\n"
        "ROOT t = (f32[2], f32[2], f32[2]) tuple(a, b, c)"
    )
    drop = Rules((op("negate", "v"), lambda it, v: v))
    assert rewrite_all(drop, module.entry) == 0


def test_rules_that_go_round_in_circles_are_stopped() -> None:
    module = entry_of(PAIR + "ROOT a = f32[2] sine(x)")
    circle = Rules(
        (op("sine", "v"), lambda it, v: plain(it, "cosine", it.shape, [v])),
        (op("cosine", "v"), lambda it, v: plain(it, "sine", it.shape, [v])),
    )
    with pytest.raises(PassError) as caught:
        rewrite_all(circle, module.entry)
    assert caught.value.code == "HLO-PASS-ENDLESS"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("c = f32[] constant(2)\nROOT b = f32[3] broadcast(c), dimensions={}", 2.0),
        ("c = f32[2] constant({1, 1})\nROOT b = f32[2,1] reshape(c)", 1.0),
        ("ROOT b = f32[2] constant({1, 2})", None),
        ("ROOT b = f32[2] constant({0, -0})", None),
        ("ROOT b = s32[3] iota(), iota_dimension=0", None),
        ("ROOT b = f32[0] constant({})", None),
    ],
)
def test_one_value_everywhere(text: str, expected: float | None) -> None:
    assert splat(entry_of(text).entry.root) == expected


def test_many_uses_of_one_constant_cost_in_proportion() -> None:
    def rewritten(length: int) -> int:
        body = ["x = f32[] parameter(0)", "one = f32[] constant(1)", "v0 = f32[] sine(x)"]
        body += [f"v{n + 1} = f32[] multiply(v{n}, one)" for n in range(length)]
        module = entry_of("\n".join([*body, f"ROOT r = f32[] negate(v{length})"]))
        calls = calls_made(lambda: AlgebraicSimplification().run(module))
        assert opcodes(module) == ["parameter", "sine", "negate"]
        return calls

    rewritten(2)
    assert rewritten(200) < 2.2 * rewritten(100)


def test_what_stands_for_an_instruction_of_its_opcode_has_its_name() -> None:
    text = """HloModule m
    ENTRY main {
      x = f32[3,4] parameter(0)
      y = f32[3,5] parameter(1)
      t = f32[4,3] transpose(x), dimensions={1,0}
      ROOT product = f32[4,5] dot(t, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    }"""
    module = Module(parse(text))
    Pipeline.parse("reshape-transpose-cleaning,auto-cast{which=all}").run(module, verify_each=True)
    product = module.entry.find("product")
    assert product.opcode == "dot" and str(product.shape) == "bf16[4,5]{1,0}"
    names = [view.name for view in module.instructions]
    assert len(names) == len(set(names))
