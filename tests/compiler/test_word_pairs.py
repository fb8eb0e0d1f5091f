"""64-bit integers as pairs of words: every operation on every kind of value, beside jaxlib."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from neff.compiler.rewrites import paired
from tests.compiler.compiling import check, wide_types

pytestmark = pytest.mark.jax

_EDGES = [0, 1, 2, 46341, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**33 + 5, 2**62, 2**63 - 1]
_DISTANCES = [0, 1, 31, 32, 33, 63, 64, 2**32, 2**63 - 1]
_BINARY = [
    "add",
    "sub",
    "mul",
    "max",
    "min",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
]
_SHIFTS = ["shift_left", "shift_right_logical", "shift_right_arithmetic"]
WORD_FUNCTIONS = {
    "neg": lax.neg, "sign": lax.sign, "not": lax.bitwise_not, "popcnt": lax.population_count,
    "clz": lax.clz, "sum": lambda x: x.reshape(2, -1).sum(1), "max": lambda x: x.max(),
    "min": lambda x: x.min(), "product": lambda x: x.prod(), "sort": jnp.sort,
    "argmax": lambda x: x.argmax(), "cumsum": jnp.cumsum, "cube": lambda x: x**3,
    "f32": lambda x: x.astype(jnp.float32), "s8": lambda x: x.astype(jnp.int8),
    "pred": lambda x: x.astype(jnp.bool_), "words": lambda x: lax.bitcast_convert_type(x, jnp.uint32),
    "clip": lambda x: jnp.clip(x, 4, 2**40), "pad": lambda x: jnp.pad(x * 3, (1, 2)),
    "select": lambda x: jnp.where(x > 4, x, ~x), "reverse": lambda x: (x * 3)[::-1],
    "count": lambda x: x * 3 + jnp.arange(x.size, dtype=x.dtype),
    "matmul": lambda x: x[:20].reshape(4, 5) @ x[:20].reshape(5, 4),
    "gather": lambda x: x[jnp.asarray([0, 5, -1], jnp.int64)] * 3,
    "far slice": lambda x: lax.dynamic_slice(x, (x[8] * 0 + x.dtype.type(2**40),), (3,)) * 5,
    "update": lambda x: lax.dynamic_update_slice(x, x[:3] * 7, (x[8] & 3,)),
    "scatter": lambda x: x.at[jnp.asarray([0, 5, 5, 2**33], jnp.int64)].add(x[:4] * 9),
    "loop": lambda x: lax.fori_loop(0, 3, lambda i, c: c * c + i, x),
}  # fmt: skip


@pytest.fixture(autouse=True)
def pairs_only(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(paired, "narrow_enough", lambda graph: False)
    with wide_types():
        yield


def _values(dtype: Any) -> list[int]:
    return _EDGES + ([-edge for edge in _EDGES] if dtype == np.int64 else [2**63, 2**64 - 1])


def _couples(dtype: Any, first: list[int], second: list[int]) -> tuple[Any, Any]:
    table = np.array(list(itertools.product(first, second)), dtype=dtype)
    return table[:, 0].copy(), table[:, 1].copy()


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
@pytest.mark.parametrize("name", _BINARY)
def test_two_operands(name: str, dtype: Any) -> None:
    values = _values(dtype)
    check(getattr(lax, name), *_couples(dtype, values, values))


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
@pytest.mark.parametrize("name", _SHIFTS)
def test_shifts(name: str, dtype: Any) -> None:
    check(getattr(lax, name), *_couples(dtype, _values(dtype), _DISTANCES))


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_division(dtype: Any) -> None:
    values = _values(dtype)
    check(lambda a, b: (lax.div(a, b), lax.rem(a, b)), *_couples(dtype, values, values))


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
@pytest.mark.parametrize("name", WORD_FUNCTIONS)
def test_arrays(name: str, dtype: Any) -> None:
    drawn = np.random.default_rng(3).integers(0, 2**63, 10)
    values = np.array(_values(dtype)[: -1 if dtype == np.uint64 else None], dtype)
    array = np.concatenate([values, drawn.astype(dtype)])
    array = array[: array.size // 2 * 2]
    function: Callable[..., Any] = WORD_FUNCTIONS[name]
    check(function, array, tolerance=0)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_from_floats_and_narrow_integers(dtype: Any) -> None:
    floats = [0, -0.0, 1.5, -1.5, 2**31, 2**32 + 2**20, -(2**40), 2**63, 2**64, -(2**63), 1e30,
              -1e30, np.inf, -np.inf, np.nan, -3]  # fmt: skip
    check(lambda x: lax.convert_element_type(x, dtype), np.array(floats, np.float32))
    for narrow in (np.int32, np.uint32, np.int8, np.bool_):
        array = np.arange(-9, 20).astype(narrow)
        check(lambda x: x.astype(dtype) * dtype(2**33 + 1), array)
    check(
        lambda x: lax.bitcast_convert_type(x, dtype),
        np.arange(40, dtype=np.uint32).reshape(20, 2) * np.uint32(0x9E3779B9),
    )


@pytest.mark.parametrize("algorithm", ["RNG_DEFAULT", "RNG_THREE_FRY"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_random_bits_of_any_width_and_state(algorithm: str, dtype: str) -> None:
    state = np.array([2**63 + 12345, 2**64 - 2], np.uint64)
    kind = getattr(lax.RandomAlgorithm, algorithm)
    for shape in ((3, 20), (7,), ()):
        check(
            lambda k, shape=shape: lax.rng_bit_generator(
                k, shape, dtype=getattr(jnp, dtype), algorithm=kind
            ),
            state,
        )
