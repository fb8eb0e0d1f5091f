"""Tracks where uninitialised memory flows.

Reading an unwritten element is no fault by itself: kernels read whole tiles and use only some
elements. It is a fault when the value reaches a result, an address or the control flow. So each
instruction passes the marks of unwritten elements from its sources to its destinations, and the
results are checked after the run.

Every byte is in one of three states (see :class:`~nki_lang.ir.coverage.Coverage`): unwritten,
tainted (written with a value computed from unwritten bytes), or clean. Nearly every instruction
reads only clean bytes; for those the cost is one test per operand.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nki_lang.base.dtypes import Array
from nki_lang.base.errors import NkiExecutionError
from nki_lang.base.memory import MemoryRegion
from nki_lang.execute.marks import MATMUL_OPS, Mask, propagates_nan, spread
from nki_lang.execute.meetings import (
    SENT_OPERANDS,
    Received,
    first_marks,
    masks_of,
    no_marks,
    received,
    receives,
)
from nki_lang.execute.memory import Memory
from nki_lang.execute.origin import Origin
from nki_lang.execute.prepare import injected, is_skipped
from nki_lang.execute.recording import Recorder
from nki_lang.execute.storage import Storage, whole
from nki_lang.ir.coverage import Coverage, Piece
from nki_lang.ir.fresh import SCALE_OPERANDS, is_fresh_fill
from nki_lang.ir.types import Access, Instruction, Register, Tensor
from nki_lang.isa.indirection import index_group
from nki_lang.semantics import SEMANTICS, TRAITS

__all__ = ["Tracker", "keeps_old"]

_MX_OPS = frozenset({"quantize_mx", "nc_matmul_mx"})

_REGISTER_OPS = frozenset({"register_load", "register_move", "register_store", "register_alloc"})


class Tracker:
    """Shadow state of one memory that was created with ``track=True``.

    Attributes:
        memory: the memory.
        origins: by name of a tensor, the first read of an unwritten element that it depends on.
        recorder: collects the executed steps, or None.
    """

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.origins: dict[str, Origin] = {}
        self._started: dict[str, Coverage] = {}
        self._ends: dict[str, weakref.ref[Tensor]] = {}
        self.recorder: Recorder | None = None

    def forget_with(self, tensor: Tensor) -> None:
        """Forget the writes through the tensor as soon as the kernel cannot reach it."""
        name = tensor.name

        def release(_: object) -> None:
            self._ends.pop(name, None)
            self._started.pop(name, None)

        self._ends[name] = weakref.ref(tensor, release)

    def run(self, instruction: Instruction, step: Callable[[], None]) -> None:
        """Execute the instruction and propagate its marks."""
        if is_fresh_fill(instruction):
            self._refuse_record()
            step()
            dst = instruction.operands["dst"]
            piece = self.memory.layout(dst).piece
            self._coverage(dst.tensor).forget(piece, np.ones(piece.shape, np.bool_))
            return
        if instruction.op in _MX_OPS:
            self._refuse_record()
            self._zero_scales(instruction)
        bad = self._missing(instruction)
        keeps = keeps_old(instruction)
        written = list(_written(instruction))
        if keeps:
            for _, access in written:
                self.memory.storage(access.tensor).settle()
        if instruction.op in SENT_OPERANDS:
            self._refuse_record()
            self._collective(instruction, step, written, bad)
            return
        if not bad and not keeps and instruction.op != "sendrecv":
            step()
            if self.recorder is not None:
                self.recorder.add(instruction, step)
            for _, access in written:
                self._add(access)
            return
        self._refuse_record()
        before = [self._holes(access) for _, access in written] if keeps else []
        shows = self._shows(instruction, bad)
        masks = self._masks(instruction, written, bad)
        step()
        if instruction.op == "sendrecv":
            masks = self._masks(instruction, written, self._exchanged(instruction, bad))
            shows = False
        for (_, access), mask in zip(written, masks, strict=True):
            self._carry(access, mask, shows=shows)
        if any(hole is not None for hole in before):
            self._reopen(step, written, before)

    def _refuse_record(self) -> None:
        """Do not replay a call whose marks or memory depend on more than its instructions."""
        if self.recorder is not None:
            self.recorder.refuse()

    def _zero_scales(self, instruction: Instruction) -> None:
        """Set unwritten elements of block scales to zero, as on hardware."""
        for name in SCALE_OPERANDS:
            access = instruction.operands.get(name)
            if type(access) is not Access or self._coverage(access.tensor).complete:
                continue
            storage, coverage = self.memory.storage(access.tensor), self._coverage(access.tensor)
            layout = storage.layout(whole(access.tensor))
            unwritten = coverage.unwritten(layout.piece)
            if not unwritten.any():
                continue
            tainted = coverage.tainted(layout.piece)
            storage.settle()
            _bits(storage.view(layout))[unwritten] = 0
            coverage.add(layout.piece)
            if tainted.any():
                coverage.taint(layout.piece, tainted)

    def quick(self, instruction: Instruction) -> bool:
        """Execute an instruction whose operands are all in the common case; return False if they
        are not.

        The common case: static accesses, clean sources, and destinations that keep no old element. It
        does in one pass what :meth:`run` and ``prepare`` do in general.
        """
        traits = TRAITS.get(instruction.op)
        if traits is None or traits.raw or traits.updates or instruction.op == "sendrecv":
            return False
        memory, writes = self.memory, traits.writes
        arguments: dict[str, Any] = {}
        written: list[tuple[Storage, Access]] = []
        for name, value in instruction.operands.items():
            kind = type(value)  # pyright: ignore[reportUnknownVariableType]
            if kind is Access:
                if value.scalar_offset is not None or value.vector_offset is not None:
                    return False
                storage = memory.storage(value.tensor)
                if name in writes:
                    if value.element_type.name == "tfloat32":
                        return False
                    written.append((storage, value))
                elif not storage.coverage.complete:  # type: ignore[union-attr]
                    return False
                value = storage.window(value)
            elif kind is tuple or kind is list or kind is Register:
                return False
            arguments[name] = value
        if traits.injected:
            arguments.update(injected(instruction, memory))
        function = SEMANTICS[instruction.op]
        function(**arguments)
        if self.recorder is not None:
            self.recorder.add(instruction, function, **arguments)
        for storage, access in written:
            self._cover(storage, access)
        return True

    def skips(self, instruction: Instruction) -> bool:
        """Return True if ``oob_mode.skip`` skips the instruction: a dynamic index is out of bounds.

        Raises:
            NkiExecutionError: ``NKI-UNINITIALISED``, the index was never written.
        """
        if instruction.operands.get("oob_mode") != "skip":
            return False
        for access in instruction.operands.values():
            index = access.scalar_offset if type(access) is Access else None
            if type(index) is not Access or (coverage := self._coverage(index.tensor)).complete:
                continue
            mask = self._mask(index, coverage)
            if mask is not None:
                self._note(instruction, "scalar_offset", index, mask)
        return is_skipped(instruction, self.memory)

    def resolved(self, instruction: Instruction) -> Instruction:
        """Return a product with ``accumulate`` made explicit, from the elements written so far.

        Raises:
            NkiExecutionError: ``NKI-ACCUMULATION``; it accumulates where nothing was written,
                which no target defines (isa stub, nc_matmul, Accumulation mode).
        """
        if instruction.op not in MATMUL_OPS:
            return instruction
        accumulate_mode = instruction.operands.get("accumulate")
        dst: Access = instruction.operands["dst"]
        if accumulate_mode:
            _require_started(instruction, dst, self._unwritten(dst))
        if accumulate_mode is not None:
            return instruction
        unwritten = self._not_started(dst)
        accumulate = not unwritten.all()
        if accumulate and unwritten.any():
            self._refuse_record()
            self.memory.view(dst)[unwritten] = 0
            self._add(dst)
        return replace(instruction, operands={**instruction.operands, "accumulate": accumulate})

    def require(self, tensor: Tensor, role: str) -> None:
        """Raise an error when a tensor contains values that derive from uninitialised memory.

        Raises:
            NkiExecutionError: ``NKI-UNINITIALISED``, at the line that first read it.
        """
        coverage = self._coverage(tensor)
        if coverage.complete or tensor.name not in self.origins:
            return
        access = whole(tensor)
        tainted = coverage.tainted(self.memory.layout(access).piece)
        if tainted.any():
            index = np.unravel_index(int(np.argmax(tainted)), tainted.shape)
            position = ", ".join(str(int(coordinate)) for coordinate in index)
            raise self.origins[tensor.name].error(f"{role} {tensor.name!r}, element [{position}]")

    def unwritten(self, tensor: Tensor) -> Mask | None:
        """Return which elements of a tensor were never written, as an array of its shape; None for
        none.
        """
        if self._coverage(tensor).try_finish():
            return None
        mask = self._unwritten(whole(tensor))
        return mask if mask.any() else None

    # -- reads ------------------------------------------------------------------------------

    def _missing(self, instruction: Instruction) -> dict[str, Mask]:
        """Return the operands that have unwritten or tainted elements, with a mask of them."""
        bad: dict[str, Mask] = {}
        for name, access in _read(instruction):
            storage = self.memory.storage(access.tensor)
            coverage = storage.coverage
            assert coverage is not None, "the memory was created without track=True"
            if coverage.complete:
                continue
            mask = self._mask(access, coverage, index_group(instruction.op))
            if mask is not None:
                storage.settle()
                bad[name] = _union(bad.get(name), mask)
                self._note(instruction, name, access, mask)
        return bad

    def _shows(self, instruction: Instruction, bad: dict[str, Mask]) -> bool:
        """Return True if results computed from uninitialised elements are NaN, because all of these
        are NaN.

        This does not hold for integers and values computed from them, nor after a comparison.
        """
        if not propagates_nan(instruction, bad):
            return False
        for name, access in _read(instruction):
            mask = bad.get(name)
            if mask is None:
                continue
            value = self.memory.read(access, skip=True, group=index_group(instruction.op))
            if value.dtype.kind in "iub" or not access.element_type.is_float:
                return False
            if mask.shape == value.shape and not np.isnan(value[mask].astype(np.float32)).all():
                return False
        return True

    def _mask(self, access: Access, coverage: Coverage, group: int = 16) -> Mask | None:
        if access.vector_offset is None:
            piece = self.memory.layout(access).piece
            return None if coverage.has(piece) else coverage.missing(piece)
        rows = self.memory.rows(access, skip=True, group=group)
        mask = np.zeros(access.shape, np.bool_)
        mask[rows.good] = coverage.missing(rows.window.piece)[rows.existing]
        return mask if mask.any() else None

    def _note(self, instruction: Instruction, name: str, access: Access, mask: Mask) -> None:
        origin = self._origin(instruction, name, access, mask)
        if name.endswith("_offset") or instruction.op in _REGISTER_OPS:
            raise origin.error("an address" if name.endswith("_offset") else "a register")
        for _, written in _written(instruction):
            self.origins.setdefault(written.tensor.name, origin)

    def _origin(self, instruction: Instruction, name: str, access: Access, mask: Mask) -> Origin:
        """Return the origin of an operand's marks: the origin of its tensor, else this read."""
        origin = self.origins.get(access.tensor.name)
        if origin is not None:
            return origin
        index = tuple(
            int(coordinate) for coordinate in np.unravel_index(int(np.argmax(mask)), mask.shape)
        )
        return Origin(access.tensor.name, index, instruction.op, name, instruction.location)

    def _coverage(self, tensor: Tensor) -> Coverage:
        coverage = self.memory.storage(tensor).coverage
        assert coverage is not None, "the memory was created without track=True"
        return coverage

    # -- writes -----------------------------------------------------------------------------

    def _add(self, access: Access) -> None:
        self._cover(self.memory.storage(access.tensor), access)

    def _cover(self, storage: Storage, access: Access) -> None:
        coverage = storage.coverage
        assert coverage is not None
        if access.tensor.buffer is MemoryRegion.psum and access.tensor.address is not None:
            started = self._started.get(access.tensor.name)
            if started is None:
                count = access.tensor.nbytes if storage.row else storage.data.size
                started = self._started[access.tensor.name] = Coverage(count)
            started.add(self._own_piece(storage, access))
        if coverage.complete:
            return
        if storage.covers(access):
            coverage.finish()
        elif access.vector_offset is None:
            coverage.add(self.memory.layout(access).piece)
        else:
            rows = self.memory.rows(access, skip=True)
            coverage.add_at(rows.window.piece, rows.existing)

    def _unwritten(self, access: Access) -> Mask:
        coverage = self._coverage(access.tensor)
        if coverage.complete or access.vector_offset is not None:
            return np.zeros(access.shape, np.bool_)
        return coverage.unwritten(self.memory.layout(access).piece)

    def _not_started(self, dst: Access) -> Mask:
        """Return where no instruction wrote through this tensor before.

        A tensor at a fixed address shares its bytes with earlier tensors there, but each tensor
        starts its own accumulation.
        """
        started = self._started.get(dst.tensor.name)
        if dst.tensor.address is None:
            return self._unwritten(dst)
        if started is None:
            return np.ones(dst.shape, np.bool_)
        return started.unwritten(self._own_piece(self.memory.storage(dst.tensor), dst))

    def _own_piece(self, storage: Storage, access: Access) -> Piece:
        """Return the window of an access to a tensor at an address, in the tensor stored
        densely.
        """
        layout, width = self.memory.layout(access), access.tensor.free_bytes
        if not storage.row:
            return layout.piece
        partition, byte = divmod(layout.offset - storage.start, storage.row)
        strides = (layout.strides[0] // storage.row * width, *layout.strides[1:])
        return Piece(layout.shape, partition * width + byte, strides, layout.dtype.itemsize)

    def _masks(
        self, instruction: Instruction, written: list[tuple[str, Access]], bad: dict[str, Mask]
    ) -> list[Mask | None]:
        """Return, for each written operand, which elements depend on the bad elements."""
        if not bad or (instruction.op == "sendrecv" and "src" not in bad):
            return [None] * len(written)
        return [
            spread(instruction, name, access.shape, bad, self.memory) for name, access in written
        ]

    def _collective(
        self,
        instruction: Instruction,
        step: Callable[[], None],
        written: list[tuple[str, Access]],
        bad: dict[str, Mask],
    ) -> None:
        """Execute a collective; then the ranks exchange their marks as they exchanged their
        values.
        """
        memory, operands = self.memory, instruction.operands
        names = SENT_OPERANDS[instruction.op]
        own_origin = self._first_origin(instruction, bad)
        sent = {name: masks_of(operands[name], self._lost) for name in names} if bad else None
        step()
        origin = first_marks(instruction, memory, own_origin)
        if origin is None:
            for _, access in written if receives(instruction, memory) else ():
                self._add(access)
            return
        if sent is None:
            sent = {name: masks_of(operands[name], no_marks) for name in names}
        for marks in received(instruction, memory, sent):
            self._take(marks, origin)

    def _take(self, marks: Received, origin: Origin) -> None:
        """Set the marks that other ranks sent; elements that no rank sent keep theirs."""
        coverage, piece = (
            self._coverage(marks.access.tensor),
            self.memory.layout(marks.access).piece,
        )
        if marks.unchanged.all():
            return
        tainted, unwritten = coverage.tainted(piece), coverage.unwritten(piece)
        mask = marks.mask | (marks.unchanged & tainted)
        self._add(marks.access)
        if mask.any() or marks.unchanged.any():
            coverage.taint(piece, mask)
            coverage.forget(piece, marks.unchanged & unwritten)
        if marks.mask.any():
            self.origins[marks.access.tensor.name] = origin

    def _lost(self, access: Access) -> Mask:
        """Return which elements are unwritten or tainted."""
        mask = self._mask(access, self._coverage(access.tensor))
        return np.zeros(access.shape, np.bool_) if mask is None else mask

    def _first_origin(self, instruction: Instruction, bad: dict[str, Mask]) -> Origin | None:
        for name, access in _read(instruction) if bad else ():
            if name in bad and (mask := self._lost(access)).any():
                return self._origin(instruction, name, access, mask)
        return None

    def _exchanged(self, instruction: Instruction, bad: dict[str, Mask]) -> dict[str, Mask]:
        """Return the marks that another core sent; both cores send theirs."""
        state = self.memory.state
        exchange: Any = state.exchange  # it swaps marks here instead of arrays
        if exchange is None:
            return bad
        operands = instruction.operands
        to, source, pipe = (
            self.memory.scalar(operands[name])
            for name in ("send_to_rank", "recv_from_rank", "pipe_id")
        )
        sent = (bad.get("src"), self.origins.get(operands["src"].tensor.name))
        mask, origin = exchange.swap(state.core, sent, to, source, pipe, instruction.location)
        name = operands["dst"].tensor.name
        if mask is None:
            self.origins.pop(name, None)
            return {}
        self.origins[name] = origin
        return {"src": mask}

    def _carry(self, access: Access, mask: Mask | None, *, shows: bool) -> None:
        """Mark one written operand; ``shows``: elements from uninitialised memory are NaN in it."""
        if mask is not None and shows:
            value = self.memory.read(access, skip=True)
            if value.dtype.kind not in "iub" and _has_nan(value.dtype):
                mask = mask & np.isnan(value.astype(np.float32))
        if mask is None or not mask.any():
            self._add(access)
        elif access.vector_offset is None:
            self._coverage(access.tensor).taint(self.memory.layout(access).piece, mask)
        else:
            rows = self.memory.rows(access, skip=True)
            piece = rows.window.piece
            self._coverage(access.tensor).taint_at(piece, rows.existing, mask[rows.good])

    def _holes(self, access: Access) -> _Hole | None:
        """Return the unwritten or tainted elements of an access, with its content."""
        coverage = self._coverage(access.tensor)
        if coverage.complete or access.vector_offset is not None:
            return None
        mask = coverage.missing(self.memory.layout(access).piece)
        return _Hole(mask, self.memory.view(access).copy()) if mask.any() else None

    def _reopen(
        self,
        step: Callable[[], None],
        written: list[tuple[str, Access]],
        before: list[_Hole | None],
    ) -> None:
        """Find the unwritten elements that an instruction did not write.

        A predicated instruction may keep old elements. It is executed once more with other bytes in the
        unwritten elements: where the result differs, the instruction wrote nothing (or a value computed
        from the unwritten element, which is marked already).
        """
        views = [self.memory.view(access) for _, access in written]
        results = [view.copy() for view in views]
        for view, hole in zip(views, before, strict=True):
            if hole is not None:
                view[...] = hole.values
                _bits(view)[hole.mask] = 0x55
        step()
        for (_, access), view, result, hole in zip(written, views, results, before, strict=True):
            if hole is not None:
                open_still = hole.mask & (_bits(view) != _bits(result))
                piece = self.memory.layout(access).piece
                coverage = self._coverage(access.tensor)
                open_still &= ~coverage.tainted(piece)
                if open_still.any():
                    coverage.forget(piece, open_still)
            view[...] = result


@dataclass(frozen=True, slots=True)
class _Hole:
    """Unwritten elements of an access, and the content of the whole access."""

    mask: Mask
    values: Array


def _bits(value: Array) -> Array:
    """Return a view of the same memory as unsigned integers."""
    return value.view(f"u{value.dtype.itemsize}")


def _require_started(instruction: Instruction, dst: Access, unwritten: Mask) -> None:
    if not unwritten.any():
        return
    index = ", ".join(str(int(coordinate)) for coordinate in np.argwhere(unwritten)[0])
    raise NkiExecutionError(
        f"{instruction.op} accumulates into element [{index}] of {dst.tensor.name!r}, where "
        f"nothing was written before",
        code="NKI-ACCUMULATION",
        location=instruction.location,
        remedy="start with accumulate=False, or leave accumulate out",
        source="nisa.nc_matmul, Accumulation mode",
        details={
            "tensor": dst.tensor.name,
            "index": np.argwhere(unwritten)[0].tolist(),
        },
    )


def _written(instruction: Instruction) -> Iterator[tuple[str, Access]]:
    for name in TRAITS[instruction.op].writes:
        yield from _entries(name, instruction.operands.get(name))


def _read(instruction: Instruction) -> Iterator[tuple[str, Access]]:
    writes = TRAITS[instruction.op].writes
    accumulates = instruction.op in MATMUL_OPS and instruction.operands.get("accumulate")
    for name, value in instruction.operands.items():
        if name not in writes or (accumulates and name == "dst"):
            yield from _entries(name, value)
        elif type(value) is Access:
            yield from _offsets(value)


def _entries(name: str, value: Any) -> Iterator[tuple[str, Access]]:
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is Access:
        yield from _offsets(value)
        yield name, value
    elif kind is tuple or kind is list:
        for entry in value:
            yield from _entries(name, entry)


def _offsets(access: Access) -> Iterator[tuple[str, Access]]:
    if type(access.scalar_offset) is Access:
        yield "scalar_offset", access.scalar_offset
    if access.vector_offset is not None:
        yield "vector_offset", access.vector_offset


def keeps_old(instruction: Instruction) -> bool:
    """Return True if the instruction may keep old elements of its destination."""
    updates = TRAITS[instruction.op].updates
    if instruction.op in MATMUL_OPS:
        return False
    return bool(updates) or instruction.operands.get("oob_mode") == "skip"


def _union(first: Mask | None, second: Mask) -> Mask:
    """Return the union of the marks of several tensors of one operand (``srcs``)."""
    if first is None:
        return second
    return first | second if first.shape == second.shape else np.ones(1, np.bool_)


@functools.cache
def _has_nan(dtype: np.dtype[Any]) -> bool:
    """Return True if the type has NaN."""
    return bool(np.isnan(np.array(np.nan, np.float32).astype(dtype).astype(np.float32)))
