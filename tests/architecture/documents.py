"""README and the pages of docs as programs: their blocks, commands and printed samples.

In a document, a ``console`` block holds commands behind ``$ ``; they run in order in one folder that
starts with a copy of ``examples/``. The lines below a command are a sample of what it prints, and so is a
``text`` block right below a console block. A sample holds if its words are in the output, in this order;
``...`` in a line of its own stands for any lines, and figures with a decimal point or a percent sign may
differ. A ``python`` block runs in the same folder; the blocks of one document share their names. An HTML
comment right before a block changes that: ``<!-- not run: why -->``, ``<!-- exit: 3 -->`` (the expected exit
code), and ``<!-- file: name.py -->`` (the block is saved under that name). ``<!-- needs: torch_xla -->``
anywhere says which framework the document needs.
"""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts.site.__main__ import GROUPS

__all__ = [
    "ROOT", "Block", "blocks_of", "commands_of", "documents", "missing_words", "run_document",
    "working_folder",
]  # fmt: skip

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(
    r"(?:<!-- (?P<key>not run|exit|file): (?P<value>[^>]*?) -->\s*)?"
    r"^```(?P<language>console|python)\n(?P<body>.*?)^```\n"
    r"(?:\n```text\n(?!\$ )(?P<sample>.*?)^```)?",
    re.MULTILINE | re.DOTALL,
)
_ENTRY_POINTS = {
    "nki-hlo": "hlo_tools.cli",
    "nki-neff": "neff.cli",
    "neuronx-cc": "neuronxcc.driver.CommandDriver",
    "spike-run": "spike.cli",
}
_REPLACED = {"./scripts/quickstart": f"{sys.executable} {ROOT}/scripts/quickstart.py"}
"""Commands of the checkout that a test must not run as they are, with their replacements."""

_SKIPPED = ("./scripts/test", "./scripts/check")
"""The test run itself, and a command that CI runs before it."""

_ELLIPSIS = re.compile(r"^\s*\.\.\.\s*$", re.MULTILINE)
_FIGURE = re.compile(r"\d[\d,]*(\.\d+(e[+-]?\d+)?\s*%?|\s*%)|\b\d+(?=–)")
"""A measured or estimated number; its digits depend on the machine or on the timing model."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a document; ``key`` and ``value`` are those of the comment before it.

    Attributes:
        sample: text that the commands of the block print, in a block of its own.
    """

    language: str
    body: str
    key: str = ""
    value: str = ""
    sample: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a console block, and the sample of its output."""

    text: str
    sample: str = ""


def documents() -> list[Path]:
    """Return README and the pages of docs in the site's order."""
    names = [name for group in GROUPS.values() for name in group.split()]
    pages = [ROOT / "docs" / f"{name}.md" for name in names]
    return [ROOT / "README.md", *(page for page in pages if page.exists())]


def blocks_of(document: Path) -> Iterator[Block]:
    for match in _BLOCK.finditer(document.read_text()):
        yield Block(
            match["language"],
            match["body"],
            match["key"] or "",
            match["value"] or "",
            match["sample"] or "",
        )


def commands_of(block: Block) -> Iterator[Command]:
    """Yield the commands of a console block, continuation lines joined."""
    text, sample, is_continued = "", [], False
    for line in block.body.splitlines():
        if is_continued:
            text = text[:-1] + line.lstrip("> ")
        elif line.startswith("$ "):
            if text:
                yield Command(text, "\n".join(sample))
            text, sample = line[2:], []
        else:
            sample.append(line)
        is_continued = text.endswith("\\") and not sample
    if text:
        yield Command(text, "\n".join(sample))


def working_folder(parent: Path) -> tuple[Path, Path]:
    """Create a folder with the examples, and a folder with the project's commands.

    Returns:
        The folder to work in, and the folder to put in front of ``PATH``.
    """
    work = parent / "work"
    shutil.copytree(ROOT / "examples", work)
    commands = parent / "bin"
    commands.mkdir()
    texts = {
        name: f"#!{sys.executable}\nfrom {module} import main\n"
        "if __name__ == '__main__':\n    raise SystemExit(main())\n"
        for name, module in _ENTRY_POINTS.items()
    }
    # A link to the interpreter would lack the packages of its environment.
    texts |= dict.fromkeys(("python", "python3"), f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    for name, text in texts.items():
        (commands / name).write_text(text)
        (commands / name).chmod((commands / name).stat().st_mode | stat.S_IXUSR)
    return work, commands


def run_document(document: Path, folder: Path, environment: dict[str, str]) -> None:
    """Run the blocks of a document; adjacent Python blocks run as one program.

    Raises:
        AssertionError: a command ends with another exit code than the document says, or prints other
            text than its sample.
    """
    blocks = [block for block in blocks_of(document) if block.key != "not run"]
    program = folder / "blocks_of_the_document.py"
    program.write_text("")
    for position, block in enumerate(blocks):
        if block.key == "file":
            (folder / block.value).write_text(block.body)
        elif block.language == "console":
            exit_code = int(block.value) if block.key == "exit" else 0
            output = "".join(
                _run(command, folder, environment, exit_code) for command in commands_of(block)
            )
            _compare(block.sample, output, block.body)
        else:
            with program.open("a") as script:
                script.write(block.body + "\n")
            following = blocks[position + 1 : position + 2]
            is_joined = any(block.language == "python" and not block.key for block in following)
            if block.key or not is_joined:
                exit_code = int(block.value) if block.key == "exit" else 0
                _run(Command(f"{sys.executable} {program}"), folder, environment, exit_code)


def _run(command: Command, folder: Path, environment: dict[str, str], exit_code: int) -> str:
    """Run a command, check its exit code and its sample, and return what it prints."""
    if command.text.startswith(_SKIPPED):
        return ""
    text = _REPLACED.get(command.text, command.text)
    done = subprocess.run(
        ["bash", "-c", text], cwd=folder, env=environment, capture_output=True, text=True
    )
    output = done.stdout + done.stderr
    assert done.returncode == exit_code, f"$ {text}\nexit code {done.returncode}\n{output}"
    _compare(command.sample, output, f"$ {text}")
    return output


def _compare(sample: str, output: str, command: str) -> None:
    missing = missing_words(sample, output)
    assert not missing, f"{command}\nthe sample says\n{missing}\nand the output is\n{output}"


def missing_words(sample: str, output: str) -> str:
    """Return the section of a sample that the output lacks; empty if it lacks none."""
    printed, position = _words(output), 0
    for section in _ELLIPSIS.split(sample):
        position = printed.find(_words(section), position)
        if position < 0:
            return section
    return ""


def _words(text: str) -> str:
    return " ".join(_FIGURE.sub("#", text).split())
