"""Converts register instructions to the forms that KLIR has.

KLIR moves a constant into a register, loads and stores one element, and adds a constant to a
register (or applies another operator). So allocating a register is the first move into it, copying
a register is adding zero, and arithmetic on two registers has no KLIR form.
"""

from __future__ import annotations

from typing import Any

from nki_lang.ir.types import Access, Register

__all__ = ["REGISTER_OPS", "inferred", "lowered"]

REGISTER_OPS = frozenset(
    {"register_alloc", "register_move", "register_load", "register_store", "register_alu"}
)

_COMMUTATIVE_OPERATORS = frozenset(
    {"add", "multiply", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor", "equal", "not_equal"}
)  # fmt: skip

_OpAndOperands = tuple[str, dict[str, Any]]


def lowered(op: str, operands: dict[str, object]) -> _OpAndOperands:
    """Return the instruction in a form that has a KLIR operator, the inverse of
    :func:`inferred`.
    """
    if op == "register_alloc":
        start = operands.get("x")
        if isinstance(start, Access):
            return "register_load", {"dst": operands.get("dst"), "src": start}
        return "register_move", {"dst": operands.get("dst"), "src": 0 if start is None else start}
    if op == "register_move" and isinstance(operands.get("src"), Register):
        return "register_alu", {
            "dst": operands.get("dst"), "op": "add", "src0": operands["src"], "src1": 0,
        }  # fmt: skip
    if op == "register_alu":
        first, second = operands.get("src0"), operands.get("src1")
        if type(first) is int and operands.get("op") in _COMMUTATIVE_OPERATORS:
            return op, {**operands, "src0": second, "src1": first}
    return op, operands


def inferred(op: str, operands: dict[str, object], defined: set[str]) -> _OpAndOperands:
    """Return the instruction that a reader infers from the lowered form; add its destination to
    ``defined``.
    """
    dst = operands.get("dst")
    if not isinstance(dst, Register):
        return op, operands
    first = dst.name not in defined
    defined.add(dst.name)
    if first and op in ("register_move", "register_load"):
        return "register_alloc", {"dst": dst, "x": operands["src"]}
    return op, operands
