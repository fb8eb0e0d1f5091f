"""Programs of real modules give the same through the file, by name, by address, and checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlo_tools
from neff import compile, read, runtime, write

pytestmark = pytest.mark.jax

F32 = np.float32


def mlp(x: Any, y: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    """A training step of a two-layer perceptron: loss and new weights."""
    import jax
    import jax.numpy as jnp

    def loss(weights: Any) -> Any:
        v1, c1, v2, c2 = weights
        hidden = jnp.maximum(x @ v1 + c1, 0)
        return jnp.mean((hidden @ v2 + c2 - y) ** 2)

    value, gradients = jax.value_and_grad(loss)((w1, b1, w2, b2))
    updated = [w - F32(0.1) * g for w, g in zip((w1, b1, w2, b2), gradients, strict=True)]
    return value, *updated


def attention(q: Any, k: Any, v: Any) -> Any:
    import jax.numpy as jnp

    scores = q @ k.T * F32(0.125)
    weights = jnp.exp(scores - jnp.max(scores, axis=1, keepdims=True))
    return weights / jnp.sum(weights, axis=1, keepdims=True) @ v


def shuffle(x: Any, i: Any) -> Any:
    import jax.numpy as jnp

    joined = jnp.concatenate([x[:, 10:], x[:, :10]], axis=1)
    return jnp.pad(joined.T, ((1, 2), (0, 0))), i * 3 + 1, jnp.where(x > 0, x, -x)


CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "mlp": (mlp, [(160, 72), (160, 10), (72, 200), (200,), (200, 10), (10,)]),
    "attention": (attention, [(130, 64), (300, 64), (300, 32)]),
    "shuffle": (shuffle, [(33, 40), (7, 5)]),
}


def arrays_of(name: str) -> list[np.ndarray]:
    chance = np.random.default_rng(0)
    drawn = [chance.standard_normal(shape).astype(F32) for shape in CASES[name][1]]
    if name == "shuffle":
        drawn[1] = chance.integers(-100, 100, CASES[name][1][1]).astype(np.int32)
    return drawn


@pytest.mark.parametrize("target", ["trn1", "trn3"])
@pytest.mark.parametrize("name", CASES)
def test_the_same_in_every_way(name: str, target: str, tmp_path: Path) -> None:
    import jax

    function, _ = CASES[name]
    arrays = arrays_of(name)
    lowered = jax.jit(function).lower(*arrays).compiler_ir("hlo")
    module = hlo_tools.load(lowered.as_serialized_hlo_module_proto())
    path = tmp_path / "x.neff"
    write(compile(module, target=target), path)
    program = read(path)
    inputs = dict(zip(program.inputs, arrays, strict=True))
    plain = runtime.load(path).run(inputs)
    placed = runtime.load(path, by_address=True).run(inputs)
    checked = runtime.load(path).run(inputs, check=True)
    leaves = jax.tree_util.tree_leaves(jax.jit(function)(*arrays))
    for output, expected in zip(program.outputs, leaves, strict=True):
        np.testing.assert_allclose(plain[output], np.asarray(expected), rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(placed[output], plain[output], rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(checked[output], placed[output])
    again = tmp_path / "again.neff"
    write(program, again)
    assert again.read_bytes() == path.read_bytes()
