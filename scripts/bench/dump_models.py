"""Write modules of public models with random weights: what the bench reads beside its made chain.

Usage: python -m scripts.bench dump_models FOLDER [NAME ...]

The models are those of transformers and torchvision, whole in their number of layers and small in
their extents, traced by torch_xla: the forward pass, or with ``-train`` at the end of a name the
forward pass, the loss and the gradients. Nothing is executed. Each becomes ``NAME.pb``
(HloModuleProto before optimisation).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("PJRT_DEVICE", "CPU")
os.environ.setdefault("XLA_HLO_DEBUG", "1")  # instructions carry their source

import torch
import torch_xla
import transformers

__all__ = ["MODELS", "dump"]

LANGUAGE = {
    "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 16, "vocab_size": 256, "max_position_embeddings": 128, "use_cache": False,
}  # fmt: skip


def language(family: str, kind: str = "ForCausalLM", **options: Any) -> Callable[[], Any]:
    """A decoder or encoder of transformers over 2 rows of 32 tokens."""

    def make() -> Any:
        config = getattr(transformers, f"{family}Config")(**{**LANGUAGE, **options})
        model = getattr(transformers, f"{family}{kind}")(config)
        return model, (torch.randint(0, 256, (2, 32)),)

    return make


def vision(name: str) -> Callable[[], Any]:
    """A network of torchvision over one picture."""

    def make() -> Any:
        import torchvision

        return getattr(torchvision.models, name)(num_classes=10), (torch.randn(1, 3, 64, 64),)

    return make


MODELS: dict[str, Callable[[], Any]] = {
    "mixtral": language(
        "Mixtral", num_hidden_layers=32, num_local_experts=8, experts_implementation="batched_mm"
    ),
    "mixtral-8x22b": language(
        "Mixtral", num_hidden_layers=56, num_local_experts=8, experts_implementation="batched_mm"
    ),
    "gemma": language("Gemma", num_hidden_layers=18),
    "gemma2": language("Gemma2", num_hidden_layers=26),
    "llama": language("Llama", num_hidden_layers=32),
    "qwen3": language("Qwen3", num_hidden_layers=28),
    "gpt2": language("GPT2", "LMHeadModel", n_layer=12, n_embd=64, n_head=4),
    "bert": language("Bert", "Model", num_hidden_layers=12),
    "mamba": language("Mamba", num_hidden_layers=24, state_size=8),
    "mobilenet": vision("mobilenet_v2"),
    "resnet50": vision("resnet50"),
    "efficientnet": vision("efficientnet_b0"),
}


def dump(name: str, folder: Path) -> int:
    """Write ``name.pb``; its bytes."""
    torch.manual_seed(0)
    model, inputs = MODELS[name.removesuffix("-train")]()
    device = torch_xla.device()
    model = model.to(device)
    model.train(name.endswith("-train"))
    result = model(*(tensor.to(device) for tensor in inputs))
    value = _first(result)
    outputs = [value]
    if name.endswith("-train"):
        value.float().square().mean().backward()
        outputs += [
            parameter.grad for parameter in model.parameters() if parameter.grad is not None
        ]
    data: bytes = torch_xla._XLAC._get_xla_tensors_hlo_proto(outputs)
    (folder / f"{name}.pb").write_bytes(data)
    return len(data)


def _first(result: Any) -> Any:
    for name in ("logits", "last_hidden_state"):
        if hasattr(result, name):
            return getattr(result, name)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(MODELS)}; all by default")
    words = parser.parse_args()
    words.folder.mkdir(parents=True, exist_ok=True)
    for name in words.names or [
        model_name + end for model_name in MODELS for end in ("", "-train")
    ]:
        print(f"{name}: {dump(name, words.folder)} bytes", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
