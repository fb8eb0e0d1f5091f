"""Copies, constants and gathers against plain loops."""

import ml_dtypes
import numpy as np
import pytest

from nki_lang.base.dtypes import dtype_of
from nki_lang.base.errors import NkiExecutionError
from nki_lang.base.source import SourceLocation
from nki_lang.execute import Memory, prepare
from nki_lang.ir import Access, Engine, Instruction
from nki_lang.isa.table import TABLE
from nki_lang.semantics import SEMANTICS, TRAITS
from tests.execute.handmade import KERNEL_FILE, full, perform, tensor

BF16 = np.dtype(ml_dtypes.bfloat16)
RNG = np.random.default_rng(7)


def random(*shape, dtype=np.float32):
    return (RNG.standard_normal(shape) * 4).astype(dtype)


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def test_every_instruction_of_the_table_has_a_meaning_with_its_operands():
    import inspect

    assert set(TABLE) == set(SEMANTICS)
    for op, row in TABLE.items():
        parameters = inspect.signature(SEMANTICS[op]).parameters.keys()
        assert set(row.names) == parameters - {"state", "accesses", "engine", "location"}, op
        assert set(row.writes) <= set(TRAITS[op].writes), op


@pytest.mark.parametrize("source", ["float32", "bfloat16", "int32", "uint8", "float8_e5m2"])
@pytest.mark.parametrize("target", ["float32", "bfloat16", "float16", "int8", "int32"])
@pytest.mark.parametrize("op", ["dma_copy", "tensor_copy"])
def test_copies_convert_through_float32(op, source, target):
    x = random(4, 6).astype(dtype_of(source).dtype)
    actual = perform(op, dst=zeros(4, 6, dtype=dtype_of(target).dtype), src=x)["dst"]
    wide = x.astype(np.float32)
    kind = dtype_of(target).dtype
    expected = (
        np.rint(wide).clip(-128, 127)
        if target == "int8"
        else np.rint(wide)
        if target == "int32"
        else wide
    )
    np.testing.assert_array_equal(actual, expected.astype(kind))


def test_copies_of_32_bit_integers_are_exact_except_on_the_scalar_engine():
    x = np.array([[2**24 + 1, -(2**31)]], np.int32)
    assert np.array_equal(perform("tensor_copy", dst=zeros(1, 2, dtype=np.int32), src=x)["dst"], x)
    rounded = perform("tensor_copy", engine=Engine.scalar, dst=zeros(1, 2, dtype=np.int32), src=x)
    assert rounded["dst"].tolist() == [[2**24, -(2**31)]]


def test_copies_flatten_free_dimensions():
    x = random(4, 6)
    actual = perform("tensor_copy", dst=zeros(4, 2, 3), src=x)["dst"]
    assert np.array_equal(actual.reshape(4, 6), x)


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("float32", 1.5, 1.5),
        ("int8", 2.5, 2),
        ("uint8", 300, 255),
        ("int32", 0xFFFFFFFF, -1),
        ("uint32", 0xFFFFFFFF, 2**32 - 1),
        ("bfloat16", 1.0, 1.0),
        ("int32", 2**31 - 1, 2**31 - 1),
    ],
)
def test_memset(dtype, value, expected):
    actual = perform("memset", dst=zeros(2, 3, dtype=dtype_of(dtype).dtype), value=value)["dst"]
    assert (actual == expected).all()


def test_transposes_move_bits():
    x = random(5, 7)
    x[0, 0], x[1, 1] = np.nan, np.inf
    np.testing.assert_array_equal(perform("nc_transpose", dst=zeros(7, 5), data=x)["dst"], x.T)
    np.testing.assert_array_equal(
        perform("nc_transpose", dst=zeros(12, 4), data=random(4, 3, 4).copy())["dst"].shape, (12, 4)
    )
    for axes, shape in (((1, 0), (3, 4)), ((2, 1, 0), (2, 3, 4)), ((3, 1, 2, 0), (2, 3, 4, 5))):
        y = random(*shape)
        expected = y.transpose(axes)
        for permutation in (axes, None):
            actual = perform("dma_transpose", dst=zeros(*expected.shape), src=y, axes=permutation)[
                "dst"
            ]
            np.testing.assert_array_equal(actual, expected)


def test_stream_shuffle_works_in_each_quadrant_and_255_keeps():
    x, old = random(64, 3), random(64, 3)
    mask = tuple((lane * 7) % 32 if lane % 5 else 255 for lane in range(32))
    actual = perform("nc_stream_shuffle", dst=old, src=x, shuffle_mask=mask)["dst"]
    for lane in range(64):
        source_lane = mask[lane % 32]
        expected = old[lane] if source_lane == 255 else x[lane // 32 * 32 + source_lane]
        np.testing.assert_array_equal(actual[lane], expected)


def test_stream_shuffle_in_place():
    memory = Memory()
    t = tensor("t", (32, 2))
    memory.array(t)[...] = x = random(32, 2)
    mask = tuple(reversed(range(32)))
    prepare(
        Instruction("nc_stream_shuffle", {"dst": full(t), "src": full(t), "shuffle_mask": mask}),
        memory,
    )()
    np.testing.assert_array_equal(memory.array(t), x[::-1])


def affine(partitions, pattern, offset, multiplier):
    counts = [count for _, count in pattern]
    value = np.zeros((partitions, *counts), np.int64)
    for index in np.ndindex(*value.shape):
        value[index] = (
            offset
            + index[0] * multiplier
            + sum(i * s for i, (s, _) in zip(index[1:], pattern, strict=True))
        )
    return value


@pytest.mark.parametrize("pattern", [((1, 8),), ((-2, 2), (3, 4)), ((0, 2), (5, 2), (1, 2))])
@pytest.mark.parametrize("dtype", ["int32", "float32", "uint8", "bfloat16"])
def test_iota(pattern, dtype):
    kind = dtype_of(dtype).dtype
    actual = perform(
        "iota", dst=zeros(3, 8, dtype=kind), pattern=pattern, offset=40, channel_multiplier=10
    )["dst"]
    expected = affine(3, pattern, 40, 10).reshape(3, 8)
    np.testing.assert_array_equal(actual, expected.astype(np.float32).astype(kind))


@pytest.mark.parametrize(
    "numbers",
    [
        {"pattern": ((1, 1 << 32),)}, {"pattern": ((1, 9),)}, {"pattern": ((1, 2),) * 5},
        {"pattern": ((1 << 63, 8),)}, {"offset": 1 << 70}, {"channel_multiplier": -(1 << 64)},
    ],
)  # fmt: skip
def test_a_pattern_of_a_damaged_file(numbers):
    """The language refuses it; a file may have it, and asks for no memory."""
    operands = {"dst": zeros(3, 8), "pattern": ((1, 8),), "offset": 0, "channel_multiplier": 0}
    with pytest.raises(NkiExecutionError, match="do not fill") as caught:
        perform("iota", **operands | numbers)
    assert caught.value.code == "NKI-PATTERN"
    with pytest.raises(NkiExecutionError, match="do not fill"):
        perform(
            "affine_select", on_true_tile=zeros(3, 8), on_false_value=1.0, cmp_op="equal",
            **operands | numbers,
        )  # fmt: skip


@pytest.mark.parametrize(("width", "valid"), [(1, None), (4, 50), (2, 64)])
def test_local_gather(width, valid):
    src = random(32, 128)
    index = (RNG.integers(0, 128 // width, (32, 4)) * width).astype(np.uint16)
    count = 64 if valid is None else valid
    actual = perform(
        "local_gather",
        dst=zeros(32, count * width),
        src_buffer=src,
        index=index,
        num_elem_per_idx=width,
        num_valid_indices=valid,
    )["dst"]
    for group in range(2):
        starts = [index[group * 16 + i % 16, i // 16] for i in range(count)]
        for lane in range(16):
            row = group * 16 + lane
            expected = np.concatenate([src[row, w : w + width] for w in starts])
            np.testing.assert_array_equal(actual[row], expected)


def test_a_gather_of_more_than_a_partition_holds():
    """A damaged file may ask for 2^40 elements an index; no memory is taken for them."""
    index = np.zeros((16, 1), np.uint16)
    with pytest.raises(NkiExecutionError, match="outside of src_buffer"):
        perform(
            "local_gather", dst=zeros(16, 64), src_buffer=zeros(16, 64), index=index,
            num_elem_per_idx=1 << 40, num_valid_indices=1,
        )  # fmt: skip


def test_gather_within_partitions():
    data = random(8, 4, 5, dtype=BF16)
    index = RNG.integers(0, 20, (8, 7)).astype(np.uint32)
    actual = perform("nc_n_gather", dst=zeros(8, 7, dtype=BF16), data=data, indices=index)["dst"]
    for row in range(8):
        np.testing.assert_array_equal(actual[row], data[row].reshape(-1)[index[row]])
    with pytest.raises(
        NkiExecutionError, match=r"\[NKI-OUT-OF-BOUNDS\] index 20 is outside of data"
    ):
        perform("nc_n_gather", dst=zeros(8, 7, dtype=BF16), data=data, indices=index * 0 + 20)


def test_dma_compute_adds_and_scatters():
    memory = Memory()
    a, b, dst = (tensor(n, (4, 3), buffer="hbm") for n in ("a", "b", "dst"))
    memory.array(a)[...], memory.array(b)[...] = random(4, 3), random(4, 3)
    here = SourceLocation(KERNEL_FILE, 1)
    operands = {
        "dst": full(dst),
        "srcs": (full(a), full(b)),
        "reduce_op": "add",
        "scales": (1.0, 1.0),
        "unique_indices": True,
        "oob_mode": "error",
    }
    prepare(Instruction("dma_compute", operands, location=here), memory)()
    np.testing.assert_allclose(memory.array(dst), memory.array(a) + memory.array(b))
    index = tensor("i", (2, 1), "uint32")
    memory.array(index)[:, 0] = [3, 1]
    new = tensor("new", (2, 3))
    memory.array(new)[...] = 10
    rows = Access(dst, 0, ((3, 2), (1, 3)), vector_offset=full(index))
    before = memory.array(dst).copy()
    scatter = {**operands, "dst": rows, "srcs": (rows, full(new))}
    prepare(Instruction("dma_compute", scatter, location=here), memory)()
    before[[3, 1]] += 10
    np.testing.assert_allclose(memory.array(dst), before)
