"""What the instructions of random modules have in common: computations, lists, constants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_programs.program import ELEMENTS

if TYPE_CHECKING:
    from programs import Value

    from hlo_programs.generate import Maker

__all__ = ["array_constant", "listed", "region"]


def region(name: str, dtype: str, op: str) -> str:
    """A computation of two scalars."""
    kind = ELEMENTS[dtype]
    return f"{name} {{ a = {kind}[] parameter(0) b = {kind}[] parameter(1) ROOT r = {kind}[] {op}(a, b) }}"


def listed(values: object) -> str:
    """A list of numbers in HLO's text."""
    return "{" + ",".join(map(str, values)) + "}"  # type: ignore[call-overload]


def array_constant(make: Maker, shape: tuple[int, ...], dtype: str, least: int) -> Value | None:
    """Whole numbers from ``least`` to 7, whose literal has any layout."""
    order = make.chance.sample(range(len(shape)), len(shape))

    def numbers(extents: tuple[int, ...]) -> str:
        if not extents:
            number = make.chance.randrange(least, 8)
            return ("false", "true")[number % 2] if dtype == "bool" else str(number)
        return "{" + ", ".join(numbers(extents[1:]) for _ in range(extents[0])) + "}"

    return make.emit(f"{listed(order)} constant({numbers(shape)})", shape, dtype)
