"""Constants as files hold them: in any layout, of any type, or without their elements."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import hlo_tools
from hlo_tools.errors import HloError
from neff.compiler import compile
from tests.compiler.compiling import run

TYPES = {
    "f32": "f4", "bf16": "f4", "f16": "f2", "s32": "i4", "u32": "u4", "s8": "i1", "u8": "u1", "s16": "i2",
    "s64": "i8", "pred": "?",
}  # fmt: skip


@pytest.mark.parametrize("element", TYPES)
def test_elements_may_lie_in_any_order(element: str) -> None:
    """A layout of columns gave the transposed order."""
    values = np.random.default_rng(4).integers(0, 100, (2, 3, 4))
    values = values % 2 if element == "pred" else values
    for order in itertools.permutations(range(3)):
        layout = "{" + ",".join(map(str, order)) + "}"
        text = str(values.tolist()).replace("[", "{").replace("]", "}")
        module = hlo_tools.load(
            f"HloModule m\nENTRY e {{ p = f32[] parameter(0)\n"
            f" c = {element}[2,3,4]{layout} constant({text})\n"
            f" ROOT r = {element}[2,3,4]{{2,1,0}} copy(c) }}".encode()
        )
        again = hlo_tools.load(module.to_bytes())
        (actual,) = run(compile(again, target="trn2"), [np.zeros((), np.float32)])
        np.testing.assert_array_equal(actual.astype(np.int64), values)


@pytest.mark.parametrize("element", ["f32[4]", "u32[]", "pred[]", "s8[3]", "bf16[2]"])
def test_elements_that_were_left_out_are_told(element: str) -> None:
    module = hlo_tools.load(
        f"HloModule m\nENTRY e {{ p = f32[] parameter(0)\n c = {element} constant({{...}})\n"
        f" ROOT r = {element} copy(c) }}".encode()
    )
    with pytest.raises(HloError) as caught:
        compile(module, target="trn2")
    assert caught.value.code == "HLO-ELIDED" and caught.value.remedy
