"""Compressed files: gzip and zstd, detected by their first bytes, unpacked within limits."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from hlo_tools.errors import HloError, HloFileError, HloUnsupportedError

if TYPE_CHECKING:
    from hlo_tools.wire.fields import Buffer

__all__ = ["SUFFIXES", "compress", "decompress"]

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
SUFFIXES = {".gz": "gzip", ".zst": "zstd"}
"""Ends of names that ask for compression."""
LIMIT = 8 << 30
"""Bytes that an unpacked file may have."""
RATIO, RATIO_FROM = 250, 64 << 20
"""From 64 MiB on, content that is 250 times its file is taken for an attack (text of a module is
some 10 times its file, gzip packs nothing more than 1032 times)."""
VARIABLE = "NKI_HLO_MOST_UNPACKED"
"""Environment variable: bytes that an unpacked file may have, whatever its ratio."""
_CHUNK_BYTES = 1 << 22
_ZSTANDARD_INPUT_BYTES = 1 << 12
"""A step of Zstandard unpacks so few bytes that its output cannot be very large."""


def decompress(data: Buffer) -> tuple[Buffer, str]:
    """The content and the compression found: ``"gzip"``, ``"zstd"`` or ``""`` (data unchanged).

    Raises:
        HloFileError: cut or damaged (HLO-COMPRESSED), or too large (HLO-TOO-LARGE).
        HloUnsupportedError: zstd without a package that reads it.
    """
    head = bytes(data[:4])
    if head.startswith(GZIP):
        return _gunzip(data), "gzip"
    if head == ZSTD:
        return _unzstd(data), "zstd"
    return data, ""


def compress(data: bytes, kind: str) -> bytes:
    """``data`` in a compressed form, the same bytes every time.

    Raises:
        HloUnsupportedError: zstd without a package that writes it.
    """
    if kind == "gzip":
        return gzip.compress(data, compresslevel=6, mtime=0)
    if kind == "zstd":
        return _zstd().compress(data)
    return data


def _gunzip(data: Buffer) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            return _read_within_limits(stream.read, len(data))
    except (OSError, EOFError, zlib.error) as error:
        raise HloFileError(
            f"the gzip stream is cut or damaged: {error}",
            code="HLO-COMPRESSED",
            remedy="get the file again from its source",
        ) from None


def _unzstd(data: Buffer) -> bytes:
    module = _zstd()
    try:
        if module.__name__ == "zstandard":
            parts = _zstandard_parts(module, data)
            return _read_within_limits(lambda _: next(parts, b""), len(data))
        with module.open(io.BytesIO(data), "rb") as stream:
            return _read_within_limits(stream.read, len(data))
    except (OSError, EOFError, ValueError, *_zstd_errors(module)) as error:
        raise HloFileError(
            f"the zstd stream is cut or damaged: {error}",
            code="HLO-COMPRESSED",
            remedy="get the file again from its source",
        ) from None


def _zstandard_parts(module: Any, data: Buffer) -> Iterator[bytes]:
    """The content in parts; its own reader does not notice that a file is cut.

    So few bytes are unpacked at a time that no part can be very large.
    """
    frame = module.ZstdDecompressor().decompressobj()
    for start in range(0, len(data), _ZSTANDARD_INPUT_BYTES):
        packed = bytes(data[start : start + _ZSTANDARD_INPUT_BYTES])
        while packed:
            if frame.eof:
                frame = module.ZstdDecompressor().decompressobj()
            if unpacked := frame.decompress(packed):
                yield unpacked
            packed = frame.unused_data if frame.eof else b""
    if not frame.eof:
        raise EOFError("it ends within a frame")


def _read_within_limits(read: Callable[[int], bytes], packed: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    maximum = _allowed()
    while chunk := read(_CHUNK_BYTES):
        parts.append(chunk)
        size += len(chunk)
        if size > (maximum or LIMIT) or (not maximum and size > max(RATIO_FROM, RATIO * packed)):
            raise HloFileError(
                f"{packed} compressed bytes unpack to more than {size}",
                code="HLO-TOO-LARGE",
                remedy=f"unpack it yourself if you trust it, or set {VARIABLE} to its bytes",
            )
    return b"".join(parts)


def _allowed() -> int:
    """Return the number of bytes that the environment allows; 0 when it says nothing.

    Raises:
        HloError: it says something that is no number of bytes (HLO-CONFIGURATION).
    """
    text = os.environ.get(VARIABLE, "")
    if text and not (text.isdecimal() and len(text) < 19):
        raise HloError(
            f"{VARIABLE} is '{text}', not a number of bytes", code="HLO-CONFIGURATION",
            remedy="set it to a number such as 8589934592, or unset it",
        )  # fmt: skip
    return int(text or 0)


def _zstd() -> Any:
    for name in ("compression.zstd", "backports.zstd", "zstandard"):
        try:
            return __import__(name, fromlist=["compress"])
        except ImportError:
            continue
    raise HloUnsupportedError(
        "the file is compressed with zstd, and this Python has no package that reads it",
        code="HLO-ZSTD",
        remedy="pip install backports.zstd, or unpack the file with the zstd command",
    )


def _zstd_errors(module: object) -> tuple[type[Exception], ...]:
    return (getattr(module, "ZstdError", OSError),)
