"""Models of torchvision and transformers on the device "neuron", from NEFFs, beside torch's CPU."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

import pytest

from tests.device.child import check_child

pytestmark = pytest.mark.torch_xla

NAMES = (
    "bert", "clip", "gan", "gpt2", "graph", "llama", "llama_generation", "lstm", "mamba", "mixtral",
    "mlp", "resnet18", "segformer", "swin", "t5", "vit", "wav2vec2", "whisper",
)  # fmt: skip
CHILD = "import sys; sys.argv = ['', {!r}, {!r}]; from tests.models.torch_child import main; main()"

HAS_MODELS = all(importlib.util.find_spec(package) for package in ("transformers", "torchvision"))


def run(names: str, kinds: str) -> list[dict[str, Any]]:
    printed = check_child(
        CHILD.format(names, kinds),
        PJRT_DEVICE="NEURON",
        NKI_HLO_EXECUTOR="neff",
        NEURON_PLATFORM_TARGET_OVERRIDE="trn2",
        NEURON_RT_NUM_CORES="1",
    )
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


def test_a_step_of_cheap_networks() -> None:
    names = "mlp,llama" if HAS_MODELS else "mlp"
    rows = run(names, "step")
    assert len(rows) == len(names.split(",")) and all(row["right"] for row in rows), rows


@pytest.mark.slow("builds each model three times: four minutes")
@pytest.mark.skipif(not HAS_MODELS, reason="needs torchvision and transformers")
@pytest.mark.parametrize("name", NAMES)
def test_a_model_gives_what_torch_gives(name: str) -> None:
    rows = run(name, "forward,gradient,step")
    assert rows and all(row["right"] for row in rows), rows


def test_a_difference_is_found() -> None:
    torch = pytest.importorskip("torch")
    from tests.models.torch_networks import difference

    tensor = torch.tensor([1.0, 2.0])
    assert difference(tensor, tensor) == 0
    assert difference(tensor, tensor + 1) > 0.3
    assert difference(tensor, tensor.double()) == difference(tensor, tensor[:1]) == float("inf")
    assert difference(tensor * float("nan"), tensor) == float("inf")
