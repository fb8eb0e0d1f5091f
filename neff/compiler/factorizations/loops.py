"""While loops whose bodies are written with arrays that have operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.rewrite.emitting import constant, get_part, make_tuple, plain
from hlo_tools.types.shape import array_shape, tuple_shape
from neff.compiler.complex_pairs.arrays import RealArray

__all__ = ["State", "repeat", "repeat_while"]

State: TypeAlias = list[RealArray]
"""The arrays that a loop changes."""


def repeat_while(
    source: Instruction,
    state: Sequence[RealArray],
    condition: Callable[[State], RealArray],
    body: Callable[[State], State],
) -> State:
    """Repeat ``body`` while ``condition``, a scalar, is true of the state; return the last state.

    Args:
        source: the instruction that the loop is for.
        state: before the loop.
        condition, body: called once each, with the state in a computation of its own.
    """
    shape = tuple_shape([array.shape for array in state])

    def computation(name: str, result: Callable[[Instruction, State], Instruction]) -> Computation:
        region = source.module.add_computation(f"{source.name}.{name}")
        parameter = region.add(
            "parameter", shape, [], name="state", like=source, parameter_number=0
        )
        parameter.proto.ClearField("sharding")
        arrays = [RealArray(get_part(parameter, index), parameter) for index in range(len(state))]
        region.set_root(result(parameter, arrays))
        return region

    regions = [
        computation("body", lambda like, arrays: make_tuple(like, [a.view for a in body(arrays)])),
        computation("condition", lambda like, arrays: condition(arrays).view),
    ]
    loop = plain(source, "while", shape, [make_tuple(source, [array.view for array in state])])
    loop.set_called_computations(regions)
    return [RealArray(get_part(loop, index), source) for index in range(len(state))]


def repeat(
    source: Instruction, state: Sequence[RealArray], count: int, body: Callable[[State], State]
) -> State:
    """Repeat ``body`` a number of times; return the last state."""
    counter = RealArray(constant(source, 0, array_shape("s32")), source)
    _, *results = repeat_while(
        source,
        [counter, *state],
        lambda arrays: arrays[0].compare("LT", count),
        lambda arrays: [arrays[0] + 1, *body(arrays[1:])],
    )
    return results
