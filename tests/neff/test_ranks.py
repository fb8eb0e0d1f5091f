"""Ranks of one NEFF that meet in the kernel's collectives."""

import numpy as np
import pytest

import nki_lang.collectives as ncc
import nki_lang.isa as nisa
import nki_lang.language as nl
from hlo_tools.frameworks.numpy_kernel import NumpyKernel
from hlo_tools.ir.loading import load as load_module
from neff.compiler import compile as compile_module
from neff.container import write
from neff.device.frameworks.numpy_calls import call_program
from neff.errors import NeffRuntimeError
from neff.runtime import run_ranks

RANDOM = np.random.default_rng(5)


def shares(x, group, count):
    """Every rank's row, gathered; and the largest of each column over the ranks."""
    gathered = nl.ndarray((count * x.shape[0], x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    largest = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    private = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.private_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=private, src=tile)
    ncc.all_gather(srcs=[private], dsts=[gathered], replica_group=group, collective_dim=0)
    ncc.all_reduce(srcs=[private], dsts=[largest], replica_group=group, op=nl.maximum)
    return gathered, largest


def built(tmp_path, groups, x, grid=()):
    kernel = NumpyKernel("shares", shares, grid, platform_target="trn2")
    size = len(groups[0])
    call = kernel.bind(x, ncc.ReplicaGroup(groups), size)
    program = compile_module(load_module(call_program(call.plan)), target="trn2")
    write(program, tmp_path / "shares.neff")
    return tmp_path / "shares.neff", program


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("groups", [[[0, 1, 2, 3]], [[0, 2], [1, 3]]])
def test_ranks_of_a_neff_meet_in_their_groups(tmp_path, groups, cores):
    xs = [RANDOM.standard_normal((4, 8)).astype(np.float32) for _ in range(4)]
    path, program = built(tmp_path, groups, xs[0], (cores,))
    (input_name,) = program.inputs
    results = run_ranks(path, [{input_name: x} for x in xs])
    for group in groups:
        for rank in group:
            gathered, largest = (results[rank][name] for name in program.outputs)
            assert np.array_equal(gathered, np.concatenate([2 * xs[i] for i in group]))
            assert np.array_equal(largest, np.max([2 * xs[i] for i in group], axis=0))


def test_a_rank_that_is_missing_is_told_at_the_kernels_line(tmp_path):
    x = np.ones((4, 8), np.float32)
    path, program = built(tmp_path, [[0, 1, 2]], x)
    with pytest.raises(NeffRuntimeError) as error:
        run_ranks(path, [{program.inputs[0]: x}] * 2)
    assert error.value.code == "NEFF-EXEC-COLLECTIVE"
    assert "test_ranks.py" in str(error.value)
