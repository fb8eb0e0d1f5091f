"""Describes a kernel call: kernel, launch, operands, and the work of the kernel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any

from hlo_tools.ir.instruction import Instruction
from hlo_tools.kernels.calls import resolve
from nki_lang.base.memory import HBM
from nki_lang.base.services import service
from nki_lang.ir import Access, KernelIR
from nki_lang.ir.types import Block, ForLoop, WhileLoop
from nki_lang.ir.types import Instruction as KernelInstruction

__all__ = ["Description", "Work", "cost_of", "describe", "work_of"]


@dataclass(frozen=True, slots=True)
class Work:
    """The work of one launch of a kernel, summed over its cores.

    Attributes:
        macs: multiply-adds of the matrix engine; None when a loop's count is only known on the
            device.
        bytes_read, bytes_written: between HBM and the chip, as the kernel's copies state them;
            None likewise.
        instructions: in the program, loops counted once.
    """

    macs: int | None
    bytes_read: int | None
    bytes_written: int | None
    instructions: int


@dataclass(frozen=True, slots=True)
class Description:
    """A kernel call in plain values.

    Attributes:
        instruction: its name in the module.
        kernel: the function's name.
        target, cores, grid: what it was traced for and how it is launched.
        operands, results: (the kernel's name, shape) in order; constants are operands.
        aliases: (result, operand) pairs that share memory.
        constants: how many of the operands are the kernel's own constants.
        operand_bytes, result_bytes: of the call.
        work: what the kernel does.
        source: the user's ``file:line``, or "".
    """

    instruction: str
    kernel: str
    target: str
    cores: int
    grid: tuple[int, ...]
    operands: tuple[tuple[str, str], ...]
    results: tuple[tuple[str, str], ...]
    aliases: tuple[tuple[int, int], ...]
    constants: int
    operand_bytes: int
    result_bytes: int
    work: Work
    source: str

    def as_dict(self) -> dict[str, Any]:
        """The description as plain JSON values."""
        return asdict(self)


def describe(call: Instruction, root: Path | None = None) -> Description:
    """Describe one kernel call.

    Args:
        call: the custom call.
        root: folder that a relative path of the kernel file starts from; that of the module's file
            where it is not given.

    Raises:
        HloError: its configuration does not decode, or its file is missing or damaged.
    """
    resolved = resolve(call.backend_config, root or call.module.folder)
    config, kernel = resolved.config, resolved.kernel
    shape = call.shape
    results = shape.tuple_shapes if shape.is_tuple else (shape,)
    operands = [operand.shape for operand in call.operands]
    return Description(
        instruction=call.name,
        kernel=config.func_name,
        target=kernel.target,
        cores=kernel.lnc,
        grid=tuple(config.grid),
        operands=tuple(zip(config.input_names, map(str, operands), strict=False)),
        results=tuple(zip(config.output_names, map(str, results), strict=False)),
        aliases=tuple(
            (next(iter(alias.output_shape_index), 0), alias.operand_index)
            for alias in call.proto.output_operand_aliasing
        ),
        constants=len(kernel.constants),
        operand_bytes=sum(shape.byte_size for shape in operands),
        result_bytes=sum(shape.byte_size for shape in results),
        work=work_of(kernel),
        source=str(call.source) if call.source else "",
    )


def work_of(kernel: KernelIR) -> Work:
    """The work of one launch, counted from the kernel's instructions."""
    macs: int | None = 0
    read: int | None = 0
    written: int | None = 0
    for body in kernel.bodies:
        for instruction, times in _counted(body, 1):
            macs = _plus(macs, _macs(instruction), times)
            moved_in, moved_out = _moved(instruction)
            read = _plus(read, moved_in, times)
            written = _plus(written, moved_out, times)
    return Work(macs, read, written, sum(1 for _ in kernel.instructions()))


def _plus(total: int | None, amount: int, times: int | None) -> int | None:
    if amount == 0:
        return total
    return None if total is None or times is None else total + amount * times


def _counted(block: Block, times: int | None) -> Iterator[tuple[KernelInstruction, int | None]]:
    """Yield every instruction and its run count, None if the count depends on data."""
    for statement in block:
        if isinstance(statement, KernelInstruction):
            yield statement, times
        elif isinstance(statement, ForLoop):
            trips = _trips(statement)
            inner = None if trips is None or times is None else trips * times
            yield from _counted(statement.body, inner)
        else:
            inner = None if isinstance(statement, WhileLoop) else times
            yield from _counted(statement.body, inner)


def _trips(loop: ForLoop) -> int | None:
    bounds = (loop.start, loop.stop, loop.step)
    if not all(isinstance(bound, int) for bound in bounds):
        return None
    return len(range(*(int(bound) for bound in bounds)))  # type: ignore[arg-type]


def _macs(instruction: KernelInstruction) -> int:
    """``stationary[K, M]`` times ``moving[K, N]``: K·M·N, times the lanes of packed types."""
    if instruction.op not in ("nc_matmul", "nc_matmul_mx"):
        return 0
    stationary, moving = instruction.operands.get("stationary"), instruction.operands.get("moving")
    if not isinstance(stationary, Access) or not isinstance(moving, Access):
        return 0
    lanes = moving.element_type.lanes
    return prod(stationary.shape) * prod(moving.shape[1:]) * lanes


def _moved(instruction: KernelInstruction) -> tuple[int, int]:
    """(bytes from HBM, bytes to HBM) of a copy."""
    if not instruction.op.startswith("dma_"):
        return 0, 0
    operands = instruction.operands
    sources = (*_accesses(operands.get("src")), *_accesses(operands.get("srcs")))
    return _on_hbm(sources), _on_hbm(_accesses(operands.get("dst")))


def _on_hbm(accesses: Iterable[Access]) -> int:
    """Bytes of the accesses that go to HBM."""
    return sum(
        prod(access.shape) * access.element_type.itemsize
        for access in accesses
        if access.tensor.buffer in HBM
    )


def _accesses(value: Any) -> tuple[Access, ...]:
    if isinstance(value, Access):
        return (value,)
    if type(value) in (tuple, list):
        return tuple(access for access in value if isinstance(access, Access))
    return ()


def cost_of(kernel: KernelIR) -> dict[str, Any]:
    """Return the estimate of one launch as a JSON document.

    Raises:
        CodedError: the compiler refuses the kernel.
    """
    return service("kernel-cost")(kernel, ()).document()
