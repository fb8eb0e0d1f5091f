"""The work of an instruction on an engine, apart from its time.

Both a program of ours and a decoded stream come down to these; equal work has equal cost.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["LANES", "Compute", "Fixed", "Matmul", "Transfer", "Weights", "Work"]

LANES = 16
"""DMA engines of a core (A1:613, A2:17, A3:17)."""


class Compute(NamedTuple):
    """An instruction of the vector, scalar or GpSimd engine.

    Attributes:
        engine: its name.
        rate: parameter with the cycles an element.
        elements: of one partition.
        extras: names of parameters ``<engine>.<extra>_interval_cycles`` and so on that are added.
        memories: whose ports it uses; see :mod:`neff.timing.ports`.
    """

    engine: str
    rate: str
    elements: int
    extras: tuple[str, ...] = ()
    memories: tuple[str, ...] = ()


class Weights(NamedTuple):
    """A weight load of the tensor engine."""

    is_fp32: bool
    is_transpose: bool


class Matmul(NamedTuple):
    """One pass of columns through the tensor engine; ``rate`` names its cycles a column."""

    columns: int
    rate: str


class Transfer(NamedTuple):
    """A transfer of one DMA instruction.

    Attributes:
        descriptors: their maker, ``hardware``, ``software`` or ``static``.
        rows: contiguous pieces.
        row_bytes: bytes of each, on the side where they are shorter.
        is_strided: the rows are not neighbours in HBM.
        partition_rows: rows of one partition.
        to_hbm, from_hbm: where it goes, and comes from.
        casts: the element type changes.
        transposes: bytes of an element when it is a transpose, else 0.
        gathered: rows whose location is only known while the program runs.
        first_lane: first DMA engine that moves it; the others follow.
        lane_count: DMA engines that move it: each serves eight partitions.
    """

    descriptors: str
    rows: int
    row_bytes: int
    is_strided: bool = False
    partition_rows: int = 1
    to_hbm: bool = False
    from_hbm: bool = True
    casts: bool = False
    transposes: int = 0
    gathered: int = 0
    first_lane: int = 0
    lane_count: int = LANES

    @property
    def nbytes(self) -> int:
        """All bytes moved."""
        return self.rows * self.row_bytes


class Fixed(NamedTuple):
    """Work of constant time: the parameter's for each of its steps, and bytes over ``link``.

    ``ranks`` communicate; more than a node has are in several nodes.
    """

    parameter: str
    nbytes: int = 0
    steps: int = 1
    ranks: int = 1


Work = Compute | Weights | Matmul | Transfer | Fixed
