"""The help of a program: complete, the same behind other options, and cheap."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from hlo_tools.cli import main as nki_hlo
from hlo_tools.cli.commands import COMMANDS
from hlo_tools.cli.program import group
from neff.cli import main as nki_neff
from neff.cli.commands import SECTIONS
from neff.cli.program import app

PROGRAMS = {"hlo_tools.cli": nki_hlo, "neff.cli": nki_neff}


@pytest.mark.parametrize("module", PROGRAMS)
def test_the_same_help_however_it_is_asked_for(
    module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main = PROGRAMS[module]
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(len(line) <= 80 for line in text.splitlines())
    for words, code in ((["-h"], 0), ([], 2), (["-v", "--help"], 0), (["--quiet", "-h"], 0)):
        assert (main(words), capsys.readouterr().out) == (code, text), words


def test_every_command_is_listed() -> None:
    listed = [name for rows in SECTIONS.values() for name, _ in rows]
    names = [one.name or one.callback.__name__ for one in app.registered_commands if one.callback]
    assert sorted(listed) == sorted(names)
    assert [one.name for one in COMMANDS] == group().list_commands(None)


def test_every_option_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    nki_hlo(["--help"])
    text = capsys.readouterr().out
    options = {word for one in group().params for word in one.opts if word.startswith("--")}
    assert options and all(f"{option} " in text for option in options)


@pytest.mark.parametrize("module", PROGRAMS)
def test_it_loads_neither_numpy_nor_a_parser(
    module: str, python_environment: dict[str, str]
) -> None:
    code = (
        f"import sys; from {module} import main; main(['--help'])\n"
        "print({'numpy', 'typer', 'rich', 'click', 'google.protobuf'} & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=python_environment, capture_output=True, text=True
    )
    assert done.stdout.endswith("\nset()\n"), done.stderr


def test_a_reader_that_stops_early(python_environment: dict[str, str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "hlo_tools.cli", "--help"], stdout=writing,
        stderr=subprocess.PIPE, text=True, env=python_environment,
    )  # fmt: skip
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")
