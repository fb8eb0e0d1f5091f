"""NKI kernels in graphs of PyTorch's operators: each call is one custom call of the module."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module

from hlo_tools.frameworks.plan import BoundCall, CallPlan
from hlo_tools.frameworks.torch_kernel import KERNEL_RECORDER, TORCH_DTYPES
from hlo_tools.ir.module import KERNEL_TARGET
from hlo_tools.trace import TracedArray, custom_call
from hlo_tools.trace.graph import Node
from neff.torch_graph.operator_call import OperatorCall, Row
from neff.torch_graph.pytorch import Tensor, Tree, pytree, torch

__all__ = ["KERNELS", "function_graph", "recorded_kernels"]

STATUS_RETURNING = 2
"""XLA's version of the custom call's interface that AWS's compiler takes."""

_plans: list[CallPlan] = []
"""The recorded calls; a node of the graph has a number of this list."""


@contextmanager
def recorded_kernels() -> Generator[None]:
    """Let kernels that are called in the block become operators of the graph being made."""
    token = KERNEL_RECORDER.set(_record)
    try:
        yield
    finally:
        KERNEL_RECORDER.reset(token)


def function_graph(function: Callable[..., Tree], leaves: Sequence[Tree], structure: Tree) -> Tree:
    """The graph of an operator's Python function, kernels included.

    Args:
        function: of ``nki_op``.
        leaves, structure: its flattened arguments; tensors without data have the shapes.
    """
    make_fx: Tree = import_module("torch.fx.experimental.proxy_tensor").make_fx
    functionalize: Tree = import_module("torch.func").functionalize
    decompositions: Tree = import_module("neff.torch_graph.decompositions").decomposition_table()

    def called(*tensors: Tensor) -> Tree:
        remaining = iter(tensors)
        filled = [next(remaining) if isinstance(x, torch.Tensor) else x for x in leaves]
        args, kwargs = pytree.tree_unflatten(filled, structure)
        return function(*args, **kwargs)

    tensors = [
        torch.empty(tuple(x.shape), dtype=x.dtype) for x in leaves if isinstance(x, torch.Tensor)
    ]
    with recorded_kernels():
        traced = make_fx(
            functionalize(called), decomposition_table=decompositions, tracing_mode="fake"
        )
        return traced(*tensors)


def _record(call: BoundCall) -> list[Tensor]:
    """Add a kernel's call to the graph: the results of its operator, written ones copied back."""
    _plans.append(call.plan)
    results: list[Tensor] = list(_operator()(list(call.operands), len(_plans) - 1))
    for result, tensor in call.plan.written:
        call.tensors[tensor].copy_(results[result])
        results[result] = call.tensors[tensor]
    return results


@cache
def _library() -> Tree:
    """The operator ``nki_hlo::kernel_call``, which lives as long as this object."""
    library = torch.library.Library("nki_hlo", "FRAGMENT")
    library.define("kernel_call(Tensor[] operands, int number) -> Tensor[]")
    for key in ("Meta", "CPU"):
        library.impl("kernel_call", _empty_results, key)
    return library


def _operator() -> Tree:
    _library()
    return torch.ops.nki_hlo.kernel_call.default


def _empty_results(operands: Sequence[Tensor], number: int) -> list[Tensor]:
    device = operands[0].device if operands else "cpu"
    return [
        torch.empty(spec.shape, dtype=TORCH_DTYPES[spec.dtype], device=device)
        for spec in _plans[number].results
    ]


def _kernel_call(call: OperatorCall, operands: Sequence[Node], number: int) -> tuple[Node, ...]:
    plan = _plans[number]
    with call.graph.current():
        arrays = custom_call(
            KERNEL_TARGET,
            [*(TracedArray(node) for node in operands), *plan.constants],
            [(spec.shape, spec.dtype.dtype) for spec in plan.results],
            backend_config=plan.backend_config,
            aliases=dict(plan.aliases),
            api_version=STATUS_RETURNING,
            frontend_attributes={"has_collectives": "1"} if plan.has_collectives else None,
        )
    return tuple(array.node for array in arrays)


KERNELS: dict[str, Row] = {"nki_hlo.kernel_call.default": _kernel_call}
"""Operator -> its lowering."""
