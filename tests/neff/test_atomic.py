"""Files that are there whole or not at all, and what killed writers leave beside them."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from neff.container.atomic import atomic_file
from neff.errors import NeffError


def test_a_block_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "a.neff"
    target.write_bytes(b"old")
    with pytest.raises(KeyError), atomic_file(target) as file:
        file.write(b"new")
        raise KeyError
    assert [path.name for path in tmp_path.iterdir()] == ["a.neff"]
    assert target.read_bytes() == b"old"


def test_what_killed_writers_of_the_target_left_goes(tmp_path: Path) -> None:
    prefix = f".a.neff.{socket.gethostname()}-"
    gone = tmp_path / f"{prefix}4194999-aa"
    remaining = [
        tmp_path / f"{prefix}4194998-bb",  # young
        tmp_path / f"{prefix}{os.getpid()}-cc",  # alive
        tmp_path / ".a.neff.elsewhere-4194999-dd",
        tmp_path / f".b.neff.{socket.gethostname()}-4194999-ee",
        tmp_path / f"{prefix}mine",
    ]
    for path in (gone, *remaining):
        path.write_bytes(b"part")
    for path in (gone, *remaining[1:]):
        os.utime(path, (1, 1))
    with atomic_file(tmp_path / "a.neff") as file:
        file.write(b"whole")
    assert not gone.exists()
    assert all(path.exists() for path in remaining)
    assert (tmp_path / "a.neff").read_bytes() == b"whole"


def test_a_long_name_has_room_for_the_file_beside_it(tmp_path: Path) -> None:
    target = tmp_path / ("網" * 83 + ".neff")
    with atomic_file(target) as file:
        file.write(b"whole")
    assert target.read_bytes() == b"whole"


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(NeffError) as caught, atomic_file(tmp_path / "no" / "a.neff"):
        pass
    assert caught.value.code == "NEFF-WRITE"
    assert caught.value.remedy
