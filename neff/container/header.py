"""The 1024 bytes in front of every NEFF.

Fields and order: the vendor's "Work with NEFF Files", section "NEFF Header". Offsets are
those of the C structure on a 64-bit machine without padding (1024 bytes, checked below).
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from hlo_tools.files.detection import kind_name
from neff.errors import NeffFileError

__all__ = [
    "HASHES",
    "HEADER_SIZE",
    "NAME_BYTES",
    "OFFSETS",
    "OUR_FEATURE_BIT",
    "Header",
    "new_hash",
    "pack_header",
    "unpack_header",
]

HEADER_SIZE = 1024

_LAYOUT = struct.Struct("<5Q128sI32s16s256sI64sQI468s")
assert _LAYOUT.size == HEADER_SIZE

OFFSETS = {
    "pkg_version": 0, "header_size": 8, "data_size": 16, "neff_version_major": 24,
    "neff_version_minor": 32, "neff_build_version": 40, "num_tpb": 168, "hash": 172, "uuid": 204,
    "name": 220, "requested_tpb_count": 476, "tpb_per_node": 480, "feature_bits": 544,
    "lnc_size": 552, "pad": 556,
}  # fmt: skip
"""Byte offset of each field."""

NAME_BYTES = 255
"""Length of a network name; a zero byte follows."""

HASHES = {1: ("sha256", 32), 2: ("md5", 16)}
"""pkg_version -> the hash over the payload and its bytes in the field (KLR, NEFF/Basic.lean)."""

OUR_FEATURE_BIT = 1 << 62
"""Set in the NEFFs we write. It lies outside both masks that vendor runtimes have printed
(0x80000000000000ff and 0x800000000000001f), so such a runtime refuses the file by its
features instead of feeding our instruction records to a device."""


@dataclass(frozen=True, slots=True)
class Header:
    """The header's fields; texts without their trailing zeros.

    What a field means is the vendor's ("Work with NEFF Files"), where that says it.

    Attributes:
        pkg_version: kind of the hash, see :data:`HASHES`.
        header_size, data_size: of the header, and of what follows it, in bytes.
        version: major and minor version of the format.
        build_version: the compiler that wrote the file.
        num_tpb: cores that the program was compiled for.
        hash: over the payload; :attr:`digest` has the bytes that count.
        uuid: 16 bytes that name the build; ours are of the content.
        name: of the network, up to 255 bytes.
        requested_tpb_count, tpb_per_node: cores that it asks for, in all and of each node.
        feature_bits: features that a runtime must know to run it.
        lnc_size: physical cores of a logical core.
    """

    pkg_version: int
    data_size: int
    version: tuple[int, int]
    build_version: str
    num_tpb: int
    hash: bytes
    uuid: bytes
    name: str
    requested_tpb_count: int
    tpb_per_node: tuple[int, ...]
    feature_bits: int
    lnc_size: int
    header_size: int = HEADER_SIZE

    @property
    def hash_name(self) -> str:
        """``sha256`` or ``md5``."""
        return HASHES[self.pkg_version][0]

    @property
    def digest(self) -> bytes:
        """The bytes of the hash field that count."""
        return self.hash[: HASHES[self.pkg_version][1]]


class Hash(Protocol):
    """A hash object of ``hashlib``."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Feed more bytes."""

    def digest(self) -> bytes:
        """The hash of all bytes so far."""
        ...


def new_hash(pkg_version: int, chunks: Iterable[bytes | memoryview] = ()) -> Hash:
    """A hash object of the kind that a package version names, fed with ``chunks``."""
    hasher = hashlib.new(HASHES[pkg_version][0], usedforsecurity=False)
    for chunk in chunks:
        hasher.update(chunk)
    return hasher


def pack_header(header: Header) -> bytes:
    """The 1024 bytes of a header."""
    nodes = bytes(header.tpb_per_node)
    return _LAYOUT.pack(
        header.pkg_version,
        header.header_size,
        header.data_size,
        *header.version,
        _fit(header.build_version, 128),
        header.num_tpb,
        header.hash,
        header.uuid,
        _fit(header.name, NAME_BYTES + 1),
        header.requested_tpb_count,
        nodes,
        header.feature_bits,
        header.lnc_size,
        b"",
    )


def unpack_header(data: bytes | memoryview, file_size: int, location: str) -> Header:
    """Read and check a header.

    Args:
        data: the first bytes of the file.
        file_size: bytes of the whole file.
        location: the file's name, for errors.

    Raises:
        NeffFileError: ``NEFF-SHORT``, ``NEFF-HEADER``, ``NEFF-PKG-VERSION``,
            ``NEFF-TRUNCATED`` or ``NEFF-TRAILING``.
    """
    if file_size < HEADER_SIZE:
        raise _named_kind(data, location, "NEFF-SHORT") or NeffFileError(
            f"the file has {file_size} bytes; a NEFF begins with a header of {HEADER_SIZE}",
            code="NEFF-SHORT",
            place=location,
            remedy="the file is cut off; build or copy it again",
        )
    fields = _LAYOUT.unpack_from(data)
    pkg_version, header_size, data_size = fields[:3]
    if header_size != HEADER_SIZE:
        what = f"is {header_size}, expected {HEADER_SIZE}"
        raise _named_kind(data, location, "NEFF-HEADER") or _field(location, "header_size", what)
    if pkg_version not in HASHES:
        raise NeffFileError(
            f"pkg_version is {pkg_version}; known are 1 (sha256) and 2 (md5)",
            code="NEFF-PKG-VERSION",
            place=f"{location}, byte 0",
            remedy="this is not a NEFF, or its header is damaged",
        )
    _check_size(data_size, file_size, location)
    return Header(
        pkg_version=pkg_version,
        data_size=data_size,
        version=fields[3:5],
        build_version=_text(fields[5], location, "neff_build_version"),
        num_tpb=fields[6],
        hash=fields[7],
        uuid=fields[8],
        name=_text(fields[9], location, "name"),
        requested_tpb_count=fields[10],
        tpb_per_node=tuple(fields[11].rstrip(b"\0")),
        feature_bits=fields[12],
        lnc_size=fields[13],
    )


def _check_size(data_size: int, file_size: int, location: str) -> None:
    present = file_size - HEADER_SIZE
    if data_size > present:
        raise NeffFileError(
            f"data_size is {data_size}, but only {present} bytes follow the header",
            code="NEFF-TRUNCATED",
            place=f"{location}, byte {OFFSETS['data_size']}",
            remedy="the file was cut off while it was written or copied; get it again",
        )
    if data_size < present:
        raise NeffFileError(
            f"data_size is {data_size}, but {present} bytes follow the header",
            code="NEFF-TRAILING",
            place=f"{location}, byte {OFFSETS['data_size']}",
            remedy="something was appended to the file; get it again",
        )


def _text(raw: bytes, location: str, field: str) -> str:
    text, _, padding = raw.partition(b"\0")
    if padding.strip(b"\0"):
        raise _field(location, field, "has bytes behind its end")
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise _field(location, field, "is not UTF-8 text") from None


_OTHER_REMEDIES: Final = {
    "a kernel file (KLIR)": "'nki-neff build' makes a NEFF of it",
    "a module": "'nki-neff build' makes a NEFF of it",
    "a NumPy array (.npy)": "nki-neff run -i NAME=FILE.npy takes it as an input",
    "a Python script": "'nki-hlo profile SCRIPT' estimates what it runs, and 'nki-neff build SCRIPT'"
    " makes NEFFs of its modules",
    "text": "'nki-hlo profile SCRIPT' estimates what a script runs; 'nki-hlo extract SCRIPT' writes its"
    " modules, and 'nki-neff build' makes NEFFs of them",
}
"""Remedies by the name of a kind (:func:`hlo_tools.files.detection.kind_name`)."""


def _named_kind(data: bytes | memoryview, location: str, code: str) -> NeffFileError | None:
    """Return the error that says which kind of file this is, or None when that is unknown."""
    name = kind_name(data)
    if name in ("", "a NEFF"):
        return None
    return NeffFileError(
        f"this is {name}, not a NEFF",
        code=code,
        place=location,
        remedy=_OTHER_REMEDIES.get(name, "pass a file that 'nki-neff build' wrote"),
    )


def _field(location: str, field: str, what: str) -> NeffFileError:
    return NeffFileError(
        f"{field} {what}",
        code="NEFF-HEADER",
        place=f"{location}, byte {OFFSETS[field]}",
        remedy="this is not a NEFF, or its header is damaged",
    )


def _fit(text: str, size: int) -> bytes:
    """UTF-8 of at most ``size - 1`` bytes, cut between characters."""
    return text.encode()[: size - 1].decode(errors="ignore").encode()
