"""The kinds of programs that the compiler refuses, each with a code of its own.

docs/compiler.md has the same table; tests/compiler/test_unsupported.py has a module of each kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hlo_tools.types.element_types import ElementType

__all__ = ["EFFECTS", "UNSUPPORTED", "Unsupported", "kind_of", "unsupported_table"]

_KERNEL = "write this part as an NKI kernel"


@dataclass(frozen=True, slots=True)
class Unsupported:
    """One kind.

    Attributes:
        what: as the table says it.
        remedy: what the user can do.
        opcodes: HLO opcodes that are of this kind whatever their types.
    """

    what: str
    remedy: str
    opcodes: frozenset[str] = frozenset()


EFFECTS: Final = frozenset(
    {"infeed", "outfeed", "send", "send-done", "recv", "recv-done"}
)  # fmt: skip
"""Opcodes that do something besides their result; imported even when nothing reads them."""

UNSUPPORTED: Final[dict[str, Unsupported]] = {
    "NEFF-COMPLEX": Unsupported(
        "operations on complex numbers that are not applied to real and imaginary parts, such as "
        "factorizations",
        "compute with real and imaginary parts",
    ),
    "NEFF-F64": Unsupported(
        "arithmetic on `float64`, which the engines do not have",
        "cast to float32 in the model, or build with --downcast-f64",
    ),
    "NEFF-DTYPE": Unsupported(
        "a type that the engines do not have, such as floats of 4 bits",
        "cast to a type that docs/compiler.md lists",
    ),
    "NEFF-INT64": Unsupported(
        "64-bit integers that may leave 32 bits",
        "clamp them, or convert to s32 or u32 (int32 in the model) before",
    ),
    "NEFF-DYNAMIC": Unsupported(
        "shapes that are known only while the program runs",
        "give every array a fixed shape; pad and mask instead",
        frozenset({"set-dimension-size", "get-dimension-size", "dynamic-reshape"}),
    ),
    "NEFF-LOOP": Unsupported(
        "a `while` with a condition for each element: inside a computation that `sort`, `reduce` or "
        "`reduce-window` applies",
        "take the loop out of the comparison or reduction, or " + _KERNEL,
    ),
    "NEFF-CUSTOM-CALL": Unsupported(
        "a custom call that the compiler does not know",
        "use operations that docs/compiler.md lists, or " + _KERNEL,
    ),
    "NEFF-HOST": Unsupported(
        "transfers between the program and the host while it runs, and callbacks",
        "return the value from the program instead",
        EFFECTS,
    ),
    "NEFF-COLLECTIVE": Unsupported(
        "`ragged-all-to-all`, and collectives whose groups do not fit the devices, or of which nothing "
        "states how many there are",
        "build with --replicas and --partitions; NKI_HLO_EXECUTOR=cpu runs every collective",
        frozenset({"ragged-all-to-all"}),
    ),
    "NEFF-SIZE": Unsupported(
        "an operation of more tiles than can be compiled",
        "use smaller tensors, or split the operation in the model",
    ),
    "NEFF-RNG": Unsupported(
        "random numbers without a state of their own: a NEFF keeps nothing between runs",
        "draw them with `rng-bit-generator` from a seed (jax.random)",
        frozenset({"rng", "rng-get-and-update-state"}),
    ),
    "NEFF-OP": Unsupported(
        "any other operation, or form of one, that is not covered",
        "docs/compiler.md lists what is covered; " + _KERNEL,
    ),
}
"""Code -> what is refused with it."""

_BY_OPCODE = {opcode: code for code, kind in UNSUPPORTED.items() for opcode in kind.opcodes}


def kind_of(opcode: str, elements: Iterable[ElementType]) -> str:
    """The code for an operation on these types that is not covered."""
    names = list(elements)
    if any(element.kind == "complex" for element in names):
        return "NEFF-COMPLEX"
    if opcode in _BY_OPCODE:
        return _BY_OPCODE[opcode]
    if any(element.bits < 8 and element.kind in ("int", "uint", "float") for element in names):
        return "NEFF-DTYPE"
    return "NEFF-F64" if any(element.name == "f64" for element in names) else "NEFF-OP"


def unsupported_table() -> str:
    """The kinds as a Markdown table."""
    rows = [f"| `{code}` | {kind.what} | {kind.remedy} |" for code, kind in UNSUPPORTED.items()]
    return "\n".join(["| code | refused | what to do |", "|---|---|---|", *rows])
