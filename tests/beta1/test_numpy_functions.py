"""NumPy's numbers are operands of tiles; its functions and loops over tiles are refused at the line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import numpy as np
import pytest

from nki_lang import NkiError

Function = Callable[[Any], Any]


def kernel_of(function: Function) -> Any:
    @nki.jit
    def kernel(a: Any) -> Any:
        result = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(result, function(nl.load(a)))
        return result

    return kernel


@pytest.mark.parametrize(
    "function",
    [lambda x: np.float32(2) * x, lambda x: np.float32(1) - x, lambda x: x * np.float64(3)],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_numbers_of_numpy_are_operands(function: Function, seed: int) -> None:
    a = np.random.default_rng(seed).standard_normal((8, 4)).astype(np.float32)
    for run in (nki.simulate_kernel, lambda kernel, *args: kernel(*args)):
        np.testing.assert_allclose(run(kernel_of(function), a), function(a), rtol=1e-6)


@pytest.mark.parametrize("function", [np.exp, np.sum, np.asarray, list])
def test_functions_of_numpy_are_refused(function: Function) -> None:
    """They iterated over the tile without an end."""
    with pytest.raises(NkiError, match="NKI-TENSOR-VALUE") as caught:
        nki.simulate_kernel(kernel_of(function), np.ones((8, 4), np.float32))
    assert "nl." in str(caught.value)
