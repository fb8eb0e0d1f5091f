"""NKI_SIMULATOR=1: calls of frameworks are interpreted, and Python code sees values."""

from __future__ import annotations

from typing import Any

import nki
import numpy as np
import pytest

from hlo_tools.frameworks.numpy_kernel import NumpyKernel
from nki_lang.base.errors import NkiValidationError
from nki_lang.frontend.builder import current
from tests.frameworks import sample_kernels

ONES = np.ones((128, 512), np.float32)
SEEN: list[str] = []


def nosy(a: Any, b: Any) -> Any:
    result = sample_kernels.add(a, b)
    if current().eager:
        SEEN.append("values")
    return result


@pytest.fixture(autouse=True)
def simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NKI_SIMULATOR", "1")
    SEEN.clear()


def test_results_are_those_of_the_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = NumpyKernel(func=nosy)
    np.testing.assert_array_equal(kernel(ONES, 2 * ONES), 3 * ONES)
    assert SEEN
    SEEN.clear()
    monkeypatch.setenv("NKI_SIMULATOR", "0")
    np.testing.assert_array_equal(kernel(ONES, 2 * ONES), 3 * ONES)
    assert not SEEN


def test_a_value_that_says_neither_yes_nor_no_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NKI_SIMULATOR", "true")
    for kernel in (NumpyKernel(func=nosy), nki.jit(nosy)):
        with pytest.raises(NkiValidationError, match="NKI_SIMULATOR=true") as caught:
            kernel(ONES, ONES)
        assert caught.value.code == "NKI-SIMULATOR"


def test_in_place_and_several_results() -> None:
    out = np.zeros_like(ONES)
    assert NumpyKernel(func=sample_kernels.add_into)(ONES, ONES, out) is None
    np.testing.assert_array_equal(out, 2 * ONES)
    total, twice = NumpyKernel(func=sample_kernels.sum_and_double)(ONES, 2 * ONES)
    np.testing.assert_array_equal(total, 3 * ONES)
    np.testing.assert_array_equal(twice, 2 * ONES)
    values = ONES.copy()
    NumpyKernel(func=sample_kernels.double_in_place)(values)
    np.testing.assert_array_equal(values, 2 * ONES)


def test_a_grid_of_programs_runs_as_usual() -> None:
    a = np.ones((2, 2, 128, 512), np.float32)
    out = np.zeros_like(a)
    NumpyKernel(func=sample_kernels.add_planes, grid=(2, 2))(a, a, out)
    np.testing.assert_array_equal(out, 2 * a)


@pytest.mark.jax
def test_jax() -> None:
    import jax

    kernel = nki.jit(nosy)
    np.testing.assert_array_equal(jax.jit(lambda a: kernel(a, a))(ONES), 2 * ONES)
    assert SEEN


@pytest.mark.torch_xla
def test_torch() -> None:
    import torch

    ones = torch.ones(128, 512)
    assert torch.equal(nki.jit(nosy)(ones, ones), 2 * ones)
    assert SEEN
