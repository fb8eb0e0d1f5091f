"""A loop nest as the drivers take programs: its text, its data, smaller ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.fuzz.drivers.loop_nests.draw import nest
from tests.fuzz.drivers.loop_nests.exactness import CALLS, arrays_of, exact_nest, typed_arrays
from tests.fuzz.drivers.loop_nests.interpret import Interpreter
from tests.fuzz.drivers.loop_nests.nodes import Nest
from tests.fuzz.drivers.loop_nests.render import source
from tests.fuzz.drivers.loop_nests.shrink import smaller_nests
from tests.fuzz.drivers.loop_nests.ways import Request

__all__ = ["NestProgram", "nest_program"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class NestProgram:
    """A nest with its seed."""

    seed: int
    nest: Nest

    @property
    def statements(self) -> tuple[Any, ...]:
        """Its outermost statements."""
        return self.nest.body.statements

    def request(self, modes: list[str]) -> Request:
        """The request to the child."""
        calls = [arrays_of(self.nest, call) for call in range(CALLS)]
        return Request(source(self.nest), source(self.nest, oracle=True), calls, modes)

    def meant(self) -> list[list[Array]]:
        """The results of each call by the interpreter."""
        return [
            typed_arrays(self.nest, Interpreter().run(self.nest, arrays_of(self.nest, call)))
            for call in range(CALLS)
        ]

    def shown(self) -> str:
        """Its source with the arguments of both calls, as comments."""
        lines = [
            f"# call {call}: {argument.variable.name}: {array.dtype}{list(array.shape)} {array.tolist()}"[:1500]
            for call in range(CALLS)
            for argument, array in zip(self.nest.inputs, arrays_of(self.nest, call), strict=True)
        ]  # fmt: skip
        return "\n".join([*lines, source(self.nest)])

    def smaller(self) -> Iterator[NestProgram]:
        """Programs with less in them that are still exact."""
        for less in smaller_nests(self.nest):
            exact = exact_nest(less)
            if exact is not None and exact != self.nest:
                yield NestProgram(self.seed, exact)


def nest_program(seed: int) -> NestProgram:
    """The nest of a seed."""
    return NestProgram(seed, nest(seed))
