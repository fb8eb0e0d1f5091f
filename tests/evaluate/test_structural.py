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
    [ours], [theirs] = evaluate(module, [x]), run_jaxlib(module, [x])
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(ours[:, 4, :], x.T)


@pytest.mark.parametrize("part", ["real", "imag"])
def test_parts_of_one_complex_number_have_no_dimensions(part: str) -> None:
    text = f"HloModule m\nENTRY e {{\n  x = c64[] parameter(0)\n  ROOT r = f32[] {part}(x)\n}}"
    (found,) = evaluate(load(text.encode()), [np.complex64(3 - 2j)])
    assert found.shape == () and found == (3 if part == "real" else -2)
