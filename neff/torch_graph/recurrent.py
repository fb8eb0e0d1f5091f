"""Recurrent layers: PyTorch's decompositions, where they are right.

The decompositions of torch 2.9 to 2.13 give the final states of a batched LSTM one dimension too many,
also for tensors without data, and leave out the dropout between layers (torch/_decomp/decompositions.py,
``one_layer_lstm`` and ``_rnn_helper``).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from types import NotImplementedType

from neff.torch_graph.pytorch import Operator, Tensor, Tree, torch

__all__ = ["RECURRENT", "right_states"]

_aten = torch.ops.aten

_STATES = {
    _aten.gru.data: 2, _aten.gru.input: 1, _aten.lstm.data: 2, _aten.lstm.input: 1,
    _aten.rnn_relu.data: 2, _aten.rnn_relu.input: 1, _aten.rnn_tanh.data: 2, _aten.rnn_tanh.input: 1,
}  # fmt: skip
"""Operator -> the position of the states among its arguments; those of the dropout follow."""


def _decomposed(operator: Operator, position: int) -> Callable[..., object]:
    table: dict[Operator, Callable[..., Tree]] = import_module("torch._decomp").decomposition_table

    def layers(*arguments: object) -> tuple[Tensor, ...] | NotImplementedType:
        """The values, and the states after the last of them."""
        num_layers, dropout, is_training = arguments[position + 3 : position + 6]
        if is_training and dropout and num_layers != 1:
            return NotImplemented
        with right_states():
            return table[operator](*arguments)

    return layers


@contextmanager
def right_states() -> Generator[None]:
    """Let final states of LSTMs have the shape of the first ones while the block runs."""
    module: Tree = import_module("torch._decomp.decompositions")
    original = module.one_layer_lstm

    def one_layer(inp: Tensor, hidden: Tree, *args: Tree, **kwargs: Tree) -> Tree:
        values, states = original(inp, hidden, *args, **kwargs)
        return values, tuple(
            state.reshape(before.shape) for state, before in zip(states, hidden, strict=True)
        )

    module.one_layer_lstm = one_layer
    try:
        yield
    finally:
        module.one_layer_lstm = original


RECURRENT = {operator: _decomposed(operator, position) for operator, position in _STATES.items()}
"""Operator -> the function that replaces it."""
