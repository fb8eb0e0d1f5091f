"""``nki-hlo convert``."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hlo_tools
from hlo_tools import Module, array_shape, literal_of
from hlo_tools.cli import main


@pytest.fixture
def file(tmp_path: Path) -> Path:
    module = Module.new("made")
    body = module.add_computation("main")
    table = literal_of(np.arange(256, dtype="f4")).proto
    constant = body.add("constant", array_shape("f32", (256,)), name="table", literal=table)
    body.set_root(body.add("negate", constant.shape, [constant]))
    module.save(tmp_path / "in.pb")
    return tmp_path / "in.pb"


@pytest.mark.parametrize(
    ("name", "start"),
    [("a.txt", b"HloModule made"), ("a.hlo", b"HloModule made"), ("a.json", b"{"),
     ("a.pbtxt", b"name:"), ("a.pb", b"\x0a\x04made")],
)  # fmt: skip
def test_format_by_name_and_back(file: Path, name: str, start: bytes) -> None:
    output = file.parent / name
    assert main(["convert", str(file), "-o", str(output)]) == 0
    assert output.read_bytes().startswith(start)
    again = hlo_tools.load(output)
    assert [view.name for view in again.entry] == ["table", "negate"]


def test_unchanged_copy_is_byte_identical_and_gz_is_gzip(file: Path) -> None:
    for name in ("copy.pb", "copy.pb.gz"):
        assert main(["convert", str(file), "-o", str(file.parent / name)]) == 0
    assert (file.parent / "copy.pb").read_bytes() == file.read_bytes()
    assert gzip.decompress((file.parent / "copy.pb.gz").read_bytes()) == file.read_bytes()


def test_ids_dialect_and_hlo_proto(file: Path) -> None:
    output = file.parent / "out.pb"
    assert main(["convert", str(file), "--ids", "legacy", "-o", str(output)]) == 0
    assert hlo_tools.load(output).id_scheme == "legacy"
    assert main(["convert", str(output), "--ids", "wide", "-o", str(output)]) == 0
    assert hlo_tools.load(output).entry.root.id == 1 << 32 | 1
    assert main(["convert", str(file), "--dialect", "2024", "-o", str(output)]) == 0
    assert hlo_tools.load(output).id_scheme == "legacy"
    assert main(["convert", str(file), "--to", "hlo-proto", "-o", str(output)]) == 0
    assert hlo_tools.load(output).envelope is not None


def test_constants_out_and_in(file: Path) -> None:
    small, inlined = file.parent / "small.pb", file.parent / "whole.pb"
    assert main(["convert", str(file), "--externalize", "100", "-o", str(small)]) == 0
    assert small.stat().st_size < 500 and (file.parent / "made.constants").is_dir()
    assert main(["convert", str(small), "--inline", "-o", str(inlined)]) == 0
    assert inlined.read_bytes() == file.read_bytes()


def test_standard_input_and_output(file: Path, python_environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "hlo_tools.cli", "convert", "-"]
    done = subprocess.run(
        command, input=file.read_bytes(), capture_output=True, env=python_environment
    )
    assert done.stdout == file.read_bytes() and done.stderr == b""


@pytest.mark.parametrize(
    ("words", "code"),
    [(["--ids", "small"], 2), (["--to", "xml"], 2), (["--dialect", "1999"], 2),
     (["--externalize", "5"], 2), (["--externalize", "-5", "-o", "x.pb"], 2)],
)  # fmt: skip
def test_wrong_words(
    file: Path, words: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", str(file), *words]) == code
    assert "error[HLO-" in capsys.readouterr().err
