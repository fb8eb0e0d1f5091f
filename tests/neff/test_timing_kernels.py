"""The kernels that the table of docs/timing.md is made with compute what they are named after."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import ml_dtypes
import numpy as np
import pytest

from nki_lang import jit

KERNELS_FILE = Path(__file__).parents[2] / "scripts" / "timing" / "kernels.py"


@pytest.fixture(scope="module")
def kernels() -> ModuleType:
    spec = importlib.util.spec_from_file_location("timing_kernels", KERNELS_FILE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def on_trn2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    scores = q @ k.T / np.sqrt(q.shape[1])
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True) @ v


def test_additions(kernels: ModuleType) -> None:
    a, b = normal(128, 1), normal(128, 1) + 1
    assert np.array_equal(jit(kernels.add_tiled)(a, b, 32), a + b)
    a, b = normal(128, 8), normal(128, 8) + 1
    assert np.array_equal(jit(kernels.add_stream)(a, b, 4), a + b)


@pytest.mark.parametrize("fuses_softmax", [False, True])
def test_attention_over_rows(kernels: ModuleType, fuses_softmax: bool) -> None:
    q, k, v = normal(128, 512), normal(128, 512)[::-1].copy(), normal(128, 512) + 1
    q /= 128
    actual = jit(kernels.attention_rows)(q, k, v, fuses_softmax)
    expected = attention(q.T * np.sqrt(128), k.T, v.T)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_attention(kernels: ModuleType) -> None:
    q, k, v = normal(64, 32), normal(64, 32)[::-1].copy(), normal(64, 32) + 1
    actual = jit(kernels.attention_head)(q, k, v)
    np.testing.assert_allclose(actual, attention(q, k, v), rtol=1e-4, atol=1e-5)
    heads = [np.stack([array, array * 2], axis=1) for array in (q, k, v)]
    actual = jit(kernels.attention_heads)(*heads)
    expected = np.stack([attention(q, k, v), attention(q * 2, k * 2, v * 2)], axis=1)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "depth", "rows", "columns"),
    [
        ("product_blocked", 1024, 512, 1024),
        ("tutorial_tiled", 256, 128, 512),
        ("tutorial_hoisted", 256, 128, 1024),
        ("tutorial_blocked", 256, 256, 1024),
        ("tutorial_fully_blocked", 2048, 2048, 1024),
    ],
)
def test_products(kernels: ModuleType, name: str, depth: int, rows: int, columns: int) -> None:
    lhs_t, rhs = (
        array.astype(ml_dtypes.bfloat16) for array in (normal(depth, rows), normal(depth, columns))
    )
    actual = jit(getattr(kernels, name))(lhs_t, rhs)
    expected = lhs_t.astype(np.float32).T @ rhs.astype(np.float32)
    error = np.abs(actual.astype(np.float32) - expected).max() / np.abs(expected).max()
    assert error < 0.02


def test_a_product_in_blocks(kernels: ModuleType) -> None:
    """Two blocks of columns and of depth, two tiles of rows in a block."""
    lhs_t, rhs = normal(512, 512), normal(512, 1024)
    product = jit(kernels.product_in_blocks)(lhs_t, rhs, 2, 1, 2)
    expected = lhs_t.astype(np.float64).T @ rhs
    np.testing.assert_allclose(product, expected, rtol=1e-4, atol=1e-4)


def test_bandwidth(kernels: ModuleType) -> None:
    x = normal(256, 64).astype(ml_dtypes.bfloat16)
    assert np.array_equal(jit(kernels.copy)(x), x)
    sums = jit(kernels.read)(x, 64)
    np.testing.assert_allclose(sums[:, 0], x[128:].astype(np.float32).sum(axis=1), rtol=1e-5)
    assert not jit(kernels.write)((256, 64), 64).any()
    square = normal(256, 256)
    assert np.array_equal(jit(kernels.transpose)(square), square.T)


def test_every_case_names_a_target_and_a_statistic(kernels: ModuleType) -> None:
    for case in kernels.CASES.values():
        assert case.target in ("trn1", "trn2") and case.statistic in (
            "body",
            "nc-latency",
            "benchmark",
            "profile-total",
        )
