"""Run as a program: models of torch without torch_xla, beside torch's CPU.

``python -m tests.models.torch_native_child NAMES trace,compile,eager`` prints a line of JSON for each
model and execution mode: CPU seconds, the largest difference, and an error.

trace: ``torch_neuronx.trace`` by torch.export, called with two inputs. compile:
``torch.compile(backend="neuron")`` on the host; the output and two steps of the optimizer. eager: the
same on the device "neuron".
"""

from __future__ import annotations

import copy
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch_neuronx

from tests.models.torch_families import FAMILIES
from tests.models.torch_networks import MODELS, TorchModel, difference
from tests.models.torch_pictures import PICTURES
from tests.models.torch_sequences import SEQUENCES

SEEDS = (3000, 4000)

FIXED_STATISTICS = ("resnet18",)
"""Normalized by two pictures alone, its second step has no single answer: torch's float32 results
are as far from its float64 results as ours. So its normalization keeps the statistics that it has."""

Batch = dict[str, torch.Tensor]


class Program(torch.nn.Module):
    """A model whose inputs come by position."""

    def __init__(self, model: TorchModel) -> None:
        super().__init__()
        self.network = copy.deepcopy(model.network)
        self.names = list(model.batch(0))
        self._forward = model.forward

    def forward(self, *values: torch.Tensor) -> Any:
        return self._forward(self.network, dict(zip(self.names, values, strict=True)))


def stepped(
    model: TorchModel, network: torch.nn.Module, call: Callable[[Batch], Any], device: str
) -> list[torch.Tensor]:
    """Return outputs, losses, gradients and parameters of two steps of the optimizer."""
    name, options = model.optimizer
    optimizer = getattr(torch.optim, name)(network.parameters(), **options)
    results: list[torch.Tensor] = []
    for seed in SEEDS:
        batch = {key: value.to(device) for key, value in model.batch(seed).items()}
        out = call(batch)
        loss = model.loss(out, batch["labels"])
        optimizer.zero_grad()
        loss.backward()
        gradients = [p.grad for p in network.parameters() if p.grad is not None]
        results += _copied([out, loss, *gradients])  # before the optimizer writes the gradients
        optimizer.step()
    state = network.state_dict()
    return results + _copied([state[name] for name in sorted(state)])


def _copied(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.detach().cpu().clone() for tensor in tensors]


def on_cpu(model: TorchModel) -> list[torch.Tensor]:
    """Return the results of two steps by torch on the CPU."""
    network = copy.deepcopy(model.network)
    return stepped(model, network, lambda batch: model.forward(network, batch), "cpu")


def traced(model: TorchModel) -> list[torch.Tensor]:
    program = Program(model).eval()
    examples = tuple(model.batch(0).values())
    traced_model = torch_neuronx.trace(program, examples, inline_weights_to_neff=False)
    return [traced_model(*model.batch(seed).values()) for seed in SEEDS]


def traced_on_cpu(model: TorchModel) -> list[torch.Tensor]:
    program = Program(model).eval()
    return [program(*model.batch(seed).values()).detach() for seed in SEEDS]


def compiled(model: TorchModel) -> list[torch.Tensor]:
    program = Program(model)
    function = torch.compile(program, backend="neuron")
    return stepped(model, program.network, lambda batch: function(*batch.values()), "cpu")


def eager(model: TorchModel) -> list[torch.Tensor]:
    network = copy.deepcopy(model.network).to("neuron")
    if hasattr(network, "tie_weights"):
        network.tie_weights()  # PyTorch moves shared weights one by one
    return stepped(model, network, lambda batch: model.forward(network, batch), "neuron")


EXECUTION_MODES = {
    "trace": (traced, traced_on_cpu), "compile": (compiled, on_cpu), "eager": (eager, on_cpu),
}  # fmt: skip


def compared(model: TorchModel, mode: str) -> dict[str, Any]:
    """Run one model in one execution mode and compare it."""
    ours, reference = EXECUTION_MODES[mode]
    expected = reference(model)
    start = time.process_time()
    actual = ours(model)
    seconds = round(time.process_time() - start, 2)
    worst = max(difference(*pair) for pair in zip(actual, expected, strict=True))
    return {"seconds": seconds, "worst": worst, "right": worst <= model.tolerance}


def main() -> None:
    """Run from the command line."""
    torch.set_num_threads(1)
    for name in sys.argv[1].split(","):
        torch.manual_seed(7)
        model = (MODELS | FAMILIES | PICTURES | SEQUENCES)[name]()
        if name in FIXED_STATISTICS:
            model.network.eval()
        for mode in sys.argv[2].split(","):
            if mode != "trace" and "step" not in model.kinds:
                continue
            torch.compiler.reset()
            row: dict[str, Any] = {"model": name, "mode": mode}
            try:
                row |= compared(model, mode)
            except Exception as error:
                row |= {"right": False, "error": f"{type(error).__name__}: {error}"[:1500]}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
