"""Shared parts of random modules' instructions: computations, lists and constants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fuzz.drivers.hlo_programs.program import ELEMENTS, listed, typed_as

if TYPE_CHECKING:
    from tests.fuzz.drivers.hlo_programs.generate import Maker
    from tests.fuzz.drivers.programs import Value

__all__ = ["array_constant", "listed", "region", "typed_as"]


def region(name: str, dtype: str, op: str) -> str:
    """A computation of two scalars."""
    kind = ELEMENTS[dtype]
    return f"{name} {{ a = {kind}[] parameter(0) b = {kind}[] parameter(1) ROOT r = {kind}[] {op}(a, b) }}"


def array_constant(make: Maker, shape: tuple[int, ...], dtype: str, least: int) -> Value | None:
    """Whole numbers from ``least`` to 7, whose literal has any layout."""
    order = make.chance.sample(range(len(shape)), len(shape))

    def numbers(extents: tuple[int, ...]) -> str:
        if not extents:
            number = make.chance.randrange(least, 8)
            return ("false", "true")[number % 2] if dtype == "bool" else str(number)
        return "{" + ", ".join(numbers(extents[1:]) for _ in range(extents[0])) + "}"

    layout = listed(order) + " " if order else ""
    return make.emit(f"{layout}constant({numbers(shape)})", shape, dtype)
