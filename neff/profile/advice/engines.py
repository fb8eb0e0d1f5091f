"""Engines with nothing to do beside one that has too much, and transfers that one engine starts."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import replace

from neff.profile.advice.rule import BEST, Mend, Rule, Subject
from neff.profile.advice.versions import runs_of, values_of
from neff.profile.stalls import engine_splits
from neff.timing.instructions import InstructionCosts
from neff.timing.transfers import COPIES
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.targets import target_of
from nki_lang.ir import Access, Block, Engine, Instruction
from nki_lang.ir.types import walk
from nki_lang.isa.table import TABLE

__all__ = ["IDLE_ENGINE", "ONE_QUEUE"]

_FULL, _IDLE = 0.6, 0.65
"""Share of the time for which an engine is busy, from which on; and of that, up to which another."""

_FREE = 0.3
"""Share of the time for which an engine is busy that could start transfers for another one."""

_CANDIDATES = 4
"""Lines of the full engine that are tried, the costliest first."""

_COMPUTING = (Engine.vector, Engine.scalar, Engine.gpsimd)

_LINEAR = frozenset({"add", "subtract", "multiply"})
_AS_TENSOR_SCALAR = frozenset({"copy", "identity", "relu"})

Line = tuple[str, object]


def _line(instruction: Instruction) -> Line:
    return instruction.op, instruction.location


def _moved(instruction: Instruction, engine: Engine, generation: int) -> Instruction | None:
    """The instruction, or one that computes the same, on another engine."""
    op, given = instruction.op, instruction.operands
    if engine is Engine.gpsimd and _touches_psum(instruction):
        return None
    if op == "activation" and engine is Engine.vector:
        if str(given.get("op")) not in _AS_TENSOR_SCALAR or given.get("reduce_res") is not None:
            return None
        operands = {"dst": given["dst"], "data": given["data"], "op0": "multiply", "operand0": 1.0}
        return replace(instruction, op="tensor_scalar", operands=operands, engine=engine)
    spec = TABLE.get(op)
    if spec is None or engine not in spec.engines[generation]:
        return None
    if engine is Engine.scalar and op == "tensor_scalar" and not _is_linear(given):
        return None
    return replace(instruction, engine=engine)


def _is_linear(given: dict[str, object]) -> bool:
    return {given.get("op0"), given.get("op1")} - {None} <= _LINEAR


def _touches_psum(instruction: Instruction) -> bool:
    return any(
        type(value) is Access and value.tensor.buffer is MemoryRegion.psum
        for value in instruction.operands.values()
    )


def _mends(subject: Subject) -> Iterator[Mend]:
    core = subject.estimate.cores[subject.core]
    busy = {
        Engine[name]: lane.occupied_ns / (core.total.value or 1.0)
        for name, lane in core.engines.items()
    }
    full = max(_COMPUTING, key=lambda engine: busy.get(engine, 0.0))
    if busy.get(full, 0.0) < _FULL:
        return
    generation = target_of(subject.program.target).generation
    for idle in _COMPUTING:
        if idle is full or busy.get(idle, 0.0) > _IDLE * busy[full]:
            continue
        lines = _costly_lines(subject, full, idle, generation)
        if not lines:
            continue
        message = (
            f"{full.name} is busy for {busy[full]:.0%} of the time, {idle.name} for "
            f"{busy.get(idle, 0.0):.0%}; {idle.name} could execute "
        )
        for line, own in list(lines.items())[:_CANDIDATES]:
            for every in (1, 2, 3):
                body = _shared(subject.body, {line}, full, idle, generation, every)
                yield Mend(message + own[0].op, tuple(own), subject.with_body(body))
        everything = tuple(one for own in lines.values() for one in own)
        for every in (2, 3):
            body = _shared(subject.body, set(lines), full, idle, generation, every)
            yield Mend(message + "some of its lines", everything, subject.with_body(body))


def _costly_lines(
    subject: Subject, full: Engine, idle: Engine, generation: int
) -> dict[Line, list[Instruction]]:
    """Lines of the full engine that the idle one could execute, the costliest first."""
    costs = InstructionCosts(subject.profile.parameters)
    found: dict[Line, list[Instruction]] = {}
    spent: dict[Line, float] = {}
    for one in walk(subject.body):
        if one.engine is not full or one.op in COPIES or _moved(one, idle, generation) is None:
            continue
        line = _line(one)
        found.setdefault(line, []).append(one)
        spent[line] = spent.get(line, 0.0) + costs.of(one).interval
    return dict(sorted(found.items(), key=lambda item: -spent[item[0]]))


def _shared(
    body: Block, lines: set[Line], full: Engine, idle: Engine, generation: int, every: int
) -> Block:
    """The statements with one in ``every`` tiles of some lines on the idle engine."""
    found: Block = []
    tiles: dict[tuple[str, int], int] = {}
    for run in runs_of(body):
        if not isinstance(run, list):
            inner = _shared(run.body, lines, full, idle, generation, every)
            found.append(replace(run, body=inner))
            continue
        values = values_of(run, lambda one: one.on_chip)
        for index, one in enumerate(run):
            moved = (
                _moved(one, idle, generation)
                if one.engine is full and _line(one) in lines
                else None
            )
            dst = one.operands.get("dst")
            if moved is None or type(dst) is not Access:
                found.append(one)
                continue
            name = dst.tensor.name
            number = tiles.setdefault((name, bisect_right(values.get(name, []), index)), len(tiles))
            found.append(moved if (number + 1) % every == 0 else one)
    return found


def _each(body: Block, renewed: Callable[[Instruction], Instruction]) -> Block:
    found: Block = []
    for statement in body:
        if isinstance(statement, Instruction):
            found.append(renewed(statement))
        else:
            found.append(replace(statement, body=_each(statement.body, renewed)))
    return found


# --- who starts transfers -------------------------------------------------------------------


def _queues(subject: Subject) -> Iterator[Mend]:
    """Loads and stores of one engine, every other one started by another engine."""
    total = subject.total_ns or 1.0
    splits = {Engine[split.engine]: split for split in engine_splits(subject.profile, subject.core)}
    transfers = [one for one in subject.instructions() if one.op in COPIES]
    for engine in (Engine.sync, Engine.scalar, Engine.gpsimd):
        split = splits.get(engine)
        own = [one for one in transfers if one.engine is engine]
        if split is None or len(own) < 4 or split.issue_ns / total < _FULL:
            continue
        for other in (Engine.scalar, Engine.sync):
            beside = splits.get(other)
            if (
                other is engine
                or beside is None
                or beside.busy_ns + beside.issue_ns > _FREE * total
            ):
                continue
            message = (
                f"{engine.name} starts {len(own)} transfers and is busy with that for "
                f"{split.issue_ns / total:.0%} of the time; {other.name} could start half of them"
            )
            yield Mend(
                message, tuple(own), subject.with_body(_alternated(subject.body, engine, other))
            )


def _alternated(body: Block, engine: Engine, other: Engine) -> Block:
    counts: dict[object, int] = {}

    def renewed(one: Instruction) -> Instruction:
        if one.op not in COPIES or one.engine is not engine:
            return one
        counts[one.location] = count = counts.get(one.location, 0) + 1
        return one if count % 2 else replace(one, engine=other)

    return _each(body, renewed)


IDLE_ENGINE = Rule(
    "PERF-IDLE-ENGINE",
    "One engine is full while another one idles",
    "Engines work beside each other; what two of them can execute is best shared (NKI performance "
    "guide, Opt #3: overlap execution across compute engines; engines of each instruction in the "
    "instruction table).",
    "give some of it to the other engine: engine=nisa.scalar_engine, or every other tile",
    _mends,
    takes=BEST,
)

ONE_QUEUE = Rule(
    "PERF-ONE-QUEUE",
    "One engine starts all transfers",
    "Starting a transfer keeps its engine for half a microsecond (dma.issue_ns, "
    "dma.software_issue_ns), and each engine has queues of its own.",
    "start some from another engine: dma_copy(..., engine=nisa.scalar_engine, dge_mode=nisa.dge_mode.hwdge)",
    _queues,
    takes=BEST,
)
