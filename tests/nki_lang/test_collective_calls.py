"""Calls of nki.collectives: what is recorded and what is refused."""

from __future__ import annotations

import pytest

import nki_lang.collectives as ncc
import nki_lang.language as nl
from nki_lang.errors import NkiValidationError
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

    made = trace(kernel, spec(4, 4))
    assert made.has_collectives and not trace(lambda x: x, spec(4, 4)).has_collectives
    instructions = list(made.instructions())
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
