"""Finds elements of results that a program certainly leaves unwritten, before it runs.

An element of a result is a gap when no instruction writes it, or when the last copy into it copies
an unwritten element: a tile that was filled partially and stored whole. Static access patterns are
followed exactly. Everything counts as written through dynamic accesses (a register or an index
tensor), in loops on the device, and on tiles at addresses that the user chose. So every reported
gap is certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nki_lang.analysis.liveness import reachable, written_by
from nki_lang.analysis.program_order import program_order
from nki_lang.base.dtypes import Array
from nki_lang.base.source import SourceLocation
from nki_lang.ir.coverage import Coverage, Piece, piece_of
from nki_lang.ir.fresh import is_fresh_fill
from nki_lang.ir.types import Access, Block, Instruction, Tensor, walk

__all__ = ["COPY_OPS", "Gap", "gaps_of"]

COPY_OPS = frozenset({"dma_copy", "tensor_copy"})

_MAX_RESULT_BYTES = 1 << 30
"""A larger result counts as written: the map of its bytes would take too much memory."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Unwritten elements of one result.

    Attributes:
        tensor: the result.
        where: flat indices of the elements, ascending.
        location: the line that stores into the result around them; None when no line stores
            into it.
    """

    tensor: Tensor
    where: np.ndarray[Any, np.dtype[np.int64]]
    location: SourceLocation | None

    @property
    def message(self) -> str:
        """The number of unwritten elements, the result and the first element, in one sentence."""
        first = np.unravel_index(int(self.where[0]), self.tensor.shape) if self.tensor.shape else ()
        position = ", ".join(str(int(coordinate)) for coordinate in first)
        return (
            f"{len(self.where)} of the {self.tensor.elements} elements of the result "
            f"{self.tensor.name!r} are never written, the first is [{position}]; what a device "
            "returns there is undefined"
        )

    def poison(self, array: Array) -> None:
        """Set the elements of a C-contiguous result to NaN, in integer types to -1."""
        raw = array.reshape(-1).view(np.uint8).reshape(array.size, array.itemsize)
        raw[self.where] = 0xFF


def gaps_of(
    bodies: Sequence[Block],
    results: Iterable[Tensor],
    initialised: Iterable[str],
    *,
    tiles: bool = True,
) -> list[Gap]:
    """Return the gaps of the results.

    Args:
        bodies: the statements of each core, in order.
        results: tensors in HBM; initialised ones are skipped.
        initialised: names of the tensors that have content from the start.
        tiles: follow unwritten elements through tiles; False for programs whose tiles share bytes.
    """
    initialised_names = set(initialised)
    checked = {
        tensor.name: tensor
        for tensor in results
        if 0 < tensor.nbytes <= _MAX_RESULT_BYTES and tensor.name not in initialised_names
    }
    hbm = len(bodies) == 1
    cores = [
        _ResultWrites(body, checked, initialised_names, tiles=tiles, hbm=hbm) for body in bodies
    ]
    gaps: list[Gap] = []
    for name, tensor in checked.items():
        holes: Array | None = None
        for core in cores:
            core_holes = core.holes(tensor)
            holes = core_holes if holes is None or core_holes is None else holes & core_holes
            if holes is None:
                break
        if holes is None:
            continue
        where = np.flatnonzero(holes.reshape(tensor.elements, -1).any(axis=1))
        if len(where):
            locations = [core.locations[name] for core in cores if core.locations.get(name)]
            gaps.append(Gap(tensor, where, locations[0] if locations else None))
    return gaps


class _ResultWrites:
    """Follows the writes of one core into the results and into the sources of their copies."""

    def __init__(
        self,
        body: Block,
        results: dict[str, Tensor],
        initialised: set[str],
        *,
        tiles: bool,
        hbm: bool,
    ) -> None:
        self._followed = _sources(body, set(results)) - initialised
        self._tiles, self._hbm = tiles, hbm
        self._written: dict[str, Coverage] = {}
        self.locations: dict[str, SourceLocation | None] = {}
        self._partial: set[str] = set()
        self._block(body)

    def holes(self, tensor: Tensor) -> Array | None:
        """Return which bytes of a result were not written; None when all were."""
        coverage = self._written.get(tensor.name)
        if coverage is None:
            return np.ones(tensor.nbytes, np.bool_)
        if coverage.try_finish():
            return None
        return coverage.holes()

    def _block(self, body: Block) -> None:
        for instruction, certain in program_order(body, enters_loops=False):
            if is_fresh_fill(instruction):
                continue
            if certain:
                self._instruction(instruction)
            else:
                for access in written_by(instruction):
                    self._write(access, instruction)

    def _instruction(self, instruction: Instruction) -> None:
        for access in written_by(instruction):
            if not self._write(access, instruction) or instruction.op not in COPY_OPS:
                continue
            missing = self._missing(instruction.operands.get("src"))
            if missing is None or missing.size != np.prod(access.shape, dtype=np.int64):
                continue
            coverage = self._written[access.tensor.name]
            coverage.forget(piece_of(access), missing.reshape(access.shape))
            self.locations[access.tensor.name] = instruction.location
            self._partial.add(access.tensor.name)

    def _write(self, access: Access, instruction: Instruction) -> bool:
        """Record a write; return False when the tensor or the location is not tracked."""
        tensor = access.tensor
        if tensor.name not in self._followed:
            return False
        if tensor.name not in self._partial:
            self.locations[tensor.name] = instruction.location
        coverage = self._written.get(tensor.name)
        if coverage is None:
            coverage = self._written[tensor.name] = Coverage(tensor.nbytes)
        piece = _static_piece(access)
        if piece is None or tensor.fixed:
            coverage.finish()
            return False
        coverage.add(piece)
        return True

    def _missing(self, source: Any) -> Array | None:
        """Return which elements of a copy's source were never written; None for none."""
        piece = _static_piece(source) if type(source) is Access else None
        if piece is None:
            return None
        tensor = source.tensor
        if tensor.name not in self._followed or tensor.fixed:
            return None
        if not (self._tiles if tensor.on_chip else self._hbm):
            return None
        coverage = self._written.get(tensor.name)
        if coverage is None:
            return np.ones(source.shape, np.bool_) if tensor.on_chip else None
        return None if coverage.has(piece) else coverage.unwritten(piece)


def _static_piece(access: Access) -> Piece | None:
    """Return the bytes of an access; None when they are dynamic, or not all in the tensor."""
    if access.is_dynamic:
        return None
    low = high = access.offset
    for step, count in access.pattern:
        low += min(0, step * (count - 1))
        high += max(0, step * (count - 1))
    size = access.element_type.itemsize
    if low < 0 or (high + 1) * size > access.tensor.nbytes or 0 in access.shape:
        return None
    return piece_of(access)


def _sources(body: Block, names: set[str]) -> set[str]:
    """Return the tensors and all tensors that are copied into them, transitively."""
    copies: dict[str, set[str]] = {}
    for instruction in walk(body):
        if instruction.op in COPY_OPS:
            dst, src = instruction.operands.get("dst"), instruction.operands.get("src")
            if type(dst) is Access and type(src) is Access:
                copies.setdefault(dst.tensor.name, set()).add(src.tensor.name)
    return reachable(names, copies)
