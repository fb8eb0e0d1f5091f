"""``nki.benchmark`` and ``nki.profile`` of earlier versions."""

from __future__ import annotations

from pathlib import Path

import nki
import numpy as np
import pytest

import neff
from neff.errors import NeffError
from neff.timing import estimate
from tests.profile.programs import softmax, softmax_kernel

X = np.random.default_rng(0).standard_normal((128, 512)).astype(np.float32)


@pytest.fixture(autouse=True)
def on_trn2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")


def test_a_benchmark_is_the_estimated_latency(tmp_path: Path) -> None:
    benchmarked = nki.benchmark(
        warmup=5, iters=10,
        save_neff_name=str(tmp_path / "a.neff"), save_trace_name=str(tmp_path / "a.ntff"),
    )(softmax_kernel)  # fmt: skip
    result = benchmarked(X)
    shifted = np.exp(X - X.max(1, keepdims=True))
    np.testing.assert_allclose(result, shifted / shifted.sum(1, keepdims=True), rtol=1e-4)
    latency = benchmarked.benchmark_result.nc_latency
    expected = estimate(softmax(), statistic="nc-latency").total
    for percentile in (0, 1, 10, 25, 50, 90, 99, 100):
        assert latency.get_latency_percentile(percentile) == expected.value / 1e3
    with pytest.raises(ValueError, match="percentile"):
        latency.get_latency_percentile(42)
    assert "estimated" in repr(latency)
    assert neff.read(tmp_path / "a.neff").target == "trn2"
    assert (tmp_path / "a.profile" / "summary.json").exists()


def test_the_names_of_the_first_namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the documentation of those versions has it, files relative to the current folder."""
    from neuronxcc import nki as old

    monkeypatch.chdir(tmp_path)
    benchmarked = old.benchmark(
        warmup=10, iters=100, save_neff_name="file.neff", save_trace_name="nki.ntff"
    )(softmax_kernel)
    benchmarked(X)
    latency = benchmarked.benchmark_result.nc_latency.get_latency_percentile(99)
    assert latency == estimate(softmax(), statistic="nc-latency").total.value / 1e3
    assert {path.name for path in tmp_path.iterdir()} >= {"file.neff", "nki.profile"}
    assert callable(old.profile)


def test_without_arguments_and_with_a_grid() -> None:
    benchmarked = nki.benchmark(softmax_kernel)[1]
    benchmarked(X)
    assert benchmarked.benchmark_result is not None


def test_a_profile_leaves_its_files(tmp_path: Path) -> None:
    profiled = nki.profile(working_directory=str(tmp_path / "w"))(softmax_kernel)
    profiled(X)
    assert {path.name for path in (tmp_path / "w").iterdir()} == {"file.neff", "profile.profile"}
    with pytest.raises(NeffError, match="overwrite"):
        profiled(X)
    with pytest.raises(ValueError, match="absolute"):
        nki.profile(working_directory="w")


def test_other_names_are_none() -> None:
    with pytest.raises(AttributeError, match="baremetal"):
        nki.baremetal
