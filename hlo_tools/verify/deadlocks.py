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
    for inst in _in_order(index, body):
        for called in index.called(inst):
            if index.is_async(called) and not _is_single(called):
                inside = _Waiting()
                yield from _walk(index, called, inside)
                if waiting.kind:
                    yield from _left(inside, called)
            else:
                yield from _walk(index, called, waiting)
        if inst.called_computation_ids:
            continue
        opcode = inst.opcode
        if opcode in _OPPOSITE:
            yield from _transfer(inst, opcode, waiting, body)
        elif opcode in _OTHERS and waiting.kind:
            yield body.finding(
                "HLO-V039", f"{opcode} starts while a {waiting.kind} waits for its "
                f"{_OPPOSITE[waiting.kind]}", inst,
            )  # fmt: skip


def _in_order(index: Index, body: Body) -> list[Message]:
    sequence = index.proto.schedule.sequences.get(body.row.id)
    if sequence is None:
        return body.instructions
    return [body.by_id[number & LOCAL_MASK] for number in sequence.instruction_ids]


def _is_single(body: Body) -> bool:
    return all(
        opcode == "parameter" or inst.id == body.row.root_id
        for inst, opcode in zip(body.instructions, body.opcodes, strict=True)
    )


def _transfer(inst: Message, opcode: str, waiting: _Waiting, body: Body) -> Iterator[Finding]:
    words = inst.frontend_attributes.map
    if inst.is_host_transfer or _PIPELINE in words:
        return
    yield from _conflicts(inst, _pairs(inst), body)
    opposite = _OPPOSITE[opcode]
    if not waiting.kind:
        waiting.kind = opcode
        waiting.pending[opcode].append(inst)
    elif waiting.kind == opcode:
        for earlier in waiting.pending[opcode]:
            if _problem(_pairs(inst) + _pairs(earlier)):
                yield body.finding(
                    "HLO-V039",
                    f"a {opposite} for %{earlier.name} must come before this {opcode}",
                    inst,
                )
        waiting.pending[opcode].append(inst)
    else:
        partner = _partner(inst, waiting.pending[opposite])
        if partner is None:
            waiting.pending[opcode].append(inst)
        else:
            waiting.pending[opposite].remove(partner)
            waiting.kind = opposite if waiting.pending[opposite] else ""


def _partner(inst: Message, candidates: list[Message]) -> Message | None:
    pairs_text = inst.frontend_attributes.map.get(_PAIRS)
    if pairs_text is None:
        return None
    return next(
        (
            candidate
            for candidate in candidates
            if candidate.frontend_attributes.map.get(_PAIRS) == pairs_text
        ),
        None,
    )


def _pairs(inst: Message) -> Pairs:
    text = inst.frontend_attributes.map.get(_PAIRS, "")
    return tuple((int(source), int(target)) for source, target in _PAIR.findall(text))


def _conflicts(inst: Message, pairs: Pairs, body: Body) -> Iterator[Finding]:
    problem = _problem(pairs)
    if problem:
        yield body.finding("HLO-V039", f"its pairs of devices {problem}", inst)


def _problem(pairs: Pairs) -> str:
    """Return the reason that prevents serving the pairs of devices in sequence, or ""."""
    following = dict(pairs)
    done: set[int] = set()
    for start in following:
        path: set[int] = set()
        device: int | None = start
        while device is not None and device not in done:
            if device in path:
                return "form a cycle"
            path.add(device)
            device = following.get(device)
        done |= path
    if len({endpoint for endpoint, _ in pairs}) < len(pairs) or len(
        {endpoint for _, endpoint in pairs}
    ) < len(pairs):
        return "name a source or a target twice"
    return ""


def _left(waiting: _Waiting, body: Body) -> Iterator[Finding]:
    """Yield findings for transfers that still wait at the end without a partner."""
    if not waiting.kind:
        return
    for kind, rows in waiting.pending.items():
        unmatched = list(waiting.pending[_OPPOSITE[kind]])
        for inst in rows:
            partner = _partner(inst, unmatched)
            if partner is None:
                yield Finding(
                    "HLO-V039", f"no {_OPPOSITE[kind]} follows this {kind}",
                    computation=body.row.name, instruction=inst.name,
                )  # fmt: skip
