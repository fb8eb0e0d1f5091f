"""Each check on a kernel that has the fault and on one that has not."""

import json

import ml_dtypes
import numpy as np
import pytest

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.base.errors import NkiExecutionError, NkiValidationError
from nki_lang.base.targets import target_of
from nki_lang.execute import simulate
from nki_lang.execute.checks import CHECKS, overlap
from nki_lang.kernel import jit

A = np.arange(1, 33, dtype=np.float32).reshape(4, 8)


def report(func, *arguments, checks="all", target="trn3"):
    run = simulate(func, checks=checks, target=target_of(target))
    run(*(np.array(a) if isinstance(a, np.ndarray) else a for a in arguments))
    return run.report


def clean(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.tensor_scalar(dst=x, data=x, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=x)
    return out


def test_nothing_is_found_in_a_clean_kernel():
    entries = report(clean, A)
    assert len(entries) == 0
    assert str(entries) == "nothing found"


def test_unknown_checks_are_refused():
    with pytest.raises(
        NkiValidationError, match=r"NKI-CHECK.*no check 'magic'.*\n.*overlap, races"
    ):
        simulate(clean, checks=["magic"])
    assert list(CHECKS) == [
        "overlap",
        "races",
        "accumulation",
        "finite",
        "unused",
        "capacity",
        "precision",
    ]


def test_the_instruction_that_first_makes_infinity():
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=x, src=a)
        nisa.tensor_scalar(dst=x, data=x, op0=nl.subtract, operand0=3.0)
        nisa.reciprocal(dst=x, data=x)
        nisa.tensor_scalar(dst=x, data=x, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out, src=x)
        return out

    (finding,) = report(kernel, A, checks="finite")
    assert finding.code == "NKI-NOT-FINITE"
    assert finding.details["op"] == "reciprocal"
    assert finding.details["index"] == [0, 2]
    assert finding.location.function == "kernel"
    data = json.loads(report(kernel, A, checks="finite").to_json())
    assert data[0]["line"] == finding.location.line


def test_values_that_nobody_reads():
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        lost = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=x, src=a)
        nisa.tensor_copy(dst=lost, src=x)
        nisa.dma_copy(dst=out, src=x)
        return out

    (finding,) = report(kernel, A, checks="unused")
    assert finding.details["op"] == "tensor_copy"
    assert "never read" in str(finding)


def overwritten(first, partly=False):
    """A tile is written, then overwritten before anybody reads it."""

    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        first(x, a)
        columns = slice(0, 7 if partly else 8)
        nisa.dma_copy(dst=x[:, columns], src=a[:, columns])
        nisa.dma_copy(dst=out, src=x)
        return out

    return kernel


def by_iota(x, a):
    nisa.iota(dst=x, pattern=[[1, 8]], offset=0)


def test_values_that_are_overwritten_before_anybody_reads_them():
    (finding,) = report(overwritten(by_iota), A, checks="unused")
    assert finding.details["op"] == "iota"
    assert len(report(overwritten(by_iota, partly=True), A, checks="unused")) == 0
    start = overwritten(lambda x, a: nisa.memset(dst=x, value=0))
    assert len(report(start, A, checks="unused")) == 0  # kept for shapes that fill it in part


def test_one_of_two_results_is_enough():
    def kernel(a):
        out = nl.ndarray((4, 1), dtype=a.dtype, buffer=nl.shared_hbm)
        x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        y = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        total = nl.ndarray((4, 1), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=x, src=a)
        nisa.activation_reduce(dst=y, op=nl.square, data=x, reduce_op=nl.add, reduce_res=total)
        nisa.dma_copy(dst=out, src=total)
        return out

    assert len(report(kernel, A, checks="unused")) == 0


def test_a_line_that_one_core_uses_is_used():
    @jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=x, src=a)
        if nl.program_id(0) == 0:
            nisa.dma_copy(dst=out, src=x)
        return out

    assert len(report(kernel[2], A, checks="unused")) == 0


def test_cheap_checks_warn_when_none_are_named():
    with pytest.warns(UserWarning, match=r"\[NKI-OVERLAP\] tensor_tensor reads") as caught:
        run = simulate(overlapping(16))
        run(A)
    assert [finding.code for finding in run.report] == ["NKI-OVERLAP"]
    assert caught[0].filename == __file__
    quiet = simulate(overlapping(16), checks=())
    quiet(A)
    assert len(quiet.report) == 0


def overlapping(second_offset):
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        x = nl.ndarray((4, 8), dtype=a.dtype, buffer=nl.sbuf, address=(0, 0))
        y = nl.ndarray((4, 8), dtype=a.dtype, buffer=nl.sbuf, address=(0, second_offset))
        nisa.dma_copy(dst=x, src=a)
        nisa.memset(dst=y, value=0)
        nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
        nisa.dma_copy(dst=out, src=x)
        return out

    return kernel


def test_fixed_addresses_that_overwrite_live_data():
    (finding,) = report(overlapping(16), A, checks="overlap")
    assert finding.code == "NKI-OVERLAP"
    assert finding.details["index"] == [0, 4]
    assert len(report(overlapping(32), A, checks="overlap")) == 0


def test_what_an_earlier_tensor_left_behind_is_not_overlap():
    """nki-library reads whole tiles of which it fills and uses a part (mlp_cte_transpose.py)."""

    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        x = nl.ndarray((4, 8), dtype=a.dtype, buffer=nl.sbuf, address=(0, 0))
        nisa.memset(dst=x, value=0)
        y = nl.ndarray((4, 8), dtype=a.dtype, buffer=nl.sbuf, address=(0, 0))
        nisa.dma_copy(dst=y[:, 0:7], src=a[:, 0:7])
        nisa.memset(dst=x[:, 7:8], value=1)
        nisa.dma_copy(dst=out, src=y)
        return out

    assert len(report(kernel, A, checks="overlap")) == 0


def test_neighbours_that_are_smaller_than_a_word_do_not_overlap():
    def kernel(a):
        out = nl.ndarray((4, 1), dtype=nl.bfloat16, buffer=nl.shared_hbm)
        x = nl.ndarray((4, 1), dtype=nl.bfloat16, buffer=nl.sbuf, address=(0, 0))
        y = nl.ndarray((4, 1), dtype=nl.bfloat16, buffer=nl.sbuf, address=(0, 2))
        nisa.dma_copy(dst=x, src=a[:, 0:1])
        nisa.memset(dst=y, value=0)
        nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
        nisa.dma_copy(dst=out, src=x)
        return out

    assert len(report(kernel, A, checks="overlap")) == 0


def test_reusing_an_address_afterwards_is_fine():
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        for row in range(4):
            x = nl.ndarray((1, 8), dtype=a.dtype, buffer=nl.sbuf, address=(0, 0))
            nisa.dma_copy(dst=x, src=a[row : row + 1, :])
            nisa.dma_copy(dst=out[row : row + 1, :], src=x)
        return out

    assert len(report(kernel, A, checks="overlap")) == 0


def accumulating(start):
    def kernel(a):
        out = nl.ndarray((8, 8), dtype=a.dtype, buffer=nl.shared_hbm)
        x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        total = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.psum)
        result = nl.ndarray((8, 8), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=x, src=a)
        if start == "memset":
            nisa.memset(dst=total, value=0)
        elif start == "product":
            nisa.nc_matmul(dst=total, stationary=x, moving=x, accumulate=False)
        nisa.nc_matmul(dst=total, stationary=x, moving=x, accumulate=True)
        nisa.tensor_copy(dst=result, src=total)
        nisa.dma_copy(dst=out, src=result)
        return out

    return kernel


def test_accumulation():
    with pytest.raises(NkiExecutionError, match="NKI-ACCUMULATION"):
        report(accumulating("nothing"), A)
    (finding,) = report(accumulating("memset"), A, checks="accumulation", target="trn2")
    assert finding.details["written_by"] == "memset"
    assert len(report(accumulating("memset"), A, checks="accumulation", target="trn3")) == 0
    assert len(report(accumulating("product"), A, checks="accumulation", target="trn2")) == 0


def test_inferred_accumulation_onto_zeros_is_fine():
    """nki-library starts so (conv/depthwise_conv1d.py): overwriting gives the same."""

    def kernel(a, value):
        out = nl.ndarray((8, 8), dtype=a.dtype, buffer=nl.shared_hbm)
        x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        total = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.psum)
        result = nl.ndarray((8, 8), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=x, src=a)
        nisa.memset(dst=total, value=value)
        nisa.nc_matmul(dst=total, stationary=x, moving=x)
        nisa.tensor_copy(dst=result, src=total)
        nisa.dma_copy(dst=out, src=result)
        return out

    for value, count in ((0.0, 0), (1.0, 1)):
        run = simulate(kernel, checks="accumulation", target=target_of("trn2"))
        run(A, value)
        assert len(run.report) == count


def holding(count, looks):
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tiles = [nl.ndarray((128, 12000), dtype=nl.float32, buffer=nl.sbuf) for _ in range(count)]
        for tile in tiles:
            nisa.memset(dst=tile, value=0)
        index = nisa.register_alloc(1)
        if looks and int(index) != 1:  # a trace stops here
            return out
        for tile in tiles:
            nisa.dma_copy(dst=out, src=tile[0:4, 0:8])
        return out

    return kernel


@pytest.mark.filterwarnings("ignore:.*was used as")
@pytest.mark.parametrize("looks", [False, True])
def test_tiles_that_do_not_fit_together(looks):
    (finding,) = report(holding(5, looks), A, checks="capacity", target="trn2")
    assert finding.code == "NKI-CAPACITY"
    assert finding.details["tiles"] == 5 and finding.details["limit"] == 212984
    assert [entry["first"] for entry in finding.details["largest"]] == [0, 1, 2, 3, 4]
    assert "48000 |######" in finding.message
    assert len(report(holding(4, looks), A, checks="capacity", target="trn2")) == 0


def reducing(function, command):
    def kernel(a):
        out = nl.ndarray((4, 1), dtype=a.dtype, buffer=nl.shared_hbm)
        x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        total = nl.ndarray((4, 1), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=x, src=a)
        function(x, None, command)
        function(x, total, nisa.reduce_cmd.reduce)
        nisa.dma_copy(dst=out, src=total)
        return out

    return kernel


def squares(x, total, command):
    nisa.activation(
        dst=x, op=nl.square, data=x, reduce_op=nl.add, reduce_res=total, reduce_cmd=command
    )


def exponentials(x, total, command):
    nisa.exponential(dst=x, src=x, max_value=40.0, reduce_res=total, reduce_cmd=command)


@pytest.mark.parametrize("function", [squares, exponentials])
def test_reductions_that_go_on_from_nothing(function):
    (finding,) = report(reducing(function, nisa.reduce_cmd.idle), A / 32, checks="accumulation")
    assert "which nothing in this kernel has started" in finding.message
    started = reducing(function, nisa.reduce_cmd.reset_reduce)
    assert len(report(started, A / 32, checks="accumulation")) == 0


def test_infinity_in_the_source_is_meant():
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        y = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        nisa.memset(dst=x, value=-np.inf)
        nisa.dma_copy(dst=y, src=a)
        nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.maximum)
        nisa.dma_copy(dst=out, src=x)
        return out

    assert len(report(kernel, A, checks="finite")) == 0


def test_what_an_instruction_loses_itself_and_what_it_was_given():
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        small = nl.ndarray(a.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
        x = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=x, src=a)
        nisa.tensor_scalar(dst=small, data=x, op0=nl.add, operand0=1000.0)
        nisa.tensor_scalar(dst=x, data=small, op0=nl.subtract, operand0=1000.0)
        nisa.dma_copy(dst=out, src=x)
        return out

    rounds, subtracts, stores = report(kernel, A / 3, checks="precision")
    exact = (A / 3 + np.float32(1000)).astype(np.float64)
    error = np.abs(exact.astype(ml_dtypes.bfloat16).astype(np.float64) - exact).max() / exact.max()
    assert rounds.details["own"] == rounds.details["relative"] == pytest.approx(error)
    assert subtracts.details["own"] == 0 and subtracts.details["relative"] > 0.1
    assert "all of it from its inputs" in stores.message


def test_precision_loss_is_told_by_line():
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        x = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
        small = nl.ndarray(a.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.dma_copy(dst=x, src=a)
        nisa.tensor_scalar(dst=small, data=x, op0=nl.add, operand0=1 / 3)
        nisa.tensor_copy(dst=x, src=small)
        nisa.dma_copy(dst=out, src=x)
        return out

    findings = report(kernel, A, checks="precision").of("precision")
    assert findings[0].details["op"] in ("tensor_scalar", "tensor_copy", "dma_copy")
    losses = [f for f in findings if f.details["op"] == "tensor_scalar"]
    assert losses[0].details["dtype"] == "bfloat16"
    assert 0 < losses[0].details["ulp"] <= 0.5
    assert 0 < losses[0].details["relative"] < 2**-8
    assert not report(clean, A, checks="precision").findings


def test_precision_loss_inside_a_product():
    def kernel(a):
        out = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        x = nl.ndarray(a.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
        total = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.psum)
        result = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=x, src=a)
        nisa.nc_matmul(dst=total, stationary=x, moving=x)
        nisa.tensor_copy(dst=result, src=total)
        nisa.dma_copy(dst=out, src=result)
        return out

    findings = report(kernel, A / 3, checks="precision")
    assert {f.details["op"] for f in findings} >= {"dma_copy", "nc_matmul"}
    assert not report(kernel, A.astype(ml_dtypes.bfloat16), checks="precision").findings


def halves(with_barrier):
    @jit
    def kernel(a):
        shared = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        out = nl.ndarray((2, *a.shape), dtype=a.dtype, buffer=nl.shared_hbm)
        core = nl.program_id(0)
        x = nl.ndarray((2, 8), dtype=a.dtype, buffer=nl.sbuf)
        gathered = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=x, src=a[2 * core : 2 * core + 2, :])
        nisa.dma_copy(dst=shared[2 * core : 2 * core + 2, :], src=x)
        if with_barrier:
            nisa.core_barrier(data=shared, cores=(0, 1))
        nisa.dma_copy(
            dst=gathered[2 * core : 2 * core + 2, :], src=shared[2 * core : 2 * core + 2, :]
        )
        if with_barrier or core:
            nisa.dma_copy(dst=gathered, src=shared)
        else:
            nisa.memset(dst=gathered, value=0)
        nisa.dma_copy(dst=out[core], src=gathered)
        return out

    return kernel[2]


def test_races_between_cores():
    (finding,) = report(halves(False), A, checks="races")
    assert finding.code == "NKI-RACE"
    assert sorted(finding.details["cores"]) == [0, 1]
    assert len(report(halves(True), A, checks="races")) == 0


def tiles_at_one_address(x, iterations):
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    for _ in range(iterations):
        tile = nl.ndarray(x.shape, x.dtype, nl.sbuf, address=(0, 64))
        nisa.dma_copy(tile, x)
        nisa.dma_copy(out, tile)
    return out


@jit
def kept_at_one_address(x, turns, late):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = [nl.ndarray(x.shape, x.dtype, nl.sbuf, address=(0, 64)) for _ in range(turns)]
    for tile in tiles:
        nisa.dma_copy(dst=tile, src=x)
        nisa.dma_copy(dst=out, src=tile)
    if late:
        nisa.dma_copy(dst=out, src=tiles[0])
    return out


def test_tiles_kept_alive_at_one_address_are_compared_once_each(monkeypatch):
    met, meet = [], overlap._meet
    monkeypatch.setattr(overlap, "_meet", lambda *reaches: met.append(1) or meet(*reaches))
    for iterations in (100, 200):
        met.clear()
        assert len(report(kept_at_one_address, A, iterations, False, checks=["overlap"])) == 0
        assert len(met) <= 2 * iterations
    assert len(report(kept_at_one_address, A, 100, True, checks=["overlap"])) == 1


@jit
def written_again(x, width):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    first, second = (nl.ndarray((4, width), x.dtype, nl.sbuf, address=(0, 0)) for _ in range(2))
    nisa.memset(first, 1.0)
    nisa.memset(second, 2.0)
    nisa.memset(first, 3.0)
    nisa.dma_copy(dst=out, src=second[:, 0:8])
    return out


@pytest.mark.parametrize("width", [8, 512, 4096])
def test_a_tensor_that_is_written_again_overwrites_what_came_since(width):
    (finding,) = report(written_again, A, width, checks="overlap")
    assert finding.code == "NKI-OVERLAP"


def test_overlaps_are_looked_for_among_tensors_that_can_still_be_read(monkeypatch):
    met = []
    meet = overlap._meet
    monkeypatch.setattr(overlap, "_meet", lambda *reaches: met.append(1) or meet(*reaches))
    counts = []
    for iterations in (50, 100):
        met.clear()
        assert len(report(tiles_at_one_address, A, iterations, checks=["overlap"])) == 0
        counts.append(len(met))
    assert counts[1] <= 100  # each new tile meets at most the one before it


def infinite_then_doubled(a, how):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    y = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.reciprocal(dst=x, data=x)
    if how == "in place":
        nisa.tensor_scalar(dst=x, data=x, op0=nl.multiply, operand0=2.0)
    elif how == "flipped":
        nisa.tensor_scalar(dst=x[:, 4:8], data=x[:, 0:4], op0=nl.multiply, operand0=2.0)
    else:
        nisa.tensor_scalar(dst=y, data=x, op0=nl.multiply, operand0=2.0)
        nisa.tensor_copy(dst=x, src=y)
    nisa.dma_copy(dst=out, src=x)
    return out


@pytest.mark.parametrize("how", ["in place", "flipped", "elsewhere"])
def test_only_the_first_line_with_infinity_is_told(how):
    kernel = jit(infinite_then_doubled)
    (finding,) = report(kernel, np.where(A == 3, np.float32(0), A), how, checks="finite")
    assert "reciprocal" in finding.message
    assert len(report(kernel, A, how, checks="finite")) == 0


def left_as_it_is(a, number, loads):
    """A transfer to or from row ``number`` of four, skipped when there is none."""
    out = nl.ndarray((4, *a.shape), dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    position = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(x, value=1.0)
    nisa.dma_copy(dst=position, src=number)
    rows, columns = a.shape
    there = out.ap([[columns, rows], [1, columns]], 0, scalar_offset=position, indirect_dim=0)
    if not loads:
        nisa.dma_copy(dst=there, src=x, oob_mode=nisa.oob_mode.skip)
    for row in range(4):
        nisa.dma_copy(dst=out[row], src=x)
    if loads:
        nisa.dma_copy(dst=x, src=there, oob_mode=nisa.oob_mode.skip)
        nisa.dma_copy(dst=out[0], src=x)
    return out


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("loads", [True, False])
@pytest.mark.parametrize("checks", [(), *CHECKS, "all"])
def test_a_skipped_transfer_touches_nothing(checks, loads, cores):
    run = simulate(jit(left_as_it_is)[cores], checks=checks, target=target_of("trn3"))
    result = run(A, np.full((1, 1), 9, np.int32), loads)
    np.testing.assert_array_equal(result, np.ones((4, *A.shape), np.float32))
    assert len(run.report) == 0


def test_the_index_of_a_skipped_transfer_must_be_written():
    def unwritten(a):
        out = nl.ndarray((4, *a.shape), dtype=a.dtype, buffer=nl.shared_hbm)
        position = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        there = out.ap([[8, 4], [1, 8]], 0, scalar_offset=position, indirect_dim=0)
        nisa.dma_copy(dst=there, src=a, oob_mode=nisa.oob_mode.skip)
        return out

    with pytest.raises(NkiExecutionError, match="NKI-UNINITIALISED"):
        simulate(unwritten, checks=())(A)


def in_place_after(bits, placed):
    """A tile of finite numbers, part of it then written as integers, and doubled in place."""
    out = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    options = {"address": (0, 0)} if placed else {}
    x = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.sbuf, **options)
    nisa.memset(x, value=1.0)
    nisa.tensor_scalar(dst=x, data=x, op0=nl.add, operand0=1.0)
    y = (
        nl.ndarray((4, 8), dtype=nl.int32, buffer=nl.sbuf, **options)
        if placed
        else x.view(nl.int32)
    )
    nisa.memset(y[0:4, 2:3], value=bits)
    nisa.tensor_scalar(dst=x, data=x, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=x)
    return out


@pytest.mark.parametrize("placed", [True, False])
def test_what_integers_make_of_a_tile_counts_as_given(placed):
    infinity, finite = 0x7F800000, 0x7F000000
    assert not list(report(in_place_after, infinity, placed, checks="finite"))
    (finding,) = report(in_place_after, finite, placed, checks="finite")
    assert finding.code == "NKI-NOT-FINITE" and "tensor_scalar" in finding.message
