"""Rows that exceed SBUF are read in blocks, once or once a pass; numbers are those of jaxlib."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from neff.compiler import compile
from neff.compiler.record import Record
from neff.options import CompileOptions
from neff.timing import estimate
from scripts.bench.bench_quality import crossing_bytes
from tests.compiler.compiling import check, lowered

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

pytestmark = pytest.mark.jax

RESIDENT, STREAMED = 28_100, 60_000
"""Columns of float32 that stay in SBUF from pass to pass, and columns that do not."""


def layer_norm(x: Any, gain: Any) -> Any:
    centered = x - x.mean(-1, keepdims=True)
    return centered * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * gain


def masked_softmax(x: Any, gain: Any) -> Any:
    return jax.nn.softmax(jnp.where(gain > 0.5, -jnp.inf, x), axis=-1)


def cross_entropy(x: Any, gain: Any) -> Any:
    labels = jnp.arange(x.shape[0]) * 977 % x.shape[1]
    chosen = jnp.take_along_axis(jax.nn.log_softmax(x), labels[:, None], axis=1)
    return -(chosen[:, 0] * gain[: x.shape[0]]).mean()


def scaled_by_the_largest(x: Any, gain: Any) -> Any:
    return x / jnp.abs(x).max(-1, keepdims=True) + (x * gain).mean(-1)[:, None]


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "softmax": lambda x, gain: jax.nn.softmax(x * gain, axis=-1),
    "log_softmax": lambda x, gain: jax.nn.log_softmax(x + gain, axis=-1),
    "logsumexp": lambda x, gain: jax.nn.logsumexp(x * gain, axis=-1) - x.min(-1),
    "layer norm": layer_norm,
    "masked softmax": masked_softmax,
    "scaled by the largest": scaled_by_the_largest,
    "cross entropy": cross_entropy,
    "gradient of cross entropy": jax.grad(cross_entropy),
    "gradient of layer norm": jax.grad(lambda x, gain: (layer_norm(x, gain) ** 3).sum()),
}


def drawn(seed: int, rows: int, columns: int, dtype: str = "float32") -> tuple[Any, Any]:
    draws = np.random.default_rng(seed)
    x = draws.standard_normal((rows, columns)) * 3
    return jnp.asarray(x, dtype), jnp.asarray(draws.random(columns), dtype)


@pytest.mark.parametrize("columns", [RESIDENT, STREAMED])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_long_rows_is_right(name: str, columns: int) -> None:
    for seed, target in ((1, "trn2"), (2, "trn1")):
        arguments = drawn(seed, 33, columns)
        check(FUNCTIONS[name], *arguments, tolerance=2e-5, target=target)


@pytest.mark.parametrize("name", ["softmax", "layer norm"])
def test_bfloat16_rows_are_right(name: str) -> None:
    for seed in (3, 4):
        arguments = drawn(seed, 33, 2 * STREAMED, "bfloat16")
        check(FUNCTIONS[name], *arguments, tolerance=3e-2, target="trn3")


def test_rows_of_infinities_and_nan_are_those_of_jaxlib() -> None:
    x, gain = drawn(5, 40, STREAMED)
    x = x.at[0].set(-jnp.inf).at[1, 7].set(jnp.inf).at[2, 50_000].set(jnp.nan).at[3].set(-1e9)
    x = x.at[4, :STREAMED].set(-jnp.inf).at[4, 30_000].set(300.0)  # blocks of nothing but -inf
    x = x.at[5, 2048:].set(-jnp.inf).at[6].set(-3e38).at[7].set(3e38).at[8, 9].set(3e38)
    x = x.at[9].set(300.0).at[9, 40_000].set(jnp.inf).at[10].set(-300.0).at[11, 0].set(jnp.nan)
    for name in ("softmax", "logsumexp", "log_softmax"):
        check(FUNCTIONS[name], x, gain, tolerance=2e-5)


def test_labels_beyond_a_long_row_are_nowhere() -> None:
    def one_hot(x: Any, labels: Any) -> Any:
        hot = jax.nn.one_hot(labels, x.shape[1], dtype=x.dtype)
        return jax.nn.softmax(x, axis=-1) - hot * 0.125, (hot * x).max(-1)

    for seed in (8, 9):
        x, _ = drawn(seed, 24, STREAMED)
        labels = np.random.default_rng(seed).integers(0, STREAMED, 24).astype(np.int32)
        edges = [
            -1,
            0,
            2047,
            2048,
            STREAMED - 1,
            STREAMED,
            2**24 - 1,
            2**24 + 1,
            2**31 - 1,
            -(2**31),
        ]
        labels[: len(edges)] = edges
        check(one_hot, x, jnp.asarray(labels), tolerance=2e-5)


def test_positions_of_a_long_row_are_not_loaded() -> None:
    def gradient(x: Any, labels: Any) -> Any:
        hot = jnp.where(jnp.arange(STREAMED) == labels[:, None], 1.0, 0.0)
        return jax.nn.softmax(x, axis=-1) - hot

    specs = (
        jax.ShapeDtypeStruct((256, STREAMED), jnp.float32),
        jax.ShapeDtypeStruct((256,), jnp.int32),
    )
    program = compile(lowered(gradient, *specs), target="trn2")
    moved = sum(crossing_bytes(program, core.events) for core in estimate(program).cores)
    assert moved < 3.01 * 256 * STREAMED * 4


def test_both_cores_share_the_rows() -> None:
    for seed in (6, 7):
        arguments = drawn(seed, 140, RESIDENT)
        check(FUNCTIONS["softmax"], *arguments, tolerance=2e-5, options=CompileOptions(lnc=2))


@pytest.mark.parametrize(("columns", "reads"), [(RESIDENT, 1), (STREAMED, 2)])
def test_a_softmax_is_one_kernel_that_reads_hbm_once_or_twice(columns: int, reads: int) -> None:
    record = Record()
    spec = jax.ShapeDtypeStruct((256, columns), jnp.float32)
    program = compile(lowered(jax.nn.softmax, spec), target="trn2", record=record)
    assert program.metadata["statistics"]["kernels"] == 1
    (unit,) = (unit for unit in record.units if unit.members)
    assert ("stay on chip" in unit.choice) == (reads == 1)
    moved = sum(crossing_bytes(program, core.events) for core in estimate(program).cores)
    assert moved == (reads + 1) * 256 * columns * 4
