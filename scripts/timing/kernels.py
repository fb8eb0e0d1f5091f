"""Kernels that others measured, written again in the current language from their descriptions.

``CASES`` has one entry a measured row: its name, the target, the statistic that was measured, and
what traces the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.base.dtypes import BY_NAME
from nki_lang.ir import KernelIR
from nki_lang.kernel import Kernel

__all__ = ["CASES", "Case"]

SYNC, SCALAR, VECTOR = nisa.engine.sync, nisa.engine.scalar, nisa.engine.vector
P = 128


def _issue(dst: Any, src: Any, engine: Any) -> None:
    """A transfer that an engine's queue issues; trn1 has no hardware descriptors."""
    if nisa.get_nc_version() == nisa.nc_version.gen2:
        nisa.dma_copy(dst, src)
    else:
        nisa.dma_copy(dst, src, dge_mode=nisa.dge_mode.hwdge, engine=engine)


def _tile(shape: tuple[int, ...], dtype: Any, buffer: Any = None) -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=buffer or nl.sbuf)


# --- adds of two vectors -----------------------------------------------------------------------


def add_tiled(a, b, chunk):
    """Turns of two loads of [chunk, 1], an addition and a store, one after the other on sync."""
    total = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for start in range(0, a.shape[0], chunk):
        rows = slice(start, start + chunk)
        left, right, summed = (_tile((chunk, 1), a.dtype) for _ in range(3))
        _issue(left, a[rows], SYNC)
        _issue(right, b[rows], SYNC)
        nisa.tensor_tensor(summed, left, right, op=nl.add, engine=VECTOR)
        _issue(total[rows], summed, SYNC)
    return total


def add_stream(a, b, columns):
    """The same with the vectors as [128, n / 128], so many columns a turn."""
    total = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for start in range(0, a.shape[1], columns):
        window = (slice(0, P), slice(start, start + columns))
        left, right, summed = (_tile((P, columns), a.dtype) for _ in range(3))
        _issue(left, a[window], SYNC)
        _issue(right, b[window], SYNC)
        nisa.tensor_tensor(summed, left, right, op=nl.add, engine=VECTOR)
        _issue(total[window], summed, SYNC)
    return total


# --- attention ---------------------------------------------------------------------------------


def attention_head(q, k, v):
    """One head with hardware descriptors; q, k, v [n, d]."""
    n, d = q.shape
    out = nl.ndarray((n, d), dtype=q.dtype, buffer=nl.shared_hbm)
    queries, keys, values = (_tile((n, d), q.dtype) for _ in range(3))
    _issue(queries, q, SYNC)
    _issue(keys, k, SCALAR)
    _issue(values, v, SYNC)
    turned_q, turned_k = (_transposed(tensor) for tensor in (queries, keys))
    scaled, ready = (_tile((d, n), q.dtype) for _ in range(2))
    nisa.activation(scaled, nl.copy, turned_q, scale=d**-0.5)
    nisa.tensor_copy(ready, turned_k, engine=VECTOR)
    scores = _tile((n, n), nl.float32, nl.psum)
    nisa.nc_matmul(scores, scaled, ready)
    highest, sums, inverse = (_tile((n, 1), nl.float32) for _ in range(3))
    nisa.tensor_reduce(highest, nl.maximum, scores, axis=1, negate=True)
    shares = _tile((n, n), q.dtype)
    nisa.activation_reduce(shares, nl.exp, scores, nl.add, sums, bias=highest)
    turned = _transposed(shares)
    weights = _tile((n, n), q.dtype)
    nisa.tensor_copy(weights, turned, engine=VECTOR)
    product = _tile((n, d), nl.float32, nl.psum)
    nisa.nc_matmul(product, weights, values)
    nisa.reciprocal(inverse, sums)
    result = _tile((n, d), q.dtype)
    nisa.tensor_scalar(result, product, nl.multiply, inverse, engine=VECTOR)
    _issue(out, result, SYNC)
    return out


def attention_heads(q, k, v):
    """All heads one after the other, software descriptors; q, k, v [n, heads, d]."""
    n, heads, d = q.shape
    out = nl.ndarray(q.shape, dtype=q.dtype, buffer=nl.shared_hbm)
    for head in range(heads):
        queries, keys, values = (_tile((n, d), q.dtype) for _ in range(3))
        for tile, tensor in ((queries, q), (keys, k), (values, v)):
            nisa.dma_copy(tile, tensor[:, head, :], dge_mode=nisa.dge_mode.swdge)
        turned = [_tile((d, n), q.dtype) for _ in range(2)]
        for tile, source in zip(turned, (queries, keys), strict=True):
            nisa.tensor_copy(tile, _transposed(source), engine=VECTOR)
        scores = _tile((n, n), nl.float32, nl.psum)
        nisa.nc_matmul(scores, *turned)
        highest, bias, sums, inverse = (_tile((n, 1), nl.float32) for _ in range(4))
        nisa.tensor_reduce(highest, nl.maximum, scores, axis=1)
        nisa.tensor_scalar(bias, highest, nl.multiply, -(d**-0.5), engine=VECTOR)
        shares = _tile((n, n), q.dtype)
        nisa.activation(shares, nl.exp, scores, bias=bias, scale=d**-0.5)
        nisa.tensor_reduce(sums, nl.add, shares, axis=1)
        weights = _tile((n, n), q.dtype)
        nisa.tensor_copy(weights, _transposed(shares), engine=VECTOR)
        product = _tile((n, d), nl.float32, nl.psum)
        nisa.nc_matmul(product, weights, values)
        nisa.reciprocal(inverse, sums)
        result = _tile((n, d), q.dtype)
        nisa.tensor_scalar(result, product, nl.multiply, inverse, engine=VECTOR)
        nisa.dma_copy(out[:, head, :], result, dge_mode=nisa.dge_mode.swdge)
    return out


def _transposed(tile: Any) -> Any:
    """Transposed by the tensor engine, in PSUM."""
    turned = _tile((tile.shape[1], tile.shape[0]), tile.dtype, nl.psum)
    nisa.nc_transpose(turned, tile, engine=nisa.engine.tensor)
    return turned


def attention_rows(q, k, v, fuses_softmax):
    """Attention of nki-samples, versions 4 and 6: q, k, v [128, n], a loop over 128 rows of q.

    Version 6 (``fuses_softmax``) subtracts the maximum and sums within the exponential, and divides
    at the end.
    """
    d, n = q.shape
    out = nl.ndarray((n, d), dtype=q.dtype, buffer=nl.shared_hbm)
    queries, keys, values = (_tile((d, n), q.dtype) for _ in range(3))
    for tile, tensor in ((queries, q), (keys, k), (values, v)):
        nisa.dma_copy(tile, tensor)
    turned_v = _tile((P, n // P, P), nl.float32)
    for number in range(n // P):
        nisa.activation(
            turned_v[:, number, :], nl.copy, _transposed(values[:, number * P : (number + 1) * P])
        )
    for row in range(0, n, P):
        banks = [_tile((P, 512), nl.float32, nl.psum) for _ in range(n // 512)]
        for number, bank in enumerate(banks):
            nisa.nc_matmul(
                bank, queries[:, row : row + P], keys[:, number * 512 : (number + 1) * 512]
            )
        shares, inverse = (_fused_softmax if fuses_softmax else _softmax)(banks, n)
        turned = _tile((P, n // P, P), nl.float32)
        for number in range(n // P):
            nisa.activation(
                turned[:, number, :], nl.copy, _transposed(shares[:, number * P : (number + 1) * P])
            )
        total, product = _tile((P, d), nl.float32), _tile((P, d), nl.float32, nl.psum)
        for number in range(n // P):
            nisa.nc_matmul(product, turned[:, number, :], turned_v[:, number, :])
        if fuses_softmax:
            nisa.tensor_scalar(total, product, nl.multiply, inverse)
        else:
            nisa.tensor_copy(total, product)
        nisa.dma_copy(out[row : row + P], total)
    return out


def _row_maximum(banks: list[Any], negate: bool) -> Any:
    maxima, highest = _tile((P, len(banks)), nl.float32), _tile((P, 1), nl.float32)
    for number, bank in enumerate(banks):
        nisa.tensor_reduce(maxima[:, number : number + 1], nl.maximum, bank, axis=1)
    nisa.tensor_reduce(highest, nl.maximum, maxima, axis=1, negate=negate)
    return highest


def _inverse_of_sum(sums: Any) -> Any:
    total, inverse = _tile((P, 1), nl.float32), _tile((P, 1), nl.float32)
    nisa.tensor_reduce(total, nl.add, sums, axis=1)
    nisa.reciprocal(inverse, total)
    return inverse


def _softmax(banks: list[Any], n: int) -> tuple[Any, Any]:
    """Each step an instruction; returns the quotients."""
    highest = _row_maximum(banks, False)
    shifted, powers, shares = (_tile((P, n), nl.float32) for _ in range(3))
    sums = _tile((P, len(banks)), nl.float32)
    windows = [slice(number * 512, (number + 1) * 512) for number in range(len(banks))]
    for window, bank in zip(windows, banks, strict=True):
        nisa.tensor_scalar(shifted[:, window], bank, nl.subtract, highest)
    for window in windows:
        nisa.activation(powers[:, window], nl.exp, shifted[:, window])
    for number, window in enumerate(windows):
        nisa.tensor_reduce(sums[:, number : number + 1], nl.add, powers[:, window], axis=1)
    inverse = _inverse_of_sum(sums)
    for window in windows:
        nisa.tensor_scalar(shares[:, window], powers[:, window], nl.multiply, inverse)
    return shares, inverse


def _fused_softmax(banks: list[Any], n: int) -> tuple[Any, Any]:
    """The maximum as a bias, sums with the exponential; returns powers and the sums' inverse."""
    highest = _row_maximum(banks, True)
    powers, sums = _tile((P, n), nl.float32), _tile((P, len(banks)), nl.float32)
    for number, bank in enumerate(banks):
        window = slice(number * 512, (number + 1) * 512)
        nisa.activation_reduce(
            powers[:, window], nl.exp, bank, nl.add, sums[:, number : number + 1], bias=highest
        )
    return powers, _inverse_of_sum(sums)


# --- matrix products ---------------------------------------------------------------------------


def product_blocked(lhs_t, rhs):
    """Blocks of 512 x 1024 in eight banks of PSUM, K in blocks of eight tiles."""
    depth, rows = lhs_t.shape
    columns = rhs.shape[1]
    out = nl.ndarray((rows, columns), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for m in range(0, rows, 512):
        for n in range(0, columns, 1024):
            banks = [[_tile((P, 512), nl.float32, nl.psum) for _ in range(2)] for _ in range(4)]
            for block in range(0, depth, 8 * P):
                left = [_tile((P, 512), lhs_t.dtype) for _ in range(8)]
                right = [_tile((P, 1024), rhs.dtype) for _ in range(8)]
                for number in range(8):
                    k = slice(block + number * P, block + (number + 1) * P)
                    _issue(left[number], lhs_t[k, m : m + 512], SYNC)
                    _issue(right[number], rhs[k, n : n + 1024], SCALAR)
                for number in range(8):
                    for i in range(4):
                        for j in range(2):
                            stationary = left[number][:, i * P : (i + 1) * P]
                            moving = right[number][:, j * 512 : (j + 1) * 512]
                            nisa.nc_matmul(banks[i][j], stationary, moving)
            for i in range(4):
                done = _tile((P, 1024), lhs_t.dtype)
                for j in range(2):
                    nisa.tensor_copy(done[:, j * 512 : (j + 1) * 512], banks[i][j], engine=VECTOR)
                location = (slice(m + i * P, m + (i + 1) * P), slice(n, n + 1024))
                _issue(out[location], done, SYNC)
    return out


def _store(out: Any, bank: Any, m: int, n: int) -> None:
    done = _tile(tuple(bank.shape), out.dtype)
    nisa.tensor_copy(done, bank, engine=VECTOR)
    nisa.dma_copy(out[m : m + bank.shape[0], n : n + bank.shape[1]], done)


def _loaded(tensor: Any, k: int, start: int, width: int) -> Any:
    tile = _tile((P, width), tensor.dtype)
    nisa.dma_copy(tile, tensor[k : k + P, start : start + width])
    return tile


def tutorial_tiled(lhs_t, rhs):
    """Both tiles loaded for each product."""
    (depth, rows), columns = lhs_t.shape, rhs.shape[1]
    out = nl.ndarray((rows, columns), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for m in range(0, rows, P):
        for n in range(0, columns, 512):
            bank = _tile((P, 512), nl.float32, nl.psum)
            for k in range(0, depth, P):
                nisa.nc_matmul(bank, _loaded(lhs_t, k, m, P), _loaded(rhs, k, n, 512))
            _store(out, bank, m, n)
    return out


def tutorial_hoisted(lhs_t, rhs):
    """The tiles of lhs loaded once for each row of tiles."""
    (depth, rows), columns = lhs_t.shape, rhs.shape[1]
    out = nl.ndarray((rows, columns), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for m in range(0, rows, P):
        left = [_loaded(lhs_t, k, m, P) for k in range(0, depth, P)]
        for n in range(0, columns, 512):
            bank = _tile((P, 512), nl.float32, nl.psum)
            for number, stationary in enumerate(left):
                nisa.nc_matmul(bank, stationary, _loaded(rhs, number * P, n, 512))
            _store(out, bank, m, n)
    return out


def tutorial_blocked(lhs_t, rhs):
    """Blocks of two tiles of rows and two of columns."""
    (depth, rows), columns = lhs_t.shape, rhs.shape[1]
    out = nl.ndarray((rows, columns), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for m in range(0, rows, 2 * P):
        left = [[_loaded(lhs_t, k, m + i * P, P) for k in range(0, depth, P)] for i in range(2)]
        for n in range(0, columns, 1024):
            right = [
                [_loaded(rhs, k, n + j * 512, 512) for k in range(0, depth, P)] for j in range(2)
            ]
            for i in range(2):
                for j in range(2):
                    bank = _tile((P, 512), nl.float32, nl.psum)
                    for stationary, moving in zip(left[i], right[j], strict=True):
                        nisa.nc_matmul(bank, stationary, moving)
                    _store(out, bank, m + i * P, n + j * 512)
    return out


def tutorial_fully_blocked(lhs_t, rhs):
    """Blocks of 16 x 2 x 8 tiles (rows, columns, depth), sums in SBUF."""
    (depth, rows), columns = lhs_t.shape, rhs.shape[1]
    out = nl.ndarray((rows, columns), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for n in range(0, columns, 1024):
        for m in range(0, rows, 16 * P):
            sums = [_tile((P, 1024), lhs_t.dtype) for _ in range(16)]
            for block in range(0, depth, 8 * P):
                steps = range(block, block + 8 * P, P)
                right = [_loaded(rhs, k, n, 1024) for k in steps]
                left = [_loaded(lhs_t, k, m, 16 * P) for k in steps]
                for i in range(16):
                    for j in range(2):
                        sum_block = sums[i][:, j * 512 : (j + 1) * 512]
                        bank = _tile((P, 512), nl.float32, nl.psum)
                        for stationary, moving in zip(left, right, strict=True):
                            nisa.nc_matmul(
                                bank,
                                stationary[:, i * P : (i + 1) * P],
                                moving[:, j * 512 : (j + 1) * 512],
                            )
                        if block:
                            nisa.tensor_tensor(sum_block, sum_block, bank, op=nl.add, engine=VECTOR)
                        else:
                            nisa.tensor_copy(sum_block, bank, engine=VECTOR)
            for i in range(16):
                nisa.dma_copy(out[m + i * P : m + (i + 1) * P, n : n + 1024], sums[i])
    return out


def product_in_blocks(lhs_t, rhs, row_tiles, column_tiles, depth_tiles):
    """The tutorial's fully blocked product: columns, depth, rows; sums of all rows in SBUF."""
    (depth, rows), columns = lhs_t.shape, rhs.shape[1]
    height, width = row_tiles * P, column_tiles * 512
    out = nl.ndarray((rows, columns), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for n in range(0, columns, width):
        sums = [_tile((P, width), lhs_t.dtype) for _ in range(rows // P)]
        for block in range(0, depth, depth_tiles * P):
            steps = range(block, block + depth_tiles * P, P)
            right = [_loaded(rhs, k, n, width) for k in steps]
            for m in range(0, rows, height):
                left = [_loaded(lhs_t, k, m, height) for k in steps]
                for j in range(0, width, 512):
                    for i in range(0, height, P):
                        bank = _tile((P, 512), nl.float32, nl.psum)
                        for stationary, moving in zip(left, right, strict=True):
                            nisa.nc_matmul(bank, stationary[:, i : i + P], moving[:, j : j + 512])
                        total = sums[(m + i) // P][:, j : j + 512]
                        if block:
                            nisa.tensor_tensor(total, total, bank, op=nl.add)
                        else:
                            nisa.tensor_copy(total, bank)
        for number, tile in enumerate(sums):
            nisa.dma_copy(out[number * P : (number + 1) * P, n : n + width], tile)
    return out


# --- bandwidth ---------------------------------------------------------------------------------


def read(x, width):
    """Tiles of [128, width], each loaded and reduced."""
    out = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    sums = _tile((P, 1), nl.float32)
    for start in range(0, x.shape[0], P):
        tile = _tile((P, width), x.dtype)
        nisa.dma_copy(tile, x[start : start + P])
        nisa.tensor_reduce(sums, nl.add, tile, axis=1)
    nisa.dma_copy(out, sums)
    return out


def write(shape, width):
    """One tile of [128, width] stored again and again."""
    out = nl.ndarray(shape, dtype=nl.bfloat16, buffer=nl.shared_hbm)
    tile = _tile((P, width), nl.bfloat16)
    nisa.memset(tile, 0.0)
    for start in range(0, shape[0], P):
        nisa.dma_copy(out[start : start + P], tile)
    return out


def copy(x):
    """HBM to HBM, [128, width] at a time."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], P):
        nisa.dma_copy(out[start : start + P], x[start : start + P])
    return out


def transpose(x):
    """A DMA transpose, [512, 128] at a time."""
    rows, columns = x.shape
    height = min(rows, 512)
    out = nl.ndarray((columns, rows), dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, rows, height):
        for first in range(0, columns, P):
            tile = _tile((P, height), x.dtype)
            nisa.dma_transpose(tile, x[start : start + height, first : first + P])
            nisa.dma_copy(out[first : first + P, start : start + height], tile)
    return out


# --- the cases ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Case:
    """One measured row.

    Attributes:
        target: family.
        statistic: of :data:`neff.timing.STATISTICS`, or ``benchmark``.
        trace: makes the kernel.
        toolchain: that the measured kernel was compiled with, of :data:`neff.timing.TOOLCHAINS`.
        nbytes: bytes that a row in GB/s counts; of two cores when they read at once, for the
            HBM of trn1 has room for both.
        order: of :data:`neff.profile.scheduled.ORDERS`, ``scheduled`` for kernels that the vendor's
            middle end reordered.
    """

    target: str
    statistic: str
    trace: Callable[[], KernelIR]
    nbytes: int = 0
    toolchain: str = "earlier"
    order: str = "source"


def _case(
    target: str,
    statistic: str,
    func: Any,
    *args: Any,
    nbytes: int = 0,
    toolchain: str = "earlier",
    order: str = "source",
    **options: Any,
) -> Case:
    def trace() -> KernelIR:
        return Kernel(func).trace(args, options, target=target)

    return Case(target, statistic, trace, nbytes, toolchain, order)


class _Spec:
    """A tensor argument without its bytes."""

    def __init__(self, dtype: str, *shape: int) -> None:
        self.shape, self.dtype = shape, np.dtype(BY_NAME[dtype])


def _f32(*shape: int) -> Any:
    return _Spec("float32", *shape)


def _bf16(*shape: int) -> Any:
    return _Spec("bfloat16", *shape)


_GIB = 1 << 30
_N = 25_600


def _reads(gib: float, width: int) -> Any:
    return _bf16(int(gib * _GIB) // (2 * width), width)


def _adds(target: str, prefix: str, names: tuple[str, ...]) -> dict[str, Case]:
    cases = {
        "tiled_chunk1": _case(target, "nc-latency", add_tiled, _f32(_N, 1), _f32(_N, 1), 1),
        "tiled_chunk128": _case(target, "nc-latency", add_tiled, _f32(_N, 1), _f32(_N, 1), 128),
        "stream_fd2": _case(target, "nc-latency", add_stream, _f32(P, 200), _f32(P, 200), 2),
        "stream_fd200": _case(target, "nc-latency", add_stream, _f32(P, 200), _f32(P, 200), 200),
        "stream256k_fd2000": _case(
            target, "nc-latency", add_stream, _f32(P, 2000), _f32(P, 2000), 2000
        ),
        "stream256k_fd1000": _case(
            target, "nc-latency", add_stream, _f32(P, 2000), _f32(P, 2000), 1000
        ),
    }
    return {f"{prefix}{name}": cases[name] for name in names}


def _head(n: int, d: int) -> Case:
    return _case("trn2", "benchmark", attention_head, *[_f32(n, d)] * 3)


def _blocks(name: str) -> Case:
    """``kt_<2048 or up>_<tiles of rows, columns and depth in a block>``."""
    _, shape, *tiles = name.split("_")
    square = _f32(2048, 2048)
    operands = (square, square) if shape == "2048" else (_f32(4096, 512), _f32(4096, 12288))
    return _case(
        "trn2", "profile-total", product_in_blocks, *operands, *map(int, tiles), toolchain="current"
    )


_BLOCKS = (
    "kt_2048_1_1_1", "kt_2048_1_2_8", "kt_2048_1_4_4", "kt_2048_2_1_2", "kt_2048_2_2_1",
    "kt_2048_2_4_8", "kt_2048_4_2_2", "kt_2048_4_4_1", "kt_2048_8_1_8", "kt_2048_16_1_1",
    "kt_2048_16_2_8", "kt_2048_1_1_2", "kt_2048_1_2_1", "kt_up_1_1_1", "kt_up_1_1_2",
    "kt_up_1_1_32", "kt_up_1_2_2", "kt_up_2_4_16", "kt_up_4_1_1", "kt_up_4_6_1",
)  # fmt: skip

_ATTENTION_SIZES = tuple(
    (f"nkis_attn_v{version}_{n}", n, version) for version in (4, 6) for n in (512, 1024, 2048, 4096)
)


def _rows(n: int, version: int) -> Case:
    operands = [_bf16(128, n)] * 3
    return _case("trn1", "nc-latency", attention_rows, *operands, version == 6, order="scheduled")


_TUTORIAL = (_bf16(8192, 4096), _bf16(8192, 8192))
_BASIC_CASES = ("tiled_chunk1", "tiled_chunk128", "stream_fd2", "stream_fd200")

CASES: Mapping[str, Case] = {
    **_adds("trn2", "cs149_", _BASIC_CASES),
    **_adds("trn1", "cs149_trn1_", (*_BASIC_CASES, "stream256k_fd2000", "stream256k_fd1000")),
    **{name: _blocks(name) for name in _BLOCKS},
    **{name: _rows(n, version) for name, n, version in _ATTENTION_SIZES},
    "cs149_transpose2d_4096": _case("trn2", "nc-latency", transpose, _f32(4096, 4096)),
    "labs_attn_S128_d64": _head(128, 64),
    "labs_attn_S64_d128": _head(64, 128),
    "labs_attn_S96_d32": _head(96, 32),
    "labs_mha_loop_S128_H16_d64": _case("trn2", "benchmark", attention_heads, *[_f32(128, 16, 64)] * 3),
    "labs_mha_loop_S128_H16_d128": _case("trn2", "benchmark", attention_heads, *[_f32(128, 16, 128)] * 3),
    "labs_mm4096_blocked": _case("trn2", "benchmark", product_blocked, _bf16(4096, 4096), _bf16(4096, 4096)),
    "pantheon_read_1GiB": _case("trn1", "body", read, _reads(1, 2048), 2048),
    "pantheon_read_2GiB": _case("trn1", "body", read, _reads(2, 2048), 2048),
    "pantheon_read_4GiB": _case("trn1", "body", read, _reads(4, 2048), 2048),
    "pantheon_read_8GiB": _case("trn1", "body", read, _reads(8, 2048), 2048),
    "pantheon_read_w2048": _case("trn1", "body", read, _reads(1, 2048), 2048, nbytes=_GIB),
    "pantheon_read_w8192": _case("trn1", "body", read, _reads(1, 8192), 8192, nbytes=_GIB),
    "pantheon_read_w16384": _case("trn1", "body", read, _reads(1, 16384), 16384, nbytes=_GIB),
    "pantheon_read_2core": _case("trn1", "body", read, _reads(1, 2048), 2048, nbytes=2 * _GIB),
    "pantheon_read_inf2": _case("trn1", "body", read, _reads(1, 2048), 2048, nbytes=_GIB),
    "pantheon_write_w2048": _case(
        "trn1", "body", write, (_GIB // 4096, 2048), 2048, nbytes=_GIB
    ),
    "pantheon_write_w8192": _case(
        "trn1", "body", write, (_GIB // 16384, 8192), 8192, nbytes=_GIB
    ),
    "pantheon_copy": _case("trn1", "body", copy, _reads(1, 2048), nbytes=2 * _GIB),
    "tutorial_mm_tiled": _case("trn1", "nc-latency", tutorial_tiled, *_TUTORIAL),
    "tutorial_mm_hoisted": _case("trn1", "nc-latency", tutorial_hoisted, *_TUTORIAL),
    "tutorial_mm_blocked_free_dimension": _case("trn1", "nc-latency", tutorial_blocked, *_TUTORIAL),
    "tutorial_mm_fully_blocked": _case("trn1", "nc-latency", tutorial_fully_blocked, *_TUTORIAL),
}  # fmt: skip
"""By the name of the measured row."""
