"""The events as a trace in Perfetto's protobuf format, for ui.perfetto.dev.

Field numbers are those of google/perfetto, ``protos/perfetto/trace``. Perfetto takes some faults
of a trace in silence, so the writer never makes them:

* slices of one track that overlap without nesting lose their ends: each lane has as many tracks
  as it has events at a time;
* a flow that ends before it starts is dropped: only later events end one;
* a name that was never interned is shown as nothing: all names are interned first;
* a slice's end at the time of the next one's begin must be in front of it: tracks are written one
  after the other, in order;
* an event on a track without a descriptor is taken for one of another kind: tracks are described
  before their events, and only tracks of counters have samples.

A violation raises ``NEFF-TRACE`` instead of writing a wrong trace.

Perfetto colors a slice by its name, so the name is the opcode; all other facts are arguments.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from hlo_tools._gc import no_collection
from neff.errors import NeffError
from neff.profile.analysis import Analysis, analysis_of
from neff.profile.arrays import EventArrays, Floats, Ints, whole
from neff.profile.counters import Counter
from neff.profile.sites import Site
from neff.profile.table import Profile

__all__ = ["write_trace"]

_SEQUENCE = 1
_STATE_CLEARED, _NEEDS_STATE = 1, 2
_EXPLICIT_ORDER = 3
_COMPRESSED_BYTES = 1 << 19

_FIRST_COUNTER_RANK = 1000
"""Rank of the first counter, below all lanes."""

_STRINGS = ("operands", "place", "called from", "op", "kernel", "scope")
"""Arguments of every slice, from its site."""

_NUMBERS = ("bytes", "flops", "turns", "waited_ns")
"""Further arguments, where they are not zero (turns: one)."""


def write_trace(profile: Profile | Analysis, file: BinaryIO) -> None:
    """Write a profile's events of all cores to a binary file; times are whole nanoseconds."""
    packets = _Packets(file)
    with no_collection():
        _Trace(analysis_of(profile), packets).write()
    packets.flush()


# --- the protobuf wire format ---------------------------------------------------------------


_TWO_BYTE_VARINTS = [bytes((number & 0x7F | 0x80, number >> 7)) for number in range(0x80, 0x4000)]
_CONTINUED_14_BITS = [
    bytes((low | 0x80, high | 0x80)) for high in range(0x80) for low in range(0x80)
]
"""The lowest 14 bits as two bytes when more follow: a table, as traces have millions of them."""

_SHORT_VARINTS = [bytes((number,)) for number in range(0x80)] + _TWO_BYTE_VARINTS


def _varint(number: int) -> bytes:
    if number < 0x4000:
        return _SHORT_VARINTS[number]
    if number < 0x10000000:
        return _CONTINUED_14_BITS[number & 0x3FFF] + _SHORT_VARINTS[number >> 14]
    return _CONTINUED_14_BITS[number & 0x3FFF] + _varint(number >> 14)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _text(field: int, text: str) -> bytes:
    return _bytes(field, text.encode())


class _Packets:
    """Collects packets (``Trace.packet``) and writes them compressed (``compressed_packets``)."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.pending = bytearray()

    def add(self, content: bytes) -> None:
        self.pending += b"\x0a" + _varint(len(content)) + content
        if len(self.pending) > _COMPRESSED_BYTES:
            self.flush()

    def flush(self) -> None:
        if self.pending:
            self._file.write(_bytes(1, _bytes(50, zlib.compress(self.pending, 4))))
            self.pending.clear()


_BEGIN, _END, _COUNTER = _number(9, 1), _number(9, 2), _number(9, 4)
_VALUE = _varint(30 << 3)
_FLOW, _END_OF_FLOW = _varint(47 << 3 | 1), _varint(48 << 3 | 1)


# --- the trace ------------------------------------------------------------------------------


class _Trace:
    def __init__(self, analysis: Analysis, packets: _Packets) -> None:
        self._profile = analysis.profile
        self._lanes, self._counters = analysis.lanes, analysis.counters
        self._packets = packets
        self._opcodes: dict[str, int] = {}
        self._values: dict[str, int] = {}
        self._arguments = {name: index for index, name in enumerate((*_STRINGS, *_NUMBERS), 1)}
        self._texts: dict[tuple[int, str], bytes] = {}
        self._known: dict[tuple[str, int], bytes] = {}
        self._uuid = 0
        self._flow = 0
        self._tail = _number(10, _SEQUENCE) + _number(13, _NEEDS_STATE)

    def write(self) -> None:
        profile = self._profile
        self._packets.add(self._interned())
        for number in range(len(profile.estimate.cores)):
            name = f"{profile.name}, core {number} (estimated, {profile.estimate.target})"
            self._core(number, self._track(name, 0, number))

    def _interned(self) -> bytes:
        """All names that slices will use; the numbers start with 1."""
        for columns in self._profile.arrays:
            for opcode in columns.opcodes:
                self._opcodes.setdefault(opcode, len(self._opcodes) + 1)
        for site in self._profile.sites:
            for text in _texts(site):
                self._values.setdefault(text, len(self._values) + 1)
        tables = (2, self._opcodes), (3, self._arguments), (29, self._values)
        data = b"".join(
            _bytes(field, _number(1, index) + _text(2, name))
            for field, names in tables
            for name, index in names.items()
        )
        return _number(10, _SEQUENCE) + _number(13, _STATE_CLEARED) + _bytes(12, data)

    def _track(self, name: str, parent: int, rank: int, unit: str = "") -> int:
        """A new track; one with a unit holds samples of a counter."""
        self._uuid += 1
        descriptor = _number(1, self._uuid) + _text(2, name)
        descriptor += _bytes(8, _text(6, unit)) if unit else b""
        descriptor += _number(5, parent) if parent else b""
        descriptor += _number(11, _EXPLICIT_ORDER) + _number(12, rank)
        self._packets.add(_number(10, _SEQUENCE) + _bytes(60, descriptor))
        return self._uuid

    def _core(self, core: int, parent: int) -> None:
        starting, ending = self._flows(self._profile.arrays[core])
        for rank, (lane, tracks) in enumerate(self._lanes[core]):
            above = self._track(lane, parent, rank)
            for position, indices in enumerate(tracks):
                track = (
                    self._track(f"{lane} {position + 1}", above, position) if position else above
                )
                self._slices(core, track, indices, starting, ending)
        for rank, counter in enumerate(self._counters[core], _FIRST_COUNTER_RANK):
            self._samples(counter, self._track(counter.name, parent, rank, counter.unit))

    def _samples(self, counter: Counter, track: int) -> None:
        head, tail, add = _COUNTER + _number(11, track) + _VALUE, self._tail, self._packets.add
        last = -1
        for time, value in counter.samples:
            if time <= last:
                raise _wrong(
                    f"a sample of {counter.name} at {time} ns comes after one at {last} ns"
                )
            last = time
            event = head + _varint(value)
            add(b"\x40" + _varint(time) + tail + b"\x5a" + _varint(len(event)) + event)

    def _flows(self, columns: EventArrays) -> tuple[dict[int, bytes], dict[int, bytes]]:
        """Semaphores as fields of the slices that they leave and reach."""
        starting: dict[int, bytes] = {}
        ending: dict[int, bytes] = {}
        begins, sources = np.rint(columns.start), columns.waits_for
        reached = np.flatnonzero((sources >= 0) & (begins[sources] < begins))
        for index, source in zip(whole(reached), whole(sources[reached]), strict=True):
            self._flow += 1
            number = self._flow.to_bytes(8, "little")
            starting[source] = starting.get(source, b"") + _FLOW + number
            ending[index] = _END_OF_FLOW + number
        return starting, ending

    def _slices(
        self,
        core: int,
        track: int,
        indices: list[int],
        starting: dict[int, bytes],
        ending: dict[int, bytes],
    ) -> None:
        pending, columns = self._packets.pending, self._profile.arrays[core]
        events = np.array(indices, np.int64)
        begins, ends = np.rint(columns.start[events]), np.rint(columns.end[events])
        self._check(core, indices, begins, ends)
        waited = np.where(
            columns.waits_for[events] >= 0,
            np.rint(columns.start[events] - columns.since[events]),
            0.0,
        )
        on_track, tail = _number(11, track), self._tail + b"\x5a"
        end_event = self._tail + _bytes(11, _END + on_track)
        rows = zip(
            indices, whole(begins), whole(ends), whole(waited),
            self._same(core, events, _BEGIN + on_track), strict=True,
        )  # fmt: skip
        for index, begin, until, wait, event in rows:
            if wait:
                event += self._argument("waited_ns", wait)
            if index in starting:
                event += starting[index]
            if index in ending:
                event += ending[index]
            content = b"\x40" + _varint(begin) + tail + _varint(len(event)) + event
            pending += b"\x0a" + _varint(len(content)) + content
            if len(pending) > _COMPRESSED_BYTES:
                self._packets.flush()
            after = b"\x40" + _varint(until) + end_event
            pending += b"\x0a" + _varint(len(after)) + after
            if len(pending) > _COMPRESSED_BYTES:
                self._packets.flush()

    def _check(self, core: int, indices: list[int], begins: Floats, ends: Floats) -> None:
        """Refuse slices of one track that overlap."""
        before = np.append(0.0, ends[:-1])
        wrong = np.flatnonzero((begins < before) | (ends < begins))
        if wrong.size:
            position = int(wrong[0])
            opcode = self._profile.estimate.cores[core].events[indices[position]].opcode
            raise _wrong(
                f"{opcode} from {begins[position]:.0f} to {ends[position]:.0f} ns overlaps one until "
                f"{before[position]:.0f} ns"
            )

    def _same(self, core: int, events: Ints, head: bytes) -> Iterator[bytes]:
        """Yield the fields of each slice's event except its times and flows."""
        columns, sites, flops = (
            self._profile.arrays[core],
            self._profile.site_of[core],
            self._profile.flops[core],
        )
        cached_events: dict[tuple[int, int, int, int, int], bytes] = {}
        opcodes, counts = whole(columns.opcode[events]), whole(columns.turns[events])
        rows = zip(whole(events), opcodes, whole(columns.nbytes[events]), counts, strict=True)
        for index, opcode, nbytes, iterations in rows:
            key = sites[index], opcode, nbytes, flops[index], iterations
            event = cached_events.get(key)
            if event is None:
                fields = self._fields(key[0], columns.opcodes[opcode], nbytes, key[3], iterations)
                event = cached_events[key] = head + fields
            yield event

    def _fields(self, site: int, opcode: str, nbytes: int, flops: int, iterations: int) -> bytes:
        """Return the fields of a slice's event except its times; most slices share them."""
        fields = self._site(site, opcode)
        if nbytes:
            fields += self._argument("bytes", nbytes)
        if flops:
            fields += self._argument("flops", flops)
        if iterations > 1:
            fields += self._argument("turns", iterations)
        return fields

    def _argument(self, name: str, value: int) -> bytes:
        content_bytes = self._known.get((name, value))
        if content_bytes is None:
            content = _number(1, self._arguments[name]) + _number(4, value)
            content_bytes = self._known[name, value] = _bytes(4, content)
        return content_bytes

    def _site(self, number: int, opcode: str) -> bytes:
        """Return the opcode as name, and the arguments of a site."""
        fields = self._texts.get((number, opcode))
        if fields is None:
            fields = _number(10, self._opcodes[opcode])
            for name, text in zip(_STRINGS, _texts(self._profile.sites[number]), strict=True):
                if text:
                    argument = _number(1, self._arguments[name]) + _number(17, self._values[text])
                    fields += _bytes(4, argument)
            self._texts[number, opcode] = fields
        return fields


def _wrong(what: str) -> NeffError:
    return NeffError(
        f"the trace would be wrong: {what}",
        code="NEFF-TRACE",
        remedy="this is a bug of the profiler; please report it with the NEFF",
    )


def _texts(site: Site) -> tuple[str, ...]:
    called = ", ".join(site.frames)
    return site.operands, site.place, called, site.op, site.kernel, site.scope
