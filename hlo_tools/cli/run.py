"""``nki-hlo run``: a script on the simulated device."""

from __future__ import annotations

from typing import Annotated

import typer

from hlo_tools.cli.extract import Arguments, Script
from hlo_tools.cli.shared.targets import TargetName, checked_target
from hlo_tools.extract import run_script
from hlo_tools.extract.protocol import EXECUTORS

__all__ = ["command"]


def command(
    script: Script,
    arguments: Arguments = None,
    platform: TargetName = "",
    executor: Annotated[
        str,
        typer.Option(
            "--executor",
            "-e",
            help="cpu: graph parts on XLA:CPU. neff: each program is built into a NEFF, "
            "which is run. neff,cpu: as neff, but what cannot be built runs on XLA:CPU.",
            metavar="WHICH",
        ),
    ] = "",
) -> int:
    """Run a script on the simulated device; nothing is written.

    The exit code is the script's own. A module (.pb, .hlo) in place of the script is evaluated,
    as nki-hlo evaluate does, with its options.

    Example: nki-hlo run train.py --platform trn2 --executor neff -- --steps 10
    """
    if executor and executor not in EXECUTORS:
        raise typer.BadParameter(f"{executor!r} is not one of {', '.join(EXECUTORS)}")
    return run_script(
        script,
        arguments or [],
        platform=checked_target(platform),
        executor=executor,
        parse_first=False,
    ).exit_code
