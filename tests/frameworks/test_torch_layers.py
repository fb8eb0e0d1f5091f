"""Losses, embedding bags and sampling with their gradients, lowered, beside PyTorch, for two inputs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
import torch.nn.functional as F

from tests.frameworks.torch_graphs import check, lowered

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]

Tensor = torch.Tensor


def drawn(draw: Callable[[], list[Tensor]]) -> tuple[list[Tensor], list[Tensor]]:
    """Two sets of tensors."""
    torch.manual_seed(11)
    return draw(), draw()


def slopes(function: Callable[..., Tensor], *tensors: Tensor) -> list[Tensor]:
    """A function's value and its gradients by tensors, for a gradient that differs everywhere."""
    result, vjp = torch.func.vjp(function, *tensors)
    return [result, *vjp(result.cos())]


LOSSES: dict[str, Callable[..., Tensor]] = {
    "nll": lambda x, y, n, r: F.nll_loss(x, n, reduction=r),
    "nll, weights": lambda x, y, n, r: F.nll_loss(x, n, x[0].exp(), ignore_index=1, reduction=r),
    "cross entropy": lambda x, y, n, r: F.cross_entropy(x, n, label_smoothing=0.1, reduction=r),
    "margin ranking": lambda x, y, n, r: F.margin_ranking_loss(x, y, y.sign(), 0.1, reduction=r),
    "hinge embedding": lambda x, y, n, r: F.hinge_embedding_loss(x, y.sign(), reduction=r),
    "cosine embedding": lambda x, y, n, r: F.cosine_embedding_loss(
        x, y, n % 2 * 2 - 1, reduction=r
    ),
    "triplet": lambda x, y, n, r: F.triplet_margin_loss(x, y, x.flip(0), reduction=r),
    "huber": lambda x, y, n, r: F.huber_loss(x, y, reduction=r),
    "smooth l1": lambda x, y, n, r: F.smooth_l1_loss(x, y, reduction=r, beta=0.5),
    "mse": lambda x, y, n, r: F.mse_loss(x, y, reduction=r),
    "l1": lambda x, y, n, r: F.l1_loss(x, y, reduction=r),
    "kl": lambda x, y, n, r: F.kl_div(x, y.softmax(1), reduction=r),
    "binary": lambda x, y, n, r: F.binary_cross_entropy(x.sigmoid(), y.sigmoid(), reduction=r),
    "binary, logits": lambda x, y, n, r: F.binary_cross_entropy_with_logits(
        x, y.sigmoid(), reduction=r
    ),
    "soft margin": lambda x, y, n, r: F.soft_margin_loss(x, y.sign(), reduction=r),
    "poisson": lambda x, y, n, r: F.poisson_nll_loss(x, y.exp(), reduction=r),
    "multi margin": lambda x, y, n, r: F.multi_margin_loss(x, n, reduction=r),
    "multilabel": lambda x, y, n, r: F.multilabel_soft_margin_loss(x, (y > 0).float(), reduction=r),
}


@pytest.mark.parametrize("case", LOSSES)
def test_losses_in_every_reduction(case: str) -> None:
    def inputs() -> list[Tensor]:
        return [torch.randn(4, 5), torch.randn(4, 5), torch.randint(5, (4,))]

    def every(x: Tensor, y: Tensor, n: Tensor) -> list[Tensor]:
        return [LOSSES[case](x, y, n, r) for r in ("mean", "sum", "none")]

    check(every, *drawn(inputs))


def bags() -> list[Tensor]:
    """Weights, indices, the starts of five bags of which one is empty, and a weight of each index."""
    starts = torch.tensor([0, 2, 2, 5, 8, 10])
    return [torch.randn(7, 3), torch.randint(7, (10,)), starts, torch.randn(10)]


@pytest.mark.parametrize(
    ("mode", "ends", "padding"), [*product(("sum", "mean", "max"), (False, True), (None, 2))]
)
def test_embedding_bags_and_gradients(mode: str, ends: bool, padding: int | None) -> None:
    options: dict[str, Any] = {"mode": mode, "include_last_offset": ends, "padding_idx": padding}

    def function(weight: Tensor, indices: Tensor, starts: Tensor, scales: Tensor) -> list[Tensor]:
        starts = starts if ends else starts[:-1]
        return slopes(lambda w: F.embedding_bag(indices, w, starts, **options), weight)

    check(function, *drawn(bags))


def test_a_weight_of_each_index() -> None:
    def function(weight: Tensor, indices: Tensor, starts: Tensor, scales: Tensor) -> list[Tensor]:
        options = {"mode": "sum", "padding_idx": 4}
        return slopes(
            lambda w, s: F.embedding_bag(indices, w, starts[:-1], per_sample_weights=s, **options),
            weight, scales,
        )  # fmt: skip

    check(function, *drawn(bags))


@pytest.mark.parametrize("option", ["sparse", "scale_grad_by_freq"])
def test_other_gradients_of_bags_are_refused(option: str) -> None:
    def function(weight: Tensor, indices: Tensor) -> list[Tensor]:
        return slopes(lambda w: F.embedding_bag(indices, w, **{option: True}), weight)

    with pytest.raises(Exception, match="NEFF-TORCH-OPERATOR"):
        lowered(function, [torch.zeros(5, 2), torch.zeros(2, 3, dtype=torch.int64)])


@pytest.mark.parametrize(
    ("mode", "padding", "aligned"),
    [
        ("bilinear", "zeros", False),
        ("bilinear", "border", True),
        ("bilinear", "reflection", False),
        ("bilinear", "reflection", True),
        ("nearest", "zeros", True),
    ],
)
def test_gradients_of_grid_sample(mode: str, padding: str, aligned: bool) -> None:
    def function(x: Tensor, grid: Tensor) -> list[Tensor]:
        return slopes(lambda x, grid: F.grid_sample(x, grid, mode, padding, aligned), x, grid)

    check(function, *drawn(lambda: [torch.randn(2, 3, 4, 5), torch.randn(2, 3, 2, 2) * 1.5]))


@pytest.mark.parametrize("offset", [-2, 0, 1, 9])
def test_indices_of_triangles(offset: int) -> None:
    def function(x: Tensor) -> list[Tensor]:
        return [x + torch.tril_indices(3, 5, offset).sum(), torch.triu_indices(4, 2, offset)]

    check(function, *drawn(lambda: [torch.randn(2)]))


def test_windows_are_constants() -> None:
    def function(x: Tensor) -> list[Tensor]:
        windows = (
            torch.hann_window,
            torch.hamming_window,
            torch.blackman_window,
            torch.kaiser_window,
        )
        return [x * window(6, periodic=False, dtype=torch.float32) for window in windows]

    check(function, *drawn(lambda: [torch.randn(6)]))
