"""More families of transformers and torch, small: texts to texts, sound, pictures, graphs, GANs."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from tests.models.torch_networks import (
    VOCABULARY,
    WIDTH,
    TorchModel,
    classified,
    pictures,
    seeded,
    texts,
)  # fmt: skip

__all__ = ["FAMILIES"]

Batch = dict[str, torch.Tensor]


def _both_sides() -> dict[str, int]:
    """Sizes of an encoder and a decoder."""
    return {
        f"{side}_{what}": size
        for side in ("encoder", "decoder")
        for what, size in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 64))
    }


def t5() -> TorchModel:
    """T5: relative positions by buckets, RMS norm; no dropout."""
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=VOCABULARY, d_model=WIDTH, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
        dropout_rate=0.0, decoder_start_token_id=0,
    )  # fmt: skip

    def forward(network: torch.nn.Module, batch: Batch) -> torch.Tensor:
        words = {"input_ids": batch["x"], "decoder_input_ids": batch["x"].flip(1)}
        return network(**words, use_cache=False).logits

    return TorchModel(T5ForConditionalGeneration(config), texts(), forward, classified)


def whisper() -> TorchModel:
    """Whisper: convolutions over a spectrogram, then attention from words to sound."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=VOCABULARY, num_mel_bins=8, d_model=WIDTH, max_source_positions=20,
        max_target_positions=16, dropout=0.0, bos_token_id=0, eos_token_id=0, pad_token_id=0,
        decoder_start_token_id=0, **_both_sides(),
    )  # fmt: skip

    def batch(seed: int) -> Batch:
        sound = torch.randn(2, 8, 40, generator=seeded(seed))
        return {"sound": sound} | texts()(seed)

    def forward(network: torch.nn.Module, batch: Batch) -> torch.Tensor:
        words = {"input_features": batch["sound"], "decoder_input_ids": batch["x"]}
        return network(**words, use_cache=False).logits

    return TorchModel(WhisperForConditionalGeneration(config), batch, forward, classified)


def clip() -> TorchModel:
    """CLIP: a text and a picture side by side; the loss finds which belong together."""
    from transformers import CLIPConfig, CLIPModel

    sizes = {
        "hidden_size": WIDTH, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }  # fmt: skip
    config = CLIPConfig(
        text_config=sizes | {
            "vocab_size": VOCABULARY, "max_position_embeddings": 16, "eos_token_id": 2,
            "bos_token_id": 0, "pad_token_id": 1,
        },
        vision_config=sizes | {"image_size": 32, "patch_size": 8},
        projection_dim=16,
    )  # fmt: skip

    def batch(seed: int) -> Batch:
        pictured = torch.randn(3, 3, 32, 32, generator=seeded(seed))
        return texts(3)(seed) | {"picture": pictured, "labels": torch.arange(3)}

    def forward(network: torch.nn.Module, batch: Batch) -> torch.Tensor:
        return network(input_ids=batch["x"], pixel_values=batch["picture"]).logits_per_image

    return TorchModel(CLIPModel(config), batch, forward, classified)


def swin() -> TorchModel:
    """Swin: attention inside windows that shift, patches merged."""
    from transformers import SwinConfig, SwinForImageClassification

    config = SwinConfig(
        image_size=32, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4,
        num_labels=10, drop_path_rate=0.0,
    )  # fmt: skip
    return TorchModel(
        SwinForImageClassification(config), pictures(2, 3, 32, 32),
        lambda n, inputs: n(pixel_values=inputs["x"]).logits, classified,
    )  # fmt: skip


def segformer() -> TorchModel:
    """SegFormer: attention with fewer keys, maps of several sizes resized bilinearly."""
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    config = SegformerConfig(
        num_encoder_blocks=2, depths=[1, 1], sr_ratios=[4, 2], hidden_sizes=[16, 32],
        patch_sizes=[7, 3], strides=[4, 2], num_attention_heads=[1, 2], mlp_ratios=[2, 2],
        decoder_hidden_size=16, num_labels=5, drop_path_rate=0.0, classifier_dropout_prob=0.0,
    )  # fmt: skip

    def batch(seed: int) -> Batch:
        labels = torch.randint(5, (2, 8, 8), generator=seeded(seed + 1))
        return pictures(2, 3, 32, 32)(seed) | {"labels": labels}

    return TorchModel(
        SegformerForSemanticSegmentation(config), batch,
        lambda n, inputs: n(pixel_values=inputs["x"]).logits, F.cross_entropy, tolerance=1e-3,
    )  # fmt: skip


def wav2vec2() -> TorchModel:
    """wav2vec 2.0 with the loss of its letters (CTC): convolutions over sound in groups."""
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    dropouts = ("hidden", "attention", "activation", "feat_proj", "final")
    config = Wav2Vec2Config(
        vocab_size=12, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=64, conv_dim=(16, 16), conv_stride=(5, 2), conv_kernel=(10, 3),
        num_feat_extract_layers=2, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4,
        layerdrop=0.0, apply_spec_augment=False, **{f"{dropout}_dropout": 0.0 for dropout in dropouts},
    )  # fmt: skip

    def batch(seed: int) -> Batch:
        drawn = seeded(seed)
        letters = torch.randint(1, 12, (2, 6), generator=drawn)
        return {"x": torch.randn(2, 400, generator=drawn), "labels": letters}

    def loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        scores = F.log_softmax(logits, -1).transpose(0, 1)
        lengths = (torch.full((2,), size) for size in (logits.shape[1], labels.shape[1]))
        return F.ctc_loss(scores, labels, *lengths)

    return TorchModel(
        Wav2Vec2ForCTC(config), batch, lambda n, inputs: n(input_values=inputs["x"]).logits, loss,
        tolerance=1e-3,
    )  # fmt: skip


class _Graph(torch.nn.Module):
    """Means and maxima of the neighbours."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = torch.nn.Linear(10, 16), torch.nn.Linear(16, 10)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        source, target = edges
        ones = torch.ones(target.shape[0], device=x.device)
        count = torch.zeros(x.shape[0], device=x.device).index_add(0, target, ones).clamp(min=1)

        def mean(rows: torch.Tensor) -> torch.Tensor:
            return torch.zeros_like(rows).index_add(0, target, rows[source]) / count[:, None]

        rows = mean(self.inner(x)).relu()
        positions = target[:, None].expand(-1, rows.shape[1])
        largest = torch.zeros_like(rows).scatter_reduce(
            0, positions, rows[source], "amax", include_self=False
        )
        return mean(self.outer(rows + largest))


def graph() -> TorchModel:
    """A graph network by ``index_add`` and ``scatter_reduce``."""

    def batch(seed: int) -> Batch:
        edges = torch.randint(20, (2, 50), generator=seeded(seed + 1))
        return pictures(20, 10)(seed) | {"edges": edges}

    return TorchModel(
        _Graph(), batch, lambda n, inputs: n(inputs["x"], inputs["edges"]), classified
    )


class _Adversaries(torch.nn.Module):
    """A generator of transposed convolutions, and what tells its pictures from others."""

    def __init__(self) -> None:
        super().__init__()
        nn = torch.nn
        self.makes = nn.Sequential(
            nn.ConvTranspose2d(8, 32, 4, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
            nn.ConvTranspose2d(32, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
            nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh(),
        )  # fmt: skip
        self.tells = nn.Sequential(
            nn.Conv2d(3, 16, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(16, 32, 4, 2, 1),
            nn.InstanceNorm2d(32, affine=True), nn.LeakyReLU(0.2), nn.Conv2d(32, 1, 4),
        )  # fmt: skip

    def forward(self, codes: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([self.tells(self.makes(codes)).flatten(), self.tells(x).flatten()])


def gan() -> TorchModel:
    """Both networks of a GAN in one step."""

    def batch(seed: int) -> Batch:
        codes = torch.randn(3, 8, 1, 1, generator=seeded(seed + 1))
        return pictures(3, 3, 16, 16)(seed) | {"codes": codes}

    def loss(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.softplus(-scores[0]).mean() + F.softplus(-scores[1]).mean()

    return TorchModel(
        _Adversaries(), batch, lambda n, inputs: n(inputs["codes"], inputs["x"]), loss,
        optimizer=("RMSprop", {"lr": 1e-3, "eps": 1e-2}), tolerance=1e-3,
    )  # fmt: skip


FAMILIES: dict[str, Callable[[], TorchModel]] = {
    factory.__name__: factory
    for factory in (clip, gan, graph, segformer, swin, t5, wav2vec2, whisper)
}
"""Name -> the model; each is made when it is asked for."""
