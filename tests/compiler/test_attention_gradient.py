"""The gradient of attention as one kernel: where it is recognized, and its numbers against jaxlib."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from neff.compiler import compile
from neff.compiler.importing.import_hlo import import_module
from neff.compiler.lowering.products import attention_gradient as lowering
from neff.compiler.record import Record
from neff.compiler.rewrites import attention as rule
from neff.compiler.rewrites.attention import with_attention
from neff.options import CompileOptions
from tests.compiler.compiling import lowered, run

pytestmark = [pytest.mark.jax, pytest.mark.usefixtures("any_length")]

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]
BF16 = ml_dtypes.bfloat16


@pytest.fixture
def any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let short attention be the kernel too."""
    monkeypatch.setattr(rule, "MIN_GRADIENT_SCORES", 128 * 128)


def gradients(attend: Function) -> Function:
    """Return the result of an attention, and the gradients of all operands."""

    def run(q: Any, k: Any, v: Any, slope: Any) -> Any:
        result, backward = jax.vjp(attend, q, k, v)
        return result, *backward(slope)

    return run


def is_one_kernel(
    function: Function, shapes: Any, dtype: Any, *, target: str = "trn2",
    options: CompileOptions | None = None, tolerance: float = 0.0,
) -> bool:  # fmt: skip
    """Compare with jaxlib in float32, twice, relative to the largest element of each result."""
    record, tolerance = Record(), tolerance or (1e-5 if dtype == np.float32 else 1.2e-2)
    specs = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    program = compile(lowered(function, *specs), target=target, record=record, options=options)
    oracle = jax.jit(function)
    for seed in (1, 2):
        draw = np.random.default_rng(seed)
        inputs = [(draw.normal(size=shape) * seed).astype(dtype) for shape in shapes]
        expected = oracle(*(array.astype(np.float32) for array in inputs))
        for result, reference in zip(run(program, inputs), jax.tree.leaves(expected), strict=True):
            reference = np.asarray(reference, np.float64)
            error = np.abs(result.astype(np.float64) - reference).max()
            assert error <= tolerance * np.abs(reference).max()
    return "attention-gradient" in {rewrite.rule for rewrite in record.rewrites}


def causal(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def windowed(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.dot_product_attention(q, k, v, local_window_size=(70, 30))


def full(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.dot_product_attention(q, k, v, scale=0.3)


def by_hand(q: Any, k: Any, v: Any, *, fill: float, is_added: bool) -> Any:
    """Without ``jax.nn.softmax``: the maximum and the division have gradients of their own."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    rows, columns = (jax.lax.broadcasted_iota(jnp.int32, scores.shape[2:], d) for d in (0, 1))
    mask = columns <= rows
    scores = scores + jnp.where(mask, 0.0, fill) if is_added else jnp.where(mask, scores, fill)
    weights = jnp.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    return jnp.einsum("bhqk,bkhd->bqhd", weights.astype(v.dtype), v)


def joined_heads(q: Any, k: Any, v: Any) -> Any:
    """Products of (batch * heads), softmax of (batch, heads), queries scaled before."""
    batch, length, count, depth = q.shape
    flat = [x.swapaxes(1, 2).reshape(batch * count, length, depth) for x in (q * 0.25, k, v)]
    scores = jnp.matmul(flat[0], flat[1].swapaxes(-1, -2)).reshape(batch, count, length, length)
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -jnp.inf)
    weights = jax.nn.softmax(scores, -1).reshape(batch * count, length, length)
    return jnp.matmul(weights, flat[2]).reshape(batch, count, length, depth)


def repeated_heads(q: Any, k: Any, v: Any) -> Any:
    """Grouped queries whose keys and values are repeated."""
    k, v = (jnp.repeat(x, q.shape[2] // x.shape[2], axis=2) for x in (k, v))
    return causal(q, k, v)


def shapes(length: int, count: int, keys: int, depth: int, key_heads: int = 0) -> Any:
    side = (1, keys, key_heads or count, depth)
    return (1, length, count, depth), side, side, (1, length, count, depth)


CASES: dict[str, tuple[Function, Any]] = {
    "causal-grouped": (causal, shapes(260, 2, 260, 32, 1)),
    "causal-long": (causal, shapes(1000, 1, 1000, 64)),
    "windowed": (windowed, shapes(600, 1, 600, 32)),
    "lowest-fill": (partial(by_hand, fill=-np.inf, is_added=False), shapes(140, 2, 140, 32)),
    "added": (partial(by_hand, fill=-1e9, is_added=True), shapes(140, 2, 140, 128)),
    "joined-heads": (joined_heads, ((2, 130, 3, 16),) * 3 + ((2, 3, 130, 16),)),
    "repeated-heads": (repeated_heads, shapes(130, 4, 130, 16, 2)),
}


@pytest.mark.parametrize("name", CASES)
def test_numbers(name: str) -> None:
    function, operands = CASES[name]
    assert is_one_kernel(gradients(function), operands, np.float32)


@pytest.mark.parametrize("name", ("causal-grouped", "windowed", "lowest-fill"))
def test_numbers_of_bfloat16(name: str) -> None:
    function, operands = CASES[name]
    assert is_one_kernel(gradients(function), operands, BF16)


def test_without_a_mask() -> None:
    assert is_one_kernel(gradients(full), shapes(150, 2, 640, 32, 1), BF16)


@pytest.mark.parametrize("target", ("trn1", "trn3"))
@pytest.mark.parametrize("dtype", (np.float32, BF16), ids=("float32", "bfloat16"))
def test_targets(target: str, dtype: Any) -> None:
    function, operands = gradients(causal), shapes(200, 1, 200, 32)
    assert is_one_kernel(function, operands, dtype, target=target)


def test_level_1_has_units_over_rows() -> None:
    options = CompileOptions(optlevel=1)
    assert not is_one_kernel(gradients(causal), shapes(200, 1, 200, 32), BF16, options=options)


@pytest.mark.parametrize("kind", ("bf16", "fp16", "tf32", "fp8_e4m3"))
def test_casts_of_products(kind: str) -> None:
    """Exponentials are not transposed as tf32 or fp8: the next more precise type takes their place."""
    options = CompileOptions(auto_cast="matmult", auto_cast_type=kind)
    operands = shapes(140, 1, 140, 16)
    tolerance = 1e-5 if kind == "tf32" else 1.2e-2
    function = gradients(causal)
    assert is_one_kernel(function, operands, np.float32, options=options, tolerance=tolerance)


def test_gradients_that_sbuf_cannot_hold_are_no_kernel() -> None:
    """Gradients of shared keys stay in SBUF while the heads are added up."""
    for length, key_heads, is_one in ((32768, 2, True), (16384, 1, False)):
        operands = shapes(length, 2, length, 128, key_heads)
        specs = [jax.ShapeDtypeStruct(shape, BF16) for shape in operands]
        graph = with_attention(import_module(lowered(gradients(causal), *specs)))
        assert any(node.opcode == "attention-gradient" for node in graph.nodes) == is_one


def test_both_cores() -> None:
    options = CompileOptions(lnc=2)
    assert is_one_kernel(gradients(causal), shapes(140, 2, 140, 32), BF16, options=options)


def test_queries_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """The form for queries that SBUF cannot hold."""
    task = lowering.gradient_task
    small = lambda spec: task(replace(spec, is_resident=False))  # noqa: E731
    monkeypatch.setattr(lowering, "gradient_task", small)
    assert is_one_kernel(gradients(causal), shapes(1100, 1, 1100, 16), BF16)


@pytest.mark.parametrize("which", ((0,), (1,)))
def test_gradients_of_single_operands(which: tuple[int, ...]) -> None:
    def loss(q: Any, k: Any, v: Any, slope: Any) -> Any:
        return jnp.sum(causal(q, k, v) * slope)

    assert is_one_kernel(jax.grad(loss, which), shapes(140, 1, 140, 16), np.float32)


def test_two_layers_and_recomputed_scores() -> None:
    def loss(q: Any, k: Any, v: Any, slope: Any) -> Any:
        layer = jax.checkpoint(causal)
        return jnp.sum(layer(jnp.sin(layer(q, k, v)), k, v) * slope)

    function = jax.value_and_grad(loss, (0, 1, 2))
    assert is_one_kernel(function, shapes(140, 1, 140, 16), np.float32)


def weights_too(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k)
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape[2:], bool)), scores, -1e9)
    weights = jax.nn.softmax(scores, -1)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v), weights


def dropped(q: Any, k: Any, v: Any) -> Any:
    _, weights = weights_too(q, k, v)
    columns = jax.lax.broadcasted_iota(jnp.int32, weights.shape, 3)
    weights = jnp.where(columns % 5 > 0, weights / 0.8, 0)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


def squared(q: Any, k: Any, v: Any) -> Any:
    result, weights = weights_too(q, k, v)
    return result + jnp.einsum("bhqk,bkhd->bqhd", weights * weights, v)


@pytest.mark.parametrize("attend", (dropped, squared), ids=("dropped", "squared"))
def test_what_reads_the_probabilities_otherwise_keeps_them(attend: Function) -> None:
    assert not is_one_kernel(gradients(attend), shapes(130, 1, 130, 16), np.float32)


def test_returned_probabilities_keep_the_scores() -> None:
    def loss(q: Any, k: Any, v: Any, slope: Any) -> Any:
        result, weights = weights_too(q, k, v)
        return jnp.sum(result * slope) + jnp.sum(weights**2)

    assert not is_one_kernel(jax.grad(loss, (0, 1, 2)), shapes(130, 1, 130, 16), np.float32)
