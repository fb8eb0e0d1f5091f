"""Products, reductions, movement and views against JAX on the CPU."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import pytest

from neff.compiler import compile
from neff.timing import estimate
from tests.compiler.compiling import TARGETS, check, lowered

pytestmark = pytest.mark.jax


def floats(*shape: int, seed: int = 0, dtype: object = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("rows", "depth", "columns"),
    [(64, 64, 64), (1, 300, 1), (130, 257, 600), (256, 128, 1024), (3, 1, 5)],
)
def test_matrix_product(rows: int, depth: int, columns: int, target: str) -> None:
    a, b = floats(rows, depth), floats(depth, columns, seed=1)
    check(lambda a, b: (a @ b, (b.T @ a.T)), a, b, tolerance=1e-4, target=target)


@pytest.mark.parametrize(
    "expression",
    ["ik,kj->ij", "ki,kj->ij", "ik,jk->ij", "bik,bkj->bij", "bik,bjk->bij", "bki,bkj->bij",
     "ijk,lkj->il", "ijk,kl->ijl", "ijk,ljm->iklm", "bhqd,bhkd->bhqk", "i,i->", "i,j->ij",
     "ik,k->i"],
)  # fmt: skip
def test_contractions(expression: str) -> None:
    import jax.numpy as jnp

    extents = dict(zip("bhijklmqd", (2, 3, 20, 17, 33, 9, 5, 16, 8), strict=True))
    left, right = expression.split("->")[0].split(",")
    a = floats(*(extents[letter] for letter in left))
    b = floats(*(extents[letter] for letter in right), seed=1)
    check(lambda a, b: jnp.einsum(expression, a, b), a, b, tolerance=1e-4)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16], ids=["bfloat16", "float16"])
def test_product_of_small_floats(dtype: object) -> None:
    a, b = floats(40, 130, dtype=dtype), floats(130, 50, seed=1, dtype=dtype)
    check(lambda a, b: a @ b, a, b, tolerance=0.15)


def test_product_of_views() -> None:
    a, b = floats(60, 70), floats(80, 90, seed=1)
    check(lambda a, b: a[5:45, 10:60:2] @ b[3:28, 1:].reshape(25, 89), a, b, tolerance=1e-4)


def test_product_too_long_to_keep_in_sbuf() -> None:
    check(lambda a, b: a @ b, floats(2, 20000), floats(20000, 3, seed=1), tolerance=2e-3)


def test_product_over_nothing_is_zero() -> None:
    check(lambda a, b: a @ b, floats(3, 0), floats(0, 4))


AXES = [0, 1, 2, (0, 1), (1, 2), (0, 2), None]


@pytest.mark.parametrize("target", TARGETS)
def test_reductions(target: str) -> None:
    def function(x):
        results = []
        for axis in AXES:
            results += [x.sum(axis), x.max(axis), x.min(axis), (1 + x / 9).prod(axis)]
        return results

    check(function, floats(11, 13, 29) / 4, tolerance=1e-4, target=target)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int8", "uint8", "int16"])
def test_integer_reductions(dtype: str) -> None:
    import jax.numpy as jnp
    from jax import lax

    info = np.iinfo(dtype)
    values = np.random.default_rng(0).integers(info.min, info.max, (9, 31), dtype=dtype)
    zero = np.zeros((), dtype)

    def function(x):
        results = []
        for axis in ((0,), (1,), (0, 1)):
            results += [
                lax.reduce(x, zero, lax.add, axis),
                x.max(axis), x.min(axis),
                lax.reduce(x, zero, lax.bitwise_or, axis),
                lax.reduce(x, zero, lax.bitwise_xor, axis),
                lax.reduce(x, jnp.array(-1).astype(dtype), lax.bitwise_and, axis),
            ]  # fmt: skip
        return results

    check(function, values)


def test_predicate_reductions() -> None:
    import jax.numpy as jnp

    values = np.random.default_rng(0).random((20, 7)) > 0.3
    check(lambda x: (x.any(0), x.all(1), x.any(), x.all(), jnp.sum(x, 0)), values)


def test_long_reductions_in_two_stages() -> None:
    values = floats(4, 60000)
    check(lambda x: (x.sum(), x.max(), x.sum(1), x.min(1)), values, tolerance=2e-3)
    counts = np.arange(100000, dtype=np.int32)
    check(lambda x: x.sum(), counts)


@hypothesis.given(
    st.sampled_from([(2053,), (3, 4099), (60013,), (5, 7, 2111), (2, 128 * 40 + 1)]),
    st.sampled_from(["sum", "max", "min", "any"]),
    st.sampled_from(["float32", "bfloat16", "int32", "uint8"]),
    st.sampled_from(TARGETS),
)
@hypothesis.settings(max_examples=12, deadline=None)
def test_long_reductions_of_any_length(
    shape: tuple[int, ...], name: str, dtype: str, target: str
) -> None:
    import jax.numpy as jnp

    draw = np.random.default_rng(shape[-1])
    x = jnp.asarray(draw.integers(-4, 5, shape) if dtype != "uint8" else draw.integers(0, 9, shape))
    x = x.astype(dtype)
    check(lambda x: (getattr(jnp, name)(x), getattr(jnp, name)(x, axis=-1)), x,
          target=target, tolerance=1e-2 if dtype == "bfloat16" else 2e-6)  # fmt: skip


@hypothesis.given(
    st.integers(1 << 12, 3 << 14),
    st.integers(1, 130),
    st.sampled_from(["sum", "max", "min", "prod", "all"]),
    st.sampled_from(["float32", "bfloat16", "int32", "int8", "bool"]),
    st.sampled_from(TARGETS),
)
@hypothesis.settings(max_examples=12, deadline=None)
def test_reductions_of_many_short_rows(
    rows: int, columns: int, name: str, dtype: str, target: str
) -> None:
    import jax.numpy as jnp

    x = np.zeros((rows, columns), np.float32) if name != "prod" else np.ones((rows, columns))
    draw = np.random.default_rng(rows)
    positions = draw.integers(0, x.size, 400)  # sums of few whole numbers are exact in every type
    x.reshape(-1)[positions] = draw.choice([-2, -1, 1, 2] if name != "prod" else [-1, 1], 400)
    x = jnp.asarray(x).astype(dtype)
    check(lambda x: (getattr(jnp, name)(x, axis=0), x[0]), x, target=target)


def test_sums_of_many_short_rows_come_near_the_memory() -> None:
    import jax.numpy as jnp

    x = np.zeros((32, 56, 56, 64), np.float32)
    program = compile(lowered(lambda x: jnp.sum(x, (0, 1, 2)), x), target="trn2")
    assert estimate(program).total.value < 1.5 * x.nbytes / 437  # bytes a nanosecond


def test_a_long_reduction_of_any_length_uses_all_partitions() -> None:
    import jax.numpy as jnp

    even, prime = (
        compile(lowered(jnp.sum, np.zeros(size, np.float32)), target="trn2")
        for size in (100096, 100003)
    )
    assert estimate(prime).total.value < 2 * estimate(even).total.value


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int8])
def test_argmax_and_argmin(dtype: object) -> None:
    import jax.numpy as jnp

    values = (floats(9, 13) * 4).astype(dtype)
    values[2, 4:7] = values.max()
    check(lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 0), jnp.argmax(x), jnp.argmin(x, -1)), values)


def test_argmax_of_nan() -> None:
    import jax.numpy as jnp

    values = floats(4, 6)
    values[1, 2] = values[1, 4] = values[3, 0] = np.nan
    check(lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 0)), values)


def test_reduction_from_an_initial_value() -> None:
    from jax import lax

    def function(x, start):
        return lax.reduce(x, np.float32(3), lax.add, (1,)), lax.reduce(x, start, lax.max, (0,))

    check(function, floats(6, 9), np.float32(0.25), tolerance=1e-5)


def test_reduction_of_small_floats() -> None:
    from jax import lax

    values = floats(12, 40, dtype=ml_dtypes.bfloat16)
    check(lambda x: (x.sum(1), lax.reduce_max(x, (0,))), values, tolerance=0.1)


def test_nan_reaches_the_result() -> None:
    values = floats(5, 8)
    values[2, 3] = np.nan
    check(lambda x: (x.sum(1), x.max(1), x.min(0)), values, tolerance=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_views_as_results(target: str) -> None:
    def function(x):
        return (
            x.T, x[::-1], x[2:7, 1::3], x.reshape(-1), x.T.reshape(-1), x[None, :, None], x,
            x.reshape(5, 2, 4, 3).transpose(2, 0, 3, 1), x.T.reshape(6, 20)[1:3],
        )  # fmt: skip

    check(function, floats(10, 12), target=target)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "float16", "bfloat16"])
def test_movement_of_types(dtype: str) -> None:
    import jax.numpy as jnp

    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    values = (floats(6, 7) * 10).astype(kind)
    more = (floats(6, 3, seed=1) * 10).astype(kind)
    check(
        lambda a, b: (jnp.concatenate([a, b, a], 1), jnp.pad(a, 2), a.T, jnp.flip(b)), values, more
    )


def test_concatenate() -> None:
    import jax.numpy as jnp

    a, b = floats(4, 5), floats(4, 2, seed=1)
    check(
        lambda a, b: (
            jnp.concatenate([a + 1, b.T.reshape(4, 2), jnp.zeros((4, 3))], axis=1),
            jnp.stack([a[0], a[1], a[0]]),
            jnp.concatenate([a, a]) @ a.T,
        ),
        a, b, tolerance=1e-5,
    )  # fmt: skip


@pytest.mark.parametrize(
    "padding", [[(1, 2, 0), (0, 3, 0)], [(0, 0, 2), (1, 1, 1)], [(-1, 2, 0), (-2, -1, 0)],
                [(-1, -1, 1), (2, -3, 2)], [(-5, -5, 0), (0, 0, 0)]]
)  # fmt: skip
def test_pad(padding: list[tuple[int, int, int]]) -> None:
    from jax import lax

    values = floats(6, 7)
    if padding[0][0] == -5:
        values = floats(16, 7)
    check(
        lambda x, y: (lax.pad(x, np.float32(1.5), padding), lax.pad(x, y, padding)),
        values, np.float32(-2),
    )  # fmt: skip


def test_slices_with_constant_starts() -> None:
    from jax import lax

    def function(x, y):
        return (
            lax.dynamic_slice(x, (np.int32(2), np.int32(9)), (3, 4)),
            lax.dynamic_update_slice(x, y, (np.int32(1), np.int32(5))),
        )

    check(function, floats(6, 10), floats(2, 3, seed=1))


def test_reduce_precision() -> None:
    from jax import lax

    check(lambda x: (lax.reduce_precision(x, 8, 7), lax.reduce_precision(x, 5, 10)), floats(9, 9))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("length", [128, 300, 70_001])
def test_counting_beyond_a_narrow_integer_wraps_around(dtype: str, length: int) -> None:
    """It stopped at the largest value."""
    from jax import lax

    def counted(x):
        return (
            lax.iota(dtype, length),
            lax.broadcasted_iota(dtype, (3, length), 1) + x,
            lax.iota("int8", 4),
        )

    check(counted, np.asarray(3, dtype))


def test_iota_and_what_is_made_of_it() -> None:
    import jax.numpy as jnp
    from jax import lax

    def function(x):
        return (
            lax.broadcasted_iota(np.int32, (5, 300), 1), jnp.arange(1000), jnp.arange(7.0),
            jnp.eye(20), jnp.tril(x), jnp.tri(9, 9, -1),
        )  # fmt: skip

    check(function, floats(9, 9))


def test_constants_that_are_no_numbers() -> None:
    table = floats(4, 6, seed=3)
    check(lambda x: x * table + np.arange(6, dtype=np.float32), floats(4, 6))


def test_one_result_twice_and_parameters_as_results() -> None:
    check(lambda x, y: (x + y, y, x + y, np.float32(4), x), floats(3, 4), floats(3, 4, seed=1))


def test_softmax_layernorm_gelu_attention() -> None:
    import jax
    import jax.numpy as jnp

    def attention(q, k, v):
        weights = jax.nn.softmax(q @ k.transpose(0, 2, 1) / np.sqrt(16).astype(np.float32))
        out = weights @ v
        mean = out.mean(-1, keepdims=True)
        scale = jnp.var(out, axis=-1, keepdims=True)
        return jax.nn.gelu((out - mean) * jax.lax.rsqrt(scale + 1e-5))

    check(attention, *(floats(2, 24, 16, seed=seed) for seed in range(3)), tolerance=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_random_numbers(target: str) -> None:
    import jax

    key = np.asarray(jax.random.PRNGKey(7))

    def function(key):
        first, second = jax.random.split(key)
        return jax.random.bits(first, (30, 11)), jax.random.uniform(second, (50,)), first

    check(function, key, target=target)
    check(lambda key: jax.random.normal(key, (64, 33)), key, tolerance=1e-5)


def test_optimisation_barriers() -> None:
    """``jax.checkpoint`` puts them around what it computes again."""
    import jax
    import jax.numpy as jnp

    def loss(x, w):
        return jnp.sum(jnp.tanh(jnp.tanh(x @ w) @ w))

    check(lambda x, w: jax.lax.optimization_barrier((x * 2, w)), floats(4, 5), floats(5, 5, seed=1))
    check(jax.grad(jax.checkpoint(loss), 1), floats(4, 5), floats(5, 5, seed=1), tolerance=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_training_step_of_a_perceptron(target: str) -> None:
    import jax
    import jax.numpy as jnp

    def loss(parameters, x, y):
        w1, b1, w2, b2 = parameters
        logits = jax.nn.relu(x @ w1 + b1) @ w2 + b2
        return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * jax.nn.one_hot(y, 10), -1))

    def step(parameters, x, y):
        value, gradients = jax.value_and_grad(loss)(parameters, x, y)
        return tuple(p - 0.1 * g for p, g in zip(parameters, gradients, strict=True)), value

    shapes = ((196, 64), (64,), (64, 10), (10,))
    parameters = tuple(floats(*shape, seed=n) * 0.1 for n, shape in enumerate(shapes))
    labels = np.random.default_rng(0).integers(0, 10, 32).astype(np.int32)
    check(step, parameters, floats(32, 196), labels, tolerance=1e-5, target=target)
