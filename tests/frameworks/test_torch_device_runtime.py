"""The torch device "neuron" beside its tensors: generators, streams, memory, files, autoload."""

from __future__ import annotations

import copy
import importlib
import io
from typing import Any

import pytest
import torch

from hlo_tools.torch_device import device as torch_device

pytestmark = pytest.mark.torch

torch_device.install()

SCRIPT = """
    import sys
    import torch
    print(torch._C._get_privateuse1_backend_name(), "hlo_tools.torch_device.device" in sys.modules)
    from hlo_tools.torch_device.autoload import autoload
    autoload()
    print(torch._C._get_privateuse1_backend_name(), "hlo_tools.torch_device.device" in sys.modules)
"""

COMPILED = """
    import torch
    import torch_neuronx
    function = torch.compile(lambda x: x.sin() + 1, backend="neuron")
    print(torch.allclose(function(torch.ones(3)), torch.ones(3).sin() + 1))
    print(torch.accelerator.is_available())
    torch.ones(3, device="neuron")
"""


@pytest.mark.parametrize("seed", [0, 1])
def test_generators(seed: int) -> None:
    host = torch.rand(4, generator=torch.Generator().manual_seed(seed))
    generator = torch.Generator(device="neuron").manual_seed(seed)
    assert generator.device.type == "neuron" and generator.initial_seed() == seed
    state = generator.get_state()
    first = torch.rand(4, device="neuron", generator=generator)
    assert torch.equal(first.cpu(), host)
    assert not torch.equal(torch.rand(4, device="neuron", generator=generator), first)
    generator.set_state(state)
    assert torch.equal(torch.empty(4, device="neuron").uniform_(generator=generator), first)
    torch.manual_seed(seed)
    dropped = torch.nn.functional.dropout(torch.ones(64, device="neuron"))
    torch.manual_seed(seed)
    assert torch.equal(dropped.cpu(), torch.nn.functional.dropout(torch.ones(64)))


def test_the_accelerator() -> None:
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator().type == "neuron"
    assert torch.accelerator.device_count() == 2
    with torch.neuron.device(1):
        assert torch.accelerator.current_device_index() == 1
        assert torch.ones(1, device="neuron").device.index == 1
    assert torch.neuron.current_device() == 0
    torch.accelerator.synchronize()


def test_streams_and_events() -> None:
    stream = torch.neuron.Stream()
    assert torch.neuron.current_stream() != stream
    with torch.neuron.stream(stream):
        assert torch.accelerator.current_stream() == stream
    begin, end = (torch.neuron.Event(enable_timing=True) for _ in range(2))
    begin.record()
    torch.rand(200, 200, device="neuron") @ torch.rand(200, 200, device="neuron")
    end.record(stream)
    end.synchronize()
    assert end.query() and begin.elapsed_time(end) > 0


def test_memory_statistics() -> None:
    torch.neuron.reset_peak_memory_stats()
    before = torch.neuron.memory_allocated()
    x = torch.ones(1000, device="neuron")
    y = x + 1  # memory of a kernel of the CPU counts, too
    assert torch.accelerator.memory_allocated() == before + 8000
    del x, y
    assert torch.neuron.memory_allocated() == before
    assert torch.neuron.max_memory_allocated() >= before + 8000
    assert torch.neuron.memory_stats()["allocation.all.current"] >= 0
    assert "allocated_bytes" in torch.neuron.memory_summary()


def test_pinned_memory() -> None:
    pinned = torch.arange(4.0).pin_memory()
    assert pinned.is_pinned() and pinned[2:].is_pinned() and not torch.ones(4).is_pinned()
    assert pinned.to("neuron", non_blocking=True).tolist() == [0, 1, 2, 3]


def test_saved_tensors() -> None:
    file = io.BytesIO()
    torch.save({"host": torch.arange(3), "there": torch.arange(4, device="neuron:1")[1:]}, file)
    for target, types in (("neuron", {"neuron"}), ("cpu", {"cpu"}), (None, {"cpu", "neuron"})):
        file.seek(0)
        loaded = torch.load(file, map_location=target)
        assert {tensor.device.type for tensor in loaded.values()} == types
        assert loaded["host"].tolist() == [0, 1, 2] and loaded["there"].tolist() == [1, 2, 3]


def test_memory_that_operators_replace() -> None:
    out = torch.empty(0, device="neuron")
    view_of_the_same = out.view(0)
    torch.add(torch.ones(2, 3, device="neuron"), 1, out=out)
    assert out.tolist() == [[2, 2, 2], [2, 2, 2]] and view_of_the_same.shape == (0,)
    assert out.untyped_storage().data_ptr() == view_of_the_same.untyped_storage().data_ptr()
    x = torch.arange(6.0, device="neuron")
    x.resize_(2, 5)
    assert x.flatten()[:6].tolist() == [0, 1, 2, 3, 4, 5]
    x.set_(torch.ones(2, device="neuron"))
    assert x.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="unsupported operation"):  # they overlap
        torch.ones(3, device="neuron").expand(2, 3).add_(1)


def test_views_share_memory() -> None:
    x = torch.zeros(2, 6, device="neuron")
    for view in (x.unfold(1, 2, 2), *x.split(3, 1), x.t(), x.diagonal(), x.narrow(1, 1, 2)):
        view.add_(1)
    host = torch.zeros(2, 6)
    for view in (
        host.unfold(1, 2, 2),
        *host.split(3, 1),
        host.t(),
        host.diagonal(),
        host.narrow(1, 1, 2),
    ):
        view.add_(1)
    assert torch.equal(x.cpu(), host)


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(8)
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
        self.mix = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 8)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        return self.mix(x + self.attention(y, y, y)[0])


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("compiles", [False, True])
def test_training_is_the_hosts(compiles: bool) -> None:
    importlib.import_module("torch_neuronx")  # the backend, where entry points are not installed
    torch._dynamo.reset()
    torch.manual_seed(0)
    host = Block()
    there = copy.deepcopy(host).to("neuron")
    run: Any = torch.compile(there, backend="neuron") if compiles else there
    optimizers = [torch.optim.SGD(model.parameters(), 0.1, momentum=0.9) for model in (host, there)]
    for _ in range(3):
        x = torch.randn(2, 5, 8)
        losses = [host(x).square().mean(), run(x.to("neuron")).square().mean()]
        assert losses[1].device.type == "neuron"
        for loss, optimizer in zip(losses, optimizers, strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.testing.assert_close(losses[1].cpu(), losses[0], rtol=1e-4, atol=1e-5)
    for ours, expected in zip(there.parameters(), host.parameters(), strict=True):
        torch.testing.assert_close(ours.cpu(), expected, rtol=1e-3, atol=1e-4)


def test_autoload_needs_a_request(run_script: Any) -> None:
    silent = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    assert run_script(SCRIPT, **silent).stdout.splitlines() == ["privateuseone False"] * 2
    named = run_script(
        SCRIPT + '\n    x = torch.ones(2, device="neuron")\n    print(x.device)', **silent
    )
    assert named.stdout.splitlines()[1:] == ["neuron True", "neuron:0"], named.stderr
    refused = run_script(SCRIPT + '\n    "neuron"', NKI_HLO_DEVICE="0", **silent)
    assert refused.stdout.splitlines() == ["privateuseone False"] * 2
    switched = run_script(SCRIPT, NKI_HLO_DEVICE="1", **silent)
    assert switched.stdout.splitlines()[1] == "neuron True"


def test_without_a_compiler(run_script: Any, tmp_path: Any) -> None:
    done = run_script(COMPILED, CXX="no-such-compiler", TORCH_EXTENSIONS_DIR=str(tmp_path / "none"))
    assert done.stdout.splitlines() == ["True", "False"], done.stderr
    assert "[HLO-TORCH-DEVICE]" in done.stderr and "install g++" in done.stderr


def test_a_compiler_that_fails(run_script: Any, tmp_path: Any) -> None:
    folder = tmp_path / "extensions"
    done = run_script(COMPILED, CXX="false", TORCH_EXTENSIONS_DIR=str(folder))
    assert "[HLO-TORCH-DEVICE]" in done.stderr and "false ended with 1" in done.stderr
    assert not list(folder.glob("*.so"))
