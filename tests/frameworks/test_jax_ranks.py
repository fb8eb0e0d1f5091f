"""Kernels whose collectives meet between the devices of one JAX program."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from hlo_tools.errors import HloVerifyError
from hlo_tools.kernels import ranks as kernel_ranks
from hlo_tools.kernels.ranks import Place, meet

DEVICES = """
    import jax, numpy as np
    from jax.sharding import Mesh, PartitionSpec as P
    import nki
    import nki.collectives as ncc
    import nki.isa as nisa
    import nki.language as nl

    PAIRS = ncc.ReplicaGroup([[0, 3], [1, 2]])

    @nki.jit
    def shared(x):
        total = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        both = nl.ndarray((2 * x.shape[0], x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
        ncc.all_reduce(srcs=[x], dsts=[total], replica_group=PAIRS, op=nl.add)
        ncc.all_gather(srcs=[x], dsts=[both], replica_group=PAIRS, collective_dim=0)
        return total, both

    @nki.jit
    def numbered(x):
        out = nl.ndarray(x.shape, dtype=nl.int32, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=nl.int32, buffer=nl.sbuf)
        nisa.register_store(tile[0, 0:1], ncc.rank_id())
        nisa.dma_copy(dst=out, src=tile)
        return out

    def twice(x):
        total, _ = shared(x)
        return shared(total + jax.lax.axis_index("x"))

    x = np.arange(48, dtype=np.float32).reshape(8, 6)
    mesh = Mesh(np.array(jax.devices()), ("x",))
    run = jax.jit(jax.shard_map(twice, mesh=mesh, in_specs=P("x"), out_specs=P("x")))
    for _ in range(2):
        total, both = run(x)
        parts = x.reshape(4, 2, 6)
        partner = [3, 2, 1, 0]
        first = [parts[i] + parts[partner[i]] + i for i in range(4)]
        wanted = np.concatenate([first[i] + first[partner[i]] for i in range(4)])
        np.testing.assert_array_equal(total, wanted)
        order = [(min(i, partner[i]), max(i, partner[i])) for i in range(4)]
        gathered = np.concatenate([np.concatenate([first[a], first[b]]) for a, b in order])
        np.testing.assert_array_equal(both, gathered)
    ranks = jax.jit(jax.shard_map(numbered, mesh=mesh, in_specs=P("x"), out_specs=P("x")))
    assert np.asarray(ranks(np.zeros((4, 1), np.float32))).tolist() == [[0], [1], [2], [3]]
    print("done")
"""


@pytest.mark.jax
def test_devices_are_ranks_that_meet(run_script: Any) -> None:
    done = run_script(
        DEVICES, JAX_PLATFORMS="cpu", XLA_FLAGS="--xla_force_host_platform_device_count=4"
    )
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr


def test_a_rank_that_does_not_come_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_ranks, "_PATIENCE_SECONDS", 0.0)
    with pytest.raises(HloVerifyError, match="rank 0, 2 of 3 did not call") as error:
        meet("kernel", Place(run=1, rank=1), 3, [], lambda ranks: [])
    assert error.value.code == "HLO-KERNEL-RANKS"
    with pytest.raises(HloVerifyError, match="device 3 runs a kernel"):
        meet("kernel", Place(run=2, rank=3), 3, [], lambda ranks: [])


def test_a_failure_reaches_every_rank() -> None:
    failures: list[BaseException] = []

    def work(_: Any) -> Any:
        raise ValueError("no")

    def call(rank: int) -> None:
        try:
            meet("failing", Place(run=1, rank=rank), 2, [np.zeros(1)], work)
        except ValueError as error:
            failures.append(error)

    threads = [threading.Thread(target=call, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [str(error) for error in failures] == ["no", "no"]
