"""Decoded instruction streams: what a profile recorded, run again on the model.

A stream is a list of lines ``index engine opcode detail src dst elements bytes waits_on``, as
tab-separated text or as :class:`StreamInstruction`. Only these are read: when an instruction
started and how long it took in the profile stand behind ``|`` in the text, for comparing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from neff.errors import NeffError
from neff.timing.costs import Pricing
from neff.timing.estimate import Span
from neff.timing.events import Event
from neff.timing.machine import Item, Machine, Prices, Steps
from neff.timing.parameters import Parameters, Side
from neff.timing.ports import PSUM, SBUF
from neff.timing.simulation import simulate
from neff.timing.work import Compute, Fixed, Matmul, Transfer, Weights, Work

__all__ = ["StreamInstruction", "read_stream", "replay", "replay_total"]


@dataclass(frozen=True, slots=True)
class StreamInstruction:
    """One instruction of a decoded stream.

    Attributes:
        index: number that ``waits_on`` of others names.
        engine: ``Tensor``, ``Vector``, ``Scalar``, ``GpSimd`` or ``Sync``.
        opcode: of the instruction set, such as ``TENSOR_REDUCE``.
        detail: flags and functions.
        src, dst: ``type@memory`` (P, S, H), or "".
        elements: of one partition, 0 when there are none.
        rows, row_bytes: of a transfer.
        waits_on: instructions whose end it waits for.
    """

    index: int
    engine: str
    opcode: str
    detail: str = ""
    src: str = ""
    dst: str = ""
    elements: int = 0
    rows: int = 0
    row_bytes: int = 0
    waits_on: tuple[int, ...] = ()


def read_stream(lines: Iterable[str]) -> list[StreamInstruction]:
    """The instructions of a stream's text; lines that start with # are comments.

    Raises:
        NeffError: ``NEFF-STREAM``; a line has too few columns or a wrong number.
    """
    found: list[StreamInstruction] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            found.append(_parsed(line.rstrip("\n").split("\t")))
        except ValueError as error:
            raise NeffError(
                f"line {number} is not an instruction of a stream: {error}",
                code="NEFF-STREAM",
                remedy="it has nine tab-separated columns: index engine opcode detail src dst "
                "elements bytes waits_on",
            ) from error
    return found


def _parsed(cells: list[str]) -> StreamInstruction:
    if len(cells) < 9:
        raise ValueError(f"{len(cells)} columns")
    index, engine, opcode, detail, src, dst, elements, nbytes, waits = (
        "" if cell == "-" else cell.strip() for cell in cells[:9]
    )
    rows, _, row = nbytes.partition("x")
    return StreamInstruction(
        int(index), engine, opcode, detail, src, dst, int(elements or 0), int(rows or 0),
        int(row or 0), tuple(int(one) for one in waits.split(",") if one),
    )  # fmt: skip


def replay(
    instructions: Iterable[StreamInstruction],
    target: str = "trn2",
    parameters: Parameters | None = None,
    *,
    side: Side = Side.nominal,
) -> list[Event]:
    """Run a decoded stream on the model.

    Args:
        instructions: in order of start; the order within an engine is kept.
        target: family; the parameters' own when they are given.
        parameters: default: the table's.
        side: which end of the parameters' ranges.

    Returns:
        Events in nanoseconds from the first one; ``source`` is the instruction's index.

    Raises:
        NeffError: ``NEFF-STREAM``; an engine or an index is unknown.
        NeffRuntimeError: ``NEFF-DEADLOCK``; the instructions wait for each other.
    """
    pricing = Pricing(parameters or Parameters(target), side)
    return _run(instructions, (pricing, pricing, pricing)).events


def replay_total(
    instructions: Iterable[StreamInstruction],
    target: str = "trn2",
    parameters: Parameters | None = None,
) -> Span:
    """How long a decoded stream takes, from its first instruction to its last transfer's arrival.

    ``instructions``, ``target`` and ``parameters``, and what is raised, are as in :func:`replay`.
    """
    chosen = parameters or Parameters(target)
    one, two, three = (Pricing(chosen, side) for side in Side)
    value, fastest, slowest = _run(instructions, (one, two, three)).end
    return Span(value, min(value, fastest), max(value, slowest))


def _run(instructions: Iterable[StreamInstruction], prices: Prices) -> Machine:
    works, steps = _lowered(list(instructions))
    machine = Machine(works, prices)
    simulate(machine, steps)
    return machine


def _lowered(stream: list[StreamInstruction]) -> tuple[list[Work], Steps]:
    numbers: dict[Work, int] = {}
    known = {one.index for one in stream}
    awaited = {index for one in stream for index in one.waits_on}
    if awaited - known:
        raise _wrong(f"instruction {min(awaited - known)} is waited for, but does not exist")
    steps: Steps = {}
    for one in stream:
        work = numbers.setdefault(_work(one), len(numbers))
        item: Item = (
            work, one.opcode, tuple((index, 1) for index in one.waits_on),
            (one.index,) if one.index in awaited else (), False, one.index,
        )  # fmt: skip
        steps.setdefault(one.engine.lower(), []).append(item)
    return list(numbers), steps


def _wrong(message: str) -> NeffError:
    return NeffError(message, code="NEFF-STREAM", remedy="see docs/timing.md for the format")


_FIXED = {
    "EVENT_SEMAPHORE": Fixed("semaphore.more_ns"),
    "ACT_TABLE_LOAD": Fixed("scalar.table_load_ns"),
}

_VECTOR_RATES = {
    "TENSOR_TENSOR": "vector.two_sources_cycles",
    "SCALAR_TENSOR_TENSOR": "vector.scan_cycles",
    "TENSOR_TENSOR_SCAN": "vector.scan_cycles",
    "RECIPROCAL": "vector.reciprocal_cycles",
    "BATCH_NORM_AGGREGATE": "vector.aggregate_cycles",
}
_OPERAND = ("vector.operand_cycles",)
_ACTIVATE = ("scalar.activate_interval_cycles", "scalar.activate_latency_cycles")
_ACTIVATE_SBUF = (*_ACTIVATE, "scalar.sbuf_interval_cycles", "scalar.sbuf_latency_cycles")


def _work(one: StreamInstruction) -> Work:
    fixed = _FIXED.get(one.opcode)
    if fixed is not None:
        return fixed
    if one.opcode.startswith("DMA"):
        return _transfer(one)
    engine = one.engine.lower()
    if engine not in _ENGINES:
        raise _wrong(f"instruction {one.index} runs on {one.engine!r}, which is no engine")
    rule = _RULES.get(engine)
    if rule is None or not one.elements:
        return Fixed("control.register_ns")
    work = rule(one)
    return work._replace(memories=_memories(one)) if type(work) is Compute else work


def _memories(one: StreamInstruction) -> tuple[str, ...]:
    """Memories that it uses; a stream does not say which banks."""
    used = one.src + one.dst
    return (PSUM,) * ("@P" in used) + (SBUF,) * ("@S" in used)


def _tensor(one: StreamInstruction) -> Work:
    is_fp32 = one.src.startswith("fp32")
    if one.opcode == "LDWEIGHTS":
        return Weights(is_fp32, "transpose_mode=ENABLED" in one.detail)
    return Matmul(one.elements, "tensor.fp32_cycles" if is_fp32 else "")


def _vector(one: StreamInstruction) -> Work:
    in_sbuf = one.src.endswith("@S") and one.dst.endswith("@S")
    if one.opcode == "TENSOR_SCALAR":
        rate = _fast(one) if in_sbuf else "vector.plain_cycles"
        return Compute("vector", rate, one.elements, _OPERAND)
    if one.opcode in ("COPY", "CAST", "MEMSET") and in_sbuf:
        return Compute("vector", _fast(one), one.elements)
    if one.opcode == "TENSOR_TENSOR" and one.src.count("@S") < 2 and "@P" in one.src:
        return Compute("vector", "vector.plain_cycles", one.elements)
    return Compute("vector", _VECTOR_RATES.get(one.opcode, "vector.plain_cycles"), one.elements)


def _fast(one: StreamInstruction) -> str:
    is_wide = "fp32" in one.src or "fp32" in one.dst
    return "vector.fast_32_cycles" if is_wide else "vector.fast_16_cycles"


def _scalar(one: StreamInstruction) -> Work:
    extras: tuple[str, ...] = ()
    if one.opcode.startswith("ACTIVATE"):
        extras = _ACTIVATE_SBUF if one.src.endswith("@S") else _ACTIVATE
    return Compute("scalar", "scalar.plain_cycles", one.elements, extras)


def _gpsimd(one: StreamInstruction) -> Work:
    return Compute("gpsimd", "gpsimd.plain_cycles", one.elements)


_ENGINES = frozenset({"tensor", "vector", "scalar", "gpsimd", "sync"})
_RULES = {"tensor": _tensor, "vector": _vector, "scalar": _scalar, "gpsimd": _gpsimd}


_PARTITIONS = 128


def _transfer(one: StreamInstruction) -> Transfer:
    """Few rows are those of one partition: streams record 4x512 for [4, 128, 512 B] in HBM.

    A load of one row is taken as it is.
    """
    to_hbm, from_hbm = one.dst.endswith("H"), one.src.endswith("H")
    rows, each = one.rows, 1
    if to_hbm != from_hbm and one.rows < _PARTITIONS and (to_hbm or one.rows > 1):
        rows, each = _PARTITIONS * one.rows, one.rows
    descriptors = "software" if one.engine == "GpSimd" else "hardware"
    return Transfer(descriptors, rows, one.row_bytes, False, each, to_hbm, from_hbm)
