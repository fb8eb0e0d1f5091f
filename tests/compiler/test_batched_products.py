"""Products of a batch of small matrices: a transfer loads the operands of several, JAX's numbers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neff.options import CompileOptions
from tests.compiler.compiling import TARGETS, check, compile, lowered

pytestmark = pytest.mark.jax

TOLERANCES = {"float32": 1e-4, "bfloat16": 3e-2}

PRODUCTS = {
    "one batch dimension": ("bmk,bkn->bmn", {"b": 37, "m": 128, "k": 64, "n": 16}),
    "two batch dimensions": ("abmk,abkn->abmn", {"a": 3, "b": 11, "m": 40, "k": 128, "n": 24}),
    "right operand for each head": ("abmk,bkn->abmn", {"a": 3, "b": 9, "m": 33, "k": 20, "n": 8}),
    "transposed right operand": ("bmk,bnk->bmn", {"b": 21, "m": 64, "k": 32, "n": 48}),
    "batch behind the rows": ("mbk,kbn->mbn", {"b": 19, "m": 70, "k": 64, "n": 5}),
    "several tiles of rows": ("bmk,bkn->bmn", {"b": 6, "m": 200, "k": 64, "n": 16}),
}


def operands(subscripts: str, extents: dict[str, int], dtype: str, seed: int) -> list[Any]:
    draws = np.random.default_rng(seed)
    sides = subscripts.split("->")[0].split(",")
    return [
        jnp.asarray(draws.standard_normal([extents[name] for name in side]), dtype)
        for side in sides
    ]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PRODUCTS)
def test_each_product_has_its_operands(name: str, target: str) -> None:
    subscripts, extents = PRODUCTS[name]

    def plain(x: Any, y: Any) -> Any:
        return jnp.einsum(subscripts, x, y)

    def finished(x: Any, y: Any) -> Any:
        return jax.nn.relu(plain(jnp.tanh(x), y) * 0.5 + 1)

    for dtype, tolerance in TOLERANCES.items():
        for seed, function in ((1, plain), (2, finished)):
            arrays = operands(subscripts, extents, dtype, seed)
            check(function, *arrays, tolerance=tolerance, target=target)


def test_a_transfer_loads_several_operands() -> None:
    shapes = [jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in ((64, 128, 64), (64, 64, 64))]
    program = compile(lowered(jnp.matmul, *shapes), target="trn2")
    assert program.metadata["statistics"]["instructions"] < 64 * 4  # five each, with own transfers


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("shape", [(23, 128, 64, 16), (9, 200, 40, 24), (64, 33, 128, 200)])
def test_a_transfer_stores_several_results(shape: tuple[int, int, int, int], cores: int) -> None:
    """Transfers of fewer matrices are left at the end, and tiles of fewer rows stored alone."""
    batch, rows, depth, columns = shape
    extents = {"b": batch, "m": rows, "k": depth, "n": columns}
    for seed in (1, 2):
        arrays = operands("bmk,bkn->bmn", extents, "bfloat16", seed)
        options = CompileOptions(lnc=cores)
        program = check(jnp.matmul, *arrays, tolerance=3e-2, options=options)
    is_even = rows <= 128  # tiles of 128 and 72 rows in turn are stored alone
    assert (stores_of(program) < batch / 2) == is_even


def stores_of(program: Any) -> int:
    """Transfers to HBM on all cores."""
    steps = [step for graph in program.subgraphs for row in graph.engines.values() for step in row]
    instructions = [step.instruction for step in steps if step.instruction.op == "dma_copy"]
    return sum(not inst.operands["dst"].tensor.on_chip for inst in instructions)
