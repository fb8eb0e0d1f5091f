"""The graph of a function of PyTorch by torch.export, which needs torch alone."""

from __future__ import annotations

import copy
import re
import traceback
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TypeAlias, cast

from neff.device.frameworks.user_lines import user_line
from neff.errors import NeffError
from neff.torch_graph import errors
from neff.torch_graph.decompositions import export_table
from neff.torch_graph.kernels import recorded_kernels
from neff.torch_graph.lowering import lowered_graph
from neff.torch_graph.pytorch import Tensor, Tree, pytree, torch
from neff.torch_graph.recurrent import right_states
from neff.torch_trace import refusals
from neff.torch_trace.graph import TracedGraph, Written
from neff.torch_trace.state import FunctionState, attribute_signature, holds_tensors, random_states
from nki_lang.base.source import definition_of

__all__ = ["exported_graph", "root_program"]

_VALUE_ERRORS = (
    "GuardOnDataDependentSymNode", "DataDependentOutputException", "DynamicOutputShapeException",
    "UserError",
)  # fmt: skip
"""Errors of torch.export for code that depends on values."""

_TARGET = re.compile(r"target=torch\.ops\.([\w.]+)")
"""The operator in PyTorch's note of where a graph failed."""

_MODULE = "module."
"""The prefix of the user's module in the names of its state."""

_INTERNAL_FOLDERS = tuple(
    str(Path(cast("str", import_module(name).__file__)).resolve().parent) + "/"
    for name in ("torch", "neff", "hlo_tools", "nki_lang")
)


_Signature: TypeAlias = dict[tuple[str, str], object]


class _Root(torch.nn.Module):
    """A function or module with a record of the attributes that its call changes.

    torch.export restores the attributes of the module that it is given, so they are compared here.
    """

    def __init__(self, called: Callable[..., Tree], changes: _Changes) -> None:
        torch.nn.Module.__init__(self)
        self.module = called if isinstance(called, torch.nn.Module) else None
        self._called = (called, changes)

    def forward(self, *args: Tree) -> Tree:
        called, changes = self._called
        if self.module is None:
            return called(*args)
        before, buffers = attribute_signature(self.module, by_identity=True), _buffers(self.module)
        results = called(*args)
        _write_replaced(self.module, buffers)
        changes.note(before, attribute_signature(self.module, by_identity=True))
        return results


def _buffers(module: Tree) -> dict[tuple[str, str], Tensor]:
    return {
        (path, name): tensor
        for path, submodule in module.named_modules()
        for name, tensor in submodule._buffers.items()
    }


def _kind_of(value: Tree) -> object:
    return (value.shape, value.dtype) if isinstance(value, torch.Tensor) else value


def _write_replaced(module: Tree, buffers: dict[tuple[str, str], Tensor]) -> None:
    """Write buffers in place that the call replaced by others; torch.export sees no replacement.

    Raises:
        HostStepError: ``NEFF-TRACE-STATE``: a buffer has another shape or dtype now.
    """
    now: dict[tuple[str, str], Tree] = _buffers(module)
    submodules = dict(module.named_modules())
    for key, tensor in buffers.items():
        replaced: Tree = now.get(key)
        if replaced is tensor:
            continue
        if _kind_of(replaced) != _kind_of(tensor):
            what = (
                f"the function replaces buffer {'.'.join(key).lstrip('.')} by another kind of value"
            )
            raise refusals.host_write(what, user_line())
        tensor.copy_(replaced)
        submodules[key[0]]._buffers[key[1]] = tensor


class _Changes:
    """Names of the attributes that a call changes, and of those among them that hold tensors."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.tensor_names: list[str] = []

    def note(self, before: _Signature, after: _Signature) -> None:
        """Compare signatures from before and after the call."""
        for key in sorted(before.keys() | after.keys()):
            if before.get(key) == after.get(key):
                continue
            name = ".".join(key).lstrip(".")
            self.names.append(name)
            if any(holds_tensors(signature.get(key)) for signature in (before, after)):
                self.tensor_names.append(name)


def exported_graph(func: Callable[..., Tree], arguments: tuple[Tree, ...]) -> TracedGraph:
    """Trace a function or module with tensors that have no values.

    Raises:
        NeffCompileError: ``NEFF-TRACE-READ``: code depends on values; ``-STATE``: it changes state
            that a NEFF cannot; ``-RANDOM``; ``NEFF-TORCH-*``: an operator is not lowered.
        TypeError: the function returns something that is no tensor.
    """
    location = definition_of(getattr(cast("object", func), "forward", func))
    where = "" if location is None else str(location)
    # Imports that the first run leads to may draw numbers, too.
    for _ in range(2):
        before = random_states()
        graph = _watched_graph(func, arguments, where)
        if random_states() == before:
            return graph
    raise refusals.random_draw("the function", where)


def root_program(func: Callable[..., Tree], arguments: tuple[Tree, ...]) -> Tree:
    """A function or module as an ``ExportedProgram``, whether its operators are lowered or not."""
    return exported_program(_Root(func, _Changes()), arguments, "")


def _watched_graph(
    func: Callable[..., Tree], arguments: tuple[Tree, ...], location: str
) -> TracedGraph:
    """The graph, if the function's state afterwards leads to the same one."""
    is_module = isinstance(func, torch.nn.Module)
    called: Tree = copy.deepcopy(cast("object", func)) if is_module else func
    state = None if is_module else FunctionState(func)
    changes = _Changes()
    graph = _program_graph(exported_program(_Root(called, changes), arguments, location))
    names = changes.names if state is None else state.changed()
    if names:
        what = f"the function changes {', '.join(names[:3])}, which its next call depends on"
        if changes.tensor_names:
            raise refusals.host_write(what, location)
        try:
            program = exported_program(_Root(called, _Changes()), arguments, location)
            following = _program_graph(program)
        except Exception as error:
            raise refusals.host_write(what, location) from error
        if (graph.module, graph.written) != (following.module, following.written):
            raise refusals.host_write(what, location)
    return graph


def exported_program(module: Tree, arguments: tuple[Tree, ...], location: str) -> Tree:
    """A module as a ``torch.export.ExportedProgram`` of operators that are lowered.

    Raises:
        NeffCompileError: ``NEFF-TRACE-READ`` or ``-STATE``, at the user's line.
    """
    was_training = {submodule: submodule.training for submodule in module.modules()}
    try:
        with warnings.catch_warnings(), torch.no_grad(), _right_programs():
            warnings.simplefilter("ignore")
            # A tensor that is passed twice would be one input of the graph.
            distinct = pytree.tree_map_only(torch.Tensor, _copied, arguments)
            program = torch.export.export(module, distinct, strict=False)
            decomposed = _decomposed(program, location)
            _check_kinds(program, decomposed, location)
            return decomposed
    except NeffError:
        raise
    except Exception as error:
        raise _refusal(error, location) from error
    finally:
        for submodule, training in was_training.items():
            submodule.training = training


def _decomposed(program: Tree, location: str) -> Tree:
    """The program of operators that are lowered; no code of the user runs here.

    Raises:
        TorchGraphError: ``NEFF-TORCH-DECOMPOSITION``: PyTorch could not write it with others.
    """
    try:
        return program.run_decompositions(export_table())
    except NeffError:
        raise
    except Exception as error:
        refusal = _refusal(error, location)
        if refusal is not error:
            raise
        target = _TARGET.search(str(error))
        name = target.group(1) if target else "an operator"
        reason = str(error).strip().partition("\n")[0][:200]
        raise errors.not_decomposed(name, location, f"{type(error).__name__}: {reason}") from error


def _check_kinds(program: Tree, decomposed: Tree, location: str) -> None:
    """Refuse a decomposition that returns other shapes or dtypes than PyTorch's operators."""
    for before, after in zip(_returned(program), _returned(decomposed), strict=True):
        kinds = [_kind_of(getattr(node, "meta", {}).get("val")) for node in (before, after)]
        if kinds[0] != kinds[1]:
            lowered, expected = (str(kind) for kind in reversed(kinds))
            raise errors.wrong_result(str(before.target), location, lowered, expected)


def _returned(program: Tree) -> list[Tree]:
    """Return the nodes of the results, or values that are no tensors."""
    kinds: Tree = import_module("torch.export.graph_signature")
    outputs = zip(program.graph_signature.output_specs, _output_node(program).args[0], strict=True)
    return [node for spec, node in outputs if spec.kind is kinds.OutputKind.USER_OUTPUT]


def _copied(tensor: Tensor) -> Tensor:
    return tensor.detach().clone()


@contextmanager
def _right_programs() -> Generator[None]:
    """Let torch.export record kernels and whole stacks, right states of LSTMs, and masks as given."""
    with recorded_kernels(), _whole_stacks(), right_states(), _given_masks():
        yield


@contextmanager
def _given_masks() -> Generator[None]:
    """Let ``nn.Transformer`` apply its masks; otherwise it reads them to find causal ones."""
    module: Tree = import_module("torch.nn.modules.transformer")
    original = module._detect_is_causal_mask
    module._detect_is_causal_mask = _causal_by_hint
    try:
        yield
    finally:
        module._detect_is_causal_mask = original


def _causal_by_hint(mask: Tree, is_causal: bool | None = None, size: int | None = None) -> bool:
    return is_causal is True


@contextmanager
def _whole_stacks() -> Generator[None]:
    """Let nodes keep the lines of every function; torch.export keeps those of ``forward`` alone."""
    tracer: Tree = torch.fx.proxy.TracerBase
    original = getattr(tracer, "_filter_traceback_frames", None)
    if original is None:
        yield
        return
    tracer._filter_traceback_frames = _all_frames
    try:
        yield
    finally:
        tracer._filter_traceback_frames = original


def _all_frames(tracer: Tree, frames: Tree) -> Tree:
    return frames


def _refusal(error: Exception, location: str) -> Exception:
    """Our error for one of torch.export; errors of the user's own code stay."""
    line = _user_line(error.__traceback__) or location
    text = str(error).strip().partition("\n")[0][:200]
    if type(error).__name__ in _VALUE_ERRORS:
        return refusals.host_read(f"code that depends on values ({text})", line)
    if "during export" in text or "mutat" in text:
        return refusals.host_write(
            f"the function changes a tensor that is no buffer ({text})", line
        )
    if "subclass" in text or "FakeTensor" in text or "data pointer" in text or "fake" in text:
        return refusals.host_read(f"a function outside of PyTorch's operators ({text})", line)
    return error


def _user_line(trace: TracebackType | None) -> str:
    """``file:line`` of the innermost frame of the user's code."""
    frames = [
        frame
        for frame in traceback.extract_tb(trace)
        if not frame.filename.startswith((*_INTERNAL_FOLDERS, "<"))
    ]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def _program_graph(program: Tree) -> TracedGraph:
    signature = program.graph_signature
    kinds: Tree = import_module("torch.export.graph_signature")
    outputs = list(zip(signature.output_specs, _output_node(program).args[0], strict=True))
    returned = [(spec, node) for spec, node in outputs if spec.kind is kinds.OutputKind.USER_OUTPUT]
    if not returned or any(not isinstance(node, torch.fx.Node) for _, node in returned):
        raise TypeError("a traced function returns tensors and containers of tensors, nothing else")
    changed = [
        (spec, node) for spec, node in outputs if spec.kind is not kinds.OutputKind.USER_OUTPUT
    ]
    _output_node(program).args = (tuple(node for _, node in (*returned, *changed)),)
    lowered = lowered_graph(program.graph_module, "function")
    sources, names = _sources(program, kinds)
    return TracedGraph(
        lowered.module,
        sources,
        tuple((shape, dtype) for shape, _, dtype, _ in lowered.kinds),
        tuple(_written(spec, signature, names) for spec, _ in changed),
        program.call_spec.out_spec,
        names,
    )


def _output_node(program: Tree) -> Tree:
    return next(node for node in program.graph_module.graph.nodes if node.op == "output")


def _inputs(signature: Tree) -> list[str]:
    """The graph's names of the inputs that are tensors."""
    kinds: Tree = import_module("torch.export.graph_signature")
    return [
        spec.arg.name
        for spec in signature.input_specs
        if spec.kind is kinds.InputKind.USER_INPUT and isinstance(spec.arg, kinds.TensorArgument)
    ]


def _sources(program: Tree, kinds: Tree) -> tuple[tuple[Tree, ...], tuple[str, ...]]:
    """Return the source of each parameter of the module, and its name; "" for inputs."""
    sources: list[Tree] = []
    names: list[str] = []
    count = 0
    for spec in program.graph_signature.input_specs:
        if not isinstance(spec.arg, kinds.TensorArgument):
            continue
        if spec.kind is kinds.InputKind.USER_INPUT:
            sources.append(count)
            names.append("")
            count += 1
            continue
        values = program.state_dict if spec.target in program.state_dict else program.constants
        tensor: Tensor = values[spec.target]
        sources.append(tensor.detach().clone())
        names.append(spec.target.removeprefix(_MODULE))
    return tuple(sources), tuple(names)


def _written(spec: Tree, signature: Tree, names: tuple[str, ...]) -> Written:
    """Where a result goes that the function does not return."""
    name = spec.target.removeprefix(_MODULE)
    if name in names:
        return Written(source=names.index(name))
    return Written(input=_inputs(signature).index(spec.target))
