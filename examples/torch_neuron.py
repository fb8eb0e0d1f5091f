"""A script for the vendor's TorchNeuron, in 28 steps: it runs unmodified on plain torch.

    python torch_neuron.py

Each step is compared with torch on the CPU.
"""

import copy
import os
import tempfile

os.environ.setdefault("TORCH_NEURONX_DEBUG_DIR", tempfile.mkdtemp())

import nki
import nki.isa as nisa
import nki.language as nl
import torch
import torch.distributed as dist
import torch.nn.functional as F
import torch_neuronx
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch_neuronx import nki_op

device = torch.device("neuron")
close = torch.testing.assert_close


class Block(torch.nn.Module):
    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.mlp = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)
        )

    def forward(self, x):
        batch, length, width = x.shape
        split = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, -1).unbind(2)
        q, k, v = (head.transpose(1, 2) for head in split)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norms[1](x))


@nki.jit
def nki_add(a, b):
    result = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    left = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)
    nisa.tensor_tensor(dst=left, data1=left, data2=right, op=nl.add)
    nisa.dma_copy(dst=result, src=left)
    return result


@nki_op("example::add", mutates_args={})
def add_operator(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return nki_add(a, b)


def trained(model, x, steps=2):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
    return loss.detach().cpu()


def step(number, text):
    print(f"{number:2} {text}")


torch.manual_seed(0)
host, x = Block().eval(), torch.randn(2, 8, 16)

step(1, "tensors on the device")
assert torch.ones(3, device=device).device.type == "neuron"
assert torch.zeros(2, 2, device="neuron:0").sum().item() == 0

step(2, "copies to the device and back")
close(x.to("neuron").cpu(), x)
close(x.to(device, dtype=torch.bfloat16, non_blocking=True).cpu(), x.bfloat16())

step(3, "operators")
close((x.to(device).sin() @ x.to(device).mT).cpu(), x.sin() @ x.mT)

step(4, "an operator that the hardware lacks")
close(torch.linalg.svdvals(x.to(device)).cpu(), torch.linalg.svdvals(x))

step(5, "views and writes in place")
view = torch.zeros(4, 4, device=device)
view.t()[1:, 0] = 3
assert view.sum().item() == 9

step(6, "the accelerator")
assert torch.accelerator.is_available() and torch.accelerator.device_count() >= 1
assert torch.accelerator.current_accelerator().type == "neuron"
torch.accelerator.set_device_index(0)
torch.accelerator.synchronize()
torch.neuron.synchronize()

step(7, "random numbers by a generator")
noise = torch.randn(4, device=device, generator=torch.Generator(device).manual_seed(5))
close(noise.cpu(), torch.randn(4, generator=torch.Generator().manual_seed(5)))

step(8, "a stream")
with torch.Stream(device):
    doubled = x.to(device) * 2
close(doubled.cpu(), x * 2)

step(9, "events")
begin, end = (torch.Event(device, enable_timing=True) for _ in range(2))
begin.record()
x.to(device).exp()
end.record()
end.synchronize()
assert begin.elapsed_time(end) >= 0

step(10, "memory statistics")
assert torch_neuronx.memory_allocated() > 0
assert torch_neuronx.memory_stats()["allocated_bytes.all.peak"] > 0
assert "allocated_bytes" in torch_neuronx.memory_summary()

step(11, "pinned memory of a data loader")
rows = torch.utils.data.DataLoader(x.flatten(0, 1), batch_size=4, pin_memory=True)
close(sum(batch.to(device, non_blocking=True).sum() for batch in rows).cpu(), x.sum())

step(12, "a model in eager mode")
there = copy.deepcopy(host).to(device)
close(there(x.to(device)).cpu(), host(x))

step(13, "a training step in eager mode")
close(trained(copy.deepcopy(there).train(), x.to(device)), trained(copy.deepcopy(host).train(), x))

step(14, "autocast")
with torch.autocast(device_type="neuron", dtype=torch.bfloat16):
    assert there.qkv(x.to(device)).dtype == torch.bfloat16
    assert F.softmax(there.qkv(x.to(device)), -1).dtype == torch.float32

step(15, "a checkpoint to a file and back")
path = os.path.join(os.environ["TORCH_NEURONX_DEBUG_DIR"], "weights.pt")
torch.save(there.state_dict(), path)
assert torch.load(path, map_location="neuron")["out.weight"].device.type == "neuron"
host.load_state_dict(torch.load(path, map_location="cpu"))

step(16, "activations computed again")
again = x.to(device).requires_grad_()
checkpoint(there, again, use_reentrant=False).sum().backward()
host_x = x.clone().requires_grad_()
host(host_x).sum().backward()
close(again.grad.cpu(), host_x.grad)

step(17, "deterministic algorithms")
torch.use_deterministic_algorithms(True)
close(there(x.to(device)), there(x.to(device)), rtol=0, atol=0)
torch.use_deterministic_algorithms(False)

step(18, "torch.compile: inference")
compiled = torch.compile(there, backend="neuron", fullgraph=True)
with torch.no_grad():
    close(compiled(x.to(device)).cpu(), host(x), rtol=1e-3, atol=1e-4)

step(19, "torch.compile: another shape is compiled again")
with torch.no_grad():
    close(compiled(x[:, :5].to(device)).cpu(), host(x[:, :5]), rtol=1e-3, atol=1e-4)

step(20, "torch.compile: training")
learner = torch.compile(copy.deepcopy(there).train(), backend="neuron")
expected = trained(copy.deepcopy(host).train(), x)
close(trained(learner, x.to(device)), expected, rtol=1e-3, atol=1e-4)

step(21, "torch.compile: graph breaks")


@torch.compile(backend="neuron")
def broken(value):
    value = value * 2
    torch._dynamo.graph_break()
    return value.relu()


close(broken(x.to(device)).cpu(), (x * 2).relu())

step(22, "artifacts in the debug folder")
graphs = [name for name in os.listdir(os.environ["TORCH_NEURONX_DEBUG_DIR"]) if "graph" in name]
assert graphs

step(23, "an NKI kernel in eager mode")
a, b = torch.randn(128, 64), torch.randn(128, 64)
close(nki_add(a.to(device), b.to(device)).cpu(), a + b)

step(24, "nki_op, eager and compiled")
close(add_operator(a.to(device), b.to(device)).cpu(), a + b)
summed = torch.compile(lambda p, q: add_operator(p, q) * 2, backend="neuron", fullgraph=True)
close(summed(a.to(device), b.to(device)).cpu(), (a + b) * 2)

step(25, "the gradient of an nki_op")
add_operator.register_autograd(lambda context, gradient: (gradient, gradient))
leaf = a.to(device).requires_grad_()
(add_operator(leaf, b.to(device)) * 3).sum().backward()
close(leaf.grad.cpu(), torch.full_like(a, 3))

step(26, "a process group and DistributedDataParallel")
store = f"file://{os.environ['TORCH_NEURONX_DEBUG_DIR']}/store"
dist.init_process_group("neuron", init_method=store, rank=0, world_size=1)
total = torch.ones(2, device=device)
dist.all_reduce(total)
assert total.tolist() == [1, 1]
parallel = DistributedDataParallel(copy.deepcopy(there).train())
close(trained(parallel, x.to(device)), expected)

step(27, "FSDP2")
mesh = init_device_mesh("neuron", (1,))
sharded = fully_shard(copy.deepcopy(there).train(), mesh=mesh)
close(trained(sharded, x.to(device)), expected)

step(28, "DTensor")
tensor = distribute_tensor(x.to(device), mesh, [Shard(0)])
close((tensor + 1).full_tensor().cpu(), x + 1)
dist.destroy_process_group()
print("28 steps equal torch on the CPU")
