"""The commands of ``nki-neff`` with a line each, as its help lists them."""

from __future__ import annotations

from typing import Final

__all__ = ["ABOUT", "SECTIONS"]

ABOUT: Final = "Build, inspect, check and run NEFF files; no Trainium needed."

SECTIONS: Final = {
    "Build and run": (
        ("build", "Compile HLO modules with their kernels, each into one NEFF."),
        ("run", "Run a NEFF that nki-neff built."),
    ),
    "Inspect": (
        ("info", "Show header, members, tensors, memory and engines of any NEFF."),
        ("diff", "Compare NEFFs: size, memory, estimated time, instructions."),
        ("unpack", "Write the members of any NEFF into a new folder."),
    ),
    "Estimate": (
        ("time", "Estimate how long a NEFF takes on its target."),
        ("profile", "Show where the time of a NEFF would go."),
        ("budget", "Check estimates against limits."),
    ),
    "Check": (
        ("verify", "Check a NEFF in full, and its provenance."),
        ("explain", "Explain the code of an error or finding."),
    ),
}
"""Heading -> commands; a command's own ``--help`` says more."""
