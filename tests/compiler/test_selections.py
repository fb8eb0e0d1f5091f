"""``select-and-scatter``, the gradient of pooling by extremes, against jaxlib."""

from __future__ import annotations

from math import prod
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

import hlo_tools
from hlo_tools.ir.module import Module
from neff.compiler import compile
from tests.compiler.compiling import oracle, run

pytestmark = pytest.mark.jax


def module(case: dict[str, Any]) -> Module:
    kind = case["kind"]
    shape, source = (",".join(map(str, case[name])) for name in ("shape", "source"))
    window = (
        f"size={'x'.join(map(str, case['window']))} stride={'x'.join(map(str, case['strides']))}"
    )
    window += f" pad={'x'.join(f'{low}_{high}' for low, high in case['padding'])}"
    text = f"""HloModule selection
select {{ a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  ROOT c = pred[] compare(a, b), direction={case["direction"]} }}
scatter {{ a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  ROOT c = {kind}[] {case["scatter"]}(a, b) }}
ENTRY main {{ x = {kind}[{shape}] parameter(0)
  s = {kind}[{source}] parameter(1)
  i = {kind}[] constant({case["start"]})
  ROOT r = {kind}[{shape}] select-and-scatter(x, s, i), window={{{window}}}, select=select, scatter=scatter }}"""
    return hlo_tools.load(text.encode())


@st.composite
def selections(draw: st.DrawFn) -> dict[str, Any]:
    """Windows that overlap, meet or leave gaps, with padding that some of them see alone."""
    rank = draw(st.integers(1, 4))
    window = [draw(st.sampled_from((1, 2, 3, 4))) for _ in range(rank)]
    hypothesis.assume(prod(window) <= 36)
    strides = [draw(st.integers(1, 4)) for _ in range(rank)]
    shape = [draw(st.integers(1, {1: 200, 2: 40, 3: 12, 4: 8}[rank])) for _ in range(rank)]
    padding = [(draw(st.integers(0, n - 1)), draw(st.integers(0, n - 1))) for n in window]
    source = [
        (n + low + high - size) // step + 1
        for n, (low, high), size, step in zip(shape, padding, window, strides, strict=True)
    ]
    hypothesis.assume(all(n > 0 for n in source))
    return {
        "kind": draw(st.sampled_from(("f32", "f32", "s32"))),
        "direction": draw(st.sampled_from(("GE", "GT", "LE"))),
        "scatter": draw(st.sampled_from(("add", "add", "add", "maximum", "minimum"))),
        "start": draw(st.sampled_from((0, 0, 3))),
        "shape": shape, "source": source, "window": window, "strides": strides,
        "padding": padding,
        "target": draw(st.sampled_from(("trn1", "trn2", "trn3"))),
    }  # fmt: skip


def arrays(case: dict[str, Any], *, ties: bool) -> list[np.ndarray]:
    """Return operand and source: few values, or no two equal ones; infinities among the floats."""
    generator = np.random.default_rng(prod(case["shape"]))
    dtype = np.float32 if case["kind"] == "f32" else np.int32
    x, s = (generator.integers(-4, 5, case[name]).astype(dtype) for name in ("shape", "source"))
    if not ties:
        x = generator.permutation(x.size).reshape(x.shape).astype(dtype) - x.size // 2
    elif dtype is np.float32:
        x.flat[::5], x.flat[::7] = -np.inf, np.inf
    return [x, s]


def selected_first(case: dict[str, Any], x: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Return the result if the first of equal elements, in row-major order, is selected.

    jaxlib's order depends on the layout that it chooses, so it is no reference for equal elements.
    """
    keeps = {"GE": np.greater_equal, "GT": np.greater, "LE": np.less_equal}[case["direction"]]
    combine = {"add": np.add, "maximum": np.maximum, "minimum": np.minimum}[case["scatter"]]
    result = np.full_like(x, case["start"])
    for position in np.ndindex(*source.shape):
        chosen: tuple[int, ...] | None = None
        for offset in np.ndindex(*case["window"]):
            index = tuple(
                p * step + o - low
                for p, step, o, (low, _) in zip(
                    position, case["strides"], offset, case["padding"], strict=True
                )
            )
            if not all(0 <= i < n for i, n in zip(index, x.shape, strict=True)):
                continue
            if chosen is None or not keeps(x[chosen], x[index]):
                chosen = index
        if chosen is not None:
            result[chosen] = combine(result[chosen], source[position])
    return result


@hypothesis.given(selections())
@hypothesis.settings(
    max_examples=40, deadline=None, derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.filter_too_much],
)  # fmt: skip
def test_selections(case: dict[str, Any]) -> None:
    program = compile(module(case), target=case["target"])
    inputs = arrays(case, ties=False)
    (actual,) = run(program, inputs)
    (expected,) = oracle(module(case), inputs)
    np.testing.assert_array_equal(actual, expected)
    inputs = arrays(case, ties=True)
    (actual,) = run(program, inputs)
    np.testing.assert_array_equal(actual, selected_first(case, *inputs))


def by_definition(x: np.ndarray, source: np.ndarray, window: int, stride: int, low: int) -> Any:
    """Select and scatter in one dimension, with ``>=`` and a sum."""
    result = np.zeros_like(x)
    for number, value in enumerate(source):
        begin = number * stride - low
        inside = [number for number in range(begin, begin + window) if 0 <= number < len(x)]
        best = inside[0]
        for candidate in inside[1:]:
            best = best if x[best] >= x[candidate] else candidate
        result[best] += value
    return result


def test_padding_is_never_kept() -> None:
    """Not even where all else is -inf, or behind a NaN."""
    case = {
        "kind": "f32", "direction": "GE", "scatter": "add", "start": 0, "shape": [9],
        "source": [5], "window": [3], "strides": [2], "padding": [(1, 1)],
    }  # fmt: skip
    source = np.arange(1, 6, dtype=np.float32)
    low = np.full(9, -np.inf, np.float32)
    nan = low.copy()
    nan[[0, 3, 8]] = np.nan
    program = compile(module(case), target="trn2")
    for x in (low, nan):
        (actual,) = run(program, [x, source])
        np.testing.assert_array_equal(actual, by_definition(x, source, 3, 2, 1))
