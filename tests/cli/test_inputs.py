"""Folders and files that commands are given: what counts as a module, what happens to the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hlo_tools
from hlo_tools.cli import main
from hlo_tools.cli.shared.inputs import module_files
from hlo_tools.wire.large_constants import encode_field

TEXT = b"HloModule m\nENTRY e { ROOT c = f32[] constant(1) }\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of an XLA dump: modules in two forms, and files that are no modules."""
    (tmp_path / "a.before_optimizations.txt").write_bytes(b"// first\n" + TEXT)
    (tmp_path / "b.after.hlo.pb").write_bytes(hlo_tools.load(TEXT).to_bytes())
    (tmp_path / "buffer-assignment.txt").write_text("BufferAssignment:\nallocation 0\n")
    (tmp_path / "compile_options.pb").write_bytes(encode_field(3, b"\x08\x01") + b"\x20\x01")
    (tmp_path / "module.mlir").write_text("module @m {}\n")
    return tmp_path


def test_what_a_dump_has_beside_modules_is_left_out(folder: Path) -> None:
    names = [Path(path).name for path in module_files(str(folder))]
    assert names == ["a.before_optimizations.txt", "b.after.hlo.pb"]


def test_a_damaged_text_is_not_left_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "c.hlo").write_text("no module")
    assert main(["verify", str(folder)]) == 3
    error = capsys.readouterr().err
    assert "error[HLO-NOT-HLO]" in error and "c.hlo: this is text without HLO" in error


@pytest.mark.parametrize("command", [["verify"], ["lint", "--target", "trn2"]])
def test_files_that_cannot_be_read_come_last(
    command: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "aa.pb").write_bytes(b"")
    (folder / "cut.pb").write_bytes((folder / "b.after.hlo.pb").read_bytes()[:20])
    assert main([*command, str(folder), "--json"]) == 3
    done = capsys.readouterr()
    assert [Path(name).name[0] for name in json.loads(done.out)["files"]] == ["a", "b"]
    assert done.err.count("error[") == 2
    assert "error[HLO-EMPTY]" in done.err and "error[HLO-TRUNCATED]" in done.err


def test_a_baseline_is_not_written_without_them(folder: Path) -> None:
    (folder / "aa.pb").write_bytes(b"")
    baseline = folder / "known.json"
    words = ["lint", "--target", "trn2", str(folder), "--baseline", str(baseline)]
    assert main([*words, "--write-baseline"]) == 3
    assert not baseline.exists()
