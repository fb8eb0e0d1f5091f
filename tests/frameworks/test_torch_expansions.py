"""Operators written with others, and gradients of layers: HLO's values beside PyTorch's, for two inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
import torch.nn.functional as F
from torch import nn

from tests.frameworks.torch_graphs import check

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]

Tensor = torch.Tensor
aten = torch.ops.aten


def drawn(*shapes: tuple[int, ...]) -> tuple[list[Tensor], list[Tensor]]:
    """Two sets of tensors."""
    torch.manual_seed(5)
    return [torch.randn(s) for s in shapes], [torch.randn(s) for s in shapes]


def distances(p: float) -> Callable[..., Tensor]:
    """The distances of all pairs of rows."""
    return lambda x, y: torch.cdist(x, y, p)


def slopes(p: float) -> Callable[..., Tensor]:
    """The gradient of the first rows."""
    return lambda g, x, y: aten._cdist_backward.default(g, x, y, p, torch.cdist(x, y, p))


def twice(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function of a gradient and two sets of rows, of the same rows."""
    return lambda g, x: function(g, x, x)


FUNCTIONS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "polar": (lambda a, b: torch.view_as_real(torch.polar(a, b)), [(3, 4), (3, 4)]),
    "diagonal_scatter": (lambda x, y: torch.diagonal_scatter(x, y, 1, 0, 2), [(3, 2, 4), (2, 3)]),
    "meshgrid": (lambda x, y: torch.meshgrid(x, y, indexing="xy"), [(3,), (2,)]),
    "prelu": (F.prelu, [(2, 3, 4), (3,)]),
    **{
        f"cdist {p}": (distances(p), [(2, 3, 4), (2, 5, 4)])
        for p in (0.0, 1.0, 2.0, 3.0, float("inf"))
    },
}  # fmt: skip


@pytest.mark.parametrize("case", FUNCTIONS)
def test_functions(case: str) -> None:
    function, shapes = FUNCTIONS[case]
    check(function, *drawn(*shapes))


def average(rank: int, *arguments: Any) -> Callable[..., Tensor]:
    """The gradient of average pooling."""
    operator = getattr(aten, f"avg_pool{rank}d_backward").default
    return lambda gradient, x: operator(gradient, x, *arguments)


GRADIENTS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "ceil, padding excluded": (average(2, [3, 2], [2, 2], [1, 0], True, False, None),
                               [(2, 3, 4, 3), (2, 3, 7, 5)]),
    "padding included": (average(2, [3], [2], [1], False, True, None), [(2, 3, 3, 3), (2, 3, 6, 6)]),
    "without a batch": (average(2, [2], [], [0], True, True, None), [(3, 3, 3), (3, 5, 5)]),
    "divisor": (average(2, [2], [3], [0], False, True, 5), [(1, 2, 2, 2), (1, 2, 6, 5)]),
    "three dimensions": (average(3, [2, 3, 1], [1, 2, 1], [1, 1, 0], False, False, None),
                         [(1, 2, 5, 3, 2), (1, 2, 4, 5, 2)]),
    "adaptive": (aten._adaptive_avg_pool2d_backward.default, [(2, 3, 3, 4), (2, 3, 7, 5)]),
    "edges": (lambda g, x: aten.replication_pad2d_backward.default(g, x, [2, 1, 0, 3]),
              [(2, 3, 7, 8), (2, 3, 4, 5)]),
    "edges of a single row": (lambda g, x: aten.replication_pad1d_backward.default(g, x, [2, 1]),
                              [(2, 3, 4), (2, 3, 1)]),
    "hardshrink": (lambda g, x: aten.hardshrink_backward.default(g, x, 0.5), [(3, 9), (3, 9)]),
    "softshrink": (lambda g, x: aten.softshrink_backward.default(g, x, 0.5), [(3, 9), (3, 9)]),
    "weight norm": (lambda w, v, g: aten._weight_norm_interface_backward.default(
        w, v, g, v.norm(2, (1, 2), keepdim=True), 0), [(4, 3, 2), (4, 3, 2), (4, 1, 1)]),
    "weight norm, last": (lambda w, v, g: aten._weight_norm_interface_backward.default(
        w, v, g, v.norm(2, (0,), keepdim=True), 1), [(4, 3), (4, 3), (1, 3)]),
    **{
        f"distances {p}": (slopes(p), [(2, 3, 5), (2, 3, 4), (2, 5, 4)])
        for p in (0.0, 1.0, 1.5, 2.0, 3.0, float("inf"))
    },
}  # fmt: skip


@pytest.mark.parametrize("case", GRADIENTS)
def test_gradients(case: str) -> None:
    function, shapes = GRADIENTS[case]
    check(function, *drawn(*shapes))


def test_the_gradient_of_equal_rows_is_zero() -> None:
    for p in (1.0, 1.5, 2.0):
        same = torch.ones(1, 3, 4)
        function = slopes(p)
        inputs = ([torch.ones(1, 3, 3), same], [torch.randn(1, 3, 3), torch.randn(1, 3, 4)])
        check(twice(function), *inputs)


@pytest.mark.parametrize("rank", [2, 3])
def test_gradients_of_the_largest(rank: int) -> None:
    pools = {
        2: (aten.max_pool2d_with_indices, aten.max_pool2d_with_indices_backward),
        3: (aten.max_pool3d_with_indices, aten.max_pool3d_with_indices_backward),
    }
    pool, backward = pools[rank]
    torch.manual_seed(6)
    for shape in ([2, 3, *[5] * rank], [3, *[4] * rank]):
        inputs = []
        for _ in range(2):
            x = torch.randn(shape)
            values, indices = pool(x, [2], [2], [1])
            inputs.append([torch.randn(values.shape), x, indices])
        check(lambda g, x, n: backward.default(g, x, [2], [2], [1], [1], False, n), *inputs)


def parameters(seed: int) -> list[Tensor]:
    """Draw those of an encoder's layer, in the order of the fused operator's arguments."""
    torch.manual_seed(seed)
    layer = nn.TransformerEncoderLayer(8, 2, 12)
    attention, norms = layer.self_attn, (layer.norm1, layer.norm2)
    tensors = [
        attention.in_proj_weight, attention.in_proj_bias, attention.out_proj.weight,
        attention.out_proj.bias, *(t for norm in norms for t in (norm.weight, norm.bias)),
        *(t for layer in (layer.linear1, layer.linear2) for t in (layer.weight, layer.bias)),
    ]  # fmt: skip
    return [tensor.detach() + 0.1 * torch.randn(tensor.shape) for tensor in tensors]


@pytest.mark.parametrize("kind", [None, 0, 1, 2])
@pytest.mark.parametrize(("norm_first", "activation"), [(True, "gelu"), (False, "relu")])
def test_a_fused_layer_of_attention(kind: int | None, norm_first: bool, activation: str) -> None:
    shapes = {None: (1,), 0: (5, 5), 1: (3, 5), 2: (3, 2, 5, 5)}

    def layer(x: Tensor, mask: Tensor, *tensors: Tensor) -> Tensor:
        return aten._transformer_encoder_layer_fwd.default(
            x, 8, 2, *tensors[:4], activation == "gelu", norm_first, 1e-5, *tensors[4:],
            None if kind is None else mask, kind,
        )  # fmt: skip

    inputs = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        mask = torch.rand(shapes[kind]) > 0.7
        mask[..., 0] = False
        inputs.append([torch.randn(3, 5, 8), mask, *parameters(seed)])
    check(layer, *inputs)


@pytest.mark.parametrize("averaged", [True, False])
def test_fused_attention_returns_its_weights(averaged: bool) -> None:
    def attention(x: Tensor, *tensors: Tensor) -> Any:
        return aten._native_multi_head_attention.default(
            x, x, x, 8, 2, *tensors, None, True, averaged
        )

    check(attention, *([torch.randn(3, 5, 8), *parameters(seed)[:4]] for seed in (1, 2)))


def test_a_decomposition_that_fails_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from neff.errors import NeffCompileError
    from neff.torch_trace import exported

    def fails(x: Tensor) -> Tensor:
        raise ValueError("strides do not fit")

    table = {**exported.export_table(), aten.sin.default: fails}
    monkeypatch.setattr(exported, "export_table", lambda: table)
    with pytest.raises(NeffCompileError) as caught:
        exported.exported_graph(lambda x: x.sin() + 1, (torch.ones(2),))
    assert caught.value.code == "NEFF-TORCH-DECOMPOSITION"
    assert "aten.sin" in str(caught.value) and "strides do not fit" in str(caught.value)
