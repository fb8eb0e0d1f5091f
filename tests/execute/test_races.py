"""Races: each kind on a kernel that has it and on its nearest neighbours that have not."""

import linecache
import warnings
from pathlib import Path

import numpy as np
import pytest

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.base.targets import target_of
from nki_lang.execute import simulate
from nki_lang.kernel import jit
from tests.execute.ways import run

A = np.arange(1, 33, dtype=np.float32).reshape(4, 8)


def races(kernel, *arguments, target="trn3"):
    run = simulate(kernel, checks="races", target=target_of(target))
    run(*arguments)
    return run.report.of("races")


def tile(shape=(4, 8), dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)


def shared(shape=(4, 8), name=""):
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm, name=name)


# -- between cores ------------------------------------------------------------------------------


def handed_over(barrier_on):
    """Core 0 fills ``given``, core 1 copies it to the result."""

    @jit
    def kernel(a):
        first, second, out = shared(name="given"), shared(name="other"), shared()
        x = tile()
        nisa.dma_copy(dst=x, src=a)
        if nl.program_id(0) == 0:
            nisa.dma_copy(dst=first, src=x)
        if barrier_on:
            data = first if barrier_on == "given" else second
            nisa.core_barrier(data=data, cores=(0, 1))
        if nl.program_id(0) == 1:
            nisa.dma_copy(dst=x, src=first)
            nisa.dma_copy(dst=out, src=x)
        return out

    return kernel[2]


def test_a_barrier_orders_its_own_data():
    assert races(handed_over("given"), A) == []
    (finding,) = races(handed_over(""), A)
    assert "nothing orders the two" in finding.message and "barrier" not in finding.message
    assert finding.details["order"] == "cores" and finding.details["cores"] == [0, 1]
    (finding,) = races(handed_over("other"), A)
    assert "orders accesses to 'other' alone" in finding.message
    assert "nisa.core_barrier on 'given'" in finding.remedy
    assert finding.code == "NKI-RACE"


def test_a_barrier_orders_what_its_data_depends_on():
    @jit
    def kernel(a):
        first, flag, out = shared(), shared(), shared()
        x = tile()
        nisa.dma_copy(dst=x, src=a)
        if nl.program_id(0) == 0:
            nisa.dma_copy(dst=first, src=x)
            nisa.dma_copy(dst=x, src=first)
            nisa.dma_copy(dst=flag, src=x)
        nisa.core_barrier(data=flag, cores=(0, 1))
        if nl.program_id(0) == 1:
            nisa.dma_copy(dst=x, src=flag)
            nisa.dma_copy(dst=first, src=x)
        nisa.core_barrier(data=first, cores=(0, 1))
        nisa.dma_copy(dst=out, src=first)
        return out

    assert races(kernel[2], A) == []


def test_sendrecv_orders_what_went_into_its_tile():
    @jit
    def kernel(a, through):
        first, out = shared(), shared()
        core = nl.program_id(0)
        x, y = tile(), tile()
        nisa.dma_copy(dst=x, src=a)
        if core == 0:
            nisa.dma_copy(dst=first, src=x)
            if through:
                nisa.dma_copy(dst=x, src=first)
        nisa.sendrecv(src=x, dst=y, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
        if core == 1:
            nisa.tensor_scalar(dst=y, data=y, op0=nl.add, operand0=1.0)
            nisa.dma_copy(dst=first, src=y)
        nisa.core_barrier(data=first, cores=(0, 1))
        nisa.dma_copy(dst=out, src=first)
        return out

    assert races(kernel[2], A, True) == []
    assert len(races(kernel[2], A, False)) == 1


def rows_of(first, second):
    """Each core writes two rows from its own number on, by a register or by indices."""

    @jit
    def kernel(a, starts, dynamic):
        out = shared((8, 8))
        core = nl.program_id(0)
        x, index = tile((2, 8)), tile((1, 1), nl.int32)
        nisa.dma_copy(dst=x, src=a[2 * core : 2 * core + 2, :])
        nisa.dma_copy(dst=index, src=starts[core : core + 1, :])
        position = (first, second)[core]
        if dynamic:
            position = nisa.register_alloc()
            nisa.register_load(position, index)
        nisa.dma_copy(dst=out[nl.ds(position, 2), :], src=x)
        return out

    return kernel[2], np.array([[first], [second]], np.int32)


@pytest.mark.filterwarnings("ignore:.*never written")
@pytest.mark.parametrize("dynamic", [False, True])
def test_places_known_at_run_time_are_compared_as_they_are(dynamic):
    kernel, starts = rows_of(0, 2)
    assert races(kernel, A, starts, dynamic) == []
    kernel, starts = rows_of(2, 3)
    (finding,) = races(kernel, A, starts, dynamic)
    assert finding.details["index"] == [0, 0]


def test_writing_the_same_values_is_no_race():
    @jit
    def kernel(a):
        out = shared()
        x = tile()
        nisa.dma_copy(dst=x, src=a)
        nisa.dma_copy(dst=out, src=x)
        nisa.dma_copy(dst=x, src=out)  # sees the same, whoever wrote it
        nisa.dma_copy(dst=out, src=x)
        return out

    assert races(kernel[2], A) == []


def loaded(use):
    @jit
    def kernel(a):
        first, out = shared(), shared()
        x, y = tile(), tile()
        nisa.dma_copy(dst=x, src=a)
        if nl.program_id(0) == 0:
            nisa.dma_copy(dst=first, src=x)
        else:
            nisa.dma_copy(dst=y, src=first)
            nisa.dma_copy(dst=out, src=y if use else x)
        return out

    return kernel[2]


def test_loading_what_is_not_used_is_no_race():
    assert races(loaded(False), A) == []
    assert len(races(loaded(True), A)) == 1


def test_a_read_that_is_not_used_hides_no_write():
    @jit
    def kernel(a):
        first = shared(name="given")
        x, y = tile(), tile()
        nisa.memset(dst=x, value=nl.program_id(0))
        nisa.dma_copy(dst=first, src=x)
        if nl.program_id(0) == 0:
            nisa.dma_copy(dst=y, src=first)
        return first

    (finding,) = races(kernel[2], A)
    assert "core 1 writes element [0, 0] of its part of 'given', which core 0 writes" in str(
        finding
    )


def test_races_between_cores_are_looked_for_when_asked():
    run = simulate(handed_over(""))
    run(A)
    assert len(run.report) == 0


# -- two names for one memory -------------------------------------------------------------------


def shifted(order=""):
    """Adds 1 to ``a`` in place after ``b`` went to the result."""

    @jit
    def kernel(a, b):
        out = shared()
        x, y = tile(), tile()
        nisa.dma_copy(dst=x, src=a)
        nisa.tensor_scalar(dst=x, data=x, op0=nl.add, operand0=1.0)
        if order == "data":
            nisa.dma_copy(dst=y, src=b)
            nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.maximum)
            nisa.dma_copy(dst=a, src=x)
        elif order == "no_reorder":
            with nl.no_reorder():
                nisa.dma_copy(dst=y, src=b)
                nisa.dma_copy(dst=a, src=x)
        else:
            read = nisa.dma_copy(dst=y, src=b, name="read")
            write = nisa.dma_copy(dst=a, src=x, name="write")
            if order == "depends_on":
                write.depends_on(read)
        nisa.dma_copy(dst=out, src=y)
        return out

    return kernel


def test_one_array_as_two_arguments():
    same = A.copy()
    (finding,) = races(shifted(), same, same)
    assert "the same memory as argument 'b' that dma_copy reads" in finding.message
    assert finding.details == {"tensor": "a", "index": [0, 0], "alias": "b", "order": "arguments"}
    assert len(races(shifted(), same, same[:])) == 1
    assert races(shifted(), A.copy(), A.copy()) == []


@pytest.mark.parametrize("order", ["data", "no_reorder", "depends_on"])
def test_order_between_two_names_for_one_memory(order):
    same = A.copy()
    assert races(shifted(order), same, same) == []


def test_a_schedule_orders_two_names_for_one_memory():
    same = A.copy()
    assert races(shifted().with_schedule([("write", "read")]), same, same) == []


# -- inside one instruction ---------------------------------------------------------------------


def moved(instruction, rows, columns=0):
    """Copies three rows of a tile, and all but one column, somewhere in the same tile."""

    @jit
    def kernel(a):
        out, x = shared(), tile()
        nisa.dma_copy(dst=x, src=a)
        left, right = x[0:4, columns : columns + 7], x[0:4, 0:7]
        if rows is not None:
            left, right = x[rows : rows + 3, :], x[0:3, :]
        instruction(dst=left, src=right)
        nisa.dma_copy(dst=out, src=x)
        return out

    return kernel


def test_a_transfer_over_its_own_source():
    (finding,) = races(moved(nisa.dma_copy, 1), A)
    assert "up to 16 DMA engines" in finding.message
    assert finding.details["index"] == [1, 0]
    assert races(moved(nisa.dma_copy, 0), A) == []
    assert races(moved(nisa.dma_copy, 1), np.ones_like(A)) == []


def test_an_engine_over_its_own_source():
    (finding,) = races(moved(nisa.tensor_copy, None, 1), A)
    assert "the engine streams elements" in finding.message
    assert races(moved(nisa.tensor_copy, None, 0), A) == []


def test_in_place_through_other_shapes_is_fine():
    @jit
    def kernel(a):
        out, x = shared(), tile()
        nisa.dma_copy(dst=x, src=a)
        nisa.tensor_scalar(dst=x, data=x.reshape((4, 2, 4)), op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=out, src=x)
        return out

    assert races(kernel, A) == []


def scattered(values, index):
    @jit
    def kernel(a, places):
        out, x, rows = shared((8, 8)), tile(), tile((4, 1), nl.int32)
        nisa.dma_copy(dst=x, src=a)
        nisa.dma_copy(dst=rows, src=places)
        nisa.dma_copy(dst=out.ap([[8, 4], [1, 8]], vector_offset=rows, indirect_dim=0), src=x)
        return out

    return kernel, values, np.array(index, np.int32).reshape(4, 1)


@pytest.mark.filterwarnings("ignore:.*never written")
def test_a_scatter_to_equal_rows():
    (finding,) = races(*scattered(A, [0, 5, 3, 5]))
    assert "rows 1 and 3, which differ, to the same row 5" in finding.message
    assert races(*scattered(A, [0, 1, 2, 3])) == []
    assert races(*scattered(np.ones_like(A), [0, 5, 3, 5])) == []


def test_adding_to_equal_rows():
    @jit
    def kernel(table, a, places):
        x, rows = tile(), tile((4, 1), nl.int32)
        nisa.dma_copy(dst=x, src=a)
        nisa.dma_copy(dst=rows, src=places)
        there = table.ap([[8, 4], [1, 8]], vector_offset=rows, indirect_dim=0)
        nisa.dma_compute(dst=there, srcs=[there, x], reduce_op=nl.add)
        return table

    table = np.zeros((8, 8), np.float32)
    (finding,) = races(kernel, table.copy(), A, np.array([[0], [5], [3], [5]], np.int32))
    assert "rows 1 and 3 to the same row 5" in finding.message
    assert races(kernel, table.copy(), A, np.array([[0], [5], [3], [2]], np.int32)) == []


def test_one_place_written_twice():
    @jit
    def kernel(a, step):
        out, x = shared(name="out"), tile()
        nisa.dma_copy(dst=x, src=a)
        nisa.dma_copy(dst=out, src=x)
        nisa.dma_copy(dst=out.ap([[step, 4], [1, 8]]), src=x)
        return out

    (finding,) = races(kernel, A, 0)
    assert "to a location of 'out' that it writes again" in finding.message
    assert races(kernel, A, 8) == []
    assert races(kernel, np.ones_like(A), 0) == []


# -- on calls that nobody asked to check ----------------------------------------------------------


def both_write(value_of):
    """Both cores write the first row, each what ``value_of`` says."""

    @jit
    def kernel(a):
        out = shared()
        x = tile()
        nisa.dma_copy(dst=x, src=a)
        core = nl.program_id(0)
        nisa.memset(x[0:1], value_of[core])
        rows = (slice(0, 2), slice(2, 4))[core]
        nisa.dma_copy(dst=out[rows], src=x[rows])
        nisa.dma_copy(dst=out[0:1], src=x[0:1])  # here
        return out

    return kernel[2]


def warned(kernel, mode):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(mode, kernel, A)
    return [warning for warning in caught if "[NKI-RACE]" in str(warning.message)]


@pytest.mark.parametrize("mode", ["direct", pytest.param("jax", marks=pytest.mark.jax)])
def test_a_call_warns_of_a_race_between_cores_once(mode):
    kernel = both_write((1.0, 2.0))
    (warning,) = warned(kernel, mode)
    assert Path(warning.filename).name == Path(__file__).name  # a kernel file has no folder
    assert linecache.getline(__file__, warning.lineno).endswith("# here\n")
    if mode == "direct":
        assert warned(kernel, mode) == []
    assert warned(handed_over(""), mode)


@pytest.mark.parametrize("mode", ["direct", pytest.param("jax", marks=pytest.mark.jax)])
def test_a_call_without_a_race_does_not_warn(mode):
    for kernel in (both_write((1.0, 1.0)), handed_over("given")):
        assert warned(kernel, mode) == []


@pytest.mark.parametrize("mode", ["direct", pytest.param("jax", marks=pytest.mark.jax)])
def test_memory_that_the_cores_fill_together_does_not_warn(mode):
    """Neither core writes all of it, so it is made fresh before either begins; that is no access."""

    @jit
    def kernel(a):
        halves, out = shared(), shared((2, 4, 8))
        core = nl.program_id(0)
        x, y = tile((2, 8)), tile()
        nisa.dma_copy(dst=x, src=a[2 * core : 2 * core + 2])
        nisa.dma_copy(dst=halves[2 * core : 2 * core + 2], src=x)
        nisa.core_barrier(data=halves, cores=(0, 1))
        nisa.dma_copy(dst=y, src=halves)
        nisa.dma_copy(dst=out[core], src=y)
        return out

    assert warned(kernel[2], mode) == []
