"""Ranks that are interpreted eagerly and meet in collectives."""

import numpy as np
import pytest

import nki_lang.collectives as ncc
import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.base.errors import NkiExecutionError
from nki_lang.execute import simulate_ranks
from nki_lang.kernel import jit

DATA = [np.arange(12, dtype=np.float32).reshape(3, 4) + 100 * rank for rank in range(4)]


@jit
def swapped(x, group):
    """Own rank number times the sum over the group, each core its columns."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    total = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    if nl.program_id(0) == 0:
        ncc.all_reduce(srcs=[x], dsts=[total], replica_group=group, op=nl.add)
    if nl.num_programs(0) == 2:
        nisa.core_barrier(total, (0, 1))
    width = x.shape[1] // nl.num_programs(0)
    columns = nl.ds(nl.program_id(0) * width, width)
    tile = nl.ndarray((x.shape[0], width), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=total[:, columns])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=0.5)
    nisa.dma_copy(dst=out[:, columns], src=tile)
    return out


@pytest.mark.parametrize("cores", [1, 2])
def test_every_rank_gets_the_sum_of_its_group(cores):
    calls = [{"x": x, "group": ncc.ReplicaGroup([[0, 3], [1, 2]])} for x in DATA]
    results = simulate_ranks(swapped[cores], calls)
    for rank, partner in ((0, 3), (1, 2), (2, 1), (3, 0)):
        assert np.array_equal(results[rank], (DATA[rank] + DATA[partner]) / 2)


def test_ranks_that_do_not_meet_are_told_who_waits_where():
    @jit
    def lonely(x, group, skip):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=x)
        if not skip:
            ncc.all_reduce(srcs=[x], dsts=[out], replica_group=group, op=nl.add)
        return out

    group = ncc.ReplicaGroup([[0, 1]])
    with pytest.raises(NkiExecutionError) as error:
        simulate_ranks(lonely, [{"x": DATA[0], "group": group, "skip": bool(n)} for n in range(2)])
    assert error.value.code == "NKI-DEADLOCK"
    assert "rank 0 waits in all_reduce for rank 1" in str(error.value)
