"""The opcodes of HLO as one table: their text grammar and the traits that tools ask about.

Every tool that treats opcodes alike (verifier, passes, statistics, layouts, compiler) derives its
set from this table, so that a new opcode is one row here. A tool keeps a list of its own only for
a fact that nothing else needs.

Facts: XLA's text grammar as of 2026-08 (operand counts, attribute names, which are required, and
which opcodes may leave out their result shape); costs as XLA's ``HloCostAnalysis`` counts them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, get_args

from hlo_tools.types.opcode_table import OPCODE_ROWS

__all__ = [
    "COMMON_ATTRIBUTES",
    "NEWER",
    "OPCODES",
    "Cost",
    "Kind",
    "Opcode",
    "Trait",
    "missing_opcode",
    "opcodes_of_cost",
    "opcodes_of_kind",
    "opcodes_with",
]

Kind: TypeAlias = Literal[
    "algebra",
    "async",
    "collective",
    "control",
    "custom",
    "elementwise",
    "movement",
    "normalization",
    "order",
    "product",
    "reduction",
    "source",
    "transfer",
    "tuple",
]
"""The nature of the work:

* ``algebra``: factorizations, solvers and Fourier transforms of matrices.
* ``async``: the halves of an asynchronous operation or copy.
* ``collective``: devices exchange data.
* ``control``: the work is that of the called computations.
* ``elementwise``: each result element depends on the operand elements at the same index.
* ``movement``: elements are copied or repeated, and none is computed.
* ``order``: the operand itself, with constraints on order, placement or lifetime.
* ``reduction``: a called computation, or an order, combines several elements.
* ``source``: a value without array operands, random numbers included.
* ``transfer``: data crosses to the host or to another device, one transfer at a time.
"""

Cost: TypeAlias = Literal["none", "flop", "transcendental", "formula", "applied"]
"""Arithmetic per result element: nothing, one FLOP, one transcendental operation, a formula of the
opcode, or the called computation once for each application."""

Trait: TypeAlias = Literal[
    "commutative",
    "exact",
    "forwarding",
    "participant",
    "reference",
    "unmoved",
]
"""Facts that several tools ask for:

* ``commutative``: the two operands may be swapped (the sign of a zero from maximum may differ).
* ``exact``: float results are the same bits on every device.
* ``forwarding``: the result occupies the memory of the first operand.
* ``participant``: it takes part in something outside its computation, or has a state.
* ``reference``: it computes no new elements; its callees, if any, do.
* ``unmoved``: it reads and writes no memory itself.
"""


@dataclass(frozen=True, slots=True)
class Opcode:
    """One opcode.

    Attributes:
        name: the spelling in text and protos.
        arity: number of operands, or None if it takes any number.
        required, optional: its attributes in text, without the common ones.
        infers_shape: text may leave out the result shape.
        kind: the nature of the work.
        cost: arithmetic per result element.
        element_kinds: kinds of elements (``float``, ``int``, ...) that the operands of a simple
            elementwise opcode may have; empty if a rule of the opcode decides.
        traits: see :data:`Trait`.
    """

    name: str
    arity: int | None
    required: frozenset[str]
    optional: frozenset[str]
    infers_shape: bool
    kind: Kind
    cost: Cost
    element_kinds: frozenset[str]
    traits: frozenset[Trait]

    @property
    def attributes(self) -> frozenset[str]:
        """Every attribute that the opcode may have."""
        return self.required | self.optional | COMMON_ATTRIBUTES


COMMON_ATTRIBUTES = frozenset(
    {
        "sharding", "frontend_attributes", "statistics", "parameter_replication",
        "control-predecessors", "origin", "metadata", "backend_config",
    }
)  # fmt: skip


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _opcode_table() -> dict[str, Opcode]:
    traits = set(get_args(Trait))
    table: dict[str, Opcode] = {}
    for row in OPCODE_ROWS:
        if not traits >= _words(row.traits) or row.kind not in get_args(Kind):
            raise ValueError(f"the opcode table has an unknown trait or kind: {row}")
        for name in row.names.split():
            table[name] = Opcode(
                name,
                row.arity,
                _words(row.required),
                _words(row.optional),
                row.infers_shape,
                cast(Kind, row.kind),
                cast(Cost, row.cost),
                _words(row.element_kinds),
                cast(frozenset[Trait], _words(row.traits)),
            )
    return table


OPCODES: dict[str, Opcode] = _opcode_table()

NEWER = "newer than this version"
"""How messages call an opcode that only later versions know."""

_OPCODE_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
"""The form of all names of opcodes; a damaged name rarely has it."""


def missing_opcode(name: str, *, misspelled: bool = False) -> str:
    """Return the statement that this version lacks an opcode: a newer one, or none of XLA's.

    Args:
        misspelled: a person may have written the name; it resembles that of an opcode.
    """
    if misspelled or not _OPCODE_NAME.fullmatch(name):
        return f"there is no opcode '{name}'"
    return f"the opcode '{name}' is {NEWER}"


def opcodes_of_kind(*kinds: Kind, arity: int | None = None) -> frozenset[str]:
    """Return the names of the opcodes of these kinds, if given with this operand count."""
    return frozenset(
        name
        for name, opcode in OPCODES.items()
        if opcode.kind in kinds and arity in (None, opcode.arity)
    )


def opcodes_of_cost(*costs: Cost) -> frozenset[str]:
    """Return the names of the opcodes whose arithmetic is counted in these ways."""
    return frozenset(name for name, opcode in OPCODES.items() if opcode.cost in costs)


def opcodes_with(trait: Trait) -> frozenset[str]:
    """Return the names of the opcodes that have a trait."""
    return frozenset(name for name, opcode in OPCODES.items() if trait in opcode.traits)
