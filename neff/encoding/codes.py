"""The number of every name in the engine encoding.

The tables only grow: a number once given keeps its meaning for ever, so that an old file reads
the same with a newer reader. ``tests/neff/test_codes.py`` pins them.
"""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from nki_lang.base.dtypes import BY_NAME, DType
from nki_lang.base.memory import MemoryRegion
from nki_lang.ir import Engine

__all__ = [
    "DTYPES",
    "DTYPE_CODES",
    "ENGINES",
    "MAGIC",
    "OPCODES",
    "OPCODE_NAMES",
    "REGIONS",
    "REGION_CODES",
    "VERSION",
    "Tag",
]

MAGIC = b"NKI-ENG\0"
VERSION = (1, 0)
"""Major: a reader must know it. Minor: opcodes, dtypes and tags were appended."""

_OPCODE_ORDER = (
    "dma_copy", "tensor_copy", "memset", "tensor_copy_predicated", "nc_matmul", "nc_matmul_mx",
    "nc_transpose", "dma_transpose", "tensor_tensor", "tensor_scalar", "tensor_reduce",
    "tensor_partition_reduce", "tensor_scalar_cumulative", "activation", "activation_reduce",
    "activate2", "iota", "affine_select", "local_gather", "nc_n_gather", "bn_stats", "bn_aggr",
    "tensor_tensor_scan", "nc_stream_shuffle", "rng", "dropout", "set_rng_seed",
    "rand_set_state", "rand_get_state", "rand2", "exponential", "reciprocal", "max8",
    "sequence_bounds", "scalar_tensor_tensor", "tensor_scalar_reduce", "core_barrier",
    "dma_compute", "quantize_mx", "range_select", "select_reduce", "sendrecv", "register_alloc",
    "register_move", "register_load", "register_store", "register_alu", "nc_find_index8",
    "nc_match_replace8", "nonzero_with_count", "topk", "all_reduce", "all_gather",
    "all_gather_v", "reduce_scatter", "all_to_all", "all_to_all_v", "collective_permute",
    "collective_permute_implicit", "collective_permute_implicit_reduce",
    "collective_permute_implicit_current_processing_rank_id", "rank_id", "get_nc_version",
    "get_nc_sub_version", "device_print",
)  # fmt: skip

OPCODES: MappingProxyType[str, int] = MappingProxyType(
    {name: number for number, name in enumerate(_OPCODE_ORDER, start=1)}
)
"""Instruction name -> opcode. Opcode 0 is never used."""

OPCODE_NAMES: MappingProxyType[int, str] = MappingProxyType(
    {number: name for name, number in OPCODES.items()}
)

_FOREIGN_DTYPES = (
    DType("float64", np.float64, "float"),
    DType("complex64", np.complex64, "complex"),
    DType("complex128", np.complex128, "complex"),
)
"""Types that a variable may have though the kernel language lacks them."""

_DTYPE_ORDER = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "float32", "bfloat16", "tfloat32", "float8_e4m3", "float8_e4m3fn", "float8_e5m2",
    "float8_e8m0fnu", "float8_e5m2_x4", "float8_e4m3fn_x4", "float4_e2m1fn_x4", "float64",
    "complex64", "complex128",
)  # fmt: skip

_ALL_DTYPES = {**BY_NAME, **{dtype.name: dtype for dtype in _FOREIGN_DTYPES}}

DTYPES: MappingProxyType[int, DType] = MappingProxyType(
    {number: _ALL_DTYPES[name] for number, name in enumerate(_DTYPE_ORDER, start=1)}
)
"""Code -> type. Code 0 means "none given"."""

DTYPE_CODES: MappingProxyType[str, int] = MappingProxyType(
    {dtype.name: number for number, dtype in DTYPES.items()}
)

REGIONS: MappingProxyType[int, MemoryRegion] = MappingProxyType(
    {
        1: MemoryRegion.sbuf,
        2: MemoryRegion.psum,
        3: MemoryRegion.private_hbm,
        4: MemoryRegion.shared_hbm,
    }
)

REGION_CODES: MappingProxyType[MemoryRegion, int] = MappingProxyType(
    {region: number for number, region in REGIONS.items()}
)

ENGINES: MappingProxyType[int, Engine] = MappingProxyType(
    {engine.value: engine for engine in Engine}
)
"""The numbers of the vendor's public ``nki.isa.engine``."""


class Tag:
    """The kind of an operand; the words in the comment follow each tag."""

    NONE = 0
    FALSE = 1
    TRUE = 2
    INT = 3  # value
    FLOAT = 4  # index of a float
    STRING = 5  # index of a string
    ACCESS = 6  # index of an access
    REGISTER = 7  # index of a string
    DTYPE = 8  # dtype code
    TUPLE = 9  # count, operands
    WIDE_INT = 10  # index of a string of decimal digits: integers beyond 64 bits signed

    STEP = 1  # record kinds
    LOOP = 2
