"""Coalesces many small instructions into few large NumPy calls.

Consecutive instructions that apply the same operation to adjacent regions become one: elementwise
instructions along any dimension, matrix products along the contraction (a chain that accumulates
into one destination), the rows and the columns. Hardware could not run the result; only the
executor sees it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from nki_lang.analysis.regions import adjacent, may_overlap
from nki_lang.ir.types import Access, Block, Instruction, KernelIR, Statement, with_operands
from nki_lang.semantics import TRAITS

__all__ = ["coalesce", "coalesced"]

_ELEMENTWISE_OPS = frozenset(
    {
        "tensor_tensor",
        "tensor_copy",
        "dma_copy",
        "memset",
        "reciprocal",
        "tensor_scalar",
        "activation",
    }
)
"""Instructions that treat every element equally when all other operands are numbers."""


def coalesced(kernel_ir: KernelIR) -> KernelIR:
    """Return the kernel with runs of mergeable instructions merged."""
    return replace(kernel_ir, bodies=tuple(coalesce(body) for body in kernel_ir.bodies))


def coalesce(block: Block) -> Block:
    """Return the block with runs of mergeable instructions merged."""
    merged: Block = [
        statement
        if isinstance(statement, Instruction)
        else replace(statement, body=coalesce(statement.body))
        for statement in block
    ]
    # A sweep merges along one dimension; its rows may be merged along the next one after it.
    while True:
        shorter = list(_sweep(merged))
        if len(shorter) == len(merged):
            return merged
        merged = shorter


def _sweep(block: Block) -> Iterator[Statement]:
    """Merge each instruction into the previous one where possible, in one sweep."""
    previous: Statement | None = None
    direction: str | int | None = None
    for statement in block:
        if isinstance(previous, Instruction) and isinstance(statement, Instruction):
            merge = _merge(previous, statement, direction)
            if merge is not None:
                previous, direction = merge
                continue
        if previous is not None:
            yield previous
        previous, direction = statement, None
    if previous is not None:
        yield previous


def _merge(
    first: Instruction, second: Instruction, direction: str | int | None
) -> tuple[Instruction, str | int] | None:
    """Return the merged instruction and its direction. A run keeps its direction, so its regions
    stay boxes.
    """
    if first.op != second.op or first.engine is not second.engine:
        return None
    if first.op == "nc_matmul":
        return _merge_products(first, second, direction)
    if first.op in _ELEMENTWISE_OPS:
        return _merge_elementwise(first, second, direction)
    return None


def _merge_elementwise(
    first: Instruction, second: Instruction, direction: str | int | None
) -> tuple[Instruction, str | int] | None:
    if not _equal_but_accesses(first, second) or not _independent(first, second):
        return None
    first_operands, second_operands = first.operands, second.operands
    access_names = [name for name, value in first_operands.items() if type(value) is Access]
    shape = first_operands[access_names[0]].shape
    if any(first_operands[name].shape != shape for name in access_names):
        return None
    # The innermost dimension first: pieces that follow each other there make one long run of
    # memory, which NumPy walks fastest.
    for dim in range(len(shape) - 1, -1, -1) if direction is None else (direction,):
        joined = {
            name: adjacent(first_operands[name], second_operands[name], int(dim))
            for name in access_names
        }
        if all(access is not None for access in joined.values()):
            return with_operands(first, {**first_operands, **joined}), dim
    return None


def _equal_but_accesses(first: Instruction, second: Instruction) -> bool:
    """Return True if the operands are equal except for the regions of the accesses."""
    first_operands, second_operands = first.operands, second.operands
    if (
        first_operands.keys() != second_operands.keys()
        or first_operands.get("reduce_res") is not None
    ):
        return False
    if first_operands.get("reduce_cmd", "idle") != "idle":
        return False
    for name, value in first_operands.items():
        second_value = second_operands[name]
        if type(value) is Access:
            if type(second_value) is not Access or name in (
                "operand0",
                "operand1",
                "bias",
                "scale",
            ):
                return False
        elif value is not second_value and (
            type(value) is not type(second_value) or value != second_value
        ):
            return False
    return True


def _independent(first: Instruction, second: Instruction) -> bool:
    """Return True if neither instruction writes what the other reads; each may work in place."""
    writes = TRAITS[first.op].writes
    for writer, reader in ((first, second), (second, first)):
        for name, written in writer.operands.items():
            if type(written) is not Access or name not in writes:
                continue
            for access in reader.operands.values():
                if type(access) is Access and may_overlap(written, access):
                    return False
    # In place means the same elements in the same order, or none.
    dst = first.operands["dst"]
    return all(
        access == dst or not may_overlap(access, dst)
        for access in first.operands.values()
        if type(access) is Access
    )


_MERGEABLE_MATMUL_MODES = {"is_transpose": False, "perf_mode": "none"}
"""Operand values of products that may merge: other modes depend on the tile's position."""


def _merge_products(
    first: Instruction, second: Instruction, direction: str | int | None
) -> tuple[Instruction, str | int] | None:
    first_operands, second_operands = first.operands, second.operands
    if any(
        first_operands.get(k, v) != v or second_operands.get(k, v) != v
        for k, v in _MERGEABLE_MATMUL_MODES.items()
    ):
        return None
    names = ("dst", "stationary", "moving")
    if any(
        len(operands[name].pattern) != 2
        for operands in (first_operands, second_operands)
        for name in names
    ):
        return None
    for new_direction, join in _MATMUL_MERGES.items():
        if direction is not None and new_direction != direction:
            continue
        joined = join(first_operands, second_operands)
        if joined is not None and _is_disjoint(joined):
            return with_operands(first, {**first_operands, **joined}), new_direction
    return None


def _is_disjoint(joined: dict[str, Access]) -> bool:
    return not any(may_overlap(joined["dst"], joined[name]) for name in ("stationary", "moving"))


def _along_contraction(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Access] | None:
    # A narrower destination rounds after each product. In float32, one product over both
    # contractions differs from two only in the order of additions.
    dst = first["dst"]
    if dst != second["dst"] or not second.get("accumulate") or dst.element_type.name != "float32":
        return None
    return _joined(first, second, {"stationary": 0, "moving": 0}, {"dst": dst})


def _along_columns(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Access] | None:
    if first["stationary"] != second["stationary"] or first.get("accumulate") != second.get(
        "accumulate"
    ):
        return None
    return _joined(first, second, {"moving": 1, "dst": 1}, {"stationary": first["stationary"]})


def _along_rows(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Access] | None:
    if first["moving"] != second["moving"] or first.get("accumulate") != second.get("accumulate"):
        return None
    return _joined(first, second, {"stationary": 1, "dst": 0}, {"moving": first["moving"]})


def _joined(
    first: dict[str, Any], second: dict[str, Any], dims: dict[str, int], same: dict[str, Access]
) -> dict[str, Access] | None:
    joined = dict(same)
    for name, dim in dims.items():
        access = adjacent(first[name], second[name], dim)
        if access is None:
            return None
        joined[name] = access
    return joined


_MATMUL_MERGES = {"contraction": _along_contraction, "columns": _along_columns, "rows": _along_rows}
