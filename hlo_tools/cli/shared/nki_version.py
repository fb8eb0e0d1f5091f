"""``--nki``: the version of NKI whose rules hold, an option of all commands that trace kernels.

The option, then ``NKI_HLO_NKI``, then the setting ``nki``; without them every version's kernels run.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from hlo_tools.cli.shared import completion
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


def with_nki_version(function: Callable[..., int | None]) -> Callable[..., int | None]:
    """A command with ``--nki``; one that has the option itself keeps it."""
    original = inspect.signature(function, eval_str=True)
    has_option = "nki" in original.parameters
    added = inspect.Parameter(
        "nki", inspect.Parameter.KEYWORD_ONLY, default="", annotation=NkiVersion
    )
    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in original.parameters.values()
    ]

    def command(**values: Any) -> int | None:
        version = values["nki"] if has_option else values.pop("nki")
        if version not in ("", *VERSIONS):
            raise typer.BadParameter(f"--nki takes {' or '.join(VERSIONS)}, not {version!r}")
        with _in_effect(version):
            return function(**values)

    signature = original.replace(parameters=[*parameters, *([] if has_option else [added])])
    command.__signature__ = signature  # type: ignore[attr-defined]
    command.__annotations__ = {
        name: parameter.annotation for name, parameter in signature.parameters.items()
    }
    command.__name__, command.__doc__ = function.__name__, function.__doc__
    return command


@contextmanager
def _in_effect(option: str) -> Generator[None]:
    """Let kernels follow the chosen version, in this process and those that it starts."""
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
