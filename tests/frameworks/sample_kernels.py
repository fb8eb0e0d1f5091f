"""Kernels that the tests of the frameworks call."""

import nki
import nki.isa as nisa
import nki.language as nl


def _tiles(tensor, rows=128, columns=512):
    height, width = tensor.shape
    assert height % rows == 0, f"{height} rows do not divide into tiles of {rows}"
    assert width % columns == 0, f"{width} columns do not divide into tiles of {columns}"
    return [
        (
            slice(row * rows, (row + 1) * rows),
            slice(column * columns, (column + 1) * columns),
        )
        for row in nl.affine_range(height // rows)
        for column in nl.affine_range(width // columns)
    ]


def _add_tile(destination, a, b):
    a_tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    b_tile = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
    total = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=a_tile, src=a)
    nisa.dma_copy(dst=b_tile, src=b)
    nisa.tensor_tensor(dst=total, data1=a_tile, data2=b_tile, op=nl.add)
    nisa.dma_copy(dst=destination, src=total)


def add(a_input, b_input):
    assert a_input.shape == b_input.shape, f"{a_input.shape} and {b_input.shape} differ"
    assert a_input.dtype == b_input.dtype, f"{a_input.dtype} and {b_input.dtype} differ"
    c_output = nl.ndarray(a_input.shape, dtype=a_input.dtype, buffer=nl.shared_hbm)
    for tile in _tiles(a_input):
        _add_tile(c_output[tile], a_input[tile], b_input[tile])
    return c_output


nki_tensor_add = nki.jit(platform_target="trn1")(add)


def add_into(in1, in2, out):
    """Writes its last argument and returns nothing."""
    for tile in _tiles(in1):
        _add_tile(out[tile], in1[tile], in2[tile])


def add_to_first_rows(values, out):
    """Writes the first 128 rows of ``out`` only."""
    tile = nl.ndarray((128, values.shape[1]), dtype=values.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=values)
    nisa.dma_copy(dst=out[0:128, :], src=tile)
    return out


def double_in_place(values):
    """Reads and writes its argument."""
    for tile in _tiles(values, columns=values.shape[1]):
        _add_tile(values[tile], values[tile], values[tile])
    return values


def scaled(values, factor, bias=0.0):
    """One tensor, two constants."""
    result = nl.ndarray(values.shape, dtype=values.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(values.shape, dtype=values.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=values)
    scaled_tile = nl.ndarray(values.shape, dtype=values.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(
        dst=scaled_tile, data=tile, op0=nl.multiply, operand0=factor, op1=nl.add, operand1=bias
    )
    nisa.dma_copy(dst=result, src=scaled_tile)
    return result


def sum_and_double(a, b):
    """Two results."""
    total = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    twice = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    _add_tile(total, a, b)
    _add_tile(twice, a, a)
    return total, twice


def too_large_tile(values):
    """Breaks the limit of 128 partitions."""
    tile = nl.ndarray((256, 512), dtype=values.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=values)
    return values


def add_planes(in1, in2, out):
    """Beta 1 style: one program of a grid for each pair of leading indices."""
    i, j = nl.program_id(0), nl.program_id(1)
    _add_tile(out[i, j], in1[i, j], in2[i, j])


def _subtract_tile(destination, a, b):
    a_tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    b_tile = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
    difference = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=a_tile, src=a)
    nisa.dma_copy(dst=b_tile, src=b)
    nisa.tensor_tensor(dst=difference, data1=a_tile, data2=b_tile, op=nl.subtract)
    nisa.dma_copy(dst=destination, src=difference)


def through_identity(values):
    """Transposes on the tensor engine with an identity matrix that travels with the kernel."""
    rows, columns = values.shape
    result = nl.ndarray((columns, rows), dtype=values.dtype, buffer=nl.shared_hbm)
    identity = nl.shared_identity_matrix(rows, dtype=values.dtype)
    tile = nl.ndarray(values.shape, dtype=values.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=values)
    turned = nl.ndarray((columns, rows), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=turned, stationary=tile, moving=identity)
    copied = nl.ndarray((columns, rows), dtype=values.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=copied, src=turned)
    nisa.dma_copy(dst=result, src=copied)
    return result


@nki.jit
def scales(values):
    """The exponents of 32 elements, a dtype that torch_xla lacks."""
    result = nl.ndarray((1, 32), dtype=nl.float8_e8m0fnu, buffer=nl.shared_hbm)
    tile = nl.ndarray((1, 32), dtype=nl.float8_e8m0fnu, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=values[0:1, 0:32])
    nisa.dma_copy(dst=result, src=tile)
    return result
