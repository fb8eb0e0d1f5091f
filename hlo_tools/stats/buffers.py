"""Buffers of a computation's values, and the steps at which they are alive.

Values are followed through tuples and whatever else only gives memory another name. A result is
written over an operand that nothing needs any more where the operation allows it, as in XLA's
buffer assignment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.stats.in_place import overwritten
from hlo_tools.types.opcodes import opcodes_with

__all__ = ["Buffer", "Call", "Layout", "layout_of"]

_FORWARDED = opcodes_with("forwarding")
"""Opcodes whose result is their first operand's memory."""

_DONE = {
    "all-gather-done": 1, "all-reduce-done": -1, "async-done": 1, "collective-permute-done": 1,
    "copy-done": 0, "recv-done": 0,
}  # fmt: skip
"""The element of a start's tuple that is the result; -1 for the whole tuple."""

_HOLDS_OPERANDS = frozenset({"all-gather-start", "async-start", "collective-permute-start", "send"})
"""Opcodes whose result begins with their operands."""

_CALLS = frozenset({"call", "conditional", "while"})


@dataclass(slots=True, eq=False)
class Buffer:
    """One array in memory.

    Attributes:
        owner: the instruction that makes it.
        index: which part of its result it is.
        size: bytes.
        start, end: the first and the last step of its computation at which it is alive.
        over: a buffer that is free as soon as this one is written, and of the same size.
    """

    owner: Instruction
    index: tuple[int, ...]
    size: int
    start: int
    end: int
    over: Buffer | None = None

    @property
    def kind(self) -> str:
        """``parameter``, ``constant`` or ``temporary``."""
        opcode = self.owner.opcode
        return opcode if opcode in ("parameter", "constant") else "temporary"


@dataclass(frozen=True, slots=True)
class Call:
    """A step that runs other computations.

    Attributes:
        operands: the buffers of what they are given, one list for each computation.
        results: the buffers that they make.
        kept: of a loop, whether each part of its state stays as it is given; else empty.
    """

    step: int
    computations: tuple[Computation, ...]
    operands: list[list[Buffer]]
    results: list[Buffer]
    is_unchanged: list[bool] = field(default_factory=list[bool])


@dataclass(frozen=True, slots=True)
class Layout:
    """The buffers of one computation.

    Attributes:
        order: its instructions as they run; steps count them.
        parameters: the buffers of its parameters, part by part.
        root: the buffers of its result, part by part.
    """

    order: tuple[Instruction, ...]
    buffers: list[Buffer]
    calls: list[Call]
    parameters: list[Buffer]
    root: list[Buffer]

    def unchanged(self, position: int) -> int:
        """Return the number of the parameter buffer that a result buffer still is, or -1."""
        buffer = self.root[position]
        if buffer.kind != "parameter":
            return -1
        return next(index for index, parameter in enumerate(self.parameters) if parameter is buffer)


def layout_of(computation: Computation, layouts: Mapping[Computation, Layout]) -> Layout:
    """The buffers of a computation.

    Args:
        layouts: those of the computations that it runs (loops, branches, calls).

    Raises:
        HloFileError: instructions depend on each other in a circle (HLO-CYCLE), or a reference
            names nothing (HLO-REFERENCE).
    """
    return _Layouter(computation, layouts).run()


class _Layouter:
    """Follows values through one computation in the order in which it runs."""

    def __init__(self, computation: Computation, layouts: Mapping[Computation, Layout]) -> None:
        self.computation = computation
        self.layouts = layouts
        self.values: dict[Instruction, list[Buffer]] = {}
        self.offsets: dict[Instruction, list[int]] = {}
        self.buffers: list[Buffer] = []
        self.calls: list[Call] = []
        self.step = 0

    def run(self) -> Layout:
        order = self.computation.schedule or tuple(self.computation.post_order())
        new_buffers: list[tuple[Instruction, list[Buffer]]] = []
        for self.step, view in enumerate(order):
            begin = len(self.buffers)
            self.values[view] = self._value(view)
            if len(self.buffers) > begin:
                new_buffers.append((view, self.buffers[begin:]))
        root = self.values.get(self.computation.root, [])
        for buffer in root:
            buffer.end = len(order)
        self._write_over(new_buffers)
        parameters = [b for p in self.computation.parameters for b in self.values.get(p, ())]
        return Layout(order, self.buffers, self.calls, parameters, root)

    def _value(self, view: Instruction) -> list[Buffer]:
        """The buffers of an instruction's result; new ones are added."""
        opcode = view.opcode
        operands = [self.values.get(operand, []) for operand in view.operands]
        if opcode == "tuple":
            return [buffer for parts in operands for buffer in parts]
        if opcode == "get-tuple-element" and operands:
            return self._part(view.operands[0], view.proto.tuple_index)
        if opcode in _FORWARDED and operands:
            return operands[0]
        flat = [buffer for parts in operands for buffer in parts]
        for buffer in flat:
            buffer.end = max(buffer.end, self.step)
        if opcode in _CALLS:
            return self._called(view, operands, flat)
        return self._filled(view, self._forwarded(view, operands, flat))

    def _filled(self, view: Instruction, reused: Sequence[Buffer | None]) -> list[Buffer]:
        """Return the buffers of a result: the reused ones, and new buffers for all others."""
        buffers: list[Buffer] = []
        for position, (index, leaf) in enumerate(view.shape.leaves()):
            buffer = reused[position] if position < len(reused) else None
            if buffer is None:
                start = 0 if view.opcode == "parameter" else self.step
                buffer = Buffer(view, index, leaf.byte_size, start, self.step)
                self.buffers.append(buffer)
            buffers.append(buffer)
        return buffers

    def _forwarded(
        self, view: Instruction, operands: list[list[Buffer]], flat: list[Buffer]
    ) -> Sequence[Buffer | None]:
        opcode = view.opcode
        if opcode in _DONE and operands:
            number = _DONE[opcode]
            return operands[0] if number < 0 else self._part(view.operands[0], number)
        if opcode == "async-update" and operands:
            return operands[0]
        if opcode == "copy-start":
            return [None, *flat]
        return flat if opcode in _HOLDS_OPERANDS and view.shape.is_tuple else ()

    def _part(self, view: Instruction, number: int) -> list[Buffer]:
        """The buffers of one part of a tuple."""
        ends = self.offsets.get(view)
        if ends is None:
            sizes = (sum(1 for _ in element.leaves()) for element in view.shape.tuple_shapes)
            ends = self.offsets[view] = list(accumulate(sizes, initial=0))
        if number + 1 >= len(ends):
            return []
        return self.values.get(view, [])[ends[number] : ends[number + 1]]

    def _called(
        self, view: Instruction, operands: list[list[Buffer]], flat: list[Buffer]
    ) -> list[Buffer]:
        """Return the result of an instruction that runs other computations."""
        called = view.called_computations
        is_unchanged: list[bool] = []
        reused: Sequence[Buffer | None] = ()
        inputs = [flat for _ in called]
        if view.opcode == "while" and called:
            body = self.layouts[called[0]]
            is_unchanged = [
                body.unchanged(position) == position for position in range(len(body.root))
            ]
            reused = [b if same else None for b, same in zip(flat, is_unchanged, strict=False)]
        elif view.opcode == "call" and called:
            body = self.layouts[called[0]]
            positions = [body.unchanged(position) for position in range(len(body.root))]
            reused = [
                flat[position] if 0 <= position < len(flat) else None for position in positions
            ]
        elif view.opcode == "conditional":
            inputs = operands[1:]
        begin = len(self.buffers)
        buffers = self._filled(view, reused)
        self.calls.append(Call(self.step, called, inputs, self.buffers[begin:], is_unchanged))
        return buffers

    def _write_over(self, new_buffers: list[tuple[Instruction, list[Buffer]]]) -> None:
        """Let results reuse the memory of operands that die at the instruction."""
        overwritten_buffers: set[Buffer] = set()
        for view, results in new_buffers:
            if view.opcode in _CALLS:
                continue
            ending = {
                buffer
                for operand in view.operands
                for buffer in self.values.get(operand, ())
                if buffer.end == results[0].start and buffer.kind != "constant"
            }
            for result in results if ending else ():
                positions = overwritten(view, result.index)
                candidates = [
                    candidate
                    for position in positions
                    for candidate in self._operand(view, *position)
                ]
                # Parameters last: only some are the computation's to write over.
                for candidate in sorted(
                    candidates, key=lambda candidate: candidate.kind == "parameter"
                ):
                    if (
                        candidate in ending
                        and candidate not in overwritten_buffers
                        and candidate.size == result.size
                    ):
                        result.over = candidate
                        overwritten_buffers.add(candidate)
                        break

    def _operand(self, view: Instruction, number: int, index: tuple[int, ...]) -> list[Buffer]:
        """Return the buffer at an index of an operand, in a list that is empty without such an index."""
        if number >= len(view.operands):
            return []
        operand = view.operands[number]
        buffers = self.values.get(operand, [])
        if not index:
            return buffers[:1]
        indices = [index for index, _ in operand.shape.leaves()]
        return [buffers[indices.index(index)]] if index in indices else []
