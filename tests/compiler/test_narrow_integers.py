"""Integers of 2 and 4 bits, in bytes, beside jaxlib's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo_tools
from neff.compiler import compile
from neff.errors import NeffCompileError
from tests.compiler.compiling import lowered, run
from tests.device.child import check_child

pytestmark = pytest.mark.jax

KINDS = ["int4", "uint4"] + ["int2", "uint2"] * hasattr(jnp, "int2")

PROGRAMS: dict[str, Callable[..., Any]] = {
    "sums": lambda x, y: (x + y, x - y, -x, x * y),
    "bits": lambda x, y: (x & y, x | y, x ^ y, ~x, jax.lax.population_count(x & x.dtype.type(1)), jax.lax.clz(x)),
    "shifts": lambda x, y: (
        jax.lax.shift_left(x, y), jax.lax.shift_right_arithmetic(x, y),
        jax.lax.shift_right_logical(x, y),
    ),
    "division": lambda x, y: (jax.lax.div(x, y), jax.lax.rem(x, y)),
    "choices": lambda x, y: (jnp.where(x > y, x, y), jnp.minimum(x, y), jax.lax.max(x, y), x == y),
    "casts": lambda x, y: (
        x.astype(jnp.int32) * 9, y.astype(jnp.float32), (x.astype(jnp.int32) * 5).astype(x.dtype),
        x.astype(jnp.uint4), (x > y).astype(x.dtype), x.astype(jnp.bfloat16),
    ),
    "moves": lambda x, y: (
        x.reshape(-1)[::-1], jnp.concatenate([x, y], 1).T, jnp.pad(x, 1, constant_values=1),
        jnp.sort(x, axis=0), x[jnp.array([2, 0])], x.at[1].set(y[0]),
        jax.lax.dynamic_slice(x, (y[0, 0].astype(jnp.int32), 0), (2, 3)),
    ),
    "reductions": lambda x, y: (
        jax.lax.reduce(x, x.dtype.type(0), jax.lax.add, (0,)), jnp.max(x, 1), jnp.argmin(y, 1),
        jax.lax.reduce(x, x.dtype.type(0), lambda a, b: a * b + a + b, (1,)),
    ),
    "loops": lambda x, y: jax.lax.fori_loop(0, 5, lambda i, v: v * y + x, x),
    "counts": lambda x, y: (jax.lax.iota(x.dtype, 9), jnp.full((3,), 3, x.dtype).at[0].add(x[0, 0] + y[0, 0])),
}  # fmt: skip


def drawn(kind: str, seed: int, *shape: int) -> Any:
    """Every value that there is, and then some."""
    info = jnp.iinfo(kind)
    numbers = np.random.default_rng(seed).integers(
        int(info.min), int(info.max), shape, endpoint=True
    )
    numbers.flat[: min(16, numbers.size)] = np.arange(int(info.min), int(info.max) + 1)[:16].repeat(
        4
    )[: min(16, numbers.size)]
    return numbers.astype(kind)


def narrow(array: Any) -> Any:
    """As a NEFF takes and returns it."""
    kind = array.dtype.name
    return array.astype({"i": np.int8, "u": np.uint8}[kind[0]]) if kind in KINDS else array


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_what_jaxlib_gives(name: str, kind: str) -> None:
    if "int2" in kind and name in ("reductions", "moves"):
        pytest.skip("jaxlib's CPU ends with an error of its own")
    program = PROGRAMS[name]
    x, y = drawn(kind, 1, 5, 7), drawn(kind, 2, 5, 7)
    if name == "division":
        y = np.where(y == 0, 1, y.astype(np.int32)).astype(kind)
    expected = [narrow(np.asarray(leaf)) for leaf in jax.tree.leaves(jax.jit(program)(x, y))]
    results = run(compile(lowered(program, x, y), target="trn2"), [narrow(x), narrow(y)])
    for number, (result, reference) in enumerate(zip(results, expected, strict=True)):
        result = result.view(np.bool_) if reference.dtype == np.bool_ else result
        assert result.dtype == reference.dtype and result.shape == reference.shape, number
        np.testing.assert_array_equal(
            result.astype(np.float64), reference.astype(np.float64), str(number)
        )


@pytest.mark.parametrize("result_type", [np.int32, jnp.int4])
def test_products(result_type: Any) -> None:
    """jaxlib's CPU takes none of these."""
    x, y = drawn("int4", 3, 5, 9), drawn("int4", 4, 9, 6)

    def program(a: Any, b: Any) -> Any:
        return jax.lax.dot(a, b, preferred_element_type=result_type)

    (actual,) = run(compile(lowered(program, x, y), target="trn2"), [narrow(x), narrow(y)])
    exact = x.astype(np.int64) @ y.astype(np.int64)
    np.testing.assert_array_equal(
        actual, exact if result_type is np.int32 else (exact + 8) % 16 - 8
    )


def test_a_population_is_that_of_the_bits_there_are() -> None:
    """jaxlib's CPU counts repeated signs of int4 too."""
    x = np.arange(-8, 8).astype(jnp.int4)
    (actual,) = run(compile(lowered(jax.lax.population_count, x), target="trn2"), [narrow(x)])
    assert actual.tolist() == [(value % 16).bit_count() for value in range(-8, 8)]


def test_constants_are_the_values_that_they_hold() -> None:
    table = np.arange(-8, 8).astype(jnp.int4).reshape(4, 4)

    def program(x: Any) -> Any:
        return jnp.asarray(table) + x

    (actual,) = run(compile(lowered(program, table), target="trn2"), [narrow(table)])
    np.testing.assert_array_equal(actual, narrow(np.asarray(jax.jit(program)(table))))


@pytest.mark.parametrize(
    "body",
    [
        "x = s4[2] parameter(0)\n ROOT r = s8[1] bitcast-convert(x)",
        "x = u4[2] parameter(0)\n ROOT r = u4[2] mulhi(x, x)",
    ],
)
def test_what_has_no_form_in_bytes_is_refused_by_name(body: str) -> None:
    module = hlo_tools.load(f"ENTRY e {{\n{body}\n}}".encode())
    with pytest.raises(NeffCompileError, match=r"bitcast-convert|mulhi") as failure:
        compile(module, target="trn2")
    assert failure.value.code == "NEFF-DTYPE"


def test_on_the_device() -> None:
    check_child(
        """
        import numpy as np, jax, jax.numpy as jnp
        x = jnp.arange(-8, 8).astype(jnp.int4)
        y = jax.jit(lambda a: a + a)(x)
        assert y.dtype == jnp.int4
        np.testing.assert_array_equal(np.asarray(y).astype(int), (np.arange(-16, 16, 2) + 8) % 16 - 8)
        weights = jax.random.normal(jax.random.key(0), (16, 4))
        found = jax.jit(lambda q, w: q.astype(jnp.bfloat16).astype(jnp.float32) @ w)(x, weights)
        np.testing.assert_allclose(found, np.arange(-8, 8.0) @ np.asarray(weights), rtol=1e-5, atol=1e-5)
        """,
        JAX_PLATFORMS="neuron",
        NKI_HLO_EXECUTOR="neff",
        NEURON_PLATFORM_TARGET_OVERRIDE="trn2",
    )
