"""Kernels written for earlier versions: accepted with a warning, or refused with a remedy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import nki_lang.isa as nisa
import nki_lang.language as nl
from tests.nki_lang.specimen import refused, tracing


def tiles():
    return nl.ndarray((16, 16), nl.bfloat16), nl.ndarray((16, 16), nl.bfloat16, nl.shared_hbm)


def last(builder):
    return builder.body[-1]


def test_positional_dma_copy_of_0_3():
    with tracing() as builder:
        dst, src = tiles()
        with pytest.warns(DeprecationWarning, match="priority"):
            nisa.dma_copy(dst, src, nisa.oob_mode.skip)
        assert last(builder).operands["oob_mode"] == "skip"
        assert last(builder).operands["priority"] is None
        with pytest.warns(DeprecationWarning):
            nisa.dma_copy(
                dst, src, nisa.oob_mode.error, nisa.dge_mode.hwdge, nisa.engine.sync, "load"
            )
        inst = last(builder)
        assert inst.operands["dge_mode"] == "hwdge" and inst.engine is nisa.engine.sync
        assert inst.name == "load"
        with pytest.warns(DeprecationWarning):
            nisa.dma_copy(dst, src, nisa.oob_mode.skip, dge_mode=nisa.dge_mode.swdge, name="n")
        inst = last(builder)
        assert (inst.operands["oob_mode"], inst.operands["dge_mode"], inst.name) == ("skip", "swdge", "n")  # fmt: skip


def test_positional_dma_transpose_of_0_3():
    with tracing() as builder:
        dst, src = tiles()
        with pytest.warns(DeprecationWarning):
            nisa.dma_transpose(dst, src, (1, 0), nisa.dge_mode.none, nisa.oob_mode.error, "t")
        inst = last(builder)
        assert inst.operands["dge_mode"] == "none" and inst.name == "t"
        assert inst.operands["oob_mode"] == "error"


def test_current_calls_do_not_warn():
    with tracing("trn3") as builder:
        dst, src = tiles()
        nisa.dma_copy(dst, src, 2, nisa.oob_mode.skip, nisa.dge_mode.hwdge, nisa.engine.scalar)
        assert last(builder).operands["priority"] == 2


def test_raw_numbers_of_the_dma_modes_are_accepted_with_a_warning():
    with tracing() as builder:
        dst, src = tiles()
        with pytest.warns(DeprecationWarning, match=r"nisa\.dge_mode\.none"):
            nisa.dma_copy(dst, src, dge_mode=3)
        assert last(builder).operands["dge_mode"] == "none"


def test_other_raw_values_are_no_enumeration_members():
    with tracing():
        dst, src = tiles()
        with refused("NKI-ENUM", "nisa.oob_mode.skip"):
            nisa.dma_copy(dst, src, oob_mode=7)
        tile = nl.ndarray((16, 1), nl.float32)
        with refused("NKI-ENUM", "reset_reduce"):
            nisa.activation(dst, nl.exp, dst, reduce_op=nl.add, reduce_res=tile, reduce_cmd=3)
        with refused("NKI-ENUM", "nisa.dge_mode.swdge"):
            nisa.dma_copy(dst, src, dge_mode="software")


def test_names_of_members_are_accepted_with_a_warning():
    with tracing() as builder:
        dst, src = tiles()
        with pytest.warns(DeprecationWarning, match=r"nisa\.dge_mode\.swdge"):
            nisa.dma_copy(dst, src, dge_mode="swdge")
        assert last(builder).operands["dge_mode"] == "swdge"
        left = nl.ndarray((128, 2, 16), nl.float8_e4m3)
        right = nl.ndarray((128, 2, 64), nl.float8_e4m3)
        product = nl.ndarray((16, 64), nl.float32, buffer=nl.psum)
        with pytest.warns(DeprecationWarning, match=r"write nisa\.matmul_perf_mode\.double_row"):
            nisa.nc_matmul(product, left, right, perf_mode="double_row")
        assert last(builder).operands["perf_mode"] == "double_row"
        with refused("NKI-ENUM", "double_row"):
            nisa.nc_matmul(product, left, right, perf_mode="twice")


def test_numpy_functions_are_no_operators():
    with tracing():
        tile = nl.ndarray((4, 4), nl.float32)
        with refused("NKI-OPERATOR", "op=nl.add"):
            nisa.tensor_tensor(tile, tile, tile, np.add)


def test_old_engine_constants():
    assert nisa.vector_engine is nisa.engine.vector
    assert nisa.unknown_engine is nisa.engine.unknown


@pytest.mark.parametrize("name", ["arange", "mgrid", "par_dim", "spmd_dim", "loop_reduce"])
def test_names_of_the_first_beta_say_what_to_write(name):
    with pytest.raises(AttributeError, match="removed it"):
        getattr(nl, name)


def test_buffers_by_name():
    with tracing():
        assert nl.ndarray((4, 4), nl.float32, "psum").buffer == nl.psum
        assert nl.ndarray((4, 4), "float8e4", "hbm").dtype == nl.float8_e4m3


def deprecations(use):
    with warnings.catch_warnings(record=True) as caught, tracing():
        warnings.simplefilter("always")
        use(nl.zeros((4, 4), nl.float32))
    assert all(entry.filename == __file__ for entry in caught)
    assert all(entry.category is DeprecationWarning for entry in caught)
    return [str(entry.message).split(";")[1].strip() for entry in caught]


def turns(tile):
    for _ in nl.dynamic_range(2):
        nisa.memset(tile, 1.0)


def waits(tile):
    register = nisa.register_alloc(1)
    while register:
        nisa.memset(tile, 1.0)
        nisa.register_move(register, 0)


def documented_loops(tile):
    nl.fori_loop(0, 2, lambda _: nisa.memset(tile, 1.0) and None)
    nl.while_loop(nisa.register_alloc(0), lambda register: register)


def test_what_later_versions_deprecate_names_its_successor():
    assert deprecations(turns) == ["write nl.fori_loop"]
    assert deprecations(waits) == ["write nl.while_loop"]
    assert deprecations(lambda _: nl.tile_size.total_available_sbuf_size) == [
        "write sbuf_fmax_bytes"
    ]
    assert deprecations(documented_loops) == []
