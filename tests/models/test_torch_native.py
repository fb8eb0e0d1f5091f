"""Models of torch by ``trace``, ``torch.compile`` and on the torch device "neuron", beside torch's CPU.

Two inputs; ``torch.compile`` and the device take two steps of an optimizer. They need no torch_xla.
"""

from __future__ import annotations

import importlib.util
import json
from typing import Any

import pytest

from tests.device.child import check_child

pytestmark = pytest.mark.torch

PLAIN_MODELS = (
    "atrous", "convnext", "experts", "flow", "linear_attention", "long_convolution", "lstm", "mixer",
    "mlp", "mobilenet", "nerf", "points", "ranking", "rotary", "seq2seq", "shufflenet", "siamese",
    "spatial_transformer", "spectrogram", "super_resolution", "tagger", "translator", "unet", "vae",
    "vq_vae", "wavenet",
)  # fmt: skip
"""Models that need torch alone."""

PACKAGED_MODELS = (
    "bert", "clip", "gan", "gpt2", "graph", "llama", "llama_generation", "mamba", "mixtral",
    "resnet18", "segformer", "swin", "t5", "vit", "wav2vec2", "whisper",
)  # fmt: skip
"""Models of torchvision and transformers."""

MODES = "trace,compile,eager"
CHEAP_MODELS = "long_convolution,ranking,rotary"
"""Each has operators that others lack: Fourier transforms, embedding bags, complex rotations."""
CHILD = (
    "import sys, warnings; warnings.simplefilter('ignore'); sys.argv = ['', {!r}, {!r}]; "
    "from tests.models.torch_native_child import main; main()"
)

HAS_MODELS = all(importlib.util.find_spec(package) for package in ("transformers", "torchvision"))


def run(names: str) -> list[dict[str, Any]]:
    printed = check_child(CHILD.format(names, MODES))
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


def test_cheap_models() -> None:
    rows = run(CHEAP_MODELS)
    assert len(rows) == 3 * len(CHEAP_MODELS.split(",")) and all(row["right"] for row in rows), rows


@pytest.mark.slow("builds each model four times: three minutes")
@pytest.mark.parametrize("name", PLAIN_MODELS)
def test_a_model_of_plain_torch(name: str) -> None:
    rows = run(name)
    assert len(rows) == 3 and all(row["right"] for row in rows), rows


@pytest.mark.slow("builds each model four times: three minutes")
@pytest.mark.skipif(not HAS_MODELS, reason="needs torchvision and transformers")
@pytest.mark.parametrize("name", PACKAGED_MODELS)
def test_a_model_of_a_package(name: str) -> None:
    rows = run(name)
    assert rows and all(row["right"] for row in rows), rows
