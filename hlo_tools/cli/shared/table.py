"""The table of a program's commands: what its help lists, and where each command is imported from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Command", "Program"]


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Attributes:
        name: the word on the command line.
        module: the module of its ``command`` or ``app``; empty for a command of a higher layer,
            which is an entry point (:data:`nki_lang.base.services.COMMANDS`).
        help: one line for the list of commands.
        panel: the heading that it is listed under.
        takes_modules: it has the options that choose among a folder's modules
            (:mod:`hlo_tools.cli.shared.selection`).
        shows_progress: a bar is shown while it runs.
        traces_kernels: it runs or checks kernels, and has the option ``--nki``
            (:mod:`hlo_tools.cli.shared.nki_version`).
        for_modules: the command that runs instead when the first word is a module.
    """

    name: str
    module: str
    help: str
    panel: str
    takes_modules: bool = False
    shows_progress: bool = False
    traces_kernels: bool = False
    for_modules: str = ""


@dataclass(frozen=True, slots=True)
class Program:
    """A program: its name, a line about it, its commands in the order of its help.

    Attributes:
        elsewhere: commands of the other program that this one does not have, by name, with their
            whole command line.
    """

    name: str
    about: str
    commands: tuple[Command, ...]
    elsewhere: Mapping[str, str]

    def find(self, name: str) -> Command | None:
        """The command called ``name``, or None."""
        return next((command for command in self.commands if command.name == name), None)

    def sections(self) -> dict[str, list[tuple[str, str]]]:
        """Heading -> its commands with a line each, for the help of the program."""
        lines: dict[str, list[tuple[str, str]]] = {}
        for command in self.commands:
            lines.setdefault(command.panel, []).append((command.name, command.help))
        return lines
