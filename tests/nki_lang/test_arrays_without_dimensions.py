"""Arguments and results of no dimension, whatever the kernel is called with."""

from __future__ import annotations

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

from hlo_tools.frameworks.numpy_kernel import NumpyKernel

THREE = np.array(3, np.float32)


@nki.jit
def copied(a: Any) -> Any:
    result = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(result, a)
    return result


@nki.jit
def increased(a: Any) -> Any:
    result = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.add(nl.load(a.reshape((1, 1))), 1)
    nl.store(result.reshape((1, 1)), tile)
    return result


WAYS = {"call": nki.jit, "simulate": nki.simulate, "framework": lambda k: NumpyKernel(func=k)}


@pytest.mark.parametrize("mode", WAYS)
def test_numpy(mode: str) -> None:
    for kernel, expected in ((copied, 3), (increased, 4)):
        result = WAYS[mode](kernel)(THREE)
        assert (result.shape, float(result)) == ((), expected)


@pytest.mark.jax
def test_jax() -> None:
    import jax

    result = jax.jit(increased)(THREE)
    assert (result.shape, float(result)) == ((), 4)


@pytest.mark.torch_xla
def test_torch() -> None:
    import torch

    result = increased(torch.tensor(3.0))
    assert (result.shape, float(result)) == ((), 4)
