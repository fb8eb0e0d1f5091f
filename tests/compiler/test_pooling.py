"""Sums and extremes of windows on chip, of random shapes, against jaxlib."""

from __future__ import annotations

from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from neff.compiler import compile
from neff.compiler.importing.import_hlo import import_module
from tests.compiler.compiling import check, lowered, run

pytestmark = pytest.mark.jax

_LAYOUTS = ("NHWC", "NCHW", "NCW", "NWC", "HW", "NDHWC", "NCDHW")
_STARTS = {"max": -np.inf, "min": np.inf, "add": 0.0}


def is_pool(function: Any, *arguments: Any) -> bool:
    module = lowered(function, *arguments)
    return any(node.opcode == "pool" for node in import_module(module, None).nodes)


@st.composite
def pools(draw: st.DrawFn) -> dict[str, Any]:
    layout = draw(st.sampled_from(_LAYOUTS))
    extents = {"N": (1, 3), "C": (1, 140), "D": (3, 6), "H": (4, 30), "W": (4, 50)}

    def each(still: Any, values: st.SearchStrategy[Any]) -> list[Any]:
        return [still if dim in "NC" else draw(values) for dim in layout]

    return {
        "shape": [draw(st.integers(*extents[dim])) for dim in layout],
        "window": each(1, st.integers(1, 3)),
        "strides": each(1, st.integers(1, 3)),
        "padding": each((0, 0), st.tuples(st.integers(-1, 2), st.integers(0, 2))),
        "holes": each(1, st.sampled_from((1, 1, 1, 2))),
        "dilation": each(1, st.integers(1, 2)),
        "op": draw(st.sampled_from(sorted(_STARTS))),
        "target": draw(st.sampled_from(("trn1", "trn2", "trn3"))),
    }


@hypothesis.given(pools())
@hypothesis.settings(
    max_examples=16, deadline=None, derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.filter_too_much],
)  # fmt: skip
def test_pools(case: dict[str, Any]) -> None:
    import jax
    from jax import lax

    start = np.float32(_STARTS[case["op"]])

    def function(x: Any) -> Any:
        return lax.reduce_window(
            x, start, getattr(lax, case["op"]), case["window"], case["strides"], case["padding"],
            case["holes"], case["dilation"],
        )  # fmt: skip

    x = np.random.default_rng(len(case["shape"])).standard_normal(case["shape"]).astype(np.float32)
    hypothesis.assume(x.size < 1 << 18)
    hypothesis.assume(0 not in jax.eval_shape(function, x).shape)
    if case["op"] != "add":
        x.flat[::11] = np.inf
        x.flat[::13] = -np.inf
    check(function, x, tolerance=1e-5, target=case["target"])


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_a_pool_and_its_gradient(layout: str) -> None:
    """A NaN reaches what sees it; the gradient of a mean fills holes before it."""
    import jax
    from jax import lax

    window = tuple({"H": 2, "W": 2}.get(dim, 1) for dim in layout)

    def mean(x: Any) -> Any:
        return lax.reduce_window(x, np.float32(0), lax.add, window, window, "VALID") / 4

    def largest(x: Any) -> Any:
        return lax.reduce_window(x, -np.float32(np.inf), lax.max, window, window, "SAME")

    shape = tuple({"N": 2, "H": 14, "W": 15, "C": 48}[dim] for dim in layout)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    assert is_pool(mean, x)
    check(jax.grad(lambda x: (mean(x) ** 2).sum()), x, tolerance=1e-5)
    assert is_pool(largest, x)
    check(largest, x)
    x.flat[1234] = np.nan  # jaxlib's own answer depends on how it was vectorised
    (actual,) = run(compile(lowered(largest, x), target="trn2"), [x])
    index = [
        position // 2 if dim in "HW" else position
        for dim, position in zip(layout, _where(x), strict=True)
    ]
    assert list(_where(actual)) == index


def _where(x: np.ndarray) -> tuple[int, ...]:
    """Where the one NaN is."""
    (positions,) = np.argwhere(np.isnan(x))
    return tuple(positions)
