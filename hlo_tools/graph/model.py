"""Graph of a module that a page draws: instructions as plain values, numbered over the module."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from hlo_tools.errors import HloError
from hlo_tools.graph.costs import Costs
from hlo_tools.graph.wrapped import kernel_at, operands_at, wrapped_kernels
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.kernels.backend_config import decode
from hlo_tools.text.print_attributes import print_attributes
from hlo_tools.text.print_sharding import print_sharding
from hlo_tools.text.print_values import print_literal
from hlo_tools.types.ids import LOCAL_MASK
from hlo_tools.types.shape_text import print_shape

__all__ = ["Computation", "Graph", "Node", "graph_of"]

_SHORT_VALUE = 14
"""Characters of a constant's value that stand beside its shape."""
_MAX_TEXT_CHARACTERS = 160
"""Characters of an attribute that is shown."""

Pairs = tuple[tuple[str, str], ...]
"""Names and texts."""


@dataclass(frozen=True, slots=True)
class Node:
    """One instruction.

    Attributes:
        name, opcode, shape: as in HLO text.
        computation: number of its computation.
        operands: numbers of nodes, in order.
        calls: numbers of computations.
        scope: the path in which the framework made it (the ``op_name`` without its last part).
        source: ``file:line`` of the user's code, or "".
        is_root: whether its computation returns it.
        attributes: (name, text) pairs as in HLO text.
        kernel: what is known of the kernel that it calls, itself or by a computation that does
            nothing else (as torch_xla writes kernels), as (name, text) pairs.
        costs: what a run costs at least on a target, as (name, text) pairs; empty where not asked.
        texts: the kernel's own listings, as (title, text) pairs; likewise.
    """

    name: str
    opcode: str
    shape: str
    computation: int
    operands: tuple[int, ...]
    calls: tuple[int, ...]
    scope: tuple[str, ...]
    source: str
    is_root: bool
    attributes: Pairs
    kernel: Pairs
    costs: Pairs = ()
    texts: Pairs = ()

    @property
    def title(self) -> str:
        """The kernel's name, or else the opcode."""
        return dict(self.kernel).get("kernel") or self.opcode

    @property
    def shown_shape(self) -> str:
        """The shape, and the value of a constant that is one short number."""
        value = dict(self.attributes).get("value", "") if self.opcode == "constant" else ""
        return f"{self.shape} = {value}" if 0 < len(value) <= _SHORT_VALUE else self.shape


@dataclass(frozen=True, slots=True)
class Computation:
    """A computation: ``name``, whether it ``is_entry``; its nodes are ``Graph.nodes[begin:end]``.

    ``wraps_kernel``: it does nothing but call a kernel, which is shown where it is called.
    """

    name: str
    is_entry: bool
    begin: int
    end: int
    wraps_kernel: bool = False


@dataclass(frozen=True, slots=True)
class Graph:
    """A module by ``name``: its ``computations``, or some of them, and their ``nodes``."""

    name: str
    computations: tuple[Computation, ...]
    nodes: tuple[Node, ...]


def graph_of(module: Module, computations: Collection[str] = (), *, target: str = "") -> Graph:
    """The graph of a module.

    Args:
        computations: names of those to draw; all when empty.
        target: ``trn1``, ``trn2`` or ``trn3``: nodes tell what they cost there, and kernels, read
            from their files, what they do.

    Raises:
        HloError: there is no such computation (HLO-NO-COMPUTATION).
        HloFileError: the module refers to what it does not have.
    """
    entry = module.entry
    chosen = [module.computation(n) for n in computations] or [entry] + [
        computation for computation in module.computations if computation is not entry
    ]
    numbers = {
        computation.id: position for position, computation in enumerate(dict.fromkeys(chosen))
    }
    computations_made: list[Computation] = []
    nodes: list[Node] = []
    shapes: dict[bytes, str] = {}
    wrapped = wrapped_kernels(module)
    costs = Costs(module, target) if target else None
    for position, computation in enumerate(dict.fromkeys(chosen)):
        begin = len(nodes)
        local = {
            view.local_id: begin + index for index, view in enumerate(computation.instructions)
        }
        for view in computation.instructions:
            kernel = kernel_at(view, wrapped)
            node = _node(view, kernel, position, local, numbers, shapes)
            if costs is not None:
                pairs, texts = costs.of_kernel(kernel) if kernel else (costs.of(view), ())
                node = replace(node, costs=pairs, texts=texts)
            nodes.append(node)
        wraps = not computation.is_entry and computation.id in wrapped
        computations_made.append(
            Computation(computation.name, computation.is_entry, begin, len(nodes), wraps)
        )
    return Graph(module.name, tuple(computations_made), tuple(nodes))


def _node(
    view: Instruction,
    kernel: Instruction | None,
    computation: int,
    local: dict[int, int],
    numbers: dict[int, int],
    shapes: dict[bytes, str],
) -> Node:
    row = view.proto
    metadata = view.metadata if row.HasField("metadata") else None
    source = view.source or (kernel.source if kernel is not None else None)
    return Node(
        name=row.name,
        opcode=row.opcode,
        shape=_shape(row.shape, shapes),
        computation=computation,
        operands=tuple([local[operand.proto.id & LOCAL_MASK] for operand in view.operands]),
        calls=tuple([numbers[n] for n in row.called_computation_ids if n in numbers]),
        scope=_scope(metadata.op_name) if metadata is not None else (),
        source=str(source) if source is not None else "",
        is_root=row.id & LOCAL_MASK == view.computation.proto.root_id & LOCAL_MASK,
        attributes=tuple(_attributes(view)),
        kernel=_kernel(kernel, view) if kernel is not None else (),
    )


def _shape(shape: Any, printed: dict[bytes, str]) -> str:
    key = shape.SerializeToString()
    text = printed.get(key)
    if text is None:
        text = printed[key] = _short(print_shape(shape))
    return text


def _scope(op_name: str) -> tuple[str, ...]:
    """The path's parts; slashes within parentheses belong to a name."""
    parts: list[str] = []
    depth = start = 0
    for position, char in enumerate(op_name):
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth = max(depth - 1, 0)
        elif char == "/" and not depth:
            parts.append(op_name[start:position])
            start = position + 1
    return tuple(component for component in parts if component)


def _attributes(view: Instruction) -> list[tuple[str, str]]:
    row = view.proto
    attributes = [(name, _short(text)) for name, text in print_attributes(row)]
    if row.opcode == "parameter":
        attributes.append(("number", str(row.parameter_number)))
    if row.opcode == "constant" and row.HasField("literal"):
        attributes.append(("value", _short(print_literal(row.literal, large=False))))
    if row.HasField("sharding"):
        attributes.append(("sharding", _short(print_sharding(row.sharding))))
    attributes += [
        (f"frontend {k}", _short(v)) for k, v in sorted(view.frontend_attributes.items())
    ]
    if row.HasField("metadata") and view.metadata.op_name:
        attributes.append(("op_name", _short(view.metadata.op_name)))
    return attributes


def _kernel(kernel: Instruction, call: Instruction) -> Pairs:
    """Return the kernel's configuration, with the operands of the instruction that is shown."""
    try:
        config = decode(kernel.backend_config)
    except HloError as error:
        return (("kernel", "?"), ("error", _short(error.message)))
    names = zip(config.input_names, operands_at(kernel, call), strict=False)
    return (
        ("kernel", config.func_name),
        ("grid", "x".join(map(str, config.grid)) or "none"),
        ("inputs", _short(", ".join(f"{name} = %{operand.name}" for name, operand in names))),
        ("outputs", _short(", ".join(config.output_names))),
        ("binary", config.binary),
        *((key, _short(str(value))) for key, value in config.extra.items()),
    )


def _short(text: str) -> str:
    return text if len(text) <= _MAX_TEXT_CHARACTERS else f"{text[: _MAX_TEXT_CHARACTERS - 1]}…"
