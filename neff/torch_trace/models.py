"""The methods of a traced model that the vendor's tutorials use: load, batches, several devices, weights."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import cast

from neff.errors import NeffCompileError
from neff.torch_graph.pytorch import Tensor, Tree, pytree, torch
from neff.torch_graph.rows import LOWERED_OPERATORS
from neff.torch_trace.batches import kind_of
from neff.torch_trace.exported import root_program
from neff.torch_trace.saved import is_saved_model, read_saved
from neff.torch_trace.tracing import TracedModel
from nki_lang.base.visible_cores import core_count

__all__ = [
    "DataParallel", "analyze", "async_load", "dynamic_batch", "install_load", "lazy_load", "load",
    "move_trace_to_device", "replace_weights",
]  # fmt: skip


def load(path: str | os.PathLike[str]) -> TracedModel:
    """Read a model that ``torch.jit.save`` or :meth:`TracedModel.save` wrote.

    Raises:
        NeffFileError: ``NEFF-TRACE-FILE``.
    """
    model, graph, structure, examples, is_dynamic = read_saved(path)
    traced = TracedModel(model, graph, structure, examples)
    traced.has_dynamic_batch = is_dynamic
    return traced


def install_load() -> None:
    """Let ``torch.jit.load`` read traced models, too. Does so once."""
    jit_load: Tree = torch.jit.load
    if hasattr(jit_load, "reads_traced_models"):
        return

    def loaded(f: Tree, *args: Tree, **kwargs: Tree) -> Tree:
        return load(f) if is_saved_model(f) else jit_load(f, *args, **kwargs)

    loaded.__doc__ = jit_load.__doc__
    loaded.reads_traced_models = True  # type: ignore[attr-defined]
    torch.jit.load = loaded


def dynamic_batch(neuron_script: TracedModel) -> TracedModel:
    """Let a model be called with any batch size; changes and returns it.

    Every tensor argument has the batch as dimension 0, and so has every result. Batches of the
    traced size run one after the other, the last one filled with zeros.

    Raises:
        NeffCompileError: ``NEFF-TRACE-BATCH``: the model writes state or inputs, or a result has no
            such dimension.
    """
    model = _traced(neuron_script)
    shapes = [kind[0] for kind in _tensor_kinds(model)]
    sizes = {shape[0] if shape else 0 for shape in shapes}
    results = {shape[0] if shape else 0 for shape, _ in model.graph.results}
    if model.graph.written or len(sizes) != 1 or 0 in sizes or results != sizes:
        raise NeffCompileError(
            "dynamic_batch needs a model whose tensors, arguments and results, have the batch as "
            "dimension 0, and that writes nothing",
            code="NEFF-TRACE-BATCH",
            remedy="trace the model for each batch size",
        )
    model.has_dynamic_batch = True
    return model


def _tensor_kinds(model: TracedModel) -> list[tuple[Tree, ...]]:
    kinds = cast("list[tuple[Tree, ...]]", model.examples)
    return [kind for kind in kinds if len(kind) == 2]


def _traced(model: object) -> TracedModel:
    if not isinstance(model, TracedModel):
        raise TypeError(f"a model of torch_neuronx.trace is needed, not a {type(model).__name__}")
    return model


def replace_weights(neuron_model: TracedModel, weights: Tree) -> None:
    """Replace the weights of a model that was traced with ``inline_weights_to_neff=False``.

    Args:
        neuron_model: the model, which is changed.
        weights: a module or a ``state_dict``, with the names, shapes and dtypes of those traced.

    Raises:
        NeffCompileError: ``NEFF-TRACE-WEIGHTS``: the model's weights have no names.
        ValueError: a name is unknown or missing, or a weight is of another shape or dtype.
    """
    model = _traced(neuron_model)
    if not model.graph.names:
        raise NeffCompileError(
            "the weights of this model have no names",
            code="NEFF-TRACE-WEIGHTS",
            remedy="trace it with inline_weights_to_neff=False",
        )
    table: Mapping[str, Tensor]
    table = weights.state_dict() if isinstance(weights, torch.nn.Module) else weights
    numbers = {name: number for number, name in enumerate(model.graph.names) if name}
    unknown = sorted(table.keys() - numbers.keys())
    if unknown:
        raise ValueError(f"the model has no weight {unknown[0]!r}; it has {', '.join(numbers)}")
    for name, tensor in table.items():
        present = model.sources[numbers[name]]
        if kind_of(tensor) != kind_of(present):
            raise ValueError(
                f"weight {name!r} is {tensor.dtype}{list(tensor.shape)}, the model was traced with "
                f"{present.dtype}{list(present.shape)}"
            )
    for name, tensor in table.items():
        model.sources[numbers[name]] = tensor.detach().cpu().clone()


def async_load(trace: TracedModel, enable_async_load: bool = True) -> None:
    """Accepted: a model is in host memory when it is made or read."""
    _traced(trace)


def lazy_load(trace: TracedModel, enable_lazy_load: bool = True) -> None:
    """Accepted: a model is in host memory when it is made or read."""
    _traced(trace)


def move_trace_to_device(trace: TracedModel, device_id: int) -> None:
    """Accepted for the numbers of devices: all of them are the host here.

    Raises:
        ValueError: there is no such device.
    """
    _traced(trace)
    if not 0 <= device_id < core_count():
        raise ValueError(f"there is no device {device_id}; there are {core_count()}")


class DataParallel(torch.nn.Module):
    """A model run on pieces of a batch at the same time.

    Args:
        model: of ``torch_neuronx.trace``.
        device_ids: the devices; all of them by default.
        dim: the dimension that is cut.
        set_dynamic_batching: let pieces have any size, as :func:`dynamic_batch` does.

    Attributes:
        num_workers: threads that run pieces.
    """

    def __init__(
        self, model: TracedModel, device_ids: Sequence[int] | None = None, dim: int = 0,
        set_dynamic_batching: bool = True,
    ) -> None:  # fmt: skip
        torch.nn.Module.__init__(self)
        devices = list(range(core_count())) if device_ids is None else list(device_ids)
        for device in devices:
            move_trace_to_device(model, device)
        self.num_workers = len(devices)
        self.dim = dim
        self._model = dynamic_batch(model) if set_dynamic_batching and dim == 0 else _traced(model)

    def disable_dynamic_batching(self) -> None:
        """Let pieces have the traced size only."""
        self._model.has_dynamic_batch = False

    def forward(self, *inputs: Tree) -> Tree:
        """Cut the arguments, run the pieces, and join the results."""
        leaves, structure = pytree.tree_flatten(inputs)
        pieces = [
            leaf.chunk(self.num_workers, self.dim) if isinstance(leaf, torch.Tensor) else None
            for leaf in leaves
        ]
        count = min(len(piece) for piece in pieces if piece is not None)
        calls = [
            pytree.tree_unflatten(
                [
                    leaf if piece is None else piece[n]
                    for leaf, piece in zip(leaves, pieces, strict=True)
                ],
                structure,
            )
            for n in range(count)
        ]
        with ThreadPoolExecutor(max_workers=self.num_workers) as pool:
            results = list(pool.map(self._call, calls))
        flat = [pytree.tree_flatten(result) for result in results]
        columns = zip(*(leaves for leaves, _ in flat), strict=True)
        return pytree.tree_unflatten([torch.cat(c, self.dim) for c in columns], flat[0][1])

    def _call(self, arguments: Tree) -> Tree:
        return self._model(*arguments)


def analyze(
    func: Callable[..., Tree], example_inputs: Tree, compiler_workdir: object = None,
    *, additional_ignored_ops: Sequence[str] = (), **unused: object,
) -> dict[str, object]:  # fmt: skip
    """Count the operators of a function after decomposition, by whether they are lowered.

    Returns:
        ``support_percentage``, ``supported_operators`` (name to count) and
        ``unsupported_operators`` (a list of ``kind``, ``failureAt``, ``call``).
    """
    several = isinstance(example_inputs, tuple)
    arguments = cast("tuple[Tree, ...]", example_inputs if several else (example_inputs,))
    program = root_program(func, arguments)
    supported: Counter[str] = Counter()
    unsupported: list[dict[str, object]] = []
    for node in program.graph_module.graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        kind = node.target.name().partition(".")[0]
        if str(node.target) in LOWERED_OPERATORS or kind in additional_ignored_ops:
            supported[kind] += 1
        else:
            unsupported.append(
                {"kind": kind, "failureAt": "Lowering to HLO", "call": str(node.format_node())}
            )
    total = supported.total() + len(unsupported)
    percentage = 100 * supported.total() / total if total else 100
    return {
        "support_percentage": f"{percentage:.2f}%",
        "supported_operators": dict(supported),
        "unsupported_operators": unsupported,
    }
