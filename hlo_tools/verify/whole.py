"""Checks of what concerns the module as a whole: schedule, aliases, shared computations."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from hlo_tools._messages import counted
from hlo_tools.inference import of
from hlo_tools.inference.types import TupleType, Type, part_at
from hlo_tools.types.element_types import BY_NUMBER
from hlo_tools.types.ids import LOCAL_MASK
from hlo_tools.verify.findings import Finding
from hlo_tools.verify.structure import Calls

__all__ = ["check_whole"]

Message = Any


def check_whole(proto: Message, calls: Calls) -> Iterator[Finding]:
    """Findings about schedule, input-output aliases, donors and shared computations."""
    yield from _schedule(proto, calls)
    yield from _aliases(proto)
    yield from _single_use(proto, calls)


def _schedule(proto: Message, calls: Calls) -> Iterator[Finding]:
    if not proto.schedule.sequences:
        return
    rows = {row.id: row for row in proto.computations}
    for number in sorted(_run_by_order(proto, calls) - set(proto.schedule.sequences)):
        yield Finding(
            "HLO-V016", "the module is scheduled, this computation is not",
            computation=rows[number].name,
        )  # fmt: skip
    for number, sequence in proto.schedule.sequences.items():
        row = rows.get(number)
        if row is None:
            yield Finding(
                "HLO-V016", f"the schedule orders a computation {number} that does not exist"
            )
            continue
        yield from _sequence(row, [inst_id & LOCAL_MASK for inst_id in sequence.instruction_ids])


def _run_by_order(proto: Message, calls: Calls) -> set[int]:
    """The computations that the entry leads to, without bodies of fusions."""
    fused = {
        number
        for rows in calls.values()
        for inst in rows
        if inst.opcode == "fusion"
        for number in inst.called_computation_ids
    }
    reached, stack = {proto.entry_computation_id}, [proto.entry_computation_id]
    while stack:
        for inst in calls.get(stack.pop(), ()):
            new = set(inst.called_computation_ids) - reached
            reached |= new
            stack += new
    return reached - fused


def _sequence(row: Message, order: list[int]) -> Iterator[Finding]:
    local = {inst.id & LOCAL_MASK: inst for inst in row.instructions}
    if sorted(order) != sorted(local):
        yield Finding("HLO-V016", f"the schedule lists {counted(len(order), 'instruction')}, the computation has "
                      f"{len(local)}, or not each once", computation=row.name)  # fmt: skip
        return
    position = {number: index for index, number in enumerate(order)}
    for number, inst in local.items():
        for needed_id in (*inst.operand_ids, *inst.control_predecessor_ids):
            if position[needed_id & LOCAL_MASK] > position[number]:
                yield Finding("HLO-V016", f"it is scheduled before %{local[needed_id & LOCAL_MASK].name}, which it needs",
                              computation=row.name, instruction=inst.name)  # fmt: skip
                return


def _aliases(proto: Message) -> Iterator[Finding]:
    shape = proto.host_program_shape
    parameters = [of(parameter) for parameter in shape.parameters]
    result = of(shape.result)
    written: set[tuple[int, ...]] = set()
    for entry in proto.input_output_alias.entries:
        index = tuple(entry.output_shape_index)
        if index in written:
            yield Finding(
                "HLO-V017", f"the output {{{', '.join(map(str, index))}}} has two aliases"
            )
        written.add(index)
        output = part_at(result, entry.output_shape_index)
        source = _parameter(parameters, entry.parameter_number, entry.parameter_shape_index)
        if output is None or source is None:
            yield Finding(
                "HLO-V017", "an alias names a parameter or an output that the module lacks"
            )
        elif output != source and _bytes(output) != _bytes(source):
            yield Finding("HLO-V017", f"the output {output} is aliased with the input {source}")
    for entry in proto.buffer_donor.entries:
        if _parameter(parameters, entry.parameter_number, entry.parameter_shape_index) is None:
            yield Finding("HLO-V017", "a buffer donor names a parameter that the module lacks")


def _bytes(kind: Type) -> int:
    """Size of a buffer; of a tuple, that of its table."""
    if isinstance(kind, TupleType):
        return -len(kind.parts)
    element_type = BY_NUMBER.get(kind.element)
    return prod(kind.dimensions) * (element_type.bits if element_type else 0)


def _parameter(parameters: list[Type], number: int, index: Any) -> Type | None:
    return part_at(parameters[number], index) if 0 <= number < len(parameters) else None


def _single_use(proto: Message, calls: Calls) -> Iterator[Finding]:
    """A fused computation, or the body of an asynchronous start, has one caller."""
    callers: dict[int, list[Message]] = {}
    for rows in calls.values():
        for caller in rows:
            for number in caller.called_computation_ids:
                callers.setdefault(number, []).append(caller)
    names = {row.id: row.name for row in proto.computations}
    for number, rows in callers.items():
        owners = [caller for caller in rows if caller.opcode in ("fusion", "async-start")]
        if owners and len(rows) > 1 and any(caller.opcode == "fusion" for caller in owners):
            listed = ", ".join(f"%{caller.name}" for caller in rows[:4])
            yield Finding(
                "HLO-V028", f"it is called by {listed}", computation=names.get(number, "")
            )
