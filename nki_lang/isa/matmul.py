"""The tensor engine: products and transposes.

The rules of each instruction are in its row of :mod:`nki_lang.isa.table`.
"""

from __future__ import annotations

from typing import Any

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
    is_stationary_onezero: Any = False,
    is_moving_onezero: Any = False,
    is_transpose: Any = False,
    accumulate: Any = None,
    tile_position: Any = (),
    tile_size: Any = (),
    perf_mode: Any = matmul_perf_mode.none,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = stationary.T @ moving`` in float32, into PSUM.

    ``accumulate`` False overwrites, True adds, None overwrites on the first write and adds after."""
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
    tile_position: Any = None,
    tile_size: Any = None,
    accumulate: Any = None,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = stationary.T @ moving`` of MX-quantized tiles with their block scales (trn3)."""
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
    """Transpose the partition axis with the flattened free axes."""
    return issue(TABLE["nc_transpose"], (dst, data), engine, name)


def quantize_mx(
    dst: NkiTensor, src: NkiTensor, dst_scale: NkiTensor, name: str | None = None
) -> NkiInstruction:
    """Quantize float16 or bfloat16 to MXFP8 data and block scales (trn3)."""
    return issue(TABLE["quantize_mx"], (dst, src, dst_scale), Engine.unknown, name)
