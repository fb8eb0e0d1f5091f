"""Every command and every Python block of README and docs runs, and prints what its sample says.

The pages run in the site's order, in one folder and one environment, as a reader works who follows
them; at night each page also runs alone, as a reader does who comes from a search.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.architecture.documents import (
    ROOT,
    Block,
    blocks_of,
    commands_of,
    documents,
    missing_words,
    run_document,
    working_folder,
)


def parameters() -> list[object]:
    rows: list[object] = []
    for document in documents():
        needs = re.findall(r"<!-- needs: (\w+) -->", document.read_text())
        marks = [getattr(pytest.mark, need) for need in needs]
        rows.append(pytest.param(document, marks=marks, id=document.name))
    return rows


def environment_in(parent: Path, commands: Path, base: dict[str, str]) -> dict[str, str]:
    environment = dict(base, NO_COLOR="1", NKI_HLO_CACHE=str(parent / "cache"))
    environment["PATH"] = f"{commands}{os.pathsep}{environment['PATH']}"
    return environment


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folder in which all pages run, one after the other, and the commands."""
    return working_folder(tmp_path_factory.mktemp("pages"))


def test_every_page_runs() -> None:
    assert sorted(documents()[1:]) == sorted((ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("document", parameters())
def test_document_runs_after_those_before_it(
    document: Path, shared_folder: tuple[Path, Path], python_environment: dict[str, str]
) -> None:
    folder, commands = shared_folder
    run_document(document, folder, environment_in(folder.parent, commands, python_environment))


@pytest.mark.slow("every page once more, 200 s")
@pytest.mark.parametrize("document", parameters())
def test_document_runs_alone(
    document: Path, tmp_path: Path, python_environment: dict[str, str]
) -> None:
    folder, commands = working_folder(tmp_path)
    run_document(document, folder, environment_in(tmp_path, commands, python_environment))


def tutorial_commands() -> list[str]:
    """Return the tutorial's commands on the first script, from ``extract`` on."""
    tutorial = ROOT / "docs" / "tutorial.md"
    text = tutorial.read_text().partition("A JAX script")[0]
    commands = [
        command.text
        for block in blocks_of(tutorial)
        if block.language == "console" and block.body in text
        for command in commands_of(block)
    ]
    return [command for command in commands if "modules" in command or "add.neff" in command]


def test_the_tutorial_works_again_after_an_edit(
    tmp_path: Path, python_environment: dict[str, str]
) -> None:
    folder, commands = working_folder(tmp_path)
    environment = environment_in(tmp_path, commands, python_environment)
    lines = "\n".join(f"$ {command}" for command in tutorial_commands())
    assert lines.count("$ nki-") > 8
    save = "$ python -c \"import numpy; numpy.save('x.npy', numpy.ones((256, 2048), 'float32'))\"\n"
    (folder / "extract.md").write_text(f"```console\n{lines.splitlines()[0]}\n```\n")
    (folder / "again.md").write_text(f"```console\n{save}{lines}\n```\n")
    run_document(folder / "extract.md", folder, environment)
    script = folder / "tensor_add.py"
    script.write_text(script.read_text().replace("1024", "2048"))
    run_document(folder / "again.md", folder, environment)
    assert len(list(folder.glob("modules/*/MODULE_*"))) == 2


def test_commands_have_their_samples() -> None:
    body = "$ first \\\n>   -o x\nprinted\n  more\n$ second\n"
    first, second = commands_of(Block("console", body))
    assert (first.text, first.sample) == ("first -o x", "printed\n  more")
    assert (second.text, second.sample) == ("second", "")


@pytest.mark.parametrize(
    ("sample", "output", "missing"),
    [
        ("a 1.5 µs (1.2–2.0)", "x\na   2.25 µs\n(9.0–10.5) y", ""),
        ("12% of it", "9 % of it", ""),
        ("3 rows", "4 rows", "3 rows"),
        ("first\n...\nlast", "first\nmiddle\nlast", ""),
        ("last\n...\nfirst", "first\nmiddle\nlast", "\nfirst"),
        ("", "anything", ""),
    ],
)
def test_samples_are_compared_by_words(sample: str, output: str, missing: str) -> None:
    assert missing_words(sample, output) == missing
