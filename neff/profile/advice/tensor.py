"""A tensor engine that does little for its time: cold, or busy with transposes."""

from __future__ import annotations

from collections.abc import Iterator

from neff.profile.advice.reorder import grouped_by
from neff.profile.advice.rule import Fix, Rule, Subject
from neff.profile.advice.versions import runs_of, with_separate_values
from neff.profile.advice.without import producers, without
from neff.timing.costs import Pricing
from neff.timing.lowering import works_of
from neff.timing.work import Matmul
from nki_lang.ir import Access, Block, Engine, Instruction

__all__ = ["COLD_TENSOR", "DMA_TRANSPOSE", "TRANSPOSES"]

_COLD_SHARE = 0.5
"""Share of the products' time above which the engine counts as cold."""

_PRODUCT_GROUP_SIZES = (1 << 30, 64, 16, 8, 4)
"""Sizes to try: products of one line before another line's; fewer when their tiles do not fit."""

_VENDOR_TRANSPOSE_SHARE = 0.1
"""Share of transposes in all FLOPs above which the vendor's summary warns."""


# --- cold -----------------------------------------------------------------------------------


def _cold(subject: Subject) -> Iterator[Fix]:
    parameters = subject.profile.parameters
    if parameters["tensor.cold_share"].value >= 1.0:
        return
    cold, total, pauses, culprits = _temperature(subject)
    if not total or cold / total < _COLD_SHARE or pauses < 2:
        return
    message = (
        f"the tensor engine runs at half its clock for {cold / total:.0%} of its products' time: it "
        f"pauses {pauses} times for longer than {parameters['tensor.pause_ns'].value / 1e3:.1f} µs"
    )
    yield Fix(
        message, culprits, subject.changed(lambda body: _together(body, _PRODUCT_GROUP_SIZES[0]))
    )
    for group_size in _PRODUCT_GROUP_SIZES:
        bodies = subject.changed(
            lambda body, group_size=group_size: _together(
                with_separate_values(body, lambda tensor: True)[0], group_size
            )
        )
        yield Fix(message, culprits, bodies)
    yield Fix(message, culprits, subject.bodies, tensor_is_warm=True)


def _temperature(subject: Subject) -> tuple[float, float, int, tuple[Instruction, ...]]:
    """Return the cold and the total time of products, the pauses, and the instructions computed
    cold.
    """
    pricing = Pricing(subject.profile.parameters)
    pause = subject.profile.parameters["tensor.pause_ns"].value
    warm_ns: dict[int, float] = {}
    cold = total = last = 0.0
    pauses, culprits = 0, dict[int, Instruction]()
    for event in subject.estimate.cores[subject.core].events:
        if event.lane != "tensor" or event.opcode == "load_weights":
            continue
        instruction: Instruction = event.source
        expected = warm_ns.get(id(instruction))
        if expected is None:
            passes = [work for work in works_of(instruction) if type(work) is Matmul]
            expected = warm_ns[id(instruction)] = (
                pricing.cost(passes[-1]).interval if passes else 0.0
            )
        duration = event.end - event.start
        total += expected * event.turns
        pauses += event.turns if last and event.start - last > pause else 0
        last = event.start + expected
        if expected and duration - expected > expected:
            cold += expected * event.turns
            culprits.setdefault(id(instruction), instruction)
    return cold, total, pauses, tuple(culprits.values())


def _product(instruction: Instruction) -> str:
    return str(instruction.location) if instruction.engine is Engine.tensor else ""


def _together(body: Block, group_size: int) -> Block:
    statements: Block = []
    for run in runs_of(body):
        statements += grouped_by(run, _product, group_size) if isinstance(run, list) else [run]
    return statements


# --- transposes -----------------------------------------------------------------------------


def _is_transpose(instruction: Instruction) -> bool:
    if instruction.engine is not Engine.tensor:
        return False
    return instruction.op == "nc_transpose" or bool(instruction.operands.get("is_transpose"))


def _columns(access: object) -> int:
    count = 1
    if type(access) is Access:
        for _, extent in access.pattern[1:]:
            count *= extent
    return count


def _flops(instruction: Instruction) -> int:
    """2 x rows x columns x elements, as the vendor's profiler counts, transposes too."""
    operands = instruction.operands
    left, right = operands.get("stationary"), operands.get("moving")
    if type(left) is Access and type(right) is Access:
        return 2 * left.pattern[0][1] * _columns(left) * _columns(right)
    data = operands.get("data")
    if instruction.op == "nc_transpose" and type(data) is Access:
        return 2 * data.pattern[0][1] ** 2 * _columns(data)
    return 0


def _transposes(subject: Subject) -> Iterator[Fix]:
    transposed = sum(_flops(inst) for inst in subject.instructions() if _is_transpose(inst))
    total = sum(_flops(inst) for inst in subject.instructions() if inst.engine is Engine.tensor)
    if not transposed or transposed <= _VENDOR_TRANSPOSE_SHARE * total:
        return
    culprits: list[Instruction] = []
    statements: Block = []
    for run in runs_of(subject.body):
        if not isinstance(run, list):
            statements.append(run)
            continue
        dropped = _transposing(run)
        culprits += [run[index] for index in dropped if _is_transpose(run[index])]
        statements += without(run, dropped) if dropped else run
    message = (
        f"{len(culprits)} transposes are {transposed / total:.0%} of the tensor engine's FLOPs; the "
        f"vendor's summary warns above {_VENDOR_TRANSPOSE_SHARE:.0%}"
    )
    yield Fix(message, tuple(culprits), subject.with_body(statements))


def _transposing(run: list[Instruction]) -> dict[int, frozenset[int]]:
    """Return the transposes, and the copies of nothing but their results out of PSUM."""
    wrote = producers(run)
    dropped = {
        index: frozenset(wrote[index]) for index, inst in enumerate(run) if _is_transpose(inst)
    }
    for index, inst in enumerate(run):
        is_copy = inst.op == "tensor_copy" or (
            inst.op == "activation" and inst.operands.get("op") == "copy"
        )
        if is_copy and wrote[index] and all(_is_transpose(run[writer]) for writer in wrote[index]):
            dropped[index] = frozenset(wrote[index])
    return dropped


def _dma_transposes(subject: Subject) -> Iterator[Fix]:
    """Yield copies of the same bytes without the transpose, which the tensor engine would do."""
    culprits = [inst for inst in subject.instructions() if inst.op == "dma_transpose"]
    if not culprits:
        return
    moved = sum(_columns(inst.operands["dst"]) for inst in culprits)
    message = (
        f"{len(culprits)} transfers transpose {moved:,} elements of each partition on their way"
    )
    yield Fix(message, tuple(culprits), subject.changed(_untransposed))


def _untransposed(body: Block) -> Block:
    statements: Block = []
    for run in runs_of(body):
        if not isinstance(run, list):
            run.body = _untransposed(run.body)
            statements.append(run)
            continue
        statements += [_plain_copy(inst) if inst.op == "dma_transpose" else inst for inst in run]
    return statements


def _plain_copy(instruction: Instruction) -> Instruction:
    operands = instruction.operands
    copied = {name: operands.get(name) for name in ("dst", "src", "dge_mode")}
    return Instruction("dma_copy", copied, instruction.engine, "", instruction.location)


COLD_TENSOR = Rule(
    "PERF-COLD-TENSOR",
    "The tensor engine is cold",
    "Its clock is halved until it has been busy for some microseconds without a pause, and again after "
    "a pause (tensor.warm_up_ns, tensor.pause_ns, tensor.cold_share).",
    "compute the products of all tiles first, without a pause, and then process their results",
    _cold,
)

TRANSPOSES = Rule(
    "PERF-TRANSPOSES",
    "Transposes take the tensor engine's time",
    "A transpose passes through the tensor engine as a product does (NKI performance guide, Opt #8: "
    "mitigating overhead from tensor transposes).",
    "swap stationary and moving, or store the input in the layout that the product reads",
    _transposes,
)

DMA_TRANSPOSE = Rule(
    "PERF-DMA-TRANSPOSE",
    "Transfers that transpose",
    "A DMA transpose reaches a fraction of the bandwidth (NKI performance guide, Opt #10: minimize use "
    "of DMA transposes; dma.transpose_bytes_per_ns).",
    "load the tile without a transpose and use nisa.nc_transpose, or store the input transposed",
    _dma_transposes,
)
