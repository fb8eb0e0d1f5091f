"""``--nki``: the version of NKI whose rules hold, an option of all commands that trace kernels.

The option, then ``NKI_HLO_NKI``, then the setting ``nki``; without them every version's kernels run.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated

import typer

from hlo_tools.cli.shared import completion
from hlo_tools.cli.shared.added_options import Command, with_options
from hlo_tools.cli.shared.configuration import read_configuration
from nki_lang.base.versions import VERSION_VARIABLE, VERSIONS

__all__ = ["with_nki_version"]

NkiVersion = Annotated[
    str,
    typer.Option(
        "--nki",
        help="Refuse what this version of NKI refuses.",
        metavar="|".join(VERSIONS),
        autocompletion=completion.words(*VERSIONS),
    ),
]


def with_nki_version(function: Command) -> Command:
    """Return a command with ``--nki``; a command that declares the option itself keeps it."""
    option = inspect.Parameter(
        "nki", inspect.Parameter.KEYWORD_ONLY, default="", annotation=NkiVersion
    )
    return with_options(function, [option], lambda values: _in_effect(str(values["nki"])))


@contextmanager
def _in_effect(option: str) -> Generator[None]:
    """Let kernels follow the chosen version, in this process and those that it starts."""
    if option not in ("", *VERSIONS):
        raise typer.BadParameter(f"--nki takes {' or '.join(VERSIONS)}, not {option!r}")
    version = read_configuration({"nki": option}).text("nki")
    before = os.environ.get(VERSION_VARIABLE)
    if version:
        os.environ[VERSION_VARIABLE] = version
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(VERSION_VARIABLE, None)
        else:
            os.environ[VERSION_VARIABLE] = before
