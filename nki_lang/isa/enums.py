"""The enumerations of ``nki.isa``."""

from __future__ import annotations

from enum import Enum, IntEnum

from nki_lang.ir import Engine as engine

__all__ = [
    "dge_mode",
    "dma_engine",
    "engine",
    "gpsimd_engine",
    "matmul_perf_mode",
    "nc_version",
    "oob_mode",
    "reduce_cmd",
    "scalar_engine",
    "tensor_engine",
    "unknown_engine",
    "vector_engine",
]


class reduce_cmd(Enum):
    """The use of the accumulator registers of the engine by an instruction."""

    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4


class dge_mode(Enum):
    """Who makes the descriptors of a DMA transfer."""

    unknown = 0
    swdge = 1
    hwdge = 2
    none = 3


class oob_mode(Enum):
    """The behavior for a runtime index that is out of bounds."""

    error = 0
    skip = 1


class matmul_perf_mode(Enum):
    """Speed modes of the tensor engine."""

    none = "none"
    double_row = "double_row"


class nc_version(IntEnum):
    """Generations of the NeuronCore; they compare with each other and with integers."""

    gen2 = 2
    gen3 = 3
    gen4 = 4


class dma_engine(Enum):
    """Which DMA moves data between two cores."""

    dma = 1
    gpsimd_dma = 2


tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
unknown_engine = engine.unknown
