"""The help of a program: complete, the same behind other options, and cheap."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from hlo_tools.cli import main as nki_hlo
from hlo_tools.cli.commands import PROGRAM as NKI_HLO
from hlo_tools.cli.program import group
from hlo_tools.cli.shared.table import Program
from neff.cli import main as nki_neff
from neff.cli.commands import PROGRAM as NKI_NEFF

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


@pytest.mark.parametrize("program", (NKI_HLO, NKI_NEFF), ids=lambda program: program.name)
def test_every_command_is_listed(program: Program) -> None:
    assert [command.name for command in program.commands] == group(program).list_commands(None)


@pytest.mark.parametrize("main", PROGRAMS.values(), ids=PROGRAMS)
def test_every_option_is_listed(
    main: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--help"])
    text = capsys.readouterr().out
    params = group(NKI_HLO).params
    options = {word for param in params for word in param.opts if word.startswith("--")}
    assert options and all(f"{option} " in text for option in options)


def test_the_help_of_a_command_is_plain(capsys: pytest.CaptureFixture[str]) -> None:
    for main, program in ((nki_hlo, NKI_HLO), (nki_neff, NKI_NEFF)):
        for command in program.commands:
            assert main([command.name, "--help"]) == 0
            text = capsys.readouterr().out
            assert text.startswith(f"Usage: {program.name} {command.name} "), text
            assert not set("╭│╰─") & set(text) and ("Example" in text or "Commands:" in text), text


@pytest.mark.parametrize("main", PROGRAMS.values(), ids=PROGRAMS)
def test_options_of_the_program_stand_anywhere(
    main: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["--debug", "diff", "-v", "a", "b"], ["diff", "a", "--debug", "b", "--quiet"]):
        assert main(words) == 3
        assert "Traceback" in capsys.readouterr().err


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
