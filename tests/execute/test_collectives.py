"""Collectives over ranks in one process."""

import numpy as np
import pytest

import nki_lang.collectives as cc
import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.base.errors import NkiExecutionError
from nki_lang.execute import load, run_ranks
from nki_lang.kernel import jit

RANKS = 4
ALL = cc.ReplicaGroup([list(range(RANKS))])
PAIRS = cc.ReplicaGroup([[0, 2], [3, 1]])
DATA = [np.random.default_rng(rank).standard_normal((8, 3), np.float32) for rank in range(RANKS)]


def launch(func, inputs=None, ranks=RANKS):
    inputs = DATA if inputs is None else inputs
    kernel = jit(func).trace((inputs[0],))
    return [results[0] for results in run_ranks(kernel, [[array] for array in inputs[:ranks]])]


def reducing(op, group):
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        cc.all_reduce([a], [out], group, op)
        return out

    return kernel


@pytest.mark.parametrize(
    ("op", "function"), [(nl.add, np.sum), (nl.maximum, np.max), (nl.minimum, np.min)]
)
def test_all_reduce(op, function):
    for result in launch(reducing(op, ALL)):
        np.testing.assert_allclose(result, function(np.stack(DATA), axis=0), rtol=1e-5)


def test_groups_are_apart():
    results = launch(reducing(nl.add, PAIRS))
    np.testing.assert_allclose(results[0], DATA[0] + DATA[2])
    np.testing.assert_allclose(results[1], DATA[3] + DATA[1])


def test_all_gather_and_reduce_scatter():
    def gather(a):
        out = nl.ndarray((8 * RANKS, 3), dtype=a.dtype, buffer=nl.shared_hbm)
        cc.all_gather([a], [out], ALL, 0)
        return out

    def scatter(a):
        out = nl.ndarray((8 // RANKS, 3), dtype=a.dtype, buffer=nl.shared_hbm)
        cc.reduce_scatter([a], [out], ALL, 0, nl.add)
        return out

    for result in launch(gather):
        np.testing.assert_array_equal(result, np.concatenate(DATA))
    total = np.sum(DATA, axis=0)
    for rank, result in enumerate(launch(scatter)):
        np.testing.assert_allclose(result, total[rank * 2 : rank * 2 + 2], rtol=1e-5, atol=1e-6)


def test_all_to_all():
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        cc.all_to_all([a], [out], ALL, 0)
        return out

    for rank, result in enumerate(launch(kernel)):
        expected = np.concatenate([data[rank * 2 : rank * 2 + 2] for data in DATA])
        np.testing.assert_array_equal(result, expected)


def test_permutations():
    def pairs(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        cc.collective_permute([a], [out], [(0, 3), (3, 1), (1, 0)])
        return out

    def ring(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        cc.collective_permute_implicit([[a]], [[out]], ALL)
        return out

    def reduced(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        cc.collective_permute_implicit_reduce([[a]], [[a]], [[out]], ALL, nl.add)
        return out

    results = launch(pairs)
    np.testing.assert_array_equal(results[3], DATA[0])
    np.testing.assert_array_equal(results[0], DATA[1])
    for rank in range(RANKS):
        np.testing.assert_array_equal(launch(ring)[rank], DATA[rank - 1])
        np.testing.assert_array_equal(launch(reduced)[rank], 2 * DATA[rank - 1])


def test_ranks_know_who_they_are():
    def kernel(a):
        out = nl.ndarray((1, 2), dtype=nl.int32, buffer=nl.shared_hbm)
        tile = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        own_rank = cc.rank_id()
        nisa.register_store(tile, own_rank)
        nisa.dma_copy(dst=out[:, 0:1], src=tile)
        peer_rank = cc.collective_permute_implicit_current_processing_rank_id(1, ALL)
        nisa.register_store(tile, peer_rank)
        nisa.dma_copy(dst=out[:, 1:2], src=tile)
        return out

    for rank, result in enumerate(launch(kernel)):
        assert result.tolist() == [[rank, (rank - 1) % RANKS]]


def test_pieces_of_different_length():
    counts = np.array([[1, 2, 0, 3], [2, 2, 2, 2], [0, 1, 0, 1], [4, 0, 1, 0]])
    starts = np.concatenate([np.zeros((4, 1), int), np.cumsum(counts, axis=1)[:, :-1]], axis=1)

    def kernel(a, meta):
        out = nl.ndarray((RANKS, 6), dtype=a.dtype, buffer=nl.shared_hbm)
        cc.all_to_all_v([a], [out], ALL, meta)
        return out, meta

    arrays = []
    for rank in range(RANKS):
        meta = np.zeros((3, RANKS), np.uint32)
        meta[0], meta[1] = counts[rank], starts[rank]
        arrays.append([DATA[rank], meta])
    traced = jit(kernel).trace(tuple(arrays[0]))
    for rank, (out, meta) in enumerate(run_ranks(traced, arrays)):
        assert meta[2].tolist() == counts[:, rank].tolist()
        for sender in range(RANKS):
            first = starts[sender, rank]
            piece = DATA[sender].reshape(-1)[first : first + counts[sender, rank]]
            np.testing.assert_array_equal(out[sender, : len(piece)], piece)


def test_gathered_pieces_of_different_length():
    def kernel(a, meta):
        out = nl.ndarray((RANKS, 6), dtype=a.dtype, buffer=nl.shared_hbm)
        cc.all_gather_v([a], [out], ALL, meta)
        return out, meta

    arrays = []
    for rank in range(RANKS):
        meta = np.zeros((3, RANKS), np.uint32)
        meta[0, 0], meta[1, 0] = rank + 1, rank
        arrays.append([DATA[rank], meta])
    traced = jit(kernel).trace(tuple(arrays[0]))
    for out, meta in run_ranks(traced, arrays):
        assert meta[2].tolist() == [1, 2, 3, 4]
        for sender in range(RANKS):
            piece = DATA[sender].reshape(-1)[sender : 2 * sender + 1]
            np.testing.assert_array_equal(out[sender, : sender + 1], piece)


def test_too_few_ranks_and_strangers_are_refused():
    with pytest.raises(NkiExecutionError, match="names rank 2, but 2 ranks run"):
        launch(reducing(nl.add, ALL), ranks=2)
    with pytest.raises(NkiExecutionError, match="rank 1 is in none of the replica groups"):
        launch(reducing(nl.add, cc.ReplicaGroup([[0], [2], [3]])))


def test_one_rank_is_a_group_of_its_own():
    traced = jit(reducing(nl.add, cc.ReplicaGroup([[0]]))).trace((DATA[0],))
    np.testing.assert_array_equal(load(traced).run([DATA[0]])[0], DATA[0])


def test_ranks_that_disagree_deadlock_with_a_report():
    def early(a):
        return a

    first = jit(reducing(nl.add, ALL)).trace((DATA[0],))
    second = jit(early).trace((DATA[0],))
    kernels = [first, first, first, second]
    with pytest.raises(
        NkiExecutionError, match=r"rank 0 waits in all_reduce for rank 1.*rank 3 has ended"
    ):
        run_ranks(kernels, [[data] for data in DATA])


def test_mismatched_shapes_are_refused():
    kernels = [jit(reducing(nl.add, ALL)).trace((data,)) for data in DATA]
    odd = np.zeros((2, 3), np.float32)
    kernels[2] = jit(reducing(nl.add, ALL)).trace((odd,))
    with pytest.raises(NkiExecutionError, match="different tensors"):
        run_ranks(kernels, [[DATA[0]], [DATA[1]], [odd], [DATA[3]]])


def test_ranks_of_two_cores_each():
    """Core by core the ranks meet, and the cores of a rank meet each other."""

    def kernel(a):
        out = nl.ndarray((2, 8, 3), dtype=a.dtype, buffer=nl.shared_hbm)
        partial = nl.ndarray((2, 4, 3), dtype=a.dtype, buffer=nl.shared_hbm)
        core = nl.program_id(0)
        cc.all_reduce([a[4 * core : 4 * core + 4, :]], [partial[core]], ALL, nl.add)
        nisa.core_barrier(data=partial, cores=(0, 1))
        for half in range(2):
            tile = nl.ndarray((4, 3), dtype=a.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=partial[half])
            nisa.dma_copy(dst=out[core, 4 * half : 4 * half + 4, :], src=tile)
        return out

    traced = jit(kernel).trace((DATA[0],), grid=2)
    total = np.sum(DATA, axis=0)
    for (out,) in run_ranks(traced, [[data] for data in DATA]):
        np.testing.assert_allclose(out, np.stack([total, total]), rtol=1e-5, atol=1e-6)
