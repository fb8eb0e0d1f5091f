"""Attention of one position with a long cache, against jaxlib: few rows of many heads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from neff.compiler.record import Record
from neff.options import CompileOptions
from tests.compiler.compiling import check

pytestmark = pytest.mark.jax

Array = np.ndarray[Any, Any]
BF16 = ml_dtypes.bfloat16


def arrays(dtype: Any, *shapes: tuple[int, ...], seed: int = 0) -> list[Array]:
    draw = np.random.default_rng((seed, *shapes[0]))
    return [draw.normal(size=shape).astype(dtype) for shape in shapes]


def decode(q: Any, k: Any, v: Any, position: Any = None) -> Any:
    scores = jnp.einsum("bhd,blhd->bhl", q, k, preferred_element_type=jnp.float32) * 0.125
    if position is not None:
        scores = jnp.where(jnp.arange(k.shape[1]) <= position[:, None, None], scores, -jnp.inf)
    weights = jax.nn.softmax(scores).astype(v.dtype)
    return jnp.einsum("bhl,blhd->bhd", weights, v)


def heads_first(q: Any, k: Any, v: Any) -> Any:
    weights = jax.nn.softmax(jnp.einsum("bhd,bhld->bhl", q, k).astype(jnp.float32))
    return jnp.einsum("bhl,bhld->bhd", weights.astype(v.dtype), v)


def grouped(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bhgd,blhd->bghl", q, k).astype(jnp.float32)
    return jnp.einsum("bghl,blhd->bghd", jax.nn.softmax(scores).astype(v.dtype), v)


CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "heads": (decode, ((2, 4, 64), *((2, 1000, 4, 64),) * 2)),
    "one-sequence": (decode, ((1, 9, 96), *((1, 520, 9, 96),) * 2)),
    "heads-first": (heads_first, ((2, 5, 32), *((2, 5, 2100, 32),) * 2)),
    "grouped": (grouped, ((2, 4, 3, 64), *((2, 600, 4, 64),) * 2)),
}


@pytest.mark.parametrize("dtype", (np.float32, BF16), ids=("float32", "bfloat16"))
@pytest.mark.parametrize("name", CASES)
def test_numbers(name: str, dtype: Any) -> None:
    function, shapes = CASES[name]
    for seed in (1, 2):
        record = Record()
        tolerance = 5e-2 if dtype == BF16 else 2e-5
        check(function, *arrays(dtype, *shapes, seed=seed), record=record, tolerance=tolerance)
        kernels = {kernel for unit in record.units for kernel in unit.kernels}
        assert "few_row_products" in kernels
        rules = {rewrite.rule for rewrite in record.rewrites}
        assert ("heads-joined" in rules) == (name != "heads-first")


def test_positions_of_a_run() -> None:
    for positions in ((3, 700), (999, 0)):
        inputs = arrays(np.float32, (2, 4, 64), *((2, 1000, 4, 64),) * 2)
        check(decode, *inputs, np.array(positions, np.int32), tolerance=2e-5)


def test_infinities_stay_in_their_head() -> None:
    q, k, v = arrays(BF16, (2, 4, 64), *((2, 600, 4, 64),) * 2)
    k[0, 7, 1, 3], v[1, 5, 2, 0], v[1, 6, 0, 1] = np.inf, -np.inf, np.nan
    check(decode, q, k, v, tolerance=5e-2)


@pytest.mark.parametrize("target", ("trn1", "trn3"))
def test_targets_and_both_cores(target: str) -> None:
    inputs = arrays(BF16, (2, 6, 64), *((2, 700, 6, 64),) * 2)
    lnc = 2 if target == "trn3" else 1
    for level in (1, 3):
        options = CompileOptions(optlevel=level, lnc=lnc)
        check(decode, *inputs, target=target, tolerance=5e-2, options=options)
