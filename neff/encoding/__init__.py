"""Our own binary encoding of engine programs (``docs/neff-format.md``, section 4)."""

from __future__ import annotations

from neff.encoding.codes import DTYPE_CODES, DTYPES, OPCODES, VERSION
from neff.encoding.reader import decode_engine
from neff.encoding.sources import SourceTable
from neff.encoding.writer import encode_engine

__all__ = [
    "DTYPES",
    "DTYPE_CODES",
    "OPCODES",
    "VERSION",
    "SourceTable",
    "decode_engine",
    "encode_engine",
]
