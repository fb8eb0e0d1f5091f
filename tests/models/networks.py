"""Networks of flax: MLP, LSTM, ResNet-18, a UNet block, ViT, BERT, GPT-2, a diffusion transformer."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from tests.models.model import Model, normal, tokens

__all__ = ["bert", "diffusion_block", "gpt2", "lstm", "mlp", "resnet18", "unet_block", "vit"]

WIDTH, HEADS, VOCABULARY, LENGTH = 32, 4, 61, 12


def _cross_entropy(logits: Any, labels: Any) -> Any:
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1)
    return -jnp.mean(chosen)


def _model(network: nn.Module, batch: Any, loss: Any, **options: Any) -> Model:
    """A model of a network whose state, if any, is updated with its weights."""
    drawn = jax.jit(lambda key, x: network.init(key, x))(jax.random.key(0), batch(0)["in"])
    weights = jax.tree.map(np.asarray, drawn)

    def forward(w: Any, batch: Any) -> Any:
        out = network.apply(w, batch["in"], mutable=["batch_stats"])
        return out if "batch_stats" in w else out[0]

    def of(w: Any, batch: Any) -> Any:
        return loss(network.apply(w, batch["in"], mutable=["batch_stats"])[0], batch["out"])

    return Model(forward, of, weights, batch, **options)


def _classified(shape: tuple[int, ...], classes: int) -> Any:
    def batch(seed: int) -> dict[str, Any]:
        return {"in": normal(seed, *shape), "out": tokens(seed, classes, shape[0])}

    return batch


class _Mlp(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        for width in (64, 64):
            x = nn.relu(nn.Dense(width)(x))
        return nn.Dense(10)(x)


def mlp() -> Model:
    """Two hidden layers."""
    return _model(_Mlp(), _classified((16, 24), 10), _cross_entropy)


class _Lstm(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.RNN(nn.OptimizedLSTMCell(24))(x)
        return nn.Dense(7)(nn.RNN(nn.OptimizedLSTMCell(24))(x)[:, -1])


def lstm() -> Model:
    """Two layers over a sequence, by flax's scan."""
    return _model(_Lstm(), _classified((3, LENGTH, 10), 7), _cross_entropy)


class _Residual(nn.Module):
    width: int
    stride: int

    @nn.compact
    def __call__(self, x: Any) -> Any:
        strides = (self.stride, self.stride)
        y = nn.Conv(self.width, (3, 3), strides, use_bias=False)(x)
        y = nn.relu(nn.BatchNorm(use_running_average=False)(y))
        y = nn.Conv(self.width, (3, 3), use_bias=False)(y)
        y = nn.BatchNorm(use_running_average=False)(y)
        if x.shape != y.shape:
            x = nn.Conv(self.width, (1, 1), strides, use_bias=False)(x)
            x = nn.BatchNorm(use_running_average=False)(x)
        return nn.relu(x + y)


class _ResNet18(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.Conv(8, (7, 7), (2, 2), use_bias=False)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=False)(x))
        x = nn.max_pool(x, (3, 3), (2, 2), "SAME")
        for number in range(8):
            stride = 2 if number in (2, 4, 6) else 1
            x = _Residual(8 << (number // 2), stride)(x)
        return nn.Dense(10)(x.mean((1, 2)))


def resnet18() -> Model:
    """All eighteen layers, an eighth as wide.

    The last features are 2 by 2: a batch norm over single pixels divides by next to nothing.
    """
    options = {"learning_rate": 0.1, "momentum": 0.9}
    return _model(
        _ResNet18(), _classified((2, 64, 64, 3), 10), _cross_entropy,
        optimizer=("sgd", options), tolerance=2e-3,
    )  # fmt: skip


class _UNet(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        def block(x: Any, width: int) -> Any:
            return nn.silu(nn.GroupNorm(4)(nn.Conv(width, (3, 3))(x)))

        first = block(x, 8)
        low = block(nn.avg_pool(first, (2, 2), (2, 2)), 16)
        flat = nn.GroupNorm(4)(low).reshape(low.shape[0], -1, 16)
        low = low + nn.MultiHeadDotProductAttention(2)(flat, flat).reshape(low.shape)
        up = nn.ConvTranspose(8, (2, 2), (2, 2))(low)
        nearest = jax.image.resize(low, (*first.shape[:3], 16), "nearest")
        return nn.Conv(3, (3, 3))(block(jnp.concatenate([first, up, nearest], -1), 8))


def unet_block() -> Model:
    """Down, attention, and up by a transposed convolution and by resizing; skip connections."""

    def batch(seed: int) -> dict[str, Any]:
        return {"in": normal(seed, 2, 8, 8, 3), "out": normal(seed + 1, 2, 8, 8, 3)}

    return _model(_UNet(), batch, lambda x, y: jnp.mean((x - y) ** 2))


class _Block(nn.Module):
    """One transformer layer, norm first."""

    causal: bool = False

    @nn.compact
    def __call__(self, x: Any, _: Any = None) -> Any:
        h = nn.LayerNorm()(x)
        mask = nn.make_causal_mask(jnp.ones(x.shape[:2])) if self.causal else None
        x = x + nn.MultiHeadDotProductAttention(HEADS)(h, h, mask=mask)
        h = nn.gelu(nn.Dense(2 * WIDTH)(nn.LayerNorm()(x)))
        return x + nn.Dense(WIDTH)(h), None


class _Vit(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.Conv(WIDTH, (4, 4), (4, 4))(x)
        x = x.reshape(x.shape[0], -1, WIDTH)
        start = self.param("class", nn.initializers.normal(), (1, 1, WIDTH))
        x = jnp.concatenate([jnp.broadcast_to(start, (x.shape[0], 1, WIDTH)), x], 1)
        x = x + self.param("places", nn.initializers.normal(), (1, x.shape[1], WIDTH))
        for _ in range(2):
            x, _ = _Block()(x)
        return nn.Dense(10)(nn.LayerNorm()(x)[:, 0])


def vit() -> Model:
    """Patches, a class token, two layers."""
    return _model(_Vit(), _classified((2, 16, 16, 3), 10), _cross_entropy)


class _Bert(nn.Module):
    @nn.compact
    def __call__(self, inputs: Any) -> Any:
        words, kinds, kept_mask = inputs["words"], inputs["kinds"], inputs["kept"]
        x = nn.Embed(VOCABULARY, WIDTH)(words) + nn.Embed(2, WIDTH)(kinds)
        x = nn.LayerNorm()(x + nn.Embed(LENGTH, WIDTH)(jnp.arange(LENGTH)))
        mask = nn.make_attention_mask(jnp.ones_like(kept_mask), kept_mask)
        for _ in range(2):
            x = nn.LayerNorm()(x + nn.MultiHeadDotProductAttention(HEADS)(x, x, mask=mask))
            h = nn.gelu(nn.Dense(2 * WIDTH)(x), approximate=False)
            x = nn.LayerNorm()(x + nn.Dense(WIDTH)(h))
        return nn.Dense(VOCABULARY)(x), nn.Dense(2)(jnp.tanh(nn.Dense(WIDTH)(x[:, 0])))


def bert() -> Model:
    """Norm last, exact GELU, padded inputs; masked words and the next sentence."""

    def batch(seed: int) -> dict[str, Any]:
        attention_mask = (np.arange(LENGTH) < np.array([[LENGTH], [LENGTH - 4]])).astype(np.int32)
        inputs = {
            "words": tokens(seed, VOCABULARY, 2, LENGTH),
            "kinds": tokens(seed + 1, 2, 2, LENGTH),
        }
        expected = {
            "words": tokens(seed + 2, VOCABULARY, 2, LENGTH),
            "next": tokens(seed + 3, 2, 2),
        }
        return {"in": inputs | {"kept": attention_mask}, "out": expected}

    def loss(out: Any, expected: Any) -> Any:
        return _cross_entropy(out[0], expected["words"]) + _cross_entropy(out[1], expected["next"])

    return _model(_Bert(), batch, loss)


class _Gpt2(nn.Module):
    @nn.compact
    def __call__(self, words: Any) -> Any:
        embedding = nn.Embed(VOCABULARY, WIDTH)
        x = embedding(words) + nn.Embed(LENGTH, WIDTH)(jnp.arange(LENGTH))
        layers = nn.scan(
            nn.remat(_Block, prevent_cse=False), variable_axes={"params": 0},
            split_rngs={"params": True}, length=3,
        )  # fmt: skip
        x, _ = layers(causal=True)(x, None)
        return embedding.attend(nn.LayerNorm()(x))


def gpt2() -> Model:
    """Three layers by ``scan``, each of them rematerialised; the head is the embedding."""

    def batch(seed: int) -> dict[str, Any]:
        return {
            "in": tokens(seed, VOCABULARY, 2, LENGTH),
            "out": tokens(seed + 1, VOCABULARY, 2, LENGTH),
        }

    return _model(_Gpt2(), batch, _cross_entropy)


class _Diffusion(nn.Module):
    @nn.compact
    def __call__(self, inputs: Any) -> Any:
        x, time = inputs["x"], inputs["time"]
        angles = time[:, None] * jnp.exp(-np.log(10000.0) * jnp.arange(8) / 8)
        start = nn.Dense(WIDTH)(jnp.concatenate([jnp.cos(angles), jnp.sin(angles)], -1))
        start = nn.silu(start) + nn.Embed(5, WIDTH)(inputs["kind"])
        changes = jnp.split(nn.Dense(6 * WIDTH)(nn.silu(start))[:, None], 6, -1)

        def changed(x: Any, shift: Any, scale: Any) -> Any:
            return nn.LayerNorm(use_bias=False, use_scale=False)(x) * (1 + scale) + shift

        h = changed(x, changes[0], changes[1])
        x = x + changes[2] * nn.MultiHeadDotProductAttention(HEADS)(h, h)
        h = nn.gelu(nn.Dense(4 * WIDTH)(changed(x, changes[3], changes[4])))
        return x + changes[5] * nn.Dense(WIDTH)(h)


def diffusion_block() -> Model:
    """A transformer layer whose norms are shifted and scaled by the time and the class."""

    def batch(seed: int) -> dict[str, Any]:
        time = np.random.default_rng(seed).uniform(0, 1000, 2).astype(np.float32)
        inputs = {"x": normal(seed, 2, 16, WIDTH), "time": time, "kind": tokens(seed, 5, 2)}
        return {"in": inputs, "out": normal(seed + 1, 2, 16, WIDTH)}

    return _model(_Diffusion(), batch, lambda x, y: jnp.mean((x - y) ** 2))
