"""The payload: a tar archive, gzipped or plain, written so that its bytes never vary and read
so that nothing in it is trusted.
"""

from __future__ import annotations

import io
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from neff.errors import NeffError, NeffFileError

__all__ = ["Limits", "Member", "read_archive", "too_large", "write_archive"]

_GZIP_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
"""Deflate, no name, no time, unknown system."""

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Member:
    """A file of the archive: its name and its bytes (one or more pieces, not joined)."""

    name: str
    pieces: tuple[bytes | memoryview, ...]

    @property
    def size(self) -> int:
        """Bytes of all pieces."""
        return sum(len(piece) for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper limits of a payload.

    Attributes:
        total_bytes: of the unpacked archive.
        ratio: unpacked bytes for each packed one, beyond ``ratio_free_bytes``.
        ratio_free_bytes: unpacked size below which the ratio does not matter.
        members: files in the archive.
        name_bytes: length of a name.
        depth: folders in a name.
    """

    total_bytes: int = 1 << 35
    ratio: int = 200
    ratio_free_bytes: int = 1 << 28
    members: int = 100_000
    name_bytes: int = 1024
    depth: int = 16


def write_archive(
    members: Iterable[Member], sink: Callable[[bytes | memoryview], object], *, compressed: bool
) -> None:
    """Write the members in their order: one owner, one mode, no times.

    Args:
        members: what to write; names are relative with ``/``.
        sink: takes the payload piece by piece.
        compressed: gzip it.

    Raises:
        NeffError: code ``NEFF-MEMBER-SIZE``; a member is larger than the archive can hold.
    """
    packer = _Gzip(sink) if compressed else None
    target = _Sink(packer.write if packer else sink)
    with tarfile.open(fileobj=target, mode="w|", format=tarfile.USTAR_FORMAT) as archive:
        for member in members:
            entry = tarfile.TarInfo(member.name)
            entry.size = member.size
            entry.mode = 0o644
            try:
                archive.addfile(entry, _Pieces(member.pieces))
            except ValueError as error:
                raise NeffError(
                    f"{member.size} bytes do not fit into the archive: {error}",
                    code="NEFF-MEMBER-SIZE",
                    place=member.name,
                    remedy="a member is smaller than 8 GiB; use smaller constants",
                ) from None
    if packer:
        packer.finish()


class _Sink(io.RawIOBase):
    """The one method that a tar stream needs."""

    def __init__(self, sink: Callable[[bytes | memoryview], object]) -> None:
        self._sink = sink

    def write(self, data: Any) -> int:
        """Pass the bytes on."""
        self._sink(data)
        return len(data)


class _Gzip:
    """gzip whose header holds nothing of this machine."""

    def __init__(self, sink: Callable[[bytes | memoryview], object]) -> None:
        self._sink = sink
        self._deflate = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
        self._check = self._size = 0
        sink(_GZIP_HEADER)

    def write(self, data: bytes | memoryview) -> None:
        self._check = zlib.crc32(data, self._check)
        self._size += len(data)
        packed = self._deflate.compress(data)
        if packed:
            self._sink(packed)

    def finish(self) -> None:
        self._sink(self._deflate.flush())
        self._sink(struct.pack("<II", self._check, self._size & 0xFFFFFFFF))


class _Pieces(io.RawIOBase):
    """Pieces of memory read as one file, without joining them."""

    def __init__(self, pieces: tuple[bytes | memoryview, ...]) -> None:
        self._pieces = [memoryview(piece).cast("B") for piece in pieces if len(piece)]

    def read(self, size: int = -1) -> bytes:
        chunks: list[bytes] = []
        while size and self._pieces:
            piece = self._pieces[0][:size] if size > 0 else self._pieces[0]
            chunks.append(bytes(piece))
            size -= len(piece) if size > 0 else 0
            self._pieces[0] = self._pieces[0][len(piece) :]
            if not len(self._pieces[0]):
                self._pieces.pop(0)
        return b"".join(chunks)


def read_archive(
    payload: memoryview, location: str, limits: Limits | None = None
) -> dict[str, memoryview]:
    """The files of a payload by name, as views of its (unpacked) bytes.

    Folders are skipped; long names of GNU tar and PAX records are understood. Links, devices, names
    that lead out of the archive, repeated names, sparse files, anything behind the end: all
    are refused.

    Raises:
        NeffFileError: ``NEFF-GZIP``, ``NEFF-TOO-LARGE``, ``NEFF-RATIO``, ``NEFF-TAR``,
            ``NEFF-TAR-NAME``, ``NEFF-TAR-DUPLICATE``, ``NEFF-TAR-KIND``, ``NEFF-TAR-COUNT``,
            ``NEFF-TAR-TRAILING``.
    """
    limits = limits or Limits()
    if bytes(payload[:2]) == b"\x1f\x8b":
        payload = _unpack_gzip(payload, location, limits)
    elif len(payload) > limits.total_bytes:
        raise too_large(location, limits)
    return _members(payload, location, limits)


def _unpack_gzip(payload: memoryview, location: str, limits: Limits) -> memoryview:
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    allowed = max(limits.ratio_free_bytes, len(payload) * limits.ratio)
    out = bytearray()
    pending: bytes | memoryview = b""
    position = 0
    try:
        while not unpacker.eof:
            if not pending:  # in pieces: zlib copies what it has not consumed at every call
                pending = payload[position : position + _CHUNK]
                position += len(pending)
            block = unpacker.decompress(pending, _CHUNK)
            pending = unpacker.unconsumed_tail
            if not block and not pending and position == len(payload) and not unpacker.eof:
                raise _gzip(location, "the stream is cut off")
            out += block
            if len(out) > limits.total_bytes:
                raise too_large(location, limits)
            if len(out) > allowed:
                raise NeffFileError(
                    f"{len(payload)} bytes unpack to more than {allowed}",
                    code="NEFF-RATIO",
                    place=location,
                    remedy="a genuine NEFF does not compress that much; do not trust this file",
                )
    except zlib.error as error:
        raise _gzip(location, str(error)) from None
    trailing = len(payload) - position + len(unpacker.unused_data)
    if unpacker.unused_data.strip(b"\0") or not _only_zeros(payload[position:]):
        raise _gzip(location, f"{trailing} bytes behind the stream")
    return memoryview(out)


_BLOCK = 512
_FILE, _FOLDER = b"0\0", b"5"
_GNU_NAME, _PAX = b"L", b"x"
_MAX_RECORD_BYTES = 1 << 16
"""The largest record that may describe the next member."""


@dataclass(frozen=True, slots=True)
class _MemberRecord:
    """The name and size in the records before a member; None where they are absent."""

    name: bytes | None = None
    size: int | None = None


def _members(data: memoryview, location: str, limits: Limits) -> dict[str, memoryview]:
    """Walk the blocks. ``tarfile`` forgives too much: it stops without a word at a damaged
    header and follows negative sizes.
    """
    files: dict[str, memoryview] = {}
    folders: set[str] = set()
    record: _MemberRecord | None = None
    position = 0
    while True:
        block = bytes(data[position : position + _BLOCK])
        if len(block) < _BLOCK:
            raise _tar("NEFF-TAR", f"the archive ends inside a header at byte {position}", location)
        if not any(block):
            break
        name, size, kind = _entry(block, position, location, limits, record)
        begin = position + _BLOCK
        position = begin + -(-size // _BLOCK) * _BLOCK
        if position > len(data):
            raise _tar("NEFF-TAR", f"{name!r} is cut off", location)
        if kind in (_GNU_NAME, _PAX):
            if record is not None:
                raise _tar("NEFF-TAR", "two records describe one member", location)
            record = _record(bytes(data[begin : begin + size]), kind, location)
            continue
        record = None
        if name in files or (name in folders and kind not in _FOLDER):
            raise _tar("NEFF-TAR-DUPLICATE", f"{name!r} occurs twice", location)
        if len(files) + len(folders) >= limits.members:
            raise _tar("NEFF-TAR-COUNT", f"more than {limits.members} members", location)
        if kind in _FOLDER:
            folders.add(name)
        else:
            files[name] = data[begin : begin + size]
    if record is not None:
        raise _tar("NEFF-TAR", "the last record describes no member", location)
    _check_end(data[position:], location)
    return files


def _record(content: bytes, kind: bytes, location: str) -> _MemberRecord:
    """The name and size in a record (GNU tar's long name; POSIX.1-2001, pax extended header)."""
    if kind == _GNU_NAME:
        return _MemberRecord(content.removesuffix(b"\0"))
    fields: dict[bytes, bytes] = {}
    while content:
        digits, _, _ = content.partition(b" ")
        length = int(digits) if digits.isdigit() and len(digits) < 6 else 0
        line, content = content[:length], content[length:]
        key, equals, value = line[len(digits) + 1 :].partition(b"=")
        if not equals or len(line) != length or value[-1:] != b"\n" or key in fields:
            raise _tar("NEFF-TAR", "a PAX record is damaged", location)
        fields[key] = value[:-1]
    if any(key == b"linkpath" or key.startswith(b"GNU.sparse") for key in fields):
        raise _tar("NEFF-TAR-KIND", "a PAX record describes a link or a sparse file", location)
    size = fields.get(b"size")
    if size is not None and not (size.isdigit() and len(size) < 20):
        raise _tar("NEFF-TAR", "no number in the size of a PAX record", location)
    return _MemberRecord(fields.get(b"path"), None if size is None else int(size))


def _entry(
    block: bytes, position: int, location: str, limits: Limits, record: _MemberRecord | None
) -> tuple[str, int, bytes]:
    """Name, size and kind of a header block (POSIX.1-1988 ustar; GNU magic too)."""
    stored = _number(block[148:156], position, location)
    if stored != sum(block) - sum(block[148:156]) + 8 * 0x20:
        raise _tar("NEFF-TAR", f"wrong checksum in the header at byte {position}", location)
    if not block[257:262] == b"ustar":
        raise _tar("NEFF-TAR", f"no ustar header at byte {position}", location)
    kind = block[156:157]
    size = _number(block[124:136], position, location)
    if kind in (_GNU_NAME, _PAX):
        if size > _MAX_RECORD_BYTES:
            raise _tar("NEFF-TAR", f"a record of {size} bytes at byte {position}", location)
        return "(record)", size, kind
    if kind not in _FILE and kind not in _FOLDER:
        raise _tar(
            "NEFF-TAR-KIND", f"byte {position} begins no regular file (kind {kind!r})", location
        )
    prefix = _name_field(block[345:500]) if block[257:263] == b"ustar\0" else b""
    raw = (prefix + b"/" if prefix else b"") + _name_field(block[:100])
    if record is not None:
        raw = raw if record.name is None else record.name
        size = size if record.size is None else record.size
    name = _clean_name(raw, location, limits, folder=kind in _FOLDER)
    if kind in _FOLDER and size:
        raise _tar("NEFF-TAR", f"folder {name!r} has contents", location)
    return name, size, kind


def _number(field: bytes, position: int, location: str) -> int:
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    if not digits or digits.strip(b"01234567"):
        raise _tar("NEFF-TAR", f"no number in the header at byte {position}", location)
    return int(digits, 8)


def _name_field(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _clean_name(raw: bytes, location: str, limits: Limits, *, folder: bool) -> str:
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        raise _tar("NEFF-TAR-NAME", f"name {raw[:80]!r} is not UTF-8", location) from None
    name = name.removeprefix("./").rstrip("/") if folder else name.removeprefix("./")
    if folder and name in ("", "."):
        return "."
    parts = name.split("/")
    if {"", ".", ".."} & set(parts) or "\\" in name or ":" in parts[0]:
        raise _tar("NEFF-TAR-NAME", f"name {name[:200]!r} leads out of the archive", location)
    if len(raw) > limits.name_bytes or len(parts) > limits.depth:
        raise _tar("NEFF-TAR-NAME", f"name {name[:80]!r}... is too long or too deep", location)
    if not name.isprintable():
        raise _tar(
            "NEFF-TAR-NAME", f"name {name[:200]!r} has characters that do not print", location
        )
    return name


def _check_end(trailing: memoryview, location: str) -> None:
    if len(trailing) < 2 * _BLOCK or not _only_zeros(trailing):
        raise _tar(
            "NEFF-TAR-TRAILING",
            "the last member is not followed by two empty blocks and nothing else",
            location,
        )


def _only_zeros(data: memoryview) -> bool:
    pieces = range(0, len(data), _CHUNK)
    return not any(bytes(data[start : start + _CHUNK]).strip(b"\0") for start in pieces)


def _gzip(location: str, message: str) -> NeffFileError:
    return NeffFileError(f"the gzip stream is damaged: {message}", code="NEFF-GZIP", place=location)


def _tar(code: str, message: str, location: str) -> NeffFileError:
    return NeffFileError(message, code=code, place=location)


def too_large(location: str, limits: Limits) -> NeffFileError:
    """The error for a payload beyond the limits."""
    return NeffFileError(
        f"the payload is larger than {limits.total_bytes} bytes",
        code="NEFF-TOO-LARGE",
        place=location,
        remedy="do not trust this file; when it is your own, pass larger limits to open_package",
    )
