"""Training scripts in JAX and PyTorch/XLA, from NEFFs and on the CPU, step by step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.device.child import check_child

IN_JAX = """
import sys
import jax, numpy as np
sys.path.insert(0, ROOT)
from tests.compiler.training_programs import PROGRAMS
found = {}
for name in ("adam_step", "convolution_step", "dropout_step", "embedding_loss"):
    function, arguments = PROGRAMS[name]
    for number, leaf in enumerate(jax.tree.leaves(jax.jit(function)(*arguments))):
        found[f"{name}.{number}"] = np.asarray(leaf)
np.savez(OUT, **found)
"""

IN_TORCH = """
import numpy as np, torch
from torch import nn
import torch_xla.core.xla_model as xm
torch.manual_seed(0)
device = xm.xla_device()
model = nn.Sequential(
    nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
    nn.Linear(64, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 5),
).to(device)
x, y = torch.randn(3, 2, 8, 8).to(device), torch.tensor([0, 3, 2]).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
losses = []
for _ in range(2):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    xm.mark_step()
    losses.append(loss.item())
np.savez(OUT, losses=losses)
"""


def _both(script: str, folder: Path, **variables: str) -> tuple[dict, dict]:
    """Return the files that the script saves with the compiler and without it."""
    root = str(Path(__file__).resolve().parents[2])
    results = []
    for name in ("neff", "cpu"):
        out = folder / f"{name}.npz"
        check_child(
            f"ROOT, OUT = {root!r}, {str(out)!r}\n" + script, NKI_HLO_EXECUTOR=name, **variables
        )
        results.append(dict(np.load(out)))
    return results[0], results[1]


@pytest.mark.jax
def test_programs_of_jax_train_alike(tmp_path: Path) -> None:
    actual, expected = _both(IN_JAX, tmp_path, JAX_PLATFORMS="neuron")
    assert actual.keys() == expected.keys()
    for name, value in actual.items():
        np.testing.assert_allclose(value, expected[name], rtol=2e-5, atol=2e-5, err_msg=name)


@pytest.mark.slow("traces and runs a network through torch_xla twice: some 20 seconds")
@pytest.mark.torch_xla
def test_a_network_of_torch_trains_alike(tmp_path: Path) -> None:
    actual, expected = _both(IN_TORCH, tmp_path, PJRT_DEVICE="NEURON")
    assert actual["losses"][-1] < actual["losses"][0]
    for name, value in actual.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-5, err_msg=name)
