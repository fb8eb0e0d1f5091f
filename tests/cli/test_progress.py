"""The bar of what takes long: when it comes, what it says, when it goes."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from hlo_tools.cli.shared import console, progress
from hlo_tools.cli.shared.progress import Progress, paused, shown, step

LATER = 10**9
"""A time long after now, in seconds."""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Replace standard error by a terminal; progress does not depend on the clock."""
    stream = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "_watch", lambda *_: None)
    return stream


def test_it_comes_after_a_while_and_leaves_nothing() -> None:
    terminal = Terminal()
    bar = Progress("opt", terminal)
    bar.step("cse", 2, 7)
    bar.tick(-LATER)
    assert terminal.getvalue() == ""
    bar.tick(LATER)
    bar.hide()
    shown_text = terminal.getvalue()
    assert "cse" in shown_text and "2/7" in shown_text
    assert shown_text.endswith("\x1b[2K")


def test_output_takes_it_away_and_comes_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = on_terminal(monkeypatch)
    with shown("verify"):
        current = progress._current
        assert current is not None
        current.tick(LATER)
        assert current._bar is not None
        print("a line")
        assert current._bar is None
        sys.stdout.write("half a line")
        current.tick(LATER)
        assert current._bar is None, "a bar would stand in the middle of the line"
    assert progress._current is None and sys.stderr is terminal
    assert capsys.readouterr().out == "a line\nhalf a line"


def test_it_is_hidden_while_a_child_process_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch)
    with shown("check"):
        current = progress._current
        assert current is not None
        current.tick(LATER)
        with paused():
            assert current._bar is None
            current.tick(LATER)
            assert current._bar is None
        current.tick(LATER)
        assert current._bar is not None
    with paused():  # no bar to hide
        pass


def test_names_are_no_markup() -> None:
    terminal = Terminal()
    bar = Progress("x", terminal)
    bar.tick(LATER)
    bar.step("auto-cast[/red]{type=bf16}", 0, 1)
    bar.hide()
    assert "auto-cast[/red]{type=bf16}" in terminal.getvalue()


@pytest.mark.parametrize("why", ["a terminal", "no terminal", "quiet", "dumb"])
def test_where_there_is_one(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch)
    if why == "no terminal":
        monkeypatch.setattr(sys, "stderr", io.StringIO())
    if why == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    console.configure(color="auto", quiet=why == "quiet")
    try:
        with shown("opt"):
            step("cse")
            assert (progress._current is not None) == (why == "a terminal")
    finally:
        console.configure(color="auto", quiet=False)


def test_a_command_on_a_terminal(tmp_path: Path, python_environment: dict[str, str]) -> None:
    """The bar, made to come at once, is gone from the screen when the command ends.

    The command names its file without a folder: a long path would fill the line.
    """
    (tmp_path / "m.hlo").write_text("HloModule m\nENTRY e { ROOT x = f32[] parameter(0) }\n")
    script = (
        "import sys, hlo_tools.cli.shared.progress as p\n"
        "p.AFTER = 0.0\n"
        "real = p.Progress.step\n"
        "def step(self, *given):\n"
        "    real(self, *given)\n"
        "    self.tick(1e9)\n"
        "p.Progress.step = step\n"
        "from hlo_tools.cli import main\n"
        "sys.exit(main(['verify', 'm.hlo']))\n"
    )
    ours, reference = pty.openpty()
    environment = {**python_environment, "TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=reference,
        env=environment,
        cwd=tmp_path,
    ) as child:
        os.close(reference)
        output, _ = child.communicate()
    screen = b""
    try:
        while chunk := os.read(ours, 4096):
            screen += chunk
    except OSError:  # the other side is closed
        pass
    os.close(ours)
    assert child.returncode == 0 and b"\x1b" not in output
    assert b"m.hlo" in screen and b"0/1" in screen
    assert b"1 module, 0 findings" in screen.split(b"\x1b[2K")[-1]
