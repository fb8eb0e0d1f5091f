"""The table of ``nki-neff``'s commands; :mod:`hlo_tools.cli.commands` says how a command is written."""

from __future__ import annotations

from typing import Final

from hlo_tools.cli.commands import PROGRAM as NKI_HLO
from hlo_tools.cli.shared.table import Command, Program

__all__ = ["PROGRAM"]

BUILD, LOOK, ESTIMATE, CHECK = "Build and run", "Inspect", "Estimate", "Check"

PROGRAM: Final = Program(
    "nki-neff",
    "Build, inspect, check and run NEFF files; no Trainium needed.",
    (
        Command(
            "build",
            "neff.cli.build",
            "Compile HLO modules with their kernels, each into one NEFF.",
            BUILD,
            takes_modules=True,
            traces_kernels=True,
        ),
        Command("run", "neff.cli.run", "Run a NEFF that nki-neff built.", BUILD),
        Command(
            "info",
            "neff.cli.info",
            "Show header, members, tensors, memory and engines of any NEFF.",
            LOOK,
        ),
        Command(
            "diff",
            "neff.cli.diff",
            "Compare NEFFs: size, memory, estimated time, instructions.",
            LOOK,
        ),
        Command(
            "unpack", "neff.cli.unpack", "Write the members of any NEFF into a new folder.", LOOK
        ),
        Command("time", "neff.cli.time", "Estimate how long a NEFF takes on its target.", ESTIMATE),
        Command("profile", "neff.cli.profile", "Show where the time of a NEFF would go.", ESTIMATE),
        Command("budget", "neff.cli.budget", "Check estimates against limits.", ESTIMATE),
        Command(
            "calibrate",
            "neff.cli.calibrate",
            "Fit the timing model's parameters to captures of a device.",
            ESTIMATE,
        ),
        Command("verify", "neff.cli.verify", "Check a NEFF in full, and its provenance.", CHECK),
        Command(
            "explain", "hlo_tools.cli.explain", "Explain the code of an error or finding.", CHECK
        ),
    ),
    elsewhere={command.name: f"nki-hlo {command.name}" for command in NKI_HLO.commands},
)
