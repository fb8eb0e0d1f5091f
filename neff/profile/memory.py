"""The tensors that occupy SBUF, PSUM and HBM, and when."""

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
    """The moment of the highest use of a memory.

    Attributes:
        used: bytes held then.
        capacity: bytes of the memory.
        at_ns: when that begins.
        holders: the tensors held then, the largest first.
    """

    used: int
    capacity: int
    at_ns: float
    holders: tuple[Holding, ...]


def holdings(profile: Profile) -> list[Holding]:
    """Return all holdings, in the order of their starts."""
    on_chip: list[Holding] = []
    for core in range(len(profile.estimate.cores)):
        on_chip += _core_holdings(profile, core)
    return sorted(
        [*on_chip, *_variables(profile)],
        key=lambda holding: (holding.start_ns, holding.memory, holding.name),
    )


_Key = tuple[str, tuple[int, int]]


def _core_holdings(profile: Profile, core: int) -> Iterator[Holding]:
    spans: dict[_Key, list[float]] = {}
    tensors: dict[_Key, tuple[Tensor, str]] = {}
    touched: dict[int, list[list[float]]] = {}
    for _, _, opcode, start, end, _, _, _, _, _, _, instruction in profile.estimate.cores[
        core
    ].events:
        if type(instruction) is not Instruction or opcode in _TOUCH_NOTHING:
            continue
        inst_spans = touched.get(id(instruction))
        if inst_spans is None:
            inst_spans = touched[id(instruction)] = []
            for tensor in _on_chip(instruction):
                key = tensor.name, tensor.address or (0, 0)
                span = spans.get(key)
                if span is None:
                    span = spans[key] = [start, end]
                    tensors[key] = tensor, _place(instruction)
                inst_spans.append(span)
        for span in inst_spans:
            if start < span[0]:
                span[0] = start
            if end > span[1]:
                span[1] = end
    for key, (tensor, location) in tensors.items():
        first, address = key[1]
        lanes = tensor.shape[0] if tensor.shape else 1
        start, end = spans[key]
        yield Holding(
            core, tensor.buffer.value, tensor.name, tensor.shape, tensor.dtype.name, first, lanes,
            address, tensor.free_bytes, start, end, location,
        )  # fmt: skip


def _on_chip(instruction: Instruction) -> list[Tensor]:
    """Return the tensors in SBUF and PSUM that an instruction touches, in operand order."""
    tensors: list[Tensor] = []
    for value in instruction.operands.values():
        if type(value) is Access:
            tensor, _, _, scalar, vector, _, _, _ = value
            if tensor.buffer is _SBUF or tensor.buffer is _PSUM:
                tensors.append(tensor)
            if scalar is None and vector is None:
                continue
        elif type(value) not in (tuple, list):
            continue
        # Rare: operands within operands.
        touched = (
            operand for operand, _ in operands_touched(instruction) if type(operand) is Access
        )
        return [operand.tensor for operand in touched if operand.tensor.buffer in (_SBUF, _PSUM)]
    return tensors


def _place(instruction: Instruction) -> str:
    where = instruction.location
    return f"{where.file}:{where.line}" if where and where.line else ""


def _variables(profile: Profile) -> Iterator[Holding]:
    """Yield the variables: inputs, outputs and constants last; scratch spans its transfers."""
    spans: dict[str, list[float]] = {}
    scratch = {
        name for name, variable in profile.program.variables.items() if variable.kind == "scratch"
    }
    for event in (event for core in profile.estimate.cores if scratch for event in core.events):
        if not event.nbytes or type(event.source) is not Instruction:
            continue
        for operand, _ in operands_touched(event.source):
            if type(operand) is Access and operand.tensor.name in scratch:
                span = spans.setdefault(operand.tensor.name, [event.start, event.end])
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


def peak(profile: Profile, holdings: Iterable[Holding], memory: str, core: int) -> Peak:
    """Return the moment at which a memory of a core holds most, and the tensors then."""
    in_memory = [
        holding for holding in holdings if holding.memory == memory and holding.core in (core, -1)
    ]
    changes = sorted(
        [(holding.start_ns, 1, holding.nbytes) for holding in in_memory]
        + [(holding.end_ns, 0, -holding.nbytes) for holding in in_memory]
    )
    used = peak_bytes = 0
    peak_ns = 0.0
    for time, _, change in changes:
        used += change
        if used > peak_bytes:
            peak_bytes, peak_ns = used, time
    holders = [
        holding
        for holding in in_memory
        if holding.start_ns <= peak_ns < holding.end_ns or holding.start_ns == peak_ns
    ]
    holders.sort(key=lambda holding: (-holding.nbytes, holding.name))
    return Peak(peak_bytes, _capacity(profile, memory), peak_ns, tuple(holders))


def _capacity(profile: Profile, memory: str) -> int:
    target = target_of(profile.estimate.target)
    sizes = {
        "sbuf": target.sbuf_usable_bytes * target.partitions,
        "psum": target.psum_partition_bytes * target.partitions,
        "hbm": target.hbm_bytes,
    }
    return sizes[memory]


def memory_document(
    profile: Profile, cached_holdings: list[Holding] | None = None
) -> dict[str, object]:
    """Holdings, and the peak of each memory of each core; bytes and microseconds.

    Args:
        profile: of the program.
        cached_holdings: its :func:`holdings`, when they are already computed.
    """
    holding_list = holdings(profile) if cached_holdings is None else cached_holdings
    return {
        "estimated": True,
        "program": profile.name,
        "peaks": [
            {"core": core, "memory": memory, **_peak_row(peak(profile, holding_list, memory, core))}
            for core in range(len(profile.estimate.cores))
            for memory in MEMORIES
        ],
        "holdings": [_row(holding) for holding in holding_list],
    }


def _peak_row(peak_use: Peak) -> dict[str, object]:
    return {
        "used": peak_use.used,
        "capacity": peak_use.capacity,
        "at_us": round(peak_use.at_ns / 1e3, 3),
        "holders": [
            {"name": holding.name, "bytes": holding.nbytes, "place": holding.place}
            for holding in peak_use.holders
        ],
    }


def _row(holding: Holding) -> dict[str, object]:
    return {
        "core": holding.core,
        "memory": holding.memory,
        "name": holding.name,
        "shape": list(holding.shape),
        "dtype": holding.dtype,
        "first_partition": holding.first,
        "partitions": holding.partitions,
        "address": holding.address,
        "bytes_per_partition": holding.size,
        "start_us": round(holding.start_ns / 1e3, 3),
        "end_us": round(holding.end_ns / 1e3, 3),
        "place": holding.place,
    }
