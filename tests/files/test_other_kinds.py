"""Files that are not modules are named by their kind; devices and pipes are not opened."""

from __future__ import annotations

import io
import os
import pickle
import sqlite3
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from hlo_tools import load
from hlo_tools.cli import main
from hlo_tools.errors import HloFileError, HloTextError
from hlo_tools.extract.script import run_script
from hlo_tools.files.other_kinds import file_kind
from hlo_tools.files.writing import write_bytes
from neff.cli import main as nki_neff
from nki_lang.base.atomic import atomic_file
from tests.hlo_examples import example

MODULE = example().SerializeToString()


def _npy() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.arange(3.0))
    return stream.getvalue()


def _npz() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, x=np.arange(3.0))
    return stream.getvalue()


def _zip(member: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(member, b"1")
    return stream.getvalue()


def _sqlite(folder: Path) -> bytes:
    connection = sqlite3.connect(folder / "d.db")
    connection.execute("create table t (x)")
    connection.commit()
    connection.close()
    return (folder / "d.db").read_bytes()


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        "a NumPy array (.npy)": _npy(),
        "an archive of NumPy arrays (.npz)": _npz(),
        "a program that torch.export saved (.pt2)": _zip("m/archive_format"),
        "a file that torch.save or torch.jit.save wrote": _zip("m/data.pkl"),
        "a ZIP archive": _zip("notes.txt"),
        "a pickle": pickle.dumps([1, 2]),
        "an executable or a shared library": Path(sys.executable).resolve().read_bytes()[:4096],
        "an SQLite database": _sqlite(folder),
        "a web page": b"<!DOCTYPE html><html></html>",
    }


def test_every_kind_is_named_with_a_next_step(tmp_path: Path) -> None:
    for name, content in _contents(tmp_path).items():
        path = tmp_path / "input.pb"
        path.write_bytes(content)
        with pytest.raises(HloFileError) as failure:
            load(path)
        assert failure.value.code == "HLO-NOT-HLO", name
        assert failure.value.message == f"this is {name}, not a module"
        assert failure.value.remedy


def test_a_module_is_no_other_kind() -> None:
    assert file_kind(MODULE) is None
    assert file_kind(load(MODULE).to_text().encode()) is None


TEXTS = {
    "root:x:0:0:root:/root:/bin/sh\n": "text without HLO",
    "hello world\n": "text without HLO",
    '["--target=trn2"]': "a list in JSON",
    "# a comment\n\nimport nki\nNAMES = {}\n": "a Python script",
    '"""Softmax."""\nfrom math import exp\nx = {1: 2}\n': "a Python script",
    "@nki.jit\ndef f(x):\n    return {}\n": "a Python script",
    "#!/usr/bin/env python3\nx = {}\n": "a Python script",
}


@pytest.mark.parametrize("text", TEXTS)
def test_texts_without_hlo_are_named(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "input.txt"
    path.write_text(text)
    with pytest.raises(HloFileError) as failure:
        load(path)
    assert failure.value.code == "HLO-NOT-HLO"
    assert failure.value.message == f"this is {TEXTS[text]}, not a module"
    assert nki_neff(["info", str(path)]) == 3
    shown = "text" if TEXTS[text] == "text without HLO" else TEXTS[text]
    assert f"{path}: this is {shown}, not a NEFF\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "// HloModule\nimport x {\n",
        "HloModule",
        "ENTRY main {\n  ROOT x = f32[] constant(1\n}\n",
        "main {\n}\n",
    ],
)
def test_texts_with_a_mistake_keep_its_position(text: str, tmp_path: Path) -> None:
    path = tmp_path / "module.hlo"
    path.write_text(text)
    with pytest.raises(HloTextError):
        load(path)


def test_files_of_other_kinds_are_no_neff(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "program.neff"
    klir = b"\xd9\xd9\xf7" + bytes(2000)
    for content, name in ((MODULE, "a module"), (_npy(), "a NumPy array (.npy)"),
                          (klir, "a kernel file (KLIR)")):  # fmt: skip
        path.write_bytes(content)
        assert nki_neff(["info", str(path)]) == 3
        assert f"{path}: this is {name}, not a NEFF\n" in capsys.readouterr().err
    path.write_bytes(bytes(range(256)) * 8)
    assert nki_neff(["info", str(path)]) == 3
    assert "header_size is" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "extract"])
def test_a_binary_is_not_run_as_a_script(
    command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "module.pb"
    path.write_bytes(MODULE)
    assert main([command, str(path)]) == 3
    assert "not a Python script" in capfd.readouterr().err


def test_an_array_is_not_run_as_a_script(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(_npy())
    with pytest.raises(HloFileError, match=r"a NumPy array \(\.npy\), not a Python script"):
        run_script(path)


def test_input_without_a_file_explains_the_form(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "module.pb"
    path.write_bytes(MODULE)
    assert main(["evaluate", str(path), "-i", "x"]) == 2
    assert "-i takes FILE or NAME=FILE" in capfd.readouterr().err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("kind", ["device", "pipe"])
def test_a_device_or_pipe_is_refused_as_a_module(kind: str, tmp_path: Path) -> None:
    path = Path("/dev/zero")
    if kind == "pipe":
        path = tmp_path / "pipe"
        os.mkfifo(path)
    with pytest.raises(HloFileError, match="a device or a named pipe") as failure:
        load(path)
    assert failure.value.code == "HLO-READ"


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="this system has no /dev/fd")
def test_the_output_of_a_command_is_read(tmp_path: Path) -> None:
    path = tmp_path / "module.pb"
    path.write_bytes(MODULE)
    command = f"{sys.executable} -m hlo_tools.cli stats <(cat {path})"
    subprocess.run(["bash", "-c", command], check=True, capture_output=True)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_output_goes_through_a_pipe_that_the_user_names(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with subprocess.Popen(["cat", str(path)], stdout=subprocess.PIPE) as reader:
        write_bytes(b"content", path)
        assert reader.communicate()[0] == b"content"
    assert path.is_fifo()


def test_output_follows_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "target").write_bytes(b"before")
    write_bytes(b"after", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"after"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_cache_replaces_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "entry"
    os.mkfifo(path)
    with atomic_file(path) as file:
        file.write(b"content")
    assert path.read_bytes() == b"content"
