"""A generated HLO module."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from tests.fuzz.drivers.programs import Program, Statement, Value

__all__ = ["ELEMENTS", "HloProgram", "body", "listed", "typed", "typed_as"]

ELEMENTS = {
    "float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64", "int8": "s8", "int16": "s16",
    "int32": "s32", "int64": "s64", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "bool": "pred", "float8_e4m3fn": "f8e4m3fn", "float8_e5m2": "f8e5m2", "complex64": "c64",
    "int4": "s4", "uint4": "u4", "float8_e4m3": "f8e4m3", "float8_e3m4": "f8e3m4",
    "float8_e4m3b11fnuz": "f8e4m3b11fnuz", "float8_e4m3fnuz": "f8e4m3fnuz", "float8_e5m2fnuz": "f8e5m2fnuz",
}  # fmt: skip


def typed_as(dtype: str, shape: tuple[int, ...]) -> str:
    """A type as HLO's text has it."""
    return f"{ELEMENTS[dtype]}[{','.join(map(str, shape))}]"


def listed(values: object) -> str:
    """A list of numbers in HLO's text."""
    return "{" + ",".join(map(str, values)) + "}"  # type: ignore[call-overload]


def body(
    arguments: Iterable[Value], statements: Iterable[Statement], layout: Callable[[Value], str]
) -> list[str]:
    """The lines of parameters and instructions."""
    lines = [
        f"  {value.name} = {layout(value)} parameter({index})"
        for index, value in enumerate(arguments)
    ]
    for statement in statements:
        if statement.text.startswith("{"):  # a layout of its own
            lines.append(f"  {statement.result.name} = {typed(statement.result)}{statement.text}")
        else:
            lines.append(f"  {statement.result.name} = {layout(statement.result)} {statement.text}")
    return lines


def typed(value: Value) -> str:
    """A value's type."""
    return typed_as(value.dtype, value.shape)


class HloProgram(Program):
    """A program as HLO's text."""

    def source(self) -> str:
        """The module."""
        called = dict.fromkeys(text for statement in self.statements for text in statement.called)
        layout = self._laid_out if self.seed % 3 == 0 else typed
        values = [argument.value for argument in self.arguments]
        by_name = {
            statement.name: statement
            for statement in [*values, *(value.result for value in self.statements)]
        }
        lines = body(values, self.statements, layout)
        shapes = ", ".join(layout(by_name[name]) for name in self.results)
        lines.append(f"  ROOT result = ({shapes}) tuple({', '.join(self.results)})")
        text = "\n".join(lines)
        return "\n".join(["HloModule random", *called, f"ENTRY main {{\n{text}\n}}\n"])

    def _laid_out(self, value: Value) -> str:
        """A type whose layout the value's name chooses, as a compiler's dump has any."""
        chance = random.Random(f"{self.seed} {value.name}")
        order = chance.sample(range(value.rank), value.rank)
        return typed(value) + (listed(order) if order and chance.random() < 0.6 else "")
