"""The values of arguments, as Python's numbers; a tenth of them edges."""

from __future__ import annotations

import math
import random

from tests.fuzz.drivers.oracle.program import Program, Tensor
from tests.oracles.scalars import INTS, f32, rounded

__all__ = ["given", "values_of"]

_EDGES = (0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40, -1e-45, 65504.0, 3e38, -448.0, 0.5, 2.5)


def values_of(tensor: Tensor, seed: int) -> list[float]:
    """The elements of an argument; the same for the same seed."""
    chance = random.Random(f"{seed} {tensor.name}")
    count = math.prod(tensor.shape)
    if tensor.limits is not None:
        numbers = range(*tensor.limits)
        fits = count <= len(numbers)
        return chance.sample(numbers, count) if fits else chance.choices(numbers, k=count)
    is_integral = chance.random() < 0.5
    return [_value(tensor.dtype, chance, is_integral=is_integral) for _ in range(count)]


def _value(dtype: str, chance: random.Random, *, is_integral: bool) -> float:
    if dtype in INTS:
        low, high = INTS[dtype]
        if is_integral or chance.random() < 0.7:
            return chance.randint(max(low, -6), 6)
        return chance.choice((low, high, chance.randint(low, high)))
    if is_integral:
        return float(chance.randint(-3, 3))
    if chance.random() < 0.1:
        return rounded(f32(chance.choice(_EDGES)), dtype)
    return rounded(f32(chance.gauss(0.0, 3.0)), dtype)


def given(program: Program) -> dict[str, list[float]]:
    """The values of each argument."""
    return {
        name: values_of(tensor, program.seed)
        for name, tensor in program.tensors.items()
        if tensor.memory == "argument"
    }
