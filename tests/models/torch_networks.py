"""Networks of torch, torchvision and transformers, small and with random weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

__all__ = ["MODELS", "TorchModel", "classified", "difference", "pictures", "seeded", "texts"]

VOCABULARY, WIDTH, LENGTH = 61, 32, 12


@dataclass(frozen=True, slots=True)
class TorchModel:
    """One network.

    Attributes:
        network: the module, on the CPU.
        batch: seed -> its arguments by name, and ``labels`` beside them.
        forward: (network, arguments) -> what it returns.
        loss: (what it returns, labels) -> number.
        optimizer: name of one of ``torch.optim``'s, with its arguments. Adam's first step divides
            a slope by its own size plus ``eps``: with the usual one, rounding errors become whole
            steps.
        tolerance: relative and absolute, against torch's own CPU.
        kinds: which programs there are: what it returns; the loss with its gradient; one step of
            the optimiser.
    """

    network: torch.nn.Module
    batch: Callable[[int], dict[str, torch.Tensor]]
    forward: Callable[[torch.nn.Module, dict[str, torch.Tensor]], Any]
    loss: Callable[[Any, torch.Tensor], torch.Tensor]
    optimizer: tuple[str, dict[str, Any]] = ("AdamW", {"lr": 1e-2, "eps": 1e-2})
    tolerance: float = 1e-4
    kinds: tuple[str, ...] = ("forward", "gradient", "step")


def difference(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest, relative to the largest value; infinite when shapes or types differ."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return float("inf")
    if not expected.dtype.is_floating_point:
        return 0.0 if torch.equal(actual, expected) else float("inf")
    if not expected.numel():
        return 0.0
    worst = float((actual - expected).abs().max())
    return worst / max(float(expected.abs().max()), 1e-2) if worst == worst else float("inf")


def seeded(seed: int) -> torch.Generator:
    """A generator that starts from a seed."""
    return torch.Generator().manual_seed(seed)


def pictures(*shape: int, classes: int = 10) -> Callable[[int], dict[str, torch.Tensor]]:
    """Batches of random pictures, each with a label."""

    def batch(seed: int) -> dict[str, torch.Tensor]:
        drawn = seeded(seed)
        return {
            "x": torch.randn(shape, generator=drawn),
            "labels": torch.randint(classes, shape[:1], generator=drawn),
        }

    return batch


def texts(rows: int = 2) -> Callable[[int], dict[str, torch.Tensor]]:
    """Batches of random words; the label of each is the next one."""

    def batch(seed: int) -> dict[str, torch.Tensor]:
        words = torch.randint(VOCABULARY, (rows, LENGTH), generator=seeded(seed))
        return {"x": words, "labels": words.roll(-1, 1)}

    return batch


def classified(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross entropy of logits whose last dimension is the classes."""
    return F.cross_entropy(logits.flatten(0, -2), labels.flatten())


def _plain(network: torch.nn.Module, batch: Any, **options: Any) -> TorchModel:
    """A network that takes one tensor and returns logits."""
    return TorchModel(network, batch, lambda n, inputs: n(inputs["x"]), classified, **options)


def mlp() -> TorchModel:
    """Two hidden layers."""
    layers = [torch.nn.Linear(24, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.GELU()]
    return _plain(torch.nn.Sequential(*layers, torch.nn.Linear(64, 10)), pictures(16, 24))


class _Lstm(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.LSTM(10, 24, num_layers=2, batch_first=True)
        self.head = torch.nn.Linear(24, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.inner(x)[0][:, -1])


def lstm() -> TorchModel:
    """Two layers over a sequence."""
    return _plain(_Lstm(), pictures(3, LENGTH, 10))


def resnet18() -> TorchModel:
    """torchvision's, with the statistics of the batch."""
    from torchvision.models import resnet18 as made

    return _plain(made(num_classes=10), pictures(2, 3, 64, 64), tolerance=1e-3)


def _language(network: torch.nn.Module, **options: Any) -> TorchModel:
    """One of transformers' language models; it returns logits."""
    network.config.use_cache = False
    return TorchModel(
        network, texts(), lambda n, inputs: n(input_ids=inputs["x"]).logits, classified, **options,
    )  # fmt: skip


def gpt2() -> TorchModel:
    """GPT-2 with two layers; no dropout."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY, n_positions=32, n_embd=WIDTH, n_layer=2, n_head=4, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return _language(GPT2LMHeadModel(config))


def _decoder(**more: Any) -> dict[str, Any]:
    sizes = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4}
    return (
        {"vocab_size": VOCABULARY, "intermediate_size": 64, "num_key_value_heads": 2} | sizes | more
    )


def llama() -> TorchModel:
    """Llama with two layers, grouped queries and rotary embeddings."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return _language(LlamaForCausalLM(LlamaConfig(**_decoder(max_position_embeddings=32))))


class _Generation(torch.nn.Module):
    """Reads a text's first half at once and the rest word by word, keys and values in a cache."""

    def __init__(self) -> None:
        from transformers import LlamaConfig, LlamaForCausalLM

        super().__init__()
        self.inner = LlamaForCausalLM(LlamaConfig(**_decoder(max_position_embeddings=32)))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        from transformers import StaticCache

        cache = StaticCache(config=self.inner.config, max_cache_len=16)
        logits: list[torch.Tensor] = []
        starts = [0, *range(LENGTH // 2, LENGTH)]
        for start, end in zip(starts, [*starts[1:], LENGTH], strict=True):
            positions = torch.arange(start, end, device=words.device)
            out = self.inner(
                input_ids=words[:, start:end],
                position_ids=positions[None],
                past_key_values=cache,
                use_cache=True,
            )
            logits.append(out.logits)
        return torch.cat(logits, 1)


def llama_generation() -> TorchModel:
    """Llama with a cache of fixed size."""
    batch = texts()
    return _plain(_Generation().eval(), batch, kinds=("forward",))


def mixtral() -> TorchModel:
    """Mixtral: two of four experts for each token."""
    from transformers import MixtralConfig, MixtralForCausalLM

    experts = {"num_local_experts": 4, "num_experts_per_tok": 2}
    config = MixtralConfig(**_decoder(max_position_embeddings=32, **experts))
    config._experts_implementation = "batched_mm"  # else the CPU counts with torch.histc
    return _language(MixtralForCausalLM(config))


def mamba() -> TorchModel:
    """Mamba, its recurrence in torch's operations."""
    from transformers import MambaConfig, MambaForCausalLM

    config = MambaConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, state_size=8, num_hidden_layers=2, time_step_rank=4,
    )  # fmt: skip
    return _language(MambaForCausalLM(config))


def bert() -> TorchModel:
    """BERT with its head for masked words; no dropout."""
    from transformers import BertConfig, BertForMaskedLM

    sizes = _decoder(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    del sizes["num_key_value_heads"]
    return _language(BertForMaskedLM(BertConfig(**sizes, max_position_embeddings=32)))


def vit() -> TorchModel:
    """A vision transformer; no dropout."""
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        image_size=32, patch_size=8, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        num_labels=10,
    )  # fmt: skip
    network = ViTForImageClassification(config)
    return TorchModel(
        network, pictures(2, 3, 32, 32), lambda n, inputs: n(pixel_values=inputs["x"]).logits,
        classified,
    )  # fmt: skip


MODELS: dict[str, Callable[[], TorchModel]] = {
    factory.__name__: factory
    for factory in (bert, gpt2, llama, llama_generation, lstm, mamba, mixtral, mlp, resnet18, vit)
}
"""Name -> the model; each is made when it is asked for."""
