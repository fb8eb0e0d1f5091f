"""Files compressed with zstd: with either package that reads them, and with none.

The packages' part is played by modules that read frames of stored blocks, the simplest form of
RFC 8878, so that the tests need neither; both real packages were tried with the same files.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import hlo_tools
from hlo_tools import HloError
from hlo_tools.files.compression import compress
from tests.hlo_examples import example

MAGIC = b"\x28\xb5\x2f\xfd"


def stored(data: bytes, block: int = 1000) -> bytes:
    """A zstd frame of stored blocks."""
    parts = [data[number : number + block] for number in range(0, len(data), block)] or [b""]
    out = MAGIC + b"\x00\x58"
    for number, piece in enumerate(parts):
        last = number == len(parts) - 1
        out += (len(piece) << 3 | last).to_bytes(3, "little") + piece
    return out


class Frame:
    """Unpacks one frame, fed piece by piece."""

    def __init__(self) -> None:
        self.held = b""
        self.eof = False
        self.unused_data = b""
        self.begun = False

    def decompress(self, data: bytes) -> bytes:
        self.held += data
        out = b""
        if not self.begun and len(self.held) >= 6:
            if self.held[:4] != MAGIC:
                raise ZstdError("Unknown frame descriptor")
            self.held, self.begun = self.held[6:], True
        while self.begun and not self.eof and len(self.held) >= 3:
            head = int.from_bytes(self.held[:3], "little")
            end = 3 + (head >> 3)
            if len(self.held) < end:
                break
            out += self.held[3:end]
            self.held = self.held[end:]
            if head & 1:
                self.eof, self.unused_data, self.held = True, self.held, b""
        return out


class ZstdError(Exception):
    """As both packages call theirs."""


def like_zstandard() -> ModuleType:
    fake: Any = ModuleType("zstandard")
    fake.ZstdError = ZstdError
    fake.compress = stored
    fake.ZstdDecompressor = lambda: type("D", (), {"decompressobj": staticmethod(Frame)})()
    return fake


def like_backports() -> ModuleType:
    def opened(stream: io.BytesIO, mode: str) -> io.BytesIO:
        frame, data = Frame(), stream.read()
        content = frame.decompress(data)
        if not frame.eof:
            raise EOFError("Compressed file ended before the end-of-stream marker was reached")
        return io.BytesIO(content)

    fake: Any = ModuleType("backports.zstd")
    fake.ZstdError, fake.compress, fake.open = ZstdError, stored, opened
    return fake


NAMES = ("compression.zstd", "backports.zstd", "zstandard")


@pytest.fixture(params=["zstandard", "backports.zstd"])
def package(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """One package is there, the others are not."""
    fake = like_zstandard() if request.param == "zstandard" else like_backports()
    for name in NAMES:
        monkeypatch.setitem(sys.modules, name, fake if name == request.param else None)
    monkeypatch.setitem(sys.modules, "backports", ModuleType("backports"))
    return request.param


def test_read_and_written(package: str, tmp_path: Path) -> None:
    data = example().SerializeToString()
    module = hlo_tools.load(stored(data))
    assert module.to_bytes() == data
    module.save(tmp_path / "m.pb.zst")
    assert (tmp_path / "m.pb.zst").read_bytes() == stored(data)
    assert hlo_tools.load(tmp_path / "m.pb.zst").entry.name == module.entry.name
    assert [row.name for row in hlo_tools.load_outline(tmp_path / "m.pb.zst").instructions]


@pytest.mark.parametrize("keep", [4, 5, 9, 1000, -1])
def test_a_cut_file_is_told_and_never_read_in_part(package: str, keep: int) -> None:
    data = stored(example().SerializeToString() * 20)
    with pytest.raises(HloError) as caught:
        hlo_tools.load(data[:keep])
    assert caught.value.code == "HLO-COMPRESSED"


def test_what_follows_the_frame_is_told(package: str) -> None:
    if package == "zstandard":
        with pytest.raises(HloError, match="Unknown frame descriptor"):
            hlo_tools.load(stored(example().SerializeToString()) + b"something")
    frames = stored(b"HloModule m\n") + stored(b"ENTRY e { ROOT p = f32[] parameter(0) }")
    if package == "zstandard":
        assert hlo_tools.load(frames).name == "m"


def test_an_attack_is_refused(package: str) -> None:
    with pytest.raises(HloError) as caught:
        hlo_tools.load(stored(stored(bytes(1 << 20), 1 << 17) * 2))
    assert caught.value.code != "HLO-INTERNAL"


def test_without_a_package_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in NAMES:
        monkeypatch.setitem(sys.modules, name, None)
    for action in (
        lambda: hlo_tools.load(stored(b"HloModule")),
        lambda: compress(b"HloModule", "zstd"),
        lambda: hlo_tools.load(example().SerializeToString()).save(tmp_path / "m.pb.zst"),
    ):
        with pytest.raises(HloError, match="pip install") as caught:
            action()
        assert caught.value.code == "HLO-ZSTD"
    assert not list(tmp_path.iterdir())
