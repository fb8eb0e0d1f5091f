"""Options of the estimate, as ``time`` and ``profile`` take them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from neff.cli.arrays import read_inputs
from neff.errors import NeffError
from neff.program import Program
from neff.timing import Parameters, Trips, overrides_of

__all__ = ["EstimateOptions", "Keywords"]


class Keywords(TypedDict):
    """Arguments of ``neff.timing.estimate`` and ``neff.profile.profile_of`` besides the program."""

    parameters: Parameters
    statistic: str
    dma: str
    trips: Trips


@dataclass(frozen=True, slots=True)
class EstimateOptions:
    """As given on the command line; see ``nki-neff time --help``."""

    statistic: str = "body"
    dma: str = ""
    settings: tuple[str, ...] = ()
    trips: int | None = None
    inputs: tuple[str, ...] = ()
    fill: str | None = None

    @classmethod
    def given(
        cls,
        statistic: str,
        dma: str,
        settings: list[str] | None,
        trips: int | None,
        inputs: list[str] | None,
        fill: str | None,
    ) -> EstimateOptions:
        """From the options of a command, which have None for an empty list."""
        return cls(statistic, dma, tuple(settings or ()), trips, tuple(inputs or ()), fill)

    def keywords(self, program: Program, file: Path) -> Keywords:
        """The same for a program; ``--input`` runs it to count the iterations of its loops.

        Raises:
            NeffError: an option names nothing, or the run fails.
        """
        parameters = Parameters(program.target, overrides_of(list(self.settings), Path.cwd()))
        return {
            "parameters": parameters,
            "statistic": self.statistic,
            "dma": self.dma,
            "trips": self._trips(program, file),
        }

    def _trips(self, program: Program, file: Path) -> Trips:
        if not self.inputs and self.fill is None:
            return self.trips
        if self.trips is not None:
            raise NeffError(
                "--trips and --input both set the iterations of loops",
                code="NEFF-USAGE",
                remedy="give one of them",
            )
        from neff.runtime.trips import trips_of

        arrays = read_inputs(list(self.inputs), program, self.fill)
        return trips_of(program, arrays, str(file))
