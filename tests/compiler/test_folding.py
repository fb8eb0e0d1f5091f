"""Constants that the graph compiler folds."""

import numpy as np
import pytest

import hlo_tools
from neff import compile as compile_module
from neff import runtime


@pytest.mark.parametrize(
    ("value", "by"), [(2**32 - 1, 2**32 - 1), (2**31 + 40, 5), (2**31 - 1, 3), (7, 40)]
)
@pytest.mark.parametrize("kind", ["u32", "s32"])
def test_arithmetic_shifts_keep_the_highest_bit(kind: str, value: int, by: int) -> None:
    signed = value - 2**32 if value >= 2**31 else value
    expected = (signed >> min(by, 31)) % 2**32
    v, d = (
        number - 2**32 if kind == "s32" and number >= 2**31 else number for number in (value, by)
    )
    text = f"""HloModule m
    ENTRY main {{ v = {kind}[] constant({v})
     d = {kind}[] constant({d})
     s = {kind}[] shift-right-arithmetic(v, d)
     ROOT r = ({kind}[]) tuple(s) }}"""
    program = compile_module(hlo_tools.load(text.encode()), target="trn2")
    (actual,) = runtime.load(program).run({}).values()
    assert int(np.asarray(actual)) % 2**32 == expected
