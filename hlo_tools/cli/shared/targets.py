"""The target: one option in every command, and one order of who decides.

The option (``--target`` and ``--platform`` are one), then the module's ``compile_flags.json``,
``NEURON_PLATFORM_TARGET_OVERRIDE``, the setting ``target`` (docs/lint.md), then the default.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Final, cast

import typer

from hlo_tools.cli.shared import completion
from hlo_tools.cli.shared.configuration import read_configuration
from hlo_tools.files.plain import read_beside
from nki_lang.base.errors import NkiError
from nki_lang.base.targets import DEFAULT_TARGET, TARGETS, Target, target_of

__all__ = [
    "FLAGS_FILE",
    "ChosenTarget",
    "TargetName",
    "checked_target",
    "extracted_target",
    "target_for",
]

PLATFORM: Final = "NEURON_PLATFORM_TARGET_OVERRIDE"
FLAGS_FILE: Final = "compile_flags.json"

TargetName = Annotated[
    str,
    typer.Option(
        "--target",
        "--platform",
        "-t",
        "-p",
        help="trn1, trn2 or trn3; by default the module's, the environment's or trn3.",
        metavar="TARGET",
        autocompletion=completion.words(*TARGETS),
    ),
]
"""The option of every command that has a target."""


@dataclass(frozen=True, slots=True)
class ChosenTarget:
    """A target and who chose it.

    Attributes:
        target: the target.
        origin: an option, a file, a variable, or ``default``.
    """

    target: Target
    origin: str

    @property
    def is_default(self) -> bool:
        """Return True if nobody chose the target."""
        return self.origin == "default"


def target_for(option: str = "", folder: Path | None = None) -> ChosenTarget:
    """The target that holds, and why.

    Args:
        option: the command's own, "" when it was not given.
        folder: the module's, whose ``compile_flags.json`` counts.

    Raises:
        NkiError: there is no such target (``NKI-TARGET``).
        HloError: the configuration cannot be used (``HLO-CONFIGURATION``).
    """
    if option:
        return ChosenTarget(target_of(option), "--target")
    if folder is not None and (name := extracted_target(folder)):
        return ChosenTarget(target_of(name), FLAGS_FILE)
    if name := os.environ.get(PLATFORM):
        return ChosenTarget(target_of(name), PLATFORM)
    setting = read_configuration().values["target"]
    if setting.value:
        return ChosenTarget(target_of(str(setting.value)), setting.origin)
    return ChosenTarget(target_of(DEFAULT_TARGET), "default")


def checked_target(name: str) -> str | None:
    """The target's own name; None when none was given.

    Raises:
        typer.BadParameter: there is no such target.
    """
    if not name:
        return None
    try:
        return target_of(name).name
    except NkiError as error:
        raise typer.BadParameter(f"{error.message}; {error.remedy}") from error


def extracted_target(folder: Path) -> str:
    """Return the target that the module in a folder was extracted for, "" if it names none.

    A damaged ``compile_flags.json`` names none here: who uses the flags reports it.

    Raises:
        HloFileError: ``HLO-SIDE-FILE``: it is no plain file, or very large.
    """
    try:
        flags: object = json.loads(read_beside(folder / FLAGS_FILE))
    except (OSError, ValueError, RecursionError):
        return ""
    words = [str(flag) for flag in cast("list[object]", flags)] if isinstance(flags, list) else []
    for word, after in zip_longest(words, words[1:], fillvalue=""):
        name, equals, value = word.partition("=")
        if name == "--target":
            return value if equals else after
    return ""
