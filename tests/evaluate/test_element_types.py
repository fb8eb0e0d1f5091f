"""Every opcode with every element type: verify reports it, or it evaluates or is refused by code."""

from __future__ import annotations

import re

import numpy as np
import pytest

from hlo_tools.errors import HloError
from hlo_tools.evaluate import evaluate
from hlo_tools.types.element_types import BY_NAME
from hlo_tools.types.opcodes import opcodes_of_kind
from hlo_tools.verify import Severity, verify
from tests.python_source.cases import texts
from tests.python_source.elementwise import single_texts
from tests.python_source.running import module_of, random_arrays

ELEMENTS = [name for name, element in BY_NAME.items() if element.dtype is not None]
IN_CASES = ["pred", "s4", "u8", "u64", "f16", "f8e5m2", "f4e2m1fn", "c128"]
"""At least one element type of each kind, and those that NumPy lacks or has another name for."""

REFUSED = {
    **{
        opcode: {"pred"}
        for opcode in ("count-leading-zeros", "divide", "negate", "popcnt", "power", "remainder", "subtract")
    },
    "abs": {"pred", "u8"},
    "sign": {"pred", "u8"},
    "cbrt": {"c64", "c128"},
}  # fmt: skip
"""Opcode -> element types that XLA's shape inference refuses."""


def _texts_of(element: str) -> list[str]:
    result = [
        text for opcode in sorted(opcodes_of_kind("elementwise"))
        if opcode != "convert" or element in ("f32", "pred")
        for text in single_texts(element, opcode)
    ]  # fmt: skip
    for name, text in texts().items() if element in IN_CASES else ():
        if name in opcodes_of_kind("elementwise"):
            continue
        kind = BY_NAME[element].kind
        changed = re.sub(r"\bf32\[", f"{element}[", text)
        if kind in ("int", "uint"):
            changed = re.sub(r"constant\((-?\d+)\.\d+\)", r"constant(\1)", changed)
        elif kind == "pred":
            changed = re.sub(r"constant\(-?[\d.]+\)", "constant(true)", changed)
        result.append(changed)
    return result


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_type_ends_in_an_internal_error(element: str) -> None:
    for text in _texts_of(element):
        try:
            module = module_of(text)
        except HloError:
            continue
        is_reported = any(finding.severity is Severity.error for finding in verify(module))
        try:
            evaluate(module, random_arrays(module, 1))
        except HloError as error:
            assert is_reported or error.code != "HLO-INTERNAL", text


@pytest.mark.parametrize("opcode", REFUSED)
def test_verify_reports_the_types_that_xla_refuses(opcode: str) -> None:
    for element in REFUSED[opcode]:
        (text,) = single_texts(element, opcode)
        assert {finding.code for finding in verify(module_of(text))} == {"HLO-V019"}, element


def test_upper_half_of_a_product_of_four_bits() -> None:
    module = module_of(single_texts("s4", "mulhi")[0])
    values = np.array([7, -8, 5, -1, 3, 7, -8, 2, 1, 6])
    factors = np.array([7, -8, -3, -1, 2, -8, 7, 2, 1, 6])
    dtype = BY_NAME["s4"].dtype
    (result,) = evaluate(module, [values.astype(dtype), factors.astype(dtype)])
    assert result.astype(int).tolist() == (values * factors // 16).tolist()
