"""Costs of a module: operations, FLOPs, bytes, constants, kernels; in total and by computation."""

from hlo_tools.stats.result import (
    ComputationStatistics,
    KernelStatistics,
    OpcodeStatistics,
    Statistics,
)
from hlo_tools.stats.statistics import statistics

__all__ = [
    "ComputationStatistics",
    "KernelStatistics",
    "OpcodeStatistics",
    "Statistics",
    "statistics",
]
