"""Idle engines next to a full one, and transfers that one engine starts alone."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from neff.profile.advice.rule import BEST_FIX, Fix, Rule, Subject
from neff.profile.advice.versions import runs_of, values_of
from neff.profile.stalls import engine_splits
from neff.timing.instructions import InstructionCosts
from neff.timing.transfers import COPIES
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.targets import target_of
from nki_lang.ir import Access, Block, Engine, Instruction
from nki_lang.ir.types import walk
from nki_lang.isa.table import TABLE

__all__ = ["GPSIMD", "IDLE_ENGINE", "ONE_QUEUE"]

_MIN_FULL_SHARE, _MAX_IDLE_RATIO = 0.6, 0.65
"""Busy share of a full engine, and the largest ratio of an idle one's share to it."""

_MIN_PATH_SHARE = 0.03
"""Lines of GpSimd with a smaller share of the critical path stay where they are."""

_MAX_STARTER_SHARE = 0.3
"""An engine that is busy for at most this share could start transfers for another one."""

_MAX_CANDIDATE_LINES = 4
"""Number of lines of the full engine that are tried, the costliest first."""

_COMPUTING = (Engine.vector, Engine.scalar, Engine.gpsimd)

_LINEAR = frozenset({"add", "subtract", "multiply"})
_AS_TENSOR_SCALAR = frozenset({"copy", "identity", "relu"})

Line = tuple[str, object]


def _line(instruction: Instruction) -> Line:
    return instruction.op, instruction.location


def _moved(instruction: Instruction, engine: Engine, generation: int) -> Instruction | None:
    """Return an equivalent instruction for another engine, None when that engine has none."""
    op, operands = instruction.op, instruction.operands
    if engine is Engine.gpsimd and _touches_psum(instruction):
        return None
    if op == "activation" and engine is Engine.vector:
        if (
            str(operands.get("op")) not in _AS_TENSOR_SCALAR
            or operands.get("reduce_res") is not None
        ):
            return None
        scaled = {
            "dst": operands["dst"], "data": operands["data"], "op0": "multiply", "operand0": 1.0,
        }  # fmt: skip
        return replace(instruction, op="tensor_scalar", operands=scaled, engine=engine)
    spec = TABLE.get(op)
    if spec is None or engine not in spec.engines[generation]:
        return None
    if engine is Engine.scalar and op == "tensor_scalar" and not _is_linear(operands):
        return None
    return replace(instruction, engine=engine)


def _is_linear(operands: dict[str, object]) -> bool:
    return {operands.get("op0"), operands.get("op1")} - {None} <= _LINEAR


def _touches_psum(instruction: Instruction) -> bool:
    return any(
        type(value) is Access and value.tensor.buffer is MemoryRegion.psum
        for value in instruction.operands.values()
    )


def _fixes(subject: Subject) -> Iterator[Fix]:
    core = subject.estimate.cores[subject.core]
    busy = {
        Engine[name]: lane.occupied_ns / (core.total.value or 1.0)
        for name, lane in core.engines.items()
    }
    full = max(_COMPUTING, key=lambda engine: busy.get(engine, 0.0))
    if busy.get(full, 0.0) < _MIN_FULL_SHARE:
        return
    generation = target_of(subject.program.target).generation
    for idle in _COMPUTING:
        if idle is full or busy.get(idle, 0.0) > _MAX_IDLE_RATIO * busy[full]:
            continue
        lines = _costly_lines(subject, full, idle, generation)
        if not lines:
            continue
        message = (
            f"{full.name} is busy for {busy[full]:.0%} of the time, {idle.name} for "
            f"{busy.get(idle, 0.0):.0%}; {idle.name} could execute "
        )
        for line, instructions in list(lines.items())[:_MAX_CANDIDATE_LINES]:
            for period in (1, 2, 3):
                body = _shared(subject.body, {line}, full, idle, generation, period)
                yield Fix(
                    message + instructions[0].op, tuple(instructions), subject.with_body(body)
                )
        everything = tuple(inst for instructions in lines.values() for inst in instructions)
        for period in (2, 3):
            body = _shared(subject.body, set(lines), full, idle, generation, period)
            yield Fix(message + "some of its lines", everything, subject.with_body(body))


def _costly_lines(
    subject: Subject, full: Engine, idle: Engine, generation: int
) -> dict[Line, list[Instruction]]:
    """Return the lines of the full engine that the idle one could execute, the costliest first."""
    costs = InstructionCosts(subject.profile.parameters)
    by_line: dict[Line, list[Instruction]] = {}
    cost_ns: dict[Line, float] = {}
    for inst in walk(subject.body):
        if inst.engine is not full or inst.op in COPIES or _moved(inst, idle, generation) is None:
            continue
        line = _line(inst)
        by_line.setdefault(line, []).append(inst)
        cost_ns[line] = cost_ns.get(line, 0.0) + costs.of(inst).interval
    return dict(sorted(by_line.items(), key=lambda item: -cost_ns[item[0]]))


def _shared(
    body: Block, lines: set[Line], full: Engine, idle: Engine, generation: int, period: int
) -> Block:
    """Return the statements with one in ``period`` tiles of the lines on the idle engine."""
    statements: Block = []
    tiles: dict[tuple[str, int], int] = {}
    for run in runs_of(body):
        if not isinstance(run, list):
            inner = _shared(run.body, lines, full, idle, generation, period)
            statements.append(replace(run, body=inner))
            continue
        values = values_of(run, lambda tensor: tensor.on_chip)
        for index, inst in enumerate(run):
            moved = (
                _moved(inst, idle, generation)
                if inst.engine is full and _line(inst) in lines
                else None
            )
            dst = inst.operands.get("dst")
            if moved is None or type(dst) is not Access:
                statements.append(inst)
                continue
            name = dst.tensor.name
            number = tiles.setdefault((name, bisect_right(values.get(name, []), index)), len(tiles))
            statements.append(moved if (number + 1) % period == 0 else inst)
    return statements


def _with_instructions(body: Block, renewed: Callable[[Instruction], Instruction]) -> Block:
    statements: Block = []
    for statement in body:
        if isinstance(statement, Instruction):
            statements.append(renewed(statement))
        else:
            statements.append(replace(statement, body=_with_instructions(statement.body, renewed)))
    return statements


# --- work of GpSimd --------------------------------------------------------------------------


def _off_gpsimd(subject: Subject) -> Iterator[Fix]:
    """Yield fixes that move lines from GpSimd, which needs longer for each instruction, elsewhere."""
    generation = target_of(subject.program.target).generation
    total = subject.total_ns or 1.0
    for engine in (Engine.vector, Engine.scalar):
        lines = {
            line: instructions
            for line, instructions in _costly_lines(
                subject, Engine.gpsimd, engine, generation
            ).items()
            if _path_share(subject, instructions, total) > _MIN_PATH_SHARE
        }
        choices = [[line] for line in list(lines)[:_MAX_CANDIDATE_LINES]]
        if len(lines) > 1:
            choices.append(list(lines))
        for choice in choices:
            culprits = tuple(inst for line in choice for inst in lines[line])
            share = _path_share(subject, culprits, total)
            message = (
                f"gpsimd executes {culprits[0].op} for {share:.0%} of the critical path; "
                f"{engine.name} needs less time for it"
            )
            body = _shared(subject.body, set(choice), Engine.gpsimd, engine, generation, 1)
            yield Fix(message, culprits, subject.with_body(body))


def _path_share(subject: Subject, instructions: Iterable[Instruction], total: float) -> float:
    """Return the share of the time for which the lines of instructions are the critical path."""
    places = {str(inst.location) for inst in instructions if inst.location is not None}
    return sum(subject.cost(place)[0] for place in places) / total


# --- who starts transfers -------------------------------------------------------------------


def _queues(subject: Subject) -> Iterator[Fix]:
    """Yield fixes that let another engine start every second load or store of an engine."""
    total = subject.total_ns or 1.0
    splits = {Engine[split.engine]: split for split in engine_splits(subject.profile, subject.core)}
    transfers = [inst for inst in subject.instructions() if inst.op in COPIES]
    for engine in (Engine.sync, Engine.scalar, Engine.gpsimd):
        split = splits.get(engine)
        started = [inst for inst in transfers if inst.engine is engine]
        if split is None or len(started) < 4 or split.issue_ns / total < _MIN_FULL_SHARE:
            continue
        for helper in (Engine.scalar, Engine.sync):
            helper_split = splits.get(helper)
            if (
                helper is engine
                or helper_split is None
                or helper_split.busy_ns + helper_split.issue_ns > _MAX_STARTER_SHARE * total
            ):
                continue
            message = (
                f"{engine.name} starts {len(started)} transfers and is busy with that for "
                f"{split.issue_ns / total:.0%} of the time; {helper.name} could start half of them"
            )
            yield Fix(
                message,
                tuple(started),
                subject.with_body(_alternated(subject.body, engine, helper)),
            )


def _alternated(body: Block, engine: Engine, helper: Engine) -> Block:
    counts: dict[object, int] = {}

    def renewed(inst: Instruction) -> Instruction:
        if inst.op not in COPIES or inst.engine is not engine:
            return inst
        counts[inst.location] = count = counts.get(inst.location, 0) + 1
        return inst if count % 2 else replace(inst, engine=helper)

    return _with_instructions(body, renewed)


IDLE_ENGINE = Rule(
    "PERF-IDLE-ENGINE",
    "One engine is busy while another is idle",
    "Engines run in parallel, so work that two of them can execute ends earlier when both do it (NKI performance "
    "guide, Opt #3: overlap execution across compute engines; engines of each instruction in the "
    "instruction table).",
    "move part of the work to the other engine (engine=nisa.scalar_engine), for instance every second tile",
    _fixes,
    takes=BEST_FIX,
)

GPSIMD = Rule(
    "PERF-GPSIMD",
    "GpSimd executes what another engine can",
    "GpSimd starts an instruction every 150 cycles and is slower for each element (gpsimd.start_cycles, "
    "gpsimd.plain_cycles). Without an engine, the compiler here takes the engine with the least work so far, "
    "whether or not the next instruction waits for the result.",
    "name the engine: engine=nisa.engine.vector, or nisa.engine.scalar",
    _off_gpsimd,
    takes=BEST_FIX,
)

ONE_QUEUE = Rule(
    "PERF-ONE-QUEUE",
    "One engine starts all transfers",
    "Starting a transfer keeps its engine for half a microsecond (dma.issue_ns, "
    "dma.software_issue_ns), and each engine has queues of its own.",
    "start some transfers from another engine: dma_copy(..., engine=nisa.scalar_engine, dge_mode=nisa.dge_mode.hwdge)",
    _queues,
    takes=BEST_FIX,
)
