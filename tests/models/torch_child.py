"""Run as a program: models of torch on the device "neuron" beside torch's CPU.

``python -m tests.models.torch_child resnet18,gpt2 forward,gradient,step`` prints a line of JSON for each:
model, kind, CPU seconds of the first and of the second run, the largest difference, and an error.
"""

from __future__ import annotations

import copy
import json
import sys
import time
from typing import Any

import torch
import torch_xla

from tests.models.torch_families import FAMILIES
from tests.models.torch_networks import MODELS, TorchModel, difference

SEEDS = (1000, 2000)

BIASED = "running_var"
"""torch_xla keeps the variance over the batch where torch divides by one less, on any device."""


def results(model: TorchModel, kind: str, seed: int, device: Any) -> list[torch.Tensor]:
    """Return the results of one program on a device, copied to the CPU."""
    torch.manual_seed(0)
    network = copy.deepcopy(model.network).to(device).train()
    if hasattr(network, "tie_weights"):
        network.tie_weights()  # torch_xla moves shared weights one by one
    inputs = {name: value.to(device) for name, value in model.batch(seed).items()}
    out = model.forward(network, inputs)
    outputs = [out]
    if kind != "forward":
        loss = model.loss(out, inputs["labels"])
        loss.backward()
        rows = [parameter for parameter in network.parameters() if parameter.grad is not None]
        outputs = [loss, *(row.grad for row in rows)]
        if kind == "step":
            name, options = model.optimizer
            getattr(torch.optim, name)(rows, **options).step()
            state = network.state_dict()
            outputs = [loss, *(state[name] for name in sorted(state) if not name.endswith(BIASED))]
    torch_xla.sync()
    return [output.detach().cpu() for output in outputs]


def compared(model: TorchModel, kind: str) -> dict[str, Any]:
    seconds: list[float] = []
    worst = 0.0
    for seed in SEEDS:
        expected = results(model, kind, seed, "cpu")
        begun = time.process_time()
        actual = results(model, kind, seed, torch_xla.device())
        seconds.append(round(time.process_time() - begun, 2))
        worst = max(worst, *(difference(*pair) for pair in zip(actual, expected, strict=True)))
    return {"seconds": seconds, "worst": worst, "right": worst <= model.tolerance}


def guarded(model: TorchModel, kind: str) -> dict[str, Any]:
    try:
        return compared(model, kind)
    except Exception as error:
        return {"right": False, "error": f"{type(error).__name__}: {error}"}


def main() -> None:
    torch.set_num_threads(1)
    torch_xla.device()  # autograd counts the devices at its first gradient
    for name in sys.argv[1].split(","):
        torch.manual_seed(7)
        model = (MODELS | FAMILIES)[name]()
        for kind in (name for name in sys.argv[2].split(",") if name in model.kinds):
            row = {"model": name, "kind": kind} | guarded(model, kind)
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
