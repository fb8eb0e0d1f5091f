"""Intermediate results that several documents of a profile share, computed on first use."""

from __future__ import annotations

from functools import cached_property

from neff.profile.attribution import Cells, Kinds, Share, cells_of, grouped, kinds_of, shares_of
from neff.profile.counters import Counter, counters
from neff.profile.lanes import Lane, lanes_of
from neff.profile.memory import Holding, holdings
from neff.profile.stalls import Gaps, gaps_of, path_times, slowest_core
from neff.profile.table import Profile

__all__ = ["Analysis", "analysis_of", "by"]


class Analysis:
    """A profile, and what is derived from all of its events; lists have one entry a core.

    Args:
        profile: of the program.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._cores = range(len(profile.estimate.cores))

    @cached_property
    def paths(self) -> list[dict[int, float]]:
        """Events of the critical path, and nanoseconds of it."""
        return [path_times(self.profile, core) for core in self._cores]

    @cached_property
    def gaps(self) -> list[Gaps]:
        """The time between the events of each engine."""
        return [gaps_of(self.profile, core) for core in self._cores]

    @cached_property
    def kinds(self) -> list[Kinds]:
        """Events of one site, lane and opcode together."""
        return [kinds_of(self.profile, core) for core in self._cores]

    @cached_property
    def shares(self) -> list[list[Share]]:
        """Return the costs of each kind of event; without names."""
        slowest = slowest_core(self.profile)
        return [
            shares_of(self.profile, core, self.kinds[core], self.gaps[core],
                      self.paths[core] if core == slowest else {})
            for core in self._cores
        ]  # fmt: skip

    @cached_property
    def cells(self) -> Cells:
        """Time by site, lane and opcode, of all cores."""
        return cells_of(self.profile, self.kinds, self.shares)

    @cached_property
    def lanes(self) -> list[list[Lane]]:
        """Rows of a timeline."""
        return [lanes_of(columns) for columns in self.profile.arrays]

    @cached_property
    def held(self) -> list[Holding]:
        """Return the holdings of SBUF, PSUM and HBM, of all cores."""
        return holdings(self.profile)

    @cached_property
    def counters(self) -> list[list[Counter]]:
        """Return the counters of each core."""
        return counters(self.profile, self.held)


def analysis_of(source: Profile | Analysis) -> Analysis:
    """Return the analysis of a profile, or ``source`` itself when it is an analysis."""
    return source if isinstance(source, Analysis) else Analysis(source)


def by(profile: Profile | Analysis, grouping: str) -> list[Share]:
    """The groups of a profile, those that are most on the critical path first.

    A line that does nothing but call functions is a group without events.

    Raises:
        NeffError: ``NEFF-GROUPING``; there is no such grouping.
    """
    return grouped(analysis_of(profile).cells, grouping)
