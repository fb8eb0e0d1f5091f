"""Reductions, bounds and comparisons that are simpler otherwise."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.running import opcodes

VALUES = np.array([[-0.0, 1.5, np.nan, -np.inf]], np.float32)


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
        ("add", "0", True, True),
        ("add", "1", True, True),
        ("first", "0", False, False),
    ],
)
def test_reductions_of_single_elements(body: str, init: str, exact: bool, fast: bool) -> None:
    reduction = reduce(body, init, "0")
    assert ("reduce" not in opcodes(reduction, "algebraic-simplification", VALUES)) == exact
    assert ("reduce" not in opcodes(reduction, "algebraic-simplification{fast}")) == fast
    assert "reduce" in opcodes(reduce(body, init, "1"), "algebraic-simplification{fast}")


TWICE = """x = f32[2,3,4] parameter(0)
c = f32[] constant(INIT)
i = f32[2,4] reduce(x, c), dimensions={1}, to_apply=BODY
ROOT o = f32[2] reduce(i, c), dimensions={1}, to_apply=OTHER"""


@pytest.mark.parametrize(
    ("body", "outer_body", "init", "exact", "fast"),
    [
        ("max", "max", "-inf", 1, 1),
        ("add", "add", "0", 2, 1),
        ("add", "add", "3", 2, 2),
        ("add", "max", "0", 2, 2),
    ],
)
def test_reductions_of_reductions(
    body: str, outer_body: str, init: str, exact: int, fast: int
) -> None:
    text = TWICE.replace("BODY", body).replace("OTHER", outer_body).replace("INIT", init)
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
    ("mode", "constant", "left"),
    [
        ("EQ", "true", []),
        ("NE", "false", []),
        ("EQ", "false", ["not"]),
        ("NE", "true", ["not"]),
        ("GT", "false", ["constant", "compare"]),
    ],
)
def test_truth_compared_with_what_is_known(mode: str, constant: str, left: list[str]) -> None:
    body = (
        f"p = pred[] parameter(0)\nk = pred[] constant({constant})\n"
        f"ROOT r = pred[] compare(p, k), direction={mode}"
    )
    for value in (False, True):
        assert opcodes(body, "algebraic-simplification", np.array(value)) == left
