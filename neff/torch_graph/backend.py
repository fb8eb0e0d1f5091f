"""``torch.compile(backend="neuron")``: graphs of Dynamo, forward and backward, as NEFFs.

An entry point of the group ``torch_dynamo_backends``; importing ``torch_neuronx`` registers it as
well.
"""

from __future__ import annotations

import os
import shlex
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from importlib.metadata import entry_points
from typing import cast

from neff.errors import NeffCompileError, NeffError
from neff.options import Flags, parse_flags
from neff.torch_graph.compiled import compiled
from neff.torch_graph.decompositions import decomposition_table
from neff.torch_graph.lowering import lowered_graph
from neff.torch_graph.pytorch import Tree, torch

__all__ = ["neuron", "register"]

NAME = "neuron"
FALLBACK_VARIABLE = "TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION"
"""0: a graph that cannot be compiled runs eagerly. By default it is an error."""

_OPTIONS = ("compiler_args", "fallback_execution")

GraphFunction = Callable[..., Tree]


def neuron(
    graph_module: Tree,
    example_inputs: Sequence[Tree],
    *,
    options: Mapping[str, object] | None = None,
    mode: str | None = None,
) -> GraphFunction:
    """Compile a graph of Dynamo.

    Args:
        graph_module, example_inputs: from torch.compile.
        options: ``compiler_args``, flags of neuronx-cc; ``fallback_execution``, run a graph
            eagerly that cannot be compiled.
        mode: only the default has a meaning; others warn.

    Raises:
        NeffCompileError: ``NEFF-TORCH-OPTION``: there is no such option; ``NEFF-TORCH-*``: an
            operator cannot be lowered. torch.compile wraps it in a ``BackendCompilerFailed``.
    """
    if mode not in (None, "default"):
        warnings.warn(f'backend "{NAME}" has no mode {mode!r}; the default is used', stacklevel=2)
    choices = dict(options or {})
    unknown = sorted(choices.keys() - set(_OPTIONS))
    if unknown:
        raise NeffCompileError(
            f'backend "{NAME}" has no option {unknown[0]!r}',
            code="NEFF-TORCH-OPTION",
            remedy=f"its options are {', '.join(_OPTIONS)}",
        )
    compiler = _Compiler(_flags(choices.get("compiler_args")), _falls_back(choices))
    if any(_is_symbolic(value) for value in example_inputs):
        return _Specialized(graph_module, compiler)
    return compiler.autograd(graph_module, example_inputs)


def _flags(arguments: object) -> Flags:
    if isinstance(arguments, str):
        return parse_flags(shlex.split(arguments))
    return parse_flags(cast("Sequence[str]", arguments or ()))


def _falls_back(choices: Mapping[str, object]) -> bool:
    default = os.environ.get(FALLBACK_VARIABLE, "1") == "0"
    return bool(choices.get("fallback_execution", default))


def _is_symbolic(value: Tree) -> bool:
    if isinstance(value, torch.Tensor):
        return any(not isinstance(extent, int) for extent in value.shape)
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


class _Compiler:
    """Compiles the graphs of forward and backward, each by itself."""

    def __init__(self, flags: Flags, falls_back: bool) -> None:
        self._flags = flags
        self._falls_back = falls_back

    def autograd(self, graph_module: Tree, inputs: Sequence[Tree]) -> GraphFunction:
        """The graph with its gradient, of operators that are lowered."""
        aot_autograd: Tree = import_module("torch._dynamo.backends.common").aot_autograd
        with _plain_attention():
            return aot_autograd(
                fw_compiler=self, bw_compiler=self, decompositions=decomposition_table()
            )(graph_module, inputs)

    def __call__(self, graph_module: Tree, example_inputs: Sequence[Tree]) -> GraphFunction:
        boxed: Tree = import_module("functorch.compile").make_boxed_func
        try:
            lowered = lowered_graph(graph_module, "graph")
            text = graph_module.print_readable(print_output=False)
            program = compiled(lowered, self._flags, text)
        except NeffError as error:
            if not self._falls_back:
                raise
            warnings.warn(f"a graph runs eagerly: {error}", stacklevel=2)
            return boxed(graph_module.forward)

        def run(*arguments: Tree) -> list[Tree]:
            return program.run(arguments)

        return boxed(run)


class _Specialized:
    """A graph with symbolic extents, compiled once for each set of extents that it is called with."""

    def __init__(self, graph_module: Tree, compiler: _Compiler) -> None:
        self._graph_module = graph_module
        self._compiler = compiler
        self._functions: dict[object, GraphFunction] = {}

    def __call__(self, *arguments: Tree) -> Tree:
        key = tuple(map(_kind_of, arguments))
        function = self._functions.get(key)
        if function is None:
            simplified: Tree = import_module("torch._functorch.aot_autograd").aot_module_simplified
            with _plain_attention():
                function = self._functions[key] = simplified(
                    self._graph_module, arguments, fw_compiler=self._compiler,
                    bw_compiler=self._compiler, decompositions=decomposition_table(),
                )  # fmt: skip
        return function(*arguments)


def _plain_attention() -> AbstractContextManager[None]:
    """Let attention be products and a softmax: its fused gradient for the CPU is no such graph."""
    attention: Tree = import_module("torch.nn.attention")
    return attention.sdpa_kernel(attention.SDPBackend.MATH)


def _kind_of(value: Tree) -> object:
    if isinstance(value, torch.Tensor):
        return (tuple(value.shape), value.stride(), value.dtype, value.requires_grad)
    return value


def register() -> None:
    """Make the backend known where the package's entry points are not installed."""
    if not entry_points(group="torch_dynamo_backends", name=NAME):
        import_module("torch._dynamo").register_backend(compiler_fn=neuron, name=NAME)
