"""The models by name; each is made when it is asked for, since flax is imported for most."""

from __future__ import annotations

from importlib import import_module

from tests.models.model import Model

__all__ = ["FAMILIES", "PURE_JAX", "WITH_FLAX", "model_of"]

PURE_JAX = ("llama", "llama_generation", "mamba", "mixtral")
FAMILIES = (
    "actor_critic", "beam_search", "capacity", "graph_attention", "radiance", "sampled",
    "shifted_windows",
)  # fmt: skip
WITH_FLAX = ("bert", "diffusion_block", "gpt2", "lstm", "mlp", "resnet18", "unet_block", "vit")


def model_of(name: str) -> Model:
    """The model of a name."""
    homes = {"decoders": PURE_JAX, "families": FAMILIES, "networks": WITH_FLAX}
    (home_name,) = (home for home, names in homes.items() if name in names)
    home = import_module(f"tests.models.{home_name}")
    model: Model = getattr(home, name)()
    return model
