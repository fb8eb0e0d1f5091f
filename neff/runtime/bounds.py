"""Every tensor is where it can be, and every access that is known now stays inside its tensor.

The executor checks accesses too, but only those that are left when copies were looked through.
"""

from __future__ import annotations

import functools
import inspect
from typing import NamedTuple

from neff.errors import NeffRuntimeError
from neff.program import Program
from nki_lang.analysis.liveness import accesses_in
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.targets import Target, target_of
from nki_lang.ir import Access, Block, Instruction, Tensor, walk
from nki_lang.semantics import SEMANTICS, TRAITS

__all__ = ["check_accesses"]


def check_accesses(body: Block, program: Program, location: str) -> None:
    """Check one core's instructions.

    Raises:
        NeffRuntimeError: ``NEFF-NAME`` (two tensors have one name), ``NEFF-ADDRESS`` (a tensor
            leaves its memory, or is not a variable), ``NEFF-OPERAND`` (an instruction has other operands
            than its public function), ``NEFF-EXEC-OUT-OF-BOUNDS``.
    """
    checker = _Checker(program, location)
    for instruction in walk(body):
        checker.check_operands(instruction)
        for value in instruction.operands.values():
            if type(value) in _WITH_ACCESSES and id(value) not in checker.checked:
                for access in accesses_in(value):
                    checker.check(access, instruction)


@functools.cache
def _parameters(op: str) -> tuple[frozenset[str], frozenset[str]]:
    """All operands of an instruction, and those that it cannot be without."""
    function = SEMANTICS.get(op)
    if function is None:
        return frozenset(), frozenset()
    signature = inspect.signature(function).parameters
    names = {name for name in signature if name not in TRAITS[op].injected}
    needed = {name for name in names if signature[name].default is inspect.Parameter.empty}
    return frozenset(names), frozenset(needed)


_REMEDY = "fix the kernel at this place, or build the NEFF again if it is damaged"

_WITH_ACCESSES = frozenset({Access, tuple, list})
"""Types of operands that are accesses or hold some."""

_MOVES = {"dma_copy": ("src",), "dma_transpose": ("src",), "tensor_copy": ("src",)}


@functools.cache
def _tensors(op: str) -> tuple[str, ...]:
    """Operands that must be tensors: what is copied."""
    return _MOVES.get(op, ()) + (("dst",) if op in _MOVES else ())


def _is_tensor(value: object) -> bool:
    return type(value) is Access


class _Known(NamedTuple):
    """A tensor that was seen, and what the range of an access to it depends on.

    Attributes:
        lanes: partitions; -1 in HBM, which has none.
        nbytes: of one partition on chip, of all of it in HBM.
    """

    tensor: Tensor
    lanes: int
    nbytes: int


class _Checker:
    def __init__(self, program: Program, place: str) -> None:
        self.program, self.place = program, place
        self.target: Target = target_of(program.target)
        self.tensors: dict[str, _Known] = {}
        self.checked: set[int] = set()
        self.inside: set[tuple[object, ...]] = set()
        self.forms: set[tuple[str, ...]] = set()

    def check_operands(self, instruction: Instruction) -> None:
        """The instruction has the operands of its public function, and writes to tensors."""
        op, operands = instruction.op, instruction.operands
        form = (op, *operands)
        if form in self.forms:
            return
        parameters, needed = _parameters(op)
        wrong = sorted((needed - operands.keys()) | (operands.keys() - parameters))
        wrong += [name for name in _tensors(op) if not _is_tensor(operands.get(name))]
        if wrong:
            raise self.fault(
                "NEFF-OPERAND", f"{op}: operand {wrong[0]!r} does not fit", instruction
            )
        if not _tensors(op):
            self.forms.add(form)

    def check(self, access: Access, instruction: Instruction) -> None:
        if id(access) in self.checked:
            return
        self.checked.add(id(access))
        tensor = access.tensor
        location = self.tensors.get(tensor.name)
        if location is None:
            location = self.tensors[tensor.name] = self.check_place(tensor, instruction)
        elif location.tensor is not tensor and location.tensor != tensor:
            raise self.fault("NEFF-NAME", f"two tensors are called {tensor.name!r}", instruction)
        if access.vector_offset is None and access.scalar_offset is None:
            size = access.element_type.itemsize
            range_of = (location.lanes, location.nbytes, size, access.offset, access.pattern)
            if range_of not in self.inside:  # tiles of one kernel have few different ones
                self.check_range(location, access, instruction)
                self.inside.add(range_of)

    def check_place(self, tensor: Tensor, instruction: Instruction) -> _Known:
        if not tensor.on_chip:
            variable = self.program.variables.get(tensor.name)
            nbytes = tensor.nbytes
            if variable is None or variable.nbytes < nbytes:
                self.no_place(tensor, "is not a variable of that size", instruction)
            return _Known(tensor, -1, nbytes)
        psum = tensor.buffer is MemoryRegion.psum
        row = self.target.psum_partition_bytes if psum else self.target.sbuf_partition_bytes
        partition, byte = tensor.address or (-1, -1)
        lanes, nbytes = tensor.shape[0] if tensor.shape else 1, tensor.free_bytes
        inside = 0 <= partition <= self.target.partitions - lanes and byte >= 0
        if not inside or byte + nbytes > row:
            self.no_place(
                tensor,
                f"with {lanes} partitions of {nbytes} bytes at {tensor.address} leaves "
                f"{tensor.buffer} ({self.target.partitions} partitions of {row} bytes)",
                instruction,
            )
        return _Known(tensor, lanes, nbytes)

    def check_range(self, place: _Known, access: Access, instruction: Instruction) -> None:
        """As one run of elements; on chip the partition and what is in it, each by itself."""
        size = access.element_type.itemsize
        if 0 in access.shape:
            return
        if not place.tensor.on_chip:
            limit = place.nbytes // size
            self.check_run(access.offset, access.pattern, limit, access, instruction)
            return
        width = max(1, place.nbytes // size)
        lane, column = divmod(access.offset, width)
        step, count = access.pattern[0] if access.pattern else (0, 1)
        self.check_run(lane, ((step // width, count),), place.lanes, access, instruction)
        self.check_run(column, access.pattern[1:], width, access, instruction)

    def check_run(
        self,
        first: int,
        pattern: tuple[tuple[int, int], ...],
        limit: int,
        access: Access,
        instruction: Instruction,
    ) -> None:
        low = high = first
        for step, count in pattern:
            if step > 0:
                high += step * (count - 1)
            else:
                low += step * (count - 1)
        if low < 0 or high >= limit:
            tensor = access.tensor
            raise self.fault(
                "NEFF-EXEC-OUT-OF-BOUNDS",
                f"{instruction.op}: element {low if low < 0 else high} of tensor {tensor.name!r} "
                f"({tensor.dtype}{list(tensor.shape)}, {tensor.buffer}) does not exist; allowed "
                f"are 0 to {limit - 1}",
                instruction,
            )

    def no_place(self, tensor: Tensor, what: str, instruction: Instruction) -> None:
        raise self.fault("NEFF-ADDRESS", f"tensor {tensor.name!r} {what}", instruction)

    def fault(self, code: str, message: str, instruction: Instruction) -> NeffRuntimeError:
        location = str(instruction.location or self.place)
        return NeffRuntimeError(message, code=code, place=location, remedy=_REMEDY)
