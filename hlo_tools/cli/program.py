"""The program: options for all commands, lazy commands, exit codes."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from hlo_tools.cli.shared import console, failures
from hlo_tools.cli.shared.completion_scripts import answer_completion, completion_request
from hlo_tools.cli.shared.nki_version import with_nki_version
from hlo_tools.cli.shared.option_groups import with_groups
from hlo_tools.cli.shared.program_help import help_text
from hlo_tools.cli.shared.progress import with_progress
from hlo_tools.cli.shared.selection import with_selection
from hlo_tools.cli.shared.table import Command, Program
from nki_lang.base.services import COMMANDS, service

__all__ = ["group", "load_command", "run"]

FINE, INTERRUPTED = 0, 130

_ANYWHERE = frozenset({"--debug", "--quiet", "-q", "--verbose", "-v", "--wide"})
"""Options of the program that may stand behind the command's name too."""


class _Listed(TyperCommand):
    """A command as the list of commands shows it; its module is not imported."""

    def __init__(self, entry: Command) -> None:
        super().__init__(entry.name, help=entry.help, rich_help_panel=entry.panel)


class _LazyGroup(TyperGroup):
    """Commands from the program's table, each imported when it is run."""

    program: Program

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(help_text(self.program))

    def list_commands(self, ctx: object) -> list[str]:
        return [entry.name for entry in self.program.commands]

    def get_command(self, ctx: object, cmd_name: str) -> Any:
        entry = self.program.find(cmd_name)
        return _Listed(entry) if entry is not None else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        entry = self.program.find(args[0]) if args else None
        if entry is None:
            _refuse(args[0] if args else "", self.program)
            return super().resolve_command(ctx, args)
        if entry.for_modules and _runs_module(args[1:]):
            entry = self.program.find(entry.for_modules) or entry
        return entry.name, load_command(entry), args[1:]

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except (
            BrokenPipeError
        ):  # click would end with 1; a reader that closes early is not an error
            _silence_stdout()
            return FINE


def _runs_module(words: list[str]) -> bool:
    """Return True if a command receives a module, or arrays for one, instead of a script."""
    from hlo_tools.cli.shared.inputs import SUFFIXES

    first = next((word for word in words if not word.startswith("-")), "")
    return first.endswith((*SUFFIXES, ".npy", ".npz"))


def _refuse(word: str, program: Program) -> None:
    """Reject a word that is not a command, and suggest the other program's or the nearest one."""
    from difflib import get_close_matches

    if word in program.elsewhere:
        raise typer.BadParameter(f"no command {word!r}; did you mean '{program.elsewhere[word]}'?")
    near = get_close_matches(word, [entry.name for entry in program.commands], 1)
    if near and not word.startswith("-"):
        raise typer.BadParameter(f"no command {word!r}; did you mean {near[0]!r}?")


def load_command(entry: Command) -> Any:
    """Import a command's module and build the command."""
    module = import_module(entry.module) if entry.module else service(entry.name, COMMANDS)
    app = getattr(module, "app", None)
    if app is None:
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        function = with_groups(module.command)
        function = with_selection(function) if entry.takes_modules else function
        function = with_nki_version(function) if entry.traces_kernels else function
        app.command(entry.name, context_settings=getattr(module, "SETTINGS", None))(function)
    loaded = typer.main.get_command(app)
    loaded.name = entry.name
    for command in (loaded, *getattr(loaded, "commands", {}).values()):
        command.help = _with_examples(command.help or "")
        if command.callback is not None and entry.shows_progress:
            command.callback = with_progress(command.name or entry.name, command.callback)
    return loaded


def _with_examples(text: str) -> str:
    """A command's help with its ``Example:`` lines as one block that keeps its line breaks."""
    message, mark, examples = text.partition("Example: ")
    if not mark:
        return text
    rows = [f"  {row.strip()}" for row in examples.split("Example: ")]
    return "\n".join([f"{message.rstrip()}\n\n\b", "Examples:", *rows])


def _print_version(context: typer.Context, is_requested: bool) -> None:
    """Before a command is looked for: none is needed."""
    if is_requested:
        console.line(f"{context.info_name} {console.installed_version()}")
        raise typer.Exit


def _options(
    debug: bool = typer.Option(False, "--debug", help="Show tracebacks of errors."),
    color: str = typer.Option("auto", "--color", help="auto, always or never.", metavar="WHEN"),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="Print only data and errors."),
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Print more to stderr."),
    wide: bool = typer.Option(False, "--wide", help="Print tables in full on a terminal."),
    version: bool = typer.Option(
        False, "--version", help="Print the version.", callback=_print_version, is_eager=True
    ),
) -> None:
    if color not in console.COLORS:
        raise typer.BadParameter(f"{color!r} is not one of {', '.join(console.COLORS)}")
    console.configure(debug=debug, color=color, quiet=quiet, verbose=verbose, wide=wide)


def group(program: Program) -> Any:
    """The whole command line of a program as one click group."""
    app = typer.Typer(
        name=program.name,
        cls=_LazyGroup,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=False)(_options)
    click_group: Any = typer.main.get_command(app)
    click_group.program = program
    return click_group


def run(program: Program, words: list[str]) -> int:
    """Run a program; the exit code, see :func:`hlo_tools.cli.main`."""
    program_options, command_words = _hoisted(words)
    console.configure(debug="--debug" in program_options or bool(os.environ.get("NKI_HLO_DEBUG")))
    console.open_streams()
    try:
        if completion_request(command_words):
            return answer_completion(program.name, command_words)
        result = group(program).main(
            [*program_options, *command_words], program.name, standalone_mode=False
        )
        return result if isinstance(result, int) else FINE
    except (KeyboardInterrupt, typer.Abort):
        console.note("interrupted")
        return INTERRUPTED
    except typer.Exit as end:
        return end.exit_code
    except SystemExit as end:  # completion ends so
        return end.code if isinstance(end.code, int) else FINE
    except Exception as error:
        return failures.report(error, program.name)


def _hoisted(words: list[str]) -> tuple[list[str], list[str]]:
    """Options of the program, wherever they stand before a script's own words, and the others."""
    end = words.index("--") if "--" in words else len(words)
    front = [word for word in words[:end] if word in _ANYWHERE]
    return front, [word for word in words[:end] if word not in _ANYWHERE] + words[end:]


def _silence_stdout() -> None:
    """The reader of our output has exited: nothing may be written to it when Python ends."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
