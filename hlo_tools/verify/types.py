"""Checks of shapes, literals and layouts, instruction by instruction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hlo_tools.elements import BY_NUMBER
from hlo_tools.errors import HloError
from hlo_tools.ids import LOCAL_MASK
from hlo_tools.inference import InferenceError, infer, of
from hlo_tools.inference.types import TupleType, Type
from hlo_tools.literal import Literal
from hlo_tools.opcodes import OPCODES
from hlo_tools.verify.findings import Finding

__all__ = ["check_types"]

Message = Any

_BUFFER = 34
_KNOWN_TYPES = frozenset(BY_NUMBER) | {_BUFFER}
_CALLED = {
    "while": (2, 2), "reduce": (1, 1), "reduce-window": (1, 1), "call": (1, 1), "map": (1, 1),
    "fusion": (1, 1), "sort": (1, 1), "scatter": (1, 1), "select-and-scatter": (2, 2),
    "all-reduce": (1, 1), "all-reduce-start": (1, 1), "reduce-scatter": (1, 1), "scan": (1, 1),
    "async-start": (1, 1), "conditional": (1, None), "custom-call": (0, None),
    "async-update": (0, 1), "async-done": (0, 1), "topk": (0, 1),
}  # fmt: skip
"""Opcode -> fewest and most called computations; none for the others."""


def check_types(proto: Message) -> Iterator[Finding]:
    """Findings about every instruction of a module whose references hold."""
    checker = _Checker(proto)
    for row in proto.computations:
        yield from checker.computation(row)
    yield from checker.entry()


class _Checker:
    def __init__(self, proto: Message) -> None:
        self.proto = proto
        self.programs = {row.id: row.program_shape for row in proto.computations}
        self.frames = len(proto.stack_frame_index.stack_frames)
        self.types: dict[bytes, tuple[Type, tuple[tuple[str, str], ...]]] = {}

    # -- computations -------------------------------------------------------------------------

    def computation(self, row: Message) -> Iterator[Finding]:
        types: dict[int, Type] = {}
        for one in row.instructions:
            kind, problems = self._type(one.shape) if one.HasField("shape") else (None, ())
            if kind is None:
                yield self._finding("HLO-V025", "it states no shape", row, one)
                kind = TupleType(())
            for code, message in problems:
                yield self._finding(code, message, row, one)
            types[one.id & LOCAL_MASK] = kind
        for one in row.instructions:
            yield from self._instruction(one, row, types)
        yield from self._signature(row, types)

    def _signature(self, row: Message, types: dict[int, Type]) -> Iterator[Finding]:
        numbers = sorted(
            one.parameter_number for one in row.instructions if one.opcode == "parameter"
        )
        if numbers != list(range(len(numbers))):
            yield Finding(
                "HLO-V013", f"its parameters are numbered {numbers[:10]}", computation=row.name
            )
            return
        if not row.HasField("program_shape"):
            return
        parameters = {
            one.parameter_number: types[one.id & LOCAL_MASK]
            for one in row.instructions
            if one.opcode == "parameter"
        }
        stated = [of(shape) for shape in row.program_shape.parameters]
        if stated != [parameters[number] for number in numbers]:
            yield Finding("HLO-V014", "its program shape has other parameters than the computation",
                          computation=row.name)  # fmt: skip
        result = of(row.program_shape.result)
        if result != types[row.root_id & LOCAL_MASK]:
            yield Finding("HLO-V014", f"its program shape gives {result}, its root "
                          f"{types[row.root_id & LOCAL_MASK]}", computation=row.name)  # fmt: skip

    def entry(self) -> Iterator[Finding]:
        """The module's own signature against that of its entry."""
        proto = self.proto
        program = self.programs.get(proto.entry_computation_id)
        if program is None or not proto.HasField("host_program_shape"):
            return
        host = proto.host_program_shape
        same = [of(one) for one in host.parameters] == [of(one) for one in program.parameters]
        if not same or of(host.result) != of(program.result):
            yield Finding(
                "HLO-V015", "the host program shape differs from the entry's program shape"
            )

    # -- instructions -------------------------------------------------------------------------

    def _instruction(self, one: Message, row: Message, types: dict[int, Type]) -> Iterator[Finding]:
        opcode = OPCODES.get(one.opcode)
        if opcode is None:
            yield self._finding("HLO-V011", f"there is no opcode '{one.opcode}'", row, one)
            return
        count = len(one.operand_ids)
        if opcode.arity is not None and count != opcode.arity:
            yield self._finding(
                "HLO-V012", f"{one.opcode} takes {opcode.arity} operands, not {count}", row, one
            )
            return
        fewest, most = _CALLED.get(one.opcode, (0, 0))
        called = len(one.called_computation_ids)
        if called < fewest or (most is not None and called > most):
            yield self._finding("HLO-V023", f"{one.opcode} calls {called} computations", row, one)
            return
        if one.metadata.stack_frame_id > self.frames:
            yield self._finding(
                "HLO-V026", f"frame {one.metadata.stack_frame_id} of {self.frames}", row, one
            )
        if one.opcode == "constant":
            yield from self._constant(one, row)
            return
        if one.output_operand_aliasing:
            yield from self._aliases(one, row, types)
        yield from self._inferred(one, row, types)

    def _inferred(self, one: Message, row: Message, types: dict[int, Type]) -> Iterator[Finding]:
        operands = [types[number & LOCAL_MASK] for number in one.operand_ids]
        called = [self.programs[number] for number in one.called_computation_ids]
        try:
            expected = infer(one, operands, called)
        except InferenceError as error:
            yield self._finding("HLO-V019", error.message, row, one)
            return
        stated = types[one.id & LOCAL_MASK]
        if expected is not None and not _compatible(expected, stated):
            yield self._finding(
                "HLO-V018",
                f"{one.opcode} gives {expected}, the instruction states {stated}",
                row,
                one,
            )

    def _constant(self, one: Message, row: Message) -> Iterator[Finding]:
        if not one.HasField("literal"):
            yield self._finding("HLO-V021", "it has no value", row, one)
            return
        if of(one.literal.shape) != of(one.shape):
            yield self._finding(
                "HLO-V022",
                f"its value is {of(one.literal.shape)}, it states {of(one.shape)}",
                row,
                one,
            )
            return
        for _, leaf in Literal(one.literal).leaves():
            problem = _literal_problem(leaf)
            if problem:
                yield self._finding("HLO-V021", problem, row, one)
                return

    def _aliases(self, one: Message, row: Message, types: dict[int, Type]) -> Iterator[Finding]:
        for alias in one.output_operand_aliasing:
            output = _at(types[one.id & LOCAL_MASK], alias.output_shape_index)
            operand = None
            if 0 <= alias.operand_index < len(one.operand_ids):
                number = one.operand_ids[alias.operand_index] & LOCAL_MASK
                operand = _at(types[number], alias.operand_shape_index)
            if output is None or operand is None:
                yield self._finding(
                    "HLO-V027", "an alias names an output or operand that it lacks", row, one
                )
            elif output != operand and one.opcode != "async-start":
                yield self._finding(
                    "HLO-V027", f"{output} would be written over {operand}", row, one
                )

    # -- shapes -------------------------------------------------------------------------------

    def _type(self, shape: Message) -> tuple[Type, tuple[tuple[str, str], ...]]:
        """The type of a shape and what is wrong with it; equal shapes are looked at once."""
        key = shape.SerializeToString()
        found = self.types.get(key)
        if found is None:
            found = self.types[key] = (of(shape), tuple(_shape_problems(shape)))
        return found

    def _finding(self, code: str, message: str, row: Message, one: Message) -> Finding:
        return Finding(code, message, computation=row.name, instruction=one.name)


def _shape_problems(shape: Message) -> Iterator[tuple[str, str]]:
    if shape.element_type not in _KNOWN_TYPES:
        yield "HLO-V024", f"there is no element type {shape.element_type}"
    for part in shape.tuple_shapes:
        yield from _shape_problems(part)
    if shape.HasField("layout") and not shape.tuple_shapes:
        order = list(shape.layout.minor_to_major)
        if sorted(order) != list(range(len(shape.dimensions))):
            yield (
                "HLO-V020",
                f"the layout {order} does not order {len(shape.dimensions)} dimensions",
            )


def _literal_problem(leaf: Literal) -> str:
    if not leaf.shape.is_array:
        return ""
    if leaf.is_elided:
        return f"the {leaf.shape.element_count} elements of {leaf.shape} were left out"
    try:
        leaf.numpy()
    except HloError as error:
        return error.message
    return ""


def _compatible(expected: Type, stated: Type) -> bool:
    """Equal, or differing only in which dimensions are dynamic."""
    if isinstance(expected, TupleType) or isinstance(stated, TupleType):
        return (
            isinstance(expected, TupleType)
            and isinstance(stated, TupleType)
            and len(expected.parts) == len(stated.parts)
            and all(_compatible(a, b) for a, b in zip(expected.parts, stated.parts, strict=True))
        )
    return expected.element == stated.element and expected.dimensions == stated.dimensions


def _at(kind: Type, index: Any) -> Type | None:
    for at in index:
        if not isinstance(kind, TupleType) or not 0 <= at < len(kind.parts):
            return None
        kind = kind.parts[at]
    return kind
