"""Attention as one kernel: where the pattern is recognized, and its numbers against jaxlib."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from hlo_tools.types.element_types import BY_NAME
from neff.compiler.assembly.assemble import Parts, assemble
from neff.compiler.graph.bands import Band
from neff.compiler.graph.nodes import Node
from neff.compiler.graph.views import View, row_major
from neff.compiler.lowering.lowerer import Lowerer
from neff.compiler.lowering.products.attention import attention_task
from neff.compiler.lowering.products.attention_spec import F32, Spec
from neff.compiler.lowering.tiles.task import Port
from neff.compiler.record import Record
from neff.compiler.rewrites import attention as rule
from neff.options import CompileOptions
from neff.program import Variable
from nki_lang.base.targets import TARGETS as BY_TARGET
from tests.compiler.compiling import check, run

pytestmark = pytest.mark.jax

Array = np.ndarray[Any, Any]
BF16 = ml_dtypes.bfloat16


@pytest.fixture
def any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let short attention be the kernel too, which a unit over rows computes as fast."""
    monkeypatch.setattr(rule, "MIN_SCORES", {"bf16": 128 * 128, "f32": 128 * 128})
    monkeypatch.setattr(rule, "MIN_UNMASKED_SCORES", 128 * 128)
    monkeypatch.setattr(rule, "MIN_GRADIENT_SCORES", 128 * 128)


def arrays(dtype: Any, *shapes: tuple[int, ...], seed: int = 0, spread: float = 1.0) -> list[Array]:
    draw = np.random.default_rng((seed, *shapes[0]))
    return [(draw.normal(size=shape) * spread).astype(dtype) for shape in shapes]


def heads(length: int, keys: int = 0, groups: int = 2, count: int = 2, depth: int = 32) -> Any:
    """Shapes (batch, length, heads, depth) of queries, keys and values."""
    shape = (1, keys or length, count, depth)
    return (1, length, count * groups, depth), shape, shape


def causal(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def windowed(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.dot_product_attention(q, k, v, local_window_size=(100, 30))


def einsum(fill: float, offset: int = 0) -> Callable[..., Any]:
    """Attention that a model writes with einsum, of which query i sees the keys to i + offset."""

    def run(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.float32(np.sqrt(q.shape[-1]))
        rows, columns = (jax.lax.broadcasted_iota(jnp.int32, scores.shape[2:], d) for d in (0, 1))
        scores = jnp.where(columns > rows + offset, jnp.asarray(fill, scores.dtype), scores)
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)

    return run


def biased(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.matmul(q * 0.25, k.swapaxes(-1, -2))
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    weights = jax.nn.softmax(scores + jnp.where(mask, 0.0, -jnp.inf), -1)
    return jnp.matmul(weights, v)


def is_one_kernel(function: Callable[..., Any], inputs: list[Array], **options: Any) -> bool:
    record = Record()
    tolerance = 5e-2 if inputs[0].dtype == BF16 else 1e-5
    check(function, *inputs, record=record, tolerance=tolerance, **options)
    return "attention" in {rewrite.rule for rewrite in record.rewrites}


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "causal": (causal, heads(300)),
    "several-groups": (causal, heads(1016, groups=1, count=1)),
    "windowed": (windowed, heads(700, groups=1, count=1)),
    "finite-fill": (einsum(-1e9), heads(260, groups=1)),
    "infinite-fill": (einsum(-np.inf), heads(260, groups=1, depth=128)),
    "lowest-fill": (einsum(float(np.finfo(np.float32).min), 5), heads(130, 200, groups=1)),
    "bias": (biased, ((2, 3, 200, 16),) * 3),
    "deep": (causal, heads(140, groups=1, count=1, depth=160)),
}


@pytest.mark.usefixtures("any_length")
@pytest.mark.parametrize("dtype", (np.float32, BF16), ids=("float32", "bfloat16"))
@pytest.mark.parametrize("name", CASES)
def test_numbers(name: str, dtype: Any) -> None:
    function, shapes = CASES[name]
    for seed, spread in ((1, 1.0), (2, 1.5)):
        assert is_one_kernel(function, arrays(dtype, *shapes, seed=seed, spread=spread))


@pytest.mark.usefixtures("any_length")
@pytest.mark.parametrize("target", ("trn1", "trn3"))
@pytest.mark.parametrize("dtype", (np.float32, BF16), ids=("float32", "bfloat16"))
def test_targets_and_levels(target: str, dtype: Any) -> None:
    inputs = arrays(dtype, *heads(260, groups=1, count=1))
    options = CompileOptions(optlevel=3)
    assert is_one_kernel(causal, inputs, target=target, options=options)
    assert not is_one_kernel(causal, inputs, target=target, options=CompileOptions(optlevel=1))


def test_both_cores() -> None:
    options = CompileOptions(lnc=2)
    assert is_one_kernel(causal, arrays(BF16, *heads(520)), options=options)


def test_short_attention_stays_a_unit_over_rows() -> None:
    for dtype, length in ((BF16, 255), (np.float32, 600)):
        assert not is_one_kernel(causal, arrays(dtype, *heads(length, groups=1, count=1, depth=16)))


def test_a_mask_that_is_no_band_stays_a_unit_over_rows() -> None:
    def attend(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k)
        rows, columns = (jax.lax.broadcasted_iota(jnp.int32, scores.shape, d) for d in (2, 3))
        scores = jnp.where(columns % 7 <= rows, scores, jnp.asarray(-1e9, scores.dtype))
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)

    assert not is_one_kernel(attend, arrays(BF16, *heads(260, groups=1, count=1)))


@pytest.mark.usefixtures("any_length")
def test_heads_and_batch_may_be_one_dimension_of_the_products() -> None:
    """As PyTorch writes it: products of (batch * heads), softmax of (batch, heads)."""

    def attend(q: Any, k: Any, v: Any) -> Any:
        flat = [x.reshape(6, 160, 16) for x in (q, k, v)]
        scores = (flat[0] @ flat[1].swapaxes(-1, -2)).reshape(2, 3, 160, 160) * 0.25
        scores = jnp.where(jnp.tril(jnp.ones((160, 160), bool)), scores, -jnp.inf)
        weights = jax.nn.softmax(scores, -1).reshape(6, 160, 160)
        return (weights @ flat[2]).reshape(2, 3, 160, 16)

    for seed in (1, 2):
        assert is_one_kernel(attend, arrays(np.float32, *((2, 3, 160, 16),) * 3, seed=seed))


@pytest.mark.usefixtures("any_length")
@pytest.mark.parametrize("is_negated", (False, True))
def test_rows_without_scores_that_the_band_excludes(is_negated: bool) -> None:
    """PyTorch's softmax of masked scores is zero in rows of minus infinities."""

    def attend(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * 0.25
        mask = jnp.tril(jnp.ones(scores.shape[2:], bool))
        scores = scores + jnp.where(mask, 0.0, -jnp.inf)
        empty = scores == -jnp.inf
        empty = ~(~empty).any(-1, keepdims=True) if is_negated else empty.all(-1, keepdims=True)
        return jnp.einsum("bhqk,bkhd->bqhd", jnp.where(empty, 0, jax.nn.softmax(scores, -1)), v)

    assert is_one_kernel(attend, arrays(np.float32, *heads(140, groups=1)))


def reference(q: Any, k: Any, v: Any, spec: Spec) -> Array:
    """Attention of (queries, depth), (keys, depth) and (keys, columns), row by row in float64."""
    rows: list[Array] = []
    for number, query in enumerate(q.astype(np.float64)):
        distances = number - np.arange(len(k))
        low = -len(k) if spec.band.low is None else spec.band.low
        high = len(q) if spec.band.high is None else spec.band.high
        visible = (low <= distances) & (distances <= high)
        scores = k[visible].astype(np.float64) @ query * spec.scale
        weights = np.exp(scores - scores.max())
        rows.append(weights @ v[visible] / weights.sum())
    return np.array(rows)


@pytest.mark.parametrize("span", (128, 256))
@pytest.mark.parametrize("is_resident", (True, False), ids=("resident", "streamed"))
@pytest.mark.parametrize("band", (Band(0), Band(-3, 140), Band(None, 90), Band()), ids=str)
def test_spans_of_keys(span: int, is_resident: bool, band: Band) -> None:
    """Maxima and sums of several spans are corrected; scores grow from span to span, and shrink."""
    queries, keys = 300, 410
    for seed, slope in ((1, 30.0), (2, -30.0)):
        q, k, v = arrays(np.float32, (queries, 16), (keys, 16), (keys, 24), seed=seed)
        q[:, 0], k[:, 0] = 1.0, slope * np.arange(keys) / keys
        shapes = {"q": q.shape, "k": k.shape, "v": v.shape, "out": (queries, 24)}
        left, right, values, out = (
            Port(View(name, shape, row_major(shape)), F32) for name, shape in shapes.items()
        )
        spec = Spec(left, right, values, out, 0, 0.5, band, F32, F32, True, span, is_resident)
        parts = Parts("attention", BY_TARGET["trn2"], 1)
        kinds = dict.fromkeys(("q", "k", "v"), "input") | {"out": "output"}
        parts.variables = {
            name: Variable(name, kinds[name], F32, shape) for name, shape in shapes.items()
        }
        parts.inputs, parts.outputs = ["q", "k", "v"], ["out"]
        lowerer = Lowerer(parts)
        lowerer.call(attention_task(spec), Node("attention", (), (queries, 24), BY_NAME["f32"]))
        (actual,) = run(assemble(parts), [q, k, v])
        np.testing.assert_allclose(actual, reference(q, k, v, spec), rtol=2e-5, atol=2e-5)
