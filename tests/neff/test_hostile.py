"""Archives as others write them, files of another kind, and numbers and files that cannot be."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest

from neff import read
from neff.container import HEADER_SIZE, Limits, open_package
from neff.container.archive import read_archive
from neff.container.inspect import describe
from neff.errors import NeffFileError
from tests.neff.test_container import MANIFEST, built, entry, repacked, tar_of


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_as_others_write_them(format: int) -> None:
    names = ["sg00/" + "n" * 300, "sg00/\u00fc", "short"]
    entries = [(entry(name), name.encode()) for name in names]
    entries[0][0].mtime = 1.5  # a record of its own in PAX
    archived = read_archive(memoryview(tar_of(*entries, format=format)), "x")
    assert {name: bytes(data).decode() for name, data in archived.items()} == {n: n for n in names}


def test_gzip_of_many_pieces_and_bytes_behind() -> None:
    """The packed stream is longer than the pieces that it is read in."""
    content = random.Random(3).randbytes(5 << 20)
    packed = gzip.compress(tar_of((entry("a"), content)), mtime=0, compresslevel=1)
    archived = read_archive(memoryview(packed + bytes(3 << 20)), "x")
    assert bytes(archived["a"]) == content
    with pytest.raises(NeffFileError) as caught:
        read_archive(memoryview(packed + bytes(3 << 20) + b"x"), "x")
    assert caught.value.code == "NEFF-GZIP"


def test_what_is_no_plain_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "vast").open("wb") as file:
        file.truncate(HEADER_SIZE + Limits().total_bytes + 1)  # takes no room on disk
    wrong = [(tmp_path / "pipe", "NEFF-OPEN"), (Path("/dev/zero"), "NEFF-OPEN"),
             (tmp_path / "vast", "NEFF-TOO-LARGE"), (Path("a\0b"), "NEFF-OPEN")]  # fmt: skip
    for path, code in wrong:
        with pytest.raises(NeffFileError) as caught:
            open_package(path)
        assert caught.value.code == code


@pytest.mark.parametrize(
    ("member", "document", "fine"),
    [
        ("sg00/def.json", {"var": {"a": {"type": "input", "size": 10**30}}}, False),
        ("sg00/def.json", {"var": {"a": {"type": "virtual", "backing_variable_off": -1}}}, False),
        ("sg00/PE0.json", {"dma": [{"desc": {"from_sizes": [1, 10**30]}}]}, False),
        ("sg00/PE0.json", {"dma": [{"desc": [{"from": [], "to": {}}]}]}, True),
        ("kelf-0.json", {"graphs": ["a"]}, False),
        ("kelf-0.json", {"graphs": 7}, True),
    ],
)
def test_numbers_and_types_that_cannot_be(
    member: str, document: Any, fine: bool, tmp_path: Path
) -> None:
    def change(members: dict[str, bytes]) -> None:
        members.pop(MANIFEST)  # as of the vendor: then nothing but these members is looked at
        if member == "sg00/PE0.json":
            members["sg00/def.json"] = b'{"pe": "PE0.json"}'
        members[member] = json.dumps(document).encode()

    package = open_package(repacked(built(tmp_path), change))
    if fine:
        json.dumps(describe(package))
        return
    with pytest.raises(NeffFileError) as caught:
        describe(package)
    assert caught.value.code == "NEFF-DEFINITION"


@pytest.mark.parametrize("padding", [0, 2 * HEADER_SIZE])
@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"import nki\n", "nki-hlo profile SCRIPT"),
        (b"HloModule m\n", "nki-neff build"),
        (b"\xff\x00\xfe\x01", "damaged|cut off"),
    ],
)
def test_a_file_of_another_kind_is_told(
    tmp_path: Path, content: bytes, told: str, padding: int
) -> None:
    path = tmp_path / "given"
    path.write_bytes(content + b" " * padding)
    with pytest.raises(NeffFileError) as caught:
        read(path)
    assert re.search(told, caught.value.remedy)
