"""Products whose contraction exceeds SBUF: panels of it, summed in SBUF; numbers are jaxlib's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from neff.options import CompileOptions
from neff.timing import estimate
from tests.compiler.compiling import check, lowered

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

from neff.compiler import compile

pytestmark = pytest.mark.jax


def drawn(seed: int, dtype: str, *shape: int) -> Any:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape) / 16, dtype)


@pytest.mark.parametrize(
    ("dtype", "depth", "target"),
    [("bfloat16", 20_700, "trn2"), ("float32", 10_300, "trn1"), ("float32", 10_300, "trn3")],
)
@pytest.mark.parametrize("rows", [1, 130])
def test_a_long_contraction_is_right(dtype: str, depth: int, target: str, rows: int) -> None:
    """The depth is no multiple of 128; the results take two tiles of rows and two banks."""
    tolerance = 2e-2 if dtype == "bfloat16" else 1e-4
    for seed in (1, 2):
        x, y = drawn(seed, dtype, rows, depth), drawn(seed + 2, dtype, depth, 520)
        check(jnp.matmul, x, y, tolerance=tolerance, target=target)


@pytest.mark.parametrize("subscripts", ["km,kn->mn", "mk,nk->mn", "bmk,bkn->bmn"])
def test_any_order_of_dimensions_is_right(subscripts: str) -> None:
    extents = {"k": 10_300, "m": 40, "n": 48, "b": 2}
    for seed in (1, 2):
        operands, _ = subscripts.split("->")
        arrays = [
            drawn(seed + number, "float32", *(extents[name] for name in names))
            for number, names in enumerate(operands.split(","))
        ]
        check(lambda x, y: jnp.einsum(subscripts, x, y), *arrays, tolerance=1e-4)


def test_both_cores_share_the_rows() -> None:
    options = CompileOptions(lnc=2)
    for rows in (100, 300):
        x, y = drawn(rows, "float32", rows, 10_300), drawn(2, "float32", 10_300, 64)
        check(jnp.matmul, x, y, tolerance=1e-4, options=options)


def test_the_estimate_is_near_the_time_of_the_tensor_engine() -> None:
    """It was 26 times that: the left operand was loaded element by element."""
    specs = [jax.ShapeDtypeStruct(shape, "bfloat16") for shape in ((512, 28_672), (28_672, 4_096))]
    program = compile(lowered(jnp.matmul, *specs), target="trn2")
    multiplications = 512 * 28_672 * 4_096
    tensor_engine_ns = multiplications / 128 / 128 / 2.4
    assert estimate(program).total.value < 2 * tensor_engine_ns
