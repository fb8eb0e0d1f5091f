"""Make few large NumPy calls of many small ones.

Neighbouring instructions that do the same to adjacent regions become one: element-wise
instructions along any dimension, matrix products along the contraction (a chain that accumulates
into one destination), the rows and the columns. The result is no instruction that hardware could
run; only the executor sees it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from nki_lang.execute.regions import beside, may_overlap
from nki_lang.ir.types import Access, Block, Instruction, KernelIR, Statement, with_operands
from nki_lang.semantics import TRAITS

__all__ = ["coalesce", "coalesced"]

_UNIFORM = frozenset(
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
"""Instructions that treat every element alike when all other operands are numbers."""


def coalesced(kernel_ir: KernelIR) -> KernelIR:
    """The kernel with runs of alike instructions merged."""
    return replace(kernel_ir, bodies=tuple(coalesce(body) for body in kernel_ir.bodies))


def coalesce(block: Block) -> Block:
    """The block with runs of alike instructions merged."""
    merged: Block = [
        statement
        if isinstance(statement, Instruction)
        else replace(statement, body=coalesce(statement.body))
        for statement in block
    ]
    # A sweep merges along one dimension; its rows may be merged along the next one after it.
    while True:
        shorter = list(_pass(merged))
        if len(shorter) == len(merged):
            return merged
        merged = shorter


def _pass(block: Block) -> Iterator[Statement]:
    """One sweep: each instruction is merged into the one before as long as that works."""
    previous: Statement | None = None
    direction: str | int | None = None
    for statement in block:
        if isinstance(previous, Instruction) and isinstance(statement, Instruction):
            found = _merge(previous, statement, direction)
            if found is not None:
                previous, direction = found
                continue
        if previous is not None:
            yield previous
        previous, direction = statement, None
    if previous is not None:
        yield previous


def _merge(
    first: Instruction, second: Instruction, direction: str | int | None
) -> tuple[Instruction, str | int] | None:
    """Both as one, and along what; a run keeps its direction so that the pieces stay boxes."""
    if first.op != second.op or first.engine is not second.engine:
        return None
    if first.op == "nc_matmul":
        return _merge_products(first, second, direction)
    if first.op in _UNIFORM:
        return _merge_uniform(first, second, direction)
    return None


def _merge_uniform(
    first: Instruction, second: Instruction, direction: str | int | None
) -> tuple[Instruction, str | int] | None:
    if not _same_but_places(first, second) or not _independent(first, second):
        return None
    one, two = first.operands, second.operands
    places = [name for name, value in one.items() if type(value) is Access]
    shape = one[places[0]].shape
    if any(one[name].shape != shape for name in places):
        return None
    # The innermost dimension first: pieces that follow each other there make one long run of
    # memory, which NumPy walks fastest.
    for dim in range(len(shape) - 1, -1, -1) if direction is None else (direction,):
        joined = {name: beside(one[name], two[name], int(dim)) for name in places}
        if all(access is not None for access in joined.values()):
            return with_operands(first, {**one, **joined}), dim
    return None


def _same_but_places(first: Instruction, second: Instruction) -> bool:
    """Equal operands except for where the tensors are; no operand but numbers beside them."""
    one, two = first.operands, second.operands
    if one.keys() != two.keys() or one.get("reduce_res") is not None:
        return False
    if one.get("reduce_cmd", "idle") != "idle":
        return False
    for name, value in one.items():
        other = two[name]
        if type(value) is Access:
            if type(other) is not Access or name in ("operand0", "operand1", "bias", "scale"):
                return False
        elif value is not other and (type(value) is not type(other) or value != other):
            return False
    return True


def _independent(first: Instruction, second: Instruction) -> bool:
    """Neither writes what the other reads (an instruction in place is no harm to itself)."""
    writes = TRAITS[first.op].writes
    for one, two in ((first, second), (second, first)):
        for name, written in one.operands.items():
            if type(written) is not Access or name not in writes:
                continue
            for access in two.operands.values():
                if type(access) is Access and may_overlap(written, access):
                    return False
    # In place means the same elements in the same order, or none.
    dst = first.operands["dst"]
    return all(
        access == dst or not may_overlap(access, dst)
        for access in first.operands.values()
        if type(access) is Access
    )


_PLAIN = {"is_transpose": False, "perf_mode": "none"}


def _merge_products(
    first: Instruction, second: Instruction, direction: str | int | None
) -> tuple[Instruction, str | int] | None:
    one, two = first.operands, second.operands
    if any(one.get(k, v) != v or two.get(k, v) != v for k, v in _PLAIN.items()):
        return None
    names = ("dst", "stationary", "moving")
    if any(len(part[name].pattern) != 2 for part in (one, two) for name in names):
        return None
    for way, join in _WAYS.items():
        if direction is not None and way != direction:
            continue
        joined = join(one, two)
        if joined is not None and _apart(joined):
            return with_operands(first, {**one, **joined}), way
    return None


def _apart(joined: dict[str, Access]) -> bool:
    return not any(may_overlap(joined["dst"], joined[name]) for name in ("stationary", "moving"))


def _along_contraction(one: dict[str, Any], two: dict[str, Any]) -> dict[str, Access] | None:
    # A narrower destination rounds after each product. In float32, one product over both
    # contractions differs from two only in the order of additions.
    dst = one["dst"]
    if dst != two["dst"] or not two.get("accumulate") or dst.element_type.name != "float32":
        return None
    return _joined(one, two, {"stationary": 0, "moving": 0}, {"dst": dst})


def _along_columns(one: dict[str, Any], two: dict[str, Any]) -> dict[str, Access] | None:
    if one["stationary"] != two["stationary"] or one.get("accumulate") != two.get("accumulate"):
        return None
    return _joined(one, two, {"moving": 1, "dst": 1}, {"stationary": one["stationary"]})


def _along_rows(one: dict[str, Any], two: dict[str, Any]) -> dict[str, Access] | None:
    if one["moving"] != two["moving"] or one.get("accumulate") != two.get("accumulate"):
        return None
    return _joined(one, two, {"stationary": 1, "dst": 0}, {"moving": one["moving"]})


def _joined(
    one: dict[str, Any], two: dict[str, Any], dims: dict[str, int], same: dict[str, Access]
) -> dict[str, Access] | None:
    joined = dict(same)
    for name, dim in dims.items():
        access = beside(one[name], two[name], dim)
        if access is None:
            return None
        joined[name] = access
    return joined


_WAYS = {"contraction": _along_contraction, "columns": _along_columns, "rows": _along_rows}
