"""Repeated numbers, and transposes of products."""

from __future__ import annotations

import numpy as np
import pytest

from hlo_tools import Module
from hlo_tools.evaluate import evaluate
from hlo_tools.passes import Pipeline
from hlo_tools.text import parse
from tests.passes.running import opcodes


def test_numbers_along_a_dimension_that_are_repeated() -> None:
    body = "i = s32[3] iota(), iota_dimension=0\nROOT b = s32[2,3,4] broadcast(i), dimensions={1}"
    assert opcodes(body, "reshape-transpose-cleaning") == ["iota"]
    module = Module(parse(f"HloModule m\nENTRY e {{\n{body}\n}}"))
    expected = evaluate(module, [])
    Pipeline.parse("reshape-transpose-cleaning").run(module)
    np.testing.assert_array_equal(evaluate(module, [])[0], expected[0])


@pytest.mark.parametrize(("order", "left"), [("0,3,1,2", 1), ("0,2,1,3", 2), ("0,1,3,2", 2)])
def test_the_transpose_of_a_product_is_the_product_the_other_way(order: str, left: int) -> None:
    sizes = [[5, 2, 3, 4][int(axis)] for axis in order.split(",")]
    body = (
        "x = f32[5,2,3,7] parameter(0)\ny = f32[5,7,4] parameter(1)\n"
        "d = f32[5,2,3,4] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, "
        "lhs_contracting_dims={3}, rhs_contracting_dims={1}, "
        "operand_precision={high,highest}\n"
        f"ROOT t = f32[{','.join(map(str, sizes))}] transpose(d), dimensions={{{order}}}"
    )
    assert len(opcodes(body, "reshape-transpose-cleaning")) == left
    module = Module(parse(f"HloModule m\nENTRY e {{\n{body}\n}}"))
    generator = np.random.default_rng(0)
    inputs = [generator.normal(size=s).astype(np.float32) for s in ((5, 2, 3, 7), (5, 7, 4))]
    expected = evaluate(module, inputs)
    Pipeline.parse("reshape-transpose-cleaning").run(module, verify_each=True)
    np.testing.assert_allclose(evaluate(module, inputs)[0], expected[0], rtol=1e-5, atol=1e-5)
    if left == 1:
        assert "operand_precision={highest,high}" in module.to_text()
