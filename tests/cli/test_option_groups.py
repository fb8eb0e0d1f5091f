"""Options in dataclasses reach a command as one value, and are flat for the parser."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from hlo_tools.cli.shared.option_groups import OptionGroup, with_groups

Depth = Annotated[int, typer.Option("--depth", "-d", help="How deep.")]
Names = Annotated[list[str] | None, typer.Option("--name", help="A name.")]


@dataclass(frozen=True, slots=True)
class SearchOptions(OptionGroup):
    names: Names = None
    depth: Depth = 3


@dataclass(frozen=True, slots=True)
class PrintOptions(OptionGroup):
    wide: bool = False


def command(
    file: str, first: int = 1, *, search: SearchOptions, shown: PrintOptions, last: bool = False
) -> int:
    """Show what was passed."""
    typer.echo(f"{file} {first} {search} {shown} {last}")
    return 0


def run(*words: str) -> str:
    app = typer.Typer()
    app.command()(with_groups(command))
    outcome = CliRunner().invoke(app, list(words))
    assert outcome.exit_code == 0, outcome.output
    return outcome.output.strip()


def test_options_have_the_position_of_their_group() -> None:
    signature = inspect.signature(with_groups(command))
    assert list(signature.parameters) == ["file", "first", "names", "depth", "wide", "last"]
    assert with_groups(command).__doc__ == command.__doc__


def test_defaults_are_those_of_the_dataclass() -> None:
    assert run("a") == f"a 1 {SearchOptions()} {PrintOptions()} False"


def test_given_options_arrive_in_their_group() -> None:
    search = SearchOptions(["x", "y"], 7)
    words = ("a", "--name", "x", "--wide", "-d", "7", "--name", "y", "--last", "--first", "2")
    assert run(*words) == f"a 2 {search} {PrintOptions(True)} True"


def test_a_command_without_groups_is_itself() -> None:
    def plain(file: str, depth: Depth = 1) -> int:
        return len(file) + depth

    assert with_groups(plain) is plain


def test_an_option_is_declared_once() -> None:
    def twice(*, search: SearchOptions, depth: Depth = 1) -> int:
        return depth + search.depth

    with pytest.raises(TypeError, match="options declared twice: depth"):
        with_groups(twice)
