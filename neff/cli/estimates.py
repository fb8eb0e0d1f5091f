"""Options of the estimate, as ``time`` and ``profile`` take them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from hlo_tools.cli.shared.fills import Fill
from hlo_tools.cli.shared.option_groups import OptionGroup
from neff.cli.arrays import read_inputs
from neff.cli.options import ChipFile, Descriptors, Inputs, Settings, Statistic
from neff.cli.options import Trips as TripCount
from neff.errors import NeffError
from neff.program import Program
from neff.timing import Parameters, Trips, overrides_of
from neff.timing.chip import parameters_of, read_chip
from neff.timing.estimate import check_choices
from nki_lang.base.targets import DEFAULT_TARGET

__all__ = ["EstimateOptions", "Keywords"]


class Keywords(TypedDict):
    """Arguments of ``neff.timing.estimate`` and ``neff.profile.profile_of`` besides the program."""

    parameters: Parameters
    statistic: str
    dma: str
    trips: Trips


@dataclass(frozen=True, slots=True)
class EstimateOptions(OptionGroup):
    """Options of an estimate; see ``nki-neff profile --help``."""

    statistic: Statistic = "body"
    dma: Descriptors = ""
    settings: Settings = None
    trips: TripCount = None
    inputs: Inputs = None
    fill: Fill = None
    chip: ChipFile = None

    def keywords(self, program: Program, file: Path) -> Keywords:
        """The same for a program; ``--input`` runs it to count the iterations of its loops.

        Raises:
            NeffError: an option names nothing, or the run fails.
        """
        chip = read_chip(self.chip) if self.chip is not None else None
        overrides = overrides_of(self.settings or [], Path.cwd())
        parameters = parameters_of(program.target, overrides, chip)
        return {
            "parameters": parameters,
            "statistic": self.statistic,
            "dma": self.dma,
            "trips": self._trips(program, file),
        }

    def keywords_of_run(self, program: Program, counted: Trips) -> Keywords:
        """The same for a program that ran, whose iterations of loops were counted.

        ``--trips``, ``--input`` and ``--fill`` take precedence over the counted iterations.

        Raises:
            NeffError: an option names nothing, or the run fails.
        """
        keywords = self.keywords(program, Path(program.name))
        if self.trips is None and not self.inputs and self.fill is None:
            keywords["trips"] = counted
        return keywords

    def check(self) -> None:
        """Refuse values that do not exist, before anything runs.

        Raises:
            NeffError: ``NEFF-STATISTIC``, ``NEFF-PARAMETER``, ``NEFF-USAGE``; the file of ``--chip``
                cannot be used.
        """
        if self.chip is not None:
            read_chip(self.chip)
        check_choices(self.statistic, self.dma)
        Parameters(DEFAULT_TARGET, overrides_of(self.settings or [], Path.cwd()))
        self._check_loops()

    def _check_loops(self) -> None:
        if self.trips is not None and (self.inputs or self.fill is not None):
            raise NeffError(
                "--trips and --input both set the iterations of loops",
                code="NEFF-USAGE",
                remedy="give one of them",
            )

    def _trips(self, program: Program, file: Path) -> Trips:
        if not self.inputs and self.fill is None:
            return self.trips
        self._check_loops()
        from neff.runtime.trips import trips_of

        arrays = read_inputs(self.inputs or [], program, self.fill)
        return trips_of(program, arrays, str(file))
