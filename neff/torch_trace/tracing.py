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
from neff.torch_trace.batches import batches_of, joined, kind_of
from neff.torch_trace.exported import exported_graph
from neff.torch_trace.graph import TracedGraph, traced_graph
from neff.torch_trace.keywords import check_keywords
from neff.torch_trace.saved import save

__all__ = ["TracedModel", "trace"]

_TORCH_XLA_LACKS = ("NEFF-TRACE-HOST", "NEFF-TRACE-OPERATOR")
"""Codes of operators that torch_xla does not lower, but torch.export may."""


class TracedModel(torch.nn.Module):
    """A compiled function: called with arguments like the examples, returns the function's results.

    State that the function writes (buffers, for instance) belongs to this object: each call
    updates it. Inputs that the function writes are written.

    Attributes:
        model: the loaded NEFF.
        graph: what the NEFF was built from.
        sources: what feeds each of its parameters: an input's number, or a tensor.
        structure, examples: how the arguments are nested, and what each has in common with its
            example.
        has_dynamic_batch: set by :func:`neff.torch_trace.dynamic_batch`.
    """

    def __init__(
        self, model: LoadedModel, graph: TracedGraph, structure: Tree, examples: Sequence[object]
    ) -> None:
        torch.nn.Module.__init__(self)
        self.model = model
        self.graph = graph
        self.sources: list[Tree] = list(graph.sources)
        self.structure = structure
        self.examples = list(examples)
        self.has_dynamic_batch = False

    def save(self, path: str | os.PathLike[str], _extra_files: object = None) -> None:
        """Write the model, its weights and its NEFF; ``torch.jit.save`` does the same."""
        save(self, path)

    def forward(self, *inputs: Tree) -> Tree:
        """Run the NEFF, once for each batch of the examples' size after ``dynamic_batch``.

        Raises:
            ValueError: the arguments differ from the examples in number, structure, shape, dtype,
                or, if they are no tensors, in value.
        """
        leaves, structure = pytree.tree_flatten(inputs)
        kinds = [kind_of(leaf) for leaf in leaves]
        if kinds == self.examples and structure == self.structure:
            return self._run(leaves)
        if self.has_dynamic_batch and structure == self.structure:
            batches = batches_of(leaves, self.examples)
            if batches is not None:
                return joined([self._run(batch) for batch in batches.leaves], batches)
        raise ValueError(
            f"the model was traced for {_described(self.examples)}, "
            f"it was called with {_described(kinds)}; trace it again for other arguments"
        )

    def _run(self, leaves: Sequence[Tree]) -> Tree:
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        chosen = [tensors[source] if isinstance(source, int) else source for source in self.sources]
        arrays = [view_of(tensor.detach().cpu()) for tensor in chosen]
        run = self.model.run(dict(zip(self.model.inputs, arrays, strict=True)))
        graph = self.graph
        results = [
            tensor_of(run[name]).to(kind).reshape(shape)
            for name, (shape, kind) in zip(self.model.outputs, graph.results, strict=True)
        ]
        returned = len(results) - len(graph.written)
        for location, value in zip(graph.written, results[returned:], strict=True):
            source = (
                self.sources[location.source] if location.source is not None else location.input
            )
            if isinstance(source, int):
                with torch.no_grad():
                    tensors[source].copy_(value)
            else:
                self.sources[cast("int", location.source)] = value
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
    leaves, structure = pytree.tree_flatten(arguments)
    return TracedModel(model, graph, structure, [kind_of(leaf) for leaf in leaves])


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


def _described(kinds: Sequence[object]) -> str:
    texts: list[str] = []
    for kind in cast("Sequence[tuple[Tree, ...]]", kinds):
        shape, *dtype = kind
        texts.append(
            f"{str(dtype[0]).removeprefix('torch.')}{list(shape)}" if dtype else repr(shape)
        )
    return ", ".join(texts)
