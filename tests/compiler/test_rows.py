"""Units over rows: softmax, normalisations, products and what stands around them, against JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import hlo_tools
from neff import runtime
from neff.compiler import compile
from neff.compiler.lowering.rows.expressions import IDIOMS
from neff.compiler.record import Record
from neff.options import CompileOptions
from neff.program import EngineLoop, Program
from tests.compiler.compiling import TARGETS, check, lowered

pytestmark = pytest.mark.jax

Array = np.ndarray[Any, Any]
FEW_EXAMPLES = hypothesis.settings(max_examples=4, deadline=None)
BF16 = ml_dtypes.bfloat16


def some(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Array:
    draw = np.random.default_rng((seed, *shape))
    return (draw.normal(size=shape) / np.sqrt(shape[-1])).astype(dtype)


def opcodes(program: Program) -> list[str]:
    """``op`` of every instruction; of activations with their function behind it."""
    names: list[str] = []
    for graph in program.subgraphs:
        for steps in graph.engines.values():
            for step in steps:
                assert not isinstance(step, EngineLoop)
                op = step.instruction.op
                names.append(op)
                if op.startswith("activation"):
                    names.append(f"{op} {step.instruction.operands['op']}")
    return names


def layer_norm(x: Any, gain: Any, bias: Any) -> Any:
    centred = x - jnp.mean(x, -1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-5) * gain + bias


def attention(q: Any, k: Any, v: Any, mask: Any = True) -> Any:
    scores = jnp.einsum("hqd,hkd->hqk", q, k) * (q.shape[-1] ** -0.5)
    scores = jnp.where(mask, scores, -1e9)
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores, axis=-1), v)


ROW_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "softmax": jax.nn.softmax,
    "log-softmax": jax.nn.log_softmax,
    "rms": lambda x: x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6),
    "spread": lambda x: (x - jnp.min(x, -1, keepdims=True)) / (1 + jnp.max(x, -1, keepdims=True)),
    "several": lambda x: (jnp.sum(x, -1), jnp.max(jnp.abs(x), -1), x + jnp.sum(x, -1)[..., None]),
}


@pytest.mark.parametrize("name", ROW_FUNCTIONS)
@hypothesis.given(st.integers(32, 300), st.integers(2, 700), st.sampled_from(TARGETS))
@FEW_EXAMPLES
def test_functions_of_rows(name: str, rows: int, columns: int, target: str) -> None:
    check(ROW_FUNCTIONS[name], some(rows, columns), target=target, tolerance=1e-5)


@hypothesis.given(st.integers(32, 200), st.integers(2, 600), st.booleans())
@FEW_EXAMPLES
def test_layer_norm_and_its_gradient(rows: int, columns: int, has_batch: bool) -> None:
    x = some(3, rows // 2, columns) if has_batch else some(rows, columns)
    gain, bias = 1 + some(columns), some(columns, seed=1)
    check(layer_norm, x, gain, bias, tolerance=2e-4)
    slopes = jax.grad(lambda *a: jnp.sum(layer_norm(*a) ** 2), (0, 1, 2))
    check(slopes, x, gain, bias, tolerance=2e-2)


@hypothesis.given(
    st.integers(32, 260),
    st.integers(1, 300),
    st.integers(2, 1500),
    st.sampled_from([np.float32, BF16]),
)
@FEW_EXAMPLES
def test_products_with_bias_and_activation(rows: int, depth: int, columns: int, dtype: Any) -> None:
    x, w, b = some(rows, depth, dtype=dtype), some(depth, columns, dtype=dtype), some(columns)
    tolerance = 1e-5 if dtype is np.float32 else 3e-2
    check(lambda x, w, b: jax.nn.gelu(x @ w + b.astype(x.dtype)), x, w, b, tolerance=tolerance)
    check(lambda x, w: (x @ w, jnp.sum(x @ w, 0)), x, w, tolerance=10 * tolerance)


@hypothesis.given(st.integers(32, 200), st.integers(2, 200), st.sampled_from("ab"))
@FEW_EXAMPLES
def test_products_behind_products(rows: int, width: int, order: str) -> None:
    x, up, down = some(rows, 40), some(40, width), some(width, 30)
    check(lambda x, a, b: jax.nn.relu(x @ a) @ b, x, up, down, tolerance=1e-5)
    form = "mk,kn->nm" if order == "a" else "mk,kn->mn"
    check(lambda x, a: jnp.einsum(form, x, a) + 1, x, up, tolerance=1e-5)


@hypothesis.given(st.integers(1, 3), st.integers(32, 200), st.sampled_from([np.float32, BF16]))
@FEW_EXAMPLES
def test_attention_and_its_gradient(heads: int, length: int, dtype: Any) -> None:
    q, k, v = (some(heads, length, 24, dtype=dtype, seed=seed) for seed in range(3))
    mask = np.tril(np.ones((length, length), bool))
    tolerance = 1e-5 if dtype is np.float32 else 3e-2
    check(attention, q, k, v, mask, tolerance=tolerance)
    if dtype is np.float32:
        slopes = jax.grad(lambda *a: jnp.sum(attention(*a, mask) ** 2), (0, 1, 2))
        check(slopes, q, k, v, tolerance=1e-3)


@hypothesis.given(
    st.integers(64, 300), st.integers(128, 300), st.integers(2, 512), st.integers(1, 3),
    st.sampled_from([np.float32, BF16]), st.sampled_from(TARGETS), st.sampled_from([0, 2]),
)  # fmt: skip
@hypothesis.settings(max_examples=8, deadline=None)
def test_products_that_contract_the_rows_of_a_unit_join_it(
    rows: int, wide: int, columns: int, batch: int, dtype: Any, target: str, lnc: int
) -> None:
    def weighted(x: Any, y: Any) -> Any:
        z = jnp.exp(x - jnp.max(x, -1, keepdims=True)).astype(x.dtype)
        return jnp.einsum("brm,brn->bmn", z, y), z

    x, y = some(batch, rows, wide, dtype=dtype), some(batch, rows, columns, dtype=dtype, seed=1)
    y[0, rows // 2, 0] = np.inf
    record, options = Record(), CompileOptions(lnc=0 if target == "trn1" else lnc)
    tolerance = 2e-5 if dtype is np.float32 else 0.03
    check(weighted, x, y, tolerance=tolerance, target=target, record=record, options=options)
    (unit,) = [
        unit for unit in record.units if any(member.opcode == "dot" for member in unit.members)
    ]
    fits = -(-wide // 128) * columns * (2 if batch > 1 else 1) <= 2048
    assert ("exponential" in {member.opcode for member in unit.members}) == fits


@hypothesis.given(
    st.integers(128, 255), st.sampled_from([np.float32, BF16]), st.sampled_from(TARGETS)
)
@FEW_EXAMPLES
def test_gradients_of_short_attention_share_a_unit(length: int, dtype: Any, target: str) -> None:
    q, k, v = (some(2, length, 24, dtype=dtype, seed=seed) for seed in range(3))
    mask = np.tril(np.ones((length, length), bool))
    slopes = jax.grad(
        lambda *a: jnp.sum(attention(*a, mask=mask).astype(np.float32) ** 2), (0, 1, 2)
    )
    record = Record()
    tolerance = 1e-4 if dtype is np.float32 else 0.03
    check(slopes, q, k, v, tolerance=tolerance, target=target, record=record)
    products = [[member.opcode for member in unit.members].count("dot") for unit in record.units]
    assert max(products) >= 3


@hypothesis.given(
    st.integers(2, 4), st.integers(130, 500), st.integers(8, 40), st.sampled_from(TARGETS)
)
@FEW_EXAMPLES
def test_short_rows_of_operands_come_for_several_tiles(
    heads: int, length: int, width: int, target: str
) -> None:
    """The rows of a mask that all heads read are loaded once."""

    def scaled(x: Any, scale: Any, mask: Any) -> Any:
        x = jnp.where(mask, x * scale[..., None], -1)
        return jax.nn.softmax(x, -1), x @ jnp.ones((width, 2), np.float32)

    mask = np.random.default_rng(0).random((length, width)) < 0.5
    x, scale = some(heads, length, width), some(heads, length, seed=1)
    check(scaled, x, scale, mask, tolerance=1e-5, target=target)


@hypothesis.given(st.integers(64, 300), st.integers(2, 600))
@FEW_EXAMPLES
def test_sums_over_all_rows(rows: int, columns: int) -> None:
    x = some(rows, columns)
    check(lambda x: (jnp.sum(x * x, 0), jnp.sum(x, 0), jnp.exp(x), jnp.sum(x)), x, tolerance=1e-4)


def test_rows_that_do_not_fit_are_done_in_parts() -> None:
    check(jax.nn.softmax, some(40, 60_000), tolerance=1e-5)


def test_a_right_operand_that_does_not_fit_comes_in_blocks() -> None:
    check(lambda x, w: jnp.tanh(x @ w), some(40, 2100), some(2100, 2100), tolerance=1e-5)


@hypothesis.given(st.integers(33, 140), st.integers(129, 300), st.integers(5121, 5300))
@FEW_EXAMPLES
def test_blocks_of_columns_take_elementwise_neighbours(rows: int, depth: int, columns: int) -> None:
    """A value that is computed and read next to the product joins its unit."""

    def gated(a: Any, b: Any, x: Any, y: Any) -> Any:
        gate = jnp.tanh(x) * x
        return (a @ b) * gate + (1 - gate) * y.T, gate

    arrays = some(rows, depth), some(depth, columns, seed=1), some(rows, columns, seed=2)
    record = Record()
    check(gated, *arrays, some(columns, rows, seed=3), tolerance=2e-5, record=record)
    (unit,) = [
        unit for unit in record.units if any(member.opcode == "dot" for member in unit.members)
    ]
    assert {"dot", "tanh", "subtract"} <= {member.opcode for member in unit.members}


def test_blocks_of_columns_read_operands_whose_rows_have_several_dimensions() -> None:
    a, b, bias = some(60, 256), some(256, 80, 66, seed=1), some(66, seed=3)

    def project(a: Any, b: Any) -> Any:
        return jnp.einsum("md,dhk->mhk", a, b)

    check(lambda a, b, c: project(a, b) + c, a, b, bias, tolerance=1e-5)
    turned = some(60, 66, 80, seed=2)
    check(lambda a, b, x: project(a, b) * x.swapaxes(1, 2), a, b, turned, tolerance=1e-5)


def test_gradients_of_slices_are_put_side_by_side() -> None:
    def split(x: Any) -> Any:
        return jnp.sum(x[:, :20] ** 3 + x[:, 20:40] ** 2)

    program = check(jax.grad(split), some(50, 40))
    assert "memset" not in opcodes(program)


@hypothesis.given(st.integers(1, 150), st.integers(2, 300), st.integers(0, 1), st.booleans())
@FEW_EXAMPLES
def test_cumulative_operations(rows: int, columns: int, axis: int, reverse: bool) -> None:
    x = some(rows, columns)
    program = check(
        lambda x: (
            jax.lax.cumsum(x, axis, reverse=reverse), jax.lax.cummax(x, axis, reverse=reverse),
            jax.lax.cumprod(x, axis),
        ), x, tolerance=1e-5,
    )  # fmt: skip
    assert "tensor_tensor_scan" in opcodes(program) or 1 in (rows, columns)


def test_cumulative_sums_of_long_rows() -> None:
    check(lambda x: jnp.cumsum(x, -1), some(3, 5000), tolerance=1e-5)
    check(lambda x: jnp.cumsum(x, -1), some(40, 60, dtype=BF16), tolerance=2e-2)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sigmoid": jax.nn.sigmoid,
    "silu": jax.nn.silu,
    "gelu": lambda x: 0.5 * x * (1 + jax.lax.erf(x / np.sqrt(2).astype(x.dtype))),
    "gelu-tanh": jax.nn.gelu,
}
ENGINES = {"sigmoid": "sigmoid", "silu": "silu", "gelu": "gelu", "gelu-tanh": "gelu_apprx_tanh"}


def test_every_idiom_has_a_test() -> None:
    assert IDIOMS.keys() == IN_ONE.keys()


@pytest.mark.parametrize("dtype", [np.float32, BF16])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_the_scalar_engine(name: str, dtype: Any) -> None:
    x = (4 * some(70, 33, dtype=np.float32) * 6).astype(dtype)
    program = check(FUNCTIONS[name], x, tolerance=3e-6 if dtype is np.float32 else 2e-2)
    names = opcodes(program)
    assert f"activation {ENGINES[name]}" in names
    assert not {"reciprocal", "tensor_tensor"} & set(names)


IN_ONE: dict[str, tuple[Callable[[Any], Any], str, dict[str, int]]] = {
    "two-steps": (lambda x: (x - jnp.max(x, -1, keepdims=True)) * 3, "tensor_scalar", {}),
    "scale-and-bias": (
        lambda x: jnp.exp(x * 2 - jnp.max(x, -1, keepdims=True)), "activation exp", {},
    ),
    "function-and-sum": (
        lambda x: jnp.exp(x) / jnp.sum(jnp.exp(x), -1, keepdims=True), "activation_reduce exp",
        {"tensor_reduce": 0},
    ),
    "step-and-tile": (
        lambda x: jnp.exp(x) * jnp.max(x, -1, keepdims=True) + jnp.tanh(x), "scalar_tensor_tensor",
        {"tensor_tensor": 0},
    ),
    "mean": (
        lambda x: x - jnp.max(x, -1, keepdims=True) * jnp.mean(x, -1, keepdims=True),
        "activation_reduce copy", {},
    ),
    "square": (lambda x: jnp.sum(x * x, -1), "activation_reduce square", {"tensor_tensor": 0}),
    "step-and-reduction": (
        lambda x: jnp.exp(x * 3 - jnp.max(x * 3, -1, keepdims=True)), "tensor_scalar_reduce",
        {"tensor_reduce": 0},
    ),
    "choice-and-maximum": (
        lambda x: (lambda y: y - jnp.max(y, -1, keepdims=True))(jnp.where(x > 0, x, -9.0)),
        "select_reduce", {"tensor_reduce": 0},
    ),
    "cast": (lambda x: jnp.tanh(x).astype(BF16), "activation tanh", {"tensor_copy": 0}),
    "reciprocal-of-rows": (
        lambda x: x / jnp.max(x, -1, keepdims=True), "reciprocal", {"reciprocal": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_ONE)
def test_what_one_instruction_does(name: str) -> None:
    function, instruction_name, counts = IN_ONE[name]
    record = Record()
    tolerance = 1e-5 if name != "cast" else 1e-2
    program = check(function, some(100, 600), tolerance=tolerance, record=record)
    assert name in {idiom for unit in record.units for idiom in unit.idioms}
    names = opcodes(program)
    assert instruction_name in names
    assert {op: names.count(op) for op in counts} == counts


def test_the_same_module_has_the_same_kernels() -> None:
    arguments = [some(2, 130, 16, seed=seed) for seed in range(3)]
    first, second = (compile(lowered(attention, *arguments), target="trn2") for _ in range(2))
    assert str(first.subgraphs) == str(second.subgraphs)


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("auto_cast", ["none", "matmult", "all"])
def test_a_product_whose_value_is_the_result(target: str, auto_cast: str) -> None:
    """It leaves PSUM by a copy, also where its type needs none."""
    module = hlo_tools.load(
        b"HloModule m\nENTRY e { x = f32[70,96] parameter(0) y = f32[96,40] parameter(1)\n"
        b"ROOT d = f32[70,40] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"
    )
    options = CompileOptions(auto_cast=auto_cast)
    model = runtime.load(compile(module, target=target, options=options))
    for seed in (1, 2):
        random = np.random.default_rng(seed)
        x = random.standard_normal((70, 96), np.float32)
        y = random.standard_normal((96, 40), np.float32)
        (actual,) = model.run({"input0": x, "input1": y}).values()
        np.testing.assert_allclose(actual, x @ y, atol=1e-4 if auto_cast == "none" else 0.2)


@pytest.mark.parametrize("dtype", [np.float32, BF16])
@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_products_join_units_and_keep_what_is_not_finite_in_its_row(
    target: str, dtype: Any
) -> None:
    x, w, v = some(140, 170), some(170, 40, seed=1), some(40, 21, seed=2)
    x[3, 5], x[7, 9] = np.inf, np.nan
    arguments = [array.astype(dtype) for array in (x, w * np.float32(0.1), v)]
    record = Record()
    check(
        lambda x, w, v: jnp.tanh(x @ w) @ v, *arguments, target=target, record=record,
        tolerance=1e-5 if dtype is np.float32 else 1e-1,
    )  # fmt: skip
    assert [unit.kind for unit in record.units] == ["rows", "results"]


@pytest.mark.parametrize("rows", [129, 257])
@pytest.mark.parametrize("target", TARGETS)
def test_one_number_for_all_rows_is_loaded_once(target: str, rows: int) -> None:
    """The last tile has fewer rows than the one that it was loaded for."""

    def chosen(x: Any, number: Any) -> Any:
        branches = [lambda a: a, lambda a: a * 2, lambda a: a - 1]
        return jnp.mean(jax.lax.switch(number, branches, x), axis=0)

    for seed, number in enumerate((0, 1, 2)):
        x = np.random.default_rng(seed).integers(-9, 9, (rows, 2)).astype(np.int32)
        check(chosen, x, np.int32(number), target=target)
