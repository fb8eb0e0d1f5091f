"""A graph of PyTorch's operators (torch.fx) as one HLO module."""

from __future__ import annotations

import contextlib
import operator
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import hlo_tools
import neff
import nki_lang
from hlo_tools.frameworks.torch_kernel import view_of
from hlo_tools.frameworks.torch_operator import OPERATOR_FUNCTIONS
from hlo_tools.torch_device.tensors import host_view
from hlo_tools.trace.emission import to_proto
from hlo_tools.trace.graph import DType, Graph, Node, Operand
from neff.torch_graph import errors
from neff.torch_graph.kernels import function_graph
from neff.torch_graph.operator_call import OperatorCall, Shape
from neff.torch_graph.pytorch import Operator, Tree, modes, pytree, torch
from neff.torch_graph.pytorch_dtypes import numpy_dtype
from neff.torch_graph.rows import LOWERED_OPERATORS

__all__ = ["LoweredGraph", "lowered_graph", "user_place"]

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_INTERNAL_FOLDERS = tuple(
    str(Path(cast("str", module.__file__)).resolve().parent) + os.sep
    for module in (torch, neff, hlo_tools, nki_lang, contextlib)
)
_ASSERTIONS = ("aten._assert_tensor_metadata.default",)
"""Operators without a result that check what a graph of fixed shapes and dtypes fixes."""
_NO_NAME = re.compile(r"[^A-Za-z0-9_]+")


@dataclass(frozen=True, slots=True)
class LoweredGraph:
    """A graph as a module.

    Attributes:
        module: serialized ``HloModuleProto``.
        results: what the graph returns: the number of the module's result, or a value that is no
            tensor.
        kinds: shape, strides, torch dtype and device of each of the module's results.
    """

    module: bytes
    results: tuple[object, ...]
    kinds: tuple[tuple[Shape, Shape, Tree, Tree], ...]


@dataclass(frozen=True, slots=True)
class ResultNumber:
    """The number of a module's result."""

    index: int


def lowered_graph(graph_module: Tree, name: str) -> LoweredGraph:
    """Lower every node of a graph whose operators are functional.

    Args:
        graph_module: a ``torch.fx.GraphModule`` whose nodes have ``meta["val"]``.
        name: of the module.

    Raises:
        TorchGraphError: ``NEFF-TORCH-OPERATOR``, ``-ARGUMENT``, ``-DATA``, ``-RANDOM`` or
            ``-RESULT``, at the user's line.
    """
    lowering = _Lowering(graph_module, name)
    for node in graph_module.graph.nodes:
        lowering.add(node)
    return lowering.finished()


class _Lowering:
    """One walk over a graph."""

    def __init__(self, graph_module: Tree, name: str) -> None:
        self._owner = graph_module
        self._graph = Graph(_NO_NAME.sub("_", name), op_type="aten")
        self._values: dict[Tree, Tree] = {}
        self._returned: Tree = ()
        self._kinds: list[tuple[Shape, Shape, Tree, Tree]] = []

    def add(self, node: Tree) -> None:
        """Lower one node of torch.fx."""
        start = len(self._graph.nodes)
        _STEPS[node.op](self, node)
        frame = user_frame(node)
        for added in self._graph.nodes[start:]:
            added.source = frame

    def placeholder(self, node: Tree) -> None:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            self._values[node] = value
            return
        shape, dtype = _kind_of(value, node)
        self._values[node] = self._graph.parameter(shape, dtype, _NO_NAME.sub("_", node.name))

    def attribute(self, node: Tree) -> None:
        value: Tree = self._owner
        for name in node.target.split("."):
            value = getattr(value, name)
        if not isinstance(value, torch.Tensor):
            raise errors.no_row(f"the submodule {node.target}", user_place(node))
        self._values[node] = self._graph.constant(_array_of(value))

    def output(self, node: Tree) -> None:
        self._returned = node.args[0]
        values = torch.fx.node.map_arg(self._returned, _value_without_data)
        self._kinds = [
            (tuple(value.shape), tuple(value.stride()), value.dtype, value.device)
            for value in _listed(values)
            if isinstance(value, torch.Tensor)
        ]

    def call(self, node: Tree) -> None:
        if node.target is operator.getitem:
            source = self._values[node.args[0]]
            self._values[node] = source[node.args[1]]
            return
        name, place = str(node.target), user_place(node)
        if name in _ASSERTIONS:
            return
        if name in OPERATOR_FUNCTIONS:
            self._inline(node, OPERATOR_FUNCTIONS[name])
            return
        row = LOWERED_OPERATORS.get(name)
        if row is None:
            constant = _constant_of(node)
            if constant is None:
                raise _refusal(node, name, place)
            self._values[node] = self._graph.constant(_array_of(constant))
            return
        values = _tensors_of(node)
        shapes, dtypes = zip(*(_kind_of(value, node) for value in values), strict=True)
        call = OperatorCall(self._graph, name, place, shapes, dtypes, _in_c_order(node))
        arguments = torch.fx.node.map_arg(_arguments(node), self._value_of)
        try:
            result = row(call, *arguments)
        except (TypeError, ValueError, IndexError, KeyError) as error:
            raise call.refused(f"for these arguments ({error})") from error
        results = result if isinstance(result, tuple) else (result,)
        _check(call, results)
        is_tensor = isinstance(node.meta["val"], torch.Tensor)
        self._values[node] = results[0] if is_tensor else results

    def _inline(self, node: Tree, function: Callable[..., Tree]) -> None:
        """Lower an operator of ``nki_op``: the operators and kernels of its function."""
        values = torch.fx.node.map_arg((node.args, node.kwargs), _value_without_data)
        leaves, structure = pytree.tree_flatten(values)
        graph_module = function_graph(function, leaves, structure)
        arguments = torch.fx.node.map_arg((node.args, node.kwargs), self._value_of)
        operands = [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, Node)]
        outer, self._owner = self._owner, graph_module
        for inner in graph_module.graph.nodes:
            if inner.op == "placeholder":
                self._values[inner] = operands.pop(0)
            elif inner.op == "output":
                self._values[node] = torch.fx.node.map_arg(inner.args[0], self._value_of)
            else:
                _STEPS[inner.op](self, inner)
        self._owner = outer

    def _value_of(self, node: Tree) -> Tree:
        value = self._values[node]
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise errors.data_dependent(str(node.target), user_place(node))
        return value

    def finished(self) -> LoweredGraph:
        nodes: list[Node] = []
        results: list[object] = []
        for leaf in _listed(self._returned):
            value = self._value_of(leaf) if isinstance(leaf, torch.fx.Node) else leaf
            if isinstance(value, Node):
                results.append(ResultNumber(len(nodes)))
                nodes.append(_own_memory(value))
            else:
                results.append(value)
        names = [f"output{number}" for number in range(len(nodes))]
        proto = to_proto(self._graph, nodes, names, {})
        return LoweredGraph(proto.SerializeToString(), tuple(results), tuple(self._kinds))


_STEPS: dict[str, Callable[[_Lowering, Tree], None]] = {
    "call_function": _Lowering.call,
    "get_attr": _Lowering.attribute,
    "output": _Lowering.output,
    "placeholder": _Lowering.placeholder,
}


def _in_c_order(node: Tree) -> bool:
    values = [operand.meta.get("val") for operand in node.all_input_nodes]
    return all(v.is_contiguous() for v in values if isinstance(v, torch.Tensor))


def _value_without_data(node: Tree) -> Tree:
    return node.meta.get("val")


def _own_memory(node: Node) -> Node:
    """A parameter that is returned as it is: results have memory of their own."""
    if node.opcode != "parameter":
        return node
    return node.graph.emit("copy", node.shape, node.dtype, (node,))


def _listed(values: Tree) -> list[Tree]:
    is_sequence = isinstance(values, (list, tuple))
    return list(cast("Sequence[Tree]", values)) if is_sequence else [values]


def _refusal(node: Tree, name: str, location: str) -> errors.TorchGraphError:
    tags = getattr(node.target, "tags", ())
    if torch.Tag.nondeterministic_seeded in tags:
        return errors.random_operator(name, location)
    if {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output} & set(tags):
        return errors.data_dependent(name, location)
    return errors.no_row(name, location)


def _constant_of(node: Tree) -> Tree:
    """The result of an operator without tensors among its arguments, like ``hann_window``; or None."""
    value: Tree = node.meta.get("val")
    is_random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    if node.all_input_nodes or is_random or not isinstance(value, torch.Tensor):
        return None
    _kind_of(value, node)  # a dtype that HLO lacks is refused
    on_cpu = {"device": "cpu"} if "device" in node.kwargs else {}
    with modes._disable_current_modes():
        return node.target(*node.args, **{**node.kwargs, **on_cpu})


def _arguments(node: Tree) -> list[Tree]:
    """Every argument of the operator's schema, defaults included."""
    target: Operator = node.target
    arguments: list[Tree] = []
    for number, argument in enumerate(target._schema.arguments):
        if number < len(node.args):
            arguments.append(node.args[number])
        else:
            arguments.append(node.kwargs.get(argument.name, argument.default_value))
    return arguments


def _tensors_of(node: Tree) -> list[Tree]:
    """The results' tensors without data."""
    value = node.meta.get("val")
    values = [leaf for leaf in _listed(value) if isinstance(leaf, torch.Tensor)]
    if not values:
        raise errors.data_dependent(str(node.target), user_place(node))
    return values


def _kind_of(value: Tree, node: Tree) -> tuple[Shape, DType]:
    dtype = numpy_dtype(value.dtype)
    if dtype is None or value.layout is not torch.strided:
        raise errors.not_lowered(
            str(node.target), user_place(node), f"for tensors of {value.dtype}, {value.layout}"
        )
    extents: list[int] = []
    for extent in value.shape:
        if not isinstance(extent, int):
            raise errors.data_dependent(str(node.target), user_place(node))
        extents.append(extent)
    return tuple(extents), dtype


def _check(call: OperatorCall, results: Sequence[Node]) -> None:
    """Refuse a result of another kind than PyTorch's."""
    for node, shape, dtype in zip(results, call.shapes, call.dtypes, strict=False):
        if (node.shape, node.dtype) != (shape, dtype):
            raise errors.wrong_result(
                call.name, call.place, f"{node.dtype}{node.shape}", f"{dtype}{shape}"
            )


def _array_of(tensor: Tree) -> Operand:
    """The elements of a constant; torch.compile lowers under a mode of tensors without data."""
    with modes._disable_current_modes():
        return view_of(host_view(tensor.detach()).cpu().contiguous())


def user_frame(node: Tree) -> tuple[str, int] | None:
    """(file, line) of the innermost frame of the user's code that made a node."""
    trace = node.meta.get("stack_trace") or ""
    frames = [(name, int(line)) for name, line in _FRAME.findall(trace)]
    for name, line in reversed(frames):
        if not name.startswith(_INTERNAL_FOLDERS) and not name.startswith("<"):
            return name, line
    return frames[-1] if frames else None


def user_place(node: Tree) -> str:
    """``file:line`` of the user's code, or ""."""
    frame = user_frame(node)
    return f"{frame[0]}:{frame[1]}" if frame else ""
