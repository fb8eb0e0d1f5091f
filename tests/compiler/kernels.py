"""Kernels that the compiler's tests call, traced and written without any framework."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nki_lang
import nki_lang.isa as nisa
import nki_lang.language as nl
from hlo_tools.kernels.backend_config import BackendConfig, encode
from nki_lang import klir
from nki_lang.ir import KernelIR
from nki_lang.tracing.arguments import TensorSpec


def add(a_input: Any, b_input: Any) -> Any:
    c_output = nl.ndarray(a_input.shape, dtype=a_input.dtype, buffer=nl.shared_hbm)
    a = nl.ndarray(a_input.shape, dtype=a_input.dtype, buffer=nl.sbuf)
    b = nl.ndarray(a_input.shape, dtype=a_input.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=a, src=a_input)
    nisa.dma_copy(dst=b, src=b_input)
    nisa.tensor_tensor(dst=a, data1=a, data2=b, op=nl.add)
    nisa.dma_copy(dst=c_output, src=a)
    return c_output


def double_in_place(values: Any) -> Any:
    tile = nl.ndarray(values.shape, dtype=values.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=values)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)
    nisa.dma_copy(dst=values, src=tile)
    return values


def tiled_matmul(lhsT: Any, rhs: Any) -> Any:
    depth, rows = lhsT.shape
    columns = rhs.shape[1]
    result = nl.ndarray((rows, columns), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(rows // 128):
        total = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.psum)
        for k in nl.affine_range(depth // 128):
            left = nl.ndarray((128, 128), dtype=lhsT.dtype, buffer=nl.sbuf)
            right = nl.ndarray((128, columns), dtype=rhs.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=left, src=lhsT[k * 128 : (k + 1) * 128, m * 128 : (m + 1) * 128])
            nisa.dma_copy(dst=right, src=rhs[k * 128 : (k + 1) * 128, :])
            nisa.nc_matmul(dst=total, stationary=left, moving=right)
        tile = nl.ndarray((128, columns), dtype=lhsT.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=tile, src=total)
        nisa.dma_copy(dst=result[m * 128 : (m + 1) * 128, :], src=tile)
    return result


def rotated(values: Any, cosine: Any, sine: Any) -> Any:
    """The halves of a vector turned; its small tiles fit only side by side and in place."""
    rows, columns = values.shape
    half = rows // 2
    x = nl.ndarray((rows, columns), dtype=values.dtype, buffer=nl.sbuf)
    c = nl.ndarray((half, 1), dtype=values.dtype, buffer=nl.sbuf)
    s = nl.ndarray((half, 1), dtype=values.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=values)
    nisa.dma_copy(dst=c, src=cosine)
    nisa.dma_copy(dst=s, src=sine)
    odd = nl.ndarray((half, columns), dtype=values.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=odd, src=x[half:, :])
    products: list[Any] = []
    for data, factor in ((x[:half, :], c), (odd, c), (x[:half, :], s), (odd, s)):
        product = nl.ndarray((half, columns), dtype=values.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(product, data, nl.multiply, factor)
        products.append(product)
    y = nl.ndarray((rows, columns), dtype=values.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(y[:half, :], products[0], products[3], nl.subtract)
    nisa.tensor_tensor(y[half:, :], products[1], products[2], nl.add)
    out = nl.ndarray((rows, columns), dtype=values.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=y)
    return out


def doubled_and_turned(values: Any) -> Any:
    """The double, transposed: computed on chip before it is turned."""
    rows, columns = values.shape
    tile = nl.ndarray((rows, columns), dtype=values.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=values)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    turned = nl.ndarray((columns, rows), dtype=values.dtype, buffer=nl.psum)
    nisa.nc_transpose(turned, tile, engine=nisa.engine.tensor)
    result = nl.ndarray((columns, rows), dtype=values.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(result, turned)
    out = nl.ndarray((columns, rows), dtype=values.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=result)
    return out


def counted(values: Any) -> Any:
    """Adds one eight times, in a loop of the device."""
    out = nl.ndarray(values.shape, dtype=values.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(values.shape, dtype=values.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=values)
    for _ in nl.dynamic_range(8):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    nisa.dma_copy(dst=out, src=tile)
    return out


def doubled_by_halves(values: Any) -> Any:
    """Each core doubles half of the rows."""
    out = nl.ndarray(values.shape, dtype=values.dtype, buffer=nl.shared_hbm)
    rows = values.shape[0] // 2
    begin = nl.program_id(0) * rows
    tile = nl.ndarray((rows, values.shape[1]), dtype=values.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=values[begin : begin + rows])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out[begin : begin + rows], src=tile)
    return out


def traced(
    function: Any, *shapes: tuple[int, ...], target: str = "trn2", grid: Any = ()
) -> KernelIR:
    """The kernel for float32 arguments of these shapes."""
    specs = tuple(TensorSpec(shape, "float32") for shape in shapes)
    return nki_lang.trace(function, specs, target=target, grid=grid)


def written(kernel: KernelIR, folder: Path) -> str:
    """The ``backend_config`` of a kernel that is written into a folder, named relative to it."""
    path = folder / f"{kernel.name}.klir"
    klir.write(kernel, path)
    inputs = [tensor.name for tensor in kernel.inputs]
    constants = [constant.tensor.name for constant in kernel.constants]
    outputs = [tensor.name for tensor in kernel.outputs]
    return encode(
        BackendConfig(path.name, [*inputs, *constants], outputs, kernel.name, kernel.grid)
    )
