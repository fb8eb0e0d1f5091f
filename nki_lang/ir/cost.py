"""What each instruction costs, as far as that is documented: one row an instruction.

The vendor's current documentation gives hardly any figures; its version 2.26 gave a formula for
most instructions (git history of the documentation, commit 1db4d74e, nki/api/nki/isa), measured
on the second generation. The rows use those formulas for every generation, with the clock of the
target; faster modes of later engines are not in them. Where nothing is published the cost is
None, "unknown". ``N`` is the number of elements in one partition; no instruction takes less than
``MIN_II`` cycles unless its row says so.

Sources: ``isa 2.26:<line>`` = that file; ``isa 0.6:<line>`` = the stub of NKI 0.6.0; A1, A2, A3 =
the architecture guides of trainium_inferentia2, trainium2 and trainium3; B = the DMA bandwidth
guide (nki/deep-dives/nki-dma-bandwidth-guide.rst); shared = nki.api.shared.rst.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from types import MappingProxyType
from typing import Any

from nki_lang.ir.types import Access, Engine, Instruction, KernelIR
from nki_lang.memory import MemoryRegion
from nki_lang.targets import Target, target_of

__all__ = ["GPSIMD_START", "MIN_II", "ROWS", "Cost", "Costs", "Row", "cost", "kernel_cost"]

MIN_II = 64
"""Cycles between two instructions of one engine, at least (isa 2.26, "roughly 64")."""

MIN_II_DYNAMIC = 600
"""The same for a copy whose address is only known while the kernel runs (isa 2.26:1434)."""

GPSIMD_START = 150
"""Cycles that an instruction of the GpSimd engine takes to start (isa 2.26:291)."""

DMA_START_NS = 1300.0
"""From the semaphore to the first byte, across engines (B:41)."""

DMA_BYTES_PER_NS = MappingProxyType({"trn1": 17.0, "trn2": 23.0, "trn3": 33.0})
"""One DMA engine in practice (B:60-63); sixteen of them serve a core."""

UNKNOWN = "unknown: not documented"


@dataclass(frozen=True, slots=True)
class Cost:
    """What one instruction takes.

    Attributes:
        engine: where it runs.
        cycles: of that engine's clock; None when it is unknown or the work of a DMA engine.
        nanoseconds: None when it is unknown.
        source: where the figure stands, or why there is none.
    """

    engine: Engine
    cycles: int | None
    nanoseconds: float | None
    source: str


Formula = Callable[[Instruction], "int | Fraction | None"]


@dataclass(frozen=True, slots=True)
class Row:
    """The cost of one instruction.

    Attributes:
        op: name of the instruction.
        engine: where it runs when nothing else is said.
        formulas: engine -> cycles; an engine without an entry is not documented.
        source: where the formulas stand.
    """

    op: str
    engine: Engine
    formulas: MappingProxyType[Engine, Formula]
    source: str


# --- what the formulas count ----------------------------------------------------------------


def _elements(access: Any) -> int:
    """Elements of one partition."""
    count = 1
    if type(access) is Access:
        for _, extent in access.pattern[1:]:
            count *= extent
    return count


def _partitions(access: Access) -> int:
    return access.pattern[0][1] if access.pattern else 1


def _widest(instruction: Instruction) -> int:
    """``N``: elements in one partition of the widest operand."""
    return max((_elements(value) for value in instruction.operands.values()), default=1)


def _types(instruction: Instruction, *names: str) -> set[str]:
    found = (instruction.operands.get(name) for name in names)
    return {access.element_type.name for access in found if type(access) is Access}


def _in(access: Any, buffer: MemoryRegion) -> bool:
    return type(access) is Access and access.tensor.buffer is buffer


def _is_dynamic(instruction: Instruction) -> bool:
    return any(type(one) is Access and one.is_dynamic for one in instruction.operands.values())


def _dense(access: Any) -> bool:
    """Neighbours in a partition are neighbours in memory."""
    return type(access) is Access and (len(access.pattern) < 2 or access.pattern[-1][0] == 1)


# --- formulas -------------------------------------------------------------------------------


def _per_element(times: int | Fraction = 1, start: int = 0, least: int = MIN_II) -> Formula:
    return lambda instruction: start + max(least, times * _widest(instruction))


def _memset(instruction: Instruction) -> Fraction | int:
    fast = _types(instruction, "dst") <= {"bfloat16", "float16"}
    half = fast and instruction.operands.get("value") == 0
    return max(MIN_II, Fraction(_widest(instruction), 2 if half else 1))


def _matmul(instruction: Instruction) -> int | None:
    stationary, moving = instruction.operands.get("stationary"), instruction.operands.get("moving")
    passes = 4 if "float32" in _types(instruction, "stationary", "moving") else 1
    return max(min(64, _elements(stationary)), _elements(moving)) * passes


def _tensor_transpose(instruction: Instruction) -> int | None:
    data = instruction.operands.get("data")
    if type(data) is not Access:
        return None
    return max(_partitions(data), min(64, _elements(data)))


def _scalar_tensor_tensor(instruction: Instruction) -> int:
    given, count = instruction.operands, _widest(instruction)
    fast = (
        _types(instruction, "data", "operand1") == {"bfloat16"}
        and (given.get("op0"), given.get("op1")) == ("subtract", "multiply")
        and count % 2 == 0
    )
    return count if fast else 2 * count


def _tensor_tensor(instruction: Instruction) -> int:
    given = instruction.operands
    left, right, count = given.get("data1"), given.get("data2"), _widest(instruction)
    mixed = _in(left, MemoryRegion.psum) != _in(right, MemoryRegion.psum)
    fast = (
        _in(left, MemoryRegion.sbuf)
        and _in(right, MemoryRegion.sbuf)
        and _types(instruction, "dst", "data1", "data2") == {"bfloat16"}
        and given.get("op") in ("add", "multiply", "subtract")
        and _dense(left)
        and _dense(right)
    )
    return max(MIN_II, count if mixed or fast else 2 * count)


def _copy(instruction: Instruction) -> int:
    return max(MIN_II_DYNAMIC if _is_dynamic(instruction) else MIN_II, _widest(instruction))


def _predicated(instruction: Instruction) -> int:
    given = instruction.operands
    both = _in(given.get("src"), MemoryRegion.sbuf) and _in(
        given.get("predicate"), MemoryRegion.sbuf
    )
    return max(MIN_II, _widest(instruction) * (2 if both else 1))


def _reduce(instruction: Instruction) -> Fraction | int:
    fast = _types(instruction, "data") == {"bfloat16"}
    half = fast and instruction.operands.get("op") in ("add", "maximum")
    return Fraction(_widest(instruction), 2 if half else 1)


def _local_gather(instruction: Instruction) -> Fraction | None:
    given = instruction.operands
    each, index, source = given.get("num_elem_per_idx"), given.get("index"), given.get("src_buffer")
    if type(each) is not int or each < 1 or type(index) is not Access or type(source) is not Access:
        return None
    valid = given.get("num_valid_indices")
    if type(valid) is not int:
        valid = _elements(index) * 16
    rate = Fraction(28 + 4 * each, 4 * each) / min(Fraction(4, source.element_type.itemsize), each)
    return GPSIMD_START + valid * each / rate


def _topk(instruction: Instruction) -> int | None:
    count, kept = instruction.operands.get("n"), _elements(instruction.operands.get("val_dst"))
    return 4 * count + kept if type(count) is int else None


# --- the table ------------------------------------------------------------------------------

_T, _V, _S, _G = Engine.tensor, Engine.vector, Engine.scalar, Engine.gpsimd


def _row(op: str, engine: Engine, source: str, **formulas: Formula) -> Row:
    by_engine = {Engine[name]: formula for name, formula in formulas.items()}
    return Row(op, engine, MappingProxyType(by_engine), source)


_N = _per_element()

_TABLE = (
    _row("activation", _S, "isa 2.26:168", scalar=_N),
    _row("activation_reduce", _S, "isa 2.26:237", scalar=_per_element(start=MIN_II)),
    _row("affine_select", _G, "isa 2.26:291", gpsimd=_per_element(start=GPSIMD_START, least=0)),
    _row("iota", _G, "isa 2.26:567", gpsimd=_per_element(start=GPSIMD_START, least=0)),
    _row("local_gather", _G, "isa 2.26:630", gpsimd=_local_gather),
    _row("bn_aggr", _V, "isa 2.26:337", vector=_per_element(Fraction(13, 3))),
    _row("bn_stats", _V, "isa 2.26:386", vector=_N),
    _row("dropout", _V, "isa 2.26:529", vector=_N),
    _row("nc_stream_shuffle", _V, "isa 2.26:993", vector=_N),
    _row("range_select", _V, "isa 2.26:1135", vector=_N),
    _row("max8", _V, "isa 2.26:655", vector=_per_element(least=0)),
    _row("nc_find_index8", _V, "isa 2.26:727", vector=_per_element(least=0)),
    _row("nc_match_replace8", _V, "isa 2.26:795, which prints min where all others print max",
         vector=_N),
    _row("memset", _V, "isa 2.26:714", vector=_memset, gpsimd=_memset),
    _row("nc_matmul", _T, "isa 2.26:908", tensor=_matmul),
    _row("nc_transpose", _T, "isa 2.26:1052", tensor=_tensor_transpose, vector=_N),
    _row("reciprocal", _V, "shared:243", vector=_per_element(8), scalar=_N),
    _row("scalar_tensor_tensor", _V, "isa 2.26:1206", vector=_scalar_tensor_tensor),
    _row("tensor_copy", _V, "isa 2.26:1398, 1434, 1467", vector=_copy, scalar=_copy, gpsimd=_copy),
    _row("tensor_copy_predicated", _V, "isa 2.26:1521", vector=_predicated),
    _row("tensor_reduce", _V, "isa 2.26:1605", vector=_reduce),
    _row("tensor_scalar", _V, "isa 2.26:1678", vector=_N, scalar=_N),
    _row("tensor_scalar_reduce", _V, "isa 2.26:1738", vector=_per_element(start=MIN_II)),
    _row("tensor_tensor", _V, "isa 2.26:1803", vector=_tensor_tensor),
    _row("tensor_tensor_scan", _V, "isa 2.26:1888", vector=_per_element(2)),
    _row("topk", _G, "isa 0.6:3341", gpsimd=_topk),
    _row("exponential", _V, "A3:179, four times the rate of activation",
         vector=_per_element(Fraction(1, 4))),
    _row("quantize_mx", _V, "A3:172, four elements of a partition in a cycle",
         vector=_per_element(Fraction(1, 4))),
    _row("nc_matmul_mx", _T, UNKNOWN),
    _row("activate2", _S, UNKNOWN),
    _row("tensor_partition_reduce", _G, UNKNOWN),
    _row("tensor_scalar_cumulative", _V, UNKNOWN),
    _row("select_reduce", _V, UNKNOWN),
    _row("sequence_bounds", _G, UNKNOWN),
    _row("nonzero_with_count", _G, UNKNOWN),
    _row("nc_n_gather", _G, UNKNOWN),
    _row("rng", _V, UNKNOWN),
    _row("rand2", _V, UNKNOWN),
    _row("rand_get_state", _G, UNKNOWN),
    _row("rand_set_state", _G, UNKNOWN),
    _row("set_rng_seed", _G, UNKNOWN),
    _row("register_alloc", Engine.unknown, UNKNOWN),
    _row("register_move", Engine.unknown, UNKNOWN),
    _row("register_load", Engine.unknown, UNKNOWN),
    _row("register_store", Engine.unknown, UNKNOWN),
    _row("register_alu", Engine.unknown, UNKNOWN),
    _row("core_barrier", _G, UNKNOWN),
    _row("sendrecv", Engine.dma, UNKNOWN),
    _row("dma_compute", Engine.dma, UNKNOWN),
    _row("device_print", Engine.dma, UNKNOWN),
)  # fmt: skip

ROWS: MappingProxyType[str, Row] = MappingProxyType({row.op: row for row in _TABLE})


# --- DMA ------------------------------------------------------------------------------------


def _bytes(access: Access) -> int:
    return _partitions(access) * _elements(access) * access.element_type.itemsize


def _share(instruction: Instruction) -> float:
    """Share of the DMA bandwidth that is reached (A2:321, 340 for transposes)."""
    if instruction.op == "dma_copy":
        return 1.0
    between = all(_in(instruction.operands[name], MemoryRegion.sbuf) for name in ("dst", "src"))
    return 0.5 if between else 0.9


def _dma(instruction: Instruction, target: Target) -> Cost:
    """A copy: its rows go to the DMA engines of the core, which work side by side."""
    dst, src = instruction.operands.get("dst"), instruction.operands.get("src")
    if type(dst) is not Access or type(src) is not Access:
        return Cost(Engine.dma, None, None, UNKNOWN)
    engines = max(1, min(target.dma_queues, _partitions(dst)))
    rate = DMA_BYTES_PER_NS[target.name] * engines * _share(instruction)
    moved = max(_bytes(dst), _bytes(src)) / rate
    return Cost(Engine.dma, None, DMA_START_NS + moved, "B:41, 58-64; A2:321, 340 for transposes")


# --- the public functions --------------------------------------------------------------------


def cost(instruction: Instruction, target: Target | str) -> Cost:
    """The documented cost of an instruction on a target.

    Nothing is raised for an instruction without a row: its cost is unknown.
    """
    chosen = target_of(target) if isinstance(target, str) else target
    if instruction.op in ("dma_copy", "dma_transpose"):
        return _dma(instruction, chosen)
    row = ROWS.get(instruction.op)
    if row is None:
        return Cost(instruction.engine, None, None, UNKNOWN)
    engine = row.engine if instruction.engine is Engine.unknown else instruction.engine
    formula = row.formulas.get(engine)
    found = None if formula is None else formula(instruction)
    if found is None:
        why = UNKNOWN if formula is not None or not row.formulas else f"{UNKNOWN} for {engine.name}"
        return Cost(engine, None, None, why)
    cycles = ceil(found)
    return Cost(engine, cycles, cycles / chosen.clocks_ghz[engine.name], row.source)


class Costs(list[tuple[Instruction, Cost]]):
    """The instructions of a kernel with their costs; prints as a table, a line an instruction."""

    def __repr__(self) -> str:
        rows = [f"{'line':<24} {'engine':<8} {'cycles':>8} {'ns':>10}  instruction"]
        for instruction, price in self:
            place = instruction.location
            line = f"{os.path.basename(place.file)}:{place.line}" if place else ""
            cycles = "-" if price.cycles is None else str(price.cycles)
            ns = "-" if price.nanoseconds is None else f"{price.nanoseconds:.1f}"
            told = f"{instruction.op} {instruction.name or ''}".rstrip()
            rows.append(f"{line:<24} {price.engine.name:<8} {cycles:>8} {ns:>10}  {told}")
        return "\n".join(rows)


def kernel_cost(kernel_ir: KernelIR) -> Costs:
    """Every instruction of a kernel with its cost, in program order, loops not repeated."""
    target = target_of(kernel_ir.target)
    return Costs(
        (instruction, cost(instruction, target)) for instruction in kernel_ir.instructions()
    )
