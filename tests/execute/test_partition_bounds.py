"""An access on chip stays in the partition where it starts, in every way a kernel runs."""

import numpy as np
import pytest

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff import runtime
from neff.compiler import compile_kernel
from nki_lang.base.errors import NkiFileError
from nki_lang.ir import Access
from nki_lang.kernel import jit
from nki_lang.klir.reach import check_reach
from tests.execute.handmade import tensor
from tests.execute.ways import every_way, run

X = np.arange(48, dtype=np.float32).reshape(8, 6)
LEFT = r"\[(NKI|NEFF)-(EXEC-OUT-OF-BOUNDS|OUT-OF-BOUNDS|AP-BOUNDS)\]"


def at(number):
    return np.array([[number]], np.int32)


def _register(location):
    register = nisa.register_alloc()
    nisa.register_load(register, nl.load(location))
    return register


def _by_address(kernel, args):
    loaded = runtime.load(compile_kernel(kernel.trace(args)), by_address=True)
    return loaded.run(dict(zip(("x", "place"), args, strict=False)))


def refused(mode, kernel, *args):
    with pytest.raises(Exception, match=LEFT):
        run(mode, kernel, *args)
    if mode == "neff":
        with pytest.raises(Exception, match=LEFT):
            _by_address(kernel, args)


def _tiles(x, rows=4, columns=3):
    wide = nl.load(x)
    narrow = nl.ndarray((rows, columns), nl.float32, nl.sbuf)
    nisa.memset(narrow, -1.0)
    return wide, narrow


def _out(tile):
    out = nl.ndarray(tile.shape, nl.float32, nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


@jit
def pattern_is_read(x, offset):
    wide, narrow = _tiles(x)
    nisa.tensor_copy(narrow, wide.ap([[6, 4], [1, 3]], offset=offset))
    return _out(narrow)


@jit
def pattern_is_written(x, offset):
    wide, narrow = _tiles(x)
    nisa.tensor_copy(wide.ap([[6, 4], [1, 3]], offset=offset), narrow)
    return _out(wide)


@every_way
@pytest.mark.parametrize("kernel", [pattern_is_read, pattern_is_written])
@pytest.mark.parametrize("offset", [4, 11, 29])
def test_a_static_pattern_that_leaves_its_partition(mode, kernel, offset):
    refused(mode, kernel, X, offset)


@every_way
def test_a_static_pattern_that_starts_in_another_partition(mode):
    x = np.arange(240, dtype=np.float32).reshape(40, 6)
    np.testing.assert_array_equal(run(mode, pattern_is_read, x, 32 * 6 + 3), x[32:36, 3:])


@jit
def register_is_read(x, place):
    wide, narrow = _tiles(x)
    moved = wide.ap([[6, 4], [1, 3]], scalar_offset=_register(place), indirect_dim=1)
    nisa.tensor_copy(narrow, moved)
    return _out(narrow)


@jit
def register_is_written(x, place):
    wide, narrow = _tiles(x)
    moved = wide.ap([[6, 4], [1, 3]], scalar_offset=_register(place), indirect_dim=1)
    nisa.tensor_copy(moved, narrow)
    return _out(wide)


@jit
def slice_is_read(x, place):
    wide, narrow = _tiles(x)
    nisa.tensor_copy(narrow, wide[0:4, nl.ds(_register(place), 3)])
    return _out(narrow)


@jit
def slice_is_written(x, place):
    wide, narrow = _tiles(x)
    nisa.tensor_copy(wide[0:4, nl.ds(_register(place), 3)], narrow)
    return _out(wide)


@jit
def tile_is_read(x, place):
    wide, narrow = _tiles(x)
    moved = wide.ap([[6, 4], [1, 3]], scalar_offset=nl.load(place), indirect_dim=1)
    nisa.dma_copy(narrow, moved)
    return _out(narrow)


@jit
def tile_is_written(x, place):
    wide, narrow = _tiles(x)
    moved = wide.ap([[6, 4], [1, 3]], scalar_offset=nl.load(place), indirect_dim=1)
    nisa.dma_copy(moved, narrow)
    return _out(wide)


READS = [register_is_read, slice_is_read, tile_is_read]
WRITES = [register_is_written, slice_is_written, tile_is_written]


@every_way
@pytest.mark.parametrize("kernel", [*READS, *WRITES])
@pytest.mark.parametrize("number", [-1, 4, 6, 9, 24])
def test_an_index_that_leaves_the_partition(mode, kernel, number):
    """6, 9 and 24 lie inside a later partition as a whole."""
    refused(mode, kernel, X, at(number))


@every_way
@pytest.mark.parametrize("number", [0, 3])
def test_an_index_that_stays_in_the_partition(mode, number):
    columns = slice(number, number + 3)
    for kernel in READS:
        np.testing.assert_array_equal(run(mode, kernel, X, at(number)), X[:4, columns])
    expected = X.copy()
    expected[:4, columns] = -1
    for kernel in WRITES:
        np.testing.assert_array_equal(run(mode, kernel, X, at(number)), expected)


@jit
def narrow_column(x, place):
    wide, narrow = nl.load(x[:, 0:1]), nl.ndarray((4, 1), nl.float32, nl.sbuf)
    moved = wide.ap([[1, 4], [1, 1]], scalar_offset=_register(place), indirect_dim=1)
    nisa.tensor_copy(narrow, moved)
    return _out(narrow)


@jit
def bytes_of_a_view(x, place):
    wide, narrow = nl.load(x).view(nl.uint8), nl.ndarray((4, 4), nl.uint8, nl.sbuf)
    out = nl.ndarray((4, 4), nl.uint8, nl.shared_hbm)
    moved = wide.ap([[24, 4], [1, 4]], scalar_offset=_register(place), indirect_dim=1)
    nisa.tensor_copy(narrow, moved)
    nisa.dma_copy(out, narrow)
    return out


@every_way
@pytest.mark.parametrize(("kernel", "inside"), [(narrow_column, 0), (bytes_of_a_view, 20)])
def test_partitions_of_one_element_and_of_another_type(mode, kernel, inside):
    run(mode, kernel, X, at(inside))
    refused(mode, kernel, X, at(inside + 1))
    refused(mode, kernel, X, at(inside + 4))


@jit
def left_out(x, place):
    wide, narrow = _tiles(x)
    moved = wide.ap([[6, 4], [1, 3]], scalar_offset=_register(place), indirect_dim=1)
    nisa.dma_copy(narrow, moved, oob_mode=nisa.oob_mode.skip)
    nisa.memset(narrow[:, 0:1], 7.0)
    nisa.dma_copy(moved, narrow, oob_mode=nisa.oob_mode.skip)
    return _out(wide)


@every_way
def test_an_index_that_leaves_the_partition_is_skipped_on_request(mode):
    np.testing.assert_array_equal(run(mode, left_out, X, at(9)), X)
    expected = X.copy()
    expected[:4, 3] = 7
    np.testing.assert_array_equal(run(mode, left_out, X, at(3)), expected)


@jit
def indices_of_columns(x, place, written):
    wide, narrow = _tiles(x, 32, 16)
    chosen = wide.indirect(nl.load(place), num_elem=16)
    if written:
        nisa.tensor_copy(chosen, narrow, engine=nisa.engine.vector)
        return _out(wide)
    nisa.tensor_copy(narrow, chosen, engine=nisa.engine.vector)
    return _out(narrow)


@every_way
@pytest.mark.parametrize("written", [False, True])
def test_an_index_tile_that_leaves_the_partition(mode, written):
    x = np.arange(32 * 16, dtype=np.float32).reshape(32, 16)
    positions = np.tile(np.arange(16, dtype=np.uint16), 2)[:, None]
    run(mode, indices_of_columns, x, positions, written)
    for number in (16, 35):
        wrong = positions.copy()
        wrong[3] = number
        refused(mode, indices_of_columns, x, wrong, written)


def test_a_file_with_a_static_pattern_that_leaves_its_partition():
    tile = tensor("tile", (8, 6))
    check_reach(Access(tile, 9, ((6, 4), (1, 3))))
    check_reach(Access(tile, 5, ((6, 4), (-1, 6))))
    for offset, pattern in ((4, ((6, 4), (1, 3))), (8, ((6, 4), (-1, 4)))):
        with pytest.raises(NkiFileError) as caught:
            check_reach(Access(tile, offset, pattern))
        assert caught.value.code == "NKI-FILE-ACCESS"
