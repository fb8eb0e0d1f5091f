"""Every command and every Python block of README and docs runs.

In a document, a ``console`` block holds commands behind ``$ ``; they run in order in one folder
that starts with a copy of ``examples/``. A ``python`` block runs in the same folder; the blocks of
one document share their names. An HTML comment right before a block changes that:
``<!-- not run: why -->``, ``<!-- exit: 3 -->`` (the expected exit code), and
``<!-- file: name.py -->`` (the block is saved under that name). ``<!-- needs: torch_xla -->``
anywhere says which framework the document needs.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(
    r"(?:<!-- (?P<key>not run|exit|file): (?P<value>[^>]*?) -->\s*)?"
    r"^```(?P<language>console|python)\n(?P<body>.*?)^```",
    re.MULTILINE | re.DOTALL,
)
ENTRY_POINTS = {
    "nki-hlo": "hlo_tools.cli",
    "nki-neff": "neff.cli",
    "neuronx-cc": "neuronxcc.driver.CommandDriver",
    "spike-run": "spike.cli",
}
IN_PLACE = {"./scripts/quickstart": f"{sys.executable} {ROOT}/scripts/quickstart.py"}
"""Commands of the checkout that a test must not run as they are, and what stands for them."""
SKIPPED = ("./scripts/test", "./scripts/check")
"""This very run, or what CI runs beside it."""


@dataclass(frozen=True, slots=True)
class Block:
    language: str
    body: str
    key: str
    value: str


def blocks_of(document: Path) -> Iterator[Block]:
    for match in BLOCK.finditer(document.read_text()):
        yield Block(match["language"], match["body"], match["key"] or "", match["value"] or "")


def commands_of(block: Block) -> Iterator[str]:
    """The commands of a console block, continuation lines joined."""
    pending = ""
    for line in block.body.splitlines():
        if pending:
            pending += line.lstrip("> ")
        elif line.startswith("$ "):
            pending = line[2:]
        if pending.endswith("\\"):
            pending = pending[:-1]
            continue
        if pending:
            yield pending
            pending = ""


def parameters() -> list[object]:
    rows: list[object] = []
    for document in DOCUMENTS:
        needs = re.findall(r"<!-- needs: (\w+) -->", document.read_text())
        marks = [getattr(pytest.mark, need) for need in needs]
        rows.append(pytest.param(document, marks=marks, id=document.name))
    return rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder with the examples and the commands on its path."""
    work = tmp_path / "work"
    shutil.copytree(ROOT / "examples", work)
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, module in ENTRY_POINTS.items():
        script = commands / name
        script.write_text(
            f"#!{sys.executable}\nfrom {module} import main\n"
            "if __name__ == '__main__':\n    raise SystemExit(main())\n"
        )
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    for name in ("python", "python3"):
        # A link would be another interpreter: without the packages of its environment.
        (commands / name).write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        (commands / name).chmod(0o755)
    return work


def run_block(block: Block, folder: Path, environment: dict[str, str], names: Path) -> None:
    if block.key == "file":
        (folder / block.value).write_text(block.body)
        return
    if block.language == "python":
        with names.open("a") as script:
            script.write(block.body + "\n")
        commands = [f"{sys.executable} {names}"]
    else:
        commands = list(commands_of(block))
    expected = int(block.value) if block.key == "exit" else 0
    for command in commands:
        if command.startswith(SKIPPED):
            continue
        command = IN_PLACE.get(command, command)
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == expected, f"$ {command}\n{done.stdout}{done.stderr}"


def tutorial_commands() -> list[str]:
    """The tutorial's commands on the first script, from `extract` on."""
    text = (ROOT / "docs" / "tutorial.md").read_text().partition("A JAX script")[0]
    commands = [
        command
        for block in BLOCK.finditer(text)
        if block["language"] == "console"
        for command in commands_of(Block("console", block["body"], "", ""))
    ]
    return [command for command in commands if "modules" in command or "add.neff" in command]


def test_the_tutorial_works_again_after_an_edit(
    folder: Path, tmp_path: Path, python_environment: dict[str, str]
) -> None:
    environment = dict(python_environment, NO_COLOR="1", NKI_HLO_CACHE=str(tmp_path / "cache"))
    environment["PATH"] = f"{tmp_path / 'bin'}{os.pathsep}{environment['PATH']}"
    script = folder / "tensor_add.py"
    commands = "\n".join(f"$ {command}" for command in tutorial_commands())
    assert commands.count("$ nki-") > 8
    make = "$ python -c \"import numpy; numpy.save('x.npy', numpy.ones((256, 2048), 'float32'))\"\n"
    extract = commands.splitlines()[0] + "\n"
    run_block(Block("console", extract, "", ""), folder, environment, folder / "unused.py")
    script.write_text(script.read_text().replace("1024", "2048"))
    run_block(Block("console", make + commands, "", ""), folder, environment, folder / "unused.py")
    assert len(list(folder.glob("modules/*/MODULE_*"))) == 2


@pytest.mark.parametrize("document", parameters())
def test_document_runs(
    document: Path, folder: Path, tmp_path: Path, python_environment: dict[str, str]
) -> None:
    environment = dict(python_environment, NO_COLOR="1", NKI_HLO_CACHE=str(tmp_path / "cache"))
    environment["PATH"] = f"{tmp_path / 'bin'}{os.pathsep}{environment['PATH']}"
    for block in blocks_of(document):
        if block.key != "not run":
            run_block(block, folder, environment, folder / "blocks_of_the_document.py")
