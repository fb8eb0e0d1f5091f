"""Figures that a capture and a simulation have in common.

Instructions are paired by their order on their engine. A pair gives a *duration*; two neighbors of which
the second waited for nothing give an *interval*; an instruction that waited and the one that it waited
for give a *response* from the end of a computation, or a *transfer* from its issue. Figures that are equal
in the simulation are one group with the median of what was measured.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from neff.calibration.captures import SETUP_OPCODES, Capture, Record
from neff.errors import NeffError
from neff.program import Program
from neff.timing import Event, Parameters, estimate, replay
from neff.timing.events import DESCRIPTORS, QUEUE

__all__ = ["Group", "Subject", "Times", "groups_of", "subject_of"]

Key = tuple[str, int]
"""A lane, and the place of an event on it."""

Times = Mapping[Key, Event]
"""The events of a simulation; engines execute in order, so keys name the same events in each."""

MAX_WAIT_NS = 60.0
"""An instruction that waited longer does not follow its predecessor as fast as its engine can."""


class Span(NamedTuple):
    """A figure: from the start (or end) of one event to the start (or end) of another one."""

    kind: str
    first: Key
    last: Key


@dataclass(frozen=True, slots=True)
class Group:
    """Equal figures.

    Attributes:
        kind: ``duration``, ``interval``, ``response`` or ``transfer``.
        lane, opcode: of the instruction.
        spans: its figures.
        measured: median of what was measured, in nanoseconds.
        spread: half of the range that holds the middle half of the measured figures.
    """

    kind: str
    lane: str
    opcode: str
    spans: tuple[Span, ...]
    measured: float
    spread: float

    def simulated(self, times: Times) -> float:
        """Return the median of the figures in a simulation."""
        return median(_length(span, times) for span in self.spans)


@dataclass(frozen=True, slots=True)
class Subject:
    """The captured program, and how it is simulated.

    Attributes:
        simulate: the events of one core with parameters.
        records: by event; events without a record were not found in the capture.
        skipped: engines that could not be paired, and why.
    """

    simulate: Callable[[Parameters], Times]
    records: Mapping[Key, Record]
    skipped: Mapping[str, str]


def subject_of(
    capture: Capture, program: Program | None, parameters: Parameters, *, dma: str, core: int
) -> Subject:
    """Pair the instructions of a capture with those of a program, or of its own stream.

    Raises:
        NeffError: ``NEFF-CAPTURE``; the capture needs a program and there is none, the program has
            loops of the device, or no engine can be paired.
    """
    if capture.by_index is not None:
        stream = capture.stream

        def simulate_stream(chosen: Parameters) -> Times:
            return _times(replay(stream, parameters=chosen))

        times = simulate_stream(parameters)
        records = {
            key: capture.by_index[event.source] for key, event in times.items() if _is_engine(key)
        }
        return Subject(simulate_stream, records, {})
    if program is None:
        raise _unpaired(capture, "does not say what ran", "add --neff FILE with the program")
    if core >= len(program.subgraphs):
        raise _unpaired(capture, f"is of core {core}, which the program lacks", "change --core")
    subject = program

    def simulate_program(chosen: Parameters) -> Times:
        return _times(estimate(subject, parameters=chosen, dma=dma).cores[core].events)

    times = simulate_program(parameters)
    if any(event.turns > 1 for event in times.values()):
        raise _unpaired(
            capture, "is of a program with a loop of the device, which the model folds",
            "capture a kernel whose loops are unrolled",
        )  # fmt: skip
    records, skipped = _paired(capture, times)
    if not records:
        reasons = "; ".join(f"{engine}: {reason}" for engine, reason in skipped.items())
        raise _unpaired(
            capture, f"is of another program ({reasons})", "give the NEFF of the same kernel"
        )
    return Subject(simulate_program, records, skipped)


def _unpaired(capture: Capture, message: str, remedy: str) -> NeffError:
    return NeffError(
        f"the capture {message}", code="NEFF-CAPTURE", place=capture.file, remedy=remedy
    )


def _times(events: Sequence[Event]) -> dict[Key, Event]:
    """Return the events by lane and place; ``waits_for`` and ``after`` stay indices of the list."""
    counts: dict[str, int] = {}
    keys: list[Key] = []
    for event in events:
        position = counts[event.lane] = counts.get(event.lane, -1) + 1
        keys.append((event.lane, position))
    return dict(zip(keys, events, strict=True))


def _is_engine(key: Key) -> bool:
    return key[0] != DESCRIPTORS and not key[0].startswith(QUEUE)


_CLASSES = (
    ("load_weights", r"LDWEIGHTS|LOAD_WEIGHTS"),
    ("matmul", r"MATMUL|NC_MATMUL.*|NC_TRANSPOSE"),
    ("table", r"ACT_TABLE_LOAD"),
    ("activate", r"ACTIVAT.*"),
    ("transfer", r"DMA.*"),
    ("copy", r"COPY|CAST|TENSOR_COPY"),
)


def _class_of(opcode: str) -> str:
    """Return a name that the opcodes of a program and those of a capture share."""
    name = opcode.upper()
    return next(
        (family for family, form in _CLASSES if re.fullmatch(form, name)),
        re.sub(r"_PTR$|^NC_", "", name),
    )


def _paired(capture: Capture, times: Times) -> tuple[dict[Key, Record], dict[str, str]]:
    """Pair by order the engines that executed the same kinds of instructions."""
    keys: dict[str, list[Key]] = {}
    for key, event in times.items():
        if _is_engine(key) and event.opcode.upper() not in SETUP_OPCODES:
            keys.setdefault(key[0], []).append(key)
    records: dict[Key, Record] = {}
    skipped: dict[str, str] = {}
    for engine in sorted({*keys, *capture.records}):
        program_keys, measured = keys.get(engine, []), capture.records.get(engine, ())
        if len(program_keys) != len(measured):
            skipped[engine] = (
                f"{len(program_keys)} instructions in the program, {len(measured)} in the capture"
            )
            continue
        for number, (key, record) in enumerate(zip(program_keys, measured, strict=True)):
            if _class_of(times[key].opcode) != _class_of(record.opcode):
                skipped[engine] = (
                    f"instruction {number} is {times[key].opcode} in the program and "
                    f"{record.opcode} in the capture"
                )
                break
        else:
            records |= zip(program_keys, measured, strict=True)
    return records, skipped


def groups_of(subject: Subject, times: Times) -> list[Group]:
    """Return the groups of equal figures of a simulation and its capture."""
    gathered: dict[tuple[str, str, str, int], list[tuple[Span, float]]] = {}
    for span, measured in _spans(subject, times):
        event = times[span.last]
        length = _length(span, times)
        group_key = (span.kind, event.lane, event.opcode, round(length))
        gathered.setdefault(group_key, []).append((span, measured))
    return [
        Group(
            kind, lane, opcode, tuple(span for span, _ in members),
            *_middle([measured for _, measured in members]),
        )
        for (kind, lane, opcode, _), members in sorted(gathered.items())
    ]  # fmt: skip


def _middle(numbers: list[float]) -> tuple[float, float]:
    """Return the median, and half of the distance between the quartiles."""
    ordered = sorted(numbers)
    quarter = len(ordered) // 4
    return median(ordered), (ordered[-1 - quarter] - ordered[quarter]) / 2


def _spans(subject: Subject, times: Times) -> list[tuple[Span, float]]:
    """Return the figures with what was measured."""
    records, spans = subject.records, list[tuple[Span, float]]()
    keys = list(times)
    issues = {
        id(event.source) if not isinstance(event.source, int) else event.source: key
        for key, event in times.items()
        if _is_engine(key)
    }
    for key, record in records.items():
        event = times[key]
        spans.append((Span("duration", key, key), record.duration))
        before = (key[0], key[1] - 1)
        has_waited = record.waited is not None and record.waited > MAX_WAIT_NS
        if event.waits_for < 0 and before in records and not has_waited:
            spans.append((Span("interval", before, key), record.start - records[before].start))
        if event.waits_for < 0 or (record.waited is not None and not record.waited):
            continue
        cause = keys[event.waits_for]
        if not _is_engine(cause):
            source = times[cause].source
            cause = issues.get(source if isinstance(source, int) else id(source), cause)
            if cause in records:
                spans.append((Span("transfer", cause, key), record.start - records[cause].start))
        elif cause in records:
            end = records[cause].start + records[cause].duration
            spans.append((Span("response", cause, key), record.start - end))
    return [(span, measured) for span, measured in spans if measured >= 0]


def _length(span: Span, times: Times) -> float:
    first, last = times[span.first], times[span.last]
    if span.kind == "duration":
        return last.end - last.start
    return last.start - (first.end if span.kind == "response" else first.start)
