"""The simulator says of capacity what tracing says, without running the kernel a second time."""

import numpy as np
import pytest

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.base.errors import NkiError
from nki_lang.base.targets import target_of
from nki_lang.execute import simulate
from nki_lang.kernel import jit

A = np.arange(1, 33, dtype=np.float32).reshape(4, 8)


def tiles_of(count):
    return [nl.ndarray((128, 12000), dtype=nl.float32, buffer=nl.sbuf) for _ in range(count)]


def together(a, out, count):
    tiles = tiles_of(count)
    for tile in tiles:
        nisa.memset(dst=tile, value=0)
    for tile in tiles:
        nisa.dma_copy(dst=out, src=tile[0:4, 0:8])


def in_turn(a, out, count):
    for _ in range(count):
        together(a, out, 1)


def on_one_core(a, out, count):
    together(a, out, count if nl.program_id(0) == 1 else 1)


def in_one_block(a, out, count):
    with nl.no_reorder():
        in_turn(a, out, count)


def in_a_loop(a, out, count):
    tiles = tiles_of(count)
    for tile in tiles:
        nisa.memset(dst=tile, value=0)

    def body(_):
        for tile in tiles:
            nisa.dma_copy(dst=out, src=tile[0:4, 0:8])

    nl.fori_loop(0, 2, body)


def in_a_loop_that_never_runs(a, out, count):
    nisa.dma_copy(dst=out, src=a)
    nl.fori_loop(0, 0, lambda _: together(a, out, count))


BODIES = [together, in_turn, on_one_core, in_one_block, in_a_loop, in_a_loop_that_never_runs]


def kernel_of(body, count):
    @jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        body(a, out, count)
        return out

    return kernel


def told(error):
    return error.code, error.message, error.location, error.details


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("count", [4, 5])
@pytest.mark.parametrize("body", BODIES)
def test_what_tracing_says(body, count, cores):
    if cores == 1 and body is on_one_core:
        pytest.skip("there is no second core")
    kernel = kernel_of(body, count)[cores]
    expected = []
    try:
        kernel.trace((A,), target=target_of("trn2"))
    except NkiError as error:
        expected.append(told(error))
    run = simulate(kernel, checks="capacity", target=target_of("trn2"))
    run(A.copy())
    assert [told(finding) for finding in run.report] == expected
    assert bool(expected) == (count == 5 and body is not in_turn)


def test_a_call_that_fails_is_traced_all_the_same():
    def body(a, out, count):
        together(a, out, count)
        table = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.memset(dst=table, value=9)
        nisa.dma_copy(dst=out[0:1, :], src=a.ap([[8, 1], [1, 8]], scalar_offset=table))

    run = simulate(kernel_of(body, 5), checks="capacity", target=target_of("trn2"))
    with pytest.raises(NkiError, match="NKI-OUT-OF-BOUNDS"):
        run(A.copy())
    assert [finding.code for finding in run.report] == ["NKI-CAPACITY"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cores", [1, 2])
def test_a_kernel_without_loops_of_the_device_runs_once_on_each_core(cores):
    runs = []

    def body(a, out, count):
        runs.append(nl.program_id(0))
        together(a, out, count)

    simulate(kernel_of(body, 5)[cores], checks="all", target=target_of("trn2"))(A.copy())
    assert runs == list(range(cores))
