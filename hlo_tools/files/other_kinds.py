"""Other kinds of files, by their first bytes: an error names the kind and the next step."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from hlo_tools.wire.fields import Buffer

__all__ = ["PLAIN_TEXT", "FileKind", "file_kind", "is_binary", "text_kind"]

_HEAD_BYTES: Final = 1 << 12
"""Every signature below lies in these first bytes."""
_CONVERT_TORCH: Final = (
    "load it in a script with torch.export.load, call the program on the device 'neuron', and pass "
    "the script: nki-hlo extract SCRIPT"
)


class FileKind(NamedTuple):
    """A kind of file that is not an HLO module.

    Attributes:
        name: the kind with its article, as it appears in messages.
        signature: pattern of the first bytes.
        remedy: the command that reads such a file, or the way to an HLO module.
    """

    name: str
    signature: re.Pattern[bytes]
    remedy: str


def _starts_with(*prefixes: bytes) -> re.Pattern[bytes]:
    return re.compile(b"|".join(re.escape(prefix) for prefix in prefixes), re.DOTALL)


_KINDS: Final = (
    FileKind(
        "a kernel file (KLIR)",
        _starts_with(b"\xd9\xd9\xf7"),
        "pass the module that calls it: 'nki-hlo kernels' shows a module's kernels",
    ),
    FileKind(
        "a NEFF",
        _starts_with(*(struct.pack("<QQ", version, 1024) for version in (1, 2))),
        "'nki-neff info' shows what is in it",
    ),
    FileKind(
        "a NumPy array (.npy)",
        _starts_with(b"\x93NUMPY"),
        "inputs belong to -i: nki-hlo evaluate MODULE -i NAME=FILE.npy",
    ),
    FileKind(
        "a program that torch.export saved (.pt2)",
        re.compile(rb"(?s)PK\x03\x04.{26}[^\x00]*?(?:archive_format|archive_version|serialized_exported_program)"),
        _CONVERT_TORCH,
    ),
    FileKind(
        "a file that torch.save or torch.jit.save wrote",
        re.compile(rb"(?s)PK\x03\x04.{26}[^\x00]*?(?:data\.pkl|constants\.pkl)"),
        "load it in a script, call the model on the device 'neuron', and pass the script: "
        "nki-hlo extract SCRIPT",
    ),
    FileKind(
        "an archive of NumPy arrays (.npz)",
        re.compile(rb"(?s)PK\x03\x04.{26}[^\x00]*?\.npy"),
        "inputs belong to -i: nki-hlo evaluate MODULE -i FILE.npz",
    ),
    FileKind("a ZIP archive", _starts_with(b"PK\x03\x04"), "unpack it and pass the module in it"),
    FileKind("a pickle", re.compile(rb"(?s)\x80[\x02-\x05][\x95\]}(cK\x8c]"), "pass a module"),
    FileKind("an executable or a shared library", _starts_with(b"\x7fELF", b"\xcf\xfa\xed\xfe", b"MZ\x90"), "pass a module"),
    FileKind("compiled Python (.pyc)", re.compile(rb"(?s)[\x00-\xff]{2}\r\n[\x00-\x03]\x00\x00\x00"), "pass the script: nki-hlo extract SCRIPT"),
    FileKind("a Parquet file", _starts_with(b"PAR1"), "captures belong to nki-neff profile"),
    FileKind("an HDF5 file", _starts_with(b"\x89HDF\r\n"), "pass a module"),
    FileKind("an SQLite database", _starts_with(b"SQLite format 3\0"), "pass a module"),
    FileKind("an image", _starts_with(b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8"), "pass a module"),
    FileKind("a PDF document", _starts_with(b"%PDF-"), "pass a module"),
    FileKind("a web page", re.compile(rb"(?i)\s*<(?:!doctype html|html)\b"), "pass a module"),
)  # fmt: skip


PLAIN_TEXT: Final = FileKind(
    "text without HLO",
    re.compile(rb"[^{]*\Z"),
    "HLO text begins with 'HloModule'; the modules of a script come from: nki-hlo extract SCRIPT",
)

_TEXT_KINDS: Final = (
    FileKind(
        "a Python script",
        re.compile(
            rb"(?:#[^\n]*\n|\s)*(?:#!|[rR]?\"\"\"|[rR]?'''|@\w|import\s+\w|from\s+[\w.]+\s+import\b|"
            rb"(?:async\s+)?def\s+\w+\s*\(|class\s+\w+\s*[(:]|if\s+__name__\b)"
        ),
        "'nki-hlo extract SCRIPT' writes its modules",
    ),
    FileKind(
        "a list in JSON",
        re.compile(rb"\s*\[\s*(?:[\]\[{\"0-9-]|true|false|null)"),
        "pass a module",
    ),
    PLAIN_TEXT,
)
"""Kinds of text, for content without the word HloModule."""


def text_kind(sample: bytes) -> FileKind | None:
    """Return the kind of a text that is certainly no HLO, or None.

    Args:
        sample: the first bytes, of a text that is neither JSON's object nor pbtxt nor MLIR.
    """
    if b"HloModule" in sample:
        return None
    return next((kind for kind in _TEXT_KINDS if kind.signature.match(sample)), None)


def file_kind(data: Buffer) -> FileKind | None:
    """Return the kind of a file that is not an HLO module, or None for every other content."""
    head = bytes(data[:_HEAD_BYTES])
    return next((kind for kind in _KINDS if kind.signature.match(head)), None)


def is_binary(data: Buffer) -> bool:
    """Return True for content that no Python script has: a NUL byte."""
    return b"\0" in bytes(data[:_HEAD_BYTES])
