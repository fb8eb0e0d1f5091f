"""Rules of the table of rewrites: each fires where it should, and only there, with JAX's numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neff.compiler.record import Record
from neff.compiler.rewrites.rules import RULES
from neff.compiler.units import row_values
from neff.options import CompileOptions
from tests.compiler.compiling import TARGETS, check

pytestmark = pytest.mark.jax

Array = np.ndarray[Any, Any]
FEW_EXAMPLES = hypothesis.settings(max_examples=3, deadline=None)


@dataclass(frozen=True)
class Case:
    """Functions of (rows, width) arrays to which a rule applies, and to which it does not."""

    applies: Callable[..., Any]
    not_here: Callable[..., Any]
    arrays: int = 1
    tolerance: float = 1e-5


def _soft(x: Any, y: Any) -> Any:
    power = jnp.exp(x - jnp.max(x, -1, keepdims=True))
    return (power / jnp.sum(power, -1, keepdims=True)) @ y.T


def _halves(x: Any) -> Any:
    half = x.shape[-1] // 2
    return jnp.sum(x[:, :half] ** 3) + jnp.sum(x[:, half:] ** 2)


def _stacked(x: Any) -> Any:
    return jnp.stack([jnp.tile(x, (1, 8)) * number for number in (1.0, 2.0, 0.5)])


def _overlapping(x: Any) -> Any:
    half = x.shape[-1] // 2
    return jnp.sum(x[:, : half + 1] ** 3) + jnp.sum(x[:, half:] ** 2)


def _histogram(x: Any) -> Any:
    positions = (x * 4).astype(jnp.int32).ravel()
    return jnp.zeros(16, jnp.float32).at[positions].add(x.ravel())


def _labelled(x: Any, updates: int = 1) -> Any:
    positions = (x[:, :updates] * 9).astype(jnp.int32) % x.shape[1]
    return jax.vmap(lambda row, index: row.at[index].add(2.5))(x, positions)


def _loss(x: Any) -> Any:
    labels = jnp.arange(x.shape[0]) * 7 % x.shape[1]
    return -jnp.take_along_axis(jax.nn.log_softmax(x), labels[:, None], axis=1).mean()


def _picked(x: Any) -> Any:
    labels = jnp.arange(x.shape[0]) % x.shape[1]
    return (jax.nn.one_hot(labels, x.shape[1]) * x).sum(-1)


def _gathered(x: Any, columns: int = 1) -> Any:
    labels = jnp.arange(x.shape[0])[:, None] * jnp.arange(2, columns + 2) % x.shape[1]
    centered = jnp.exp(x - jnp.mean(x, -1, keepdims=True)) * 2
    return jnp.take_along_axis(centered, labels, axis=1)


def _rebuilt(x: Any, bound: int = 0) -> Any:
    out = jnp.zeros((4, *x.shape), x.dtype)
    for position in (2, 1, 3, 0)[bound:]:
        x = jnp.tanh(x) + 0.5
        out = jax.lax.dynamic_update_slice(out, x[None], (position, 0, 0))
    return out, x


def _in_pairs(x: Any) -> Any:
    pairs = x[:, :16].reshape(-1, 8, 2)
    return jnp.stack([-pairs[..., 1], pairs[..., 0]], -1).reshape(-1, 16) * x[:, :16]


def _weighted(x: Any, y: Any, *, values: str) -> Any:
    cache = jnp.tile(x, (16, 1))[:, :12].reshape(-1, 3, 4)
    weights = jnp.tile(y[:, :3].T, (1, 16)) / len(cache)
    return jnp.einsum(
        f"hk,{values}->hd", weights, cache if values == "khd" else cache.swapaxes(0, 1)
    )


def _dispatched(x: Any, y: Any) -> Any:
    return jnp.einsum("te,etd->td", x[:, :8], jnp.stack([y * number for number in range(8)]))


CASES = {
    "sigmoid": Case(lambda x: 1 / (1 + jnp.exp(-x)), lambda x: 1 / (2 + jnp.exp(-x))),
    "silu": Case(lambda x: x * jax.nn.sigmoid(x), lambda x: 2 * x * jax.nn.sigmoid(x)),
    "gelu": Case(
        lambda x: 0.5 * x * (1 + jax.lax.erf(x * np.float32(np.sqrt(0.5)))),
        lambda x: 0.5 * x * (1 + jax.lax.erf(x)),
    ),
    "gelu-by-erfc": Case(
        lambda x: jax.nn.gelu(x, approximate=False), lambda x: 0.5 * x * jax.lax.erfc(x)
    ),
    "gelu-tanh": Case(jax.nn.gelu, lambda x: 0.5 * x * (1 + jnp.tanh(x + 0.044715 * x**3))),
    "known-choice": Case(lambda x: jnp.var(x, -1), lambda x: jnp.where(x > 0, x, 1.0)),
    "exchanged-product": Case(
        lambda x, y: (x @ y.T).T, lambda x, y: x @ y.T, 2
    ),
    "transposed-outer-product": Case(
        lambda x, y: jnp.einsum("te,td->etd", x, y), lambda x, y: jnp.exp(x + y).T, 2
    ),
    "heads-joined": Case(
        lambda x, y: _weighted(x, y, values="khd"), lambda x, y: _weighted(x, y, values="hkd"), 2
    ),
    "outer-product": Case(
        lambda x, y: jnp.einsum("te,td->ted", x, y), lambda x, y: x @ y.T, 2
    ),
    "narrow-product": Case(_dispatched, lambda x, y: jnp.einsum("te,td->ed", x, y), 2),
    "division-behind": Case(
        _soft, lambda x, y: (x / (1 + jnp.sum(x * x, -1, keepdims=True))) @ y.T, 2, 1e-4
    ),
    "reduction-of-nothing": Case(lambda x: jnp.exp(x[:, None].sum(1)),
                                 lambda x: x[:, None].sum((0, 1)), tolerance=1e-4),
    "sum-of-one-hot": Case(jax.grad(_loss), _picked),
    "reduction-by-rows": Case(lambda x: jnp.max(x) + jnp.sum(x * x), lambda x: jnp.sum(x, -1),
                              tolerance=1e-3),
    "trailing-dimensions-first": Case(
        lambda x: _stacked(x).sum((0, 2)) + _stacked(x).max((0, 2)),
        lambda x: _stacked(x).sum((0, 1)), tolerance=1e-4,
    ),
    "rounded-conversion": Case(lambda x: jnp.round(x * 90).astype(jnp.int8),
                               lambda x: (x * 90).astype(jnp.int8)),
    "doubled": Case(lambda x: jnp.exp(x) + jnp.exp(x), lambda x: x * 3 + x * 2),
    "joined-scales": Case(
        lambda x: x * jax.lax.rsqrt(jnp.var(x, 0) + 1e-5) * jnp.max(x, 0),
        lambda x: x * jnp.sqrt(jnp.var(x, 0) + 1e-5) * jnp.max(x, 0),
    ),
    "joined-pads": Case(jax.grad(_halves), jax.grad(_overlapping)),
    "rearranged-rows": Case(
        lambda x, y: jnp.concatenate([-x[:, 5:10], x[:, :5]], -1) * y[:, :10],
        lambda x, y: jnp.concatenate([-x[:, 5:10], y[:, :5]], -1), 2,
    ),
    "reshaped-rows": Case(_in_pairs, lambda x: x.reshape(-1, 2) * 2),
    "scatter-by-comparison": Case(_histogram, lambda x: _histogram(x[:2, :5]), tolerance=1e-4),
    "scatter-by-rows": Case(_labelled, lambda x: _labelled(x, 20)),
    "gather-before": Case(_gathered, lambda x: _gathered(x, x.shape[1] // 2)),
    "stacked-slices": Case(_rebuilt, lambda x: _rebuilt(x, 1)),
}  # fmt: skip


def some(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng((seed, *shape)).normal(size=shape).astype(np.float32)


def names(record: Record) -> set[str]:
    return {rewrite.rule for rewrite in record.rewrites}


def test_every_rule_has_a_case() -> None:
    assert [rule.name for rule in RULES] == list(CASES)


@pytest.mark.parametrize("name", CASES)
@hypothesis.given(st.integers(32, 200), st.integers(18, 150), st.sampled_from(TARGETS))
@FEW_EXAMPLES
def test_a_rule_applies(name: str, rows: int, width: int, target: str) -> None:
    case, record = CASES[name], Record()
    arrays = [some(rows, width, seed=seed) for seed in range(case.arrays)]
    check(case.applies, *arrays, target=target, tolerance=case.tolerance, record=record)
    assert name in names(record)


@pytest.mark.parametrize("name", CASES)
def test_a_rule_does_not_apply_to_what_only_looks_alike(name: str) -> None:
    case, record = CASES[name], Record()
    arrays = [some(64, 40, seed=seed) for seed in range(case.arrays)]
    check(case.not_here, *arrays, tolerance=case.tolerance, record=record)
    assert name not in names(record)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_level_says_whether_a_rule_is_there(rule: Any) -> None:
    case, record = CASES[rule.name], Record()
    arrays = [some(64, 40, seed=seed) for seed in range(case.arrays)]
    options = CompileOptions(optlevel=1)
    check(case.applies, *arrays, tolerance=case.tolerance, record=record, options=options)
    assert (rule.name in names(record)) == (rule.level == 1)


@pytest.mark.parametrize("subscripts", ["bi,bj->bij", "ib,bj->bji", "abi,bja->abij", "ik,jk->ji"])
@pytest.mark.parametrize("dtypes", [("float32", "float32"), ("bfloat16", "float32")])
def test_outer_products_of_any_order_and_type(subscripts: str, dtypes: tuple[str, str]) -> None:
    """Contracted dimensions have one element; infinities and NaN are those of JAX."""
    extents = {"a": 3, "b": 5, "i": 40, "j": 7, "k": 1}
    for seed in (1, 2):
        operands, _ = subscripts.split("->")
        arrays = [
            jnp.asarray(some(*(extents[name] for name in names), seed=seed + number), dtypes[0])
            for number, names in enumerate(operands.split(","))
        ]
        arrays[0] = arrays[0].at[(0,) * arrays[0].ndim].set(jnp.inf)
        arrays[1] = arrays[1].at[(0,) * arrays[1].ndim].set(0)
        check(
            lambda x, y: jnp.einsum(subscripts, x, y, preferred_element_type=dtypes[1]), *arrays
        )  # fmt: skip


@pytest.mark.parametrize(
    "subscripts",
    ["bk,kbj->bj", "bjk,bk->bj", "kbj,bk->bj", "abk,kabj->abj", "bk,jbk->bj", "bk,bijk->bij"],
)
@pytest.mark.parametrize("dtypes", [("float32", "float32"), ("bfloat16", "bfloat16")])
@pytest.mark.parametrize("depth", [3, 40])
def test_narrow_products_of_any_order_and_type(
    subscripts: str, dtypes: tuple[str, str], depth: int
) -> None:
    """Infinities and NaN are those of JAX, where a summand is zero too."""
    extents = {"a": 3, "b": 40, "i": 2, "j": 5, "k": depth}
    for seed in (1, 2):
        operands, _ = subscripts.split("->")
        arrays = [
            jnp.asarray(some(*(extents[name] for name in names), seed=seed + number), dtypes[0])
            for number, names in enumerate(operands.split(","))
        ]
        arrays[0] = arrays[0].at[(0,) * arrays[0].ndim].set(jnp.inf)
        arrays[1] = arrays[1].at[(0,) * arrays[1].ndim].set(0)
        check(
            lambda x, y: jnp.einsum(subscripts, x, y, preferred_element_type=dtypes[1]),
            *arrays, tolerance=1e-5 if dtypes[0] == "float32" else 1e-2,
        )  # fmt: skip


def test_a_mean_with_and_without_a_dimension_of_one_is_computed_once() -> None:
    def variance_and_mean(x: Any) -> Any:
        centered = x - jnp.mean(x, 0)
        return centered, jnp.mean((x - jnp.mean(x, 0, keepdims=True)) ** 2, 0)

    for seed in (1, 2):
        record = Record()
        check(variance_and_mean, some(80, 48, seed=seed), tolerance=1e-5, record=record)
        members = [member.opcode for unit in record.units for member in unit.members]
        assert members.count("subtract") == 1


ROUNDED = {
    "astype": lambda x: x,
    "round": jnp.round,
    "floor": jnp.floor,
    "ceil": jnp.ceil,
    "half away": lambda x: jax.lax.round(x, jax.lax.RoundingMethod.AWAY_FROM_ZERO),
}


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "int32", "uint32"])
def test_floats_of_any_size_become_integers(kind: str) -> None:
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 127.5, 128,
               -128.5, -129, 255.5, 256, 32767.5, 8388607.5, -8388607.5, 2.0**31, -(2.0**31), 2.0**32,
               3e9, -3e9, 1e38, -1e38]  # fmt: skip
    for seed in (1, 2):
        draws = np.random.default_rng(seed)
        x = (draws.normal(size=(32, 12)) * 10.0 ** draws.integers(-1, 11, (32, 12))).astype(
            np.float32
        )
        x.ravel()[: len(special)] = special
        check(lambda x: [rule(x).astype(kind) for rule in ROUNDED.values()], x, tolerance=0)
        half = jnp.asarray(x, jnp.bfloat16)
        check(lambda x: jnp.round(x).astype(kind), half, tolerance=0)


def test_equal_products_in_both_orders_are_computed_once() -> None:
    def squares(x: Any, y: Any) -> Any:
        return (x * y + jnp.tanh(x)) * (jnp.tanh(x) + y * x)

    for seed in (1, 2):
        record = Record()
        check(squares, some(64, 48, seed=seed), some(64, 48, seed=seed + 2), record=record)
        members = [member.opcode for unit in record.units for member in unit.members]
        assert members.count("tanh") == members.count("add") == 1


def test_gradients_of_squares_are_doubled_once() -> None:
    def root_mean_square(x: Any, gain: Any) -> Any:
        return jnp.sum(jnp.sin(x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * gain))

    for seed in (1, 2):
        record = Record()
        arguments = some(64, 640, seed=seed), some(640, seed=seed + 2)
        check(jax.grad(root_mean_square), *arguments, tolerance=2e-5, record=record)
        assert "doubled" in names(record)


def _normalized(x: Any, gain: Any, bias: Any) -> Any:
    mean, variance = (function(x, (0, 2, 3), keepdims=True) for function in (jnp.mean, jnp.var))
    shape = (1, -1, 1, 1)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * gain.reshape(shape) + bias.reshape(shape)


@pytest.mark.parametrize("target", TARGETS)
def test_statistics_of_channels_in_front(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are the planes of samples and channels; values of a channel are copied for each sample."""
    instructions: list[int] = []
    for seed, least in ((1, 1), (2, 1 << 30)):
        monkeypatch.setattr(row_values, "_MIN_ELEMENTS", least)
        x, vectors = (
            some(8, 48, 17, 16, seed=seed) * 2 + 3,
            [some(48, seed=seed + n) for n in (1, 2)],
        )
        program = check(_normalized, x, *vectors, tolerance=2e-5, target=target)
        instructions.append(program.metadata["statistics"]["instructions"])
    assert instructions[0] < instructions[1]
