"""The public names of ``nki.language``."""

from __future__ import annotations

import builtins

from nki_lang.base.dtypes import BY_NAME as _DTYPES
from nki_lang.base.dtypes import DType
from nki_lang.base.errors import missing_attribute
from nki_lang.base.memory import MemoryRegion
from nki_lang.frontend import operators as _operators
from nki_lang.frontend.control_flow import (
    dynamic_range,
    fori_loop,
    no_reorder,
    static_range,
    while_loop,
)
from nki_lang.frontend.grids import NkiBlockGrid, NkiGrid, NkiTileGrid
from nki_lang.frontend.objects import NKIObject
from nki_lang.frontend.operators import *  # noqa: F403
from nki_lang.frontend.slices import ds
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.language.creation import (
    full,
    load,
    load_transpose2d,
    ndarray,
    ones,
    rand,
    random_seed,
    shared_constant,
    shared_identity_matrix,
    store,
    zeros,
    zeros_like,
)
from nki_lang.language.functions import (
    broadcast_to,
    dropout,
    expand_dims,
    gather_flattened,
    matmul,
    rms_norm,
    softmax,
    transpose,
    where,
)
from nki_lang.language.grids import alloc_blocks, alloc_tiles, blocks, empty_like, tiles
from nki_lang.language.math import var
from nki_lang.language.program import (
    device_print,
    is_hbm,
    is_on_chip,
    is_psum,
    is_sbuf,
    num_programs,
    program_id,
    program_ndim,
)
from nki_lang.language.tile_size import _TileSize, tile_size

bool_ = _DTYPES["bool"]
int8, int16, int32, int64 = (_DTYPES[f"int{bits}"] for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (_DTYPES[f"uint{bits}"] for bits in (8, 16, 32, 64))
float16, float32, bfloat16 = _DTYPES["float16"], _DTYPES["float32"], _DTYPES["bfloat16"]
tfloat32 = _DTYPES["tfloat32"]
float8_e4m3, float8_e4m3fn = _DTYPES["float8_e4m3"], _DTYPES["float8_e4m3fn"]
float8_e5m2, float8_e8m0fnu = _DTYPES["float8_e5m2"], _DTYPES["float8_e8m0fnu"]
float8_e5m2_x4, float8_e4m3fn_x4 = _DTYPES["float8_e5m2_x4"], _DTYPES["float8_e4m3fn_x4"]
float4_e2m1fn_x4 = _DTYPES["float4_e2m1fn_x4"]

sbuf, psum = MemoryRegion.sbuf, MemoryRegion.psum
private_hbm, shared_hbm = MemoryRegion.private_hbm, MemoryRegion.shared_hbm
hbm = private_hbm


def affine_range(start: int, stop: int | None = None, step: int = 1) -> builtins.range:
    """A range that is unrolled while tracing (deprecated name of ``range``).

    Args:
        start: the first value (the end, when it is the only argument).
        stop: the value that is no longer reached.
        step: a positive integer.

    Returns:
        range: of integers.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-REGISTER, NKI-REGISTER-VALUE.

    Source: nl.affine_range (nki/api/nki/language, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF; out a (128, 512) float32 tile::

        for i in nl.affine_range(4):
            nisa.tensor_copy(dst=out[:, nl.ds(i * 128, 128)], src=a[:, nl.ds(i * 128, 128)])
    """
    return static_range(start, stop, step)


def sequential_range(start: int, stop: int | None = None, step: int = 1) -> builtins.range:
    """A range that is unrolled while tracing (deprecated name of ``range``).

    Args:
        start: the first value (the end, when it is the only argument).
        stop: the value that is no longer reached.
        step: a positive integer.

    Returns:
        range: of integers.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-REGISTER, NKI-REGISTER-VALUE.

    Source: nl.sequential_range (nki/api/nki/language, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF; out a (128, 512) float32 tile::

        for i in nl.sequential_range(4):
            nisa.tensor_copy(dst=out[:, nl.ds(i * 128, 128)], src=a[:, nl.ds(i * 128, 128)])
    """
    return static_range(start, stop, step)


_REMOVED = {
    "arange": "NKI 0.2 removed it; index with slices or nl.ds(start, size)",
    "mgrid": "NKI 0.2 removed it; index with slices or .ap(pattern=...)",
    "par_dim": "NKI 0.2 removed it; the first dimension is the partition dimension",
    "spmd_dim": "NKI 0.2 removed it; launch with kernel[cores](...)",
    "nc": "NKI 0.2 removed it; launch with kernel[cores](...)",
    "loop_reduce": "NKI 0.2 removed it; accumulate with nisa.tensor_tensor or in PSUM",
    "static_cast": "NKI 0.2 removed it; copy into a tile of the wanted dtype",
    "mask": "NKI 0.2 removed masks; shorten the slice of the last tile",
    "sigmoid_dx": "it is not in NKI 0.6",
}

__all__ = [
    "DType", "MemoryRegion", "NKIObject", "NkiBlockGrid", "NkiGrid", "NkiTensor", "NkiTileGrid",
    "_TileSize", "affine_range", "alloc_blocks", "alloc_tiles", "bfloat16", "blocks", "bool_",
    "broadcast_to", "device_print", "dropout", "ds", "dynamic_range", "empty_like",
    "expand_dims", "float4_e2m1fn_x4", "float8_e4m3", "float8_e4m3fn", "float8_e4m3fn_x4",
    "float8_e5m2", "float8_e5m2_x4", "float8_e8m0fnu", "float16", "float32", "fori_loop",
    "full", "gather_flattened", "hbm", "int8", "int16", "int32", "int64", "is_hbm",
    "is_on_chip", "is_psum", "is_sbuf", "load", "load_transpose2d", "matmul", "ndarray",
    "no_reorder", "num_programs", "ones", "private_hbm", "program_id", "program_ndim", "psum",
    "rand", "random_seed", "rms_norm", "sbuf", "sequential_range", "shared_constant",
    "shared_hbm", "shared_identity_matrix", "softmax", "static_range", "store", "tfloat32",
    "tile_size", "tiles", "transpose", "uint8", "uint16", "uint32", "uint64", "var", "where",
    "while_loop", "zeros", "zeros_like",
]  # fmt: skip
__all__ += _operators.__all__

__getattr__ = missing_attribute("nki.language", __all__, _REMOVED)

# Names that kernels of the public library use although the documented list lacks them.
range = static_range
bool = bool_
