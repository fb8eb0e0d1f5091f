"""Memory finds the bytes that an access means."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lang.base.dtypes import dtype_of
from nki_lang.base.errors import NkiExecutionError
from nki_lang.execute import Memory
from nki_lang.ir import Access, Register
from tests.execute.handmade import full, part, tensor


def filled(memory, t):
    memory.array(t)[...] = np.arange(t.elements).reshape(t.shape)
    return memory.array(t)


@pytest.mark.parametrize("address", [None, (32, 64)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "uint16"])
def test_slices_are_seen_where_numpy_sees_them(address, dtype):
    memory = Memory()
    t = tensor("t", (8, 6, 5), dtype, address=address)
    array = filled(memory, t)
    pieces = (slice(1, 7, 2), slice(None), slice(4, 0, -2))
    assert np.array_equal(memory.view(part(t, *pieces)), array[pieces])
    memory.view(part(t, *pieces))[...] = 3
    assert (array[pieces] == 3).all()


def test_broadcast_and_zero_size():
    memory = Memory()
    t = tensor("t", (4, 3))
    array = filled(memory, t)
    assert np.array_equal(
        memory.view(Access(t, 1, ((3, 4), (0, 5)))), np.repeat(array[:, 1:2], 5, axis=1)
    )
    assert memory.view(Access(t, 0, ((3, 0), (1, 3)))).shape == (0, 3)


def test_more_than_four_dimensions():
    memory = Memory()
    t = tensor("t", (2, 2, 3, 2, 2, 2), buffer="hbm")
    assert np.array_equal(memory.view(full(t)), memory.array(t), equal_nan=True)


def test_reinterpretation_of_bytes():
    for address in (None, (0, 256)):
        memory = Memory()
        t = tensor("t", (4, 8), "float32", address=address)
        filled(memory, t)
        bits = memory.view(Access(t, 0, ((16, 4), (1, 16)), dtype=dtype_of("bfloat16")))
        assert bits.dtype == ml_dtypes.bfloat16
        assert bits.tobytes() == memory.array(t).tobytes()


def test_overlapping_addresses_share_bytes():
    memory = Memory()
    a = tensor("a", (4, 8), "float32", address=(0, 0))
    b = tensor("b", (4, 4), "float32", address=(0, 16))
    memory.array(a)[...] = 1
    memory.array(b)[...] = 2
    assert np.array_equal(memory.array(a), [[1, 1, 1, 1, 2, 2, 2, 2]] * 4)


def test_fresh_memory_is_nan():
    memory = Memory()
    for dtype in ("float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"):
        assert np.isnan(memory.array(tensor(f"t_{dtype}", (2, 2), dtype)).astype(np.float32)).all()


def test_bound_arrays_are_seen_and_not_copied():
    memory = Memory()
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    memory.bind("x", array)
    memory.array(tensor("x", (2, 3), buffer="hbm"))[0, 0] = 9
    assert array[0, 0] == 9
    with pytest.raises(ValueError, match="contiguous"):
        memory.bind("y", array.T)


def test_shared_hbm_is_shared_and_private_is_not():
    first = Memory()
    second = Memory(shared=first)
    first.array(tensor("s", (2,), buffer="hbm"))[...] = 1
    first.array(tensor("p", (2,), buffer="private"))[...] = 1
    assert (second.array(tensor("s", (2,), buffer="hbm")) == 1).all()
    assert np.isnan(second.array(tensor("p", (2,), buffer="private"))).all()


@pytest.mark.parametrize("address", [None, (0, 0)])
def test_out_of_bounds_is_named(address):
    memory = Memory()
    t = tensor("tile", (4, 8), address=address)
    with pytest.raises(NkiExecutionError, match=r"of tensor 'tile', float32\[4, 8\]") as caught:
        memory.view(Access(t, 8, ((8, 4), (1, 8))))
    assert caught.value.code == "NKI-OUT-OF-BOUNDS"
    with pytest.raises(NkiExecutionError):
        memory.view(Access(t, 0, ((8, 4), (-1, 8))))


def test_scalar_offset_by_register_and_by_tensor():
    memory = Memory()
    t = tensor("t", (6, 4), buffer="hbm")
    array = filled(memory, t)
    memory.state.registers["r"] = 2
    moved = Access(t, 0, ((4, 3), (1, 4)), scalar_offset=Register("r"))
    assert np.array_equal(memory.read(moved), array[2:5])
    index = tensor("i", (1, 1), "int32")
    memory.array(index)[...] = 1
    column = Access(t, 0, ((4, 6), (1, 2)), scalar_offset=full(index), indirect_dim=1)
    assert np.array_equal(memory.read(column), array[:, 1:3])
    memory.state.registers["r"] = 4
    with pytest.raises(NkiExecutionError, match="NKI-OUT-OF-BOUNDS"):
        memory.read(moved)


@pytest.mark.parametrize("address", [None, (0, 128)])
def test_gather_and_scatter(address):
    memory = Memory()
    t = tensor("t", (16, 4), buffer="hbm" if address is None else "sbuf", address=address)
    array = filled(memory, t)
    index = tensor("i", (5, 1), "uint32")
    memory.array(index)[:, 0] = [3, 0, 15, 3, 7]
    rows = Access(t, 0, ((4, 5), (1, 4)), vector_offset=full(index))
    assert np.array_equal(memory.read(rows), array[[3, 0, 15, 3, 7]])
    memory.write(rows, np.full((5, 4), 1.0, np.float32))
    assert (array[[0, 3, 7, 15]] == 1).all()
    assert array[1, 1] == 5


@pytest.mark.parametrize(("partitions", "columns", "least"), [(32, 33, 32), (17, 3, 2)])
def test_tensor_indirection_with_too_few_indices(partitions, columns, least):
    """A group of 16 partitions has 16 indices a column; the last group may have fewer."""
    memory = Memory()
    t, index = tensor("t", (partitions, 40)), tensor("i", (partitions, 2), "uint16")
    memory.array(t)[...], memory.array(index)[...] = 0, 0
    location = ((40, partitions), (1, columns))
    access = Access(t, 0, location, vector_offset=full(index), indirect_dim=1)
    with pytest.raises(
        NkiExecutionError, match=f"{columns} columns, .* has {least} offsets"
    ) as caught:
        memory.read(access)
    assert caught.value.code == "NKI-INDIRECT"


@pytest.mark.parametrize("address", [None, (32, 128)])
def test_tensor_indirection_reads_its_index_in_snake_order(address):
    memory = Memory()
    t = tensor("t", (32, 40), address=address)
    array = filled(memory, t)
    index = tensor("i", (32, 2), "int32")
    picks = np.random.default_rng(1).integers(0, 40, (32, 2))
    memory.array(index)[...] = picks
    actual = memory.read(
        Access(t, 0, ((40, 32), (1, 20)), vector_offset=full(index), indirect_dim=1)
    )
    for p in range(32):
        for i in range(20):
            assert actual[p, i] == array[p, picks[p // 16 * 16 + i % 16, i // 16]]


def test_index_step_of_a_reshaped_view():
    memory = Memory()
    t = tensor("t", (4, 6), buffer="hbm")
    array = filled(memory, t).reshape(8, 3)
    memory.state.registers["r"] = 3
    access = Access(t, 0, ((3, 2), (1, 3)), scalar_offset=Register("r"), indirect_step=3)
    assert np.array_equal(memory.read(access), array[3:5])


def test_missing_rows_raise_or_are_skipped():
    memory = Memory()
    t = tensor("t", (4, 2), buffer="hbm")
    array = filled(memory, t)
    index = tensor("i", (3, 1), "int32")
    memory.array(index)[:, 0] = [1, 4, -1]
    rows = Access(t, 0, ((2, 3), (1, 2)), vector_offset=full(index))
    with pytest.raises(NkiExecutionError, match=r"vector offset \[1\] addresses row 4"):
        memory.read(rows)
    assert np.array_equal(memory.read(rows, skip=True)[0], array[1])
    before = array.copy()
    memory.write(rows, np.full((3, 2), 8.0, np.float32), skip=True)
    before[1] = 8
    assert np.array_equal(array, before)


def test_an_address_behind_the_end_of_its_memory():
    memory = Memory()
    t = replace(tensor("t", (64, 4), "float32"), address=(96, 0))
    with pytest.raises(NkiExecutionError, match="NKI-ADDRESS"):
        memory.array(t)


def test_precise_floats_off_stores_float32():
    memory = Memory(precise=False)
    t = tensor("t", (2, 2), "bfloat16")
    memory.array(t)[...] = 1.00001
    assert memory.array(t).dtype == np.float32
    with pytest.raises(NkiExecutionError, match=r"NKI-PRECISE-FP.*NKI_PRECISE_FP"):
        memory.view(full(t, dtype=dtype_of("uint16")))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 6),
    st.integers(1, 8),
    st.data(),
)
def test_placed_and_unplaced_agree(partitions, free, data):
    """The same access reads the same numbers wherever the tensor is."""
    unplaced, placed = Memory(), Memory()
    a = tensor("a", (partitions, free))
    b = tensor("a", (partitions, free), address=(7, 12))
    filled(unplaced, a)
    filled(placed, b)
    first = data.draw(st.integers(0, partitions - 1))
    rows = data.draw(st.integers(1, partitions - first))
    column = data.draw(st.integers(0, free - 1))
    columns = data.draw(st.integers(1, free - column))
    repeat = data.draw(st.integers(1, 3))
    pattern = ((free, rows), (0, repeat), (1, columns))
    unplaced_view = unplaced.view(Access(a, first * free + column, pattern))
    placed_view = placed.view(Access(b, first * free + column, pattern))
    assert np.array_equal(unplaced_view, placed_view)
