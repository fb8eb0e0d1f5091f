"""torch.compile(backend="neuron"): forward, training and kernels have PyTorch's values."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]

TRAINING = """
    import copy
    import torch
    import torch.nn.functional as F
    import torch_neuronx

    torch.manual_seed(0)

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Sequential(
                torch.nn.Conv2d(3, 4, 3, stride=2, padding=1), torch.nn.BatchNorm2d(4),
                torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Conv2d(4, 8, 3, groups=2, padding=1),
                torch.nn.GELU(), torch.nn.AvgPool2d(2))
            self.project = torch.nn.Linear(32, 12)
            self.norm = torch.nn.LayerNorm(4)
            self.head = torch.nn.Linear(12, 5)

        def forward(self, x):
            x = self.project(self.body(x).flatten(1)).view(-1, 3, 4)
            x = F.scaled_dot_product_attention(x, self.norm(x), x)
            return self.head(x.flatten(1))

    ours = Network()
    theirs = copy.deepcopy(ours)
    compiled = torch.compile(ours, backend="neuron", fullgraph=True)
    optimizers = [torch.optim.SGD(m.parameters(), 0.1) for m in (ours, theirs)]
    for step in range(2):
        images, labels = torch.randn(4, 3, 16, 16), torch.randint(5, (4,))
        losses = [F.cross_entropy(m(images), labels) for m in (compiled, theirs)]
        torch.testing.assert_close(*losses, rtol=1e-4, atol=1e-5)
        for optimizer, loss in zip(optimizers, losses):
            optimizer.zero_grad()
            loss.backward()
        for a, b in zip(ours.parameters(), theirs.parameters()):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-5)
        for optimizer in optimizers:
            optimizer.step()
    for a, b in zip(ours.buffers(), theirs.buffers()):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    print("trained")
"""

GRAPHS = """
    import os
    import nki
    import torch
    import torch_neuronx
    from tests.frameworks import sample_kernels

    add_into = nki.jit(sample_kernels.add_into)

    @torch_neuronx.nki_op("nki_hlo_compile::add", mutates_args={})
    def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        add_into(x, y, out)
        return out

    add.register_autograd(lambda ctx, gradient: (gradient, gradient))
    doubled = torch.compile(lambda x, y: add(x, y) * 2 + x, backend="neuron", fullgraph=True)
    for seed in (1, 2):
        torch.manual_seed(seed)
        x, y = torch.randn(2, 128, 512)
        x.requires_grad_()
        result = doubled(x, y)
        torch.testing.assert_close(result, (x + y) * 2 + x)
        result.sum().backward()
        torch.testing.assert_close(x.grad, torch.full_like(x, 3))

    @torch.compile(backend="neuron")
    def views(x, count):
        x.add_(1)
        return x.t() * count, x.view(-1)[2:6], x

    for count, rows in ((2, 3), (3, 5), (4, 4)):
        x = torch.randn(rows, 8)
        y = x.clone().add_(1)
        for have, want in zip(views(x, count), (y.t() * count, y.view(-1)[2:6], y)):
            torch.testing.assert_close(have, want)
            print(have.stride() == want.stride())
        torch.testing.assert_close(x, y)
    expanded = torch.compile(lambda x: (x + 1)[:, None].expand(2, 3, 2), backend="neuron")(torch.eye(2))
    torch.testing.assert_close(expanded, (torch.eye(2) + 1)[:, None].expand(2, 3, 2))
    assert expanded.stride(1) == 0
    constant = torch.compile(lambda x: x * torch.tensor([1.0, 0, 2]), backend="neuron", fullgraph=True)
    for x in (torch.eye(3), torch.ones(2, 3)):
        torch.testing.assert_close(constant(x), x * torch.tensor([1.0, 0, 2]))
    folders = os.listdir(os.environ["TORCH_NEURONX_DEBUG_DIR"])
    files = {name for folder in folders
             for name in os.listdir(os.path.join(os.environ["TORCH_NEURONX_DEBUG_DIR"], folder))}
    print(sorted(files))
"""

REFUSED = """
    import torch
    import torch_neuronx

    def attempt(function, **options):
        torch._dynamo.reset()
        try:
            return torch.compile(function, backend="neuron", **options)(torch.ones(3, 3)).shape
        except Exception as error:
            print(str(error).partition("Set TORCHDYNAMO")[0].replace(chr(10), " "))

    attempt(lambda x: torch.rand(3) + x)
    attempt(lambda x: torch.linalg.eigvalsh(x))
    attempt(lambda x: x + 1, options={"compiler_arg": "-O1"})
    attempt(lambda x: x + 1, options={"compiler_args": "--no-such-flag"})
    print(attempt(lambda x: torch.linalg.eigvalsh(x), options={"fallback_execution": True}))
    print(attempt(lambda x: x + 1, options={"compiler_args": "--target=trn1 -O1"}))
"""


def test_training_step(run_script: Any) -> None:
    done = run_script(TRAINING)
    assert "trained" in done.stdout, done.stderr[-3000:]


def test_kernels_views_and_artifacts(run_script: Any, tmp_path: Any) -> None:
    done = run_script(GRAPHS, TORCH_NEURONX_DEBUG_DIR=str(tmp_path / "work"))
    lines = done.stdout.splitlines()
    assert lines == ["True"] * 9 + ["['graph.neff', 'graph.py', 'model.hlo_module.pb']"], (
        done.stderr
    )


def test_options_and_refusals(run_script: Any) -> None:
    done = run_script(REFUSED)
    codes = re.findall(r"\[(NEFF-[A-Z-]+)\] (\S+)", done.stdout)
    assert [code for code, _ in codes[:3]] == [
        "NEFF-TORCH-RANDOM", "NEFF-TORCH-OPERATOR", "NEFF-TORCH-OPTION",
    ]  # fmt: skip
    assert codes[1][1] == "aten._linalg_eigh.default", done.stdout
    assert done.stdout.splitlines()[-2:] == ["torch.Size([3])", "torch.Size([3, 3])"], done.stderr
