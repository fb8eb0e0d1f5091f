"""Results that a kernel writes in private memory, as operations around the kernel read them."""

from __future__ import annotations

from pathlib import Path

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import hlo_tools
from hlo_tools.frameworks.numpy_kernel import NumpyKernel
from neff import runtime, write
from neff.compiler import compile
from neff.device.frameworks.numpy_calls import call_program

X = np.arange(69).reshape(3, 23)


def copied_to(space):
    def kernel(x):
        tile = nl.ndarray(x.shape, x.dtype, nl.sbuf)
        nisa.dma_copy(tile, x)
        result = nl.ndarray(x.shape, x.dtype, getattr(nl, space))
        nisa.dma_copy(result, tile)
        return result

    return kernel


@pytest.mark.filterwarnings("ignore:.*results belong in nl.shared_hbm")
@pytest.mark.parametrize("space", ["hbm", "private_hbm", "shared_hbm"])
def test_booleans_are_converted_behind_the_kernel(tmp_path: Path, space: str) -> None:
    x = X % 2 == 0
    call = NumpyKernel("kernel", copied_to(space), platform_target="trn2").bind(x)
    program = compile(hlo_tools.load(call_program(call.plan)), target="trn2")
    write(program, tmp_path / "k.neff")
    for by_address in (False, True):
        model = runtime.load(tmp_path / "k.neff", by_address=by_address)
        (actual,) = model.run({program.inputs[0]: x}).values()
        assert np.array_equal(actual, x)
