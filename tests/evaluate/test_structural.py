"""Operations that arrange elements, against jaxlib."""

from __future__ import annotations

import numpy as np
import pytest

from hlo_tools import load
from hlo_tools.evaluate import evaluate
from tests.evaluate.test_evaluate import run_jaxlib

FALLING = b"""HloModule m
ENTRY e {
  x = f32[2,3] parameter(0)
  ROOT b = f32[3,5,2] broadcast(x), dimensions={2,0}
}
"""


@pytest.mark.jax
def test_broadcast_whose_dimensions_fall_transposes() -> None:
    module = load(FALLING)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    [ours], [reference] = evaluate(module, [x]), run_jaxlib(module, [x])
    np.testing.assert_array_equal(ours, reference)
    np.testing.assert_array_equal(ours[:, 4, :], x.T)


@pytest.mark.parametrize("opcode", ["real", "imag"])
def test_parts_of_one_complex_number_have_no_dimensions(opcode: str) -> None:
    text = f"HloModule m\nENTRY e {{\n  x = c64[] parameter(0)\n  ROOT r = f32[] {opcode}(x)\n}}"
    (actual,) = evaluate(load(text.encode()), [np.complex64(3 - 2j)])
    assert actual.shape == () and actual == (3 if opcode == "real" else -2)


@pytest.mark.parametrize("carries", [0, 1])
def test_a_scan_of_nothing_keeps_what_it_carries(carries: int) -> None:
    """No iteration: empty outputs, and the first state."""
    body = "a = f32[2] parameter(0)\n c = f32[] parameter(1)\n n = f32[2] negate(a)\n"
    entry = "x = f32[0,2] parameter(0)\n s = f32[] constant(3)\n"
    if carries:
        body += "ROOT t = (f32[2], f32[]) tuple(n, c)"
        entry += "ROOT r = (f32[0,2], f32[]) scan(x, s), dimensions={0}, num_carries=1, is_associative=false, to_apply=b"
    else:
        body = "a = f32[2] parameter(0)\n n = f32[2] negate(a)\n ROOT t = (f32[2]) tuple(n)"
        entry += "ROOT r = (f32[0,2]) scan(x), dimensions={0}, num_carries=0, is_associative=false, to_apply=b"
    module = load(f"HloModule m\nb {{ {body} }}\nENTRY e {{ {entry} }}".encode())
    results = evaluate(module, [np.zeros((0, 2), np.float32)])
    assert results[0].shape == (0, 2) and results[0].dtype == np.float32
    assert [array.tolist() for array in results[1:]] == [3.0] * carries


def test_operands_are_known_by_the_low_words_of_their_ids() -> None:
    text = b"""HloModule m
    less { a = f32[] parameter(0)
     b = f32[] parameter(1)
     ROOT r = pred[] compare(a, b), direction=LT }
    ENTRY e { x = f32[3] parameter(0)
     ROOT s = f32[3] sort(x), dimensions={0}, to_apply=less }"""
    module = load(text)
    less = next(computation for computation in module.computations if computation.name == "less")
    root = next(row for row in less.proto.instructions if row.opcode == "compare")
    root.operand_ids[:] = [number | 7 << 32 for number in root.operand_ids]
    (actual,) = evaluate(module, [np.array([3, 1, 2], np.float32)])
    assert actual.tolist() == [1, 2, 3]
