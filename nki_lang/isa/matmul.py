"""The tensor engine: products and transposes.

The rules of each instruction are in its row of :mod:`nki_lang.isa.table`.
"""

from __future__ import annotations

from nki_lang.frontend.tensor import NkiTensor
from nki_lang.ir import Engine
from nki_lang.isa.enums import engine, matmul_perf_mode
from nki_lang.isa.issue import NkiInstruction, issue
from nki_lang.isa.older import member
from nki_lang.isa.table import TABLE

__all__ = ["nc_matmul", "nc_matmul_mx", "nc_transpose", "quantize_mx"]


def nc_matmul(
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    accumulate: bool | None = None,
    tile_position: tuple[int, ...] = (),
    tile_size: tuple[int, ...] = (),
    perf_mode: matmul_perf_mode = matmul_perf_mode.none,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = stationary.T @ moving`` in float32, into PSUM.

    ``accumulate`` False overwrites, True adds, None overwrites on the first write and adds after.

    Args:
        dst: tile read and written of shape (M, N), in PSUM.
        stationary: tile read of shape (K, M), K on the partitions, in SBUF, of bfloat16,
            float16, float32, float8_e4m3, float8_e4m3fn, float8_e5m2, tfloat32.
        moving: tile read of shape (K, N), K on the partitions, in SBUF, of bfloat16, float16,
            float32, float8_e4m3, float8_e4m3fn, float8_e5m2, tfloat32.
        is_stationary_onezero: a hint that stationary holds only zeros and ones; no effect on
            the result.
        is_moving_onezero: a hint that moving holds only zeros and ones; no effect on the
            result.
        is_transpose: moving is an identity: dst takes stationary.T, its bits unchanged.
        accumulate: True adds to dst, False overwrites it, None overwrites on the first write
            and adds after.
        tile_position: (row, column) of the tile of the tensor engine; empty for the whole
            engine.
        tile_size: (rows, columns) of the tile of the tensor engine; empty for the whole engine.
        perf_mode: double_row multiplies two rows of float8 in one pass.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-PERF-MODE,
            NKI-MATMUL-SHAPE, NKI-PE-TILE, NKI-MATMUL-SIZE, NKI-PSUM-BANK, NKI-ACCUMULATE.

    Rules:
        double_row takes float8 tiles, on trn2 and later, without column tiling (NKI-PERF-MODE).
        stationary is (K, M), moving (K, N), dst (M, N); with double_row stationary is (K, 2, M)
            and moving (K, 2, N) (NKI-MATMUL-SHAPE).
        tile_position and tile_size are set together; sizes are 32 (trn2 and later), 64 or 128,
            and a position is a multiple of its size (NKI-PE-TILE).
        K and M are at most 128 (or the tile_size); N at most 512, on trn3 4096 for float32 and
            8192 for bfloat16 (NKI-MATMUL-SIZE).
        float32 goes with float32 only, legacy float8_e4m3 not with float8_e4m3fn, dst is
            float32 (on trn3 also bfloat16; transposes keep the dtype) (NKI-DTYPE).
        the result of one matmul lies within one PSUM bank (2 KiB a partition) (NKI-PSUM-BANK).
        accumulate is True, False or None (NKI-ACCUMULATE).

    Engines: Tensor on trn1, trn2, trn3.
    Source: nisa.nc_matmul (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF; product a (128, 512) float32 tile in PSUM::

        nisa.nc_matmul(dst=product, stationary=a[:, 0:128], moving=b)
    """
    if type(perf_mode) is not matmul_perf_mode:
        perf_mode = member(matmul_perf_mode, perf_mode)
    return issue(
        TABLE["nc_matmul"],
        (
            dst,
            stationary,
            moving,
            is_stationary_onezero,
            is_moving_onezero,
            is_transpose,
            accumulate,
            tile_position,
            tile_size,
            perf_mode,
        ),
        Engine.unknown,
        name,
    )


def nc_matmul_mx(
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    stationary_scale: NkiTensor,
    moving_scale: NkiTensor,
    tile_position: tuple[int, ...] | None = None,
    tile_size: tuple[int, ...] | None = None,
    accumulate: bool | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = stationary.T @ moving`` of MX-quantized tiles with their block scales (trn3).

    Args:
        dst: tile read and written of shape (M, N), in PSUM, of bfloat16, float32.
        stationary: tile read of shape (K, M), four values an element, in SBUF, of
            float4_e2m1fn_x4, float8_e4m3fn_x4, float8_e5m2_x4.
        moving: tile read of shape (K, N), four values an element, in SBUF, of float4_e2m1fn_x4,
            float8_e4m3fn_x4, float8_e5m2_x4.
        stationary_scale: tile read, in SBUF, of float8_e8m0fnu, uint8.
        moving_scale: tile read, in SBUF, of float8_e8m0fnu, uint8.
        tile_position: (row, column) of the tile of the tensor engine; empty for the whole
            engine.
        tile_size: (rows, columns) of the tile of the tensor engine; empty for the whole engine.
        accumulate: True adds to dst, False overwrites it, None overwrites on the first write
            and adds after.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-PE-TILE, NKI-MX,
            NKI-ACCUMULATE.

    Rules:
        tile_position and tile_size are set together; sizes are 32 (trn2 and later), 64 or 128,
            and a position is a multiple of its size (NKI-PE-TILE).
        stationary is (K, M), moving (K, N), dst (M, N); K a multiple of 32, M even and at most
            128, N at most 4096 for float32 and 8192 for bfloat16; a scale has the columns of
            its data and a row for each 8 partitions; only rows are tiled (NKI-MX).
        accumulate is True, False or None (NKI-ACCUMULATE).

    Engines: Tensor on trn3.
    Source: nisa.nc_matmul_mx (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF; product a (128, 512) float32 tile in PSUM::

        data = nl.ndarray((128, 128), nl.float8_e5m2_x4, buffer=nl.sbuf)
        scale = nl.ndarray((128, 128), nl.uint8, buffer=nl.sbuf)
        wide = nl.ndarray((128, 512), nl.bfloat16, buffer=nl.sbuf)
        nisa.tensor_copy(dst=wide, src=a)
        nisa.quantize_mx(dst=data, src=wide, dst_scale=scale)
        nisa.nc_matmul_mx(dst=product[:, 0:128], stationary=data, moving=data,
                          stationary_scale=scale, moving_scale=scale)
    """
    return issue(
        TABLE["nc_matmul_mx"],
        (
            dst,
            stationary,
            moving,
            stationary_scale,
            moving_scale,
            tile_position,
            tile_size,
            accumulate,
        ),
        Engine.unknown,
        name,
    )


def nc_transpose(
    dst: NkiTensor, data: NkiTensor, engine: Engine = engine.unknown, name: str | None = None
) -> NkiInstruction:
    """Transpose the partition axis with the flattened free axes.

    Args:
        dst: tile written of shape (columns, rows), in SBUF or PSUM.
        data: tile read of shape (rows, columns), in SBUF or PSUM.
        engine: the engine that runs it; unknown lets the compiler choose.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-TRANSPOSE.

    Rules:
        dst, data have the same dtype (NKI-DTYPE).
        the tensor engine transposes SBUF to PSUM up to 128 x 128, the vector engine anywhere up
            to 32 x 32 (NKI-TRANSPOSE).

    Engines: Tensor or Vector on trn1, trn2, trn3.
    Source: nisa.nc_transpose (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        turned = nl.ndarray((128, 128), nl.float32, buffer=nl.psum)
        nisa.nc_transpose(dst=turned, data=a[:, 0:128])
    """
    return issue(TABLE["nc_transpose"], (dst, data), engine, name)


def quantize_mx(
    dst: NkiTensor, src: NkiTensor, dst_scale: NkiTensor, name: str | None = None
) -> NkiInstruction:
    """Quantize float16 or bfloat16 to MXFP8 data and block scales (trn3).

    Args:
        dst: tile written, in SBUF, of float8_e4m3fn_x4, float8_e5m2_x4.
        src: tile read, in SBUF, of bfloat16, float16.
        dst_scale: tile written, in SBUF, of float8_e8m0fnu, uint8.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-MX.

    Rules:
        partitions are a multiple of 32, src has four elements for each of dst, dst_scale one
            for each of dst and a row for each 8 partitions (NKI-MX).

    Engines: Vector on trn3.
    Source: nisa.quantize_mx (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        data = nl.ndarray((128, 128), nl.float8_e5m2_x4, buffer=nl.sbuf)
        scale = nl.ndarray((128, 128), nl.uint8, buffer=nl.sbuf)
        wide = nl.ndarray((128, 512), nl.bfloat16, buffer=nl.sbuf)
        nisa.tensor_copy(dst=wide, src=a)
        nisa.quantize_mx(dst=data, src=wide, dst_scale=scale)
    """
    return issue(TABLE["quantize_mx"], (dst, src, dst_scale), Engine.unknown, name)
