"""Entries are complete or absent, whoever else writes and whoever is killed."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hlo_tools.errors import HloFileError
from hlo_tools.extract import complete_entries, is_complete, write_bundle
from hlo_tools.extract.bundle import check_unchanged
from tests.extract.modules import add_module, kernel_module

TEST_FOLDER = Path(__file__).resolve().parent
FLAGS = ["--target=trn1"]


def test_two_hundred_kills_leave_only_complete_entries(tmp_path: Path) -> None:
    environment = dict(os.environ, PYTHONPATH=str(TEST_FOLDER.parents[1]))
    done = subprocess.run(
        [sys.executable, str(TEST_FOLDER / "killed_writers.py"), str(tmp_path), "200"],
        capture_output=True, text=True, env=environment, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    half_done, entries, damaged = map(int, done.stdout.split())
    assert half_done > 20, "the kills did not hit writers at work"
    assert entries > 20
    assert damaged == 0


def test_many_writers_of_one_entry_agree(tmp_path: Path) -> None:
    kernel = tmp_path / "k.klir"
    kernel.write_bytes(b"x" * 100_000)
    modules = [add_module(), add_module(opcode="multiply"), kernel_module(kernel)]
    entries: list[set[Path]] = [set() for _ in modules]
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(10):
                for position, module in enumerate(modules):
                    entries[position].add(write_bundle(tmp_path / "cache", module, FLAGS))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [len(paths) for paths in entries] == [1, 1, 1]
    assert set(complete_entries(tmp_path / "cache")) == set.union(*entries)
    (compiler,) = (tmp_path / "cache").iterdir()
    assert all(path.name.startswith("MODULE_") for path in compiler.iterdir())


def test_what_dead_writers_left_is_swept_when_it_is_old(tmp_path: Path) -> None:
    entry = write_bundle(tmp_path, add_module(), FLAGS)
    host = socket.gethostname()
    dead = entry.parent / f".staging-{host}-4194999-aa"
    fresh = entry.parent / f".staging-{host}-4194998-bb"
    alive = entry.parent / f".staging-{host}-{os.getpid()}-cc"
    foreign = entry.parent / ".staging-elsewhere-4194999-dd"
    for folder in (dead, fresh, alive, foreign):
        folder.mkdir()
    for folder in (dead, alive, foreign):
        os.utime(folder, (1, 1))
    write_bundle(tmp_path, add_module(opcode="multiply"), FLAGS)
    assert not dead.exists()
    assert all(folder.exists() for folder in (fresh, alive, foreign))


def test_a_damaged_entry_is_never_taken_for_a_whole_one(tmp_path: Path) -> None:
    kernel = tmp_path / "k.klir"
    kernel.write_bytes(b"kernel")
    entry = write_bundle(tmp_path / "cache", kernel_module(kernel), FLAGS)
    for name in ("model.hlo_module.pb", "k.klir", "compile_flags.json"):
        path = entry / name
        content = path.read_bytes()
        for size in range(len(content)):
            path.write_bytes(content[:size])
            assert not is_complete(entry), (name, size)
        path.unlink()
        assert not is_complete(entry)
        path.write_bytes(content)
        assert is_complete(entry)


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = tmp_path / "k.klir"
    kernel.write_bytes(b"kernel")
    module = kernel_module(kernel)
    write = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        if path.name == "compile_flags.json":
            write(path, data[:1])
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(HloFileError, match=r"HLO-CACHE-WRITE.*No space left on device"):
        write_bundle(tmp_path / "cache", module, FLAGS)
    assert not (tmp_path / "cache").exists()
    (tmp_path / "own").mkdir()
    with pytest.raises(HloFileError, match="HLO-CACHE-WRITE"):
        write_bundle(tmp_path / "own", module, FLAGS)
    assert not list((tmp_path / "own").iterdir())  # a folder of the user's stays
    monkeypatch.undo()
    assert is_complete(write_bundle(tmp_path / "cache", module, FLAGS))


@pytest.mark.parametrize("package", ["hlo_tools", "neff"])
def test_an_interrupt_while_a_command_loads(package: str) -> None:
    program = f"""
import builtins, sys
from {package}.cli import main
load = builtins.__import__
def interrupted(name, *rest):
    if name == "typer":
        raise KeyboardInterrupt
    return load(name, *rest)
builtins.__import__ = interrupted
sys.exit(main(["verify", "--help"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_an_entry_that_was_changed_is_refused(tmp_path: Path) -> None:
    kernel = tmp_path / "k.klir"
    kernel.write_bytes(b"kernel")
    entry = write_bundle(tmp_path / "cache", kernel_module(kernel), FLAGS)
    check_unchanged(entry)
    (entry / "k.klir").write_bytes(b"kernal")
    with pytest.raises(HloFileError, match=r"MODULE_\d+\+\w+: \[HLO-ENTRY-CHANGED"):
        check_unchanged(entry)
    check_unchanged(entry.rename(entry.with_name("mine")))
    foreign = tmp_path / "neuronxcc-2.22+b4a00d10" / "MODULE_1+e30acd3a"  # keys of another making
    foreign.mkdir(parents=True)
    (foreign / "model.hlo_module.pb").write_bytes(add_module())
    check_unchanged(foreign)


@pytest.mark.parametrize("place", ["cache", "earlier version", "copy"])
def test_flags_that_changed_are_refused(tmp_path: Path, place: str) -> None:
    entry = write_bundle(tmp_path / "cache", add_module(), FLAGS)
    if place != "cache":
        folder = "neuronxcc-0.0.9+nkihlo" if place == "earlier version" else "elsewhere"
        entry = shutil.copytree(entry, tmp_path / folder / entry.name)
    assert check_unchanged(entry) == ""
    flags = entry / "compile_flags.json"
    content = flags.read_bytes()
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        flags.write_bytes(flipped)
        with pytest.raises(
            HloFileError, match=r"\[HLO-ENTRY-CHANGED\] compile_flags.json does not match"
        ):
            check_unchanged(entry)
    flags.unlink()
    with pytest.raises(HloFileError, match=r"\[HLO-ENTRY-CHANGED\] compile_flags.json is missing"):
        check_unchanged(entry)


def test_entries_of_the_vendor_stay_usable(tmp_path: Path) -> None:
    entry = tmp_path / "neuronxcc-2.22+b4a00d10" / "MODULE_1+e30acd3a"
    entry.mkdir(parents=True)
    (entry / "model.hlo_module.pb").write_bytes(add_module())
    assert "is missing" in check_unchanged(entry)
    flags = entry / "compile_flags.json"
    flags.write_text('["--target=trn1"]')  # the vendor's hash of these flags, as observed
    assert check_unchanged(entry) == ""
    flags.write_text('["--target=trn2"]')
    assert "does not match the folder's name" in check_unchanged(entry)
    assert check_unchanged(entry.rename(entry.with_name("model"))) == ""


def test_a_flipped_bit_that_matters_is_noticed(tmp_path: Path) -> None:
    entry = write_bundle(tmp_path, add_module(), FLAGS)
    module = entry / "model.hlo_module.pb"
    content = module.read_bytes()
    position = content.index(b"add")
    module.write_bytes(content[:position] + b"a`d" + content[position + 3 :])
    assert not is_complete(entry)
    assert write_bundle(tmp_path, add_module(), FLAGS) == entry
    assert module.read_bytes() == content
