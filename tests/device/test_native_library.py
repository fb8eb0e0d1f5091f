"""The native library's file: what is mapped is complete and ours, whatever the cache holds."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from neff.device.pjrt import entry, native_library
from neff.errors import NeffError
from nki_lang.base.library_files import LibraryFiles


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NKI_HLO_CACHE", str(tmp_path))
    monkeypatch.setattr(native_library, "_PREBUILT", tmp_path / "no wheel")
    return tmp_path


@pytest.fixture(scope="module")
def compiled() -> bytes:
    return native_library._compiled()


def table_of(path: Path) -> int | None:
    opened = ctypes.CDLL(str(path))
    opened.GetPjrtApi.restype = ctypes.c_void_p
    return opened.GetPjrtApi()


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def replaced_by(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.unlink()
        make(path)

    return damage


def write_for_another_processor(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[18:20] = b"\xf3\x00"  # RISC-V
    path.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "truncated": truncate,
    "empty": lambda path: os.truncate(path, 0),
    "garbage": lambda path: path.write_bytes(b"garbage" * 1000),
    "one bit": lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\x01"),
    "another processor": write_for_another_processor,
    "another program": lambda path: shutil.copy(sys.executable, path),
    "pipe": replaced_by(os.mkfifo),
    "folder": replaced_by(lambda path: (path / "x").mkdir(parents=True)),
    "dangling link": replaced_by(lambda path: path.symlink_to("nowhere")),
    "link to a device": replaced_by(lambda path: path.symlink_to("/dev/zero")),
    "link to itself": replaced_by(lambda path: path.symlink_to(path.name)),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_library_is_compiled_again(
    own_cache: Path,
    compiled: bytes,
    monkeypatch: pytest.MonkeyPatch,
    damage: Callable[[Path], None],
) -> None:
    monkeypatch.setattr(native_library, "_compiled", lambda: compiled)
    path = native_library.library()
    damage(path)
    again = native_library.library()
    assert again.read_bytes() == compiled
    assert path.is_dir() or again == path


def test_a_link_to_a_library_is_followed(own_cache: Path, compiled: bytes) -> None:
    folder = native_library.cache_folder()
    folder.mkdir()
    (own_cache / "elsewhere").write_bytes(compiled)
    (folder / native_library._files().name(compiled)).symlink_to(own_cache / "elsewhere")
    assert native_library.library().parent == folder


def test_the_library_of_a_wheel_is_checked(
    own_cache: Path, compiled: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = own_cache / "libnkihlo_pjrt.so"
    monkeypatch.setattr(native_library, "_PREBUILT", wheel)
    monkeypatch.setattr(native_library, "_compiled", lambda: compiled)
    wheel.write_bytes(compiled)
    assert native_library.library() == wheel
    for size in (0, 10, 64, 200, len(compiled) // 3):
        wheel.write_bytes(compiled[:size])
        assert native_library.library() != wheel, size
    wheel.write_bytes(compiled)
    write_for_another_processor(wheel)
    assert native_library.library() != wheel


def test_a_cache_that_can_only_be_read_is_used(
    own_cache: Path, compiled: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written where a library is; where none is, the process has one of its own."""
    monkeypatch.setattr(native_library, "_compiled", lambda: compiled)
    library = native_library.library()
    monkeypatch.setattr(native_library.os, "access", lambda path, mode: mode != os.W_OK)
    monkeypatch.setattr(LibraryFiles, "write", lambda *_: pytest.fail("written"))
    assert native_library.library() == library
    monkeypatch.undo()
    monkeypatch.setenv("NKI_HLO_CACHE", str(own_cache / "cold"))
    monkeypatch.setattr(native_library, "_PREBUILT", own_cache / "no wheel")
    monkeypatch.setattr(native_library.os, "access", lambda path, mode: mode != os.W_OK)
    private = native_library.library()
    assert own_cache not in private.parents and native_library.library() == private


def test_two_processes_compile_at_the_same_time(own_cache: Path) -> None:
    code = "from neff.device.pjrt import native_library as n; print(n.library())"
    started = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    paths = {Path(process.communicate()[0].strip()) for process in started}
    assert all(table_of(path) is None for path in paths)
    assert set(native_library.cache_folder().iterdir()) <= paths


def test_the_next_compiler_is_tried(own_cache, monkeypatch) -> None:
    real = native_library.compilers()
    monkeypatch.setattr(native_library, "compilers", lambda: [["false"], *real])
    assert table_of(native_library.library()) is None


@pytest.mark.parametrize(
    ("available", "said"),
    [([], "there is no C compiler"), ([["false"]], "no C compiler worked; false ended with 1")],
)
def test_nothing_to_compile_with(own_cache, monkeypatch, available, said: str) -> None:
    monkeypatch.setattr(native_library, "compilers", lambda: available)
    with pytest.raises(NeffError, match=rf"(?s){said}.*pip install ziglang") as failure:
        native_library.library()
    assert failure.value.code == "NEFF-DEVICE-ENTRY"
    assert not list((own_cache / "device").iterdir())
    with pytest.warns(RuntimeWarning, match="torch_xla cannot use the device"):
        assert entry.open_entry.__wrapped__() is None


def test_an_unwritable_cache_is_no_obstacle(monkeypatch) -> None:
    monkeypatch.setenv("NKI_HLO_CACHE", "/dev/null/nowhere")
    assert native_library.library().is_file()
