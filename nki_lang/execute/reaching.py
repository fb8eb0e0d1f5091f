"""Finds unwritten elements that certainly reach a result through arithmetic, before a program runs.

A kernel may read a tile that was written partially, if the unwritten elements reach no result. So
the analysis follows unwritten elements from instruction to instruction, as
:mod:`nki_lang.analysis.gaps` follows them through copies, and reports a result that contains a value
computed from them. It finds what an element of an instruction's result depends on by executing that
instruction alone on samples: the element depends on the unwritten elements when it is NaN because
they are NaN, or changes with their bits, for every sample. A comparison turns NaN into a number: its
result depends on the unwritten elements when any other content of them changes it. Whatever is
unknown before a run counts as written: predicated instructions, registers, dynamic locations, loops
on the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki_lang.analysis.fresh import MATMUL_OPS, inside
from nki_lang.analysis.gaps import COPY_OPS
from nki_lang.analysis.liveness import accesses_in, accesses_of, reachable, written_by
from nki_lang.analysis.program_order import program_order
from nki_lang.analysis.unwritten import UnwrittenRead, unwritten_reads
from nki_lang.base.errors import NkiError, reports_bugs
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.source import SourceLocation
from nki_lang.base.targets import Target
from nki_lang.execute.marks import hides_nan
from nki_lang.execute.memory import Memory
from nki_lang.execute.prepare import OPERAND_ERRORS, prepare
from nki_lang.ir.coverage import Coverage, piece_of
from nki_lang.ir.fresh import SCALE_OPERANDS, is_fresh_fill
from nki_lang.ir.types import Access, Block, Instruction, Register, Tensor, walk
from nki_lang.semantics import TRAITS
from nki_lang.semantics.floats import engine_floats

__all__ = ["ReachingRead", "certain_reads", "reaching_reads"]

Mask = NDArray[np.bool_]
Array = NDArray[Any]

_MAX_OPERAND_ELEMENTS = 1 << 22
"""Larger operands count as written: their samples would take too long."""

_MAX_SAMPLED_ELEMENTS = 1 << 26
"""Limit for all samples of one program; instructions after it count as written."""

_NONDETERMINISTIC_OPS = frozenset({"dropout", "rand2", "rng", "rand_get_state", "rand_set_state"})
"""Instructions whose results differ from one execution to the next."""


@dataclass(frozen=True, slots=True)
class ReachingRead:
    """An operand that reads unwritten elements whose values reach a result.

    Attributes:
        tensor: the tensor that is read.
        op, operand: the instruction and its operand.
        index: index of the first unwritten element in the operand.
        location: source line of the instruction.
        result: name of the result that contains a value computed from the elements.
    """

    tensor: Tensor
    op: str
    operand: str
    index: tuple[int, ...]
    location: SourceLocation | None
    result: str = ""

    @property
    def message(self) -> str:
        """The fault in one sentence: instruction, operand, element, tensor and result."""
        position = ", ".join(map(str, self.index))
        return (
            f"{self.op} reads element [{position}] of its {self.operand}, tensor "
            f"{self.tensor.name!r}, before anything was written there, and the value reaches the "
            f"result {self.result!r}; what a device finds there is undefined, here it is NaN "
            "(integers: all bits set)"
        )


def certain_reads(
    bodies: Sequence[Block],
    results: Sequence[Tensor],
    doubtful: Container[str],
    target: Target,
) -> list[UnwrittenRead | ReachingRead]:
    """Return operands without content, and operands whose missing elements reach a result; each
    line once.

    The arguments are those of :func:`reaching_reads`.
    """
    without_content = unwritten_reads(bodies, doubtful)
    locations = {read.location for read in without_content}
    partial = reaching_reads(bodies, results, doubtful, target)
    return [*without_content, *(read for read in partial if read.location not in locations)]


def reaching_reads(
    bodies: Sequence[Block],
    results: Sequence[Tensor],
    doubtful: Container[str],
    target: Target,
) -> list[ReachingRead]:
    """Return the reads of unwritten elements that certainly reach a result, the first at each line.

    Args:
        bodies: the statements of each core, with accumulation made explicit.
        results: tensors that the caller reads after the run.
        doubtful: names of the tensors that may be read before they are written.
        target: the target family.
    """
    cores = [
        _TaintFlow(body, results, doubtful, target, single_core=len(bodies) == 1) for body in bodies
    ]
    first_reads: dict[object, ReachingRead] = {}
    for position, core in enumerate(cores):
        other_cores = cores[:position] + cores[position + 1 :]
        for tensor in results:
            for read in core.reaching(tensor, other_cores):
                first_reads.setdefault(read.location, read)
    return list(first_reads.values())


class _TaintFlow:
    """Follows the writes of one core, and the elements computed from unwritten memory (tainted)."""

    def __init__(
        self,
        body: Block,
        results: Sequence[Tensor],
        doubtful: Container[str],
        target: Target,
        *,
        single_core: bool,
    ) -> None:
        self._doubtful, self._single_core = doubtful, single_core
        self._samples = _Samples(target)
        self._written: dict[str, Coverage] = {}
        self._tainted: set[str] = set()
        self._comparison_results: set[str] = set()
        self._origins: dict[str, dict[SourceLocation | None, ReachingRead]] = {}
        self._followed = _sources(body, {tensor.name for tensor in results})
        if any(name in doubtful for name in self._followed):
            self._block(body)

    def reaching(self, tensor: Tensor, other_cores: Sequence[_TaintFlow]) -> Iterator[ReachingRead]:
        """Yield the reads that taint the final content of the result, if no other core overwrites
        it.
        """
        origins, coverage = self._origins.get(tensor.name), self._written.get(tensor.name)
        if not origins or coverage is None or coverage.complete:
            return
        everything = piece_of(_flat(tensor))
        tainted = coverage.tainted(everything)
        for core in other_cores:
            writes = core._written.get(tensor.name)
            if writes is not None:
                tainted &= writes.unwritten(everything)
        if tainted.any():
            yield from (replace(read, result=tensor.name) for read in origins.values())

    def _block(self, body: Block) -> None:
        for instruction, certain in program_order(body, enters_loops=False):
            if certain:
                self._instruction(instruction)
            else:
                self._write_clean(instruction)

    def _instruction(self, instruction: Instruction) -> None:
        if is_fresh_fill(instruction):
            return
        missing = self._missing(instruction)
        if missing and instruction.op in COPY_OPS and self._copy(instruction):
            return
        names = {instruction.operands[name].tensor.name for name in missing}
        compared = not names.isdisjoint(self._comparison_results)
        tainted = (
            self._samples.tainted(instruction, missing, compared=compared) if missing else None
        )
        if not tainted:
            self._write_clean(instruction)
            return
        origins: dict[SourceLocation | None, ReachingRead] = {}
        for name, mask in missing.items():
            tensor = instruction.operands[name].tensor
            index = tuple(int(coordinate) for coordinate in np.argwhere(mask)[0])
            read = ReachingRead(tensor, instruction.op, name, index, instruction.location)
            origins |= self._origins.get(tensor.name) or {read.location: read}
        for name in TRAITS[instruction.op].writes:
            access = instruction.operands.get(name)
            if type(access) is not Access or access.tensor.name not in self._followed:
                continue
            mask = tainted.get(name)
            if mask is None or not mask.any():
                if not _accumulates(instruction):
                    self._clean(access)
                continue
            self._coverage(access.tensor).taint(piece_of(access), mask)
            self._tainted.add(access.tensor.name)
            if compared or hides_nan(instruction):
                self._comparison_results.add(access.tensor.name)
            self._origins.setdefault(access.tensor.name, {}).update(origins)

    def _copy(self, instruction: Instruction) -> bool:
        """Follow a copy: unwritten elements stay unwritten, since results that lack them are
        reported separately.
        """
        source, target = instruction.operands["src"], instruction.operands["dst"]
        if not _is_static_operand(target) or math.prod(source.shape) != math.prod(target.shape):
            return False
        piece, coverage = piece_of(source), self._coverage(source.tensor)
        tainted, unwritten = coverage.tainted(piece), coverage.unwritten(piece)
        self._clean(target)
        name, coverage = target.tensor.name, self._coverage(target.tensor)
        if name not in self._followed or target.tensor.fixed:
            return True
        self._tainted.add(name)
        if tainted.any():
            coverage.taint(piece_of(target), tainted.reshape(target.shape))
            self._origins.setdefault(name, {}).update(self._origins.get(source.tensor.name, {}))
        coverage.forget(piece_of(target), unwritten.reshape(target.shape))
        if source.tensor.name in self._comparison_results:
            self._comparison_results.add(name)
        return True

    def _missing(self, instruction: Instruction) -> dict[str, Mask]:
        """Return the operands with elements that are unwritten or tainted, and a mask of these
        elements.
        """
        missing: dict[str, Mask] = {}
        writes = TRAITS[instruction.op].writes if instruction.op in TRAITS else ()
        for name, access in instruction.operands.items():
            if type(access) is not Access or name in writes or name in SCALE_OPERANDS:
                continue
            if not self._is_followed(access.tensor) or access.is_dynamic or not inside(access):
                continue
            coverage = self._coverage(access.tensor)
            if coverage.complete or 0 in access.shape or coverage.has(piece_of(access)):
                continue
            missing[name] = coverage.missing(piece_of(access))
        return missing

    def _is_followed(self, tensor: Tensor) -> bool:
        if tensor.name not in self._followed or tensor.fixed:
            return False
        if tensor.name not in self._doubtful and tensor.name not in self._tainted:
            return False
        return self._single_core or tensor.buffer is not MemoryRegion.shared_hbm

    def _write_clean(self, instruction: Instruction) -> None:
        if is_fresh_fill(instruction) or _accumulates(instruction):
            return  # an accumulation keeps the old content
        for access in written_by(instruction):
            if access.tensor.name in self._followed:
                self._clean(access)

    def _clean(self, access: Access) -> None:
        coverage = self._coverage(access.tensor)
        if access.is_dynamic or access.tensor.fixed or not inside(access):
            coverage.finish()
        else:
            coverage.add(piece_of(access))
        if coverage.complete:
            self._origins.pop(access.tensor.name, None)
            self._tainted.discard(access.tensor.name)

    def _coverage(self, tensor: Tensor) -> Coverage:
        coverage = self._written.get(tensor.name)
        if coverage is None:
            coverage = self._written[tensor.name] = Coverage(tensor.nbytes)
        return coverage


class _Samples:
    """Executes single instructions on samples, to find what their results depend on."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._results: dict[object, dict[str, Mask] | None] = {}
        self._sampled = 0

    def tainted(
        self, instruction: Instruction, missing: Mapping[str, Mask], *, compared: bool
    ) -> dict[str, Mask] | None:
        """Return which written elements certainly depend on the missing elements; None for none.

        ``compared``: the missing elements come from comparisons, so they are 0 or 1.
        Equal instructions (of an unrolled loop) are executed once.
        """
        if not _is_deterministic(instruction):
            return None
        separate, key = _on_separate_tensors(instruction)
        key = (key, compared, tuple((name, mask.tobytes()) for name, mask in missing.items()))
        if key not in self._results:
            size = sum(access.tensor.elements for access in accesses_of(separate))
            self._sampled += size
            affordable = size <= _MAX_OPERAND_ELEMENTS and self._sampled <= _MAX_SAMPLED_ELEMENTS
            self._results[key] = (
                self._depending(separate, missing, compared=compared) if affordable else None
            )
        return self._results[key]

    def _depending(
        self, instruction: Instruction, missing: Mapping[str, Mask], *, compared: bool
    ) -> dict[str, Mask] | None:
        masks: dict[str, Mask] = {}
        compares = compared or hides_nan(instruction)
        fills = (*_FILL_BYTES, 0xAA, *_immediates(instruction)) if compares else _FILL_BYTES
        fills = (0.0, 1.0) if compared else fills
        samples = (_ones, _steps, _zeros, _negatives) if compares else (_ones, _steps)
        try:
            for sample in samples:
                runs = [self._run(instruction, missing, sample, fill) for fill in fills]
                for name in runs[0]:
                    results = [run[name] for run in runs]
                    mask = _varies(results) if compares else _differs(*results)
                    masks[name] = mask & masks[name] if name in masks else mask
        except NkiError:
            return None  # the run itself will report it
        except OPERAND_ERRORS:
            if not reports_bugs():
                raise
            return None
        return masks

    def _run(
        self,
        instruction: Instruction,
        missing: Mapping[str, Mask],
        sample: Callable[[Array], Array],
        fill: int | float | None,
    ) -> dict[str, Array]:
        """Return what the instruction writes when unwritten bytes are ``fill`` (None: as the sample).

        A float ``fill`` is the value of each unwritten element.
        """
        memory = Memory(self._target, fresh=False, precise=True)
        for access in accesses_of(instruction):
            view = memory.view(access)
            view[...] = sample(view)
        for name, mask in missing.items() if fill is not None else ():
            view = memory.view(instruction.operands[name])
            if isinstance(fill, float):
                view[mask] = np.float32(fill).astype(view.dtype)
                continue
            bits = view.view(f"u{view.dtype.itemsize}")
            bits[mask] = int.from_bytes(bytes([fill or 0]) * view.dtype.itemsize, "little")
        with engine_floats():
            prepare(instruction, memory)()
        writes = TRAITS[instruction.op].writes
        operands = ((name, instruction.operands.get(name)) for name in writes)
        return {name: memory.view(a).copy() for name, a in operands if type(a) is Access}


_FILL_BYTES = (0xFF, 0x00, 0x55, None)
"""Bytes for unwritten elements: fresh memory (NaN), zeros, alternating bits, and the sample
itself.
"""


def _ones(view: Array) -> Array:
    return np.ones(view.shape, np.float32).astype(view.dtype)


def _steps(view: Array) -> Array:
    steps = np.resize(np.arange(1, 8, dtype=np.float32), view.shape)
    return steps.astype(view.dtype)


def _zeros(view: Array) -> Array:
    return np.zeros_like(view)


def _negatives(view: Array) -> Array:
    return -_steps(view) if view.dtype.kind != "u" else _steps(view)


def _immediates(instruction: Instruction) -> tuple[float, ...]:
    """Return the numbers that the instruction may compare with."""
    numbers = {float(v) for v in instruction.operands.values() if type(v) in (int, float)}
    return tuple(sorted(numbers))


def _varies(results: list[Array]) -> Mask:
    """Return the elements whose bits are not equal in all results."""
    first, *later_results = (np.ascontiguousarray(result) for result in results)
    bits = first.view(f"u{first.dtype.itemsize}")
    varies = np.zeros(first.shape, np.bool_)
    for result in later_results:
        varies |= result.view(bits.dtype) != bits
    return varies


def _differs(fresh: Array, zeros: Array, alternating: Array, sample: Array) -> Mask:
    """Return the elements that are NaN because of fresh memory, or integers that follow its
    bits.
    """
    if fresh.dtype.kind not in "iub":
        return np.isnan(fresh.astype(np.float32)) & ~np.isnan(sample.astype(np.float32))
    return (fresh != zeros) & (fresh != alternating)


def _is_deterministic(instruction: Instruction) -> bool:
    """Return True if the written values depend only on operands that are known before a run."""
    traits = TRAITS.get(instruction.op)
    if traits is None or traits.raw or instruction.op in _NONDETERMINISTIC_OPS:
        return False
    if traits.updates and instruction.op not in MATMUL_OPS:
        return False
    if "location" in traits.injected or instruction.operands.get("oob_mode") == "skip":
        return False  # it exchanges data, or it may keep old elements
    return all(_is_static_operand(value) for value in instruction.operands.values())


def _accumulates(instruction: Instruction) -> bool:
    return instruction.op in MATMUL_OPS and bool(instruction.operands.get("accumulate"))


def _is_static_operand(value: object) -> bool:
    if type(value) is Access:
        return not value.is_dynamic and inside(value)
    if isinstance(value, tuple | list):
        return not any(isinstance(entry, Access | Register) for entry in value)  # pyright: ignore[reportUnknownVariableType]
    return type(value) is not Register


def _on_separate_tensors(instruction: Instruction) -> tuple[Instruction, object]:
    """Return the instruction on separate tensors, and a key that equal instructions share."""
    names: dict[str, Tensor] = {}
    operands: dict[str, object] = {}
    for name, value in instruction.operands.items():
        if type(value) is Access:
            tensor = names.get(value.tensor.name)
            if tensor is None:
                tensor = replace(
                    value.tensor, name=str(len(names)), address=None, fixed=False,
                    buffer=MemoryRegion.sbuf if value.tensor.on_chip else MemoryRegion.private_hbm,
                )  # fmt: skip
                names[value.tensor.name] = tensor
            value = value._replace(tensor=tensor)
        operands[name] = value
    return replace(instruction, operands=operands), (instruction.op, repr(operands))


def _flat(tensor: Tensor) -> Access:
    return Access(tensor, 0, ((1, tensor.elements),))


def _sources(body: Block, names: set[str]) -> set[str]:
    """Return the tensors and all tensors that are read to compute them, transitively."""
    reads: dict[str, set[str]] = {}
    for instruction in walk(body):
        read = {
            access.tensor.name
            for value in instruction.operands.values()
            for access in accesses_in(value)
        }
        for access in written_by(instruction):
            reads.setdefault(access.tensor.name, set()).update(read)
    return reachable(names, reads)
