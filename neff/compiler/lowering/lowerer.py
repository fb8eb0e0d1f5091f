"""The state of a graph's lowering: variables, the location of each value, and the kernels so far.

:func:`neff.compiler.units.lower.lower` creates it for a graph and passes it, with one node at a time,
to the functions of this folder.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from neff.compiler.assembly.assemble import Parts
from neff.compiler.assembly.budget import DoesNotFitError
from neff.compiler.assembly.history import History, Renamed, Used
from neff.compiler.assembly.link import Call, Window
from neff.compiler.assembly.verify import cores_are_apart
from neff.compiler.graph.nodes import Node, uncovered
from neff.compiler.graph.types import held_as, narrow_constant
from neff.compiler.graph.views import VIEWS, View, row_major
from neff.compiler.lowering.control import Term, offset_task
from neff.compiler.lowering.exchanges import exchange_of, exchange_task
from neff.compiler.lowering.movement import fill_task, move_task
from neff.compiler.lowering.rows.elementwise import copy_task
from neff.compiler.lowering.tiles.origins import location_of
from neff.compiler.lowering.tiles.pricing import Variant, priced
from neff.compiler.lowering.tiles.task import Port, Task
from neff.compiler.lowering.tiles.tiling import TooLarge
from neff.compiler.lowering.tiles.tracing import trace_task
from neff.compiler.plans import PLANS, Plan
from neff.compiler.record import Member, Record, Stored, UnitRecord
from neff.errors import NeffCompileError
from neff.program import Variable
from neff.timing import Parameters
from nki_lang.base.dtypes import Array, DType
from nki_lang.ir import KernelIR

__all__ = ["Lowerer"]

_DEFAULT_PLAN = PLANS[2][0]
_MAX_TIME_RATIO = 0.995
"""A variant is chosen if it takes at most this fraction of the default kernel's time."""


def _no_reason(_node: Node, _members: frozenset[int]) -> str:
    return ""


@dataclass(slots=True)
class Lowerer:
    """The state of one graph's lowering.

    Attributes:
        parts: variables and calls of the program.
        dot_cast: type that float32 operands of a dot are cast to (``bf16``), "" for none.
        located: id of a node -> the view of its value.
        homes: id of a node -> the output variable in which its value is computed.
        spots: id of a node -> the view of a buffer in which its value is computed.
        results: id of a node with several results -> the views of their values.
        result_nodes: id of such a node and the index of a result -> the node that is the result.
        windows: buffers that are a range of another one, at an offset that a register holds.
        plan: the effort of the search.
        record: the record of the lowering.
        why: returns why a node's value is stored, from the ``id`` of all nodes of its unit.
        history: the values of views and kernels, for the proof. Buffers of views are its versions,
            or windows of them; buffers of ``homes`` are memories.
    """

    parts: Parts
    dot_cast: str = ""
    plan: Plan = _DEFAULT_PLAN
    record: Record = field(default_factory=Record)
    why: Callable[[Node, frozenset[int]], str] = _no_reason
    history: History = field(default_factory=History)
    located: dict[int, View] = field(default_factory=dict[int, View])
    homes: dict[int, str] = field(default_factory=dict[int, str])
    spots: dict[int, View] = field(default_factory=dict[int, View])
    results: dict[int, list[View]] = field(default_factory=dict[int, list[View]])
    result_nodes: dict[tuple[int, int], Node] = field(default_factory=dict[tuple[int, int], Node])
    windows: dict[str, Window] = field(default_factory=dict[str, Window])
    _windowed: dict[str, str] = field(default_factory=dict[str, str])
    _offsets: dict[str, Call] = field(default_factory=dict[str, Call])
    _shared: dict[Any, View] = field(default_factory=dict[Any, View])
    _depth: int = 0
    _count: int = 0
    _unit: UnitRecord | None = None
    _members: frozenset[int] = frozenset()

    @contextmanager
    def unit(self, kind: str, nodes: Sequence[Node]) -> Generator[None]:
        """Record that everything lowered within belongs to a unit."""
        outer = self._unit, self._members
        members = [Member(node.opcode, node.name, node.place) for node in nodes]
        self._unit = UnitRecord(kind, members)
        self._members = frozenset(map(id, nodes))
        self.record.units.append(self._unit)
        yield
        self._unit, self._members = outer

    def variable(self, name: str, kind: str, dtype: DType, shape: tuple[int, ...]) -> Variable:
        """Declare a variable of the program."""
        variable = Variable(name, kind, dtype, shape)
        self.parts.variables[name] = variable
        return variable

    def scratch(self, shape: tuple[int, ...], dtype: DType) -> View:
        """Return a fresh buffer."""
        name = self.fresh("t")
        self.variable(name, "scratch", dtype, shape)
        return View(name, shape, row_major(shape))

    def home(self, node: Node) -> View:
        """Return the buffer of a node's value: an output of the module, or scratch."""
        name = self.homes.get(id(node))
        if id(node) in self.spots:
            view = self.spots[id(node)]
        elif name is None:
            view = self.scratch(node.shape, held_as(node).tile)
        else:
            view = View(self.version(name), node.shape, row_major(node.shape))
        self.located[id(node)] = view
        if self._unit is not None:
            nbytes = node.size * held_as(node).tile.itemsize
            self._unit.stored.append(Stored(node.name, nbytes, self.why(node, self._members)))
        return view

    def result_home(self, node: Node, index: int, shape: tuple[int, ...], dtype: DType) -> View:
        """Return the buffer of a result of a node with several: an output of the module, or scratch."""
        result = self.result_nodes.get((id(node), index))
        name = None if result is None else self.homes.get(id(result))
        if name is None or self.parts.variables[name].dtype != dtype:
            return self.scratch(shape, dtype)
        return View(self.version(name), shape, row_major(shape))

    def port(self, view: View) -> Port:
        """Return the view with the type in which a kernel reads or writes it."""
        return Port.of(view, self.parts.variables[view.buffer])

    # -- values ----------------------------------------------------------------------------

    def number(self, node: Node) -> np.generic | None:
        """Return the number that all elements of the node have, in the type on chip, or None."""
        splat = node.splat
        if splat is None:
            return None
        return narrow_constant(node, np.asarray(splat)).reshape(-1)[0]

    def view(self, node: Node) -> View:
        """Return the view of the node's value; a kernel fills a buffer with it if it has none
        yet.
        """
        view = self.located.get(id(node))
        if view is None:
            view = self._find(node)
            self.located[id(node)] = view
        return view

    def _find(self, node: Node) -> View:
        number = self.number(node)
        if number is not None:
            return self._constant(node, np.asarray(number)).broadcast(node.shape, ())
        if node.opcode == "constant":
            return self._constant(node, narrow_constant(node, node.attributes["value"]))
        if node.opcode == "result":
            index: int = node.attributes["index"]
            return self.results[id(node.operands[0])][index]
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
        reshaped = source.reshape(node.shape)
        if reshaped is not None:
            return reshaped
        return self.compact(source, node).reshape(node.shape) or source

    def _constant(self, node: Node, value: Array) -> View:
        key = (value.dtype.str, value.shape, value.tobytes())
        view = self._shared.get(key)
        if view is None:
            variable = self.variable(self.fresh("c"), "constant", held_as(node).tile, value.shape)
            variable.value = value
            view = self._shared[key] = View(variable.name, value.shape, row_major(value.shape))
        return view

    def compact(self, source: View, node: Node) -> View:
        """Return a copy of the elements without gaps."""
        target = self.scratch(source.shape, self.port(source).dtype)
        self.copy(source, target, node)
        return target

    def is_across(self, view: View, like: View) -> bool:
        """Return True if one walk over both views moves single elements, and a transposed copy is
        faster.
        """
        port = self.port(view)
        return exchange_of(port, replace(port, view=replace(like, buffer="", offset=0))) is not None

    def straight(self, view: View, like: View, node: Node) -> View:
        """Return the view, or a copy in the order of ``like`` if it is across."""
        return self.compact(view, node) if self.is_across(view, like) else view

    def copy(self, source: View, target: View, node: Node) -> None:
        """Copy one view to another; they may store 64-bit integers differently."""
        if self.in_memory(source).matches(self.in_memory(target)):
            self.rename(source, target)
            return
        read, write = self.port(source), self.port(target)
        exchange = exchange_of(read, write)
        if exchange is not None:
            exact = self.parts.target.generation >= 3
            self.call(exchange_task("transpose", exchange, exact=exact), node)
            return
        if read.wide == write.wide and read.dtype == write.dtype:
            self.call(move_task("copy", read, write), node)
        else:
            self.call(copy_task("copy", read, write), node)

    def fill(self, target: View, value: np.generic | int, node: Node) -> None:
        """Fill a view with a number."""
        self.call(fill_task("fill", self.port(target), value), node)

    def row_major_variable(self, node: Node, dtype: DType) -> str:
        """Return a variable that holds exactly the node's value in row-major order, as
        ``dtype``.
        """
        view = self.view(node)
        variable = self.parts.variables[view.buffer]
        exact = view.offset == 0 and view.contiguous and prod(variable.shape) == view.size
        exact = exact and view.buffer not in self.windows
        if exact and variable.dtype == dtype:
            return view.buffer
        target = self.scratch(node.shape, dtype)
        self.copy(view, target, node)
        return target.buffer

    def iota(self, count: int, dtype: DType) -> View | None:
        """Return the buffer 0, 1, 2, ... of this length and type if it exists."""
        return self._shared.get(("iota", count, dtype.name))

    def keep_iota(self, view: View, dtype: DType) -> None:
        """Let other nodes use the buffer 0, 1, 2, ..."""
        self._shared["iota", view.size, dtype.name] = view

    def place(self, node: Node, view: View) -> None:
        """Set the view of a node's value."""
        self.located[id(node)] = view

    # -- runtime offsets -------------------------------------------------------------------

    def window(self, base: View, shape: tuple[int, ...], terms: list[Term], node: Node) -> View:
        """Return a window of ``base`` at an offset that is known at run time only; no data moves.

        Args:
            base: the view whose strides the window has; none is negative.
            shape: the shape of the window.
            terms: the terms of its offset, in elements.
            node: the node, for messages and profiles.
        """
        variable = self.parts.variables[base.buffer]
        words = 1 + self.port(base).wide
        moved = [
            replace(term, stride=term.stride * words, start=term.start * words) for term in terms
        ]
        name, offset = self.base(base.buffer), base.offset
        outer = self.windows.get(base.buffer)
        if outer is not None:
            moved.append(Term(outer.register, 1))
            offset += outer.offset
        window = Window(name, self.fresh("r"), offset)
        used = [term.source for term in moved if isinstance(term.source, str)]
        self.call(offset_task(window.register, moved), node, window.register, *used)
        self._offsets[window.register] = self.parts.calls[-1]
        span = 1 + sum(
            (extent - 1) * step for extent, step in zip(shape, base.strides, strict=True)
        )
        buffer = self.fresh("w")
        self.variable(buffer, "window", variable.dtype, (max(1, span),))
        self.windows[buffer] = window
        self._windowed[buffer] = self._version_of(base.buffer)
        return View(buffer, shape, base.strides)

    def base(self, buffer: str) -> str:
        """Return the variable that contains a buffer's elements."""
        return self.history.memory(self._version_of(buffer))

    # -- versions --------------------------------------------------------------------------

    def version(self, memory: str) -> str:
        """Return a buffer of the same memory, for a value that replaces the one in it."""
        version = self.history.version(memory)
        self.parts.variables[version] = replace(self.parts.variables[memory], kind="window")
        return version

    def in_memory(self, view: View) -> View:
        """Return the view as a view of its memory, for any version; windows stay windows."""
        return replace(view, buffer=self.history.memory(view.buffer))

    def rename(self, old: View, new: View) -> None:
        """Record that the value in the memory of a view becomes another version of it."""
        before, after = self._version_of(old.buffer), self._version_of(new.buffer)
        if before != after:
            self.history.events.append(Renamed(len(self.parts.calls), before, after))

    def shares_memory(self, reads: Iterable[str], writes: Iterable[str]) -> bool:
        """Return True if a written buffer shares memory with a read one; windows have their own."""
        memory = self.history.memory
        return not set(map(memory, reads)).isdisjoint(map(memory, writes))

    def _version_of(self, buffer: str) -> str:
        """Return the version of a buffer, or the version that it is a window of."""
        return self._windowed.get(buffer, buffer)

    def _note(self, reads: Iterable[str], writes: Iterable[str]) -> None:
        """Record the versions that the next kernel reads and writes."""
        used = (tuple(dict.fromkeys(map(self._version_of, names))) for names in (reads, writes))
        self.history.events.append(Used(len(self.parts.calls), *used))

    @contextmanager
    def inside(self) -> Generator[None]:
        """Forget, after a loop's body, the locations that are valid in the body only."""
        located = dict(self.located)
        counted = {key for key in self._shared if key[0] == "iota"}
        self._depth += 1
        yield
        self._depth -= 1
        self.located = located
        for key in [key for key in self._shared if key[0] == "iota" and key not in counted]:
            del self._shared[key]

    # -- kernels ---------------------------------------------------------------------------

    def call_best(
        self, variants: Iterable[Variant], node: Node, smaller: Iterable[Variant] = ()
    ) -> None:
        """Append the fastest variant of a kernel by the timing model; the first if the plan does
        not search.

        Args:
            variants: the variants, the default first.
            node: the node, for messages and profiles.
            smaller: variants that need less memory, in the order in which they are tried when the
                chosen one does not fit.

        Raises:
            DoesNotFitError: none of them fits.
        """
        variant_items = iter(variants)
        name, make = next(variant_items)
        task = make()
        if self.plan.search and not self.windows.keys() & {*task.reads, *task.writes}:
            best = self._price(task, node)
            for variant, make_other in variant_items:
                candidate = make_other()
                price = self._price(candidate, node)
                if price < best * _MAX_TIME_RATIO:
                    best, name, task = price, variant, candidate
        failure: DoesNotFitError | None = None
        for choice, make in ((name, lambda: task), *smaller):
            try:
                self.call(make(), node)
            except DoesNotFitError as error:
                failure = failure or error
                continue
            if self._unit is not None:
                cores = self._unit.choice
                self._unit.choice = ", ".join(filter(None, (choice, cores)))
            return
        assert failure is not None
        raise failure

    def _price(self, task: Task, node: Node) -> float:
        """Return the nanoseconds of a kernel alone; infinite for a kernel that cannot be built."""
        try:
            return priced(self._traced(task, node), self.parts.target)
        except (TooLarge, NeffCompileError):
            return float("inf")

    def _traced(self, task: Task, node: Node, cores: int = 1) -> KernelIR:
        task = task.renamed(self.history.memory)
        sizes = {name: self.parts.variables[name] for name in (*task.reads, *task.writes)}
        return trace_task(task, sizes, self.parts.target, location=location_of(node), cores=cores)

    def _divided(self, task: Task, node: Node, kernel: KernelIR) -> KernelIR:
        """Return the kernel, or its division over both cores if that is faster with its two
        meetings.

        Kernels of device loops, and kernels that read what they write, stay on the first core.
        """
        cores, target = self.parts.cores, self.parts.target
        reads, writes = set(map(self.base, task.reads)), set(map(self.base, task.writes))
        if cores < 2 or not task.divides or self._depth or reads & writes:
            return kernel
        try:
            divided = self._traced(task, node, cores)
        except DoesNotFitError:
            return kernel
        written = list(map(self.history.memory, task.writes))
        if not all(divided.bodies) or not cores_are_apart(divided.bodies, written):
            return kernel
        meeting = Parameters(target.name)["control.barrier_ns"].value
        takes = priced(divided, target) + 2 * meeting
        return divided if takes < priced(kernel, target) * _MAX_TIME_RATIO else kernel

    def call(self, task: Task, node: Node, *registers: str, everywhere: bool = False) -> None:
        """Append a kernel that the compiler wrote.

        Args:
            task: the kernel to trace.
            node: the node, for messages and profiles.
            registers: registers of the program that it reads or writes.
            everywhere: every core runs it.

        Raises:
            DoesNotFitError: its tiles exceed SBUF or PSUM.
            NeffCompileError: ``NEFF-SIZE``; it has more tiles than can be compiled.
        """
        try:
            kernel = self._divided(task, node, self._traced(task, node))
        except TooLarge as error:
            raise NeffCompileError(
                f"{node.describe()}: {error}",
                code="NEFF-SIZE",
                place=node.place,
                remedy="use smaller tensors, or split the operation in the model",
            ) from None
        self._note(task.reads, task.writes)
        names = map(self.history.memory, (*task.reads, *task.writes))
        bindings = {name: name for name in names}
        if self._unit is not None:
            self._unit.idioms |= task.idioms
            if len(kernel.bodies) > 1:
                self._unit.choice = ", ".join(filter(None, (self._unit.choice, "both cores")))
        call = Call(kernel, bindings, "", location_of(node), registers=frozenset(registers))
        call.everywhere = everywhere
        self._append(call)

    def call_kernel(self, kernel: KernelIR, bindings: dict[str, str], node: Node) -> None:
        """Append a kernel of the module.

        Args:
            kernel: the kernel.
            bindings: its tensor -> the version that it is bound to.
            node: the call.
        """
        inputs = {tensor.name for tensor in kernel.inputs}
        inputs |= {constant.tensor.name for constant in kernel.constants}
        outputs = {tensor.name for tensor in kernel.outputs}
        self._note(
            (version for name, version in bindings.items() if name in inputs),
            (version for name, version in bindings.items() if name in outputs),
        )
        memories = {name: self.history.memory(version) for name, version in bindings.items()}
        self._append(Call(kernel, memories, "", op=node.name))

    def _append(self, call: Call) -> None:
        """Append a kernel with a unique label."""
        call.label = f"k{len(self.parts.calls)}"
        if self._unit is not None:
            self._unit.labels.append(call.label)
            if call.kernel.name not in self._unit.kernels:
                self._unit.kernels.append(call.kernel.name)
        for tensor, name in call.bindings.items():
            if name in self.windows:
                call.windows[tensor] = self.windows[name]
                call.bindings[tensor] = self.windows[name].name
                if len(call.kernel.bodies) > 1:
                    self._load_everywhere(self.windows[name].register)
        self.parts.calls.append(call)

    def _load_everywhere(self, register: str) -> None:
        """Compute the offset of a window on every core, with the offsets that it depends on."""
        call = self._offsets.get(register)
        if call is not None and not call.everywhere:
            call.everywhere = True
            for operand in call.registers:
                self._load_everywhere(operand)

    def fresh(self, base: str) -> str:
        """Return a name that no variable has."""
        while True:
            self._count += 1
            if f"{base}{self._count}" not in self.parts.variables:
                return f"{base}{self._count}"
