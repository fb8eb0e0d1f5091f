"""The table of ``nki-hlo``'s commands. To add one, add one line here and write its module.

The module is imported only when the command runs (or its own ``--help`` is shown), so it may
import what it needs at its top. It has one function ``command``, a plain typer command: typed
parameters with ``Annotated[..., typer.Option/Argument(help=...)]``, a docstring that is the help
text (first line: what it does; then an example after a blank line). What it returns is the exit
code; None is 0. A group of sub-commands has a ``typer.Typer`` called ``app`` instead.

What a command uses from this package:

- ``inputs.open_module(name)``: a module from a path or ``-``.
- ``console``: ``table``, ``line``, ``note`` (stderr), ``write_json``, ``write_binary``.
- errors: raise ``HloError`` (or ``NkiError``, ``NeffError``); they are printed as
  ``error[CODE] place: message`` and the exit code is 3. ``typer.BadParameter`` is a usage error,
  exit code 2. Anything else is an internal error, 4, shown in full with ``--debug``.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ABOUT", "COMMANDS", "Command", "find", "sections"]

ABOUT = "Inspect, check, extract and run HLO modules with NKI kernels; no Trainium needed."


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Attributes:
        name: the word on the command line.
        module: where its ``command`` or ``app`` is.
        help: one line for the list of commands.
        panel: the heading that it is listed under.
        passes_arguments: the words after the first argument belong to the script,
            so ``--debug`` there is not ours.
        takes_modules: it has the options that choose among a folder's modules
            (:mod:`hlo_tools.cli.selection`).
    """

    name: str
    module: str
    help: str
    panel: str
    passes_arguments: bool = False

    @property
    def takes_modules(self) -> bool:
        return self.name in _ON_MODULES


LOOK = "Inspect modules"
CHANGE = "Change modules"
SCRIPTS = "Run scripts"
CHECK = "Check"

_ON_MODULES = frozenset(
    {"bisect", "convert", "diff", "evaluate", "graph", "kernels", "lint", "opt", "reduce",
     "sharding", "show", "slice", "stats", "verify"}
)  # fmt: skip

COMMANDS: tuple[Command, ...] = (
    Command("show", "hlo_tools.cli.show", "Show a module, instruction by instruction.", LOOK),
    Command("kernels", "hlo_tools.cli.kernels", "List the kernels that modules call.", LOOK),
    Command("sharding", "hlo_tools.cli.sharding", "Show which device holds which part.", LOOK),
    Command("graph", "hlo_tools.cli.graph", "Draw a module as a picture or a page.", LOOK),
    Command("diff", "hlo_tools.cli.diff", "Compare two modules.", LOOK),
    Command(
        "stats", "hlo_tools.cli.stats", "Count what modules cost: FLOPs, bytes, constants.", LOOK
    ),
    Command(
        "slice", "hlo_tools.cli.slice", "Extract part of a module as a module that runs.", CHANGE
    ),
    Command("convert", "hlo_tools.cli.convert", "Convert between formats, ids, dialects.", CHANGE),
    Command("opt", "hlo_tools.cli.opt", "Run passes on modules, or list them.", CHANGE),
    Command("kernel", "hlo_tools.cli.kernel", "Embed, swap, replace, expand kernels.", CHANGE),
    Command(
        "extract", "hlo_tools.cli.extract", "Extract the modules that a script compiles.", SCRIPTS
    ),
    Command("run", "hlo_tools.cli.run", "Run a script on the simulated device.", SCRIPTS),
    Command(
        "profile",
        "neff.cli.script_profile",
        "Estimate where a script's programs spend time.",
        SCRIPTS,
    ),
    Command("tune", "neff.cli.tune", "Estimate a kernel with many parameters.", SCRIPTS),
    Command("evaluate", "hlo_tools.cli.evaluate", "Evaluate a module.", CHECK),
    Command("bisect", "hlo_tools.cli.bisect", "Find where two evaluations first differ.", CHECK),
    Command(
        "reduce", "hlo_tools.cli.reduce", "Find the smallest module that shows a fault.", CHECK
    ),
    Command("check", "hlo_tools.cli.check", "Check kernels for faults.", CHECK),
    Command("verify", "hlo_tools.cli.verify", "Check that a module is valid.", CHECK),
    Command("lint", "hlo_tools.cli.lint", "Report what the compiler would reject.", CHECK),
    Command("explain", "hlo_tools.cli.explain", "Explain the code of an error or finding.", CHECK),
    Command("cache", "hlo_tools.cli.cache", "Look after a store of build results.", CHECK),
    Command("config", "hlo_tools.cli.config", "Show the settings in effect.", CHECK),
    Command(
        "doctor", "hlo_tools.cli.doctor", "Report who provides each package and what works.", CHECK
    ),
)


def find(name: str) -> Command | None:
    """The command called ``name``, or None."""
    return next((command for command in COMMANDS if command.name == name), None)


def sections() -> dict[str, list[tuple[str, str]]]:
    """Heading -> its commands with a line each, for the help of the program."""
    found: dict[str, list[tuple[str, str]]] = {}
    for command in COMMANDS:
        found.setdefault(command.panel, []).append((command.name, command.help))
    return found
