"""Elements of results that a program leaves unwritten, as far as that is known before it runs.

An element of a result is a gap when nothing writes it, or when the last that is copied there was
never written itself: a tile that was filled in part and stored whole. Access patterns that are
known are followed exactly; where one is not (a register or an index tensor selects it), in loops
of the device and on tiles at addresses that the user gave, everything counts as written. So what
is reported is certainly unwritten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nki_lang.dtypes import Array
from nki_lang.execute.liveness import written_by
from nki_lang.ir.coverage import Coverage, Piece, piece_of
from nki_lang.ir.fresh import is_fresh_fill
from nki_lang.ir.types import Access, Block, Instruction, NoReorder, Tensor, walk
from nki_lang.source import SourceLocation

__all__ = ["COPIES", "Gap", "gaps_of"]

COPIES = frozenset({"dma_copy", "tensor_copy"})

_MAX_BYTES = 1 << 30
"""A larger result counts as written: the map of its bytes would take too much memory."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Elements of one result that hold nothing.

    Attributes:
        tensor: the result.
        where: flat indices of the elements, ascending.
        location: the line that stores next to them, or stores nothing; None when no line stores
            into the result.
    """

    tensor: Tensor
    where: np.ndarray[Any, np.dtype[np.int64]]
    location: SourceLocation | None

    @property
    def message(self) -> str:
        """How many elements, of which result, and which is the first."""
        first = np.unravel_index(int(self.where[0]), self.tensor.shape) if self.tensor.shape else ()
        place = ", ".join(str(int(part)) for part in first)
        return (
            f"{len(self.where)} of the {self.tensor.elements} elements of the result "
            f"{self.tensor.name!r} are never written, the first is [{place}]; what a device "
            "returns there is undefined"
        )

    def poison(self, array: Array) -> None:
        """Make the elements of a C-contiguous result NaN, those of integer types -1."""
        raw = array.reshape(-1).view(np.uint8).reshape(array.size, array.itemsize)
        raw[self.where] = 0xFF


def gaps_of(
    bodies: Sequence[Block],
    results: Iterable[Tensor],
    known: Iterable[str],
    *,
    tiles: bool = True,
) -> list[Gap]:
    """What the results lack.

    Args:
        bodies: the statements of each core, in order.
        results: tensors in HBM; those that are known too are left out.
        known: names of the tensors that have content from the start.
        tiles: look into tiles that are stored; not for programs whose tiles share bytes.
    """
    given = set(known)
    wanted = {
        tensor.name: tensor
        for tensor in results
        if 0 < tensor.nbytes <= _MAX_BYTES and tensor.name not in given
    }
    hbm = len(bodies) == 1
    cores = [_Core(body, wanted, given, tiles=tiles, hbm=hbm) for body in bodies]
    gaps: list[Gap] = []
    for name, tensor in wanted.items():
        holes: Array | None = None
        for core in cores:
            mine = core.holes(tensor)
            holes = mine if holes is None or mine is None else holes & mine
            if holes is None:
                break
        if holes is None:
            continue
        where = np.flatnonzero(holes.reshape(tensor.elements, -1).any(axis=1))
        if len(where):
            places = [core.places[name] for core in cores if core.places.get(name)]
            gaps.append(Gap(tensor, where, places[0] if places else None))
    return gaps


class _Core:
    """What one core writes into the results and into what they are copied from."""

    def __init__(
        self, body: Block, results: dict[str, Tensor], known: set[str], *, tiles: bool, hbm: bool
    ) -> None:
        self._followed = _sources(body, set(results)) - known
        self._tiles, self._hbm = tiles, hbm
        self._written: dict[str, Coverage] = {}
        self.places: dict[str, SourceLocation | None] = {}
        self._faulty: set[str] = set()
        self._block(body)

    def holes(self, tensor: Tensor) -> Array | None:
        """Which bytes of a result were not written; None when all were."""
        coverage = self._written.get(tensor.name)
        if coverage is None:
            return np.ones(tensor.nbytes, np.bool_)
        if coverage.try_finish():
            return None
        return coverage.holes()

    def _block(self, body: Block) -> None:
        for statement in body:
            if isinstance(statement, Instruction):
                self._instruction(statement)
            elif isinstance(statement, NoReorder):
                self._block(statement.body)
            else:
                for instruction in walk(statement.body):
                    for access in () if is_fresh_fill(instruction) else written_by(instruction):
                        self._write(access, instruction)

    def _instruction(self, instruction: Instruction) -> None:
        if is_fresh_fill(instruction):
            return
        for access in written_by(instruction):
            if not self._write(access, instruction) or instruction.op not in COPIES:
                continue
            missing = self._missing(instruction.operands.get("src"))
            if missing is None or missing.size != np.prod(access.shape, dtype=np.int64):
                continue
            coverage = self._written[access.tensor.name]
            coverage.forget(piece_of(access), missing.reshape(access.shape))
            self.places[access.tensor.name] = instruction.location
            self._faulty.add(access.tensor.name)

    def _write(self, access: Access, instruction: Instruction) -> bool:
        """Enter a write; False when it is not tracked or its place is not known."""
        tensor = access.tensor
        if tensor.name not in self._followed:
            return False
        if tensor.name not in self._faulty:
            self.places[tensor.name] = instruction.location
        coverage = self._written.get(tensor.name)
        if coverage is None:
            coverage = self._written[tensor.name] = Coverage(tensor.nbytes)
        piece = _inside(access)
        if piece is None or tensor.fixed:
            coverage.finish()
            return False
        coverage.add(piece)
        return True

    def _missing(self, source: Any) -> Array | None:
        """Which elements of what is copied were never written; None for none."""
        piece = _inside(source) if type(source) is Access else None
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


def _inside(access: Access) -> Piece | None:
    """The bytes of an access; None when they are not known, or not all in the tensor."""
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
    """The tensors and all that is copied into them, in one step or several."""
    copies: dict[str, set[str]] = {}
    for instruction in walk(body):
        if instruction.op in COPIES:
            dst, src = instruction.operands.get("dst"), instruction.operands.get("src")
            if type(dst) is Access and type(src) is Access:
                copies.setdefault(dst.tensor.name, set()).add(src.tensor.name)
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left.extend(copies.get(name, ()))
    return found
