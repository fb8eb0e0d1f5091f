"""The semantics of every instruction in NumPy: one function each, over views of memory."""

from nki_lang.semantics import (
    accumulators,
    activation,
    collectives,
    cores,
    elementwise,
    gather,
    matmul,
    movement,
    mx,
    random,
    reduction,
    register,
    scan,
    selection,
    statistics,
)
from nki_lang.semantics.functions import ACTIVATIONS
from nki_lang.semantics.operators import ALU_OPS, Operator
from nki_lang.semantics.state import EngineState
from nki_lang.semantics.table import SEMANTICS, TRAITS, InstructionFunction, Traits

__all__ = [
    "ACTIVATIONS",
    "ALU_OPS",
    "SEMANTICS",
    "TRAITS",
    "EngineState",
    "InstructionFunction",
    "Operator",
    "Traits",
]

_FAMILIES = (
    accumulators,
    activation,
    collectives,
    cores,
    elementwise,
    gather,
    matmul,
    movement,
    mx,
    random,
    reduction,
    register,
    scan,
    selection,
    statistics,
)
"""Importing a family registers its functions in the table."""
