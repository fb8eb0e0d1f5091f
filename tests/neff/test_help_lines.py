"""Every error of the package says what to do about it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import neff
from neff import errors
from neff.cli import main
from neff.compiler.unsupported import UNSUPPORTED

FILES = sorted(Path(neff.__file__).parent.rglob("*.py"))


def coded(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    """Calls that are given a code of the package, and that code as it is written."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        for keyword in node.keywords:
            if keyword.arg == "code" and "NEFF-" in ast.unparse(keyword.value):
                yield node, ast.unparse(keyword.value)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_an_error_has_a_help_line(file: Path) -> None:
    for call, code in coded(ast.parse(file.read_text())):
        error_class = getattr(errors, ast.unparse(call.func).split(".")[-1], None)
        remedies = [keyword.value for keyword in call.keywords if keyword.arg == "remedy"]
        message = any(not (isinstance(r, ast.Constant) and not r.value) for r in remedies)
        default = bool(error_class and getattr(error_class, "default_remedy", ""))
        if ast.unparse(call.func) == "uncovered":  # it takes the remedy of the code's kind
            default = bool(UNSUPPORTED[ast.literal_eval(code)].remedy)
        assert message or default, f"{file.name}:{call.lineno} {code} says not what to do"


def test_a_wrong_command_line_is_an_error_of_this_program(
    capfd: pytest.CaptureFixture[str],
) -> None:
    for words in (["run"], ["run", "--nothing"], ["nothing"], ["build", "x", "--lnc"]):
        assert main(words) == 2
        assert "error[NEFF-USAGE]: " in capfd.readouterr().err
