"""Every limit and rule is refused at the user's line, with what was passed and what is allowed."""

from __future__ import annotations

import pytest

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.base.errors import NkiValidationError
from nki_lang.isa.table import TABLE
from nki_lang.kernel import jit
from nki_lang.tracing.tracer import trace_kernel
from tests.nki_lang.specimen import refused, spec, trace, tracing


def sb(*shape, dtype=nl.float32, **options):
    return nl.ndarray(shape, dtype, nl.sbuf, **options)


def ps(*shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype, nl.psum)


def hbm(*shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype, nl.shared_hbm)


SIZES = [
    ("NKI-PARTITION", lambda: sb(129, 4)),
    ("NKI-CAPACITY", lambda: sb(128, 60_000)),
    ("NKI-CAPACITY", lambda: ps(128, 4097)),
    ("NKI-CAPACITY", lambda: sb(128, 1024, address=(0, 212_000))),
    ("NKI-START-PARTITION", lambda: sb(64, 4, address=(96, 0))),
    ("NKI-SHAPE", lambda: sb(128, 0)),
    ("NKI-SHAPE", lambda: sb(128, 1.5)),
    ("NKI-DTYPE", lambda: sb(128, 4, dtype="float64")),
    ("NKI-BUFFER", lambda: nl.ndarray((1, 1), nl.float32, "dram")),
]


@pytest.mark.parametrize(("code", "make"), SIZES)
def test_allocation(code, make):
    with tracing(), refused(code):
        make()


def mm(dst, stationary, moving, **options):
    return lambda: nisa.nc_matmul(dst(), stationary(), moving(), **options)


def T(kind, *shape, dtype=nl.float32):
    """A tile made when the case runs."""
    return lambda: kind(*shape, dtype=dtype)


fp8 = nl.float8_e4m3

RULES = [
    # operands
    ("NKI-OPERAND", "trn2", lambda: nisa.tensor_copy(sb(4, 4), 3.0)),
    ("NKI-OPERATOR", "trn2", lambda: nisa.tensor_tensor(sb(4, 4), sb(4, 4), sb(4, 4), max)),
    ("NKI-OPERATOR", "trn2", lambda: nisa.tensor_tensor(sb(4, 4), sb(4, 4), sb(4, 4), nl.exp)),
    ("NKI-OPERATOR", "trn2", lambda: nisa.activation(sb(4, 4), nl.add, sb(4, 4))),
    ("NKI-NAME", "trn2", lambda: nisa.memset(sb(4, 4), 0, name=7)),
    # memories
    ("NKI-BUFFER", "trn2", lambda: nisa.tensor_copy(sb(4, 4), hbm(4, 4))),
    ("NKI-BUFFER", "trn2", lambda: nisa.dma_copy(hbm(4, 4), ps(4, 4))),
    ("NKI-BUFFER", "trn2", mm(T(sb, 128, 128), T(sb, 128, 128), T(sb, 128, 128))),
    ("NKI-BUFFER", "trn2", mm(T(ps, 128, 128), T(ps, 128, 128), T(sb, 128, 128))),
    ("NKI-BUFFER", "trn2", lambda: nisa.tensor_copy(sb(4, 4), ps(4, 4), nisa.engine.gpsimd)),
    ("NKI-BUFFER", "trn2", lambda: nisa.iota(ps(4, 4), [[1, 4]])),
    ("NKI-BOTH-PSUM", "trn2", lambda: nisa.tensor_tensor(sb(4, 4), ps(4, 4), ps(4, 4), nl.add)),
    ("NKI-BUFFER", "trn2", lambda: nisa.tensor_tensor(sb(4, 4), ps(4, 4), sb(4, 4), nl.power)),
    # shapes
    ("NKI-SHAPE", "trn2", lambda: nisa.tensor_copy(sb(4, 4), sb(4, 5))),
    ("NKI-SHAPE", "trn2", lambda: nisa.dma_copy(sb(4, 4), hbm(4, 5))),
    ("NKI-SHAPE", "trn2", lambda: nisa.tensor_tensor(sb(4, 4), sb(4, 4), sb(8, 4), nl.add)),
    ("NKI-VECTOR-OPERAND", "trn2",
     lambda: nisa.tensor_scalar(sb(4, 4), sb(4, 4), nl.add, sb(4, 2))),
    ("NKI-AXIS", "trn2", lambda: nisa.tensor_reduce(sb(4, 4), nl.add, sb(4, 4, 4), axis=1)),
    ("NKI-AXIS", "trn2", lambda: nisa.tensor_reduce(sb(4, 1), nl.add, sb(4, 4), axis=(0, 1))),
    ("NKI-AXIS", "trn2", lambda: nisa.tensor_reduce(sb(4, 4), nl.add, sb(4, 4), axis=1)),
    ("NKI-PATTERN", "trn2", lambda: nisa.iota(sb(4, 4, dtype=nl.int32), [[1, 5]])),
    ("NKI-PATTERN", "trn2", lambda: nisa.iota(sb(4, 4, dtype=nl.int32), [1, 5])),
    ("NKI-BN", "trn2", lambda: nisa.bn_stats(sb(4, 6), sb(4, 513))),
    ("NKI-BN", "trn2", lambda: nisa.bn_aggr(sb(4, 2), sb(4, 7))),
    ("NKI-SHAPE", "trn2", lambda: nisa.max8(sb(4, 8), sb(4, 7))),
    ("NKI-SHUFFLE", "trn2", lambda: nisa.nc_stream_shuffle(sb(32, 4), sb(32, 4), [32] * 32)),
    ("NKI-GATHER", "trn2",
     lambda: nisa.local_gather(sb(32, 4), sb(32, 9), sb(32, 4, dtype=nl.uint16), 3)),
    ("NKI-SHAPE", "trn2",
     lambda: nisa.nonzero_with_count(sb(4, 4, dtype=nl.int32), sb(4, 4))),
    # partitions
    ("NKI-START-PARTITION", "trn2", lambda: nisa.memset(sb(128, 4)[16:48, :], 0)),
    ("NKI-START-PARTITION", "trn2", lambda: nisa.memset(sb(128, 4)[32:96, :], 0)),
    ("NKI-START-PARTITION", "trn2", lambda: nisa.memset(sb(128, 4)[1:128, :], 0)),
    ("NKI-RANK", "trn2",
     lambda: nisa.memset(sb(4, 4, 4, 4, 4, 4)[:, ::2, ::2, ::2, ::2, ::2], 0)),
    # dtypes
    ("NKI-DTYPE", "trn2", lambda: nisa.nc_transpose(ps(4, 4), sb(4, 4, dtype=nl.bfloat16))),
    ("NKI-DTYPE", "trn2",
     lambda: nisa.tensor_scalar(sb(4, 4), sb(4, 4), nl.add, sb(4, 1, dtype=nl.bfloat16))),
    ("NKI-VECTOR-OPERAND", "trn2",
     lambda: nisa.activation(sb(4, 4), nl.exp, sb(4, 4), scale=sb(4, 1, dtype=nl.bfloat16))),
    ("NKI-BITVEC", "trn2",
     lambda: nisa.tensor_tensor(sb(4, 4), sb(4, 4), sb(4, 4), nl.bitwise_and)),
    ("NKI-DTYPE", "trn2",
     lambda: nisa.nc_n_gather(sb(4, 4), sb(4, 4), sb(4, 4, dtype=nl.int32))),
    ("NKI-DTYPE", "trn2", lambda: nisa.rng(sb(4, 4))),
    ("NKI-MEMSET", "trn3", lambda: nisa.memset(sb(4, 4, dtype=nl.float8_e4m3fn_x4), 1)),
    # engines
    ("NKI-ENGINE", "trn2", lambda: nisa.memset(sb(4, 4), 0, nisa.engine.scalar)),
    ("NKI-ENGINE", "trn1", lambda: nisa.tensor_copy(sb(4, 4), sb(4, 4), nisa.engine.scalar)),
    ("NKI-ENGINE", "trn2", lambda: nisa.memset(sb(4, 4), 0, "vector")),
    ("NKI-ENGINE", "trn2",
     lambda: nisa.tensor_scalar(sb(4, 4), sb(4, 4), nl.subtract, 1.0,
                                engine=nisa.engine.scalar)),
    ("NKI-ENGINE", "trn1", lambda: nisa.rng(sb(4, 4, dtype=nl.uint32), nisa.engine.gpsimd)),
    # matmul
    ("NKI-MATMUL-SHAPE", "trn2", mm(T(ps, 128, 64), T(sb, 64, 128), T(sb, 128, 64))),
    ("NKI-MATMUL-SHAPE", "trn2", mm(T(ps, 64, 64), T(sb, 128, 128), T(sb, 128, 64))),
    ("NKI-MATMUL-SIZE", "trn2", mm(T(ps, 128, 600), T(sb, 128, 128), T(sb, 128, 600))),
    ("NKI-DTYPE", "trn2",
     mm(T(ps, 128, 64, dtype=nl.bfloat16), T(sb, 128, 128), T(sb, 128, 64))),
    ("NKI-DTYPE", "trn2",
     mm(T(ps, 128, 64), T(sb, 128, 128, dtype=nl.bfloat16), T(sb, 128, 64))),
    ("NKI-DTYPE", "trn2",
     mm(T(ps, 128, 64), T(sb, 128, 128, dtype=nl.float8_e4m3fn), T(sb, 128, 64, dtype=fp8))),
    ("NKI-PSUM-BANK", "trn2",
     mm(lambda: ps(128, 1024)[:, 256:768], T(sb, 128, 128), T(sb, 128, 512))),
    ("NKI-PE-TILE", "trn1",
     mm(T(ps, 32, 64), T(sb, 32, 32), T(sb, 32, 64), tile_position=(0, 0), tile_size=(32, 32))),
    ("NKI-PE-TILE", "trn2",
     mm(T(ps, 32, 64), T(sb, 32, 32), T(sb, 32, 64), tile_position=(16, 0), tile_size=(32, 128))),
    ("NKI-PERF-MODE", "trn2",
     mm(T(ps, 128, 64), T(sb, 128, 2, 128), T(sb, 128, 2, 64),
        perf_mode=nisa.matmul_perf_mode.double_row)),
    ("NKI-TRANSPOSE", "trn2", lambda: nisa.nc_transpose(sb(64, 64), sb(64, 64))),
    ("NKI-TRANSPOSE", "trn2", lambda: nisa.dma_transpose(sb(8, 4), hbm(8, 4))),
    # DMA
    ("NKI-DGE", "trn1",
     lambda: nisa.dma_copy(sb(4, 4), hbm(4, 4), dge_mode=nisa.dge_mode.hwdge)),
    ("NKI-DGE", "trn2", lambda: nisa.dma_copy(sb(4, 4), hbm(4, 4), engine=nisa.engine.sync)),
    ("NKI-DGE", "trn2",
     lambda: nisa.dma_copy(sb(4, 4), hbm(8, 4).vector_select(0, sb(4, 1, dtype=nl.int32)),
                           dge_mode=nisa.dge_mode.hwdge)),
    ("NKI-PRIORITY", "trn2", lambda: nisa.dma_copy(sb(4, 4), hbm(4, 4), priority=1)),
    ("NKI-PRIORITY", "trn3", lambda: nisa.dma_copy(sb(4, 4), hbm(4, 4), priority=4)),
    ("NKI-DMA-COMPUTE", "trn2",
     lambda: nisa.dma_compute(sb(4, 4), [sb(4, 4), sb(4, 4)], nl.multiply)),
    ("NKI-DMA-COMPUTE", "trn2",
     lambda: nisa.dma_compute(sb(4, 4), [sb(4, 4), sb(4, 4)], nl.add, scales=[1.0, 2.0])),
    # availability
    ("NKI-TARGET", "trn2", lambda: nisa.rand2(sb(4, 4), 0.0, 1.0)),
    ("NKI-TARGET", "trn2", lambda: nisa.exponential(sb(4, 4), sb(4, 4))),
    ("NKI-TARGET", "trn1", lambda: nisa.sendrecv(sb(4, 4), sb(4, 4), 1, 1, 0)),
    ("NKI-TARGET", "trn2", lambda: nl.abs_max(sb(4, 4), 1.0)),
    ("NKI-BIAS", "trn1", lambda: nisa.activation(sb(4, 4), nl.exp, sb(4, 4), bias=1.0)),
    ("NKI-REDUCE", "trn2",
     lambda: nisa.activation(sb(4, 4), nl.exp, sb(4, 4),
                             reduce_cmd=nisa.reduce_cmd.reset_reduce)),
    ("NKI-REDUCE", "trn2",
     lambda: nisa.tensor_scalar_reduce(sb(4, 4), sb(4, 4), nl.add, 1.0, nl.add, sb(4, 1),
                                       reduce_init=3.0)),
    ("NKI-RANGE-SELECT", "trn2",
     lambda: nisa.range_select(sb(4, 4), sb(4, 4), nl.less, nl.less, sb(4, 1), sb(4, 1),
                               on_false_value=0.0)),
    ("NKI-VALUE", "trn3", lambda: nisa.rand2(sb(4, 4), 2.0, 1.0)),
    ("NKI-CORES", "trn2", lambda: nisa.core_barrier(hbm(4, 4), (0, 2))),
    ("NKI-CORES", "trn2", lambda: nisa.sendrecv(sb(4, 4), sb(4, 4), 2, 1, 0)),
    # arguments
    ("NKI-ACCUMULATE", "trn2",
     mm(T(ps, 128, 128), T(sb, 128, 128), T(sb, 128, 128), accumulate=2)),
    ("NKI-DROPOUT", "trn2", lambda: nisa.dropout(sb(4, 4), sb(4, 4), 1.5)),
    ("NKI-DROPOUT", "trn2", lambda: nisa.dropout(
        sb(4, 4, dtype=nl.int32), sb(4, 4, dtype=nl.int32), sb(4, 1, dtype=nl.bfloat16))),
    ("NKI-OOB-MODE", "trn2", lambda: nisa.dma_transpose(
        sb(4, 4), hbm(4, 4), oob_mode=nisa.oob_mode.skip)),
    ("NKI-REVERSE", "trn2", lambda: nisa.tensor_scalar_reduce(
        sb(4, 4), sb(4, 4), nl.subtract, 1.0, nl.add, sb(4, 1), reverse0=True)),
    ("NKI-SIZE", "trn2", lambda: nisa.sendrecv(
        sb(4, 257), sb(4, 257), 1, 1, 0, dma_engine=nisa.dma_engine.gpsimd_dma)),
    ("NKI-MX", "trn3", lambda: nisa.quantize_mx(
        sb(33, 4, dtype=nl.float8_e4m3fn_x4), sb(33, 16, dtype=nl.bfloat16),
        sb(5, 4, dtype=nl.uint8))),
]  # fmt: skip


@pytest.mark.parametrize(("code", "target", "call"), RULES)
def test_instruction(code, target, call):
    with tracing(target), refused(code, "help:"):
        call()


def test_the_message_names_what_was_passed_and_where_the_rule_stands():
    with tracing(), refused("NKI-SHAPE", "float32[4, 5]", "src", "dst", "documented in"):
        nisa.tensor_copy(sb(4, 4), sb(4, 5))


def test_every_rule_has_its_source_and_a_code():
    for row in TABLE.values():
        assert row.source
        for rule in row.constraints:
            assert rule.code.startswith("NKI-") and rule.rule and rule.source


def test_a_passed_check_is_not_taken_for_another_call():
    """The memory of passed checks tells attributes, dtypes and partitions apart."""
    with tracing():
        a, b = sb(128, 64), sb(128, 64)
        nisa.tensor_reduce(sb(128, 1), nl.add, a, axis=1)
        with refused("NKI-AXIS"):
            nisa.tensor_reduce(sb(128, 1), nl.add, a, axis=0)
        nisa.memset(b[32:64, :], 0)
        with refused("NKI-START-PARTITION"):
            nisa.memset(b[16:48, :], 0)
        nisa.tensor_tensor(a, a, b, nl.add)
        with refused("NKI-BITVEC"):
            nisa.tensor_tensor(a, a, b, nl.bitwise_and)


def test_matmul_limits_grow_on_trn3():
    with tracing("trn3"):
        nisa.nc_matmul(ps(128, 1024), sb(128, 128), sb(128, 1024))
        nisa.nc_matmul(ps(128, 64, dtype=nl.bfloat16), sb(128, 128), sb(128, 64))


# -- what is alive at one time ------------------------------------------------------------------


def test_live_tiles_must_fit_and_the_error_says_who_holds_what():
    def greedy(x):
        tiles = [nl.load(x) for _ in range(20)]
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        for tile in tiles:
            nl.store(out, tile)
        return out

    with refused("NKI-CAPACITY", "tiles alive", "16384 |", "212984"):
        trace(greedy, spec(128, 4096))


def test_tiles_that_live_one_after_the_other_fit():
    def frugal(x):
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        for _ in range(40):
            nl.store(out, nl.load(x))
        return out

    assert len(list(trace(frugal, spec(128, 4096)).instructions())) == 80


def test_a_loop_keeps_its_tiles_to_its_end():
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        for _ in nl.dynamic_range(4):
            for _ in range(20):
                nl.store(out, nl.load(x))
        return out

    with refused("NKI-CAPACITY"):
        trace(kernel, spec(128, 4096))


def test_psum_has_eight_banks():
    def kernel(x):
        out = nl.ndarray((128, 512), x.dtype, nl.shared_hbm)
        tile = nl.load(x)
        banks = [nl.ndarray((128, 512), nl.float32, nl.psum) for _ in range(9)]
        for bank in banks:
            nisa.nc_matmul(bank, tile[:, 0:128], tile)
        for bank in banks:
            copy = nl.ndarray((128, 512), nl.float32)
            nisa.tensor_copy(copy, bank)
            nl.store(out, copy)
        return out

    with refused("NKI-CAPACITY", "psum"):
        trace(kernel, spec(128, 512))


# -- launches and results -----------------------------------------------------------------------


@pytest.mark.parametrize(("target", "grid"), [("trn1", 2), ("trn2", 3), ("trn2", (1, 2)), ("trn2", 0)])  # fmt: skip
def test_a_grid_has_at_most_the_cores_of_the_target(target, grid):
    with pytest.raises(NkiValidationError) as caught:
        trace_kernel(lambda x: x, (spec(4, 4),), target=target, grid=grid)
    assert caught.value.code == "NKI-GRID"


def test_results_are_whole_tensors_in_hbm():
    def tile(x):
        return nl.load(x)

    def part(x):
        return x[0:2, :]

    def number(x):
        return 3

    for kernel in (tile, part, number):
        with refused("NKI-RETURN", kernel.__name__ and "return"):
            trace(kernel, spec(4, 4))


def test_float64_arguments_are_refused():
    import numpy as np

    with pytest.raises(NkiValidationError) as caught:
        jit(lambda x: x)(np.zeros((4, 4)))
    assert caught.value.code == "NKI-DTYPE" and "'x'" in str(caught.value)


def test_functions_outside_a_kernel_say_so():
    with refused("NKI-OUTSIDE", "nki.jit"):
        nl.ndarray((4, 4), nl.float32)
