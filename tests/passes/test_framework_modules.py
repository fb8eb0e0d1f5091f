"""Every pass on training steps as torch_xla and JAX write them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlo_tools
from hlo_tools.evaluate import evaluate
from hlo_tools.evaluate.arguments import random_inputs
from hlo_tools.evaluate.with_jaxlib import run_with_jaxlib
from hlo_tools.ir.module import Module
from hlo_tools.kernel_calls import Prover
from hlo_tools.passes import Pipeline
from tests.passes.test_results import EXACT, REORDERED

TORCH_PROGRAM = Path(__file__).parents[1] / "compiler" / "torch_modules.py"
ALL = (
    "call-inlining,while-trip-counts,cse,constant-folding,algebraic-simplification,"
    "reshape-transpose-cleaning,dot-canonicalisation,dce,rename,renumber,schedule"
)


@cache
def jax_steps() -> dict[str, bytes]:
    """A step of a recurrent model with its gradient, and one with a loop and branches."""
    import jax
    import jax.numpy as jnp

    def recurrent(weights: Any, inputs: Any) -> Any:
        def body(state: Any, x: Any) -> Any:
            state = jnp.tanh(state @ weights + x)
            return state, state.mean()

        return jax.lax.scan(body, jnp.zeros((4, 8)), inputs)[1].sum()

    def branches(x: Any, n: Any) -> Any:
        x = jax.lax.fori_loop(0, 5, lambda i, v: v * 0.5 + i, x)
        x = jax.lax.cond(n > 0, jnp.sin, lambda v: jnp.sort(v, axis=1), x)
        return jax.nn.softmax(x).at[n].add(1.0), jax.lax.top_k(x, 3)

    step = jax.jit(lambda w, xs: w - 0.1 * jax.grad(recurrent)(w, xs))
    lowered_steps = {
        "recurrent": step.lower(np.ones((8, 8), "f4"), np.ones((5, 4, 8), "f4")),
        "branches": jax.jit(branches).lower(np.ones((4, 8), "f4"), np.int32(1)),
    }
    return {
        name: lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
        for name, lowered in lowered_steps.items()
    }


def rewritings(data: bytes) -> Iterator[tuple[str, Module]]:
    """The module after each pipeline that changes it, verified after every pass."""
    for text in (*EXACT, *REORDERED, ALL):
        module = hlo_tools.load(data)
        if Pipeline.parse(text).run(module, verify_each=True).modified:
            yield text, module


def positive(inputs: list[Any]) -> list[Any]:
    """As second moments of an optimizer are."""
    return [np.abs(tensor) if tensor.dtype.kind == "f" else tensor for tensor in inputs]


def keeps_results(data: bytes) -> None:
    module = hlo_tools.load(data)
    prover, close = (Prover(module, runs=1, tolerance=maximum) for maximum in (0.0, 2e-4))
    rewritten_modules = dict(rewritings(data))
    assert len(rewritten_modules) >= 6
    for text, rewritten in rewritten_modules.items():
        (prover if text in EXACT else close).compare(rewritten)
    rewritten = rewritten_modules[ALL]
    inputs = positive(random_inputs(module, 3))
    expected = run_with_jaxlib(module, inputs)
    for result, reference in zip(run_with_jaxlib(rewritten, inputs), expected, strict=True):
        np.testing.assert_allclose(result, reference, rtol=2e-4, atol=1e-5)
    for result, reference in zip(evaluate(rewritten, inputs), expected, strict=True):
        np.testing.assert_allclose(result, reference, rtol=2e-3, atol=1e-4)


@pytest.mark.jax
@pytest.mark.parametrize("name", ["recurrent", "branches"])
def test_jax(name: str) -> None:
    keeps_results(jax_steps()[name])


@pytest.fixture(scope="module")
def torch_steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("torch")
    command = [sys.executable, str(TORCH_PROGRAM), str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.mark.jax
@pytest.mark.torch_xla
def test_torch_xla(torch_steps: Path) -> None:
    keeps_results((torch_steps / "adam.pb").read_bytes())
