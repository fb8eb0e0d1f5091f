"""Element-wise instructions and selections against plain loops."""

import ml_dtypes
import numpy as np
import pytest

from nki_lang.execute import Memory, prepare
from nki_lang.ir import Instruction
from tests.execute.handmade import full, perform, tensor

BF16 = np.dtype(ml_dtypes.bfloat16)
RNG = np.random.default_rng(7)


def random(*shape, dtype=np.float32):
    return (RNG.standard_normal(shape) * 4).astype(dtype)


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def test_tensor_scalar_broadcasts_vectors_and_reverses():
    x, v = random(4, 2, 3), random(4, 1)
    actual = perform(
        "tensor_scalar",
        dst=zeros(4, 2, 3),
        data=x,
        op0="subtract",
        operand0=v,
        reverse0=True,
        op1="multiply",
        operand1=2.0,
        reverse1=False,
    )["dst"]
    np.testing.assert_allclose(actual, (v[:, :, None] - x) * 2)
    divided = perform(
        "tensor_scalar",
        dst=zeros(4, 2, 3, dtype=BF16),
        data=x,
        op0="add",
        operand0=10.0,
        reverse0=False,
        op1="divide",
        operand1=v,
        reverse1=True,
    )["dst"]
    np.testing.assert_array_equal(divided, (v[:, :, None] / (x + np.float32(10))).astype(BF16))


def test_tensor_scalar_in_place():
    memory = Memory()
    t = tensor("t", (4, 5))
    memory.array(t)[...] = x = random(4, 5)
    operands = {
        "dst": full(t),
        "data": full(t),
        "op0": "multiply",
        "operand0": 3.0,
        "op1": "add",
        "operand1": 1.0,
    }
    prepare(Instruction("tensor_scalar", operands), memory)()
    np.testing.assert_allclose(memory.array(t), x * 3 + 1, rtol=1e-6)


def test_scalar_tensor_tensor():
    x, y, v = random(4, 5), random(4, 5), random(4, 1)
    actual = perform(
        "scalar_tensor_tensor",
        dst=zeros(4, 5),
        data=x,
        op0="multiply",
        operand0=v,
        op1="subtract",
        operand1=y,
        reverse0=False,
        reverse1=True,
    )["dst"]
    np.testing.assert_allclose(actual, y - x * v, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, BF16, np.int16])
def test_reciprocal(dtype):
    x = np.abs(random(4, 5)).astype(dtype) + np.asarray(1, dtype)
    actual = perform("reciprocal", dst=zeros(4, 5, dtype=BF16), data=x)["dst"]
    np.testing.assert_array_equal(actual, (np.float32(1) / x.astype(np.float32)).astype(BF16))


def test_dropout_drops_what_it_should():
    x = np.ones((128, 512), np.float32)
    for prob in (0.0, 0.3, 1.0):
        actual = perform("dropout", dst=np.empty_like(x), data=x, prob=prob)["dst"]
        assert set(np.unique(actual)) <= {0.0, 1.0}
        assert 1 - actual.mean() == pytest.approx(prob, abs=0.01)
    lanes = np.linspace(0, 1, 128, dtype=np.float32)[:, None]
    actual = perform("dropout", dst=np.empty_like(x), data=x, prob=lanes)["dst"]
    np.testing.assert_allclose(1 - actual.mean(axis=1), lanes[:, 0], atol=0.1)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
def test_predicated_copy(dtype, reverse):
    old, new = random(4, 6), random(4, 6)
    predicate = RNG.integers(0, 3, (4, 6)).astype(dtype)
    actual = perform(
        "tensor_copy_predicated", dst=old, src=new, predicate=predicate, reverse_pred=reverse
    )["dst"]
    np.testing.assert_array_equal(actual, np.where((predicate != 0) ^ reverse, new, old))
    number = perform(
        "tensor_copy_predicated", dst=old, src=2.5, predicate=predicate, reverse_pred=reverse
    )["dst"]
    np.testing.assert_array_equal(number, np.where((predicate != 0) ^ reverse, 2.5, old))


def test_affine_select_makes_a_causal_mask():
    x = random(8, 8)
    actual = perform(
        "affine_select",
        dst=zeros(8, 8),
        pattern=((-1, 8),),
        channel_multiplier=1,
        on_true_tile=x,
        on_false_value=-9.0,
        cmp_op="greater_equal",
        offset=0,
    )["dst"]
    np.testing.assert_array_equal(actual, np.where(np.tri(8, dtype=bool), x, np.float32(-9)))


@pytest.mark.parametrize("dtype", [np.float32, BF16])
def test_range_select(dtype):
    x = random(4, 10).astype(dtype)
    low, high = (
        np.array([[0], [3], [5], [20]], np.float32),
        np.array([[9], [4], [12], [30]], np.float32),
    )
    actual = perform(
        "range_select",
        dst=zeros(4, 10),
        on_true_tile=x,
        comp_op0="greater_equal",
        comp_op1="less",
        bound0=low,
        bound1=high,
        reduce_cmd="reset_reduce",
        reduce_res=zeros(4, 1),
        reduce_op="maximum",
        range_start=2,
        on_false_value=None,
    )
    index = np.arange(10) + 2
    lowest = np.finfo(np.float32).min
    expected = np.where((index >= low) & (index < high), x.astype(np.float32), lowest)
    np.testing.assert_array_equal(actual["dst"], expected)
    np.testing.assert_array_equal(actual["reduce_res"], expected.max(axis=1, keepdims=True))
    narrow = perform(
        "range_select",
        dst=zeros(4, 10, dtype=BF16),
        on_true_tile=x,
        comp_op0="greater_equal",
        comp_op1="less",
        bound0=low,
        bound1=high,
        reduce_cmd="reset_reduce",
        reduce_res=None,
        reduce_op="maximum",
        range_start=2,
        on_false_value=None,
    )["dst"]
    assert np.isneginf(narrow[3].astype(np.float32)).all()


@pytest.mark.parametrize("reverse", [False, True])
def test_select_reduce(reverse):
    x, alternative = random(4, 6), random(4, 1)
    predicate = RNG.integers(0, 2, (4, 6)).astype(np.uint8)
    actual = perform(
        "select_reduce",
        dst=zeros(4, 6),
        predicate=predicate,
        on_true=x,
        on_false=alternative,
        reduce_res=zeros(4, 1),
        reduce_cmd="reset_reduce",
        reduce_op="maximum",
        reverse_pred=reverse,
    )
    expected = np.where((predicate != 0) ^ reverse, x, alternative)
    np.testing.assert_array_equal(actual["dst"], expected)
    np.testing.assert_array_equal(actual["reduce_res"], expected.max(axis=1, keepdims=True))


def test_max8_and_find_index8():
    x = random(5, 40)
    top = perform("max8", dst=zeros(5, 8), src=x)["dst"]
    np.testing.assert_array_equal(top, -np.sort(-x, axis=1)[:, :8])
    indices = perform("nc_find_index8", dst=zeros(5, 8, dtype=np.uint32), data=x, vals=top)["dst"]
    np.testing.assert_array_equal(np.take_along_axis(x, indices.astype(int), axis=1), top)


def test_equal_values_and_missing_ones():
    data = np.array([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8]], np.float32)
    vals = np.array([[3, 8, 8, 8, 8, 8, 8, 8]], np.float32)
    replaced = perform(
        "nc_match_replace8",
        dst=zeros(1, 11),
        data=data,
        vals=vals,
        imm=-1.0,
        dst_idx=zeros(1, 8, dtype=np.uint32),
    )
    assert replaced["dst_idx"].tolist() == [[2, 10, 9, 8, 7, 6, 5, 4]]
    assert replaced["dst"].tolist() == [[1, 2, -1, 4, -1, -1, -1, -1, -1, -1, -1]]
    indices = perform("nc_find_index8", dst=zeros(1, 8, dtype=np.uint32), data=data, vals=vals)[
        "dst"
    ]
    assert indices.tolist() == [[2, 4, 5, 6, 7, 8, 9, 10]]
    absent = perform("nc_find_index8", dst=zeros(1, 8, dtype=np.uint16), data=data, vals=vals + 50)[
        "dst"
    ]
    assert absent.tolist() == [[0xFFFF] * 8]


def test_sequence_bounds():
    ids = np.array([[0, 1, 1, 2, 2, 2, 0, 0, 3, 1]], np.float32)
    actual = perform("sequence_bounds", dst=zeros(1, 2, 10), segment_ids=ids)["dst"]
    assert actual[0, 0].tolist() == [10, 1, 1, 3, 3, 3, 10, 10, 8, 9]
    assert actual[0, 1].tolist() == [-1, 3, 3, 6, 6, 6, -1, -1, 9, 10]


def test_nonzero_with_count_touches_every_16th_partition():
    src = np.zeros((32, 8), np.float32)
    src[0] = [0, 1, 1, 0, 0, 1, 0, 0]
    src[16] = 1
    src[5] = 1
    actual = perform(
        "nonzero_with_count",
        dst=np.full((32, 9), 77, np.int32),
        src=src,
        index_offset=16,
        padding_val=-1,
    )["dst"]
    assert actual[0].tolist() == [17, 18, 21, -1, -1, -1, -1, -1, 3]
    assert actual[16].tolist() == [*range(16, 24), 8]
    assert (np.delete(actual, [0, 16], axis=0) == 77).all()


def test_topk_reads_a_snake_and_rises():
    n, k = 42, 8
    line = RNG.permutation(n).astype(BF16)
    src = np.full((16, 3), 1000, BF16)
    for i in range(n):
        src[i % 16, i // 16] = line[i]
    actual = perform(
        "topk",
        val_dst=zeros(16, k, dtype=BF16),
        idx_dst=zeros(16, k, dtype=np.uint32),
        src=src,
        n=n,
    )
    order = np.argsort(line.astype(np.float32))[-k:]
    for lane in range(16):
        np.testing.assert_array_equal(actual["val_dst"][lane], line[order])
        np.testing.assert_array_equal(actual["idx_dst"][lane], order)
