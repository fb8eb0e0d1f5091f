"""A NumPy script with one NKI kernel: (a + b) computed tile by tile."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

TILE_ROWS = nl.tile_size.pmax
TILE_COLUMNS = 512


@nki.jit
def tensor_add(a, b):
    assert a.shape == b.shape, f"shapes differ: {a.shape} and {b.shape}"
    rows, columns = a.shape
    total = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for r in nl.affine_range(rows // TILE_ROWS):
        for c in nl.affine_range(columns // TILE_COLUMNS):
            here = (
                slice(r * TILE_ROWS, (r + 1) * TILE_ROWS),
                slice(c * TILE_COLUMNS, (c + 1) * TILE_COLUMNS),
            )
            a_tile = nl.ndarray((TILE_ROWS, TILE_COLUMNS), dtype=a.dtype, buffer=nl.sbuf)
            b_tile = nl.ndarray((TILE_ROWS, TILE_COLUMNS), dtype=b.dtype, buffer=nl.sbuf)
            sum_tile = nl.ndarray((TILE_ROWS, TILE_COLUMNS), dtype=a.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=a_tile, src=a[here])
            nisa.dma_copy(dst=b_tile, src=b[here])
            nisa.tensor_tensor(dst=sum_tile, data1=a_tile, data2=b_tile, op=nl.add)
            nisa.dma_copy(dst=total[here], src=sum_tile)
    return total


if __name__ == "__main__":
    random = np.random.default_rng(0)
    a = random.standard_normal((256, 1024), dtype=np.float32)
    b = random.standard_normal((256, 1024), dtype=np.float32)
    total = tensor_add(a, b)
    print("largest difference to NumPy:", float(np.abs(total - (a + b)).max()))
