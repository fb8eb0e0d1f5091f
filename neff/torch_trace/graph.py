"""The HLO module of a function of PyTorch, what feeds its parameters, and what it writes."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from neff.device.programs import capture
from neff.errors import NeffCompileError
from neff.torch_graph.pytorch import Tensor, Tree, lazy_device, pytree, torch, xlac
from neff.torch_trace import refusals
from neff.torch_trace.placement import identity_of, is_written, placed
from neff.torch_trace.state import FunctionState, ModuleState, random_states
from neff.torch_trace.watching import RNG_SEED, ReadWatch, Watch, data_leaves
from nki_lang.base.source import definition_of

__all__ = ["TracedGraph", "Written", "traced_graph"]


@dataclass(frozen=True, slots=True)
class Written:
    """Where a result goes that the function does not return.

    Attributes:
        source: number of the parameter whose tensor it replaces, or None.
        input: number of the input that it is written to, or None.
    """

    source: int | None = None
    input: int | None = None


@dataclass(frozen=True, slots=True)
class TracedGraph:
    """A function as one module.

    Attributes:
        module: serialized ``HloModuleProto``.
        sources: what feeds each parameter: an input's number, or a tensor of the function's.
        results: shape and dtype of each result, those of ``written`` last.
        written: what the function writes.
        structure: of the results that it returns.
        names: of each source in the module's state, "" for inputs; empty if they are not known.
    """

    module: bytes
    sources: tuple[Tree, ...]
    results: tuple[tuple[Tree, Tree], ...]
    written: tuple[Written, ...]
    structure: Tree
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of the function on lazy tensors."""

    results: list[Tensor]
    structure: Tree
    numbers: dict[int, int]
    inputs: list[Tensor]
    read: set[int]


def traced_graph(func: Callable[..., Tree], arguments: tuple[Tree, ...]) -> TracedGraph:
    """Run a function on lazy copies of the arguments.

    Raises:
        NeffCompileError: see :func:`neff.torch_trace.trace`.
        TypeError: the function returns something that is no tensor.
    """
    location = _definition(func)
    with capture.suspended(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch_xla runs on PJRT_DEVICE=CPU")
        # Imports that the first run leads to may draw numbers, too.
        for _ in range(2):
            before = random_states()
            graph = _traced(func, arguments, location)
            if random_states() == before:
                return graph
    raise refusals.random_draw("the function", location)


def _traced(func: Tree, arguments: tuple[Tree, ...], location: str) -> TracedGraph:
    if not isinstance(func, torch.nn.Module):
        return _function_graph(func, arguments, location)
    module: Tree = copy.deepcopy(cast("object", func))
    state = ModuleState(module)
    graph = _graph(_run(module, arguments), state, location)
    names = state.changed_attributes()
    if names:
        again: Tree = copy.deepcopy(cast("object", func))
        state.copy_changes(again)
        _check_attributes(graph, names, again, arguments, location)
    return graph


def _function_graph(func: Tree, arguments: tuple[Tree, ...], location: str) -> TracedGraph:
    host = FunctionState(func)
    graph = _graph(_run(func, arguments), None, location)
    names = host.changed()
    if names:
        what = f"the function changes {', '.join(names[:3])}, which its next call depends on"
        try:
            following = _graph(_run(func, arguments), None, location)
        except NeffCompileError as error:
            raise refusals.host_write(what, location) from error
        if not _same_program(graph, following):
            raise refusals.host_write(what, location)
    return graph


def _run(runs: Tree, arguments: tuple[Tree, ...]) -> _Run:
    leaves, structure = pytree.tree_flatten(arguments)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    inputs = placed(tensors)
    numbers = {identity_of(tensor): number for number, tensor in enumerate(inputs)}
    input_tensors = iter(inputs)
    lazy = [next(input_tensors) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    watch = Watch(numbers)
    try:
        with torch.no_grad(), ReadWatch(watch), watch:
            results = runs(*pytree.tree_unflatten(lazy, structure))
        watch.check_steps()
    except Exception as error:
        raise watch.refusal or error from None
    if watch.refusal is not None:
        raise watch.refusal
    flat, shape = pytree.tree_flatten(results)
    if not flat or not all(isinstance(result, torch.Tensor) for result in flat):
        raise TypeError("a traced function returns tensors and containers of tensors, nothing else")
    device = lazy_device()
    return _Run([r.detach().to(device) for r in flat], shape, numbers, inputs, watch.read)


def _graph(run: _Run, state: ModuleState | None, location: str) -> TracedGraph:
    changed = {
        number: tensor
        for (identity, number), tensor in zip(run.numbers.items(), run.inputs, strict=True)
        if is_written(tensor, identity)
    }
    replaced = state.written() if state is not None else {}
    lost = run.read & replaced.keys()
    if lost:
        raise refusals.host_write("the function reads values of a buffer that it writes", location)
    returned = [*run.results, *changed.values()]
    identities, _ = data_leaves(returned)
    # State that nothing reads needs no place: only its own module shows it.
    replaced_inputs = {key: tensor for key, tensor in replaced.items() if key in identities}
    outputs = [*returned, *replaced_inputs.values()]
    identities, values = data_leaves(outputs)
    if RNG_SEED in identities:
        raise refusals.random_draw("the function", location)
    for key, tensor in replaced_inputs.items():
        if tensor.device.type != "xla":
            raise refusals.host_write("the function moves a buffer to the host", location)
        _check_same_kind(tensor, values[identities.index(key)], location)
    module: bytes = xlac()._get_xla_tensors_hlo_proto(outputs)
    sources = tuple(
        run.numbers[identity] if identity in run.numbers else value.cpu()
        for identity, value in zip(identities, values, strict=True)
    )
    written = [Written(input=number) for number in changed]
    written += [Written(source=identities.index(key)) for key in replaced_inputs]
    results = tuple((tuple(tensor.shape), tensor.dtype) for tensor in outputs)
    return TracedGraph(module, sources, results, tuple(written), run.structure)


def _check_same_kind(now: Tensor, before: Tensor, location: str) -> None:
    if now.shape != before.shape or now.dtype != before.dtype:
        raise refusals.host_write(
            f"the function replaces a buffer {tuple(before.shape)} by one {tuple(now.shape)}",
            location,
        )


def _check_attributes(
    graph: TracedGraph, names: list[str], again: Tree, arguments: tuple[Tree, ...], location: str
) -> None:
    """Refuse a module whose changed attributes make the next call another program.

    Raises:
        NeffCompileError: ``NEFF-TRACE-STATE``.
    """
    what = f"the function changes {', '.join(names[:3])}, which its next call depends on"
    try:
        state = ModuleState(again)
        following = _graph(_run(again, arguments), state, location)
    except NeffCompileError as error:
        raise refusals.host_write(what, location) from error
    if not _same_program(graph, following):
        raise refusals.host_write(what, location)


def _same_program(first: TracedGraph, second: TracedGraph) -> bool:
    if (first.module, first.written) != (second.module, second.written):
        return False
    if len(first.sources) != len(second.sources):
        return False
    return all(_same_source(a, b) for a, b in zip(first.sources, second.sources, strict=True))


def _same_source(first: Tensor, second: Tensor) -> bool:
    if isinstance(first, int) or isinstance(second, int):
        return type(first) is type(second) and first == second
    return first.dtype == second.dtype and bool(torch.equal(first, second))


def _definition(func: Tree) -> str:
    location = definition_of(getattr(cast("object", func), "forward", func))
    return "" if location is None else str(location)
