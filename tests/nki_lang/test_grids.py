"""Grids of tiles and blocks: what they select, beside NumPy's slices."""

import numpy as np
import pytest

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.kernel import jit
from tests.execute.ways import every_way, run
from tests.nki_lang.specimen import refused, tracing

ARRAYS = [
    np.random.default_rng(5).standard_normal((70, 50), np.float32),
    np.arange(3500, dtype=np.float32).reshape(70, 50),
]


@jit
def copied_by_tiles(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    source, target = nl.tiles(x, tile_shape=(32, 20)), nl.tiles(out, tile_shape=(32, 20))
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            tile = nl.ndarray(source[i, j].element_shape, x.dtype)
            nisa.dma_copy(dst=tile.data, src=source[i, j].data)
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=float(i + 10 * j))
            nisa.dma_copy(dst=target[i, j].data, src=tile.data)
    return out


@every_way
def test_tiles_cover_a_tensor_with_partial_edges(mode):
    for x in ARRAYS:
        factor = np.arange(70)[:, None] // 32 + 10 * (np.arange(50) // 20)
        np.testing.assert_array_equal(run(mode, copied_by_tiles, x), x * factor.astype(np.float32))


@jit
def staged_in_sbuf(x):
    """All tiles in one allocation on chip, read back block by block in another order."""
    on_chip = nl.alloc_tiles(
        tile_shape=(32, 20), element_shape=x.shape, buffer=nl.sbuf, dtype=x.dtype
    )
    for i in range(3):
        for j in range(3):
            nisa.dma_copy(on_chip[i, j].data, nl.tiles(x, tile_shape=(32, 20))[i, j].data)
    out = nl.alloc_blocks(
        tile_shape=(32, 20), block_shape=(2, 2), element_shape=x.shape, buffer=nl.shared_hbm,
        dtype=x.dtype,
    )  # fmt: skip
    for block in ((1, 1), (0, 1), (1, 0), (0, 0)):
        target = nl.tiles(out[block])
        source = nl.tiles(nl.blocks(on_chip, block_shape=(2, 2))[block])
        assert target.shape == source.shape
        for i in range(target.shape[0]):
            nisa.dma_copy(target[i, :].data, source[i, :].data)
    return out[:, :].data


@every_way
def test_tiles_in_sbuf_are_side_by_side(mode):
    for x in ARRAYS:
        np.testing.assert_array_equal(run(mode, staged_in_sbuf, x), x)


def hbm(*shape):
    return nl.ndarray(shape, nl.float32, buffer=nl.shared_hbm)


def test_shapes_of_tiles_and_blocks():
    with tracing():
        grid = nl.tiles(hbm(512, 1024), tile_shape=(128, 256))
        assert (grid.shape, grid.tile_shape, grid.element_shape) == (
            (4, 4),
            (128, 256),
            (512, 1024),
        )
        assert grid.index_step_elements == (128, 256) and not grid.is_remainder
        assert grid.dtype == nl.float32 and grid.buffer is nl.shared_hbm
        row = grid[1, :]
        assert isinstance(row, nl.NkiTileGrid) and row.shape == (4,)
        assert row.data.shape == row.element_shape == (128, 1024)
        assert row[2].shape == () and row[2].data.offset == 128 * 1024 + 512
        assert grid[..., -1].data.offset == 768 and grid[2].shape == (4,)
        blocks = nl.blocks(grid, block_shape=(2, 2))
        assert isinstance(blocks[0, 1], nl.NkiBlockGrid)
        assert blocks.shape == (2, 2) == blocks.block_shape
        assert blocks.index_step_elements == (256, 512)
        inner = nl.tiles(blocks[1, 0])
        assert inner.shape == (2, 2) and inner[1, 1].data.offset == 384 * 1024 + 256
        assert nl.blocks(blocks, block_shape=(4, 1)).shape == (1, 4)
        assert nl.blocks(hbm(512, 1024), tile_shape=(128, 256), block_shape=(3, 4)).shape == (2, 1)


def test_untiled_dimensions_are_indexed_slab_by_slab():
    with tracing():
        grid = nl.tiles(hbm(3, 200, 64), tile_shape=(128, 64))
        assert grid.shape == (3, 2, 1) and grid.index_step_elements == (1, 128, 64)
        tile = grid[2, 1, 0]
        assert tile.element_shape == tile.data.shape == (1, 72, 64) and tile.is_remainder
        assert tile.data.offset == 2 * 200 * 64 + 128 * 64
        assert grid[0:3:2].data.shape == (2, 200, 64)


def test_a_selection_with_gaps_has_no_data():
    with tracing():
        grid = nl.tiles(hbm(512, 1024), tile_shape=(128, 256))
        strided = grid[0:4:2, 1]
        assert strided.shape == (2,) and strided.element_shape == (256, 256)
        assert strided.index_step_elements == (256,) and not strided.is_data_representable
        assert strided[1].is_data_representable and strided[1].data.offset == 256 * 1024 + 256
        with refused("NKI-TILE-GRID", "access pattern"):
            strided.data
        packed = nl.empty_like(strided)
        assert type(packed) is nl.NkiTileGrid and packed.data.shape == (256, 256)
        assert packed.shape == (2,) and packed.index_step_elements == (128,)


def test_tiles_on_chip_have_room_for_whole_tiles():
    with tracing():
        grid = nl.alloc_tiles(
            tile_shape=(128, 64), element_shape=(200, 100), buffer=nl.sbuf, dtype=nl.bfloat16
        )
        assert grid.backing.shape == (128, 4 * 64)
        edge = grid[1, 1].data
        assert (edge.shape, edge.offset) == ((72, 36), 3 * 64)
        assert grid[1, :].data.shape == (72, 100) and not grid[:, 0].is_data_representable
        small = nl.empty_like(grid[1, :], dtype=nl.float32, buffer=nl.psum)
        assert small.backing.shape == (128, 2 * 64) and small[1].data.shape == (72, 36)
        deep = nl.alloc_tiles(
            tile_shape=(64, 2, 8), element_shape=(64, 5, 20), buffer=nl.sbuf, dtype=nl.float32
        )
        assert deep.backing.shape == (64, 9 * 16)
        tile = deep[0, 2, 2].data
        assert (tile.shape, tile.offset, tile.strides[1:]) == ((64, 1, 4), 8 * 16, (8, 1))


def test_destinations_of_transposes():
    with tracing():
        tile = nl.ndarray((100, 60), nl.bfloat16)
        assert nl.empty_like(tile, transpose_axes=(1, 0)).shape == (60, 100)
        grid = nl.empty_like(nl.tiles(hbm(256, 100), tile_shape=(128, 50)), transpose_axes=(1, 0))
        assert grid.tile_shape == (50, 128) and grid.shape == (2, 2) and grid.buffer is nl.sbuf
        with refused("NKI-TILE-GRID", "(3, 1, 2, 0)"):
            nl.empty_like(tile, transpose_axes=(0, 1))
        with refused("NKI-PARTITION", "200"):
            nl.empty_like(nl.ndarray((100, 200), nl.bfloat16), transpose_axes=(1, 0))


REFUSED = {
    "no tile shape": (lambda t, g: nl.tiles(t), "NKI-TILE-GRID", "tuple"),
    "list": (lambda t, g: nl.tiles(t, tile_shape=[128, 64]), "NKI-TILE-GRID", "tuple"),
    "bool": (lambda t, g: nl.tiles(t, tile_shape=(True, 64)), "NKI-TILE-GRID", "tuple"),
    "zero": (lambda t, g: nl.tiles(t, tile_shape=(0, 64)), "NKI-TILE-GRID", "below 1"),
    "rank": (lambda t, g: nl.tiles(t, tile_shape=(1, 1, 1)), "NKI-TILE-GRID", "last dimensions"),
    "an array": (lambda t, g: nl.tiles(np.zeros(4), tile_shape=(4,)), "NKI-TILE-GRID", "no tiles"),
    "other tiles": (lambda t, g: nl.tiles(g, tile_shape=(64, 64)), "NKI-TILE-GRID", "leave it out"),
    "block rank": (lambda t, g: nl.blocks(g, block_shape=(2,)), "NKI-TILE-GRID", "one number"),
    "coordinate": (lambda t, g: g[4, 0], "NKI-INDEX", "has 4"),
    "slice": (lambda t, g: g[0:5], "NKI-INDEX", "has 4"),
    "backwards": (lambda t, g: g[::-1], "NKI-INDEX", "step -1"),
    "too many": (lambda t, g: g[0, 0, 0], "NKI-INDEX", "3 indices"),
    "text": (lambda t, g: g["a"], "NKI-INDEX", "no coordinate"),
    "consumed": (lambda t, g: g[0, 0][0], "NKI-INDEX", "0 dimensions"),
    "iterated": (lambda t, g: list(g), "NKI-TILE-GRID", "iterate"),
    "by hand": (lambda t, g: nl.NkiTileGrid(shape=(4, 4)), "NKI-TILE-GRID", "nl.tiles"),
    "one dimension": (lambda t, g: nl.alloc_tiles(tile_shape=(4,), element_shape=(4,), buffer=nl.sbuf, dtype=nl.float32), "NKI-TILE-GRID", "2 dimensions"),
    "buffer": (lambda t, g: nl.alloc_tiles(tile_shape=(4, 4), element_shape=(4, 4), buffer="sbuf", dtype=nl.float32), "NKI-TILE-GRID", "MemoryRegion"),
    "operand": (lambda t, g: nisa.dma_copy(dst=g, src=t), "NKI-OPERAND", "NkiTileGrid"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_grids_are_refused(case):
    make, code, word = REFUSED[case]
    with tracing():
        tensor = hbm(512, 256)
        with refused(code, word):
            make(tensor, nl.tiles(tensor, tile_shape=(128, 64)))


def test_errors_are_those_that_the_documents_name():
    with tracing():
        for shape, error in (([1], TypeError), ((0, 1), ValueError)):
            with pytest.raises(error):
                nl.tiles(hbm(4, 4), tile_shape=shape)
