"""Unwritten elements that certainly reach a result through arithmetic, found before a program runs.

Reading a tile that was written in part is no fault as long as the rest goes nowhere. So unwritten
elements are followed from instruction to instruction, as :mod:`nki_lang.execute.gaps` follows them
through copies, and what counts is a result that holds a value computed from them. What an element
of an instruction's result depends on is found by executing that instruction alone on samples:
it depends on the unwritten elements when it is NaN because they are, or changes with their bits,
for every sample. Comparisons make numbers of NaN: those depend on them when any other content
changes what they write. Whatever is not known before a run counts as written: predicated instructions,
registers, dynamic places, loops of the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki_lang.errors import NkiError, reports_bugs
from nki_lang.execute.fresh import PRODUCTS, inside
from nki_lang.execute.gaps import COPIES
from nki_lang.execute.liveness import accesses_in, accesses_of, written_by
from nki_lang.execute.marks import loses
from nki_lang.execute.memory import Memory
from nki_lang.execute.prepare import OPERAND_ERRORS, prepare
from nki_lang.execute.unwritten import UnwrittenRead, unwritten_reads
from nki_lang.ir.coverage import Coverage, piece_of
from nki_lang.ir.fresh import SCALES, is_fresh_fill
from nki_lang.ir.types import Access, Block, Instruction, NoReorder, Register, Tensor, walk
from nki_lang.memory import MemoryRegion
from nki_lang.semantics import TRAITS
from nki_lang.semantics.floats import engine_floats
from nki_lang.source import SourceLocation
from nki_lang.targets import Target

__all__ = ["ReachingRead", "certain_reads", "reaching_reads"]

Mask = NDArray[np.bool_]
Array = NDArray[Any]

_MAX_ELEMENTS = 1 << 22
"""Larger operands count as written: the samples would take too long."""

_MAX_SAMPLED = 1 << 26
"""Elements that one program's samples may have together; what comes after counts as written."""

_UNDECIDED = frozenset({"dropout", "rand2", "rng", "rand_get_state", "rand_set_state"})
"""Instructions whose results differ from one execution to the next."""


@dataclass(frozen=True, slots=True)
class ReachingRead:
    """One operand that reads elements which nothing wrote, on their way to a result.

    Attributes:
        tensor: what is read.
        op, operand: the instruction and which of its operands.
        index: the first of the elements, in the operand.
        location: its line.
        result: name of the result that holds what was computed from them.
    """

    tensor: Tensor
    op: str
    operand: str
    index: tuple[int, ...]
    location: SourceLocation | None
    result: str = ""

    @property
    def message(self) -> str:
        """What reads which element, and where its value goes."""
        place = ", ".join(map(str, self.index))
        return (
            f"{self.op} reads element [{place}] of its {self.operand}, tensor "
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
    """Operands that hold nothing, and those whose missing elements reach a result; each line once.

    The arguments are those of :func:`reaching_reads`.
    """
    whole = unwritten_reads(bodies, doubtful)
    known = {read.location for read in whole}
    parts = reaching_reads(bodies, results, doubtful, target)
    return [*whole, *(read for read in parts if read.location not in known)]


def reaching_reads(
    bodies: Sequence[Block],
    results: Sequence[Tensor],
    doubtful: Container[str],
    target: Target,
) -> list[ReachingRead]:
    """Reads of unwritten elements that certainly reach a result, the first at each line.

    Args:
        bodies: the statements of each core, with accumulation made explicit.
        results: tensors that are read in the end.
        doubtful: names of the tensors that may be read before they are written.
        target: the family.
    """
    cores = [_Core(body, results, doubtful, target, alone=len(bodies) == 1) for body in bodies]
    found: dict[object, ReachingRead] = {}
    for place, core in enumerate(cores):
        others = cores[:place] + cores[place + 1 :]
        for tensor in results:
            for read in core.reaching(tensor, others):
                found.setdefault(read.location, read)
    return list(found.values())


class _Core:
    """What one core wrote, and what of it was computed from nothing."""

    def __init__(
        self,
        body: Block,
        results: Sequence[Tensor],
        doubtful: Container[str],
        target: Target,
        *,
        alone: bool,
    ) -> None:
        self._doubtful, self._alone = doubtful, alone
        self._samples = _Samples(target)
        self._written: dict[str, Coverage] = {}
        self._marked: set[str] = set()
        self._flags: set[str] = set()
        self._origins: dict[str, dict[SourceLocation | None, ReachingRead]] = {}
        self._followed = _sources(body, {tensor.name for tensor in results})
        if any(name in doubtful for name in self._followed):
            self._block(body)

    def reaching(self, tensor: Tensor, others: Sequence[_Core]) -> Iterator[ReachingRead]:
        """The reads behind what the result holds in the end, when no other core writes it."""
        origins, coverage = self._origins.get(tensor.name), self._written.get(tensor.name)
        if not origins or coverage is None or coverage.complete:
            return
        everything = piece_of(_flat(tensor))
        tainted = coverage.tainted(everything)
        for other in others:
            theirs = other._written.get(tensor.name)
            if theirs is not None:
                tainted &= theirs.unwritten(everything)
        if tainted.any():
            yield from (replace(read, result=tensor.name) for read in origins.values())

    def _block(self, body: Block) -> None:
        for statement in body:
            if isinstance(statement, Instruction):
                self._instruction(statement)
            elif isinstance(statement, NoReorder):
                self._block(statement.body)
            else:
                for instruction in walk(statement.body):
                    self._write_clean(instruction)

    def _instruction(self, instruction: Instruction) -> None:
        if is_fresh_fill(instruction):
            return
        missing = self._missing(instruction)
        if missing and instruction.op in COPIES and self._copy(instruction):
            return
        names = {instruction.operands[name].tensor.name for name in missing}
        flags = not names.isdisjoint(self._flags)
        marks = self._samples.marks(instruction, missing, flags=flags) if missing else None
        if not marks:
            self._write_clean(instruction)
            return
        origins: dict[SourceLocation | None, ReachingRead] = {}
        for name, mask in missing.items():
            tensor = instruction.operands[name].tensor
            index = tuple(int(part) for part in np.argwhere(mask)[0])
            here = ReachingRead(tensor, instruction.op, name, index, instruction.location)
            origins |= self._origins.get(tensor.name) or {here.location: here}
        for name in TRAITS[instruction.op].writes:
            access = instruction.operands.get(name)
            if type(access) is not Access or access.tensor.name not in self._followed:
                continue
            mask = marks.get(name)
            if mask is None or not mask.any():
                if not _accumulates(instruction):
                    self._clean(access)
                continue
            self._coverage(access.tensor).taint(piece_of(access), mask)
            self._marked.add(access.tensor.name)
            if flags or loses(instruction):
                self._flags.add(access.tensor.name)
            self._origins.setdefault(access.tensor.name, {}).update(origins)

    def _copy(self, instruction: Instruction) -> bool:
        """What is copied stays unwritten: results that lack it are reported as such."""
        source, target = instruction.operands["src"], instruction.operands["dst"]
        if not _is_plain(target) or math.prod(source.shape) != math.prod(target.shape):
            return False
        piece, coverage = piece_of(source), self._coverage(source.tensor)
        tainted, unwritten = coverage.tainted(piece), coverage.unwritten(piece)
        self._clean(target)
        name, coverage = target.tensor.name, self._coverage(target.tensor)
        if name not in self._followed or target.tensor.fixed:
            return True
        self._marked.add(name)
        if tainted.any():
            coverage.taint(piece_of(target), tainted.reshape(target.shape))
            self._origins.setdefault(name, {}).update(self._origins.get(source.tensor.name, {}))
        coverage.forget(piece_of(target), unwritten.reshape(target.shape))
        if source.tensor.name in self._flags:
            self._flags.add(name)
        return True

    def _missing(self, instruction: Instruction) -> dict[str, Mask]:
        """Operands with elements that nothing wrote, or that were computed from such."""
        found: dict[str, Mask] = {}
        writes = TRAITS[instruction.op].writes if instruction.op in TRAITS else ()
        for name, access in instruction.operands.items():
            if type(access) is not Access or name in writes or name in SCALES:
                continue
            if not self._is_followed(access.tensor) or access.is_dynamic or not inside(access):
                continue
            coverage = self._coverage(access.tensor)
            if coverage.complete or 0 in access.shape or coverage.has(piece_of(access)):
                continue
            found[name] = coverage.missing(piece_of(access))
        return found

    def _is_followed(self, tensor: Tensor) -> bool:
        if tensor.name not in self._followed or tensor.fixed:
            return False
        if tensor.name not in self._doubtful and tensor.name not in self._marked:
            return False
        return self._alone or tensor.buffer is not MemoryRegion.shared_hbm

    def _write_clean(self, instruction: Instruction) -> None:
        if is_fresh_fill(instruction) or _accumulates(instruction):
            return  # what accumulates leaves what was there
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
            self._marked.discard(access.tensor.name)

    def _coverage(self, tensor: Tensor) -> Coverage:
        found = self._written.get(tensor.name)
        if found is None:
            found = self._written[tensor.name] = Coverage(tensor.nbytes)
        return found


class _Samples:
    """Executes single instructions on samples, to see what their results depend on."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._known: dict[object, dict[str, Mask] | None] = {}
        self._sampled = 0

    def marks(
        self, instruction: Instruction, missing: Mapping[str, Mask], *, flags: bool
    ) -> dict[str, Mask] | None:
        """Which elements of what is written certainly depend on the missing ones; None for none.

        ``flags``: the missing ones come from comparisons, so they are 0 or 1.
        Like instructions (those of an unrolled loop) are executed once.
        """
        if not _is_decided(instruction):
            return None
        loose, key = _loosened(instruction)
        key = (key, flags, tuple((name, mask.tobytes()) for name, mask in missing.items()))
        if key not in self._known:
            size = sum(access.tensor.elements for access in accesses_of(loose))
            self._sampled += size
            affordable = size <= _MAX_ELEMENTS and self._sampled <= _MAX_SAMPLED
            self._known[key] = self._depending(loose, missing, flags=flags) if affordable else None
        return self._known[key]

    def _depending(
        self, instruction: Instruction, missing: Mapping[str, Mask], *, flags: bool
    ) -> dict[str, Mask] | None:
        found: dict[str, Mask] = {}
        compares = flags or loses(instruction)
        fills = (*_FILLS, 0xAA, *_immediates(instruction)) if compares else _FILLS
        fills = (0.0, 1.0) if flags else fills
        samples = (_ones, _steps, _zeros, _negatives) if compares else (_ones, _steps)
        try:
            for sample in samples:
                runs = [self._run(instruction, missing, sample, fill) for fill in fills]
                for name in runs[0]:
                    results = [run[name] for run in runs]
                    mask = _varies(results) if compares else _differs(*results)
                    found[name] = mask & found[name] if name in found else mask
        except NkiError:
            return None  # the run itself will report it
        except OPERAND_ERRORS:
            if not reports_bugs():
                raise
            return None
        return found

    def _run(
        self,
        instruction: Instruction,
        missing: Mapping[str, Mask],
        sample: Callable[[Array], Array],
        fill: int | float | None,
    ) -> dict[str, Array]:
        """What the instruction writes when unwritten bytes are ``fill`` (None: as the sample).

        A float is the value of each unwritten element.
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


_FILLS = (0xFF, 0x00, 0x55, None)


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
    """Numbers that the instruction may compare with."""
    numbers = {float(v) for v in instruction.operands.values() if type(v) in (int, float)}
    return tuple(sorted(numbers))


def _varies(results: list[Array]) -> Mask:
    """Elements whose bits are not the same in all results."""
    first, *others = (np.ascontiguousarray(each) for each in results)
    bits = first.view(f"u{first.dtype.itemsize}")
    found = np.zeros(first.shape, np.bool_)
    for other in others:
        found |= other.view(bits.dtype) != bits
    return found


def _differs(fresh: Array, zeros: Array, others: Array, known: Array) -> Mask:
    """Elements that are NaN because of fresh memory, or integers that follow its bits."""
    if fresh.dtype.kind not in "iub":
        return np.isnan(fresh.astype(np.float32)) & ~np.isnan(known.astype(np.float32))
    return (fresh != zeros) & (fresh != others)


def _is_decided(instruction: Instruction) -> bool:
    """What the instruction writes depends on its operands alone, all known before a run."""
    traits = TRAITS.get(instruction.op)
    if traits is None or traits.raw or instruction.op in _UNDECIDED:
        return False
    if traits.updates and instruction.op not in PRODUCTS:
        return False
    if "location" in traits.injected or instruction.operands.get("oob_mode") == "skip":
        return False  # it meets other cores or ranks; or it may leave elements as they were
    return all(_is_plain(value) for value in instruction.operands.values())


def _accumulates(instruction: Instruction) -> bool:
    return instruction.op in PRODUCTS and bool(instruction.operands.get("accumulate"))


def _is_plain(value: object) -> bool:
    if type(value) is Access:
        return not value.is_dynamic and inside(value)
    if isinstance(value, tuple | list):
        return not any(isinstance(entry, Access | Register) for entry in value)  # pyright: ignore[reportUnknownVariableType]
    return type(value) is not Register


def _loosened(instruction: Instruction) -> tuple[Instruction, object]:
    """The instruction on tensors of its own, and what two alike ones have in common."""
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
    """The tensors and all that is read to compute them, in one step or several."""
    reads: dict[str, set[str]] = {}
    for instruction in walk(body):
        read = {
            access.tensor.name
            for value in instruction.operands.values()
            for access in accesses_in(value)
        }
        for access in written_by(instruction):
            reads.setdefault(access.tensor.name, set()).update(read)
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left.extend(reads.get(name, ()))
    return found
