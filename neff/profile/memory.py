"""Who holds SBUF, PSUM and HBM, from when to when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from neff.compiler.assembly.regions import operands_touched
from neff.profile.table import Profile
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.targets import target_of
from nki_lang.ir import Access, Instruction, Tensor

__all__ = ["MEMORIES", "Holding", "Peak", "holdings", "memory_document", "peak"]

MEMORIES = ("sbuf", "psum", "hbm")

_SBUF, _PSUM = MemoryRegion.sbuf, MemoryRegion.psum

_TOUCH_NOTHING = frozenset({"act_table_load", "event_semaphore"})
"""Events in front of an instruction that do not touch its tensors yet."""


@dataclass(frozen=True, slots=True)
class Holding:
    """A tensor, and where and when it is held.

    Attributes:
        core: physical core; -1 for HBM that all cores share.
        memory: ``sbuf``, ``psum`` or ``hbm``.
        name, shape, dtype: of the tensor.
        first, partitions: partitions that it takes; 0 and 1 in HBM.
        address, size: bytes in each of them.
        start_ns, end_ns: from the first to the last instruction that touches it; inputs, constants
            and outputs are held all the time.
        place: the line that touches it first, "" for a variable of the program.
    """

    core: int
    memory: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    first: int
    partitions: int
    address: int
    size: int
    start_ns: float
    end_ns: float
    place: str

    @property
    def nbytes(self) -> int:
        """All bytes."""
        return self.partitions * self.size


@dataclass(frozen=True, slots=True)
class Peak:
    """The moment at which a memory holds most.

    Attributes:
        used: bytes held then.
        capacity: bytes of the memory.
        at_ns: when that begins.
        holders: what is held then, the largest first.
    """

    used: int
    capacity: int
    at_ns: float
    holders: tuple[Holding, ...]


def holdings(profile: Profile) -> list[Holding]:
    """Everything that is held, in the order of its beginning."""
    found: list[Holding] = []
    for core in range(len(profile.estimate.cores)):
        found += _of_core(profile, core)
    return sorted(
        [*found, *_variables(profile)], key=lambda one: (one.start_ns, one.memory, one.name)
    )


_Key = tuple[str, tuple[int, int]]


def _of_core(profile: Profile, core: int) -> Iterator[Holding]:
    spans: dict[_Key, list[float]] = {}
    tensors: dict[_Key, tuple[Tensor, str]] = {}
    touched: dict[int, list[list[float]]] = {}
    for _, _, opcode, start, end, _, _, _, _, _, _, instruction in profile.estimate.cores[
        core
    ].events:
        if type(instruction) is not Instruction or opcode in _TOUCH_NOTHING:
            continue
        own = touched.get(id(instruction))
        if own is None:
            own = touched[id(instruction)] = []
            for tensor in _on_chip(instruction):
                key = tensor.name, tensor.address or (0, 0)
                span = spans.get(key)
                if span is None:
                    span = spans[key] = [start, end]
                    tensors[key] = tensor, _place(instruction)
                own.append(span)
        for span in own:
            if start < span[0]:
                span[0] = start
            if end > span[1]:
                span[1] = end
    for key, (tensor, place) in tensors.items():
        first, address = key[1]
        lanes = tensor.shape[0] if tensor.shape else 1
        start, end = spans[key]
        yield Holding(
            core, tensor.buffer.value, tensor.name, tensor.shape, tensor.dtype.name, first, lanes,
            address, tensor.free_bytes, start, end, place,
        )  # fmt: skip


def _on_chip(instruction: Instruction) -> list[Tensor]:
    """The tensors in SBUF and PSUM that it touches, in the order of its operands."""
    found: list[Tensor] = []
    for value in instruction.operands.values():
        if type(value) is Access:
            tensor, _, _, scalar, vector, _, _, _ = value
            if tensor.buffer is _SBUF or tensor.buffer is _PSUM:
                found.append(tensor)
            if scalar is None and vector is None:
                continue
        elif type(value) not in (tuple, list):
            continue
        # Rare: operands within operands.
        touched = (what for what, _ in operands_touched(instruction) if type(what) is Access)
        return [what.tensor for what in touched if what.tensor.buffer in (_SBUF, _PSUM)]
    return found


def _place(instruction: Instruction) -> str:
    where = instruction.location
    return f"{where.file}:{where.line}" if where and where.line else ""


def _variables(profile: Profile) -> Iterator[Holding]:
    """Inputs, outputs and constants last; scratch from the first to the last transfer."""
    spans: dict[str, list[float]] = {}
    scratch = {name for name, one in profile.program.variables.items() if one.kind == "scratch"}
    for event in (event for core in profile.estimate.cores if scratch for event in core.events):
        if not event.nbytes or type(event.source) is not Instruction:
            continue
        for what, _ in operands_touched(event.source):
            if type(what) is Access and what.tensor.name in scratch:
                span = spans.setdefault(what.tensor.name, [event.start, event.end])
                span[0], span[1] = min(span[0], event.start), max(span[1], event.end)
    total = profile.estimate.total.value
    for variable in profile.program.variables.values():
        if variable.alias:
            continue
        start, end = 0.0, total
        if variable.kind == "scratch":
            start, end = spans.get(variable.name, [0.0, 0.0])
        yield Holding(
            variable.core, "hbm", variable.name, variable.shape, variable.dtype.name, 0, 1,
            variable.offset, variable.nbytes, start, end, "",
        )  # fmt: skip


def peak(profile: Profile, found: Iterable[Holding], memory: str, core: int) -> Peak:
    """When a memory of a core holds most, and what."""
    own = [one for one in found if one.memory == memory and one.core in (core, -1)]
    changes = sorted(
        [(one.start_ns, 1, one.nbytes) for one in own]
        + [(one.end_ns, 0, -one.nbytes) for one in own]
    )
    used = most = 0
    at = 0.0
    for time, _, change in changes:
        used += change
        if used > most:
            most, at = used, time
    holders = [one for one in own if one.start_ns <= at < one.end_ns or one.start_ns == at]
    holders.sort(key=lambda one: (-one.nbytes, one.name))
    return Peak(most, _capacity(profile, memory), at, tuple(holders))


def _capacity(profile: Profile, memory: str) -> int:
    target = target_of(profile.estimate.target)
    sizes = {
        "sbuf": target.sbuf_usable_bytes * target.partitions,
        "psum": target.psum_partition_bytes * target.partitions,
        "hbm": target.hbm_bytes,
    }
    return sizes[memory]


def memory_document(profile: Profile, held: list[Holding] | None = None) -> dict[str, object]:
    """Holdings, and the peak of each memory of each core; bytes and microseconds.

    Args:
        profile: of the program.
        held: its :func:`holdings`, if they are known.
    """
    found = holdings(profile) if held is None else held
    return {
        "estimated": True,
        "program": profile.name,
        "peaks": [
            {"core": core, "memory": memory, **_peak_row(peak(profile, found, memory, core))}
            for core in range(len(profile.estimate.cores))
            for memory in MEMORIES
        ],
        "holdings": [_row(one) for one in found],
    }


def _peak_row(found: Peak) -> dict[str, object]:
    return {
        "used": found.used,
        "capacity": found.capacity,
        "at_us": round(found.at_ns / 1e3, 3),
        "holders": [
            {"name": one.name, "bytes": one.nbytes, "place": one.place} for one in found.holders
        ],
    }


def _row(one: Holding) -> dict[str, object]:
    return {
        "core": one.core,
        "memory": one.memory,
        "name": one.name,
        "shape": list(one.shape),
        "dtype": one.dtype,
        "first_partition": one.first,
        "partitions": one.partitions,
        "address": one.address,
        "bytes_per_partition": one.size,
        "start_us": round(one.start_ns / 1e3, 3),
        "end_us": round(one.end_ns / 1e3, 3),
        "place": one.place,
    }
