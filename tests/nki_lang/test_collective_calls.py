"""Calls of nki.collectives: what is recorded and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lang.collectives as ncc
import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.base.errors import NkiExecutionError, NkiValidationError
from nki_lang.execute import simulate
from nki_lang.kernel import jit
from tests.nki_lang.specimen import refused, spec, trace, tracing

FOUR = ncc.ReplicaGroup([[0, 1, 2, 3]])


def hbm(*shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype, nl.shared_hbm)


def sb(*shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype)


def meta(rows=3, ranks=4):
    return hbm(rows, ranks, dtype=nl.uint32)


def test_replica_groups():
    assert ncc.ReplicaGroup([0, 1]).replica_groups == [[0, 1]]
    assert ncc.ReplicaGroup(replica_groups=((0,), (1,))).nki_operand() == ((0,), (1,))
    for wrong in ([[0, 1], [1, 2]], [[0, 0]], [[-1, 0]]):
        with pytest.raises(NkiValidationError, match="NKI-REPLICA-GROUP"):
            ncc.ReplicaGroup(wrong)


def test_every_collective_becomes_one_instruction():
    def kernel(x):
        a, big = hbm(16, 8), hbm(64, 8)
        ncc.all_reduce([a], [hbm(16, 8)], FOUR, nl.add)
        ncc.all_gather([a], [big], FOUR, 0)
        ncc.all_gather_v([a], [big], FOUR, meta())
        ncc.reduce_scatter([big], [a], FOUR, 0, nl.maximum)
        ncc.all_to_all([big], [hbm(64, 8)], FOUR, 0)
        ncc.all_to_all_v([a], [big], FOUR, meta(4), has_rdispls=True)
        ncc.collective_permute([a], [hbm(16, 8)], [(0, 1), (1, 0)], name="swap")
        ncc.collective_permute_implicit([[a]], [[hbm(16, 8)]], FOUR)
        ncc.collective_permute_implicit_reduce([[a]], [[a]], [[hbm(16, 8)]], FOUR, nl.add)
        rank = ncc.rank_id()
        ncc.collective_permute_implicit_current_processing_rank_id(1, FOUR)
        return x[rank].storage and x

    traced = trace(kernel, spec(4, 4))
    assert traced.has_collectives and not trace(lambda x: x, spec(4, 4)).has_collectives
    instructions = list(traced.instructions())
    assert [i.op for i in instructions] == [
        "all_reduce", "all_gather", "all_gather_v", "reduce_scatter", "all_to_all",
        "all_to_all_v", "collective_permute", "collective_permute_implicit",
        "collective_permute_implicit_reduce", "rank_id",
        "collective_permute_implicit_current_processing_rank_id",
    ]  # fmt: skip
    assert instructions[0].operands["replica_group"] == ((0, 1, 2, 3),)
    assert instructions[0].operands["op"] == "add"
    assert instructions[6].operands["source_target_pairs"] == ((0, 1), (1, 0))
    assert instructions[6].name == "swap"
    assert instructions[7].operands["srcs_by_channel"][0][0].tensor.buffer == nl.shared_hbm
    assert instructions[7].operands["channel_ids"] == (0,)


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("NKI-COLLECTIVE", lambda: ncc.all_reduce([hbm(4, 4)], [sb(4, 4)], FOUR, nl.add)),
        ("NKI-COLLECTIVE", lambda: ncc.all_reduce([sb(4, 4)] * 2, [sb(4, 4)] * 2, FOUR, nl.add)),
        ("NKI-COLLECTIVE", lambda: ncc.all_reduce([hbm(4, 4)] * 2, [hbm(4, 4)], FOUR, nl.add)),
        ("NKI-OPERATOR", lambda: ncc.all_reduce([hbm(4, 4)], [hbm(4, 4)], FOUR, nl.multiply)),
        ("NKI-OPERAND", lambda: ncc.all_reduce(hbm(4, 4), [hbm(4, 4)], FOUR, nl.add)),
        ("NKI-COLLECTIVE", lambda: ncc.all_gather([hbm(4, 4)], [hbm(8, 4)], FOUR, 0)),
        ("NKI-COLLECTIVE", lambda: ncc.all_gather([hbm(4, 4)], [hbm(4, 16)], FOUR, 1)),
        ("NKI-BUFFER", lambda: ncc.all_to_all([sb(4, 4)], [sb(4, 4)], FOUR, 0)),
        ("NKI-COLLECTIVE",
         lambda: ncc.collective_permute([hbm(4, 4)], [hbm(4, 4)], [(0, 1), (0, 2)])),
        ("NKI-COLLECTIVE",
         lambda: ncc.collective_permute_implicit([[hbm(4, 4)]], [[hbm(4, 4)]], FOUR, [1])),
        ("NKI-COLLECTIVE",
         lambda: ncc.all_to_all_v([hbm(4, 4)], [hbm(4, 4)], FOUR, meta(3, 2))),
        ("NKI-DTYPE",
         lambda: ncc.all_to_all_v([hbm(4, 4)], [hbm(4, 4)], FOUR, hbm(3, 4, dtype=nl.int32))),
        ("NKI-PRIORITY",
         lambda: ncc.all_reduce([hbm(4, 4)], [hbm(4, 4)], FOUR, nl.add, priority=1)),
    ],
)  # fmt: skip
def test_wrong_calls(code, call):
    with tracing(), refused(code):
        call()


def test_gathers_in_sbuf_work_along_either_dimension():
    with tracing() as builder:
        ncc.all_gather([sb(16, 8)], [sb(64, 8)], FOUR, 0)
        ncc.all_gather([sb(16, 8)], [sb(16, 32)], FOUR, 1)
        assert [i.operands["collective_dim"] for i in builder.body] == [0, 1]


@pytest.mark.parametrize(
    "groups", [[[0, 0]], [[-1, 0]], [[0.5, 1]], "01", [[0], 1], [["0"]], 3], ids=str
)
def test_groups_that_are_none(groups):
    with refused("NKI-REPLICA-GROUP"):
        ncc.ReplicaGroup(groups)


WRONG_CALLS = [
    lambda a, b, big: ncc.all_reduce([a], [b], None, nl.add),
    lambda a, b, big: ncc.all_reduce([a], [b], "01", nl.add),
    lambda a, b, big: ncc.all_reduce([a], [big], PAIR, nl.add),
    lambda a, b, big: ncc.all_to_all([a], [big], PAIR, 0),
    lambda a, b, big: ncc.collective_permute([a], [big], [(0, 1)]),
    lambda a, b, big: ncc.collective_permute_implicit([[a]], [[big]], PAIR),
]
PAIR = ncc.ReplicaGroup([[0, 1]])


@pytest.mark.parametrize("call", WRONG_CALLS)
def test_wrong_calls_are_told_before_anything_runs(call):
    with tracing(), refused("NKI-COLLECTIVE", "ncc."):
        a, b = (nl.ndarray((4, 8), nl.float32, nl.hbm) for _ in range(2))
        call(a, b, nl.ndarray((8, 8), nl.float32, nl.hbm))


def swapped(first, second):
    """A kernel of two cores, each of which sends another tile."""

    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        core = nl.program_id(0)
        shape, dtype = (first, second)[core]
        tile, received = nl.zeros(shape, dtype), nl.ndarray(shape, dtype, nl.sbuf)
        nisa.sendrecv(tile, received, 1 - core, 1 - core, 0)
        nl.store(out, nl.load(x))
        return out

    return kernel


@pytest.mark.parametrize("second", [((4, 4), nl.float32), ((4, 8), nl.int32)])
def test_cores_exchange_tiles_of_one_kind(second):
    kernel = jit(swapped(((4, 8), nl.float32), second))[2]
    x = np.zeros((4, 8), np.float32)
    for run in (kernel, simulate(kernel)):
        with pytest.raises(NkiExecutionError, match="NKI-SENDRECV") as caught:
            run(x)
        assert caught.value.location.file == __file__


def allocates_more(core):
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        nl.store(out, nl.load(x))
        if nl.program_id(0) == core:
            nl.ndarray((4, 4), nl.float32, nl.shared_hbm)
        return out

    return kernel


def returns_another(x):
    a, b = (nl.ndarray(x.shape, x.dtype, nl.shared_hbm) for _ in range(2))
    nl.store(a, nl.load(x))
    nl.store(b, nl.load(x))
    return b if nl.program_id(0) else a


@pytest.mark.parametrize("kernel", [allocates_more(0), allocates_more(1), returns_another])
def test_cores_that_diverge_are_told_in_both_ways(kernel):
    launched = jit(kernel)[2]
    for run in (launched, simulate(launched)):
        with refused("NKI-CORES-DIVERGE"):
            run(np.zeros((4, 8), np.float32))
