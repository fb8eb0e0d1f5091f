"""Decoded instruction streams: a profile's record, run again on the model.

A stream is a list of lines ``index engine opcode detail src dst elements bytes waits_on``, as
tab-separated text or as :class:`StreamInstruction`. Only these are read: the start
and duration of an instruction in the profile follow ``|`` in the text, for comparing. A stream may
be a section of a longer one: earlier instructions are done when it starts.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile

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
        engine: ``Tensor``, ``Vector``, ``Scalar``, ``GpSimd`` or ``Sync``, in any case, or as the
            hardware calls it: ``PE``, ``DVE``, ``ACT``, ``POOL``, ``SP``.
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

    Columns after the opcode may be missing, or ``-``. Bytes without rows are one row.

    Raises:
        NeffError: ``NEFF-STREAM``; a line has no opcode, or a wrong number.
    """
    instructions: list[StreamInstruction] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            instructions.append(_parsed(line.rstrip("\n").split("\t")))
        except ValueError as error:
            raise NeffError(
                f"line {number} is not an instruction of a stream: {error}",
                code="NEFF-STREAM",
                remedy="its tab-separated columns are: index engine opcode detail src dst "
                "elements bytes waits_on",
            ) from error
    return instructions


def _parsed(cells: list[str]) -> StreamInstruction:
    read = [*takewhile(lambda cell: cell.strip() != "|", cells)]
    if len(read) < 3:
        raise ValueError(f"{len(read)} columns")
    index, engine, opcode, detail, src, dst, elements, nbytes, waits = (
        "" if cell.strip() == "-" else cell.strip() for cell in [*read, *[""] * 9][:9]
    )
    rows, times, row = nbytes.partition("x")
    if rows and not times:
        rows, row = "1", rows
    return StreamInstruction(
        int(index), engine, opcode, detail, src, dst, int(elements or 0), int(rows or 0),
        int(row or 0), tuple(int(wait) for wait in waits.split(",") if wait),
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
        Events in nanoseconds from the first one; ``source`` is the instruction's index. A warning
        names opcodes that the model does not know: their costs are assumed.

    Raises:
        NeffError: ``NEFF-STREAM``; an engine or an index is unknown, or an index comes twice.
        NeffRuntimeError: ``NEFF-DEADLOCK``; the instructions wait for each other.
    """
    pricing = Pricing(parameters or _parameters(target), side)
    return _run(instructions, (pricing, pricing, pricing)).events


def _parameters(target: str) -> Parameters:
    """Return the default: the decoded streams that are public come from earlier toolchains."""
    return Parameters(target, toolchain="earlier")


def replay_total(
    instructions: Iterable[StreamInstruction],
    target: str = "trn2",
    parameters: Parameters | None = None,
) -> Span:
    """How long a decoded stream takes, from its first instruction to its last transfer's arrival.

    ``instructions``, ``target`` and ``parameters``, and what is raised, are as in :func:`replay`.
    """
    chosen = parameters or _parameters(target)
    nominal, fast, slow = (Pricing(chosen, side) for side in Side)
    value, fastest, slowest = _run(instructions, (nominal, fast, slow)).end
    return Span(value, min(value, fastest), max(value, slowest))


def _run(instructions: Iterable[StreamInstruction], prices: Prices) -> Machine:
    works, steps = _lowered(list(instructions))
    machine = Machine(works, prices)
    simulate(machine, steps)
    return machine


def _lowered(stream: list[StreamInstruction]) -> tuple[list[Work], Steps]:
    numbers: dict[Work, int] = {}
    awaited = _awaited(stream)
    steps: Steps = {}
    for inst in stream:
        work = numbers.setdefault(_work(inst), len(numbers))
        item = Item(
            work, inst.opcode, tuple((index, 1) for index in inst.waits_on if index in awaited),
            (inst.index,) if inst.index in awaited else (), False, inst.index,
        )  # fmt: skip
        steps.setdefault(_engine(inst), []).append(item)
    unknown = {f"{inst.engine} {inst.opcode}" for inst in stream if not _is_known(inst)}
    if unknown:
        names = ", ".join(sorted(unknown))
        warnings.warn(f"unknown instructions have assumed costs: {names}", stacklevel=4)
    return list(numbers), steps


def _awaited(stream: list[StreamInstruction]) -> set[int]:
    """Return the instructions that others wait for; those before the stream are done."""
    indices = {inst.index for inst in stream}
    if len(indices) < len(stream):
        duplicate = next(
            index for index, count in Counter(inst.index for inst in stream).items() if count > 1
        )
        raise _wrong(f"two instructions have the index {duplicate}")
    first = min(indices, default=0)
    awaited = {index for inst in stream for index in inst.waits_on if index >= first}
    if awaited - indices:
        raise _wrong(f"instruction {min(awaited - indices)} is waited for, but does not exist")
    return awaited


def _wrong(message: str) -> NeffError:
    return NeffError(message, code="NEFF-STREAM", remedy="see docs/timing.md for the format")


_FIXED = {
    "EVENT_SEMAPHORE": Fixed("semaphore.more_ns"),
    "ACT_TABLE_LOAD": Fixed("scalar.table_load_ns"),
}
_COPIES = ("COPY", "CAST", "MEMSET")

_ENGINES = frozenset({"tensor", "vector", "scalar", "gpsimd", "sync"})
_ENGINE_ALIASES = {
    "pe": "tensor", "dve": "vector", "act": "scalar", "activation": "scalar", "pool": "gpsimd",
    "sp": "sync",
}  # fmt: skip

_VECTOR_RATES = {
    "TENSOR_TENSOR": "vector.two_sources_cycles",
    "SCALAR_TENSOR_TENSOR": "vector.scan_cycles",
    "TENSOR_TENSOR_SCAN": "vector.scan_cycles",
    "RECIPROCAL": "vector.reciprocal_cycles",
    "BATCH_NORM_AGGREGATE": "vector.aggregate_cycles",
    "BATCH_NORM_STATS": "vector.plain_cycles",
    "TENSOR_REDUCE": "vector.plain_cycles",
    "TENSOR_SCALAR": "vector.plain_cycles",
    **dict.fromkeys(_COPIES, "vector.plain_cycles"),
}
_TWO_BYTE_TYPES = ("bfloat16", "float16", "fp16")
_TENSOR = ("LDWEIGHTS", "MATMUL")
_SCALAR = ("ACTIVATE", "COPY", "CAST", "MEMSET")
_OPERAND = ("vector.operand_cycles",)
_ACTIVATE = ("scalar.activate_interval_cycles", "scalar.activate_latency_cycles")
_ACTIVATE_SBUF = (*_ACTIVATE, "scalar.sbuf_interval_cycles", "scalar.sbuf_latency_cycles")


def _work(inst: StreamInstruction) -> Work:
    fixed = _FIXED.get(inst.opcode)
    if fixed is not None:
        return fixed
    if inst.opcode.startswith("DMA"):
        return _transfer(inst)
    rule = _RULES.get(_engine(inst))
    if rule is None or not inst.elements:
        return Fixed("control.register_ns")
    work = rule(inst)
    return work._replace(memories=_memories(inst)) if type(work) is Compute else work


def _engine(inst: StreamInstruction) -> str:
    """The engine's name in the model."""
    name = inst.engine.lower()
    engine = _ENGINE_ALIASES.get(name, name)
    if engine not in _ENGINES:
        raise _wrong(f"instruction {inst.index} runs on {inst.engine!r}, which is no engine")
    return engine


def _is_known(inst: StreamInstruction) -> bool:
    """Return False for an instruction with elements whose opcode the model has no figure for."""
    if inst.opcode in _FIXED or inst.opcode.startswith("DMA") or not inst.elements:
        return True
    engine = _engine(inst)
    if engine == "vector":
        return inst.opcode in _VECTOR_RATES
    return inst.opcode.startswith({"tensor": _TENSOR, "scalar": _SCALAR}.get(engine, ""))


def _memories(inst: StreamInstruction) -> tuple[str, ...]:
    """Return the memories that it uses; a stream does not record banks."""
    operands = inst.src + inst.dst
    return (PSUM,) * ("@P" in operands) + (SBUF,) * ("@S" in operands)


def _tensor(inst: StreamInstruction) -> Work:
    is_fp32 = inst.src.startswith("fp32")
    if inst.opcode == "LDWEIGHTS":
        return Weights(is_fp32, "transpose_mode=ENABLED" in inst.detail)
    return Matmul(inst.elements, "tensor.fp32_cycles" if is_fp32 else "")


def _vector(inst: StreamInstruction) -> Work:
    in_sbuf = inst.src.endswith("@S") and inst.dst.endswith("@S")
    if inst.opcode == "TENSOR_SCALAR":
        rate = _fast(inst) if in_sbuf else "vector.plain_cycles"
        return Compute("vector", rate, inst.elements, _OPERAND)
    if inst.opcode in _COPIES and in_sbuf:
        return Compute("vector", _fast(inst), inst.elements)
    if inst.opcode == "TENSOR_TENSOR" and inst.src.count("@S") < 2 and "@P" in inst.src:
        return Compute("vector", "vector.plain_cycles", inst.elements)
    rate = _two_byte_rate(inst) or _VECTOR_RATES.get(inst.opcode, "vector.unknown_cycles")
    return Compute("vector", rate, inst.elements)


def _two_byte_rate(inst: StreamInstruction) -> str:
    """Return the rate of operations on 2-byte types, "" for any other instruction."""
    if inst.opcode == "TENSOR_REDUCE" and inst.src.startswith(_TWO_BYTE_TYPES):
        return "vector.reduce_16_cycles" if re.search("ADD|MAX", inst.detail) else ""
    if inst.opcode == "TENSOR_TENSOR" and {*re.findall("[a-z0-9]+(?=@)", inst.src + inst.dst)} == {
        "bfloat16"
    }:
        fast = re.search("ADD|SUBTRACT|MULTIPLY", inst.detail)
        return "vector.two_sources_fast_cycles" if fast else ""
    return ""


def _fast(inst: StreamInstruction) -> str:
    is_wide = "fp32" in inst.src or "fp32" in inst.dst
    return "vector.fast_32_cycles" if is_wide else "vector.fast_16_cycles"


def _scalar(inst: StreamInstruction) -> Work:
    extras: tuple[str, ...] = ()
    if inst.opcode.startswith("ACTIVATE"):
        extras = _ACTIVATE_SBUF if inst.src.endswith("@S") else _ACTIVATE
    return Compute("scalar", "scalar.plain_cycles", inst.elements, extras)


def _gpsimd(inst: StreamInstruction) -> Work:
    return Compute("gpsimd", "gpsimd.plain_cycles", inst.elements)


_RULES = {"tensor": _tensor, "vector": _vector, "scalar": _scalar, "gpsimd": _gpsimd}


_PARTITION_COUNT = 128


def _transfer(inst: StreamInstruction) -> Transfer:
    """Return the transfer: few rows are those of one partition.

    Streams record 4x512 for [4, 128, 512 B] in HBM. A load of one row is kept unchanged.
    """
    to_hbm, from_hbm = inst.dst.endswith("H"), inst.src.endswith("H")
    rows, partition_rows = inst.rows, 1
    if to_hbm != from_hbm and inst.rows < _PARTITION_COUNT and (to_hbm or inst.rows > 1):
        rows, partition_rows = _PARTITION_COUNT * inst.rows, inst.rows
    descriptors = "software" if inst.engine == "GpSimd" else "hardware"
    return Transfer(descriptors, rows, inst.row_bytes, False, partition_rows, to_hbm, from_hbm)
