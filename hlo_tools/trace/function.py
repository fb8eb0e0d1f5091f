"""Tracing a function: parameters in, results and written parameters out."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from hlo_tools.ir.module import Module
from hlo_tools.trace.array import TracedArray, as_node
from hlo_tools.trace.emission import to_proto
from hlo_tools.trace.errors import TraceError, TraceTypeError, refuse
from hlo_tools.trace.graph import Array, DType, Graph, Node
from hlo_tools.trace.location import line_of
from hlo_tools.trace.promotion import narrow_input

__all__ = ["Alias", "Tensor", "TracedFunction", "trace", "traced_call"]

_NO_NAME = re.compile(r"[^A-Za-z0-9_.-]")
"""Characters that names in HLO text do not have: ``<lambda>`` becomes ``lambda``."""

ALIASED = ".must_alias_input"
"""The compiler requires this suffix on the name of a parameter that is written to (nkipy)."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A parameter or a result.

    Attributes:
        name: its name in the NEFF.
        shape, dtype: of the array.
        original_name: the function's name of it.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    original_name: str


@dataclass(frozen=True, slots=True)
class Alias:
    """A result that takes the memory of a parameter, because the function writes to that.

    Attributes:
        output_index: number of the result.
        param_index, param_name: number and name of the parameter.
        is_user_returned: False for a result that the function does not return itself.
    """

    output_index: int
    param_index: int
    param_name: str
    is_user_returned: bool


class TracedFunction:
    """A NumPy function traced for arguments of one set of shapes and dtypes.

    Attributes:
        name: the function's.
        aliases: results that take parameters' memory.

    Made by :func:`trace` from the traced ``graph``, the nodes of its ``results`` and their
    ``names``, and what the function itself calls its parameters (``originals``).
    """

    def __init__(
        self,
        graph: Graph,
        results: list[Node],
        names: list[str],
        aliases: list[Alias],
        originals: list[str],
    ) -> None:
        self.name = graph.name
        self.aliases = aliases
        self._graph = graph
        self._results = results
        self._names = names
        self._originals = originals

    @property
    def inputs(self) -> list[Tensor]:
        """The parameters, in order; ``parameters`` is the same."""
        nodes = zip(
            self._graph.parameters, self._graph.parameter_names, self._originals, strict=True
        )
        return [Tensor(name, node.shape, node.dtype, original) for node, name, original in nodes]

    parameters = inputs

    @property
    def outputs(self) -> list[Tensor]:
        """The results, in order."""
        nodes = zip(self._results, self._names, strict=True)
        return [Tensor(name, node.shape, node.dtype, name) for node, name in nodes]

    @property
    def instruction_count(self) -> int:
        """Instructions that the module will have, the root included."""
        return len(self._graph.live(self._results)) + 1

    def to_proto(self) -> Any:
        """A new ``HloModuleProto``, of our private schema."""
        aliases = {alias.output_index: alias.param_index for alias in self.aliases}
        return to_proto(self._graph, self._results, self._names, aliases)

    def to_module(self) -> Module:
        """The traced function as a module."""
        return Module(self.to_proto())


def trace(func: Callable[..., Any], *args: Any, **kwargs: Any) -> TracedFunction:
    """Run ``func`` once with traced arrays in place of its NumPy arguments.

    Arguments that are no arrays stay as they are, and are part of what is traced. float64, int64
    and uint64 arrays are narrowed to 32 bits, with a warning.

    Raises:
        TypeError: the arguments do not fit the function.
        TraceError: the function needs a value that is known only when the module runs, or uses
            something of NumPy that is not known; the place is the user's line.
    """
    return traced_call(func, args, kwargs)


def traced_call(
    func: Callable[..., Any], args: Any, kwargs: Any, *, for_one_call: bool = False
) -> TracedFunction:
    """As :func:`trace`; ``for_one_call`` when the module runs with these very arguments.

    Then an array that is passed twice is one array in the function too; else it stands for two.
    """
    graph = Graph(_NO_NAME.sub("", getattr(func, "__name__", "")) or "function")
    signature = inspect.signature(func)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    parameters: list[tuple[str, TracedArray]] = []
    arguments: list[Array] = []

    def take(name: str, value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        argument = cast("Array", value)
        array = narrow_input(argument, name)
        node = graph.parameter(array.shape, array.dtype, _free(graph, name))
        same_arrays = [
            array
            for (_, array), passed in zip(parameters, arguments, strict=True)
            if passed is value
        ]
        if for_one_call and same_arrays:
            parameters.append((name, TracedArray(node)))
            arguments.append(np.empty(0))
            return same_arrays[0]
        node.is_c_ordered = argument.flags.c_contiguous
        parameters.append((name, TracedArray(node, node.is_c_ordered)))
        arguments.append(argument)
        return parameters[-1][1]

    positional, named = _converted(signature, bound, take)
    try:
        with graph.current():
            returned = func(*positional, **named)
    except TraceError:
        raise
    except Exception as error:
        _refuse_memory(error)
        raise
    if for_one_call:
        _check_overlaps(parameters, arguments)
    return _finished(graph, returned, parameters)


_NEEDS_MEMORY = re.compile(
    r"TracedArray|TracedScalar|bytes-like|buffer|numpy array|ndarray|output array|"
    r"required argument is not"
)


def _refuse_memory(error: Exception) -> None:
    """Raise a coded error for what functions in C say of traced arrays, whose memory they need."""
    where = line_of(error.__traceback__)
    if where is None:
        return
    for earlier in (error.__cause__, error.__context__):
        if isinstance(earlier, TraceError):  # which the function replaced by an error of its own
            raise earlier from error
    if not _NEEDS_MEMORY.search(str(error)):
        return
    raise TraceTypeError(
        f"{error}; a traced array has no elements in memory until the module runs",
        code="HLO-TRACE-VALUE",
        place=f"{where[0]}:{where[1]}",
        remedy="use NumPy functions that work on traced arrays; see hlo_tools.trace.supported()",
    ) from error


def _check_overlaps(parameters: list[tuple[str, TracedArray]], arguments: list[Array]) -> None:
    """An argument that is written to must not share memory with another one.

    Raises:
        TraceError: it does: to the module they are two arrays (HLO-TRACE-ALIAS).
    """
    for written, (name, array) in enumerate(parameters):
        if not array.is_written:
            continue
        for index, value in enumerate(arguments):
            if index != written and np.may_share_memory(arguments[written], value):
                raise refuse(
                    f"argument {name!r} is written to and shares memory with "
                    f"{parameters[index][0]!r}, which a module has as another array",
                    code="HLO-TRACE-ALIAS",
                    remedy="pass a copy, or write the function with one argument for both",
                )


def _free(graph: Graph, name: str) -> str:
    """The parameter's name; elements of ``*args`` get numbers."""
    if name not in graph.parameter_names:
        return name
    return (
        f"{name}_{sum(parameter.startswith(name + '_') for parameter in graph.parameter_names) + 1}"
    )


def _converted(
    signature: inspect.Signature, bound: inspect.BoundArguments, take: Callable[[str, Any], Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments for the call, arrays exchanged, in the order of the signature."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            positional += [take(name, item) for item in value]
        elif kind is inspect.Parameter.VAR_KEYWORD:
            named |= {key: take(key, item) for key, item in value.items()}
        elif kind is inspect.Parameter.KEYWORD_ONLY:
            named[name] = take(name, value)
        else:
            positional.append(take(name, value))
    return positional, named


def _finished(
    graph: Graph, returned: Any, parameters: list[tuple[str, TracedArray]]
) -> TracedFunction:
    for _, array in parameters:
        array.node  # noqa: B018 - refused when it may have been written to through a copy
    results = _as_list(returned)
    aliases = _aliases(results, parameters)
    originals = list(graph.parameter_names)
    for alias in aliases:
        graph.parameter_names[alias.param_index] += ALIASED
    aliased = {alias.output_index: alias for alias in aliases}
    nodes: list[Node] = []
    names: list[str] = []
    for index, result in enumerate(results):
        node = _result_node(graph, result, index)
        is_parameter = node.opcode == "parameter" and index not in aliased
        nodes.append(_copied(node) if is_parameter else node)
        names.append(aliased[index].param_name if index in aliased else f"output{index}")
    return TracedFunction(graph, nodes, names, aliases, originals)


def _as_list(returned: Any) -> list[Any]:
    if returned is None:
        return []
    if isinstance(returned, (list, tuple)):
        return list(cast("list[Any]", returned))
    return [returned]


def _aliases(results: list[Any], parameters: list[tuple[str, TracedArray]]) -> list[Alias]:
    """Written parameters are results; those that the function does not return are added."""
    aliases: list[Alias] = []
    count = len(results)
    for number, (_, array) in enumerate(parameters):
        if not array.is_written:
            continue
        position = next((i for i, result in enumerate(results) if result is array), None)
        if position is None:
            position = len(results)
            results.append(array)
        name = array.node.graph.parameter_names[number]
        aliases.append(Alias(position, number, name, position < count))
    return aliases


def _result_node(graph: Graph, result: Any, index: int) -> Node:
    if isinstance(result, (TracedArray, np.ndarray, np.generic, int, float, bool)):
        return as_node(result, graph)
    raise refuse(
        f"result {index} is a {type(result).__name__}",
        code="HLO-TRACE-RESULT",
        remedy="return arrays, or a list or tuple of them",
    )


def _copied(node: Node) -> Node:
    """A parameter that is returned as it is: results have memory of their own."""
    return node.graph.emit("copy", node.shape, node.dtype, (node,))
