"""``nki-hlo opt`` and ``nki-hlo opt --list``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import hlo_tools
from hlo_tools.cli import main
from hlo_tools.passes import join_modules, registered_passes, split_modules
from hlo_tools.text import parse

TEXT = """HloModule first

ENTRY main {
  x = f32[2] parameter(0)
  a = f32[2] sine(x)
  b = f32[2] sine(x)
  ROOT out = f32[2] add(a, b)
}
"""
SECOND_TEXT = """HloModule second

ENTRY main {
  x = f32[] parameter(0)
  ROOT out = f32[] copy(x)
}
"""
BOTH_TEXTS = f"// header\n// -----\n{TEXT}\n// -----\n\n{SECOND_TEXT}// -----\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "one.hlo").write_text(TEXT)
    (tmp_path / "both.hlo").write_text(BOTH_TEXTS)
    hlo_tools.load(TEXT.encode()).save(tmp_path / "one.pb")
    return tmp_path


def opt(*words: object) -> int:
    return main(["opt", *map(str, words)])


def names(path: Path) -> list[str]:
    return [view.name for view in hlo_tools.load(path).entry]


@pytest.mark.parametrize(
    ("name", "start"),
    [("o.hlo", b"HloModule first"), ("o.txt", b"HloModule"), ("o.json", b"{"),
     ("o.pbtxt", b"name:"), ("o.pb", b"\x0a\x05first"), ("o.hlo.pb", b"\x0a\x05first")],
)  # fmt: skip
def test_format_follows_the_name(folder: Path, name: str, start: bytes) -> None:
    for source in ("one.hlo", "one.pb"):
        assert opt("-p", "cse", folder / source, "-o", folder / name) == 0
        assert (folder / name).read_bytes().startswith(start)
        assert names(folder / name) == ["x", "a", "out"]


def test_standard_output_has_what_came_in(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert opt("-p", "cse", folder / "one.hlo") == 0
    captured = capsys.readouterr()
    assert (
        captured.out.startswith("HloModule first")
        and captured.out.endswith("}\n")
        and not captured.err
    )


def test_proto_through_pipes(folder: Path, python_environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hlo_tools.cli", "opt", "-p", "cse", "-"],
        input=(folder / "one.pb").read_bytes(), capture_output=True, env=python_environment,
    )  # fmt: skip
    assert done.returncode == 0 and done.stderr == b""
    assert [view.name for view in hlo_tools.load(done.stdout).entry] == ["x", "a", "out"]


def test_without_passes_a_proto_stays_byte_for_byte(folder: Path) -> None:
    assert opt("-p", "", folder / "one.pb", "-o", folder / "copy.pb") == 0
    assert (folder / "copy.pb").read_bytes() == (folder / "one.pb").read_bytes()


def test_several_modules_in_one_text(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert opt("-p", "cse", folder / "both.hlo", "-o", folder / "out.hlo") == 0
    parts = split_modules((folder / "out.hlo").read_text())
    assert [parse(piece).name for piece in parts] == ["first", "second"]
    assert opt("-p", "cse", folder / "both.hlo") == 0
    assert capsys.readouterr().out == (folder / "out.hlo").read_text()
    assert opt("-p", "cse", folder / "both.hlo", "-o", folder / "m{}.pb") == 0
    assert names(folder / "m0.pb") == ["x", "a", "out"] and names(folder / "m1.pb") == ["x", "out"]
    assert opt("-p", "cse", folder / "both.hlo", "-o", folder / "out.pb") == 2
    assert "2 modules cannot be written to one" in capsys.readouterr().err


def test_errors_in_separated_text_have_the_line_of_the_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "bad.hlo").write_text(BOTH_TEXTS.replace("copy(x)", "copy(y)"))
    assert opt("-p", "cse", folder / "bad.hlo") == 3
    line = (
        BOTH_TEXTS.replace("copy(x)", "copy(y)").splitlines().index("  ROOT out = f32[] copy(y)")
        + 1
    )
    assert f"bad.hlo:{line}:" in capsys.readouterr().err


def test_split_and_join() -> None:
    assert split_modules("a\n") == ["a\n"]
    assert split_modules("// only\n// -----\n \n") == []
    assert split_modules("a\n//-----  \r\nb\n") == ["a\n", "\n\nb\n"]
    assert split_modules("x // -----\ny") == ["x // -----\ny"]
    assert split_modules(join_modules(["a\n\n", "b"])) == ["a\n\n", "\n\n\n\nb\n"]


def test_times_and_texts_go_to_standard_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--time-passes", "--print-between", "--verify-each")
    assert opt("-p", "dce,cse", folder / "one.hlo", "-o", folder / "o.hlo", *words) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "ms  dce: nothing" in captured.err and "ms  cse: 4 -> 3 instructions" in captured.err
    assert (
        "// before the first pass\nHloModule" in captured.err and "// after cse\n" in captured.err
    )


def test_json_tells_every_step(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert opt("-p", "cse", folder / "both.hlo", "-o", folder / "o.hlo", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["command"], document["passes"]) == (
        "nki-hlo/1",
        "opt",
        "cse",
    )
    first, second = document["modules"]
    assert first["module"] == "first" and first["steps"][0]["instructions_after"] == 3
    assert second["modified"] is False
    assert opt("-p", "cse", folder / "one.hlo", "--json") == 2


@pytest.mark.parametrize(
    ("words", "exit_code", "shown"),
    [
        (("-p", "dcee", "one.hlo"), 2, "error[HLO-NO-PASS] pipeline:1:1"),
        (("-p", "dce{", "one.hlo"), 2, "error[HLO-PIPELINE]"),
        (("-p", "dce{x=1}", "one.hlo"), 2, "error[HLO-PASS-ARGUMENT]"),
        (("-p", "dce", "absent.hlo"), 3, "error[HLO-READ]"),
        (("-p", "outlining{instructions=no}", "one.hlo"), 3, "pass outlining"),
        (("one.hlo",), 2, "--passes"),
    ],
)
def test_wrong_words(
    folder: Path, capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...], exit_code: int, shown: str,
) -> None:  # fmt: skip
    arguments = [str(folder / word) if word.endswith(".hlo") else word for word in words]
    assert opt(*arguments) == exit_code
    assert shown in capsys.readouterr().err


def test_failing_passes_leave_no_file(folder: Path) -> None:
    words = ("-p", "outlining{instructions=no}", folder / "one.hlo", "-o", folder / "o.hlo")
    assert opt(*words) == 3
    assert not (folder / "o.hlo").exists()


def test_list_of_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", "--list"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows[1:]] == list(registered_passes())
    assert rows[1].split()[1] == "nki-hlo"


def test_one_pass_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", "--list", "-p", "auto-cast,dce"]) == 0
    text = capsys.readouterr().out
    assert "type=bf16|fp16|tf32|fp8_e4m3 (default bf16)" in text
    assert "ensures no-dead-code: every instruction and computation is needed" in text
    assert main(["opt", "--list", "-p", "auto-cats"]) == 2
    assert "did you mean auto-cast" in capsys.readouterr().err


def test_passes_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", "--list", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    [cast] = [pass_row for pass_row in document["passes"] if pass_row["name"] == "auto-cast"]
    assert cast["arguments"][0] == {"name": "which", "takes": "matmult|all", "default": "matmult"}
    assert {"requires", "ensures", "origin", "value", "does"} <= set(cast)


def test_the_format_may_be_told(folder: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert opt("-p", "cse", folder / "one.pb", "--to", "text") == 0
    assert capsysbinary.readouterr().out.startswith(b"HloModule first")
    assert opt("-p", "cse", folder / "one.hlo", "--to", "proto") == 0
    assert capsysbinary.readouterr().out.startswith(b"\x0a\x05first")
    assert opt("-p", "cse", folder / "one.hlo", "--to", "txt") == 2
