"""PyTorch's fused layers of attention, which inference takes, written with separate operators.

``torch.nn.TransformerEncoderLayer`` and ``MultiheadAttention`` call them without gradients. A mask
is True where a score is left out; its kind says which dimensions it has
(aten/src/ATen/native/transformers/attention.cpp).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from types import NotImplementedType
from typing import cast

from neff.torch_graph.pytorch import Operator, Tensor, modes, torch

__all__ = ["FUSED_ATTENTION"]

SOURCE_MASK, PADDING_MASK, WHOLE_MASK = 0, 1, 2
"""Kinds of masks: (query, key), (batch, key), (batch, head, query, key)."""


def _masked(scores: Tensor, mask: Tensor | None, kind: int | None) -> Tensor | NotImplementedType:
    if mask is None:
        return scores
    left_out = mask.to(torch.bool)
    batch, _, rows, columns = scores.shape
    shapes = {
        SOURCE_MASK: (1, 1, rows, columns), PADDING_MASK: (batch, 1, 1, columns),
        WHOLE_MASK: tuple(scores.shape),
    }  # fmt: skip
    shape = shapes.get(WHOLE_MASK if kind is None else kind)
    if shape is None or math.prod(shape) != left_out.numel():
        return NotImplemented
    return torch.where(left_out.reshape(shape), torch.full_like(scores, -math.inf), scores)


def _attention(
    query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_head: int, qkv_weight: Tensor,
    qkv_bias: Tensor, proj_weight: Tensor, proj_bias: Tensor, mask: Tensor | None = None,
    need_weights: bool = True, average_attn_weights: bool = True, mask_type: int | None = None,
) -> tuple[Tensor, Tensor | None] | NotImplementedType:  # fmt: skip
    """The projected result, and the weights if they are needed."""
    heads = [
        torch.nn.functional.linear(x, weight, bias).unflatten(-1, (num_head, -1)).transpose(1, 2)
        for x, weight, bias in zip(
            (query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True
        )
    ]
    scale = math.sqrt(embed_dim // num_head)
    scores = _masked((heads[0] / scale) @ heads[1].transpose(-2, -1), mask, mask_type)
    if scores is NotImplemented:
        return NotImplemented
    weights = torch.softmax(scores, -1)
    result = (weights @ heads[2]).transpose(1, 2).flatten(2)
    result = torch.nn.functional.linear(result, proj_weight, proj_bias)
    if not need_weights:
        return result, None
    return result, weights.mean(1) if average_attn_weights else weights


def _encoder_layer(
    src: Tensor, embed_dim: int, num_heads: int, qkv_weight: Tensor, qkv_bias: Tensor,
    proj_weight: Tensor, proj_bias: Tensor, use_gelu: bool, norm_first: bool, eps: float,
    norm_weight_1: Tensor, norm_bias_1: Tensor, norm_weight_2: Tensor, norm_bias_2: Tensor,
    ffn_weight_1: Tensor, ffn_bias_1: Tensor, ffn_weight_2: Tensor, ffn_bias_2: Tensor,
    mask: Tensor | None = None, mask_type: int | None = None,
) -> Tensor | NotImplementedType:  # fmt: skip
    """A layer of an encoder: attention, then two linear layers, each beside a residual."""
    functional = torch.nn.functional
    activation = functional.gelu if use_gelu else functional.relu

    def first_norm(x: Tensor) -> Tensor:
        return functional.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second_norm(x: Tensor) -> Tensor:
        return functional.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    source = first_norm(src) if norm_first else src
    attended = _attention(
        source, source, source, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask,
        need_weights=False, mask_type=mask_type,
    )  # fmt: skip
    if attended is NotImplemented:
        return NotImplemented
    x = src + cast("Tensor", attended[0])
    x = x if norm_first else first_norm(x)
    hidden = activation(
        functional.linear(second_norm(x) if norm_first else x, ffn_weight_1, ffn_bias_1)
    )
    x = x + functional.linear(hidden, ffn_weight_2, ffn_bias_2)
    return x if norm_first else second_norm(x)


def _flash_attention_for_cpu(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, is_causal: bool = False, *,
    attn_mask: Tensor | None = None, scale: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """PyTorch's decomposition, its result with the strides of the operator.

    torch.export views the result by the operator's strides, which the decomposition of torch 2.9
    does not have for several texts (GPT-2).
    """
    table: dict[Operator, Callable[..., tuple[Tensor, Tensor]]] = import_module(
        "torch._decomp"
    ).decomposition_table
    result, logarithms = table[_FLASH](
        query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
    )
    with modes._disable_current_modes():
        without_data = (
            torch.empty_strided(tuple(x.shape), x.stride(), dtype=x.dtype, device="meta")
            for x in (query, key, value)
        )
        strides = _FLASH(*without_data)[0].stride()
    order = sorted(range(len(strides)), key=lambda axis: -strides[axis])
    inverse = [order.index(axis) for axis in range(len(order))]
    return result.permute(order).contiguous().permute(inverse), logarithms


_FLASH: Operator = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default

FUSED_ATTENTION: dict[Operator, Callable[..., object]] = {
    _FLASH: _flash_attention_for_cpu,
    torch.ops.aten._native_multi_head_attention.default: _attention,
    torch.ops.aten._transformer_encoder_layer_fwd.default: _encoder_layer,
}
"""Operator -> the function that replaces it."""
