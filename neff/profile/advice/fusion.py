"""Two instructions where one computes the same: an activation and its sum, two scalar operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod

from neff.compiler.assembly.regions import Region, operands_touched, region_of
from neff.profile.advice.rule import Fix, Rule, Subject
from neff.profile.advice.versions import runs_of
from nki_lang.ir import Access, Block, Engine, ForLoop, Instruction, WhileLoop

__all__ = ["ACTIVATION_SUM", "SCALAR_STEPS"]

_Touch = tuple[int, Region, bool]
"""The number of an instruction in its run, the region of one operand, and True if it is written."""

_Merge = Callable[["_Run", int, int], Instruction | None]
"""Return an instruction for two, by their numbers; None if it does not compute the same."""

_REDUCTIONS = {"trn1": ("add",), "trn2": ("add", "maximum", "minimum")}
"""Operators that the scalar engine reduces with (isa 0.6, activation_reduce); later ones as trn2."""


class _Run:
    """A straight run of instructions, and who touches each tensor on chip.

    Args:
        instructions: of the run.
        outside: tensors that instructions before or behind it touch.
        target: family.
    """

    def __init__(self, instructions: list[Instruction], outside: set[str], target: str) -> None:
        self.instructions = instructions
        self.outside = outside
        self.target = target
        self._touches: dict[str, list[_Touch]] = {}
        for number, instruction in enumerate(instructions):
            for access, is_written in _tiles(instruction):
                touch = (number, region_of(access, (0, 0)), is_written)
                self._touches.setdefault(access.tensor.name, []).append(touch)

    def touches(self, access: Access, first: int, last: int) -> Iterator[_Touch]:
        """Yield who touches a tile after one instruction and before another one."""
        region = region_of(access, (0, 0))
        for touch in self._touches.get(access.tensor.name, ()):
            if first < touch[0] < last and not touch[1].apart(region):
                yield touch

    def is_unchanged(self, access: Access, first: int, last: int) -> bool:
        """Return True if nothing between two instructions writes a tile."""
        return not any(touch[2] for touch in self.touches(access, first, last))

    def is_read_once(self, access: Access, writer: int, reader: int) -> bool:
        """Return True if only one instruction reads a tile that another one writes."""
        if access.tensor.name in self.outside:
            return False
        if any(True for _ in self.touches(access, writer, reader)):
            return False
        if any(not touch[2] for touch in self.touches(access, -1, writer)):
            return False  # an iteration of a loop may read what the one before wrote
        region = region_of(access, (0, 0))
        for _, touched, is_written in self.touches(access, reader, len(self.instructions)):
            if not is_written:
                return False
            if touched == region:
                break
        return True


def _tiles(instruction: Instruction) -> Iterator[tuple[Access, bool]]:
    for operand, is_written in operands_touched(instruction):
        if type(operand) is Access and operand.tensor.on_chip:
            yield operand, is_written


def _same_tile(left: object, right: object) -> bool:
    """Return True if two operands are the same elements of a tensor on chip."""
    return (
        type(left) is Access
        and type(right) is Access
        and left.tensor.on_chip
        and not (left.is_dynamic or right.is_dynamic)
        and left.tensor.name == right.tensor.name
        and (left.offset, left.pattern, left.element_type)
        == (right.offset, right.pattern, right.element_type)
    )


def _fixes(merge: _Merge, reader_op: str, message: str) -> Callable[[Subject], Iterator[Fix]]:
    def fixes(subject: Subject) -> Iterator[Fix]:
        culprits: list[Instruction] = []
        target = subject.program.target
        bodies = subject.changed(lambda body: _merged(body, body, merge, reader_op, target, []))
        _merged(subject.body, subject.body, merge, reader_op, target, culprits)
        if culprits:
            yield Fix(message.format(count=len(culprits)), tuple(culprits), bodies)

    return fixes


def _merged(
    body: Block,
    core_body: Block,
    merge: _Merge,
    reader_op: str,
    target: str,
    culprits: list[Instruction],
) -> Block:
    """Return the statements with one instruction instead of two; appends the second ones."""
    statements: Block = []
    for run in runs_of(body):
        if isinstance(run, ForLoop | WhileLoop):
            inner = _merged(run.body, core_body, merge, reader_op, target, culprits)
            statements.append(replace(run, body=inner))
            continue
        statements += _merged_run(
            _Run(run, _outside(core_body, {id(inst) for inst in run}), target),
            merge,
            reader_op,
            culprits,
        )
    return statements


def _outside(body: Block, inside: set[int]) -> set[str]:
    names: set[str] = set()
    for statement in body:
        if isinstance(statement, ForLoop | WhileLoop):
            names |= _outside(statement.body, inside)
        elif isinstance(statement, Instruction) and id(statement) not in inside:
            names.update(access.tensor.name for access, _ in _tiles(statement))
    return names


def _merged_run(
    run: _Run, merge: _Merge, reader_op: str, culprits: list[Instruction]
) -> list[Instruction]:
    writers: dict[str, int] = {}
    renewed = dict[int, Instruction | None]()
    for number, instruction in enumerate(run.instructions):
        data = instruction.operands.get("data")
        if instruction.op == reader_op and type(data) is Access and not instruction.name:
            writer = writers.get(data.tensor.name)
            if writer is not None and writer not in renewed:
                single = merge(run, writer, number)
                if single is not None:
                    at_writer = single.op == "activation_reduce"
                    renewed[writer] = single if at_writer else None
                    renewed[number] = None if at_writer else single
                    culprits.append(instruction)
        for access, is_written in _tiles(instruction):
            if is_written:
                writers[access.tensor.name] = number
    lines = (
        renewed.get(number, instruction) for number, instruction in enumerate(run.instructions)
    )
    return [instruction for instruction in lines if instruction is not None]


def _activation_and_sum(run: _Run, writer: int, reader: int) -> Instruction | None:
    """Return an activation that also reduces its result over the free axes."""
    activation, reduction = run.instructions[writer], run.instructions[reader]
    operands, result = activation.operands, reduction.operands.get("dst")
    if activation.op != "activation" or activation.name or activation.engine is not Engine.scalar:
        return None
    if (
        operands.get("reduce_op")
        or operands.get("reduce_res")
        or operands.get("reduce_cmd") != "idle"
    ):
        return None
    operators = _REDUCTIONS.get(run.target, _REDUCTIONS["trn2"])
    if reduction.operands.get("op") not in operators or reduction.operands.get("negate"):
        return None
    if not _same_tile(operands.get("dst"), reduction.operands.get("data")):
        return None
    if type(result) is not Access or prod(n for _, n in result.pattern[1:]) != 1:
        return None
    if any(True for _ in run.touches(result, writer - 1, reader)):
        return None
    names = ("dst", "op", "data", "bias", "scale")
    reduced = {"reduce_op": reduction.operands["op"], "reduce_res": result}
    merged = {name: operands[name] for name in names if name in operands} | reduced
    return replace(activation, op="activation_reduce", operands=merged)


def _two_scalar_steps(run: _Run, writer: int, reader: int) -> Instruction | None:
    """Return one tensor_scalar with the operations of two."""
    before, after = run.instructions[writer], run.instructions[reader]
    if before.op != "tensor_scalar" or before.name or before.operands.get("op1"):
        return None
    if after.operands.get("op1") or after.operands.get("reverse0"):
        return None
    intermediate, data = before.operands.get("dst"), before.operands.get("data")
    if not _same_tile(intermediate, after.operands.get("data")) or type(data) is not Access:
        return None
    assert type(intermediate) is Access
    in_place = _same_tile(intermediate, after.operands.get("dst"))
    if in_place:
        if any(True for _ in run.touches(intermediate, writer, reader)):
            return None
    elif not run.is_read_once(intermediate, writer, reader):
        return None
    read = [data, before.operands.get("operand0")]
    tiles = [operand for operand in read if type(operand) is Access and operand.tensor.on_chip]
    if not all(run.is_unchanged(tile, writer, reader) for tile in tiles):
        return None
    second = {"op1": after.operands["op0"], "operand1": after.operands["operand0"]}
    operands = {**before.operands, "dst": after.operands["dst"], **second}
    return replace(after, operands=operands)


ACTIVATION_SUM = Rule(
    "PERF-ACTIVATION-SUM",
    "An activation's result is reduced by an instruction of its own",
    "The scalar engine can reduce the result of an activation over the free axes while it computes it "
    "(nisa.activation_reduce).",
    "use nisa.activation_reduce with reduce_op and reduce_res instead of the two instructions",
    _fixes(
        _activation_and_sum,
        "tensor_reduce",
        "{count} instruction(s) reduce a tile that an activation has just written",
    ),
)

SCALAR_STEPS = Rule(
    "PERF-SCALAR-STEPS",
    "Two instructions apply operations that one can apply",
    "nisa.tensor_scalar applies two operators in one pass over the elements (op0 and op1).",
    "give the second operator and its operand as op1 and operand1 of the first instruction",
    _fixes(
        _two_scalar_steps,
        "tensor_scalar",
        "{count} instruction(s) only apply a second operator to what tensor_scalar has just written",
    ),
)
