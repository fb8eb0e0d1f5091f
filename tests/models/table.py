"""The models by name; each is made when it is asked for, since flax is imported for most."""

from __future__ import annotations

from importlib import import_module

from tests.models.model import Model

__all__ = ["PLAIN", "WITH_FLAX", "model_of"]

PLAIN = ("llama", "llama_generation", "mamba", "mixtral")
WITH_FLAX = ("bert", "diffusion_block", "gpt2", "lstm", "mlp", "resnet18", "unet_block", "vit")


def model_of(name: str) -> Model:
    """The model of a name."""
    home = import_module("tests.models.decoders" if name in PLAIN else "tests.models.networks")
    made: Model = getattr(home, name)()
    return made
