"""Kernels of NKI beta 1 in every execution mode: they are kernels as any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np
import pytest

from neff import write
from neff.compiler import compile_kernel
from neff.runtime import load
from nki_lang import execute, klir
from tests.beta1.test_language import add_rows, blocks_and_grid, numbers

A, B = numbers(300, 64), numbers(300, 64, seed=1)


def test_as_a_neff(tmp_path: Path) -> None:
    location = tmp_path / "add.neff"
    write(compile_kernel(add_rows.trace((A, B))), location)
    (result,) = load(location).run({"a": A, "b": B}).values()
    np.testing.assert_array_equal(result, A + B)


def test_as_klir(tmp_path: Path) -> None:
    location = tmp_path / "add.klir"
    klir.write(add_rows.trace((A, B)), location)
    (result,) = execute.load(klir.read(location)).run([A, B])
    np.testing.assert_array_equal(result, A + B)


@pytest.mark.jax
def test_in_jax() -> None:
    import jax

    doubled = jax.jit(lambda a, b: add_rows(a, b) * 2)(A, B)
    np.testing.assert_array_equal(np.asarray(doubled), (A + B) * 2)
    x = numbers(2, 3, 32, 16)
    factor = np.arange(1, 3, dtype=np.float32)[:, None, None, None]
    expected = (x - x.max(axis=3, keepdims=True)) * factor
    result = blocks_and_grid[2](jax.numpy.asarray(x))
    np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-6)


@nki.jit
def exponentials(x: Any, out: Any) -> None:
    """The style of 2.20: an argument that is stored to is the result."""
    nl.store(out, nl.exp(nl.load(x)))


def test_arguments_that_are_written() -> None:
    x, out = numbers(64, 16), np.zeros((64, 16), np.float32)
    for run in (exponentials, lambda *args: nki.simulate_kernel(exponentials, *args)):
        out[:] = 0
        assert run(x, out) is None
        np.testing.assert_allclose(out, np.exp(x), rtol=1e-5)


def test_with_torch() -> None:
    torch = pytest.importorskip("torch")
    result = add_rows(torch.from_numpy(A), torch.from_numpy(B))
    np.testing.assert_array_equal(result.numpy(), A + B)
    out = torch.zeros(300, 64)
    exponentials(torch.from_numpy(A[:128]), out[:128])
    np.testing.assert_allclose(out[:128].numpy(), np.exp(A[:128]), rtol=1e-5)


@pytest.mark.torch_xla
def test_the_decorator_of_torch() -> None:
    """``nki_jit`` follows the file of the kernel: this one imports beta 1."""
    torch = pytest.importorskip("torch")
    from torch_neuronx.xla_impl.ops import nki_jit

    kernel = nki_jit()(exponentials.func.func)
    x, out = torch.from_numpy(A[:128]), torch.zeros(128, 64)
    kernel(x, out)
    np.testing.assert_allclose(out.numpy(), np.exp(A[:128]), rtol=1e-5)


def test_estimates() -> None:
    @nki.benchmark(warmup=5, iters=10)
    def kernel(a: Any, b: Any) -> Any:
        return add_rows(a, b)

    np.testing.assert_array_equal(kernel(A, B), A + B)
    assert 1 < kernel.benchmark_result.nc_latency.get_latency_percentile(99) < 1000
    assert "add_rows" in str(add_rows.profile(A, B))


def test_an_argument_without_values_is_estimated() -> None:
    """``nt.tensor[shape, dtype]`` describes a tensor; the estimate is that of an array."""
    kernel = nki.benchmark(add_rows)
    described = nt.tensor[[300, 64], nl.float32]
    assert kernel(described, b=described) is None
    estimate = kernel.benchmark_result.nc_latency.get_latency_percentile(50)
    np.testing.assert_array_equal(kernel(A, B), A + B)
    assert kernel.benchmark_result.nc_latency.get_latency_percentile(50) == estimate
    assert nt.tensor[300, 64] is nt.tensor[nt.mutable] is nt.tensor
