"""Layers on the torch device "neuron" whose operators the CPU does not have: values and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils import _pytree as pytree

from hlo_tools.torch_device import device as torch_device

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:LSTM with projections")]

torch_device.install()

Layer = Callable[[], nn.Module]
CONVOLUTIONS: dict[str, tuple[Layer, tuple[int, ...]]] = {
    "conv1d": (lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2), (2, 4, 11)),
    "conv2d": (lambda: nn.Conv2d(3, 5, (3, 2), padding="same", padding_mode="circular"), (2, 3, 6, 5)),
    "conv3d": (lambda: nn.Conv3d(2, 3, 2, bias=False), (1, 2, 4, 3, 5)),
    "without a batch": (lambda: nn.Conv2d(3, 2, 3), (3, 5, 6)),
    "transposed 1d": (lambda: nn.ConvTranspose1d(4, 2, 3, 2, 1, output_padding=1), (2, 4, 5)),
    "transposed 2d": (lambda: nn.ConvTranspose2d(4, 6, 3, 2, groups=2, dilation=2), (2, 4, 4, 3)),
}  # fmt: skip
RECURRENT: dict[str, tuple[Layer, tuple[int, ...]]] = {
    "lstm": (lambda: nn.LSTM(5, 4, num_layers=2, bidirectional=True, batch_first=True), (3, 6, 5)),
    "lstm with a projection": (lambda: nn.LSTM(5, 4, proj_size=2), (3, 2, 5)),
    "lstm without a bias": (lambda: nn.LSTM(5, 4, bias=False), (3, 2, 5)),
    "gru": (lambda: nn.GRU(5, 4, num_layers=2, bidirectional=True), (3, 2, 5)),
    "gru without a bias": (lambda: nn.GRU(5, 4, bias=False), (3, 2, 5)),
    "rnn": (lambda: nn.RNN(5, 4, nonlinearity="relu"), (3, 2, 5)),
    "lstm cell": (lambda: nn.LSTMCell(5, 4), (3, 5)),
    "gru cell": (lambda: nn.GRUCell(5, 4), (3, 5)),
}  # fmt: skip


def results(
    layer: nn.Module, x: torch.Tensor, call: Callable[[nn.Module, torch.Tensor], Any]
) -> Any:
    """The layer's results, and gradients of its input and parameters, as tensors of the CPU."""
    x = x.clone().requires_grad_()
    values = pytree.tree_leaves(call(layer, x))
    loss = sum((value.square().sum() * (1 + n) for n, value in enumerate(values)), torch.zeros(()))
    gradients = torch.autograd.grad(loss.sum(), [x, *layer.parameters()])
    assert {tensor.device for tensor in [*values, *gradients]} == {x.device}
    return [tensor.detach().cpu() for tensor in [*values, *gradients]]


def compare(make: Layer, shape: tuple[int, ...], seed: int, call: Callable[..., Any]) -> None:
    """Compare the device with the CPU, in two precisions."""
    for dtype in (torch.float32, torch.float64):
        torch.manual_seed(seed)
        layer, x = make().to(dtype), torch.randn(shape, dtype=dtype)
        expected = results(layer, x, call)
        actual = results(layer.to("neuron"), x.to("neuron"), call)
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions(case: str, seed: int) -> None:
    compare(*CONVOLUTIONS[case], seed, lambda layer, x: layer(x))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("case", RECURRENT)
def test_recurrent_layers(case: str, seed: int) -> None:
    compare(*RECURRENT[case], seed, lambda layer, x: layer(x))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("make", [nn.LSTM, nn.GRU])
def test_sequences_of_several_lengths(make: Any, seed: int) -> None:
    def packed(layer: nn.Module, x: torch.Tensor) -> Any:
        sequence = pack_padded_sequence(x, torch.tensor([4, 2, 1]))
        values, state = layer(sequence)
        return pad_packed_sequence(values)[0], state

    compare(lambda: make(5, 4), (4, 3, 5), seed, packed)


@pytest.mark.parametrize("state", ["hidden", "cell"])
def test_the_gradient_of_a_single_state(state: str) -> None:
    index = ("hidden", "cell").index(state)
    compare(lambda: nn.LSTMCell(5, 4), (3, 5), 2, lambda layer, x: layer(x)[index])


@pytest.mark.parametrize("make", [
    lambda: nn.Conv2d(2, 3, 2), lambda: nn.LSTMCell(4, 3), lambda: nn.GRUCell(4, 3),
])  # fmt: skip
def test_second_derivatives(make: Layer) -> None:
    torch.manual_seed(4)
    layer = make()
    x = torch.randn(2, 2, 3, 3) if isinstance(layer, nn.Conv2d) else torch.randn(2, 4)
    values = []
    for device in ("cpu", "neuron"):
        there = layer.to(device)
        y = x.to(device).requires_grad_()
        first = pytree.tree_leaves(there(y))[-1].square().sum()
        (slope,) = torch.autograd.grad(first, y, create_graph=True)
        values.append(
            [g.cpu() for g in torch.autograd.grad(slope.square().sum(), [*there.parameters()])]
        )
    torch.testing.assert_close(values[1], values[0], rtol=1e-4, atol=1e-5)
