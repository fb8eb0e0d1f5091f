"""Uninitialised memory that reaches a result is reported, and only that."""

import numpy as np
import pytest

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.base.errors import NkiExecutionError
from nki_lang.execute import load
from nki_lang.ir import Access, Register
from nki_lang.kernel import jit, simulate
from tests.execute.handmade import full, instruction, kernel, part, tensor

Z = tensor("z", (4, 8), buffer="hbm")


def run(body, z=Z):
    return load(kernel([], [z], body), check=True).run([])[0]


def refused(body, z=Z):
    with pytest.raises(NkiExecutionError) as caught:
        run(body, z)
    assert caught.value.code == "NKI-UNINITIALISED"
    return caught.value


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8", "float8_e4m3"])
def test_a_read_before_a_write_names_tensor_index_and_line(dtype):
    t = tensor("tile", (4, 8), dtype)
    z = tensor("z", (4, 8), dtype, "hbm")
    body = [
        instruction("memset", dst=part(t, slice(0, 4), slice(0, 5)), value=1),
        instruction("dma_copy", line=17, dst=full(z), src=full(t)),
    ]
    error = refused(body, z)
    assert "element [0, 5]" in error.message
    assert "'tile'" in error.message
    assert error.location.line == 17


def test_complete_writes_in_pieces_are_fine():
    t = tensor("t", (4, 8))
    body = [
        instruction("memset", dst=part(t, slice(0, 4), slice(0, 5)), value=1),
        instruction("memset", dst=part(t, slice(0, 4), slice(5, 8)), value=2),
        instruction("dma_copy", dst=full(Z), src=full(t)),
    ]
    assert run(body).sum() == 4 * 5 + 4 * 3 * 2


def test_unused_parts_may_be_uninitialised():
    t, u = tensor("t", (4, 8)), tensor("u", (4, 8))
    z = tensor("z", (4, 4), buffer="hbm")
    half = (slice(0, 4), slice(0, 4))
    body = [
        instruction("memset", dst=part(t, *half), value=1),
        instruction("tensor_scalar", dst=full(u), data=full(t), op0="add", operand0=1.0),
        instruction("dma_copy", dst=full(z), src=part(u, *half)),
    ]
    assert (run(body, z) == 2).all()


def test_marks_travel_through_arithmetic_moves_and_products():
    t, u, v = tensor("t", (8, 4)), tensor("u", (4, 8)), tensor("v", (8, 8), buffer="psum")
    z = tensor("z", (8, 8), buffer="hbm")
    body = [
        instruction("memset", dst=part(t, slice(0, 8), slice(0, 3)), value=1),
        instruction("nc_transpose", line=5, dst=full(u), data=full(t)),
        instruction("nc_matmul", dst=full(v), stationary=full(u), moving=full(u)),
        instruction("dma_copy", dst=full(z), src=full(v)),
    ]
    error = refused(body, z)
    assert error.location.line == 5
    assert "nc_transpose" in error.message


def test_overwritten_marks_are_gone():
    t, u = tensor("t", (4, 8)), tensor("u", (4, 8))
    body = [
        instruction("tensor_copy", dst=full(u), src=full(t)),
        instruction("memset", dst=full(u), value=3),
        instruction("dma_copy", dst=full(Z), src=full(u)),
    ]
    assert (run(body) == 3).all()


def test_addresses_and_registers_may_not_come_from_nowhere():
    i = tensor("i", (1, 1), "int32")
    x = tensor("x", (4, 8), buffer="private")
    moved = Access(x, 0, ((8, 4), (1, 8)), scalar_offset=full(i))
    assert "an address" in refused([instruction("dma_copy", dst=full(Z), src=moved)]).message
    body = [instruction("register_load", dst=Register("r"), src=full(i))]
    assert "a register" in refused(body).message


def test_accumulating_into_nothing():
    a, p = tensor("a", (4, 4)), tensor("p", (4, 4), buffer="psum")
    z = tensor("z", (4, 4), buffer="hbm")
    body = [
        instruction("memset", dst=full(a), value=1),
        instruction(
            "nc_matmul", line=9, dst=full(p), stationary=full(a), moving=full(a), accumulate=True
        ),
        instruction("dma_copy", dst=full(z), src=full(p)),
    ]
    assert refused(body, z).location.line == 9


def test_placed_tensors_share_their_marks():
    a = tensor("a", (4, 8), address=(0, 0))
    b = tensor("b", (4, 8), address=(0, 0))
    body = [
        instruction("memset", dst=full(a), value=1),
        instruction("dma_copy", dst=full(Z), src=full(b)),
    ]
    assert (run(body) == 1).all()


def test_inputs_are_initialised():
    x = tensor("x", (4, 8), buffer="hbm")
    body = [instruction("dma_copy", dst=full(Z), src=full(x))]
    array = np.full((4, 8), np.nan, np.float32)
    assert np.isnan(load(kernel([x], [Z], body), check=True).run([array])[0]).all()


def test_skipped_rows_keep_their_marks():
    x, i = tensor("x", (4, 8), buffer="hbm"), tensor("i", (4, 1), "int32")
    index, tile = tensor("index", (4, 1), "int32", "hbm"), tensor("tile", (4, 8))
    rows = Access(x, 0, ((8, 4), (1, 8)), vector_offset=full(i))
    body = [
        instruction("dma_copy", dst=full(i), src=full(index)),
        instruction("dma_copy", dst=full(tile), src=rows, oob_mode="skip"),
        instruction("dma_copy", line=4, dst=full(Z), src=full(tile)),
    ]
    loaded = load(kernel([x, index], [Z], body), check=True)
    array = np.ones((4, 8), np.float32)
    good = np.array([[0], [1], [2], [3]], np.int32)
    assert (loaded.run([array, good])[0] == 1).all()
    with pytest.raises(NkiExecutionError, match=r"kernel.py:4.*element \[2, 0\]"):
        loaded.run([array, np.array([[0], [1], [7], [3]], np.int32)])


def test_padding_that_looks_like_fresh_memory_counts_as_written():
    """nonzero_with_count writes -1, whose bytes are those of memory that nobody wrote."""
    t, u = tensor("t", (16, 4)), tensor("u", (16, 5), "int32")
    z = tensor("z", (1, 5), "int32", "hbm")
    body = [
        instruction("memset", dst=full(t), value=0),
        instruction("nonzero_with_count", dst=full(u), src=full(t), index_offset=0, padding_val=-1),
        instruction("dma_copy", dst=full(z), src=part(u, slice(0, 1), slice(0, 5))),
    ]
    assert run(body, z).tolist() == [[-1, -1, -1, -1, 0]]
    second_row = part(u, slice(1, 2), slice(0, 5))
    assert (
        "'u'"
        in refused([*body[:2], instruction("dma_copy", dst=full(z), src=second_row)], z).message
    )


def test_a_shuffle_moves_the_marks_and_keeps_the_rest():
    t = tensor("t", (32, 2))
    z = tensor("z", (2, 2), buffer="hbm")
    mask = (5, *[255] * 31)
    body = [
        instruction("memset", dst=part(t, slice(5, 6), slice(0, 2)), value=3),
        instruction("nc_stream_shuffle", dst=full(t), src=full(t), shuffle_mask=mask),
    ]
    good = instruction("dma_copy", dst=full(z), src=part(t, slice(0, 6, 5), slice(0, 2)))
    assert (run([*body, good], z) == 3).all()
    bad = instruction("dma_copy", line=8, dst=full(z), src=part(t, slice(0, 2), slice(0, 2)))
    assert "result 'z', element [1, 0]" in refused([*body, bad], z).message


def test_a_result_that_is_written_in_part_is_told():
    @jit
    def half(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out[0:2], nl.load(a[0:2]))
        return out

    run = simulate(half)
    with pytest.warns(
        UserWarning, match=r"20 of the 30 elements of the result .*first is \[2, 0\]"
    ):
        run(np.ones((6, 5), np.float32))
    (finding,) = run.report
    assert (finding.code, finding.details["unwritten"]) == ("NKI-UNWRITTEN", 20)


@jit
def halves_exchanged(x, rows, read):
    me = nl.program_id(0)
    out = nl.ndarray((4, 8), nl.uint8, nl.shared_hbm)
    tile = nl.ndarray((32, 8), nl.uint8, nl.sbuf)
    own_half, peer_half = nl.ds(me * 4, 4), nl.ds((1 - me) * 4, 4)
    nisa.dma_copy(tile[0:rows, own_half], x[0:rows, own_half])
    nisa.sendrecv(
        src=tile[0:32, own_half], dst=tile[0:32, peer_half],
        send_to_rank=1 - me, recv_from_rank=1 - me, pipe_id=0,
    )  # fmt: skip
    nisa.dma_copy(out[0:read, peer_half], tile[0:read, peer_half])
    if read < 4:
        nisa.dma_copy(out[read:4, peer_half], x[read:4, peer_half])
    return out


def test_what_another_core_sends_brings_its_own_marks():
    x = np.arange(32, dtype=np.uint8).reshape(4, 8)
    np.testing.assert_array_equal(simulate(halves_exchanged[2])(x, 4, 4), x)
    np.testing.assert_array_equal(simulate(halves_exchanged[2])(x, 3, 3), x)
    with pytest.raises(NkiExecutionError, match="sendrecv reads element") as caught:
        simulate(halves_exchanged[2])(x, 3, 4)
    assert caught.value.code == "NKI-UNINITIALISED"


@jit
def gathered(x, columns):
    out = nl.ndarray((4, columns), nl.uint8, nl.shared_hbm)
    tile = nl.ndarray((4, 16), nl.uint8, nl.sbuf)
    locations = nl.ndarray((4, 8), nl.uint32, nl.sbuf)
    moved = nl.ndarray((4, 8), nl.uint8, nl.sbuf)
    nisa.dma_copy(tile[0:4, 0:8], x)
    nisa.iota(locations, [[2, 8]])  # 0, 2, ..., 14: the last four are beyond what was written
    nisa.nc_n_gather(moved, tile, locations)
    nisa.dma_copy(out, moved[0:4, 0:columns])
    return out


def test_a_gather_brings_the_marks_of_what_it_takes():
    x = np.arange(32, dtype=np.uint8).reshape(4, 8)
    np.testing.assert_array_equal(simulate(gathered)(x, 4), x[:, ::2])
    with pytest.raises(NkiExecutionError, match="nc_n_gather reads element"):
        simulate(gathered)(x, 5)


def test_marks_of_all_tensors_of_a_list_are_kept():
    first, second, total = (tensor(name, (4, 8), "int32", "hbm") for name in ("one", "other", "z"))
    half = (slice(0, 4), slice(0, 4))
    body = [
        instruction("memset", dst=part(first, *half), value=1),
        instruction("memset", dst=full(second), value=1),
        instruction("memset", dst=part(second, *half), value=2),
        instruction("dma_compute", dst=full(total), srcs=(full(first), full(second)),
                    reduce_op="add", scales=None),
    ]  # fmt: skip
    assert "element [0, 4]" in refused(body, total).message


@jit
def integers_as_floats(x):
    out = nl.ndarray(x.shape, nl.bfloat16, nl.shared_hbm)
    tile, dst = (nl.ndarray(x.shape, nl.bfloat16, nl.sbuf) for _ in range(2))
    nisa.memset(tile[:, 0:1], 1)
    nisa.tensor_copy(dst, tile.view(nl.uint16))  # all bits set: 65,535, which is no NaN
    nisa.tensor_scalar(dst, dst, nl.add, 1.0)
    nisa.dma_copy(out, dst)
    return out


def test_fresh_integers_that_become_floats_are_from_nowhere_too():
    x = np.zeros((2, 4), np.float32)
    with pytest.raises(NkiExecutionError, match=r"NKI-UNINITIALISED.*tensor_copy reads"):
        simulate(integers_as_floats)(x)
    with pytest.raises(NkiExecutionError, match=r"NKI-UNINITIALISED.*tensor_copy reads"):
        load(integers_as_floats.trace((x,)), check=True).run([x])


@jit
def chosen(x, columns, dtype, predicated):
    out = nl.ndarray(x.shape, dtype, nl.shared_hbm)
    tile, dst = (nl.ndarray(x.shape, dtype, nl.sbuf) for _ in range(2))
    mask = nl.ndarray(x.shape, nl.uint8, nl.sbuf)
    nisa.dma_copy(tile[:, 0:columns], x[:, 0:columns])
    nisa.memset(dst, 7)
    if predicated:
        nisa.memset(mask, 0)
        nisa.memset(mask[:, 0:4], 1)
        nisa.tensor_copy_predicated(dst, tile, mask)
    else:  # 3 - column is not negative
        nisa.affine_select(dst, [[-1, 8]], 0, tile, 7.0, nl.greater_equal, offset=3)
    nisa.dma_copy(out, dst)
    return out


@pytest.mark.parametrize("predicated", [False, True])
@pytest.mark.parametrize("dtype", [nl.float32, nl.int32, nl.uint8])
def test_what_is_not_chosen_may_be_uninitialised(dtype, predicated):
    x = np.arange(16).reshape(2, 8).astype(dtype)
    expected = x.copy()
    expected[:, 4:] = 7
    np.testing.assert_array_equal(simulate(chosen)(x, 4, dtype, predicated), expected)
    with pytest.raises(NkiExecutionError, match="NKI-UNINITIALISED"):
        simulate(chosen)(x, 3, dtype, predicated)


@jit
def gathered_over_indices(x):
    out = nl.ndarray((4, 2), nl.uint32, nl.shared_hbm)
    tile = nl.ndarray((4, 8), nl.uint32, nl.sbuf)
    indices = nl.ndarray((4, 2), nl.uint32, nl.sbuf)
    nisa.dma_copy(tile[:, 0:4], x)
    nisa.memset(indices, 3)
    nisa.nc_n_gather(indices, tile, indices)
    nisa.dma_copy(out, indices)
    return out


def test_a_gather_may_overwrite_its_indices():
    x = np.arange(100, 116, dtype=np.uint32).reshape(4, 4)
    np.testing.assert_array_equal(simulate(gathered_over_indices)(x), x[:, [3, 3]])


@jit
def squared(x, columns):
    out = nl.ndarray((4, 4), nl.int32, nl.shared_hbm)
    tile = nl.ndarray((4, 8), nl.float32, nl.sbuf)
    dst = nl.ndarray((4, 8), nl.int32, nl.sbuf)
    total = nl.ndarray((4, 1), nl.float32, nl.sbuf)
    nisa.dma_copy(tile[:, 0:columns], x[:, 0:columns])
    nisa.activation_reduce(dst, nl.square, tile, nl.add, total)
    nisa.dma_copy(out, dst[:, 0:4])
    return out


def test_an_activation_hands_on_marks_element_by_element():
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    np.testing.assert_array_equal(simulate(squared)(x, 4), x[:, 0:4] ** 2)
    with pytest.raises(NkiExecutionError, match="NKI-UNINITIALISED"):
        simulate(squared)(x, 3)


def _reduced(tile, dst):
    nisa.tensor_reduce(dst[:, 0:2], nl.add, tile.reshape_dim(1, (2, 4)), axis=2)


def _reduced_across(tile, dst):
    nisa.tensor_partition_reduce(dst[0:1, :], nl.add, tile)


def _scanned(tile, dst):
    nisa.tensor_tensor_scan(dst, tile, tile, 1.0, nl.multiply, nl.add)


@jit
def in_part(x, filled, compute):
    out = nl.ndarray((1, 1), nl.int32, nl.shared_hbm)
    tile = nl.ndarray((4, 8), nl.int32, nl.sbuf)
    dst = nl.ndarray((4, 8), nl.int32, nl.sbuf)
    nisa.dma_copy(tile[:, filled], x[:, filled])
    compute(tile, dst)
    nisa.dma_copy(out, dst[0:1, 0:1])
    return out


@pytest.mark.parametrize("compute", [_reduced, _reduced_across, _scanned])
def test_a_reduction_marks_what_it_computes_from_marked_elements_and_no_more(compute):
    x = np.ones((4, 8), np.int32)
    expected = {_scanned: 2}.get(compute, 4)
    assert simulate(in_part)(x, slice(0, 4), compute) == expected
    with pytest.raises(NkiExecutionError, match="NKI-UNINITIALISED"):
        simulate(in_part)(x, slice(7, 8), compute)
