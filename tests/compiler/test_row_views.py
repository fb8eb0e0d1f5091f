"""Joined parts of rows, as in rotary embeddings: one kernel that loads whole rows, JAX's numbers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neff.compiler.record import Record
from tests.compiler.compiling import TARGETS, check

pytestmark = pytest.mark.jax

HEADS, LENGTH, WIDTH = 3, 40, 16
TOLERANCES = {"float32": 1e-5, "bfloat16": 2e-2}


def spread(angles: Any) -> Any:
    return angles[None, :, None, :]


def turned_halves(x: Any, cosine: Any, sine: Any) -> Any:
    low, high = jnp.split(x, 2, -1)
    return x * spread(jnp.tile(cosine, 2)) + jnp.concatenate([-high, low], -1) * spread(
        jnp.tile(sine, 2)
    )


def halves_apart(x: Any, cosine: Any, sine: Any) -> Any:
    low, high = jnp.split(x, 2, -1)
    cosine, sine = spread(cosine), spread(sine)
    return jnp.concatenate([low * cosine - high * sine, high * cosine + low * sine], -1)


def in_float32(x: Any, cosine: Any, sine: Any) -> Any:
    return halves_apart(x.astype(jnp.float32), cosine, sine).astype(x.dtype)


def interleaved(x: Any, cosine: Any, sine: Any) -> Any:
    even, odd = x[..., ::2], x[..., 1::2]
    cosine, sine = spread(cosine), spread(sine)
    pairs = jnp.stack([even * cosine - odd * sine, even * sine + odd * cosine], -1)
    return pairs.reshape(x.shape)


def paired(x: Any, cosine: Any, sine: Any) -> Any:
    pairs = x.reshape(*x.shape[:-1], -1, 2)
    turned = jnp.stack([-pairs[..., 1], pairs[..., 0]], -1).reshape(x.shape)
    return x * spread(jnp.repeat(cosine, 2, -1)) + turned * spread(jnp.repeat(sine, 2, -1))


FORMS = {
    "turned halves": turned_halves,
    "halves apart": halves_apart,
    "in float32": in_float32,
    "interleaved": interleaved,
    "paired": paired,
}


def arrays(dtype: str, seed: int) -> tuple[Any, ...]:
    draws = np.random.default_rng(seed)
    x = jnp.asarray(draws.standard_normal((2, LENGTH, HEADS, WIDTH)), dtype)
    x = x.at[0, 0, 0, :3].set(jnp.asarray([jnp.inf, jnp.nan, -0.0], dtype))
    angles = draws.uniform(0, 6, (LENGTH, WIDTH // 2))
    return x, jnp.asarray(np.cos(angles), dtype), jnp.asarray(np.sin(angles), dtype)


def rules(record: Record) -> list[str]:
    return [rewrite.rule for rewrite in record.rewrites]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("form", FORMS)
def test_a_rotary_embedding_is_one_unit(form: str, target: str) -> None:
    for dtype, tolerance in TOLERANCES.items():
        for seed in (1, 2):
            record = Record()
            check(
                FORMS[form], *arrays(dtype, seed), tolerance=tolerance, target=target, record=record
            )
            assert "rearranged-rows" in rules(record)
            units = [unit for unit in record.units if any(m.opcode == "add" for m in unit.members)]
            assert len(units) == 1
            stored = [value.nbytes for unit in record.units for value in unit.stored]
            size = 2 * LENGTH * HEADS * WIDTH * np.dtype(jnp.dtype(dtype)).itemsize
            assert sum(nbytes >= size for nbytes in stored) == 1  # the result alone goes to HBM


@pytest.mark.parametrize("form", ["turned halves", "halves apart", "in float32"])
def test_the_gradient_of_a_rotary_embedding_has_whole_rows(form: str) -> None:
    def gradient(x: Any, cosine: Any, sine: Any) -> Any:
        return jax.vjp(lambda x: FORMS[form](x, cosine, sine), x)[1](jnp.flip(x, 1))[0]

    for seed in (1, 2):
        record = Record()
        x, cosine, sine = arrays("float32", seed)
        check(gradient, jnp.nan_to_num(x), cosine, sine, tolerance=1e-5, record=record)
        assert "rearranged-rows" in rules(record)


@pytest.mark.parametrize("columns", [(3, 5), (1, 2, 3), (4, 4, 4, 4)])
def test_parts_of_a_row_in_any_order(columns: tuple[int, ...]) -> None:
    """Parts may differ in length, leave out columns, and stand between operations over rows."""

    def shuffled(x: Any) -> Any:
        ends = np.cumsum(columns)
        parts = [x[:, end - size : end] for end, size in zip(ends, columns, strict=True)]
        joined = jnp.concatenate([-segment for segment in parts[::-1]], -1)
        return jax.nn.softmax(jnp.exp(joined) + 1), joined.sum(0)

    for seed in (1, 2):
        x = np.random.default_rng(seed).standard_normal((70, sum(columns) + 2), np.float32)
        record = Record()
        check(shuffled, x, tolerance=1e-5, record=record)
        assert "rearranged-rows" in rules(record)


def test_parts_of_different_values_are_joined_in_memory() -> None:
    def two(x: Any, y: Any) -> Any:
        return jnp.concatenate([x[:, :8] * 2, y[:, 8:] * 2], -1)

    record = Record()
    x, y = np.random.default_rng(3).standard_normal((2, 64, 16), np.float32)
    check(two, x, y, record=record)
    assert "rearranged-rows" not in rules(record)
