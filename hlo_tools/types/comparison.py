"""The order by which a ``compare`` compares, whichever field of its message says it.

Until jaxlib 0.11, ``comparison_type`` names the order and the kind of the elements: ``FLOAT``,
``TOTALORDER``, ``SIGNED``, ``UNSIGNED``. jaxlib 0.12 writes ``comparison_order`` instead:
``PARTIAL``, ``TOTAL``. Where both are set, XLA takes ``comparison_order``. The orders differ on
floats only: in the total one -NaN < -inf < ... < -0 < 0 < ... < inf < NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_tools import schema
from hlo_tools.types.element_types import BY_NUMBER

if TYPE_CHECKING:
    from hlo_tools.schema.messages import HloComputationProto, HloInstructionProto, HloModuleProto

__all__ = [
    "PARTIAL",
    "TOTAL",
    "TOTAL_TYPE",
    "default_comparison_order",
    "default_comparison_type",
    "effective_order",
    "for_older_readers",
    "is_total_order",
    "spell_as_type",
]

PARTIAL, TOTAL = "PARTIAL", "TOTAL"
TOTAL_TYPE = "TOTALORDER"
_KIND_TYPES = {"int": "SIGNED", "uint": "UNSIGNED", "pred": "UNSIGNED"}
_TYPE_ORDERS = {"FLOAT": PARTIAL, TOTAL_TYPE: TOTAL}
_ORDER_TAG = b"\xb2\x06"
"""The key of ``comparison_order`` on the wire: 102 << 3 | 2."""


def is_total_order(row: HloInstructionProto) -> bool:
    """Return True if a comparison of floats uses the total order."""
    if row.comparison_order:
        return row.comparison_order == TOTAL
    return row.comparison_type == TOTAL_TYPE


def default_comparison_type(element_type: int) -> str:
    """The ``comparison_type`` of a comparison of such elements that states none."""
    element = BY_NUMBER.get(element_type)
    return _KIND_TYPES.get(element.kind if element else "", "FLOAT")


def default_comparison_order(element_type: int) -> str:
    """The ``comparison_order`` of a comparison of such elements that states none."""
    return PARTIAL if default_comparison_type(element_type) == "FLOAT" else TOTAL


def effective_order(row: HloInstructionProto, element_type: int) -> str:
    """Return the key that comparisons with equal semantics share.

    A word that is no order or type stands for itself.
    """
    default = default_comparison_order(element_type)
    orders = {"": default, default_comparison_type(element_type): default, **_TYPE_ORDERS}
    by_type = orders.get(row.comparison_type, row.comparison_type)
    if not row.comparison_order or not row.comparison_type or by_type == row.comparison_order:
        return row.comparison_order or by_type
    return f"{row.comparison_order} ({row.comparison_type})"


def for_older_readers(data: bytes) -> bytes:
    """Return a serialized HloModuleProto with ``comparison_type`` set for each order.

    jaxlib before 0.12 ignores ``comparison_order``; later versions prefer it.
    """
    if _ORDER_TAG not in data:
        return data
    proto = schema.HloModuleProto.FromString(data)
    return proto.SerializeToString(deterministic=True) if spell_as_type(proto) else data


def spell_as_type(proto: HloModuleProto, *, clear: bool = False) -> bool:
    """Set the ``comparison_type`` of each comparison that has a ``comparison_order``.

    Args:
        clear: remove the ``comparison_order`` too.

    Returns:
        True when a message changed.
    """
    changed = False
    for computation in proto.computations:
        for row in computation.instructions:
            if row.comparison_order:
                row.comparison_type = _type_of(row, computation)
                changed = True
                if clear:
                    row.ClearField("comparison_order")
    return changed


def _type_of(row: HloInstructionProto, computation: HloComputationProto) -> str:
    first_id = next(iter(row.operand_ids), None)  # none in a damaged file
    operand = next((inst for inst in computation.instructions if inst.id == first_id), None)
    default = default_comparison_type(operand.shape.element_type if operand else 0)
    return TOTAL_TYPE if default == "FLOAT" and row.comparison_order == TOTAL else default
