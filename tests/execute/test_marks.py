"""Marks of unwritten elements go where the values go: behind comparisons, scatters and collectives."""

import numpy as np
import pytest

import nki_lang.collectives as ncc
import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.base.errors import NkiExecutionError
from nki_lang.execute import simulate_ranks
from nki_lang.kernel import jit, simulate

X = np.arange(32, dtype=np.float32).reshape(4, 8)
LEFT, ALL = slice(0, 4), slice(0, 8)


def of(step, dtype=nl.float32, result=nl.float32, columns=ALL):
    """A kernel whose tile has four of eight columns; ``step`` makes the result from it."""

    @jit
    def kernel(x):
        tile, dst = nl.ndarray((4, 8), dtype, nl.sbuf), nl.ndarray((4, 8), result, nl.sbuf)
        nisa.dma_copy(tile[:, LEFT], x[:, LEFT])
        step(dst, tile)
        shown = dst[:, columns]
        out = nl.ndarray(shown.shape, result, nl.shared_hbm)
        nisa.dma_copy(out, shown)
        return out

    return simulate(kernel)


def refused(call, *args):
    with pytest.raises(NkiExecutionError) as caught:
        call(*args)
    assert caught.value.code == "NKI-UNINITIALISED"


NUMBERS_OF_NAN = [
    ("greater", 0.0),
    ("greater_equal", 0.0),
    ("less", 0.0),
    ("less_equal", 0.0),
    ("equal", 0.0),
    ("not_equal", 0.0),
    ("logical_and", 1.0),
    ("logical_or", 0.0),
    ("power", 0.0),
]


@pytest.mark.parametrize(("name", "number"), NUMBERS_OF_NAN)
def test_numbers_made_of_nothing_are_from_nowhere(name, number):
    def step(dst, tile):
        nisa.tensor_scalar(dst, tile, getattr(nl, name), number)

    refused(of(step), X)
    of(step, columns=LEFT)(X)

    def later(dst, tile):
        step(dst, tile)
        nisa.tensor_scalar(dst, dst, nl.add, 1.0)

    refused(of(later), X)


@pytest.mark.parametrize("op", [nl.maximum, nl.abs_max, nl.add])
def test_two_tiles(op):
    refused(of(lambda dst, tile: nisa.tensor_tensor(dst, tile, tile, op)), X)


def by_affine_select(dst, tile):
    nisa.affine_select(
        dst, pattern=[[-1, 8]], offset=3, channel_multiplier=0, cmp_op=nl.greater_equal,
        on_true_tile=tile, on_false_value=0.0,
    )  # fmt: skip


def _left():
    chosen = nl.ndarray((4, 8), nl.uint8, nl.sbuf)
    nisa.memset(chosen, 0)
    nisa.memset(chosen[:, LEFT], 1)
    return chosen


def by_predicate(dst, tile):
    nisa.memset(dst, 0.0)
    nisa.tensor_copy_predicated(src=tile, dst=dst, predicate=_left())


def by_select_reduce(dst, tile):
    nisa.select_reduce(dst=dst, predicate=_left(), on_true=tile, on_false=0.0)


def by_range_select(dst, tile):
    low, high = (nl.ndarray((4, 1), nl.float32, nl.sbuf) for _ in range(2))
    nisa.memset(low, 0.0)
    nisa.memset(high, 4.0)
    nisa.range_select(
        dst=dst, on_true_tile=tile, comp_op0=nl.greater_equal, comp_op1=nl.less,
        bound0=low, bound1=high, range_start=0,
    )  # fmt: skip


@pytest.mark.parametrize(
    "select", [by_affine_select, by_predicate, by_select_reduce, by_range_select]
)
@pytest.mark.parametrize("compared", [False, True])
def test_what_a_selection_leaves_out_is_not_from_nowhere(select, compared):
    def step(dst, tile):
        if compared:
            nisa.tensor_scalar(tile, tile, nl.greater, -1.0)
        select(dst, tile)

    result = of(step)(X)
    np.testing.assert_array_equal(result[:, LEFT], 1 if compared else X[:, LEFT])


@pytest.mark.parametrize("op", [nl.multiply, nl.logical_and])
def test_zeros_that_were_written_absorb_numbers(op):
    def step(dst, tile, compared):
        mask = nl.ndarray((4, 8), nl.float32, nl.sbuf)
        nisa.memset(mask, 0.0)
        nisa.memset(mask[:, LEFT], 1.0)
        if compared:
            nisa.tensor_scalar(tile, tile, nl.greater, -1.0)
        nisa.tensor_tensor(dst, tile, mask, op)

    result = of(lambda dst, tile: step(dst, tile, True))(X)
    np.testing.assert_array_equal(result, [[1, 1, 1, 1, 0, 0, 0, 0]] * 4)
    refused(of(lambda dst, tile: step(dst, tile, False)), X)


def test_bounds_of_a_selection_from_nowhere():
    def step(dst, tile):
        full, low = nl.ndarray((4, 8), nl.float32, nl.sbuf), nl.ndarray((4, 1), nl.float32, nl.sbuf)
        nisa.memset(full, 1.0)
        nisa.memset(low[0:2], 0.0)
        nisa.range_select(
            dst=dst, on_true_tile=full, comp_op0=nl.greater_equal, comp_op1=nl.less,
            bound0=low, bound1=full[:, 0:1], range_start=0,
        )  # fmt: skip

    refused(of(step), X)


def test_a_maximum_of_the_selected_elements():
    def step(dst, tile):
        nisa.tensor_scalar(tile, tile, nl.greater, -1.0)
        maximum = nl.ndarray((4, 1), nl.float32, nl.sbuf)
        nisa.select_reduce(
            dst=dst, predicate=_left(), on_true=tile, on_false=0.0, reduce_res=maximum,
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )  # fmt: skip
        nisa.tensor_scalar(dst, dst, nl.multiply, maximum)

    assert of(step)(X)[:, LEFT].all()


@pytest.mark.parametrize(
    ("dtype", "result"), [(nl.uint8, nl.float32), (nl.int32, nl.float32), (nl.float32, nl.uint8)]
)
def test_an_activation_is_element_by_element(dtype, result):
    x = X.astype({nl.uint8: np.uint8, nl.int32: np.int32}.get(dtype, np.float32))

    def step(dst, tile):
        nisa.activation(dst, nl.copy, tile)

    np.testing.assert_array_equal(of(step, dtype, result, LEFT)(x), X[:, LEFT])
    refused(of(step, dtype, result), x)


@pytest.mark.parametrize("dtype", [nl.int32, nl.float32])
def test_a_scan_depends_on_what_is_before(dtype):
    x = X.astype(np.int32 if dtype is nl.int32 else np.float32)

    def step(dst, tile):
        nisa.tensor_tensor_scan(dst, tile, tile, 0.0, nl.multiply, nl.add)

    of(step, dtype, dtype, LEFT)(x)
    refused(of(step, dtype, dtype, slice(3, 5)), x)


def test_a_reduction_of_some_axes_of_integers():
    def step(dst, tile):
        sums = nl.ndarray((4, 2), nl.int32, nl.sbuf)
        nisa.tensor_reduce(sums, nl.add, tile.reshape((4, 2, 4)), axis=2)
        nisa.tensor_copy(dst[:, 0:2], sums)

    x = X.astype(np.int32)
    total = of(step, nl.int32, nl.int32, slice(0, 1))(x)
    np.testing.assert_array_equal(total[:, 0], x[:, LEFT].sum(axis=1))
    refused(of(step, nl.int32, nl.int32, slice(0, 2)), x)


@jit
def scattered(x, columns):
    tile, locations = nl.ndarray((4, 8), nl.uint8, nl.sbuf), nl.ndarray((4, 1), nl.int32, nl.sbuf)
    nisa.dma_copy(tile[:, 0:4], x[:, 0:4])
    nisa.iota(locations, [[0, 1]], offset=3, channel_multiplier=-1)
    rows = nl.ndarray((4, 8), nl.uint8, nl.hbm)
    nisa.dma_copy(rows.ap([[8, 4], [1, 8]], vector_offset=locations), tile)
    out = nl.ndarray((4, columns), nl.uint8, nl.shared_hbm)
    nisa.dma_copy(out, rows[:, 0:columns])
    return out


def test_a_scatter_carries_the_marks_of_its_rows():
    x = X.astype(np.uint8)
    np.testing.assert_array_equal(simulate(scattered)(x, 4), x[::-1, :4])
    refused(simulate(scattered), x, 5)


def gathered(tile, group, dtype):
    output = nl.ndarray((8, 8), dtype, nl.shared_hbm)
    ncc.all_gather(srcs=[tile], dsts=[output], replica_group=group, collective_dim=0)
    return output


def reduced(tile, group, dtype):
    output = nl.ndarray((4, 8), dtype, nl.shared_hbm)
    ncc.all_reduce(srcs=[tile], dsts=[output], replica_group=group, op=nl.add)
    return output


def permuted(tile, group, dtype):
    output = nl.ndarray((4, 8), dtype, nl.shared_hbm)
    pairs = [[0, 1], [1, 0]]
    ncc.collective_permute(srcs=[tile], dsts=[output], source_target_pairs=pairs)
    return output


def exchanged(tile, group, dtype):
    output = nl.ndarray((4, 8), dtype, nl.shared_hbm)
    ncc.all_to_all(srcs=[tile], dsts=[output], replica_group=group, collective_dim=0)
    return output


def ranks_of(collective, dtype, written, first, last):
    """Rank ``n`` writes ``written[n]`` rows, and reads rows ``first`` to ``last`` of what it gets."""

    @jit
    def kernel(x, group, rows):
        out = nl.ndarray((last - first, 8), dtype, nl.shared_hbm)
        tile = nl.ndarray((4, 8), dtype, nl.shared_hbm)
        nisa.dma_copy(tile[0:rows], x[0:rows])
        nisa.dma_copy(out, collective(tile, group, dtype)[first:last])
        return out

    x = X.astype(np.uint8 if dtype is nl.uint8 else np.float32)
    group = ncc.ReplicaGroup([[0, 1]])
    calls = [{"x": x + 40 * n, "group": group, "rows": rows} for n, rows in enumerate(written)]
    return x, lambda: simulate_ranks(kernel, calls)


@pytest.mark.parametrize("dtype", [nl.uint8, nl.float32])
@pytest.mark.parametrize(
    ("collective", "written", "good", "bad"),
    [
        (gathered, (2, 2), (0, 2), (0, 3)),
        (gathered, (2, 2), (4, 6), (6, 8)),
        (gathered, (4, 2), (0, 6), (5, 7)),
        (reduced, (2, 2), (0, 2), (0, 3)),
        (reduced, (4, 3), (0, 3), (2, 4)),
        (permuted, (2, 2), (0, 2), (2, 4)),
        (permuted, (4, 2), (0, 2), (2, 4)),
        (exchanged, (4, 3), (0, 2), (2, 4)),
    ],
)
def test_a_collective_hands_over_marks_as_it_does_values(dtype, collective, written, good, bad):
    x, call = ranks_of(collective, dtype, written, *good)
    results = [np.asarray(array) for array in call()]
    if collective is gathered:
        joined = np.concatenate([x, x + 40])[slice(*good)]
        np.testing.assert_array_equal(results, [joined, joined])
    refused(ranks_of(collective, dtype, written, *bad)[1])


def test_a_rank_that_nobody_sends_to_keeps_its_marks():
    @jit
    def kernel(x, last):
        out = nl.ndarray((last, 8), nl.uint8, nl.shared_hbm)
        tile, dst = (nl.ndarray((4, 8), nl.uint8, nl.shared_hbm) for _ in range(2))
        nisa.dma_copy(tile, x)
        nisa.dma_copy(dst[0:2], x[0:2])
        ncc.collective_permute(srcs=[tile], dsts=[dst], source_target_pairs=[[0, 1]])
        nisa.dma_copy(out, dst[0:last])
        return out

    x = X.astype(np.uint8)
    for rank_results in simulate_ranks(kernel, [{"x": x, "last": 2}] * 2):
        np.testing.assert_array_equal(np.asarray(rank_results), x[:2])
    refused(lambda: simulate_ranks(kernel, [{"x": x, "last": 3}] * 2))
