"""Functions of PyTorch lowered to HLO and evaluated, beside PyTorch itself; operators of its test
database."""

from __future__ import annotations

import importlib.util
import logging
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

import hlo_tools
from hlo_tools.evaluate import evaluate
from hlo_tools.frameworks.torch_kernel import tensor_of, view_of
from neff.torch_graph.decompositions import decomposition_table
from neff.torch_graph.lowering import LoweredGraph, ResultNumber, lowered_graph

Tensors = Sequence[torch.Tensor]

# Each graph would be formatted for the log that pytest captures.
logging.getLogger("torch.__trace").propagate = False

DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64)
"""Each operator takes the first of them that it supports."""
UNDEFINED = {
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
}  # fmt: skip
"""Operators whose elements are not defined."""
ENDS_THE_PROCESS = {"mvlgamma"}
"""PyTorch 2.9 divides integers by zero in it."""
MAX_ELEMENTS = 4096


def lowered(function: Callable[..., Any], tensors: Tensors) -> LoweredGraph:
    """The function as a module, for tensors of these shapes."""
    from torch.func import functionalize
    from torch.fx.experimental.proxy_tensor import make_fx

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph_module = make_fx(
            functionalize(function), decomposition_table=decomposition_table(), tracing_mode="fake"
        )(*tensors)
    for node in graph_module.graph.nodes:
        if node.op == "output":
            node.args = (tuple(pytree.tree_leaves(node.args[0])),)
    return lowered_graph(graph_module, "function")


def evaluated(graph: LoweredGraph, tensors: Tensors) -> list[torch.Tensor]:
    """The tensors that the module returns, by the NumPy evaluator."""
    module = hlo_tools.load(graph.module)
    results = evaluate(module, [view_of(t.detach().contiguous()) for t in tensors])
    arrays = list(results) if isinstance(results, (list, tuple)) else [results]
    return [
        tensor_of(np.array(arrays[result.index]))
        for result in graph.results
        if isinstance(result, ResultNumber)
    ]


def expected(function: Callable[..., Any], tensors: Tensors) -> list[torch.Tensor]:
    """PyTorch's own results."""
    leaves = pytree.tree_leaves(function(*(t.clone() for t in tensors)))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def check(function: Callable[..., Any], *inputs: Tensors) -> None:
    """Lower for the first inputs; compare for all of them."""
    graph = lowered(function, inputs[0])
    for tensors in inputs:
        torch.testing.assert_close(
            evaluated(graph, tensors), expected(function, tensors), rtol=1e-4, atol=1e-4,
            equal_nan=True, check_stride=False,
        )  # fmt: skip


def database() -> dict[str, Any]:
    """PyTorch's operators with samples, by name; empty without the package expecttest."""
    if importlib.util.find_spec("expecttest") is None:
        return {}
    from torch.testing._internal.common_methods_invocations import op_db

    excluded = UNDEFINED | ENDS_THE_PROCESS
    return {op.formatted_name: op for op in op_db if op.name not in excluded}


def drawn_names(count: int, seed: int) -> list[str]:
    """Operators of the database, the same in every run."""
    names = sorted(database())
    return random.Random(seed).sample(names, min(count, len(names)))


def sample_pairs(op: Any, count: int) -> Iterator[tuple[Callable[..., Any], Tensors, Tensors]]:
    """A function of an operator's tensors, with two sets of them that differ in their values."""
    kinds = [kind for kind in DTYPES if kind in op.dtypes]
    drawn: list[list[Any]] = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        try:
            samples = op.sample_inputs("cpu", kinds[0])
            drawn.append([sample for _, sample in zip(range(count), samples, strict=False)])
        except Exception:  # an operator that this build of PyTorch lacks
            return
    for first, second in zip(*drawn, strict=False):
        (leaves, structure), (second_leaves, other_structure) = map(_flattened, (first, second))
        if structure == other_structure and all(map(_is_alike, leaves, second_leaves)):
            yield (
                _function(op, leaves, structure),
                [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)],
                [leaf for leaf in second_leaves if isinstance(leaf, torch.Tensor)],
            )


def _function(op: Any, leaves: list[Any], structure: Any) -> Callable[..., Any]:
    def function(*tensors: torch.Tensor) -> Any:
        remaining = iter(tensors)
        filled = [next(remaining) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        operand, args, kwargs = pytree.tree_unflatten(filled, structure)
        return op.op(operand, *args, **kwargs)

    return function


def _flattened(sample: Any) -> tuple[list[Any], Any]:
    return pytree.tree_flatten((sample.input, tuple(sample.args), dict(sample.kwargs)))


def _is_alike(first: Any, second: Any) -> bool:
    if not isinstance(first, torch.Tensor):
        return type(first) is type(second) and (first == second or callable(first))
    same_kind = isinstance(second, torch.Tensor) and first.dtype == second.dtype
    return same_kind and first.shape == second.shape and first.numel() <= MAX_ELEMENTS
