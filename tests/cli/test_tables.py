"""Tables on terminals, narrow and wide, and in pipes."""

from __future__ import annotations

import io
import os
import sys

import pytest

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.text_table import Layout, fit_columns, shortened

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


def test_long_texts_lose_their_middle_where_a_row_does_not_fit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(60, monkeypatch, capsys)
    assert len(lines) == 4 and max(map(len, lines)) == 60
    assert lines[1].startswith("built   12345  out/jit_step.neff  modu")
    assert lines[1].endswith("model.hlo_module.pb"[-15:]) and lines[1].count("…") == 1


@pytest.mark.parametrize("width", [30, 20, 12, 1])
def test_columns_that_do_not_fit_are_named(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys.stdout, "fileno", lambda: 1)
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((width, 24)))
    monkeypatch.setenv("NO_COLOR", "1")
    console.table(COLUMNS, TABLE_ROWS)
    output = capsys.readouterr()
    assert all(len(line) <= max(width, 8) for line in output.out.splitlines())
    names = output.out.splitlines()[0].split()
    hidden = ", ".join(COLUMNS[len(names) :])
    assert output.err == f"not shown: {hidden}; use --wide or a wider terminal\n"


def test_wide_prints_everything(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    console.configure(wide=True)
    try:
        assert PATH in printed(20, monkeypatch, capsys)[1]
    finally:
        console.configure()


@pytest.mark.parametrize(
    ("widths", "limit", "layout"),
    [
        ([5, 5], 12, Layout((5, 5), 0)),
        ([30, 30, 4], 50, Layout((21, 21, 4), 0)),
        ([30, 12, 4], 40, Layout((20, 12, 4), 0)),
        ([30, 12, 4], 22, Layout((10, 10), 1)),
        ([30], 3, Layout((8,), 0)),
    ],
)
def test_the_widest_texts_become_shorter_first(
    widths: list[int], limit: int, layout: Layout
) -> None:
    assert fit_columns(widths, [True] * len(widths), limit) == layout


def test_numbers_are_never_shortened() -> None:
    assert fit_columns([30, 11], [True, False], 25) == Layout((12, 11), 0)
    assert fit_columns([30, 11], [True, False], 20) == Layout((20,), 1)


def test_a_path_keeps_more_of_its_end() -> None:
    assert shortened("modules/neuronxcc/model.pb", 13) == "mod…/model.pb"
    assert shortened("add, multiply, subtract", 11) == "add, …tract"
    assert [shortened("abc", width) for width in (3, 2, 1, 0)] == ["abc", "a…", "…", ""]


NEAREST_TEXTS = {"µs … ×": "us ... x", "±20 % ≤ 3 日": "+-20 % <= 3 ?"}


@pytest.mark.parametrize("text", NEAREST_TEXTS)
def test_an_encoding_without_a_character_prints_a_similar_text(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    console.open_streams()
    console.line(text)
    sys.stdout.flush()
    assert raw.getvalue().decode() == f"{NEAREST_TEXTS[text]}\n"
