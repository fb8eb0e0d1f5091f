"""Checks asynchronous operations: starts and dones, wrapped computations, sends and receives."""

from __future__ import annotations

from collections.abc import Iterator

from hlo_tools._messages import counted
from hlo_tools.inference.types import of
from hlo_tools.types.ids import LOCAL_MASK
from hlo_tools.verify.findings import Finding
from hlo_tools.verify.index import MAIN, Body, Index
from hlo_tools.verify.structure import Message

__all__ = ["check_pairs"]

_ENDS = {
    "async-start": ("async-update", "async-done"),
    "async-update": ("async-update", "async-done"),
    "all-reduce-start": ("all-reduce-done",),
    "all-gather-start": ("all-gather-done",),
    "copy-start": ("copy-done",),
    "collective-permute-start": ("collective-permute-done",),
    "send": ("send-done", "tuple"),
    "recv": ("recv-done", "tuple"),
}
"""Opcodes that can use the result of a start; exactly one instruction uses it."""

_STARTS = {
    "async-update": ("async-start", "async-update"),
    "async-done": ("async-start", "async-update"),
    "all-reduce-done": ("all-reduce-start",),
    "all-gather-done": ("all-gather-start",),
    "copy-done": ("copy-start",),
    "collective-permute-done": ("collective-permute-start",),
    "send-done": ("send", "get-tuple-element"),
    "recv-done": ("recv", "get-tuple-element"),
}
"""Opcodes of the operand of an update or done."""

_TRANSFERS = frozenset({"send", "recv"})
_WRAPPED = frozenset({"async-start", "async-update", "async-done"})
_BESIDE_TRANSFERS = frozenset({"send", "recv", "bitcast", "parameter", "tuple"})
_BARRIER = frozenset({"parameter", "get-tuple-element"})
_GROUP = "_collectives_group"


def check_pairs(index: Index) -> Iterator[Finding]:
    """Findings about starts, updates and dones, and about what they run."""
    for inst, opcode, body in index.of(frozenset(_ENDS) | frozenset(_STARTS)):
        if opcode in _STARTS:
            yield from _start(inst, opcode, body)
        if opcode in _ENDS and not (opcode in _TRANSFERS and _is_wrapped(index, inst, body)):
            yield from _end(inst, opcode, body)
        if opcode in _WRAPPED:
            yield from _wrapped(index, inst, opcode, body)
        if opcode in _TRANSFERS:
            yield from _transfer(index, inst, opcode, body)
    yield from _host_channels(index)
    yield from _computations(index)


def _is_wrapped(index: Index, inst: Message, body: Body) -> bool:
    return body.row.root_id == inst.id and index.is_async(body)


def _start(inst: Message, opcode: str, body: Body) -> Iterator[Finding]:
    allowed = _STARTS[opcode]
    operands = body.operands(inst)
    if len(operands) == 1 and operands[0].opcode not in allowed:
        yield body.finding(
            "HLO-V031", f"{opcode} takes the result of {' or '.join(allowed)}, not of "
            f"{operands[0].opcode}", inst,
        )  # fmt: skip


def _end(inst: Message, opcode: str, body: Body) -> Iterator[Finding]:
    allowed = _ENDS[opcode]
    users = [user for user in body.users(inst) if user.custom_call_target != "control_dep"]
    if len(users) != 1:
        yield body.finding(
            "HLO-V031", f"{opcode} needs one {' or '.join(allowed)}, it has "
            f"{counted(len(users), 'user')}", inst,
        )  # fmt: skip
    elif users[0].opcode not in allowed:
        yield body.finding(
            "HLO-V031", f"{opcode} needs a {' or '.join(allowed)}, %{users[0].name} is a "
            f"{users[0].opcode}", inst,
        )  # fmt: skip


# Wrapped computations


def _wrapped(index: Index, inst: Message, opcode: str, body: Body) -> Iterator[Finding]:
    called = index.called(inst)
    if not called:
        return
    thread = inst.async_execution_thread or MAIN
    if thread != called[0].thread:
        yield body.finding(
            "HLO-V033", f"{opcode} is for the thread '{thread}', what it runs is in "
            f"'{called[0].thread}'", inst,
        )  # fmt: skip
    operands = body.operands(inst)
    if opcode == "async-start" or not operands or operands[0].opcode not in _WRAPPED:
        return
    started = index.called(operands[0])
    if started and started[0] is not called[0] and _content(started[0]) != _content(called[0]):
        yield body.finding(
            "HLO-V031", f"{opcode} names %{called[0].row.name}, its start runs "
            f"%{started[0].row.name}", inst,
        )  # fmt: skip


def _content(body: Body) -> list[tuple[str, bytes, tuple[int, ...]]]:
    """Return a computation's content without the names of its instructions."""
    positions = {number: position for position, number in enumerate(body.by_id)}
    return [
        (opcode, inst.shape.SerializeToString(), tuple(positions[n & LOCAL_MASK] for n in inst.operand_ids))
        for inst, opcode in zip(body.instructions, body.opcodes, strict=True)
    ]  # fmt: skip


def _computations(index: Index) -> Iterator[Finding]:
    """An asynchronous computation holds one operation, transfers, or a marked group."""
    for number, callers in index.callers.items():
        body = index.bodies[number]
        starts = [inst for inst, _ in callers if inst.opcode == "async-start"]
        if not starts or _BESIDE_TRANSFERS.issuperset(body.opcodes):
            continue
        if len(starts) == 1 and _GROUP in starts[0].frontend_attributes.map:
            continue
        beside = {op for inst, op in zip(body.instructions, body.opcodes, strict=True)
                  if inst.id != body.row.root_id}  # fmt: skip
        if not beside <= {"parameter"} and not beside <= _BARRIER:
            yield Finding(
                "HLO-V032", "it runs asynchronously and holds more than parameters and one "
                "operation", computation=body.row.name,
            )  # fmt: skip


# Transfers


def _transfer(index: Index, inst: Message, opcode: str, body: Body) -> Iterator[Finding]:
    """A send or receive and its done agree in channel and in whether the host takes part."""
    if not inst.channel_id or _is_wrapped(index, inst, body):
        return
    for done in body.users(inst):
        if done.opcode != f"{opcode}-done":
            continue
        if done.channel_id != inst.channel_id:
            yield body.finding(
                "HLO-V035", f"{opcode} has the channel {inst.channel_id}, %{done.name} has "
                f"{done.channel_id}", inst,
            )  # fmt: skip
        if done.is_host_transfer != inst.is_host_transfer:
            yield body.finding(
                "HLO-V035", f"of {opcode} and %{done.name} only one is a host transfer", inst
            )


def _host_channels(index: Index) -> Iterator[Finding]:
    """Host transfers of one channel are alike but for the values of their operands."""
    first: dict[int, tuple[tuple[object, ...], str]] = {}
    for inst, opcode, body in index.of(_TRANSFERS):
        if not (inst.channel_id and inst.is_host_transfer):
            continue
        operands = tuple(of(operand.shape) for operand in body.operands(inst))
        key = (opcode, of(inst.shape), operands)
        first_key, name = first.setdefault(inst.channel_id, (key, inst.name))
        if first_key != key:
            yield body.finding(
                "HLO-V035", f"it shares the host channel {inst.channel_id} with %{name}, which "
                "transfers something else", inst,
            )  # fmt: skip
