"""What frameworks write that is simpler otherwise: reductions, comparisons, numbers, products."""

from __future__ import annotations

import numpy as np
import pytest

from hlo_tools import Module
from hlo_tools.evaluate import evaluate
from hlo_tools.passes import Pipeline
from hlo_tools.text import parse

BODIES = """
add { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] maximum(a, b) }
first { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] subtract(a, b) }
"""
VALUES = np.array([[-0.0, 1.5, np.nan, -np.inf]], np.float32)


def opcodes(body: str, pipeline: str, *inputs: np.ndarray) -> list[str]:
    """Opcodes of the entry afterwards, without parameters; results are the same bits."""
    text = f"HloModule m\n{BODIES}\nENTRY main {{\n{body}\n}}"
    wanted = evaluate(Module(parse(text)), inputs) if inputs else []
    module = Module(parse(text))
    Pipeline.parse(f"{pipeline},dce").run(module, verify_each=True)
    found = evaluate(module, inputs) if inputs else []
    for one, other in zip(found, wanted, strict=True):
        assert one.tobytes() == other.tobytes()
    return [view.opcode for view in module.entry if view.opcode != "parameter"]


def reduce(body: str, init: str, dimensions: str) -> str:
    return (
        f"x = f32[1,4] parameter(0)\nc = f32[] constant({init})\n"
        f"ROOT r = f32[{'4' if dimensions == '0' else '1'}] reduce(x, c), "
        f"dimensions={{{dimensions}}}, to_apply={body}"
    )


@pytest.mark.parametrize(
    ("body", "init", "exact", "fast"),
    [
        ("max", "-inf", True, True),
        ("max", "0", False, False),
        ("add", "-0", True, True),
        ("add", "0", False, True),
        ("add", "1", False, False),
        ("first", "0", False, False),
    ],
)
def test_reductions_of_single_elements(body: str, init: str, exact: bool, fast: bool) -> None:
    one = reduce(body, init, "0")
    assert ("reduce" not in opcodes(one, "algebraic-simplification", VALUES)) == exact
    assert ("reduce" not in opcodes(one, "algebraic-simplification{fast}")) == fast
    assert "reduce" in opcodes(reduce(body, init, "1"), "algebraic-simplification{fast}")


TWICE = """x = f32[2,3,4] parameter(0)
c = f32[] constant(INIT)
i = f32[2,4] reduce(x, c), dimensions={1}, to_apply=BODY
ROOT o = f32[2] reduce(i, c), dimensions={1}, to_apply=OTHER"""


@pytest.mark.parametrize(
    ("body", "other", "init", "exact", "fast"),
    [
        ("max", "max", "-inf", 1, 1),
        ("add", "add", "0", 2, 1),
        ("add", "add", "3", 2, 2),
        ("add", "max", "0", 2, 2),
    ],
)
def test_reductions_of_reductions(body: str, other: str, init: str, exact: int, fast: int) -> None:
    text = TWICE.replace("BODY", body).replace("OTHER", other).replace("INIT", init)
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    assert opcodes(text, "algebraic-simplification", x).count("reduce") == exact
    assert opcodes(text, "algebraic-simplification{fast}").count("reduce") == fast


@pytest.mark.parametrize(
    ("operation", "bound", "left"),
    [
        ("maximum(x, bs)", "-inf", []),
        ("minimum(bs, x)", "inf", []),
        ("maximum(x, bs)", "inf", ["constant", "broadcast", "maximum"]),
    ],
)
def test_bounds_beyond_which_there_is_nothing(operation: str, bound: str, left: list[str]) -> None:
    body = (
        f"x = f32[1,4] parameter(0)\nb = f32[] constant({bound})\n"
        f"bs = f32[1,4] broadcast(b), dimensions={{}}\nROOT r = f32[1,4] {operation}"
    )
    assert opcodes(body, "algebraic-simplification", VALUES) == left


@pytest.mark.parametrize(
    ("way", "known", "left"),
    [
        ("EQ", "true", []),
        ("NE", "false", []),
        ("EQ", "false", ["not"]),
        ("NE", "true", ["not"]),
        ("GT", "false", ["constant", "compare"]),
    ],
)
def test_truth_compared_with_what_is_known(way: str, known: str, left: list[str]) -> None:
    body = (
        f"p = pred[] parameter(0)\nk = pred[] constant({known})\n"
        f"ROOT r = pred[] compare(p, k), direction={way}"
    )
    for value in (False, True):
        assert opcodes(body, "algebraic-simplification", np.array(value)) == left


def test_numbers_along_a_dimension_that_are_repeated() -> None:
    body = "i = s32[3] iota(), iota_dimension=0\nROOT b = s32[2,3,4] broadcast(i), dimensions={1}"
    assert opcodes(body, "reshape-transpose-cleaning") == ["iota"]
    module = Module(parse(f"HloModule m\nENTRY e {{\n{body}\n}}"))
    wanted = evaluate(module, [])
    Pipeline.parse("reshape-transpose-cleaning").run(module)
    np.testing.assert_array_equal(evaluate(module, [])[0], wanted[0])


@pytest.mark.parametrize(("order", "left"), [("0,3,1,2", 1), ("0,2,1,3", 2), ("0,1,3,2", 2)])
def test_the_transpose_of_a_product_is_the_product_the_other_way(order: str, left: int) -> None:
    sizes = [[5, 2, 3, 4][int(axis)] for axis in order.split(",")]
    body = (
        "x = f32[5,2,3,7] parameter(0)\ny = f32[5,7,4] parameter(1)\n"
        "d = f32[5,2,3,4] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, "
        "lhs_contracting_dims={3}, rhs_contracting_dims={1}, "
        "operand_precision={high,highest}\n"
        f"ROOT t = f32[{','.join(map(str, sizes))}] transpose(d), dimensions={{{order}}}"
    )
    assert len(opcodes(body, "reshape-transpose-cleaning")) == left
    module = Module(parse(f"HloModule m\nENTRY e {{\n{body}\n}}"))
    generator = np.random.default_rng(0)
    inputs = [generator.normal(size=s).astype(np.float32) for s in ((5, 2, 3, 7), (5, 7, 4))]
    wanted = evaluate(module, inputs)
    Pipeline.parse("reshape-transpose-cleaning").run(module, verify_each=True)
    np.testing.assert_allclose(evaluate(module, inputs)[0], wanted[0], rtol=1e-5, atol=1e-5)
    if left == 1:
        assert "operand_precision={highest,high}" in module.to_text()
