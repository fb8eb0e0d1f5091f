"""A program's engine lists as work for the machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from neff.program import EngineLoop, EngineStep, Step, SubGraph
from neff.timing.links import link_of
from neff.timing.machine import Item, Loop, Steps
from neff.timing.ports import memories_of
from neff.timing.transfers import COPIES, lanes_of, transfer_of
from neff.timing.work import Compute, Fixed, Matmul, Weights, Work
from nki_lang.base.memory import MemoryRegion
from nki_lang.ir import Access, Engine, Instruction, Tensor
from nki_lang.isa.table import COLLECTIVES

__all__ = ["Lowering", "table_of", "works_of"]

_FUNCTIONS_IN_EVERY_TABLE = frozenset({"copy", "identity", "square", "abs", "relu", "sign", "none"})
"""Functions that every table contains (assumed)."""

_MIN_FRACTIONAL_MEAN = 2
"""Smaller means of iterations are rounded: a loop has a first iteration and equal others."""

_PSUM = MemoryRegion.psum
_WAIT = Fixed("semaphore.more_ns")
_TABLE_LOAD = Fixed("scalar.table_load_ns")
_OPERAND = ("vector.operand_cycles",)
_ACTIVATE = ("scalar.activate_interval_cycles", "scalar.activate_latency_cycles")
_FROM_SBUF = ("scalar.sbuf_interval_cycles", "scalar.sbuf_latency_cycles")


class _Form(NamedTuple):
    """The common work of instructions that differ only in the locations of their tiles in SBUF.

    Attributes:
        is_copy: the DMA engines carry it out.
        table: of functions that it needs, "" for none.
        before: number and name of the works in front of the last one.
        last: number of the last work.
    """

    is_copy: bool
    table: str
    before: list[tuple[int, str]]
    last: int


class Lowering:
    """Lowers the programs of one core; equal work has one number.

    Args:
        is_static: descriptors of transfers whose location is known are ready in memory.
        trips: iterations of loops that only a run determines: of all, or the mean by loop ident.

    Attributes:
        works: by number.
        unknown_loops: loops whose iterations only a run determines.
    """

    def __init__(self, is_static: bool, trips: int | Mapping[int, float] | None) -> None:
        self.works: list[Work] = []
        self.unknown_loops = 0
        self._is_static = is_static
        self._trips = trips
        self._numbers: dict[Work, int] = {}
        self._forms: dict[tuple[object, ...], _Form] = {}
        self._written: dict[int, Tensor | None] = {}
        self._table = ""
        self._unknown_loop_idents: set[int] = set()

    def lower(self, graph: SubGraph) -> Steps:
        """Return the items of each engine, in order."""
        return {engine.name: self._block(steps) for engine, steps in graph.engines.items()}

    def _block(self, steps: list[EngineStep]) -> list[Item | Loop]:
        items: list[Item | Loop] = []
        for step in steps:
            if type(step) is Step:
                self._step(step, items)
            else:
                items.append(self._loop(step, items))  # type: ignore[arg-type]
        return items

    def _loop(self, loop: EngineLoop, before: list[Item | Loop]) -> Loop:
        """Lower a loop; a body with one function table loads it before the loop."""
        tables = _tables(loop.body)
        if len(tables) == 1 and tables != {self._table}:
            before.append(Item(self._number(_TABLE_LOAD), "act_table_load", (), (), False, None))
        self._table = next(iter(tables)) if len(tables) == 1 else self._table if not tables else ""
        body = self._block(loop.body)
        return Loop(loop.ident, self._iterations(loop), body)

    def _iterations(self, loop: EngineLoop) -> float:
        trips = loop.trips
        if trips is not None:
            return trips
        if isinstance(self._trips, Mapping) and loop.ident in self._trips:
            mean = self._trips[loop.ident]
            return mean if mean >= _MIN_FRACTIONAL_MEAN else round(mean)
        if loop.ident not in self._unknown_loop_idents:
            self._unknown_loop_idents.add(loop.ident)
            self.unknown_loops += 1
        return self._trips if isinstance(self._trips, int) else 1

    def _step(self, step: Step, items: list[Item | Loop]) -> None:
        instruction, waits = step.instruction, step.waits
        form, follows = self._form(instruction)
        if len(waits) > 1 and not form.is_copy:
            number = self._number(_WAIT)
            for wait in waits[:-1]:
                items.append(Item(number, "event_semaphore", (wait,), (), False, instruction))
            waits = waits[-1:]
        if form.table and form.table != self._table:
            self._table = form.table
            number = self._number(_TABLE_LOAD)
            items.append(Item(number, "act_table_load", (), (), False, instruction))
        for number, name in form.before:
            items.append(Item(number, name, waits, (), follows, instruction))
            waits = ()
        items.append(Item(form.last, instruction.op, waits, step.signals, follows, instruction))

    def _form(self, instruction: Instruction) -> tuple[_Form, bool]:
        """Return an instruction's form, and whether it reads the last result of its engine.

        Most instructions of a program differ only in their tiles' addresses: their work is
        computed once.
        """
        op, operands, engine = instruction.op, instruction.operands, instruction.engine
        written = self._written.get(id(engine))
        follows = False
        is_copy = op in COPIES
        key: list[object] = [op, id(engine), *operands]
        for name, value in operands.items():
            if type(value) is not Access:
                key.append(value)
                continue
            tensor, offset, pattern, scalar, vector, _, dtype, _ = value
            buffer = tensor.buffer
            # Members of enumerations and types are never freed, and their hashes are slow.
            location = (tensor.address, offset) if buffer is _PSUM else None
            if is_copy:
                location = lanes_of(value)
            key.append((
                pattern, id(buffer), id(dtype or tensor.dtype), scalar is None, vector is None, location
            ))  # fmt: skip
            if written is not None and name != "dst":
                follows |= tensor.address == written.address and buffer is written.buffer
        form = self._cached_form(tuple(key), instruction)
        if form.is_copy or engine is _T:
            return form, False
        dst = operands.get("dst")
        self._written[id(engine)] = dst.tensor if type(dst) is Access else None
        return form, follows

    def _cached_form(self, key: tuple[object, ...], instruction: Instruction) -> _Form:
        """Return the cached form with that key, or compute the instruction's."""
        try:
            form = self._forms.get(key)
        except TypeError:  # an operand without a hash
            return self._form_of(instruction)
        if form is None:
            form = self._forms[key] = self._form_of(instruction)
        return form

    def _form_of(self, instruction: Instruction) -> _Form:
        *before, last = works_of(instruction, self._is_static)
        if type(last) is Compute:
            last = last._replace(memories=memories_of(instruction))
        pieces = [
            (self._number(work), "load_weights" if type(work) is Weights else instruction.op)
            for work in before
        ]
        table = table_of(instruction) if instruction.engine is _S else ""
        return _Form(instruction.op in COPIES, table, pieces, self._number(last))

    def _number(self, work: Work) -> int:
        number = self._numbers.get(work)
        if number is None:
            number = self._numbers[work] = len(self.works)
            self.works.append(work)
        return number


def works_of(instruction: Instruction, is_static: bool = False) -> tuple[Work, ...]:
    """The work of an instruction on its engine, in order.

    Args:
        instruction: with its engine.
        is_static: transfers whose location is known have their descriptors ready in memory.
    """
    if instruction.op in COPIES:
        return (transfer_of(instruction, is_static),)
    rule = _RULES.get((instruction.engine, instruction.op)) or _RULES.get(
        (Engine.unknown, instruction.op)
    )
    if rule is not None:
        return rule(instruction)
    default = _DEFAULTS.get(instruction.engine)
    return (Fixed("control.register_ns"),) if default is None else (default(instruction),)


def _tables(steps: list[EngineStep]) -> set[str]:
    """Return the function tables that the activations of a loop's body need."""
    tables: set[str] = set()
    for step in steps:
        if type(step) is Step:
            if step.instruction.engine is Engine.scalar:
                tables.add(table_of(step.instruction))
        else:
            tables |= _tables(step.body)  # type: ignore[union-attr]
    return tables - {""}


def table_of(instruction: Instruction) -> str:
    """The table of functions that an instruction of the scalar engine needs; "" for none."""
    if not instruction.op.startswith("activat"):
        return "reciprocal" if instruction.op == "reciprocal" else ""
    function = str(instruction.operands.get("op", ""))
    return "" if function in _FUNCTIONS_IN_EVERY_TABLE else function


# --- what the rules read --------------------------------------------------------------------


def _elements(access: object) -> int:
    """Elements of one partition."""
    count = 1
    if type(access) is Access:
        for _, extent in access.pattern[1:]:
            count *= extent
    return count


def _widest(instruction: Instruction) -> int:
    widest = 1
    for value in instruction.operands.values():
        if type(value) is Access:
            widest = max(widest, _elements(value))
    return widest


def _size(access: object) -> int:
    return access.element_type.itemsize if type(access) is Access else 0


def _in_sbuf(access: object) -> bool:
    return type(access) is Access and access.tensor.buffer is MemoryRegion.sbuf


def _fast(instruction: Instruction, source: str) -> str:
    """Return the rate of an instruction with one input tensor and one output tensor."""
    operands = instruction.operands
    data, dst = operands.get(source), operands.get("dst")
    if not _in_sbuf(dst) or (source in operands and not _in_sbuf(data)):
        return "vector.plain_cycles"
    is_wide = max(_size(data), _size(dst)) > 2
    return "vector.fast_32_cycles" if is_wide else "vector.fast_16_cycles"


# --- rules ----------------------------------------------------------------------------------

Rule = Callable[[Instruction], tuple[Work, ...]]


def _vector(rate: str, extras: tuple[str, ...] = ()) -> Rule:
    return lambda instruction: (Compute("vector", rate, _widest(instruction), extras),)


def _copy(instruction: Instruction) -> tuple[Work, ...]:
    return (Compute("vector", _fast(instruction, "src"), _widest(instruction)),)


def _memset(instruction: Instruction) -> tuple[Work, ...]:
    return (Compute("vector", _fast(instruction, ""), _widest(instruction)),)


def _tensor_scalar(instruction: Instruction) -> tuple[Work, ...]:
    return (Compute("vector", _fast(instruction, "data"), _widest(instruction), _OPERAND),)


def _reduce(instruction: Instruction) -> tuple[Work, ...]:
    operands = instruction.operands
    is_fast = _size(operands.get("data")) == 2 and operands.get("op") in ("add", "maximum")
    rate = "vector.reduce_16_cycles" if is_fast else "vector.plain_cycles"
    return (Compute("vector", rate, _widest(instruction)),)


def _two_sources(left: str, right: str, rate: str) -> Rule:
    """Return a rule that uses ``rate`` when both operands are in SBUF; PSUM has its own port."""

    def rule(instruction: Instruction) -> tuple[Work, ...]:
        operands = instruction.operands
        actual_rate = rate
        if not (_in_sbuf(operands.get(left)) and _in_sbuf(operands.get(right))):
            actual_rate = "vector.plain_cycles"
        elif operands.get("op") in ("add", "subtract", "multiply") and all(
            type(value) is not Access or value.element_type.name == "bfloat16"
            for value in operands.values()
        ):
            actual_rate = "vector.two_sources_fast_cycles"
        return (Compute("vector", actual_rate, _widest(instruction)),)

    return rule


def _activation(*more_extras: str) -> Rule:
    def rule(instruction: Instruction) -> tuple[Work, ...]:
        extras = (*_ACTIVATE, *more_extras)
        if _in_sbuf(instruction.operands.get("data")):
            extras += _FROM_SBUF
        return (Compute("scalar", "scalar.plain_cycles", _widest(instruction), extras),)

    return rule


def _matmul(instruction: Instruction) -> tuple[Work, ...]:
    operands = instruction.operands
    columns = _elements(operands.get("moving"))
    is_fp32 = max(_size(operands.get("moving")), _size(operands.get("stationary"))) >= 4
    if is_fp32 and not operands.get("is_transpose"):
        return (Weights(True, False), Matmul(columns, "tensor.fp32_cycles")) * 2
    if is_fp32:
        return (Weights(True, True), Matmul(columns, "tensor.fp32_cycles"))
    is_double = operands.get("perf_mode") not in (None, "none")
    return (Weights(False, False), Matmul(columns, "tensor.double_cycles" if is_double else ""))


def _matmul_mx(instruction: Instruction) -> tuple[Work, ...]:
    columns = 4 * _elements(instruction.operands.get("moving"))
    return (Weights(False, False), Matmul(columns, "tensor.mx_cycles"))


def _transpose(instruction: Instruction) -> tuple[Work, ...]:
    """Return the work: the data are the weights; an identity matrix of one column per partition
    moves.
    """
    data = instruction.operands.get("data")
    columns = data.pattern[0][1] if type(data) is Access and data.pattern else 1
    is_fp32 = _size(data) >= 4
    return Weights(is_fp32, True), Matmul(columns, "tensor.fp32_cycles" if is_fp32 else "")


def _documented(instruction: Instruction) -> tuple[Work, ...]:
    return (Compute("gpsimd", "gpsimd.documented_cycles", _widest(instruction)),)


def _topk(instruction: Instruction) -> tuple[Work, ...]:
    count = instruction.operands.get("n")
    elements = 4 * count if type(count) is int else _widest(instruction)
    return (Compute("gpsimd", "gpsimd.documented_cycles", elements),)


def _fixed(parameter: str) -> Rule:
    return lambda instruction: (Fixed(parameter),)


_V, _S, _G, _T, _ANY = Engine.vector, Engine.scalar, Engine.gpsimd, Engine.tensor, Engine.unknown

_RANK_NUMBER_OPS = {"rank_id", "collective_permute_implicit_current_processing_rank_id"}
"""Instructions that return a rank's own number and move no data."""

_UNDOCUMENTED = ("rng", "rand2", "select_reduce", "tensor_scalar_cumulative", "sequence_bounds")

_RULES: dict[tuple[Engine, str], Rule] = {
    (_T, "nc_matmul"): _matmul,
    (_T, "nc_matmul_mx"): _matmul_mx,
    (_T, "nc_transpose"): _transpose,
    (_V, "tensor_copy"): _copy,
    (_V, "memset"): _memset,
    (_V, "tensor_scalar"): _tensor_scalar,
    (_V, "tensor_scalar_reduce"): _vector("vector.plain_cycles", _OPERAND * 2),
    (_V, "tensor_reduce"): _reduce,
    (_V, "tensor_tensor"): _two_sources("data1", "data2", "vector.two_sources_cycles"),
    (_V, "scalar_tensor_tensor"): _two_sources("data", "operand1", "vector.scan_cycles"),
    (_V, "tensor_tensor_scan"): _vector("vector.scan_cycles"),
    (_V, "tensor_copy_predicated"): _two_sources("src", "predicate", "vector.two_sources_cycles"),
    (_V, "reciprocal"): _vector("vector.reciprocal_cycles"),
    (_V, "bn_aggr"): _vector("vector.aggregate_cycles"),
    (_V, "exponential"): _vector("vector.quarter_cycles"),
    (_V, "quantize_mx"): _vector("vector.quarter_cycles"),
    **{(_V, op): _vector("vector.undocumented_cycles") for op in _UNDOCUMENTED},
    (_S, "activation"): _activation(),
    (_S, "activate2"): _activation(),
    (_S, "reciprocal"): _activation(),
    (_S, "tensor_scalar"): _activation(),
    (_S, "activation_reduce"): _activation("scalar.reduce_cycles"),
    (_G, "iota"): _documented,
    (_G, "affine_select"): _documented,
    (_G, "local_gather"): _documented,
    (_G, "topk"): _topk,
    (_ANY, "register_load"): _fixed("control.register_memory_ns"),
    (_ANY, "register_store"): _fixed("control.register_memory_ns"),
    (_ANY, "device_print"): _fixed("control.print_ns"),
    (_ANY, "core_barrier"): _fixed("control.barrier_ns"),
    **{
        (_ANY, op): lambda instruction: (link_of(instruction),)
        for op in COLLECTIVES - _RANK_NUMBER_OPS
    },
    **{
        (_ANY, op): _fixed("control.register_ns")
        for op in ("register_alloc", "register_move", "register_alu", *_RANK_NUMBER_OPS)
    },
}

_DEFAULTS: dict[Engine, Callable[[Instruction], Work]] = {
    _V: lambda inst: Compute("vector", "vector.plain_cycles", _widest(inst)),
    _S: lambda inst: Compute("scalar", "scalar.plain_cycles", _widest(inst)),
    _G: lambda inst: Compute("gpsimd", "gpsimd.plain_cycles", _widest(inst)),
    _T: lambda inst: Matmul(_widest(inst), ""),
}
