"""Kernels of nki-library at shapes of our own, beside its tests (``library_tests.py``)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.suites.published.cases import BF16, RANDOM, Case, normal, rms, silu, wide

__all__ = ["library"]


def library(root: Path) -> Iterator[Case]:
    """Kernels of nki-library, from small to large."""
    sys.path.insert(0, str(root / "src" / "nkilib_src"))
    yield from _small_kernels()
    yield from _projections()
    yield from _attention()
    yield from _mixture_of_experts()


def _get(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"nkilib.{module}"), name)


def _small_kernels() -> Iterator[Case]:
    x = normal(256, 5000)
    sums = x.astype(np.float64).cumsum(-1)
    yield Case("cumsum", _get("core.cumsum.cumsum", "cumsum"), (x,), (sums,))

    x = normal(4, 1, 32768)
    best = _get("core.max.cascaded_max", "cascaded_max")
    yield Case("cascaded_max", best, (x,), (x.max(-1), x.argmax(-1)))

    q, k = normal(1, 4, 1024, 128), normal(1, 2, 1024, 128)
    cos, sin = normal(1, 1024, 128), normal(1, 1024, 128)
    expected = tuple(
        t * cos[:, None] + np.concatenate([-t[..., 64:], t[..., :64]], -1) * sin[:, None]
        for t in (q, k)
    )
    yield Case(
        "rope_hf", _get("core.embeddings.rope_hf", "rope_hf"),
        (q, k, np.zeros_like(q), np.zeros_like(k), cos, sin), expected,
    )  # fmt: skip

    flags = (RANDOM.random((1024, 16)) < 0.1).astype(np.float32)
    nonzero_places = np.full((16, 1024), -1)
    for column in range(16):
        positions = np.nonzero(flags[:, column])[0]
        nonzero_places[column, : len(positions)] = positions
    nonzero = _get("core.subkernels.find_nonzero_indices", "find_nonzero_indices")
    yield Case("find_nonzero_indices", nonzero, (flags,), (nonzero_places, (flags != 0).sum(0)))

    table, offsets = np.arange(2048, dtype=np.int32).reshape(8, 256), np.arange(8) * 16
    flatten = _get("core.subkernels.indexed_flatten", "indexed_flatten")
    yield Case("indexed_flatten", flatten, (table, 16, 2048, offsets.astype(np.int32)), (table,))

    a, b = normal(512, 1024, dtype=BF16), normal(512, 1024, dtype=BF16)
    dynamic = _get("experimental.dynamic_shapes.dynamic_elementwise_add", "dynamic_elementwise_add")
    tiles = np.array([[4]], np.int32)
    yield Case("dynamic_elementwise_add", dynamic, (a, b, tiles), (wide(a) + wide(b),))

    logits, targets = normal(128, 4096, dtype=BF16), RANDOM.integers(0, 4096, 128).astype(np.int32)
    lse = np.log(np.exp(logits.astype(np.float64)).sum(-1))
    loss = lse - wide(logits)[np.arange(128), targets]
    yield Case(
        "cross_entropy", _get("experimental.loss.cross_entropy", "cross_entropy_forward"),
        (logits, targets), (loss, lse), {"positions_per_batch": 32, "chunk_size": 2048}, (2,),
    )  # fmt: skip


def _projections() -> Iterator[Case]:
    attention, weight = normal(128, 4, 8, 1, dtype=BF16, scale=0.1), normal(1024, 1024, dtype=BF16, scale=0.1)  # fmt: skip
    bias = normal(1, 1024, dtype=BF16)
    heads = wide(weight).reshape(8, 128, 1024)
    expected = np.einsum("dbns,ndh->bsh", wide(attention), heads) + wide(bias)
    out = _get("core.output_projection.output_projection_tkg", "output_projection_tkg")
    yield Case("output_projection_tkg", out, (attention, weight, bias), (expected,))

    norm = _get("core.utils.common_types", "NormType").RMS_NORM
    qkv = _get("core.qkv.qkv", "qkv")
    weight, gamma = normal(2048, 512, dtype=BF16, scale=0.02), normal(1, 2048, dtype=BF16)
    for rows in ((1, 512), (4, 1)):
        x = normal(*rows, 2048, dtype=BF16)
        yield Case(
            f"qkv {rows}", qkv, (x, weight), (rms(x, gamma) @ wide(weight),),
            {"fused_norm_type": norm, "gamma_norm_weights": gamma},
        )  # fmt: skip

    import torch

    x, filters, bias = normal(2, 64, 256), normal(4, 64, 128), normal(128)
    padded = torch.nn.functional.pad(torch.tensor(x), (1, 2))
    taps = torch.tensor(filters).permute(2, 1, 0)
    expected = torch.nn.functional.conv1d(padded, taps, torch.tensor(bias)).numpy()
    conv = _get("experimental.conv.conv1d", "conv1d")
    yield Case("conv1d", conv, (x, filters, bias), (expected,), {"padding": (1, 2)})

    x, filters = normal(2, 128, 1, 256), normal(128, 1, 1, 4)
    expected = torch.nn.functional.conv2d(
        torch.tensor(x), torch.tensor(filters), groups=128
    ).numpy()
    depthwise = _get("experimental.conv.depthwise_conv1d", "depthwise_conv1d_implicit_gemm")
    yield Case("depthwise_conv1d", depthwise, (x, filters), (expected,), {"feature_group_count": 128})  # fmt: skip


def _attention() -> Iterator[Case]:
    q, k, v = (normal(*shape, dtype=BF16) for shape in ((2, 1024, 128), (2, 128, 1024), (2, 1024, 128)))  # fmt: skip
    scores = np.einsum("bqd,bdk->bqk", wide(q), wide(k)) * 0.1
    scores = np.where(np.tril(np.ones((1024, 1024), bool)), scores, -1e30)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ wide(v)
    cte = _get("core.attention.attention_cte", "attention_cte")
    yield Case("attention_cte", cte, (q, k, v), (expected,), {"scale": 0.1, "causal_mask": True})

    import torch

    q, k, v, dy = (normal(1, 2, 128, 512, dtype=BF16) for _ in range(4))
    leaves = [torch.tensor(wide(t), requires_grad=True) for t in (q, k, v)]
    logits = torch.einsum("bhdq,bhdk->bhqk", leaves[0], leaves[1]) / 128**0.5
    out = torch.einsum("bhqk,bhdk->bhdq", torch.softmax(logits, -1), leaves[2])
    out.backward(torch.tensor(wide(dy)))
    lse = torch.logsumexp(logits, -1).detach().numpy().reshape(1, 2, 4, 128)
    yield Case(
        "attention_bwd", _get("core.attention.attention_bwd", "attention_bwd"),
        (q, k, v, out.detach().numpy().astype(BF16), dy, lse.transpose(0, 1, 3, 2).copy()),
        tuple(leaf.grad.numpy() for leaf in leaves), {"mixed_precision": True},
    )  # fmt: skip


def _mixture_of_experts() -> Iterator[Case]:
    tokens, hidden, inner, experts, block = 512, 512, 512, 4, 256
    chosen = RANDOM.integers(0, experts, tokens)
    positions = np.full((experts, block), tokens, np.int32)
    states = normal(tokens + 1, hidden, dtype=BF16, scale=0.3)
    states[tokens] = 0
    affinity = np.zeros((tokens + 1, experts), BF16)
    affinity[np.arange(tokens), chosen] = RANDOM.random(tokens)
    up = normal(experts, hidden, 2, inner, dtype=BF16, scale=0.05)
    down = normal(experts, inner, hidden, dtype=BF16, scale=0.05)
    expected = np.zeros((tokens + 1, hidden), np.float32)
    for expert in range(experts):
        token_indices = np.nonzero(chosen == expert)[0][:block]
        positions[expert, : len(token_indices)] = token_indices
        x = wide(states[token_indices])
        y = silu(x @ wide(up[expert, :, 0])) * (x @ wide(up[expert, :, 1])) @ wide(down[expert])
        expected[token_indices] += y * wide(affinity[token_indices, expert])[:, None]
    owners = np.arange(experts, dtype=np.int32)[:, None]
    arguments = (states, affinity.reshape(-1, 1), up, down, block, positions.reshape(-1), owners)
    after = _get("core.utils.common_types", "ExpertAffinityScaleMode").POST_SCALE
    shard = "core.moe.moe_cte.bwmm_shard_on_I"
    yield Case(
        "blockwise_mm", _get(shard, "blockwise_mm_baseline_shard_intermediate"), arguments,
        (expected,), {"expert_affinities_scaling_mode": after}, (2,),
    )  # fmt: skip
    conditions = np.array([1] * experts + [0], np.int32)
    yield Case(
        "blockwise_mm hybrid", _get(shard, "blockwise_mm_baseline_shard_intermediate_hybrid"),
        (conditions, *arguments), (expected,), {"num_static_block": 2}, (2,),
    )  # fmt: skip
