"""How far rounding alone moves results, as the fuzzers count it."""

from __future__ import annotations

import numpy as np
import pytest

from hlo_tools import Module
from hlo_tools.text import parse
from tests.fuzz.drivers.rounding import rounded_runs


def moves(body: str, x: np.ndarray) -> np.ndarray:
    """The largest movement of each element of the last instruction."""
    shape = f"f32[{len(x)}]"
    lines = "\n".join(line.strip().replace("F", shape) for line in body.strip().splitlines())
    module = Module(parse(f"HloModule m\nENTRY main {{\nx = {shape} parameter(0)\n{lines}\n}}"))
    runs = [rounded_run[0] for rounded_run in rounded_runs(module, [x], range(6))]
    return np.max([np.abs(run - runs[0]) for run in runs], axis=0)


X = np.array([3.0, -0.7, 1e9, 1e-3], np.float32)


def test_what_is_exact_does_not_move() -> None:
    assert not moves("n = F negate(x)\n m = F maximum(n, x)\n ROOT t = (F) tuple(m)", X).any()


def test_a_cancelled_sum_moves_by_the_rounding_of_its_terms() -> None:
    moved = moves("y = F multiply(x, x)\n z = F subtract(y, y)\n ROOT t = (F) tuple(z)", X)
    assert np.all(moved > 0) and np.all(moved < 1e-6 * X * X)


def test_a_step_does_not_move() -> None:
    moved = moves("y = F divide(x, x)\n z = F floor(y)\n ROOT t = (F) tuple(z)", X)
    assert not moved.any()


def test_the_extreme_of_zeros_has_any_sign() -> None:
    y = "z = f32[] constant(0)\n y = F clamp(z, x, z)\n w = F atan2(y, y)\n ROOT t = (F) tuple(w)"
    np.testing.assert_allclose(moves(y, np.array([-0.0, 0.0], np.float32)), [np.pi, 0], rtol=1e-6)


def test_a_comparison_may_take_subnormal_numbers_for_zero() -> None:
    text = """HloModule m
    ENTRY main { x = f32[2] parameter(0)
     z = f32[2] subtract(x, x)
     c = pred[2] compare(x, z), direction=EQ
     ROOT t = (pred[2]) tuple(c) }"""
    x = np.array([1e-45, 1.0], np.float32)
    runs = [
        rounded_run[0].tolist() for rounded_run in rounded_runs(Module(parse(text)), [x], range(1))
    ]
    assert runs == [[False, False], [True, False], [True, False], [False, False]]


def test_a_quotient_may_be_a_product_with_an_infinite_reciprocal() -> None:
    text = """HloModule m
    ENTRY main { x = f32[3] parameter(0)
     y = f32[3] divide(x, x)
     ROOT t = (f32[3]) tuple(y) }"""
    x = np.array([1e-45, 1e-38, 3.0], np.float32)
    (actual,) = rounded_runs(Module(parse(text)), [x], range(0))[-1]
    np.testing.assert_allclose(actual, [np.inf, 1, 1], rtol=1e-6)


def test_results_are_those_of_the_evaluator_but_for_the_rounding() -> None:
    from hlo_tools.evaluate import evaluate

    text = """HloModule m
    less { a = f32[] parameter(0)
     b = f32[] parameter(1)
     ROOT r = pred[] compare(a, b), direction=LT }
    ENTRY main { x = f32[64] parameter(0)
     y = f32[64] tanh(x)
     s = f32[64] sort(y), dimensions={0}, to_apply=less
     d = f32[64] multiply(s, s)
     ROOT t = (f32[64]) tuple(d) }"""
    module = Module(parse(text))
    x = np.random.default_rng(3).standard_normal(64).astype(np.float32)
    (expected,) = evaluate(module, [x])
    for (actual,) in rounded_runs(module, [x], range(3))[:3]:
        np.testing.assert_allclose(actual, expected, rtol=1e-6)
        assert not np.array_equal(actual, expected)


def test_casts_round_more() -> None:
    text = """HloModule m
    ENTRY main { x = f32[1] parameter(0)
     y = f32[1] add(x, x)
     z = f32[1] power(y, y)
     ROOT t = (f32[1]) tuple(z) }"""
    module, x = Module(parse(text)), np.array([8.1], np.float32)
    for least, moved in ((0.0, (1e-6, 1e-4)), (4e-3, (0.05, 0.5))):
        runs = rounded_runs(module, [x], range(4), least)[:4]
        move = max(abs(value / np.float64(16.2) ** 16.2 - 1).item() for (value,) in runs)
        assert moved[0] < move < moved[1]


def test_a_total_order_shows_the_sign_of_nan() -> None:
    from tests.fuzz.drivers.rounding import signed_runs

    text = """HloModule m
    above { a = f32[] parameter(0)
     b = f32[] parameter(1)
     ROOT r = pred[] compare(a, b), direction=GT, type=TOTALORDER }
    ENTRY main { x = f32[3] parameter(0)
     y = f32[3] negate(x)
     s = f32[3] sort(y), dimensions={0}, to_apply=above
     ROOT t = (f32[3]) tuple(s) }"""
    x = np.array([1.0, np.nan, -2.0], np.float32)
    positive, negative = (value for (value,) in signed_runs(Module(parse(text)), [x])[:2])
    np.testing.assert_array_equal(positive, np.array([np.nan, 2.0, -1.0], np.float32))
    np.testing.assert_array_equal(negative, np.array([2.0, -1.0, np.nan], np.float32))


@pytest.mark.parametrize("reducer", ["minimum", "maximum"])
def test_the_extreme_of_zeros_has_either_sign(reducer: str) -> None:
    from tests.fuzz.drivers.rounding import signed_runs

    text = f"""HloModule m
    extreme {{ a = f32[] parameter(0)
     b = f32[] parameter(1)
     ROOT r = f32[] {reducer}(a, b) }}
    ENTRY main {{ x = f32[42] parameter(0)
     e = f32[] constant({"inf" if reducer == "minimum" else "-inf"})
     w = f32[41] reduce-window(x, e), window={{size=2}}, to_apply=extreme
     s = s32[41] bitcast-convert(w)
     ROOT t = (s32[41]) tuple(s) }}"""
    signed_one = 1.0 if reducer == "minimum" else -1.0
    x = np.concatenate([np.tile([0.0, -0.0], 20), [-0.0, signed_one]]).astype(np.float32)
    runs = [value < 0 for (value,) in signed_runs(Module(parse(text)), [x])]
    assert all(run[-2:].tolist() == [True, True] for run in runs)  # no 0.0 in these windows
    assert not runs[0][:-2].any() and runs[1][:-2].all()
    assert all(0 < run[:-2].sum() < 39 for run in runs[2:])
