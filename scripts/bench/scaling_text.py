"""Text of the HLO modules that ``scaling_programs.py`` lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator

__all__ = [
    "Maker",
    "Shape",
    "binary",
    "constant",
    "module",
    "numbers",
    "region",
    "typed",
    "unary",
    "unusual",
]

Shape = tuple[int, ...]
Maker = Callable[[str, Shape], str]
"""The text of a module, from the element type and the shape of its operand."""


def typed(dtype: str, shape: Shape) -> str:
    return f"{dtype}[{','.join(map(str, shape))}]"


def numbers(values: Iterator[int] | Shape | range) -> str:
    return "{" + ",".join(map(str, values)) + "}"


def module(lines: str, regions: str = "", header: str = "") -> str:
    body = "\n".join(f"  {line.strip()}" for line in lines.strip().splitlines())
    return f"HloModule m{header}\n\n{regions}\nENTRY main {{\n{body}\n}}\n"


def region(dtype: str, opcode: str = "add", name: str = "combine") -> str:
    """A computation of two scalars."""
    if dtype == "pred":
        opcode = "or"
    return (
        f"{name} {{\n  a = {dtype}[] parameter(0)\n  b = {dtype}[] parameter(1)\n"
        f"  ROOT c = {dtype}[] {opcode}(a, b)\n}}\n"
    )


def unusual(dtype: str) -> str:
    """A computation of two scalars that no engine has."""
    return (
        f"combine {{\n  a = {dtype}[] parameter(0)\n  b = {dtype}[] parameter(1)\n"
        f"  p = {dtype}[] multiply(a, b)\n  s = {dtype}[] add(a, b)\n"
        f"  ROOT c = {dtype}[] add(p, s)\n}}\n"
    )


def constant(dtype: str) -> str:
    return f"{dtype}[] constant({'false' if dtype == 'pred' else 0})"


def unary(opcode: str, attributes: str = "", result: str = "") -> Maker:
    return lambda dtype, shape: module(
        f"""x = {typed(dtype, shape)} parameter(0)
        ROOT r = {typed(result or dtype, shape)} {opcode}(x){attributes}"""
    )


def binary(opcode: str, attributes: str = "", result: str = "") -> Maker:
    return lambda dtype, shape: module(
        f"""x = {typed(dtype, shape)} parameter(0)
        y = {typed(dtype, shape)} parameter(1)
        ROOT r = {typed(result or dtype, shape)} {opcode}(x, y){attributes}"""
    )
