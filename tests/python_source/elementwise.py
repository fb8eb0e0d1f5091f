"""A module with every elementwise opcode of an element type, and special values for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlo_tools.errors import HloError
from hlo_tools.evaluate import evaluate
from hlo_tools.ir.module import Module
from hlo_tools.types.element_types import BY_NAME
from hlo_tools.types.opcodes import OPCODES, opcodes_of_kind
from hlo_tools.verify import check
from tests.python_source.running import module_of

ELEMENTS = ["f32", "f64", "bf16", "f8e5m2", "s32", "u8", "s64", "u64", "s4", "u4", "pred", "c64"]

EDGES: dict[str, list[complex]] = {
    "float": [0.0, -0.0, 1.0, -1.5, 2.5, np.inf, -np.inf, np.nan, 0.3, -7.0],
    "int": [0, 1, -1, 2, -2, 3, -7, 7, -8, 5],
    "uint": [0, 1, 2, 3, 3, 1, 2, 0, 1, 2],
    "pred": [0, 1] * 5,
    "complex": [0, 1, -1, 1j, 2 - 1j, -0.5 + 0.3j, 0.1, 3, 1 - 1j, 2j],
}
"""Ten values of each kind of element, with the special ones."""


def _parameter_types(opcode: str, element: str) -> list[str]:
    types = [element] * (OPCODES[opcode].arity or 1)
    if opcode == "select":
        types[0] = "pred"
    if opcode == "stochastic-convert":
        types[1] = {32: "u32", 64: "u64", 16: "u16"}.get(BY_NAME[element].bits, "u8")
    return types


def _variants(opcode: str, element: str) -> list[tuple[str, str]]:
    """The element types of results, and attributes in text."""
    real = {"c64": "f32"}.get(element, element)
    results = {
        "compare": "pred", "is-finite": "pred", "real": real, "imag": real, "abs": real,
        "complex": {"f32": "c64", "f64": "c128"}.get(element, element), "stochastic-convert": "s32",
    }  # fmt: skip
    if opcode == "convert":
        return [(result, "") for result in ("f32", "f16", "s32", "u8", "pred", "s4", "c64")]
    if opcode == "compare":
        orders = ["", ", type=TOTALORDER"] if BY_NAME[element].kind == "float" else [""]
        directions = ("EQ", "NE") if element == "c64" else ("EQ", "NE", "LT", "GE")
        return [("pred", f", direction={name}{order}") for name in directions for order in orders]
    if opcode == "bitcast-convert":
        same_size = {"f32": "u32", "f64": "s64", "bf16": "u16", "u8": "s8", "s32": "f32"}
        return [(same_size[element], "")] if element in same_size else []
    attributes = ", exponent_bits=5, mantissa_bits=3" if opcode == "reduce-precision" else ""
    return [(results.get(opcode, element), attributes)]


def single_texts(element: str, opcode: str) -> list[str]:
    """A module for each variant of an opcode."""
    types = _parameter_types(opcode, element)
    parameters = "\n".join(f"p{i} = {t}[10] parameter({i})" for i, t in enumerate(types))
    operands = ", ".join(f"p{i}" for i in range(len(types)))
    return [
        f"HloModule m\nENTRY e {{\n{parameters}\n"
        f"ROOT r = {result}[10] {opcode}({operands}){attributes}\n}}"
        for result, attributes in _variants(opcode, element)
    ]


def _values(types: list[str]) -> list[Any]:
    with np.errstate(all="ignore"):
        return [
            np.roll(np.array(EDGES[BY_NAME[name].kind]), 3 * number).astype(BY_NAME[name].dtype)
            for number, name in enumerate(types)
        ]


def _is_computed(text: str, types: list[str]) -> bool:
    module = module_of(text)
    try:
        check(module)
        evaluate(module, _values(types))
    except HloError:
        return False
    return True


def elementwise_module(element: str, left_out: set[tuple[str, str]]) -> tuple[Module, list[Any]]:
    """One module with all opcodes and variants that HLO has for a type, and its inputs."""
    lines: list[str] = []
    results: list[tuple[str, str]] = []
    all_types: list[str] = []
    for opcode in sorted(opcodes_of_kind("elementwise")):
        types = _parameter_types(opcode, element)
        for text in single_texts(element, opcode):
            if (opcode, element) in left_out or not _is_computed(text, types):
                continue
            first, name = len(all_types), f"r{len(results)}"
            for line in text.splitlines()[2:-1]:
                for number in reversed(range(len(types))):
                    line = line.replace(f"p{number} =", f"q{first + number} =")
                    line = line.replace(f"parameter({number})", f"parameter({first + number})")
                    line = line.replace(f"(p{number}", f"(q{first + number}")
                    line = line.replace(f" p{number}", f" q{first + number}")
                lines.append(line.replace("ROOT r =", f"{name} ="))
            results.append((name, lines[-1].split()[2]))
            all_types += types
    shape = ", ".join(shape for _, shape in results)
    names = ", ".join(name for name, _ in results)
    body = "\n".join(lines)
    module = module_of(f"HloModule m\nENTRY e {{\n{body}\nROOT t = ({shape}) tuple({names})\n}}")
    inputs: list[Any] = []
    for opcode_types in _grouped(lines, all_types):
        inputs += _values(opcode_types)
    return module, inputs


def _grouped(lines: list[str], types: list[str]) -> list[list[str]]:
    """The types of the parameters of each operation."""
    groups: list[list[str]] = [[]]
    remaining_types = iter(types)
    for line in lines:
        if "parameter(" in line:
            groups[-1].append(next(remaining_types))
        else:
            groups.append([])
    return groups[:-1]
