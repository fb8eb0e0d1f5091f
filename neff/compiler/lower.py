"""From fused units to kernels in order: the place of every value, and who computes it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from hlo_tools.kernels.calls import resolve
from neff.compiler.assembly import Parts
from neff.compiler.fuse import VIEWS, Unit, fuse, same_elements
from neff.compiler.graph import Graph, Node, uncovered
from neff.compiler.link import Call
from neff.compiler.lowering import LOWERINGS
from neff.compiler.lowering.elementwise import Group, copy_task, group_task
from neff.compiler.lowering.movement import fill_task, move_task
from neff.compiler.lowering.task import Port, Task
from neff.compiler.lowering.tiling import TooLarge
from neff.compiler.lowering.tracing import trace_task
from neff.compiler.types import held_as, narrow_constant
from neff.compiler.views import View, row_major
from neff.errors import NeffCompileError
from neff.program import Variable
from nki_lang.dtypes import DType
from nki_lang.ir import KernelIR
from nki_lang.source import SourceLocation

__all__ = ["Lowerer"]

Located = View | np.generic
"""Where a value is, or the one number that all its elements have."""


@dataclass(slots=True)
class Lowerer:
    """Lowers a graph into the calls and variables of ``parts``.

    Attributes:
        graph: what to lower.
        parts: what the program is assembled from; filled here.
        root: folder that the paths of kernel files start from.
        dot_cast: type that float32 operands of a dot are cast to (``bf16``), "" for none.
    """

    graph: Graph
    parts: Parts
    root: Path | None = None
    dot_cast: str = ""
    _located: dict[int, Located] = field(default_factory=dict)
    _homes: dict[int, str] = field(default_factory=dict)
    _shared: dict[Any, View] = field(default_factory=dict)
    _users: dict[int, list[Node | None]] = field(default_factory=dict)
    _count: int = 0

    def run(self) -> None:
        """Lower everything; results stand in the output variables afterwards."""
        self._declare()
        self._check_sizes()
        self._note_users()
        for unit in fuse(self.graph):
            if unit.elementwise:
                self._group(unit)
            else:
                self._single(unit.nodes[0])
        self._finish()

    # -- variables -------------------------------------------------------------------------

    def _declare(self) -> None:
        inputs = _names(self.graph, "neff_input_names", "input", len(self.graph.parameters))
        outputs = _names(self.graph, "neff_output_names", "output", len(self.graph.results))
        _refuse_shared_names(self.graph, inputs, outputs)
        for name, node in zip(inputs, self.graph.parameters, strict=True):
            self._variable(name, "input", held_as(node).outside, node.shape)
            self._located[id(node)] = View(name, node.shape, row_major(node.shape))
        for name, node in zip(outputs, self.graph.results, strict=True):
            self._variable(name, "output", held_as(node).outside, node.shape)
            source = _unshaped(node)
            if source.opcode not in VIEWS and source.opcode not in ("parameter", "constant"):
                self._homes.setdefault(id(source), name)
        self.parts.inputs += inputs
        self.parts.outputs += outputs
        self.parts.returns_tuple = self.graph.returns_tuple

    def _check_sizes(self) -> None:
        """Refuse what cannot be in the device's memory before any time is spent on it."""
        limit = self.parts.target.hbm_bytes
        for node in self.graph.nodes:
            if node.opcode in VIEWS or node.opcode in ("constant", "kernel"):
                continue
            size = node.size * held_as(node).outside.itemsize
            if size > limit:
                raise NeffCompileError(
                    f"{node.describe()} alone has {size} bytes, {self.parts.target.name} has "
                    f"{limit} bytes of device memory",
                    code="NEFF-HBM",
                    place=node.place,
                    remedy="use smaller tensors, or a target with more memory",
                )

    def _variable(self, name: str, kind: str, dtype: DType, shape: tuple[int, ...]) -> Variable:
        made = Variable(name, kind, dtype, shape)
        self.parts.variables[name] = made
        return made

    def scratch(self, shape: tuple[int, ...], dtype: DType) -> View:
        """A fresh buffer."""
        name = self._fresh("t")
        self._variable(name, "scratch", dtype, shape)
        return View(name, shape, row_major(shape))

    def home(self, node: Node) -> View:
        """The buffer that a node's value goes to: an output of the module, or scratch."""
        name = self._homes.get(id(node))
        if name is None:
            view = self.scratch(node.shape, held_as(node).tile)
        else:
            view = View(name, node.shape, row_major(node.shape))
        self._located[id(node)] = view
        return view

    def port(self, view: View) -> Port:
        """The view as a kernel reads or writes it."""
        return Port.of(view, self.parts.variables[view.buffer])

    # -- values ----------------------------------------------------------------------------

    def number(self, node: Node) -> np.generic | None:
        """The one number that all elements of the node have, as the engines hold it."""
        splat = node.splat
        if splat is None:
            return None
        return narrow_constant(node, np.asarray(splat)).reshape(-1)[0]

    def view(self, node: Node) -> View:
        """Where the node's value is; a kernel fills a buffer with it if it is nowhere yet."""
        found = self._located.get(id(node))
        if found is None:
            found = self._find(node)
            self._located[id(node)] = found
        assert isinstance(found, View)
        return found

    def _find(self, node: Node) -> View:
        number = self.number(node)
        if number is not None:
            return self._constant(node, np.asarray(number)).broadcast(node.shape, ())
        if node.opcode == "constant":
            return self._constant(node, narrow_constant(node, node.attributes["value"]))
        if node.opcode not in VIEWS:
            raise uncovered(node)
        source = self.view(node.operands[0])
        fields = node.attributes
        if node.opcode == "broadcast":
            return source.broadcast(node.shape, fields["dimensions"])
        if node.opcode == "transpose":
            return source.transpose(fields["dimensions"])
        if node.opcode == "slice":
            return source.slice(fields["starts"], fields["limits"], fields["strides"])
        if node.opcode == "restride":
            return source.restride(node.shape, fields["steps"])
        if node.opcode == "reverse":
            return source.reverse(fields["dimensions"])
        found = source.reshape(node.shape)
        if found is not None:
            return found
        return self.compact(source, node).reshape(node.shape) or source

    def _constant(self, node: Node, value: np.ndarray[Any, Any]) -> View:
        key = (value.dtype.str, value.shape, value.tobytes())
        found = self._shared.get(key)
        if found is None:
            made = self._variable(self._fresh("c"), "constant", held_as(node).tile, value.shape)
            made.value = value
            found = self._shared[key] = View(made.name, value.shape, row_major(value.shape))
        return found

    def compact(self, source: View, node: Node) -> View:
        """The same elements without gaps, in a buffer of their own."""
        target = self.scratch(source.shape, self.port(source).dtype)
        self.copy(source, target, node)
        return target

    def copy(self, source: View, target: View, node: Node) -> None:
        """Copy one view to another; they may hold 64-bit integers in different ways."""
        read, write = self.port(source), self.port(target)
        if read.wide == write.wide and read.dtype == write.dtype:
            self.call(move_task("copy", read, write), node)
        else:
            self.call(copy_task("copy", read, write), node)

    def fill(self, target: View, value: np.generic, node: Node) -> None:
        """Write one number everywhere."""
        self.call(fill_task("fill", self.port(target), value), node)

    def whole(self, node: Node, dtype: DType) -> str:
        """A variable that holds exactly the node's value in row-major order, as ``dtype``."""
        view = self.view(node)
        variable = self.parts.variables[view.buffer]
        exact = view.offset == 0 and view.contiguous and prod(variable.shape) == view.size
        if exact and variable.dtype == dtype:
            return view.buffer
        target = self.scratch(node.shape, dtype)
        self.copy(view, target, node)
        return target.buffer

    def iota(self, count: int, dtype: DType) -> View | None:
        """The buffer 0, 1, 2, ... of that length and type if there is one already."""
        return self._shared.get(("iota", count, dtype.name))

    def keep_iota(self, view: View, dtype: DType) -> None:
        """Let others use the buffer 0, 1, 2, ..."""
        self._shared["iota", view.size, dtype.name] = view

    def place(self, node: Node, view: View) -> None:
        """Say where a node's value is."""
        self._located[id(node)] = view

    # -- kernels ---------------------------------------------------------------------------

    def call(self, task: Task, node: Node) -> None:
        """Append a kernel that the compiler wrote.

        Raises:
            NeffCompileError: ``NEFF-SIZE``; it has more tiles than can be compiled.
        """
        sizes = {name: self.parts.variables[name] for name in (*task.reads, *task.writes)}
        try:
            kernel = trace_task(task, sizes, self.parts.target)
        except TooLarge as error:
            raise NeffCompileError(
                f"{node.describe()}: {error}",
                code="NEFF-SIZE",
                place=node.place,
                remedy="use smaller tensors, or split the operation in the model",
            ) from None
        bindings = {name: name for name in sizes}
        self._append(Call(kernel, bindings, "", _location(node)))

    def _append(self, call: Call) -> None:
        call.label = f"k{len(self.parts.calls)}"
        self.parts.calls.append(call)

    def _group(self, unit: Unit) -> None:
        for node in unit.nodes:
            if node.opcode != "convert":
                _refuse_doubles(node)
        members = {id(node) for node in unit.nodes}
        group = Group(unit.nodes, {}, [], {})
        for node in unit.nodes:
            for operand in node.operands:
                source = same_elements(operand)
                key = id(source) if id(source) in members else id(operand)
                group.same[id(operand)] = key
                if key not in members and key not in group.inputs:
                    number = self.number(operand)
                    place = self.port(self.view(operand)) if number is None else number
                    group.inputs[key] = place
        outside = self._read_outside(unit, members)
        for node in unit.nodes:
            if id(node) in outside:
                group.outputs.append((node, self.port(self.home(node))))
        if unit.nodes[0].size:
            self.call(group_task(_title(unit), group, self.parts.target), unit.nodes[-1])

    def _read_outside(self, unit: Unit, members: set[int]) -> set[int]:
        """Members whose value somebody outside the group reads."""
        found: set[int] = set()
        for node in unit.nodes:
            stack = [node]
            while stack:
                one = stack.pop()
                for user in self._users.get(id(one), ()):
                    if user is None:
                        found.add(id(node))
                    elif user.opcode in VIEWS:
                        stack.append(user)
                    elif id(user) not in members:
                        found.add(id(node))
        return found

    def _note_users(self) -> None:
        """Who reads each node; None stands for the caller of the module."""
        for node in self.graph.nodes:
            for operand in node.operands:
                self._users.setdefault(id(operand), []).append(node)
        for node in self.graph.results:
            self._users.setdefault(id(node), []).append(None)

    def _single(self, node: Node) -> None:
        if node.opcode == "kernel":
            self._kernel(node)
            return
        lowering = LOWERINGS.get(node.opcode)
        if lowering is None:
            raise uncovered(node)
        _refuse_doubles(node)
        if node.size:
            lowering(self, node)
        else:
            self.home(node)

    def _kernel(self, node: Node) -> None:
        """A kernel call: its operands become whole variables, its results too."""
        call = resolve(node.attributes["backend_config"], self.root)
        kernel = call.kernel
        tensors = {tensor.name: tensor for tensor in kernel.inputs}
        tensors |= {constant.tensor.name: constant.tensor for constant in kernel.constants}
        names = list(call.config.input_names)
        if len(node.operands) > len(names):
            raise uncovered(
                node,
                f"kernel {kernel.name} takes {len(names)} operands, the call has {len(node.operands)}",
                "trace the program again: the kernel file and the module do not fit together",
            )
        bindings: dict[str, str] = {}
        for name, operand in zip(names, node.operands, strict=False):
            tensor = tensors.get(name)
            if tensor is None or tensor.elements != operand.size:
                raise uncovered(
                    node, f"operand {name} does not fit kernel {kernel.name}",
                    "trace the program again: the kernel file and the module do not fit together",
                )  # fmt: skip
            bindings[name] = self.whole(operand, tensor.dtype)
        for constant in kernel.constants:
            if constant.tensor.name not in bindings:
                made = self._variable(
                    self._fresh("c"), "constant", constant.tensor.dtype, constant.tensor.shape
                )
                made.value = constant.value
                bindings[constant.tensor.name] = made.name
        self._bind_results(node, kernel, list(call.config.output_names), bindings)
        self._append(Call(kernel, bindings, ""))

    def _fresh(self, base: str) -> str:
        """A name that no variable has."""
        while True:
            self._count += 1
            if f"{base}{self._count}" not in self.parts.variables:
                return f"{base}{self._count}"

    def _bind_results(
        self, node: Node, kernel: KernelIR, names: list[str], bindings: dict[str, str]
    ) -> None:
        """Variables for a kernel's results; one written in place gets a copy of its operand."""
        results = {
            one.attributes["index"]: one
            for one in self.graph.nodes
            if one.opcode == "result" and one.operands[0] is node
        }
        tensors = {tensor.name: tensor for tensor in kernel.outputs}
        known = [tensors[name] for name in names if name in tensors]
        for index, tensor in enumerate(known if len(known) == len(tensors) else kernel.outputs):
            result = results.get(index)
            home = self._homes.get(id(result)) if result is not None else None
            if home is None or self.parts.variables[home].dtype != tensor.dtype:
                home = self.scratch(tensor.shape, tensor.dtype).buffer
            view = View(home, tensor.shape, row_major(tensor.shape))
            if tensor.name in bindings:
                old = bindings[tensor.name]
                source = View(old, tensor.shape, row_major(tensor.shape))
                self.copy(source, view, node)
            bindings[tensor.name] = home
            if result is not None:
                self._located[id(result)] = view.reshape(result.shape) or view

    def _finish(self) -> None:
        """Copy results that are not in their output variable yet."""
        for name, node in zip(self.parts.outputs, self.graph.results, strict=True):
            if not node.size:
                continue
            number = self.number(node)
            target = View(name, node.shape, row_major(node.shape))
            if number is not None:
                self.fill(target, number, node)
                continue
            view = self.view(node)
            if view.buffer != name:
                self.copy(view, target, node)


def _names(graph: Graph, attribute: str, base: str, count: int) -> list[str]:
    """Names from a frontend attribute (comma-separated or a JSON list), or numbered ones."""
    text = graph.attributes.get(attribute, "").strip()
    if not text:
        return [f"{base}{number}" for number in range(count)]
    try:
        listed = json.loads(text) if text.startswith("[") else text.split(",")
    except ValueError:
        listed = []
    names = [str(name).strip() for name in listed]
    if len(names) != count or len(set(names)) != count:
        raise NeffCompileError(
            f"the frontend attribute {attribute} names {len(names)} tensors ({text}), the module "
            f"has {count}, and names must differ",
            code="NEFF-NAMES",
            place=graph.name,
            remedy="correct the attribute or remove it",
        )
    return names


def _refuse_shared_names(graph: Graph, inputs: list[str], outputs: list[str]) -> None:
    shared = sorted(set(inputs) & set(outputs))
    if shared:
        raise NeffCompileError(
            f"{', '.join(shared)} would be both an input and an output",
            code="NEFF-NAMES",
            place=graph.name,
            remedy="let neff_input_names and neff_output_names name each tensor once",
        )


def _unshaped(node: Node) -> Node:
    """The node behind reshapes, for they change nothing in memory."""
    while node.opcode == "reshape":
        node = node.operands[0]
    return node


def _location(node: Node) -> SourceLocation:
    """The user's line without the folder, which would make outputs depend on where it stands."""
    file, _, line = node.place.rpartition(":")
    if file and line.isdigit():
        return SourceLocation(os.path.basename(file), int(line), node.name)
    return SourceLocation(node.place, 0, node.name)


def _refuse_doubles(node: Node) -> None:
    """float64 is converted only."""
    for one in (node, *node.operands):
        if held_as(one).kind == "double":
            raise uncovered(
                node, "the engines have no float64 arithmetic", "cast to float32 in the model"
            )


def _title(unit: Unit) -> str:
    if len(unit.nodes) == 1:
        return unit.nodes[0].opcode
    return f"fusion_of_{len(unit.nodes)}"
