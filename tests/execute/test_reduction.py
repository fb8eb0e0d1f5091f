"""Reductions, scans and accumulator registers against plain loops."""

import ml_dtypes
import numpy as np
import pytest

from nki_lang.execute import Memory, prepare
from nki_lang.ir import Access, Instruction
from nki_lang.semantics.operators import operator_of
from nki_lang.semantics.reduction import reduce_axes
from nki_lang.semantics.statistics import bn_aggr, bn_stats
from tests.execute.handmade import full, perform, tensor

BF16 = np.dtype(ml_dtypes.bfloat16)
RNG = np.random.default_rng(7)


def random(*shape, dtype=np.float32):
    return (RNG.standard_normal(shape) * 4).astype(dtype)


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


REDUCTIONS = {
    "add": np.sum, "multiply": np.prod, "maximum": np.max, "minimum": np.min,
    "subtract": lambda x, axis: -np.sum(x, axis=axis),
    "logical_and": np.all, "logical_or": np.any,
    "abs_max": lambda x, axis: np.max(np.abs(x), axis=axis),
}  # fmt: skip


@pytest.mark.parametrize("op", ["add", "multiply", "subtract", "average"])
@pytest.mark.parametrize("shape", [(2, 64), (130,), (3, 5, 7)])
def test_bits_do_not_depend_on_where_a_tile_lies(op, shape):
    x = random(16, *shape) / 4 + 1
    wide = np.repeat(x, 2, axis=-1)[..., ::2]
    turned = np.ascontiguousarray(x.T).T
    axes = tuple(range(1, x.ndim))
    expected = reduce_axes(operator_of(op), x, axes)
    for view in (wide, turned, x[::-1][::-1], np.asfortranarray(x)):
        np.testing.assert_array_equal(reduce_axes(operator_of(op), view, axes), expected)
    spread = np.broadcast_to(x[:1], x.shape)
    same = np.broadcast_to(expected[:1], expected.shape)
    np.testing.assert_array_equal(reduce_axes(operator_of(op), spread, axes), same)


@pytest.mark.parametrize("op", sorted(REDUCTIONS))
@pytest.mark.parametrize("axis", [(3,), (2, 3), (1, 2, 3), 3, (-1,)])
def test_tensor_reduce(op, axis):
    x = random(4, 2, 3, 5)
    expected = REDUCTIONS[op](x.astype(np.float64), axis=axis).astype(np.float64)
    actual = perform(
        "tensor_reduce",
        dst=zeros(4, max(1, expected.size // 4)),
        op=op,
        data=x,
        axis=axis,
        negate=False,
        keepdims=False,
    )["dst"]
    np.testing.assert_allclose(actual.reshape(expected.shape), expected, rtol=1e-4, atol=1e-4)
    negated = perform(
        "tensor_reduce",
        dst=zeros(4, max(1, expected.size // 4)),
        op=op,
        data=x,
        axis=axis,
        negate=True,
        keepdims=False,
    )["dst"]
    np.testing.assert_array_equal(negated, -actual)


def test_tensor_reduce_of_bits():
    x = RNG.integers(0, 255, (3, 6)).astype(np.uint8)
    for op, ufunc in (
        ("bitwise_and", np.bitwise_and),
        ("bitwise_or", np.bitwise_or),
        ("bitwise_xor", np.bitwise_xor),
    ):
        actual = perform(
            "tensor_reduce", dst=zeros(3, 1, dtype=np.uint8), op=op, data=x, axis=(1,)
        )["dst"]
        expected = [[int(ufunc.reduce(row))] for row in x]
        assert np.array_equal(actual, expected)


def test_reduction_of_nothing_and_of_one():
    assert (
        perform("tensor_reduce", dst=zeros(3, 1), op="add", data=zeros(3, 0), axis=(1,))[
            "dst"
        ].tolist()
        == [[0]] * 3
    )
    assert np.isneginf(
        perform("tensor_reduce", dst=zeros(3, 1), op="maximum", data=zeros(3, 0), axis=(1,))["dst"]
    ).all()
    x = random(3, 1)
    assert np.array_equal(
        perform("tensor_reduce", dst=zeros(3, 1), op="maximum", data=x, axis=(1,))["dst"], x
    )


@pytest.mark.parametrize(
    ("op", "function"),
    [("add", np.sum), ("average", np.mean), ("maximum", np.max), ("max", np.max)],
)
def test_partition_reduce(op, function):
    x = random(7, 3)
    actual = perform("tensor_partition_reduce", dst=zeros(1, 3), op=op, data=x)["dst"]
    np.testing.assert_allclose(actual[0], function(x.astype(np.float64), axis=0), rtol=1e-5)


def test_bn_stats_and_aggr_give_mean_and_variance():
    x = random(5, 301)
    stats = perform("bn_stats", dst=zeros(5, 6), data=x)["dst"]
    np.testing.assert_allclose(stats[:, 0], 151)
    np.testing.assert_allclose(stats[:, 4], x[:, 1::2].mean(axis=1), rtol=1e-4, atol=1e-5)
    statistics = np.concatenate(
        [stats, perform("bn_stats", dst=zeros(5, 6), data=x[:, :7].copy())["dst"]], axis=1
    )
    actual = perform("bn_aggr", dst=zeros(5, 2), data=statistics)["dst"]
    everything = np.concatenate([x, x[:, :7]], axis=1).astype(np.float64)
    np.testing.assert_allclose(actual[:, 0], everything.mean(axis=1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(actual[:, 1], everything.var(axis=1), rtol=1e-4)


def test_bn_stats_of_one_element():
    stats = perform("bn_stats", dst=zeros(2, 6), data=np.array([[3.0], [4.0]], np.float32))["dst"]
    assert stats.tolist() == [[1, 3, 0, 0, 0, 0], [1, 4, 0, 0, 0, 0]]


SCANS = [("multiply", "add"), ("add", "maximum"), ("subtract", "minimum"), ("maximum", "multiply")]
PYTHON = {
    "multiply": lambda a, b: a * b,
    "add": lambda a, b: a + b,
    "maximum": max,
    "minimum": min,
    "subtract": lambda a, b: a - b,
}


@pytest.mark.parametrize(("op0", "op1"), SCANS)
@pytest.mark.parametrize("reverse", [False, True])
def test_tensor_tensor_scan(op0, op1, reverse):
    x, y = random(3, 8) / 4, random(3, 8)
    initial = random(3, 1)
    actual = perform(
        "tensor_tensor_scan",
        dst=zeros(3, 8),
        data0=x,
        data1=y,
        initial=initial,
        op0=op0,
        op1=op1,
        reverse0=reverse,
        reverse1=reverse,
    )["dst"]
    for row in range(3):
        state = float(initial[row, 0])
        for column in range(8):
            a, b = (state, float(x[row, column])) if reverse else (float(x[row, column]), state)
            value = PYTHON[op0](a, b)
            c, d = (float(y[row, column]), value) if reverse else (value, float(y[row, column]))
            state = PYTHON[op1](c, d)
            assert actual[row, column] == pytest.approx(state, rel=1e-4, abs=1e-4)


def run_on(memory, op, /, **operands):
    return perform(op, memory=memory, **operands)


@pytest.mark.parametrize("op1", ["add", "subtract", "multiply", "maximum", "minimum"])
def test_tensor_scalar_cumulative_and_its_registers(op1):
    memory = Memory()
    x = random(3, 6) / 3
    start = random(3, 1)
    first = run_on(
        memory,
        "tensor_scalar_cumulative",
        dst=zeros(3, 6),
        src=x,
        op0="add",
        op1=op1,
        imm0=0.5,
        imm1=start,
        reduce_cmd="load_reduce",
    )["dst"]
    second = run_on(
        memory,
        "tensor_scalar_cumulative",
        dst=zeros(3, 6),
        src=x,
        op0="add",
        op1=op1,
        imm0=0.5,
        imm1=None,
        reduce_cmd="reduce",
    )["dst"]
    for row in range(3):
        register = float(start[row, 0])
        for column in range(12):
            register = PYTHON[op1](float(x[row, column % 6]) + 0.5, register)
            actual = (first if column < 6 else second)[row, column % 6]
            assert actual == pytest.approx(register, rel=1e-4, abs=1e-4)


def test_tensor_scalar_reduce_and_negation():
    memory = Memory()
    x = random(4, 5)
    plain = run_on(
        memory,
        "tensor_scalar_reduce",
        dst=zeros(4, 5),
        data=x,
        op0="multiply",
        operand0=2.0,
        reduce_op="add",
        reduce_res=zeros(4, 1),
        reverse0=False,
        reduce_cmd="reset_reduce",
        reduce_init=None,
        reduce_res_negate=False,
    )
    np.testing.assert_allclose(
        plain["reduce_res"][:, 0], 2 * x.sum(axis=1, dtype=np.float64), rtol=1e-4, atol=1e-4
    )
    negated = run_on(
        memory,
        "tensor_scalar_reduce",
        dst=zeros(4, 5),
        data=x,
        op0="multiply",
        operand0=2.0,
        reduce_op="add",
        reduce_res=zeros(4, 1),
        reverse0=False,
        reduce_cmd="reduce",
        reduce_init=None,
        reduce_res_negate=True,
    )
    np.testing.assert_allclose(negated["reduce_res"], -2 * plain["reduce_res"], rtol=1e-5)
    loaded = run_on(
        memory,
        "tensor_scalar_reduce",
        dst=zeros(4, 5),
        data=x,
        op0="add",
        operand0=0.0,
        reduce_op="maximum",
        reduce_res=zeros(4, 1),
        reverse0=False,
        reduce_cmd="load_reduce",
        reduce_init=100.0,
        reduce_res_negate=False,
    )
    assert (loaded["reduce_res"] == 100).all()


def test_registers_of_the_vector_engine_are_shared():
    memory = Memory()
    x = random(4, 5)
    run_on(
        memory,
        "exponential",
        dst=zeros(4, 5),
        src=x,
        max_value=0.0,
        reduce_res=None,
        reduce_cmd="reset_reduce",
        reduce_init=0.0,
    )
    actual = run_on(
        memory,
        "tensor_scalar_reduce",
        dst=zeros(4, 5),
        data=zeros(4, 5),
        op0="add",
        operand0=0.0,
        reduce_op="add",
        reduce_res=zeros(4, 1),
        reverse0=False,
        reduce_cmd="reduce",
        reduce_init=None,
        reduce_res_negate=False,
    )
    np.testing.assert_allclose(actual["reduce_res"][:, 0], np.exp(x).sum(axis=1), rtol=1e-5)


def test_exponential():
    x, top = random(4, 5, dtype=BF16), random(4, 1)
    actual = perform(
        "exponential",
        dst=zeros(4, 5),
        src=x,
        max_value=top,
        reduce_res=zeros(4, 1),
        reduce_cmd="load_reduce",
        reduce_init=1.0,
    )
    expected = np.exp(x.astype(np.float64) - top)
    np.testing.assert_allclose(actual["dst"], expected, rtol=1e-5)
    np.testing.assert_allclose(actual["reduce_res"][:, 0], 1 + expected.sum(axis=1), rtol=1e-5)


def test_activation_scale_bias_and_registers():
    memory = Memory()
    x, scale, bias = random(4, 6), random(4, 1), random(4, 1)
    first = run_on(
        memory,
        "activation",
        dst=zeros(4, 6),
        op="tanh",
        data=x,
        bias=bias,
        scale=scale,
        reduce_op="add",
        reduce_res=None,
        reduce_cmd="reset_reduce",
    )["dst"]
    second = run_on(
        memory,
        "activation",
        dst=zeros(4, 6, dtype=BF16),
        op="exp",
        data=x,
        bias=None,
        scale=0.1,
        reduce_op="add",
        reduce_res=zeros(4, 1),
        reduce_cmd="reduce",
    )
    tanh, exponential = (
        np.tanh(x.astype(np.float64) * scale + bias),
        np.exp(x.astype(np.float64) * 0.1),
    )
    np.testing.assert_allclose(first, tanh, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        second["reduce_res"][:, 0], (tanh + exponential).sum(axis=1), rtol=1e-4
    )
    reset = run_on(
        memory,
        "activation",
        dst=zeros(4, 6),
        op="copy",
        data=x,
        bias=None,
        scale=1.0,
        reduce_op=None,
        reduce_res=zeros(4, 1),
        reduce_cmd="reset",
    )
    assert (reset["reduce_res"] == 0).all()


def test_activation_reduce_is_activation_with_reset():
    x = random(4, 3, 2)
    actual = perform(
        "activation_reduce",
        dst=zeros(4, 3, 2),
        op="square",
        data=x,
        reduce_op="add",
        reduce_res=zeros(4, 1),
        bias=None,
        scale=2.0,
    )
    np.testing.assert_allclose(
        actual["reduce_res"][:, 0], (4 * x.astype(np.float64) ** 2).sum(axis=(1, 2)), rtol=1e-5
    )


def test_reduce_res_may_overwrite_a_part_of_the_tile():
    memory = Memory()
    t = tensor("t", (4, 6))
    memory.array(t)[...] = x = random(4, 6)
    column = Access(t, 5, ((6, 4), (1, 1)))
    operands = {
        "dst": full(t),
        "op": "copy",
        "data": full(t),
        "reduce_op": "add",
        "reduce_res": column,
        "bias": None,
        "scale": 1.0,
    }
    prepare(Instruction("activation_reduce", operands), memory)()
    np.testing.assert_allclose(memory.array(t)[:, 5], x.sum(axis=1), rtol=1e-5, atol=1e-5)


def test_activate2_stages():
    x, v = random(4, 5), random(4, 1)
    actual = perform(
        "activate2",
        dst=zeros(4, 5),
        op="prelu",
        data=x,
        imm0=v,
        imm1=1.0,
        op0="subtract",
        op1="bypass",
        relu_param=0.25,
        reverse0=True,
        reverse1=False,
        reduce_op="maximum",
        reduce_res=zeros(4, 1),
        reduce_cmd="reset_reduce",
    )
    shifted = v - x
    expected = np.where(shifted >= 0, shifted, 0.25 * shifted)
    np.testing.assert_allclose(actual["dst"], expected, rtol=1e-6)
    np.testing.assert_allclose(actual["reduce_res"][:, 0], expected.max(axis=1), rtol=1e-6)


def test_statistics_do_not_depend_on_where_a_tile_lies():
    x = random(16, 34) / 4 + 1
    runs = []
    for view in (x, np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2]):
        stats, moments = zeros(16, 6), zeros(16, 2)
        bn_stats(stats, view)
        bn_aggr(moments, np.asfortranarray(stats))
        runs.append((stats, moments))
    for stats, moments in runs[1:]:
        np.testing.assert_array_equal(stats, runs[0][0])
        np.testing.assert_array_equal(moments, runs[0][1])
    np.testing.assert_allclose(runs[0][1], np.stack([x.mean(1), x.var(1)], 1), rtol=1e-5)
