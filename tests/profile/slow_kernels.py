"""Kernels that are slow on purpose, in one way each, and the same without the fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import nki.isa as nisa
import nki.language as nl
import numpy as np

from neff.compiler import compile_kernel
from neff.program import Program
from nki_lang import jit

Kernel = Callable[..., Any]

FLOAT, HALF = np.float32, ml_dtypes.bfloat16


@dataclass(frozen=True)
class Pair:
    """A fault: kernels with and without it, and the shapes and types of their arguments."""

    code: str
    make: Callable[[bool], Kernel]
    shapes: tuple[tuple[int, ...], ...]
    dtype: Any = FLOAT
    mended_dtype: Any = None

    def slow(self) -> Program:
        return self._program(self.make(False), self.dtype)

    def mended(self) -> Program:
        return self._program(self.make(True), self.mended_dtype or self.dtype)

    def _program(self, kernel: Kernel, dtype: Any) -> Program:
        arrays = tuple(np.ones(shape, dtype) for shape in self.shapes)
        return compile_kernel(jit(kernel).trace(arrays, target="trn2"))


PAIRS: dict[str, Pair] = {}


def pair(
    code: str, *shapes: tuple[int, ...], dtype: Any = FLOAT, mended_dtype: Any = None
) -> Callable[[Callable[[bool], Kernel]], Callable[[bool], Kernel]]:
    def added(make: Callable[[bool], Kernel]) -> Callable[[bool], Kernel]:
        PAIRS[make.__name__] = Pair(code, make, shapes, dtype, mended_dtype)
        return make

    return added


def sbuf(shape: tuple[int, ...], dtype: Any = nl.float32) -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)


def psum(shape: tuple[int, ...], dtype: Any = nl.float32) -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=nl.psum)


def hbm(shape: tuple[int, ...], dtype: Any) -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)


def load(src: Any, shape: tuple[int, ...], dtype: Any = None) -> Any:
    tile = sbuf(shape, dtype or src.dtype)
    nisa.dma_copy(dst=tile, src=src)
    return tile


def rows(x: Any, number: int, count: int = 128) -> Any:
    return x[number * count : (number + 1) * count, :]


def columns(x: Any, number: int, count: int) -> Any:
    return x[:, number * count : (number + 1) * count]


@pair("PERF-SINGLE-BUFFER", (1024, 1024))
def single_buffer(good: bool) -> Kernel:
    def kernel(x: Any) -> Any:
        out = hbm(x.shape, x.dtype)
        tile = sbuf((128, 1024))
        for i in range(8):
            if good:
                tile = sbuf((128, 1024))
            nisa.dma_copy(dst=tile, src=rows(x, i))
            nisa.activation(dst=tile, op=nl.exp, data=tile)
            nisa.dma_copy(dst=rows(out, i), src=tile)
        return out

    return kernel


@pair("PERF-SINGLE-BUFFER", (1024, 1024))
def single_buffer_of_a_softmax(good: bool) -> Kernel:
    """Mended by two buffers in turn."""

    def kernel(x: Any) -> Any:
        out = hbm(x.shape, x.dtype)
        tiles = [(sbuf((128, 1024)), sbuf((128, 1)), sbuf((128, 1))) for _ in range(1 + good)]
        for i in range(8):
            tile, top, total = tiles[i % len(tiles)]
            nisa.dma_copy(dst=tile, src=rows(x, i))
            nisa.tensor_reduce(dst=top, op=nl.maximum, data=tile, axis=1, negate=True)
            nisa.activation_reduce(
                dst=tile, op=nl.exp, data=tile, bias=top, reduce_op=nl.add, reduce_res=total
            )
            nisa.reciprocal(dst=total, data=total)
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
            nisa.dma_copy(dst=rows(out, i), src=tile)
        return out

    return kernel


@pair("PERF-PSUM-BUFFER", (128, 8, 128), (128, 8, 4096), dtype=HALF)
def single_bank(good: bool) -> Kernel:
    def kernel(a: Any, b: Any) -> Any:
        out = hbm((128, 4096), nl.bfloat16)
        left, right = load(a, (128, 8, 128)), load(b, (128, 8, 4096))
        bank = psum((128, 512))
        for i in range(8):
            if good:
                bank = psum((128, 512))
            result = sbuf((128, 512), nl.bfloat16)
            for k in range(8):
                moving = right[:, k, i * 512 : (i + 1) * 512]
                nisa.nc_matmul(dst=bank, stationary=left[:, k, :], moving=moving, accumulate=k > 0)
            nisa.activation(dst=result, op=nl.gelu, data=bank)
            nisa.dma_copy(dst=columns(out, i, 512), src=result)
        return out

    return kernel


@pair("PERF-TABLES", (1024, 512))
def functions_in_turn(good: bool) -> Kernel:
    def kernel(x: Any) -> Any:
        out = hbm(x.shape, x.dtype)
        tiles = [load(rows(x, i), (128, 512)) for i in range(8)]

        def first(tile: Any) -> None:
            nisa.activation(dst=tile, op=nl.exp, data=tile)

        def second(i: int, tile: Any) -> None:
            nisa.activation(dst=tile, op=nl.tanh, data=tile)
            nisa.dma_copy(dst=rows(out, i), src=tile)

        if good:
            for tile in tiles:
                first(tile)
        for i, tile in enumerate(tiles):
            if not good:
                first(tile)
            second(i, tile)
        return out

    return kernel


@pair("PERF-DMA-ROWS", (256, 2048), (256, 2048))
def short_rows(good: bool) -> Kernel:
    width = 512 if good else 16

    def kernel(x: Any, y: Any) -> Any:
        out = hbm(x.shape, x.dtype)
        for r in range(2):
            for i in range(2048 // width):
                left = load(columns(rows(x, r), i, width), (128, width))
                right = load(columns(rows(y, r), i, width), (128, width))
                nisa.tensor_tensor(dst=left, data1=left, data2=right, op=nl.add)
                nisa.dma_copy(dst=columns(rows(out, r), i, width), src=left)
        return out

    return kernel


@pair("PERF-DMA-ROWS", (128, 128), (128, 2048), dtype=HALF)
def short_rows_of_a_product(good: bool) -> Kernel:
    width = 512 if good else 32

    def kernel(a: Any, b: Any) -> Any:
        out = hbm((128, 2048), nl.bfloat16)
        left = load(a, (128, 128))
        for i in range(2048 // width):
            right = load(columns(b, i, width), (128, width))
            bank, result = psum((128, width)), sbuf((128, width), nl.bfloat16)
            nisa.nc_matmul(dst=bank, stationary=left, moving=right)
            nisa.tensor_copy(dst=result, src=bank)
            nisa.dma_copy(dst=columns(out, i, width), src=result)
        return out

    return kernel


@pair("PERF-PARTITIONS", (128, 512), (1, 512))
def one_row_at_a_time(good: bool) -> Kernel:
    """A layernorm."""
    lanes = 128 if good else 1

    def kernel(x: Any, weight: Any) -> Any:
        out = hbm(x.shape, x.dtype)
        scale = sbuf((lanes, 512))
        nisa.dma_copy(dst=scale, src=weight.ap(pattern=[[0, lanes], [1, 512]]))
        for i in range(128 // lanes):
            tile = load(rows(x, i, lanes), (lanes, 512))
            stats, moments = sbuf((lanes, 6)), sbuf((lanes, 2))
            nisa.bn_stats(dst=stats, data=tile)
            nisa.bn_aggr(dst=moments, data=stats)
            nisa.activation(dst=moments[:, 1:2], op=nl.rsqrt, data=moments[:, 1:2])
            nisa.tensor_scalar(
                dst=tile, data=tile, op0=nl.subtract, operand0=moments[:, 0:1],
                op1=nl.multiply, operand1=moments[:, 1:2],
            )  # fmt: skip
            nisa.tensor_tensor(dst=tile, data1=tile, data2=scale, op=nl.multiply)
            nisa.dma_copy(dst=rows(out, i, lanes), src=tile)
        return out

    return kernel


@pair("PERF-HBM-ROUND-TRIP", (1024, 1024))
def two_passes(good: bool) -> Kernel:
    def kernel(x: Any) -> Any:
        out = hbm(x.shape, x.dtype)
        between = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.private_hbm)
        tiles = []
        for i in range(8):
            tile = load(rows(x, i), (128, 1024))
            nisa.activation(dst=tile, op=nl.exp, data=tile)
            tiles.append(tile)
            if not good:
                nisa.dma_copy(dst=rows(between, i), src=tile)
        for i in range(8):
            tile = tiles[i] if good else load(rows(between, i), (128, 1024))
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
            nisa.dma_copy(dst=rows(out, i), src=tile)
        return out

    return kernel


@pair("PERF-HBM-ROUND-TRIP", (128, 128), (128, 2048), (2048, 256), dtype=HALF)
def hidden_layer_in_hbm(good: bool) -> Kernel:
    def kernel(a: Any, b: Any, c: Any) -> Any:
        out = hbm((128, 256), nl.float32)
        between = nl.ndarray((2048, 128), dtype=nl.bfloat16, buffer=nl.private_hbm)
        left, right = load(a, (128, 128)), load(b, (128, 2048))
        tiles = []
        for i in range(16):
            bank, tile = psum((128, 128)), sbuf((128, 128), nl.bfloat16)
            nisa.nc_matmul(dst=bank, stationary=columns(right, i, 128), moving=left)
            nisa.activation(dst=tile, op=nl.gelu, data=bank)
            tiles.append(tile)
            if not good:
                nisa.dma_copy(dst=rows(between, i), src=tile)
        total = psum((128, 256))
        for i in range(16):
            tile = tiles[i] if good else load(rows(between, i), (128, 128))
            weight = load(rows(c, i), (128, 256))
            nisa.nc_matmul(dst=total, stationary=tile, moving=weight, accumulate=i > 0)
        result = sbuf((128, 256))
        nisa.tensor_copy(dst=result, src=total)
        nisa.dma_copy(dst=out, src=result)
        return out

    return kernel


def product(inside: Any, steps: int) -> Kernel:
    def kernel(a: Any, b: Any) -> Any:
        out = hbm((128, 2048), nl.float32)
        left = load(a, (128, steps, 128), inside or a.dtype)
        right = load(b, (128, steps, 2048), inside or b.dtype)
        for i in range(4):
            bank, result = psum((128, 512)), sbuf((128, 512))
            for k in range(steps):
                moving = right[:, k, i * 512 : (i + 1) * 512]
                nisa.nc_matmul(dst=bank, stationary=left[:, k, :], moving=moving, accumulate=k > 0)
            nisa.tensor_copy(dst=result, src=bank)
            nisa.dma_copy(dst=columns(out, i, 512), src=result)
        return out

    return kernel


@pair("PERF-FP32", (128, 8, 128), (128, 8, 2048), mended_dtype=HALF)
def product_in_fp32(good: bool) -> Kernel:
    """Mended by other inputs."""
    return product(None, 8)


@pair("PERF-FP32", (1024, 1024), dtype=HALF)
def tiles_in_fp32(good: bool) -> Kernel:
    inside = nl.bfloat16 if good else nl.float32

    def kernel(x: Any) -> Any:
        out = hbm(x.shape, x.dtype)
        for i in range(8):
            tile = load(rows(x, i), (128, 1024), inside)
            for _ in range(4):
                nisa.tensor_scalar(
                    dst=tile, data=tile, op0=nl.multiply, operand0=2.0, engine=nisa.engine.vector
                )
            nisa.dma_copy(dst=rows(out, i), src=tile)
        return out

    return kernel


@pair("PERF-IDLE-ENGINE", (128, 128), (128, 4096), dtype=HALF)
def all_on_one_engine(good: bool) -> Kernel:
    engine = nisa.scalar_engine if good else nisa.engine.vector

    def kernel(a: Any, b: Any) -> Any:
        out = hbm((128, 4096), nl.bfloat16)
        left = load(a, (128, 128))
        for i in range(8):
            right, bank = load(columns(b, i, 512), (128, 512)), psum((128, 512))
            copy, result = sbuf((128, 512), nl.bfloat16), sbuf((128, 512), nl.bfloat16)
            nisa.nc_matmul(dst=bank, stationary=left, moving=right)
            nisa.tensor_copy(dst=copy, src=bank, engine=engine)
            nisa.tensor_tensor(
                dst=result, data1=copy, data2=bank, op=nl.multiply, engine=nisa.engine.vector
            )
            nisa.tensor_reduce(dst=result[:, 0:1], op=nl.add, data=copy, axis=1)
            nisa.dma_copy(dst=columns(out, i, 512), src=result)
        return out

    return kernel


@pair("PERF-GPSIMD", (128, 512))
def a_chain_without_engines(good: bool) -> Kernel:
    """Each maximum waits for the one before, so nothing is gained by taking turns."""
    named: dict[str, Any] = {"engine": nisa.engine.vector} if good else {}

    def kernel(x: Any) -> Any:
        out, tile = hbm((128, 512), nl.float32), load(x, (128, 512))
        for number in range(24):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.maximum, operand0=float(number), **named)
        nisa.dma_copy(dst=out, src=tile)
        return out

    return kernel


@pair("PERF-GPSIMD", (1024, 512))
def a_copy_on_gpsimd(good: bool) -> Kernel:
    engine = nisa.scalar_engine if good else nisa.gpsimd_engine

    def kernel(x: Any) -> Any:
        out = hbm(x.shape, x.dtype)
        for i in range(8):
            tile, copy = load(rows(x, i), (128, 512)), sbuf((128, 512))
            nisa.tensor_copy(dst=copy, src=tile, engine=engine)
            for _ in range(2):
                nisa.tensor_scalar(
                    dst=copy, data=copy, op0=nl.maximum, operand0=0.5, engine=nisa.engine.vector
                )
            nisa.dma_copy(dst=rows(out, i), src=copy)
        return out

    return kernel


@pair("PERF-COLD-TENSOR", (128, 2048), (128, 2048), (128, 2048), dtype=HALF)
def products_in_turn(good: bool) -> Kernel:
    """Two products a tile, the second one on the first one's exponentials."""

    def kernel(q: Any, k: Any, v: Any) -> Any:
        out = hbm((2048, 128), nl.float32)
        query, key, value = (load(tensor, (128, 2048)) for tensor in (q, k, v))

        def first(i: int) -> Any:
            bank, scores = psum((128, 128)), sbuf((128, 128), nl.bfloat16)
            nisa.nc_matmul(dst=bank, stationary=columns(key, i, 128), moving=columns(query, i, 128))
            nisa.activation(dst=scores, op=nl.exp, data=bank)
            return scores

        def second(i: int, scores: Any) -> None:
            bank, result = psum((128, 128)), sbuf((128, 128))
            nisa.nc_matmul(dst=bank, stationary=scores, moving=columns(value, i, 128))
            nisa.tensor_copy(dst=result, src=bank)
            nisa.dma_copy(dst=rows(out, i), src=result)

        if good:
            for i, scores in enumerate([first(i) for i in range(16)]):
                second(i, scores)
        else:
            for i in range(16):
                second(i, first(i))
        return out

    return kernel


@pair("PERF-RELOAD", (128, 2048), (1024, 2048))
def weight_in_the_loop(good: bool) -> Kernel:
    def kernel(w: Any, x: Any) -> Any:
        out = hbm(x.shape, x.dtype)
        weight = load(w, (128, 2048)) if good else None
        for i in range(8):
            tile = load(rows(x, i), (128, 2048))
            factor = weight if good else load(w, (128, 2048))
            nisa.tensor_tensor(dst=tile, data1=tile, data2=factor, op=nl.add)
            nisa.dma_copy(dst=rows(out, i), src=tile)
        return out

    return kernel


@pair("PERF-TRANSPOSES", (1024, 128), (128, 256), dtype=HALF)
def transposed_on_chip(good: bool) -> Kernel:
    def kernel(a: Any, b: Any) -> Any:
        out = hbm((1024, 256), nl.bfloat16)
        right = load(b, (128, 256))
        for i in range(8):
            left = load(rows(a, i), (128, 128))
            if not good:
                turned = psum((128, 128), nl.bfloat16)
                nisa.nc_transpose(dst=turned, data=left)
                left = sbuf((128, 128), nl.bfloat16)
                nisa.tensor_copy(dst=left, src=turned)
            bank, result = psum((128, 256)), sbuf((128, 256), nl.bfloat16)
            nisa.nc_matmul(dst=bank, stationary=left, moving=right)
            nisa.tensor_copy(dst=result, src=bank)
            nisa.dma_copy(dst=rows(out, i), src=result)
        return out

    return kernel


@pair("PERF-ONE-QUEUE", (2048, 1024), (2048, 1024), dtype=HALF)
def one_queue(good: bool) -> Kernel:
    def kernel(x: Any, y: Any) -> Any:
        out = hbm((2048, 64), x.dtype)
        for i in range(16):
            result = sbuf((128, 64), x.dtype)
            for k in range(4):
                left, right = sbuf((128, 256), x.dtype), sbuf((128, 256), x.dtype)
                options = (
                    {"engine": nisa.scalar_engine, "dge_mode": nisa.dge_mode.hwdge} if good else {}
                )
                nisa.dma_copy(dst=left, src=columns(rows(x, i), k, 256))
                nisa.dma_copy(dst=right, src=columns(rows(y, i), k, 256), **options)
                nisa.tensor_tensor(
                    dst=left, data1=left, data2=right, op=nl.add, engine=nisa.engine.vector
                )
                nisa.tensor_copy(
                    dst=result[:, k * 16 : k * 16 + 16], src=left[:, :16], engine=nisa.engine.vector
                )
            nisa.dma_copy(dst=rows(out, i), src=result)
        return out

    return kernel


@pair("PERF-DMA-ROWS", (512, 512))
def short_rows_into_one_tile(good: bool) -> Kernel:
    width = 512 if good else 32

    def kernel(x: Any) -> Any:
        out = hbm(x.shape, x.dtype)
        for r in range(4):
            tile, total = sbuf((128, 512)), sbuf((128, 1))
            for i in range(512 // width):
                nisa.dma_copy(dst=columns(tile, i, width), src=columns(rows(x, r), i, width))
            nisa.activation_reduce(
                dst=tile, op=nl.exp, data=tile, reduce_op=nl.add, reduce_res=total
            )
            nisa.reciprocal(dst=total, data=total)
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
            nisa.dma_copy(dst=rows(out, r), src=tile)
        return out

    return kernel


@pair("PERF-DMA-ROWS", (2048, 128))
def across_the_rows(good: bool) -> Kernel:
    def kernel(x: Any) -> Any:
        out = hbm(x.shape, x.dtype)
        pattern = [[1024, 128], [1, 1024]] if good else [[1, 128], [128, 1024]]
        for i in range(2):
            tile = sbuf((128, 1024))
            nisa.dma_copy(dst=tile, src=x.ap(pattern=pattern, offset=i * 131072))
            nisa.activation(dst=tile, op=nl.exp, data=tile)
            nisa.dma_copy(dst=out.ap(pattern=pattern, offset=i * 131072), src=tile)
        return out

    return kernel


@pair("PERF-PARTITIONS", (1, 32768))
def one_long_row(good: bool) -> Kernel:
    shape = (128, 256) if good else (1, 32768)

    def kernel(x: Any) -> Any:
        out = hbm(x.shape, x.dtype)
        tile = load(x.reshape(shape), shape)
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out.reshape(shape), src=tile)
        return out

    return kernel


@pair("PERF-DMA-TRANSPOSE", (8192, 128))
def transposing_loads(good: bool) -> Kernel:
    """Mended by an input that lies the other way."""

    def kernel(x: Any) -> Any:
        out = hbm((128, 8192), x.dtype)
        for i in range(4):
            tile = sbuf((128, 2048), x.dtype)
            if good:
                nisa.dma_copy(dst=tile, src=columns(x.reshape((128, 8192)), i, 2048))
            else:
                nisa.dma_transpose(dst=tile, src=rows(x, i, 2048))
            nisa.activation(dst=tile, op=nl.exp, data=tile)
            nisa.dma_copy(dst=columns(out, i, 2048), src=tile)
        return out

    return kernel


@pair("PERF-ACTIVATION-SUM", (128, 4096))
def sum_of_exponentials(good: bool) -> Kernel:
    def kernel(x: Any) -> Any:
        out = hbm(x.shape, x.dtype)
        tiles = load(x, (128, 4096))
        for i in range(8):
            total, result = sbuf((128, 1)), sbuf((128, 512))
            tile = sbuf((128, 512))
            if good:
                nisa.activation_reduce(
                    dst=tile,
                    op=nl.exp,
                    data=columns(tiles, i, 512),
                    reduce_op=nl.add,
                    reduce_res=total,
                )
            else:
                nisa.activation(dst=tile, op=nl.exp, data=columns(tiles, i, 512))
                nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)
            nisa.tensor_scalar(
                dst=result, data=tile, op0=nl.multiply, operand0=total, engine=nisa.engine.vector
            )
            nisa.tensor_tensor(
                dst=result, data1=result, data2=tile, op=nl.subtract, engine=nisa.engine.vector
            )
            nisa.dma_copy(dst=columns(out, i, 512), src=result)
        return out

    return kernel


@pair("PERF-SCALAR-STEPS", (128, 4096))
def one_operator_at_a_time(good: bool) -> Kernel:
    def kernel(x: Any) -> Any:
        out = hbm(x.shape, x.dtype)
        tiles = load(x, (128, 4096))
        for i in range(8):
            result, scaled = sbuf((128, 512)), sbuf((128, 512))
            tile, vector = columns(tiles, i, 512), nisa.engine.vector
            if good:
                nisa.tensor_scalar(
                    dst=result, data=tile, op0=nl.multiply, operand0=3.0, op1=nl.add, operand1=1.0,
                    engine=vector,
                )  # fmt: skip
            else:
                nisa.tensor_scalar(
                    dst=scaled, data=tile, op0=nl.multiply, operand0=3.0, engine=vector
                )
                nisa.tensor_scalar(dst=result, data=scaled, op0=nl.add, operand0=1.0, engine=vector)
            nisa.tensor_tensor(dst=result, data1=result, data2=tile, op=nl.multiply, engine=vector)
            nisa.dma_copy(dst=columns(out, i, 512), src=result)
        return out

    return kernel
