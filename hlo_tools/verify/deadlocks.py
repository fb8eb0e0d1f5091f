"""Sends and receives of a scheduled module that wait for each other for ever."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from hlo_tools.types.ids import LOCAL_MASK
from hlo_tools.types.opcodes import opcodes_of_kind
from hlo_tools.verify.findings import Finding
from hlo_tools.verify.index import Body, Index
from hlo_tools.verify.structure import Message

__all__ = ["check_deadlocks"]

_PAIRS, _PIPELINE = "_xla_send_recv_source_target_pairs", "_xla_send_recv_pipeline"
_PAIR = re.compile(r"\{\s*(-?\d+)\s*,\s*(-?\d+)\s*\}")
_OTHERS = frozenset(
    name for name in opcodes_of_kind("collective") if not name.endswith(("-start", "-done"))
)
_OPPOSITE = {"send": "recv", "recv": "send"}
Pairs = tuple[tuple[int, int], ...]


@dataclass(slots=True)
class _Waiting:
    """Transfers that have no partner yet.

    Attributes:
        kind: ``send`` or ``recv``, whichever came first; "" when nothing waits.
        pending: the transfers by kind.
    """

    kind: str = ""
    pending: dict[str, list[Message]] = field(
        default_factory=lambda: {"send": list[Message](), "recv": list[Message]()}
    )


def check_deadlocks(index: Index) -> Iterator[Finding]:
    """Findings about device-to-device transfers, in the order of the schedule."""
    if not index.proto.schedule.sequences:
        return
    waiting = _Waiting()
    entry = index.bodies[index.proto.entry_computation_id]
    finding = next(_walk(index, entry, waiting), None) or next(_left(waiting, entry), None)
    if finding is not None:
        yield finding


def _walk(index: Index, body: Body, waiting: _Waiting) -> Iterator[Finding]:
    for one in _in_order(index, body):
        for called in index.called(one):
            if index.is_async(called) and not _is_single(called):
                inside = _Waiting()
                yield from _walk(index, called, inside)
                if waiting.kind:
                    yield from _left(inside, called)
            else:
                yield from _walk(index, called, waiting)
        if one.called_computation_ids:
            continue
        opcode = one.opcode
        if opcode in _OPPOSITE:
            yield from _transfer(one, opcode, waiting, body)
        elif opcode in _OTHERS and waiting.kind:
            yield body.finding(
                "HLO-V039", f"{opcode} starts while a {waiting.kind} waits for its "
                f"{_OPPOSITE[waiting.kind]}", one,
            )  # fmt: skip


def _in_order(index: Index, body: Body) -> list[Message]:
    sequence = index.proto.schedule.sequences.get(body.row.id)
    if sequence is None:
        return body.instructions
    return [body.by_id[number & LOCAL_MASK] for number in sequence.instruction_ids]


def _is_single(body: Body) -> bool:
    return all(
        opcode == "parameter" or one.id == body.row.root_id
        for one, opcode in zip(body.instructions, body.opcodes, strict=True)
    )


def _transfer(one: Message, opcode: str, waiting: _Waiting, body: Body) -> Iterator[Finding]:
    words = one.frontend_attributes.map
    if one.is_host_transfer or _PIPELINE in words:
        return
    yield from _conflicts(one, _pairs(one), body)
    other = _OPPOSITE[opcode]
    if not waiting.kind:
        waiting.kind = opcode
        waiting.pending[opcode].append(one)
    elif waiting.kind == opcode:
        for earlier in waiting.pending[opcode]:
            if _problem(_pairs(one) + _pairs(earlier)):
                yield body.finding(
                    "HLO-V039", f"a {other} for %{earlier.name} must come before this {opcode}", one
                )
        waiting.pending[opcode].append(one)
    else:
        partner = _partner(one, waiting.pending[other])
        if partner is None:
            waiting.pending[opcode].append(one)
        else:
            waiting.pending[other].remove(partner)
            waiting.kind = other if waiting.pending[other] else ""


def _partner(one: Message, candidates: list[Message]) -> Message | None:
    wanted = one.frontend_attributes.map.get(_PAIRS)
    if wanted is None:
        return None
    return next(
        (other for other in candidates if other.frontend_attributes.map.get(_PAIRS) == wanted), None
    )


def _pairs(one: Message) -> Pairs:
    text = one.frontend_attributes.map.get(_PAIRS, "")
    return tuple((int(source), int(target)) for source, target in _PAIR.findall(text))


def _conflicts(one: Message, pairs: Pairs, body: Body) -> Iterator[Finding]:
    problem = _problem(pairs)
    if problem:
        yield body.finding("HLO-V039", f"its pairs of devices {problem}", one)


def _problem(pairs: Pairs) -> str:
    """What keeps some pairs of devices from being served one after another."""
    following = dict(pairs)
    done: set[int] = set()
    for start in following:
        path: set[int] = set()
        at: int | None = start
        while at is not None and at not in done:
            if at in path:
                return "form a cycle"
            path.add(at)
            at = following.get(at)
        done |= path
    if len({one for one, _ in pairs}) < len(pairs) or len({one for _, one in pairs}) < len(pairs):
        return "name a source or a target twice"
    return ""


def _left(waiting: _Waiting, body: Body) -> Iterator[Finding]:
    """What still waits at the end and finds no partner."""
    if not waiting.kind:
        return
    for kind, rows in waiting.pending.items():
        others = list(waiting.pending[_OPPOSITE[kind]])
        for one in rows:
            partner = _partner(one, others)
            if partner is None:
                yield Finding(
                    "HLO-V039", f"no {_OPPOSITE[kind]} follows this {kind}",
                    computation=body.row.name, instruction=one.name,
                )  # fmt: skip
