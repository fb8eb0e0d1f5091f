"""Views against NumPy's strides, and the rules of each view."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang import TensorSpec, jit, simulate
from nki_lang.ir import Access, Register
from tests.nki_lang.specimen import refused, spec, trace, tracing


def elements(view) -> np.ndarray:
    """Positions of the view's elements in its storage, by its access pattern."""
    access = view.access
    where = np.array(access.offset)
    for step, count in access.pattern:
        where = where[..., None] + np.arange(count) * step
    return where


def hbm(*shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype, nl.shared_hbm)


def positions(*shape):
    return np.arange(int(np.prod(shape))).reshape(shape)


shapes = st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple)


@st.composite
def indexed(draw):
    shape = draw(shapes)
    keys = []
    for extent in shape:
        low = draw(st.integers(0, extent - 1))
        high = draw(st.integers(low + 1, extent))
        step = draw(st.integers(1, 3))
        negative = draw(st.booleans())
        keys.append(
            draw(st.sampled_from([
                low - extent if negative else low, slice(low, high, step), slice(None),
                slice(low - extent, None),
            ]))
        )  # fmt: skip
    if draw(st.booleans()):
        keys = keys[: draw(st.integers(0, len(keys)))]
        keys.append(Ellipsis)
    return shape, tuple(keys)


@settings(max_examples=150, deadline=None)
@given(indexed())
def test_indexing_in_hbm_is_numpys(case):
    shape, keys = case
    with tracing():
        view = hbm(*shape)[keys]
        expected = positions(*shape)[keys]
        assert view.shape == (expected.shape or (1,))
        assert np.array_equal(elements(view), np.reshape(expected, view.shape))
        assert view.size == expected.size and view.ndim == len(view.shape)


@settings(max_examples=100, deadline=None)
@given(shapes, st.data())
def test_permute_reshape_and_chains_are_numpys(shape, data):
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    with tracing():
        tensor = hbm(*shape)
        view = tensor.permute(order)
        expected = positions(*shape).transpose(order)
        assert np.array_equal(elements(view), expected)
        assert view.is_contiguous() == (elements(view).ravel() == np.arange(view.size)).all()
        flat = tensor.reshape((-1,))
        assert np.array_equal(elements(flat), positions(*shape).ravel())
        assert np.array_equal(elements(flat.reshape(shape)), positions(*shape))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=2, max_size=4), st.data())
def test_reshape_of_a_view_succeeds_exactly_when_no_copy_is_needed(shape, data):
    """Every factorisation that NumPy can do without a copy, we can, and no other."""
    low = data.draw(st.integers(0, shape[-1] - 1))
    total = int(np.prod(shape[:-1])) * (shape[-1] - low)
    first = data.draw(st.sampled_from([n for n in range(1, total + 1) if total % n == 0]))
    target = (first, total // first)
    base = positions(*shape)
    source = base[..., low:]
    as_numpy = source.reshape(target)
    possible = np.shares_memory(as_numpy, base)
    with tracing():
        view = hbm(*shape)[..., low:]
        if possible:
            assert np.array_equal(elements(view.reshape(target)), as_numpy)
        else:
            with refused("NKI-LAYOUT"):
                view.reshape(target)


def test_on_chip_integers_keep_two_dimensions():
    with tracing():
        t = nl.ndarray((64, 64, 64), nl.float32)
        assert t[0, 0, 10].shape == (1, 1)
        assert t[:, 0].shape == (64, 64)
        assert t[:, 0, 10].shape == (64, 1)
        assert t[0:64, 0, 0:64].shape == (64, 64)
        assert t[0, ..., :].shape == (1, 64, 64)
        assert t[0, ...][:, 0:32, :].shape == (1, 32, 64)
        assert t[..., ::2].shape == (64, 64, 32)
        assert t[-1].offset == 63 * 64 * 64


def test_attributes_of_the_guide():
    with tracing():
        t = nl.ndarray((128, 64), nl.float32)
        assert (t.strides, t.offset, t.dtype, t.buffer) == ((64, 1), 0, nl.float32, nl.sbuf)
        u = t.slice(dim=1, start=8, end=24)
        assert u.get_pattern() == u.pattern == [[64, 128], [1, 16]] and u.offset == 8
        v = t.ap(pattern=[[64, 128], [1, 16]], offset=8)
        assert v.access == u.access
        inner = t.ap(pattern=[[64, 128], [2, 32]])
        assert inner.ap(pattern=[[64, 128], [1, 64]]).access == t.access
        w = nl.ndarray((128, 4, 16), nl.float32)[0:64, :, :].permute((0, 2, 1))[:, 0, :]
        assert w.shape == (64, 4)


def test_reinterpreting_rescales_the_last_dimension():
    with tracing():
        t = nl.ndarray((128, 64), nl.float32)
        assert t.view(nl.uint8).shape == (128, 256)
        assert t.view(nl.int32).shape == (128, 64)
        half = t[:, 16:32].view(nl.bfloat16)
        assert (half.shape, half.offset, half.strides) == ((128, 32), 32, (128, 1))
        assert half.access.element_type == nl.bfloat16
        assert half.reinterpret_cast(nl.float32).access == t[:, 16:32].access
        with refused("NKI-VIEW", "stride"):
            t[:, ::2].view(nl.uint8)
        with refused("NKI-VIEW"):
            nl.ndarray((128, 3), nl.uint8).view(nl.float32)


def test_rearrange_splits_reorders_and_merges():
    with tracing():
        t = nl.ndarray((128, 24), nl.float32)
        view = t.rearrange(("b", ("h", "w")), ("b", "w", "h"), {"h": 4})
        expected = positions(128, 24).reshape(128, 4, 6).transpose(0, 2, 1)
        assert np.array_equal(elements(view), expected)
        back = hbm(2, 3, 4).rearrange(("a", "b", "c"), (("a", "b"), "c"))
        assert back.shape == (6, 4)
        with refused("NKI-REARRANGE"):
            t.rearrange(("b", "c"), ("b",))


def test_small_view_methods():
    with tracing():
        t = nl.ndarray((128, 1, 6), nl.float32)
        assert t.broadcast(1, 4).strides == (6, 0, 1)
        assert t.squeeze_dim(1).shape == (128, 6)
        assert t.expand_dim(3).shape == (128, 1, 6, 1)
        assert t.reshape_dim(2, (2, -1)).shape == (128, 1, 2, 3)
        assert t.flatten_dims(1, 2).shape == (128, 6)
        assert t.select(2, 3).shape == (128, 1)
        assert nl.expand_dims(t, 1).shape == (128, 1, 1, 6)


@pytest.mark.parametrize(
    ("code", "make"),
    [
        ("NKI-INDEX", lambda t: t[0:200, :]),
        ("NKI-INDEX", lambda t: t[128]),
        ("NKI-INDEX", lambda t: t[:, 5:4]),
        ("NKI-INDEX", lambda t: t.slice(1, 5, 5)),
        ("NKI-INDEX", lambda t: t[:, nl.ds(5, -1)]),
        ("NKI-INDEX", lambda t: t[:, ::-1]),
        ("NKI-INDEX", lambda t: t[0, 0, 0]),
        ("NKI-INDEX", lambda t: t[..., 0, ...]),
        ("NKI-INDEX", lambda t: t["a"]),
        ("NKI-INDEX", lambda t: t[nl.ds(120, 16), :]),
        ("NKI-PARTITION-DIM", lambda t: t.permute((1, 0))),
        ("NKI-PARTITION-DIM", lambda t: t.expand_dim(0)),
        ("NKI-PARTITION-DIM", lambda t: t.reshape((64, 128))),
        ("NKI-PARTITION-DIM", lambda t: t.reshape_dim(0, (2, 64))),
        ("NKI-PARTITION-DIM", lambda t: t.flatten_dims(0, 1)),
        ("NKI-RESHAPE", lambda t: t.reshape((128, 65))),
        ("NKI-RESHAPE", lambda t: t.reshape_dim(1, (3, 3))),
        ("NKI-BROADCAST", lambda t: t.broadcast(1, 2)),
        ("NKI-SQUEEZE", lambda t: t.squeeze_dim(1)),
        ("NKI-DIM", lambda t: t.select(4, 0)),
        ("NKI-PERMUTE", lambda t: t.permute((0, 0))),
        ("NKI-AP", lambda t: t.ap(pattern=[[128, 8], [1, 64]])),
        ("NKI-AP", lambda t: t.ap(pattern=[[64, 0], [1, 64]])),
        ("NKI-AP-BOUNDS", lambda t: t.ap(pattern=[[64, 128], [1, 65]]).access),
        ("NKI-AP-BOUNDS", lambda t: t.ap(pattern=[[64, 1], [-1, 2]]).access),
        ("NKI-TARGET", lambda t: t.indirect(nl.ndarray((128, 1), nl.uint16))),
        ("NKI-VECTOR-OFFSET", lambda t: t.vector_select(0, nl.ndarray((128, 1), nl.int32))),
    ],
)
def test_a_wrong_view_is_refused_at_the_users_line(code, make):
    with tracing():
        tile = nl.ndarray((128, 64), nl.float32)
        with refused(code, "(128, 64)"):
            make(tile)


def test_an_index_may_be_empty_but_no_instruction_takes_what_it_gives():
    with tracing():
        tile = nl.ndarray((128, 64), nl.float32)
        for empty in (tile[:, 64:64], tile[:, nl.ds(0, 0)], tile[3:3]):
            assert 0 in empty.shape
            with refused("NKI-EMPTY", "no elements"):
                nisa.memset(empty, 0.0)
        row = hbm(16)[nl.ds(0, 0)]
        assert row.shape == (0,)
        with refused("NKI-EMPTY", "src"):
            nisa.dma_copy(dst=tile[0, 0:16], src=row)


# -- runtime indices --------------------------------------------------------------------------


def test_a_register_index_becomes_a_scalar_offset():
    with tracing():
        t = hbm(4, 128, 512)
        register = nisa.register_alloc(3)
        access = t[register].access
        assert (access.scalar_offset, access.indirect_dim) == (register.register, 0)
        assert access.shape == (128, 512) and access.index_step == 128 * 512
        access = t[0, nl.ds(register, 8), :].access
        assert access.shape == (8, 512) and access.index_step == 512
        assert t[register].is_indirect() and not t.is_indirect()


@pytest.mark.parametrize("count", [0, -1, 513])
def test_a_run_from_a_register_has_at_least_one_element_and_fits(count):
    with tracing(), refused("NKI-INDEX", f"nl.ds of {count} elements"):
        hbm(128, 512)[0, nl.ds(nisa.register_alloc(), count)]


def test_a_tile_index_becomes_a_scalar_offset():
    with tracing():
        index = nl.ndarray((1, 1), nl.int32)
        access = hbm(4, 128, 512).select(0, index).access
        assert isinstance(access.scalar_offset, Access) and access.shape == (128, 512)
        with refused("NKI-SCALAR-OFFSET"):
            hbm(4, 128).select(0, nl.ndarray((2, 1), nl.int32))
        with refused("NKI-SCALAR-OFFSET"):
            hbm(4, 128).select(0, nl.ndarray((1, 1), nl.float32))


def test_two_register_indices_are_combined_by_register_arithmetic():
    with tracing() as builder:
        i, j = nisa.register_alloc(1), nisa.register_alloc(2)
        access = hbm(4, 128, 512)[i, nl.ds(j, 16), :].access
        assert isinstance(access.scalar_offset, Register) and access.index_step == 1
        assert [s.op for s in builder.body].count("register_alu") == 3


def test_the_step_of_an_index_over_a_reshaped_tensor():
    with tracing():
        rows = nl.ndarray((64, 1), nl.int32)
        tensor = hbm(8, 16, 32)
        flat = tensor.reshape((128, 32)).ap([[32, 64], [1, 32]], vector_offset=rows)
        assert flat.access.index_step == 32 and flat.access.indirect_dim in (0, 1)
        odd = tensor.reshape((64, 64)).ap([[64, 64], [1, 64]], vector_offset=rows)
        assert odd.access.index_step == 64


def test_gathers_by_vector():
    with tracing():
        offsets = nl.ndarray((64, 1), nl.int32)
        view = hbm(200, 512).vector_select(0, offsets)
        assert view.shape == (64, 512) and view.access.vector_offset == offsets.access
        with refused("NKI-INDIRECT"):
            view[0:8, :]
        assert view[:, 0:8].shape == (64, 8)
        with refused("NKI-INDIRECT"):
            view.vector_select(0, offsets)


def test_tensor_indirection_on_trn3():
    with tracing("trn3"):
        tile = nl.ndarray((128, 64), nl.float32)
        index = nl.ndarray((128, 4), nl.uint16)
        view = tile.indirect(index, 32)
        assert view.shape == (128, 32) and view.access.indirect_dim == 1
        assert view.access.vector_offset == index.access


def test_an_index_tile_has_an_offset_for_each_column_of_its_groups():
    with tracing("trn3"):
        for rows, columns, op, maximum in ((16, 2, "copy", 32), (128, 4, "copy", 64), (24, 2, "copy", 16),
                                        (32, 2, "matmul", 64), (128, 1, "matmul", 32)):  # fmt: skip
            tile = nl.ndarray((rows, 128), nl.bfloat16)
            index = nl.ndarray((rows, columns), nl.uint16)

            def issue(count, tile=tile, index=index, op=op, rows=rows):
                view = tile.indirect(index, count)
                if op == "copy":
                    nisa.tensor_copy(nl.ndarray((rows, count), nl.bfloat16), view)
                else:
                    product = nl.ndarray((count, 128), nl.float32, nl.psum)
                    nisa.nc_matmul(product, view, tile)

            issue(maximum)
            if maximum < index.size:
                with refused("NKI-INDIRECT") as caught:
                    issue(maximum + 1)
                assert f"num_elem={maximum} at most" in str(caught.value)


@pytest.mark.parametrize(
    ("rows", "columns", "has_count"), [(16, 3, False), (64, 8, True), (128, 4, True)]
)
def test_columns_are_gathered_in_snake_order_with_and_without_a_count(
    rows, columns, has_count, monkeypatch
):
    """Without a count, each of a single group's offsets is taken: published kernels write both."""
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn3")
    number = 16 * columns

    @jit
    def gather(index, data):
        out = nl.ndarray((rows, number), data.dtype, nl.shared_hbm)
        tile, offsets = nl.load(data), nl.load(index)
        gathered = tile.indirect(offsets, num_elem=number) if has_count else tile.indirect(offsets)
        tile_result = nl.ndarray((rows, number), data.dtype)
        nisa.tensor_copy(tile_result, gathered, engine=nisa.engine.vector)
        nl.store(out, value=tile_result)
        return out

    random = np.random.default_rng(777)
    expected = random.integers(0, 200, number).astype(np.uint16)
    index = np.tile(expected.reshape(columns, 16).T, (rows // 16, 1))
    data = random.standard_normal((rows, 200)).astype(np.float32)
    for run in (simulate(gather), gather):
        assert np.array_equal(np.asarray(run(index, data)), data[:, expected])


def test_a_pattern_with_an_integer_as_scalar_offset_and_a_second_index():
    with tracing():
        t = hbm(4, 128)
        assert t.ap([[1, 128]], scalar_offset=2).offset == 256
        with refused("NKI-AP-BOUNDS"):
            t.ap([[1, 128]], scalar_offset=4).access
        register = nisa.register_alloc(1)
        dynamic = t.ap([[1, 128]], scalar_offset=register)
        assert not dynamic.ap([[1, 128]]).is_indirect()
        with refused("NKI-INDIRECT"):
            dynamic.ap([[1, 128]], scalar_offset=register)
        with refused("NKI-AP"):
            t.ap([[1, 128]], scalar_offset=register, vector_offset=nl.ndarray((1, 1), nl.int32))


def test_a_dynamic_partition_index_is_refused():
    with tracing():
        register = nisa.register_alloc(0)
        with refused("NKI-PARTITION-DIM"):
            nl.ndarray((128, 64), nl.float32)[nl.ds(register, 8), :]


def test_views_print_readably():
    with tracing():
        t = nl.ndarray((128, 64), nl.bfloat16, name="weights")
        assert repr(t) == "NkiTensor(weights: bfloat16[128, 64] in sbuf)"
        assert "strides" in repr(t[:, ::2]) and "at 8" in repr(t[:, 8:9])


def test_views_reach_instructions():
    def kernel(x):
        out = nl.ndarray((64, 32), x.dtype, nl.shared_hbm)
        tile = nl.load(x)
        nl.store(out, tile[0:64, 8:40])
        return out

    traced = trace(kernel, TensorSpec((128, 64), nl.float32))
    copy = list(traced.instructions())[-1]
    assert copy.operands["src"].pattern == ((64, 64), (1, 32))
    assert spec(2, 3).shape == (2, 3)


def test_a_pattern_may_walk_a_block_of_columns_as_a_tile_of_its_own():
    with tracing():
        tile = nl.ndarray((8, 24), nl.float32)
        block = tile[:, 8:16]
        where = positions(8, 24)[:, 8:16]
        assert np.array_equal(elements(block.ap([[8, 8], [1, 8]])), where)
        assert np.array_equal(elements(block.ap([[8, 8], [2, 4]], offset=1)), where[:, 1::2])
        assert np.array_equal(elements(block.ap([[8, 4], [1, 8]], offset=16)), where[2:6])
        assert np.array_equal(elements(block.ap([[24, 8], [1, 8]])), where)  # the storage's own
        with refused("NKI-AP", "24, not 4"):
            block[:, ::2].ap([[4, 8], [1, 4]])
        with refused("NKI-AP", "24, not 16"):
            block.ap([[16, 4], [1, 8]])


def test_a_pattern_that_leaves_the_storage_is_refused_where_it_is_used():
    """Published kernels make such patterns and use them only under an if."""
    with tracing():
        tile = nl.ndarray((128, 64), nl.float32)
        outside = tile.ap(pattern=[[64, 128], [1, 65]])
        assert outside.shape == (128, 65)
        assert "65" in repr(outside)
        good = nl.ndarray((128, 65), nl.float32)
        for use in (
            lambda: nisa.tensor_copy(dst=good, src=outside),
            lambda: nisa.memset(dst=outside, value=0),
            lambda: nisa.tensor_copy(dst=good[:, 0:1], src=outside[:, 0:1]),
            lambda: nisa.nc_matmul(
                nl.ndarray((65, 65), nl.float32, nl.psum), stationary=outside, moving=good
            ),
        ):
            with refused("NKI-AP-BOUNDS", "reaches elements 0 to 8192"):
                use()
