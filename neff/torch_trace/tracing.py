"""Functions and modules of PyTorch, traced, compiled, and run.

The function runs once on torch_xla's lazy tensors, or by torch.export on tensors without values,
which makes one HLO module of it; parameters and other tensors that are not inputs travel with the result. The module is compiled for the
current target, written, read back, and run by this project's runtime at each call.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from hlo_tools.frameworks.torch_kernel import tensor_of, view_of
from neff.errors import NeffCompileError
from neff.options import parse_flags
from neff.runtime import LoadedModel
from neff.torch_graph.compiled import built
from neff.torch_graph.pytorch import Tree, pytree, torch
from neff.torch_trace.exported import exported_graph
from neff.torch_trace.graph import TracedGraph, traced_graph
from neff.torch_trace.keywords import check_keywords

__all__ = ["TracedModel", "trace"]

_TORCH_XLA_LACKS = ("NEFF-TRACE-HOST", "NEFF-TRACE-OPERATOR")
"""Codes of operators that torch_xla does not lower, but torch.export may."""


class TracedModel(torch.nn.Module):
    """A compiled function: called with arguments like the examples, returns the function's results.

    State that the function writes (buffers, for instance) belongs to this object: each call
    updates it. Inputs that the function writes are written.

    Attributes:
        model: the loaded NEFF.
    """

    def __init__(self, model: LoadedModel, graph: TracedGraph, arguments: tuple[Tree, ...]) -> None:
        torch.nn.Module.__init__(self)
        self.model = model
        self._graph = graph
        self._sources = list(graph.sources)
        leaves, self._arguments = pytree.tree_flatten(arguments)
        self._examples = [_kind_of(leaf) for leaf in leaves]

    def forward(self, *inputs: Tree) -> Tree:
        """Run the NEFF.

        Raises:
            ValueError: the arguments differ from the examples in number, structure, shape, dtype,
                or, if they are no tensors, in value.
        """
        leaves, structure = pytree.tree_flatten(inputs)
        kinds = [_kind_of(leaf) for leaf in leaves]
        if kinds != self._examples or structure != self._arguments:
            raise ValueError(
                f"the model was traced for {_described(self._examples)}, "
                f"it was called with {_described(kinds)}; trace it again for other arguments"
            )
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        chosen = [
            tensors[source] if isinstance(source, int) else source for source in self._sources
        ]
        arrays = [view_of(tensor.detach().cpu()) for tensor in chosen]
        run = self.model.run(dict(zip(self.model.inputs, arrays, strict=True)))
        graph = self._graph
        results = [
            tensor_of(run[name]).to(kind).reshape(shape)
            for name, (shape, kind) in zip(self.model.outputs, graph.results, strict=True)
        ]
        returned = len(results) - len(graph.written)
        for place, value in zip(graph.written, results[returned:], strict=True):
            source = self._sources[place.source] if place.source is not None else place.input
            if isinstance(source, int):
                with torch.no_grad():
                    tensors[source].copy_(value)
            else:
                self._sources[cast("int", place.source)] = value
        return pytree.tree_unflatten(results[:returned], graph.structure)


def trace(
    func: Callable[..., Tree],
    example_inputs: Tree,
    *,
    compiler_workdir: str | os.PathLike[str] | None = None,
    compiler_args: str | Sequence[str] | None = None,
    **keywords: Tree,
) -> TracedModel:
    """Compile a function or module for tensors like the examples.

    Args:
        func: a function, an ``nki.jit`` kernel or a ``torch.nn.Module`` (which is copied).
        example_inputs: a tensor or a tuple of arguments. Values of tensors do not matter; other
            arguments keep theirs.
        compiler_workdir: where to leave ``graph.neff`` and ``model.hlo_module.pb``.
        compiler_args: flags of ``neuronx-cc``; ``--target`` overrides
            NEURON_PLATFORM_TARGET_OVERRIDE.
        keywords: the vendor's others: ``inline_weights_to_neff``, False to trace by torch.export, so
            that weights have names; ``cpu_backend``, which has no effect here; also ``input_output_aliases`` and ``partitioner_config`` when empty.

    Raises:
        NeffCompileError: the program is not covered or does not fit the target; ``NEFF-TRACE-READ``,
            ``-HOST``, ``-RANDOM`` or ``-STATE``: the function needs a value while it is traced, or
            would behave differently at the next call; ``NEFF-TRACE-KEYWORD`` (a TypeError, too):
            there is no such keyword.
        NkiValidationError: a kernel breaks a rule, at its line.
    """
    check_keywords(keywords)
    flags = parse_flags(
        shlex.split(compiler_args) if isinstance(compiler_args, str) else compiler_args or ()
    )
    several = isinstance(example_inputs, tuple)
    arguments = cast("tuple[Tree, ...]", example_inputs if several else (example_inputs,))
    graph = _graph_of(func, arguments, keywords)
    with TemporaryDirectory(prefix="nki-hlo-") as scratch:
        folder = Path(compiler_workdir or scratch)
        model = built(graph.module, folder, flags)
    return TracedModel(model, graph, arguments)


def _graph_of(
    func: Callable[..., Tree], arguments: tuple[Tree, ...], keywords: Mapping[str, object]
) -> TracedGraph:
    """By torch_xla where it is installed, else by torch.export.

    Weights with names, which ``replace_weights`` needs, are those of torch.export.
    """
    has_names = keywords.get("inline_weights_to_neff") is False
    if has_names or find_spec("torch_xla") is None:
        return exported_graph(func, arguments)
    try:
        return traced_graph(func, arguments)
    except NeffCompileError as error:
        if error.code not in _TORCH_XLA_LACKS:
            raise
        try:
            return exported_graph(func, arguments)
        except Exception:
            raise error from None


def _kind_of(leaf: Tree) -> object:
    """Return the properties that an argument must share with its example."""
    return (tuple(leaf.shape), leaf.dtype) if isinstance(leaf, torch.Tensor) else (leaf,)


def _described(kinds: Sequence[object]) -> str:
    texts: list[str] = []
    for kind in cast("Sequence[tuple[Tree, ...]]", kinds):
        shape, *dtype = kind
        texts.append(
            f"{str(dtype[0]).removeprefix('torch.')}{list(shape)}" if dtype else repr(shape)
        )
    return ", ".join(texts)
