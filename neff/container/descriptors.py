"""DMA descriptors: each transfer of a program as the vendor documents them in an engine's JSON.

Source: "Work with NEFF Files", section "DMA Descriptors". Offsets, steps and the innermost size
are bytes; arrays run from the innermost dimension outwards and have at most four entries. On
chip we count bytes linearly: partition times the bytes of a partition, plus the byte in it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from neff.container import strict_json
from neff.program import EngineLoop, EngineStep
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.targets import Target
from nki_lang.ir import Access, Engine, Instruction, Tensor

__all__ = ["Transfers", "describe_transfers", "ring_bytes"]

_MAX_DIMS = 4
_MAX_PIECES = 4096
"""Pieces that one transfer may be cut into; beyond, it is left to the engine (``dynamic``)."""

_QUEUE_OWNERS = {
    Engine.sync: "SP",
    Engine.scalar: "Act",
    Engine.vector: "DVE",
    Engine.tensor: "PE",
    Engine.gpsimd: "GpSimd",
}

Run = tuple[int, list[tuple[int, int]]]
"""Byte offset, and (byte step, count) from the innermost dimension outwards."""


@dataclass(frozen=True, slots=True)
class Transfers:
    """The transfers of one engine.

    Attributes:
        queues: queue sets by name, as ``dma_queue`` of def.json has them.
        descriptors: the ``dma`` list of the engine's JSON.
    """

    queues: dict[str, dict[str, object]]
    descriptors: list[dict[str, object]]


def describe_transfers(
    steps: list[EngineStep], engine: Engine, target: Target, kinds: dict[str, str]
) -> Transfers:
    """Queues and descriptors of an engine's ``dma_copy`` instructions.

    Args:
        steps: the engine's program.
        engine: which engine triggers them.
        target: the family.
        kinds: kind of each HBM variable by name.
    """
    queues: dict[str, dict[str, object]] = {}
    descriptors: list[dict[str, object]] = []
    for instruction in _copies(steps):
        dst, src = instruction.operands["dst"], instruction.operands["src"]
        pieces = _pieces(dst, src, target)
        sides = {kinds.get(access.tensor.name, "") for access in (dst, src)}
        name, kind = _queue(engine, sides, dynamic=pieces is None)
        queues.setdefault(name, {"type": kind, "owner": engine_key(engine), "num_queues": 1})
        if pieces is not None:
            descriptors.append({"id": len(descriptors), "queue": name, "desc": pieces})
    return Transfers(queues, descriptors)


def ring_bytes(descriptor: dict[str, object]) -> int:
    """Bytes that a descriptor takes in its ring: 16 for each element of either side, 32 extra.

    Source: a published memory estimator that was checked against the runtime to ten percent
    (vllm-neuron, neff_memory.py). Fields of another type than documented count as absent.

    Raises:
        OverflowError: a transfer of more than 2^63 elements.
    """
    total = 0
    for row in pieces_of(descriptor):
        if strict_json.is_object(row):
            sides = [_elements(row.get(side)) for side in ("from_sizes", "to_sizes")]
            total += 16 * (sum(sides) + 32)
    return total


def pieces_of(descriptor: dict[str, object]) -> list[object]:
    """The rows of a descriptor; a single one may be written without a list."""
    rows: object = descriptor.get("desc", [])
    return rows if strict_json.is_list(rows) else [rows]


def engine_key(engine: Engine) -> str:
    """The engine's key in def.json."""
    return _KEYS[engine]


_KEYS = {
    Engine.scalar: "act",
    Engine.vector: "dve",
    Engine.tensor: "pe",
    Engine.gpsimd: "pool",
    Engine.sync: "sp",
}


def _elements(sizes: object) -> int:
    count = 1
    for extent in sizes[1:] if strict_json.is_list(sizes) else ():
        count *= extent if type(extent) is int else 1
        if not 0 <= count < 1 << 63:
            raise OverflowError("a transfer of more than 2^63 elements, or fewer than none")
    return count


def _copies(steps: list[EngineStep]) -> Iterator[Instruction]:
    for step in steps:
        if isinstance(step, EngineLoop):
            yield from _copies(step.body)
        elif step.instruction.op == "dma_copy":
            yield step.instruction


def _queue(engine: Engine, sides: set[str], *, dynamic: bool) -> tuple[str, str]:
    owner = _QUEUE_OWNERS[engine]
    if dynamic:
        return f"q{owner}Dynamic", "dynamic"
    if "input" in sides:
        return f"q{owner}In0", "in"
    if "output" in sides:
        return f"q{owner}Out0", "out"
    return f"q{owner}SpillReload0", "data"


def _pieces(dst: Access, src: Access, target: Target) -> list[dict[str, object]] | None:
    """Descriptor rows, or None when the elements are only known while the program runs."""
    if dst.is_dynamic or src.is_dynamic:
        return None
    to, source = _run(dst, target), _run(src, target)
    cut = _cut(to, source)
    if cut is None:
        return None
    names = {"from": _place(src.tensor), "to": _place(dst.tensor)}
    types = {
        "from_dtype": src.element_type.name,
        "to_dtype": dst.element_type.name,
    }
    same = src.element_type == dst.element_type
    rows: list[dict[str, object]] = []
    for (from_offset, from_run), (to_offset, to_run) in cut:
        row: dict[str, object] = {} if same else {"op": "cast", **types}
        row |= _side("from", names["from"], from_offset, from_run)
        row |= _side("to", names["to"], to_offset, to_run)
        rows.append(row)
    return rows


def _place(tensor: Tensor) -> str:
    if tensor.buffer is MemoryRegion.sbuf:
        return "SB"
    return "PSUM" if tensor.buffer is MemoryRegion.psum else tensor.name


def _side(side: str, name: str, offset: int, run: list[tuple[int, int]]) -> dict[str, object]:
    return {
        side: name,
        f"{side}_off": offset,
        f"{side}_steps": [step for step, _ in run],
        f"{side}_sizes": [count for _, count in run],
    }


def _run(access: Access, target: Target) -> Run:
    """An access as bytes, its bytes of an element as the innermost dimension."""
    tensor, size = access.tensor, access.element_type.itemsize
    if not tensor.on_chip:
        run = [(step * size, count) for step, count in reversed(access.pattern)]
        return access.offset * size, _merged([(1, size), *run])
    psum = tensor.buffer is MemoryRegion.psum
    row = target.psum_partition_bytes if psum else target.sbuf_partition_bytes
    width = max(1, tensor.free_bytes // size)
    partition, byte = tensor.address or (0, 0)
    first, column = divmod(access.offset, width)
    run = [(step * size, count) for step, count in reversed(access.pattern[1:])]
    lanes = [(step // width * row, count) for step, count in access.pattern[:1]]
    return (partition + first) * row + byte + column * size, _merged([(1, size), *run, *lanes])


def _merged(run: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Neighbouring dimensions that count through memory without a gap, as one."""
    merged = run[:1]
    for step, count in run[1:]:
        last_step, last_count = merged[-1]
        if count == 1:
            continue
        if step == last_step * last_count:
            merged[-1] = (last_step, last_count * count)
        else:
            merged.append((step, count))
    return merged


def _cut(to: Run, source: Run) -> list[tuple[Run, Run]] | None:
    """Both sides with at most four dimensions; outer ones become pieces of their own."""
    if len(to[1]) <= _MAX_DIMS and len(source[1]) <= _MAX_DIMS:
        return [(source, to)]
    if [count for _, count in to[1]] != [count for _, count in source[1]]:
        return None
    outer = range(_MAX_DIMS, len(to[1]))
    counts = [to[1][dim][1] for dim in outer]
    total = 1
    for count in counts:
        total *= count
    if total > _MAX_PIECES:
        return None

    def moved(run: Run, index: tuple[int, ...]) -> Run:
        shift = sum(run[1][dim][0] * i for dim, i in zip(outer, index, strict=True))
        return run[0] + shift, run[1][:_MAX_DIMS]

    return [
        (moved(source, index), moved(to, index))
        for index in itertools.product(*(range(count) for count in counts))
    ]
