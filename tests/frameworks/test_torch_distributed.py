"""The process group "neuron": collectives, DDP, FSDP2 and DTensor equal one process on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
    import copy
    import socket
    import torch
    import torch_neuronx
    import torch.distributed as dist
    import torch.multiprocessing as mp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Shard, distribute_tensor
    from torch.distributed.tensor.parallel import (
        ColwiseParallel, RowwiseParallel, parallelize_module,
    )
    from torch.nn.parallel import DistributedDataParallel

    RANKS = 2

    def inputs(step):
        return [torch.randn(5, 4, generator=torch.Generator().manual_seed(10 * step + rank))
                for rank in range(RANKS)]

    def network():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))

    def trained(model, rank):
        reference = network()
        optimizers = [torch.optim.SGD(m.parameters(), 0.1) for m in (model, reference)]
        for step in range(3):
            rows = inputs(step)
            loss = model(rows[rank].to("neuron")).square().mean()
            expected = sum(reference(x).square().mean() for x in rows) / RANKS
            for optimizer, value in zip(optimizers, (loss, expected)):
                optimizer.zero_grad()
                value.backward()
                optimizer.step()
        for ours, theirs in zip(model.parameters(), reference.parameters()):
            whole = ours.full_tensor() if hasattr(ours, "full_tensor") else ours
            assert whole.device.type == "neuron", whole.device
            torch.testing.assert_close(whole.detach().cpu(), theirs.detach(), rtol=1e-5, atol=1e-6)

    def collectives(rank):
        mine = torch.arange(4.0, device="neuron") + 10 * rank
        total = mine.clone()
        dist.all_reduce(total)
        assert total.tolist() == [10, 12, 14, 16]
        average = mine.clone()
        dist.all_reduce(average, op=dist.ReduceOp.AVG)
        assert average.tolist() == [5, 6, 7, 8]
        largest = mine.clone()
        dist.all_reduce(largest, op=dist.ReduceOp.MAX)
        assert largest.tolist() == [10, 11, 12, 13]
        shard = torch.zeros(2, device="neuron")
        work = dist.reduce_scatter_tensor(shard, mine, op=dist.ReduceOp.AVG, async_op=True)
        work.wait()
        work.wait()
        assert shard.tolist() == [[5, 6], [7, 8]][rank]
        rows = [torch.zeros(4, device="neuron") for _ in range(RANKS)]
        dist.all_gather(rows, mine)
        assert rows[1].tolist() == [10, 11, 12, 13] and rows[0].device.type == "neuron"
        joined = torch.zeros(8, device="neuron")
        dist.all_gather_into_tensor(joined, mine)
        assert joined.tolist() == [0, 1, 2, 3, 10, 11, 12, 13]
        swapped = torch.zeros(4, device="neuron")
        dist.all_to_all_single(swapped, mine)
        assert swapped.tolist() == [[0, 1, 10, 11], [2, 3, 12, 13]][rank]
        sent = mine.clone()
        dist.send(sent, 1) if rank == 0 else dist.recv(sent, 0)
        assert sent.tolist() == [0, 1, 2, 3]
        dist.broadcast(sent.add_(rank), 1)
        assert sent.tolist() == [1, 2, 3, 4]
        names = [None, None]
        dist.all_gather_object(names, f"rank {rank}")
        assert names == ["rank 0", "rank 1"]
        host = torch.ones(2)
        dist.all_reduce(host)
        assert host.tolist() == [2, 2]
        dist.barrier()

    def data_parallel(rank):
        for as_views in (False, True):
            model = network().to("neuron")
            trained(DistributedDataParallel(model, gradient_as_bucket_view=as_views), rank)
            assert next(model.parameters()).grad.device.type == "neuron"

    def sharded(rank):
        model, mesh = network().to("neuron"), init_device_mesh("neuron", (RANKS,))
        for layer in (model[0], model[2], model):
            fully_shard(layer, mesh=mesh)
        trained(model, rank)

    def tensor_parallel(rank):
        model, mesh = network().to("neuron"), init_device_mesh("neuron", (RANKS,))
        parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        x = inputs(7)[0]
        torch.testing.assert_close(model(x.to("neuron")).detach().cpu(), network()(x).detach())
        rows = distribute_tensor(torch.arange(8.0, device="neuron"), mesh, [Shard(0)])
        assert (rows * 2).full_tensor().tolist() == [0, 2, 4, 6, 8, 10, 12, 14]

    def worker(rank, port):
        torch.set_num_threads(1)
        address = f"tcp://127.0.0.1:{port}"
        dist.init_process_group("neuron", init_method=address, rank=rank, world_size=RANKS)
        for check in (collectives, data_parallel, sharded, tensor_parallel):
            check(rank)
        dist.destroy_process_group()

    if __name__ == "__main__":
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        mp.spawn(worker, args=(port,), nprocs=RANKS)
        print("all equal")
"""

WITHOUT_GLOO = """
    import torch
    import torch_neuronx
    import torch.distributed as dist
    dist.is_gloo_available = lambda: False
    dist.init_process_group("neuron", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
"""


def test_two_processes(run_script: Any) -> None:
    done = run_script(PROGRAM)
    assert done.stdout.splitlines()[-1:] == ["all equal"], done.stderr[-3000:]


def test_without_gloo(run_script: Any) -> None:
    assert "[HLO-TORCH-GROUP]" in run_script(WITHOUT_GLOO).stderr


def test_a_script_for_torchneuron(run_script: Any) -> None:
    done = run_script((ROOT / "examples" / "torch_neuron.py").read_text())
    assert done.stdout.splitlines()[-1:] == ["28 steps equal torch on the CPU"], done.stderr[-3000:]
