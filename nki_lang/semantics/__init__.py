"""What every instruction means, in NumPy: one function each, over views of memory."""

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
from nki_lang.semantics.table import MEANINGS, TRAITS, Meaning, Traits

__all__ = [
    "ACTIVATIONS",
    "ALU_OPS",
    "MEANINGS",
    "TRAITS",
    "EngineState",
    "Meaning",
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
"""Importing a family enters its meanings in the table."""
