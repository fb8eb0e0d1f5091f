"""Tables on terminals, narrow and wide, and in pipes."""

from __future__ import annotations

import os
import sys

import pytest

from hlo_tools.cli.shared import console

COLUMNS = ("status", "bytes", "NEFF", "from")
PATH = "modules/neuronxcc-0.1.0/MODULE_10581904593217327196/model.hlo_module.pb"
TABLE_ROWS = [
    ("built", 12345, "out/jit_step.neff", PATH),
    ("failed", 7, "", PATH),
    ("built", 1, "", ""),
]


def printed(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: width > 0)
    monkeypatch.setattr(sys.stdout, "fileno", lambda: 1)
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((width, 24)))
    monkeypatch.setenv("NO_COLOR", "1")
    console.table(COLUMNS, TABLE_ROWS)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("width", [0, 200])
def test_a_row_that_fits_is_one_line(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(width, monkeypatch, capsys)
    assert lines[0].split() == list(COLUMNS)
    assert lines[1] == f"built   12345  out/jit_step.neff  {PATH}"
    assert len(lines) == 4


@pytest.mark.parametrize("width", [80, 40, 10, 1])
def test_nothing_is_cut_where_it_does_not_fit(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(width, monkeypatch, capsys)
    assert sum(PATH in line for line in lines) == 2
    assert "…" not in "".join(lines)
    if width == 80:
        assert lines[:2] == ["status  bytes  NEFF", "    from"]
        assert lines[4:6] == ["failed      7", f"    {PATH}"]
        assert lines[-1] == "built       1"  # no second line for what is empty
