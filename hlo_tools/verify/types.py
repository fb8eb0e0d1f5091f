"""Checks of shapes, literals and layouts, instruction by instruction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hlo_tools import schema
from hlo_tools._messages import counted
from hlo_tools.errors import HloError
from hlo_tools.inference import InferenceError, infer, of
from hlo_tools.inference.rule import Call
from hlo_tools.inference.types import UNBOUNDED, TupleType, Type, part_at
from hlo_tools.ir.external_constants import ATTRIBUTE as EXTERNAL_CONSTANT
from hlo_tools.types.element_types import BY_NAME, BY_NUMBER
from hlo_tools.types.ids import LOCAL_MASK
from hlo_tools.types.literal import Literal
from hlo_tools.types.opcodes import OPCODES, Opcode, missing_opcode
from hlo_tools.verify.findings import Finding, Severity
from hlo_tools.verify.operations import check_operation
from hlo_tools.verify.options import DEFAULT, Options
from hlo_tools.verify.precision import mixture, relax_program, relax_row, relax_type
from hlo_tools.verify.structure import Calls

__all__ = ["check_types"]

Message = Any
Problem = tuple[str, str]
"""A rule's code and what is wrong."""

_TUPLE, _BUFFER = BY_NAME["tuple"].number, 34
_KNOWN_TYPES = frozenset(BY_NUMBER) | {_BUFFER}
_CALLED = {
    "while": (2, 2), "reduce": (1, 1), "reduce-window": (1, 1), "call": (1, 1), "map": (1, 1),
    "fusion": (1, 1), "sort": (1, 1), "scatter": (1, 1), "select-and-scatter": (2, 2),
    "all-reduce": (1, 1), "all-reduce-start": (1, 1), "reduce-scatter": (1, 1), "scan": (1, 1),
    "collective-reduce": (1, 1),
    "async-start": (1, 1), "conditional": (1, None), "custom-call": (0, None),
    "async-update": (0, 1), "async-done": (0, 1), "topk": (0, 1),
}  # fmt: skip
"""Opcode -> fewest and most called computations; none for the others."""


_ATTRIBUTE_WORDS = {
    "fusion": (("fusion_kind", frozenset({"kLoop", "kInput", "kOutput", "kCustom"})),),
    "compare": (
        ("comparison_direction", frozenset({"EQ", "NE", "GE", "GT", "LE", "LT"})),
        ("comparison_type", frozenset({"", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"})),
        ("comparison_order", frozenset({"", "PARTIAL", "TOTAL"})),
    ),
}
"""Opcode -> fields that hold one of some words."""


_ELIDED = ("HLO-V021", "its elements were left out")
_EXACT = frozenset(
    {"bitcast", "call", "conditional", "constant", "copy-done", "copy-start", "custom-call",
     "get-tuple-element", "infeed", "outfeed", "opt-barrier", "parameter", "recv", "recv-done",
     "send", "send-done", "tuple", "while", "fusion", "dynamic-update-slice", "bitcast-convert"}
)  # fmt: skip
"""Opcodes whose floats agree even where precision may be mixed: they pass bits on."""


def check_types(proto: Message, calls: Calls, options: Options = DEFAULT) -> Iterator[Finding]:
    """Findings about every instruction of a module whose references hold."""
    checker = _Checker(proto, calls, options)
    for row in proto.computations:
        yield from checker.computation(row)
    yield from checker.entry()
    yield from checker.left_out()


def _depends_on(opcode: Opcode) -> tuple[str, ...] | None:
    """Return the fields that determine a result's type together with types; None if unknown."""
    attributes = opcode.required | opcode.optional
    if not attributes <= _TYPED_BY.keys():
        return None
    return tuple(sorted({_TYPED_BY[name] for name in attributes} - {""}))


_TYPED_BY = {
    **dict.fromkeys(("dimensions", "iota_dimension", "inferred_dimension"), "dimensions"),
    **dict.fromkeys(
        ("lhs_contracting_dims", "rhs_contracting_dims", "lhs_batch_dims", "rhs_batch_dims"),
        "dot_dimension_numbers",
    ),
    "index": "tuple_index",
    **dict.fromkeys(
        ("algorithm", "body", "calls", "condition", "direction", "is_composite", "is_stable", "kind",
         "operand_precision", "output_to_operand_aliasing", "result_accuracy", "sparsity_config",
         "to_apply", "type"),
        "",
    ),
}  # fmt: skip
"""Attribute in text -> the field that bears on the result's type, or "" for none."""

_DEPENDS = {name: _depends_on(opcode) for name, opcode in OPCODES.items()}


class _Checker:
    """The types of a module; those that occur again are numbers, and what follows from them, and
    from attributes, is worked out once."""

    def __init__(self, proto: Message, calls: Calls, options: Options) -> None:
        self.proto = proto
        self.mixed = options.mixed_precision
        self.calls = {
            number: {inst.id & LOCAL_MASK: list(inst.called_computation_ids) for inst in rows}
            for number, rows in calls.items()
        }
        self.programs = {row.id: row.program_shape for row in proto.computations}
        self.signatures: dict[int, tuple[int, ...]] = {}
        self.frames = len(proto.stack_frame_index.stack_frames)
        self.numbers: dict[bytes, int] = {}
        self.kinds: list[Type] = []
        self.problems: list[tuple[Problem, ...]] = []
        self.known: dict[tuple[Any, ...], Problem | None] = {}
        self.elided: list[tuple[str, str]] = []
        self.unframed: list[tuple[str, str]] = []
        self.nothing = self._number(schema.ShapeProto(element_type=_TUPLE))

    # -- computations -------------------------------------------------------------------------

    def computation(self, row: Message) -> Iterator[Finding]:
        rows = list(row.instructions)
        numbers: dict[int, int] = {}
        for inst in rows:
            number = self._number(inst.shape)
            if not inst.HasField("shape"):
                yield self._finding("HLO-V025", "it states no shape", row, inst)
                number = self.nothing
            for code, message in self.problems[number]:
                yield self._finding(code, message, row, inst)
            numbers[inst.id & LOCAL_MASK] = number
        calls = self.calls.get(row.id, {})
        parameters: list[Message] = []
        for inst, local in zip(rows, numbers, strict=True):
            name = inst.opcode
            if name == "parameter":
                parameters.append(inst)
            problems = self._instruction(inst, name, numbers, calls.get(local, []))
            if problems:
                yield from self._reported(problems, row, inst)
        yield from self._signature(row, parameters, numbers)

    def _reported(self, problems: list[Problem], row: Message, inst: Message) -> Iterator[Finding]:
        """Findings; what a dump leaves out on purpose is kept for one of the whole module."""
        for code, message in problems:
            if (code, message) == _ELIDED:
                self.elided.append((row.name, inst.name))
            elif code == "HLO-V026" and not self.frames:
                self.unframed.append((row.name, inst.name))
            else:
                yield self._finding(code, message, row, inst)

    def left_out(self) -> Iterator[Finding]:
        """One warning for each kind of what the module was written without."""
        for code, positions, what, remedy in (
            ("HLO-V021", self.elided, "{} written without its elements",
             "values cannot be computed; dump with --xla_dump_large_constants"),
            ("HLO-V026", self.unframed, "{} from a source frame, the table of frames is left out",
             "source lines are not known; dump the module as a proto"),
        ):  # fmt: skip
            if positions:
                noun = "constant is" if code == "HLO-V021" else "instruction comes"
                plural = "constants are" if code == "HLO-V021" else "instructions come"
                yield Finding(
                    code, what.format(counted(len(positions), noun, plural)),
                    severity=Severity.warning, computation=positions[0][0], instruction=positions[0][1],
                    remedy=remedy,
                )  # fmt: skip

    def _signature(
        self, row: Message, parameters: list[Message], numbers: dict[int, int]
    ) -> Iterator[Finding]:
        types = {inst.parameter_number: numbers[inst.id & LOCAL_MASK] for inst in parameters}
        order = sorted(inst.parameter_number for inst in parameters)
        if order != list(range(len(parameters))):
            yield Finding(
                "HLO-V013", f"its parameters are numbered {order[:10]}", computation=row.name
            )
            return
        if not row.HasField("program_shape"):
            return
        *stated, result = (self.kinds[number] for number in self._program(row.id))
        if stated != [self.kinds[types[number]] for number in order]:
            yield Finding("HLO-V014", "its program shape has other parameters than the computation",
                          computation=row.name)  # fmt: skip
        root = self.kinds[numbers[row.root_id & LOCAL_MASK]]
        if result != root:
            yield Finding("HLO-V014", f"its program shape has the result {result}, its root {root}",
                          computation=row.name)  # fmt: skip

    def _program(self, computation: int) -> tuple[int, ...]:
        """The types of a computation's parameters and of its result, as its program shape states."""
        signature = self.signatures.get(computation)
        if signature is None:
            program = self.programs[computation]
            shapes = (*program.parameters, program.result)
            signature = self.signatures[computation] = tuple(map(self._number, shapes))
        return signature

    def entry(self) -> Iterator[Finding]:
        """The module's own signature against that of its entry."""
        proto = self.proto
        program = self.programs.get(proto.entry_computation_id)
        if program is None or not proto.HasField("host_program_shape"):
            return
        host = proto.host_program_shape
        same = [of(shape) for shape in host.parameters] == [
            of(shape) for shape in program.parameters
        ]
        if not same or of(host.result) != of(program.result):
            yield Finding(
                "HLO-V015", "the host program shape differs from the entry's program shape"
            )

    # -- instructions -------------------------------------------------------------------------

    def _instruction(
        self, inst: Message, name: str, numbers: dict[int, int], called: list[int]
    ) -> list[Problem]:
        opcode = OPCODES.get(name)
        if opcode is None:
            return [("HLO-V011", missing_opcode(name))]
        operands = [numbers[number & LOCAL_MASK] for number in inst.operand_ids[:]]
        count = len(operands)
        if opcode.arity is not None and count != opcode.arity:
            expected = counted(opcode.arity, "operand")
            return [("HLO-V012", f"{name} takes {expected}, not {count}")]
        fewest, maximum = _CALLED.get(name, (0, 0))
        if len(called) < fewest or (maximum is not None and len(called) > maximum):
            return [("HLO-V023", f"{name} calls {counted(len(called), 'computation')}")]
        problems: list[Problem] = []
        metadata = inst.metadata
        frame = metadata.stack_frame_id
        if frame > self.frames:
            problems.append(("HLO-V026", f"frame {frame} of {self.frames}"))
        if inst.HasField("backend_config_payload"):
            problems += self._payload(inst.backend_config_payload)
        if metadata.HasField("metadata_payload"):
            problems += self._payload(metadata.metadata_payload)
        for field, words in _ATTRIBUTE_WORDS.get(name, ()):
            if getattr(inst, field) not in words:
                problems.append(("HLO-V019", f"{name} has the {field} '{getattr(inst, field)}'"))
        if name == "constant":
            return [*problems, *_constant(inst)]
        if inst.output_operand_aliasing:
            problems += self._aliases(inst, numbers)
        problem = self._inferred(inst, name, numbers[inst.id & LOCAL_MASK], operands, called)
        if problem is not None:
            problems.append(problem)
        return problems

    def _inferred(
        self, inst: Message, name: str, stated: int, operands: list[int], called: list[int]
    ) -> Problem | None:
        """Return the problem of the stated type; equal instructions are checked once."""
        fields = _DEPENDS[name]
        if fields is None:
            return self._inferred_anew(inst, stated, operands, called)
        programs = tuple([self._program(number) for number in called]) if called else ()
        key = (name, stated, *operands, programs, *[_plain(getattr(inst, f)) for f in fields])
        if key not in self.known:
            self.known[key] = self._inferred_anew(inst, stated, operands, called)
        return self.known[key]

    def _inferred_anew(
        self, inst: Message, stated: int, operands: list[int], called: list[int]
    ) -> Problem | None:
        types = [self.kinds[number] for number in operands]
        programs = [self.programs[number] for number in called]
        problem = _problem(inst, types, programs, self.kinds[stated])
        if not self.mixed:
            mixed = mixture(inst.opcode, types, programs)
            return problem or (("HLO-V019", mixed) if mixed else None)
        if problem is None or inst.opcode in _EXACT:
            return problem
        relaxed = [relax_type(kind) for kind in types]
        row = relax_row(inst)
        return _problem(row, relaxed, [relax_program(inst) for inst in programs], of(row.shape))

    def _payload(self, payload: Message) -> Iterator[Problem]:
        count = len(self.proto.payloads)
        if payload.WhichOneof("payload_source") == "id" and not 0 <= payload.id < count:
            yield "HLO-V030", f"it takes the shared payload {payload.id} of {count}"

    def _aliases(self, inst: Message, numbers: dict[int, int]) -> Iterator[Problem]:
        for alias in inst.output_operand_aliasing:
            output = part_at(self.kinds[numbers[inst.id & LOCAL_MASK]], alias.output_shape_index)
            operand = None
            if 0 <= alias.operand_index < len(inst.operand_ids):
                number = inst.operand_ids[alias.operand_index] & LOCAL_MASK
                operand = part_at(self.kinds[numbers[number]], alias.operand_shape_index)
            if output is None or operand is None:
                yield "HLO-V027", "an alias names an output or operand that it lacks"
            elif output != operand and inst.opcode != "async-start":
                yield "HLO-V027", f"{output} would be written over {operand}"

    # -- shapes -------------------------------------------------------------------------------

    def _number(self, shape: Message) -> int:
        """The number of a shape; its type and what is wrong with it are computed once."""
        key = shape.SerializeToString()
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.kinds)
            self.kinds.append(of(shape))
            self.problems.append(tuple(_shape_problems(shape)))
        return number

    def _finding(self, code: str, message: str, row: Message, inst: Message) -> Finding:
        return Finding(code, message, computation=row.name, instruction=inst.name)


def _problem(
    inst: Message, types: list[Type], programs: list[Message], stated: Type
) -> Problem | None:
    """Return the problem of an instruction with a stated type, or None."""
    try:
        expected = infer(inst, types, programs)
        if expected is not None and not _compatible(expected, stated):
            return "HLO-V018", f"{inst.opcode} returns {expected}, the instruction states {stated}"
        check_operation(Call(inst, types, programs))
    except InferenceError as error:
        return error.code if error.code == "HLO-V018" else "HLO-V019", error.message
    return None


def _constant(inst: Message) -> Iterator[Problem]:
    if not inst.HasField("literal"):
        yield "HLO-V021", "it has no value"
        return
    if of(inst.literal.shape) != of(inst.shape):
        yield "HLO-V022", f"its value is {of(inst.literal.shape)}, it states {of(inst.shape)}"
        return
    outside = inst.frontend_attributes.map.get(EXTERNAL_CONSTANT)
    if outside and Literal(inst.literal).is_elided:
        yield (
            "HLO-V021",
            f"its elements are in {outside}; nki-hlo convert --inline FILE -o WHOLE takes them in",
        )
        return
    for _, leaf in Literal(inst.literal).leaves():
        problem = _literal_problem(leaf)
        if problem:
            yield ("HLO-V021", problem) if not leaf.is_elided else _ELIDED
            return


def _plain(value: Any) -> Any:
    """A field's value as something that can be a key."""
    if isinstance(value, int):
        return value
    return tuple(value) if hasattr(value, "extend") else value.SerializeToString()


def _shape_problems(shape: Message) -> Iterator[Problem]:
    if shape.element_type not in _KNOWN_TYPES:
        yield "HLO-V024", f"there is no element type {shape.element_type}"
    for size in shape.dimensions:
        if size < 0 and size != UNBOUNDED:
            yield "HLO-V029", f"its shape has an extent of {size}"
    for element_shape in shape.tuple_shapes:
        yield from _shape_problems(element_shape)
    if shape.HasField("layout") and not shape.tuple_shapes:
        order = list(shape.layout.minor_to_major)
        if sorted(order) != list(range(len(shape.dimensions))):
            yield (
                "HLO-V020",
                f"the layout {order} does not order {counted(len(shape.dimensions), 'dimension')}",
            )


def _literal_problem(leaf: Literal) -> str:
    if not leaf.shape.is_array:
        return ""
    if leaf.is_elided:
        return f"the {counted(leaf.shape.element_count, 'element')} of {leaf.shape} were left out"
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
