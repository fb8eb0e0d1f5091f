"""Which inputs of a kernel are outputs only: never read, and overwritten to the last element."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nki_lang.ir import Access, Instruction, KernelIR, Statement, Tensor

__all__ = ["overwritten_inputs"]

_PLAIN_WRITERS = frozenset({"dma_copy", "dma_transpose", "tensor_copy"})
"""Instructions that store into ``dst`` whatever was there before."""


def overwritten_inputs(kernel: KernelIR) -> frozenset[str]:
    """Names of the inputs whose content before the call cannot matter.

    An input is taken for one only when that is certain: each of its elements is written by a
    plain copy outside of any device loop, and no instruction mentions it otherwise.
    """
    outputs = {tensor.name for tensor in kernel.outputs}
    candidates = {tensor.name: tensor for tensor in kernel.inputs if tensor.name in outputs}
    if not candidates:
        return frozenset()
    covered = {name: np.zeros(max(tensor.elements, 1), bool) for name, tensor in candidates.items()}
    for body in kernel.bodies:
        for instruction, certain in _instructions(body, certain=True):
            _mark(instruction, certain, covered)
    return frozenset(name for name, written in covered.items() if written.all())


def _instructions(block: list[Statement], *, certain: bool) -> Iterator[tuple[Instruction, bool]]:
    """Every instruction, and whether it runs exactly once."""
    for statement in block:
        if isinstance(statement, Instruction):
            yield statement, certain
            continue
        once = certain and type(statement).__name__ == "NoReorder"
        yield from _instructions(statement.body, certain=once)


def _mark(
    instruction: Instruction, certain: bool, covered: dict[str, np.ndarray[Any, Any]]
) -> None:
    """Note what one instruction writes; forget the candidates that it may read."""
    for key, operand in instruction.operands.items():
        for access in _accesses(operand):
            written = covered.get(access.tensor.name)
            if written is None:
                continue
            if key != "dst" or not _is_plain(instruction, access):
                del covered[access.tensor.name]
            elif certain:
                written[_elements(access)] = True


def _accesses(operand: Any) -> Iterator[Access]:
    if isinstance(operand, Access):
        yield operand
        for offset in (operand.scalar_offset, operand.vector_offset):
            if offset is not None:
                yield from _accesses(offset)
    elif isinstance(operand, Tensor):
        yield Access(operand, 0, ((1, operand.elements),))
    elif type(operand) in (tuple, list):
        for item in operand:
            yield from _accesses(item)


def _is_plain(instruction: Instruction, access: Access) -> bool:
    return (
        instruction.op in _PLAIN_WRITERS
        and not access.is_dynamic
        and (access.dtype is None or access.dtype == access.tensor.dtype)
        and instruction.operands.get("oob_mode") != "skip"
    )


def _elements(access: Access) -> np.ndarray[Any, Any]:
    """The elements of the tensor that a static access touches."""
    indices = np.array([access.offset], dtype=np.int64)
    for step, count in access.pattern:
        indices = (indices[:, None] + np.arange(count, dtype=np.int64) * step).reshape(-1)
    return indices
