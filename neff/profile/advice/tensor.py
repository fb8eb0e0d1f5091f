"""A tensor engine that does little for its time: cold, or busy with transposes."""

from __future__ import annotations

from collections.abc import Iterator

from neff.profile.advice.reorder import grouped_by
from neff.profile.advice.rule import Mend, Rule, Subject
from neff.profile.advice.versions import apart, runs_of
from neff.profile.advice.without import producers, without
from neff.timing.costs import Pricing
from neff.timing.lowering import works_of
from neff.timing.work import Matmul
from nki_lang.ir import Access, Block, Engine, Instruction

__all__ = ["COLD_TENSOR", "DMA_TRANSPOSE", "TRANSPOSES"]

_COLD_SHARE = 0.5
"""Of the products' time, from which on the engine is called cold."""

_AT_ONCE = (1 << 30, 64, 16, 8, 4)
"""Products of one line before those of another one; fewer when their tiles do not fit."""

_VENDOR_SHARE = 0.1
"""Transposes, of all FLOPs of the tensor engine; the vendor's summary warns above."""


# --- cold -----------------------------------------------------------------------------------


def _cold(subject: Subject) -> Iterator[Mend]:
    parameters = subject.profile.parameters
    if parameters["tensor.cold_share"].value >= 1.0:
        return
    cold, whole, pauses, culprits = _temperature(subject)
    if not whole or cold / whole < _COLD_SHARE or pauses < 2:
        return
    message = (
        f"the tensor engine runs at half its clock for {cold / whole:.0%} of its products' time: it "
        f"pauses {pauses} times for longer than {parameters['tensor.pause_ns'].value / 1e3:.1f} µs"
    )
    yield Mend(message, culprits, subject.changed(lambda body: _together(body, _AT_ONCE[0])))
    for most in _AT_ONCE:
        bodies = subject.changed(
            lambda body, most=most: _together(apart(body, lambda one: True)[0], most)
        )
        yield Mend(message, culprits, bodies)
    yield Mend(message, culprits, subject.bodies, tensor_is_warm=True)


def _temperature(subject: Subject) -> tuple[float, float, int, tuple[Instruction, ...]]:
    """Products' time on the cold engine, on any; pauses; and what is computed cold."""
    pricing = Pricing(subject.profile.parameters)
    pause = subject.profile.parameters["tensor.pause_ns"].value
    warm_ns: dict[int, float] = {}
    cold = whole = last = 0.0
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
        spent = event.end - event.start
        whole += expected * event.turns
        pauses += event.turns if last and event.start - last > pause else 0
        last = event.start + expected
        if expected and spent - expected > expected:
            cold += expected * event.turns
            culprits.setdefault(id(instruction), instruction)
    return cold, whole, pauses, tuple(culprits.values())


def _product(instruction: Instruction) -> str:
    return str(instruction.location) if instruction.engine is Engine.tensor else ""


def _together(body: Block, most: int) -> Block:
    found: Block = []
    for run in runs_of(body):
        found += grouped_by(run, _product, most) if isinstance(run, list) else [run]
    return found


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
    given = instruction.operands
    left, right = given.get("stationary"), given.get("moving")
    if type(left) is Access and type(right) is Access:
        return 2 * left.pattern[0][1] * _columns(left) * _columns(right)
    data = given.get("data")
    if instruction.op == "nc_transpose" and type(data) is Access:
        return 2 * data.pattern[0][1] ** 2 * _columns(data)
    return 0


def _transposes(subject: Subject) -> Iterator[Mend]:
    transposed = sum(_flops(one) for one in subject.instructions() if _is_transpose(one))
    whole = sum(_flops(one) for one in subject.instructions() if one.engine is Engine.tensor)
    if not transposed or transposed <= _VENDOR_SHARE * whole:
        return
    culprits: list[Instruction] = []
    found: Block = []
    for run in runs_of(subject.body):
        if not isinstance(run, list):
            found.append(run)
            continue
        dropped = _transposing(run)
        culprits += [run[index] for index in dropped if _is_transpose(run[index])]
        found += without(run, dropped) if dropped else run
    message = (
        f"{len(culprits)} transposes are {transposed / whole:.0%} of the tensor engine's FLOPs; the "
        f"vendor's summary warns above {_VENDOR_SHARE:.0%}"
    )
    yield Mend(message, tuple(culprits), subject.with_body(found))


def _transposing(run: list[Instruction]) -> dict[int, frozenset[int]]:
    """Transposes, and copies of nothing but their results out of PSUM."""
    wrote = producers(run)
    dropped = {
        index: frozenset(wrote[index]) for index, one in enumerate(run) if _is_transpose(one)
    }
    for index, one in enumerate(run):
        is_copy = one.op == "tensor_copy" or (
            one.op == "activation" and one.operands.get("op") == "copy"
        )
        if is_copy and wrote[index] and all(_is_transpose(run[other]) for other in wrote[index]):
            dropped[index] = frozenset(wrote[index])
    return dropped


def _dma_transposes(subject: Subject) -> Iterator[Mend]:
    """The same bytes moved as they lie; a transpose by the tensor engine is left out of it."""
    culprits = [one for one in subject.instructions() if one.op == "dma_transpose"]
    if not culprits:
        return
    moved = sum(_columns(one.operands["dst"]) for one in culprits)
    message = (
        f"{len(culprits)} transfers transpose {moved:,} elements of each partition on their way"
    )
    yield Mend(message, tuple(culprits), subject.changed(_untransposed))


def _untransposed(body: Block) -> Block:
    found: Block = []
    for run in runs_of(body):
        if not isinstance(run, list):
            run.body = _untransposed(run.body)
            found.append(run)
            continue
        found += [_plain(one) if one.op == "dma_transpose" else one for one in run]
    return found


def _plain(instruction: Instruction) -> Instruction:
    given = instruction.operands
    operands = {"dst": given["dst"], "src": given["src"], "dge_mode": given.get("dge_mode")}
    return Instruction("dma_copy", operands, instruction.engine, "", instruction.location)


COLD_TENSOR = Rule(
    "PERF-COLD-TENSOR",
    "The tensor engine is cold",
    "Its clock is halved until it was busy for some microseconds without a pause, and again after "
    "one (tensor.warm_up_ns, tensor.pause_ns, tensor.cold_share).",
    "let products follow each other: those of all tiles first, then what works on their results",
    _cold,
)

TRANSPOSES = Rule(
    "PERF-TRANSPOSES",
    "Transposes take the tensor engine's time",
    "A transpose passes through the tensor engine as a product does (NKI performance guide, Opt #8: "
    "mitigating overhead from tensor transposes).",
    "swap stationary and moving, or lay the input out as the product reads it",
    _transposes,
)

DMA_TRANSPOSE = Rule(
    "PERF-DMA-TRANSPOSE",
    "Transfers that transpose",
    "A DMA transpose reaches a part of the bandwidth (NKI performance guide, Opt #10: minimize use "
    "of DMA transposes; dma.transpose_bytes_per_ns).",
    "load as it lies and transpose with nisa.nc_transpose, or lay the input out the other way",
    _dma_transposes,
)
