"""What a module costs: operations, FLOPs, bytes, constants, kernels; as a whole and by computation."""

from hlo_tools.stats.statistics import (
    ComputationStatistics,
    KernelStatistics,
    OpcodeStatistics,
    Statistics,
    statistics,
)

__all__ = [
    "ComputationStatistics",
    "KernelStatistics",
    "OpcodeStatistics",
    "Statistics",
    "statistics",
]
