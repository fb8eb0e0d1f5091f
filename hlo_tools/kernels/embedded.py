"""Kernel files inside a configuration: their form, and the way to files again.

The form is this project's own. In the record of ``backend_config``, ``klir_binary`` has one more
key, ``nki_hlo_embedded``::

    {"version": 1, "digest": "<sha256>", "files": {"<name>": "<base64 of zlib>", ...}}

``files`` holds the ``.klir``, its companion record and the constants that it names, with the names
that they have in its folder; ``binary`` is then the name of the ``.klir`` alone. The digest is that
of the names and contents (see :func:`digest_of`). Readers that do not know the key find the kernel
missing, as with any file that was not copied along.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from hlo_tools.errors import HloFileError
from hlo_tools.files.plain import read_plain
from hlo_tools.kernels.backend_config import EMBEDDED, BackendConfig
from hlo_tools.kernels.cache import cache_folder, install, staging_folder, unwritable
from nki_lang.base.unknown_fields import unknown_key

__all__ = ["EMBEDDED", "digest_of", "files_of", "is_embedded", "pack", "unpack"]

_VERSION = 1
_RECORD_KEYS = frozenset({"version", "digest", "files"})
_MOST_BYTES = 1 << 30
"""Bytes that the files of one kernel may have together."""
_NAME = re.compile(r"^(shared_constants/)?[A-Za-z0-9_][A-Za-z0-9_.\-]*$")


def digest_of(files: Mapping[str, bytes]) -> str:
    """SHA-256 of every name and content, by name."""
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{len(files[name])}\0".encode())
        digest.update(files[name])
    return digest.hexdigest()


def is_embedded(config: BackendConfig) -> bool:
    """Return True if a configuration carries its kernel."""
    return EMBEDDED in config.extra_binary


def unpack(config: BackendConfig) -> Path:
    """The kernel file of a configuration that carries it, written to the kernel cache.

    Raises:
        HloFileError: what is embedded is damaged (HLO-EMBEDDED), or the cache cannot be written
            (HLO-CACHE-WRITE).
    """
    files = files_of(config)
    final = cache_folder() / "embedded" / digest_of(files)[:32]
    path = final / config.binary
    if _holds(final, files):
        return path
    try:
        final.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with staging_folder(final.parent) as fresh:
            for name, content in files.items():
                (fresh / name).parent.mkdir(exist_ok=True)
                (fresh / name).write_bytes(content)
            install(fresh, final, lambda: _holds(final, files))
    except OSError as error:
        raise unwritable(final.parent, error) from error
    return path


def _holds(folder: Path, files: Mapping[str, bytes]) -> bool:
    """Return True if a folder has exactly these contents under these names."""
    try:
        return all(
            read_plain(folder / name, len(content)) == content for name, content in files.items()
        )
    except OSError:
        return False


def pack(files: Mapping[str, bytes]) -> dict[str, object]:
    """The record of a configuration that carries these files."""
    packed = {
        name: base64.b64encode(zlib.compress(content, 6)).decode("ascii")
        for name, content in sorted(files.items())
    }
    return {"version": _VERSION, "digest": digest_of(files), "files": packed}


def files_of(config: BackendConfig) -> dict[str, bytes]:
    """The embedded files, checked against their digest."""
    embedded = config.extra_binary[EMBEDDED]
    record = cast(dict[str, object], embedded) if isinstance(embedded, dict) else {}
    if record.get("version") != _VERSION:
        raise _damaged(config, f"it is not a record of version {_VERSION}")
    key = unknown_key(record, _RECORD_KEYS)
    if key is not None:
        raise _damaged(
            config, f"a newer version wrote it: this one does not know its key {key!r:.80}"
        )
    packed = record.get("files")
    if not isinstance(packed, dict) or config.binary not in packed:
        raise _damaged(config, f"it contains no file {config.binary!r:.80}")
    files = _decompressed(config, cast(dict[str, str], packed))
    if digest_of(files) != record.get("digest"):
        raise _damaged(config, "its digest does not match its files")
    return files


def _decompressed(config: BackendConfig, packed: Mapping[str, str]) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    left = _MOST_BYTES
    for name, text in packed.items():
        if not _NAME.match(name):
            raise _damaged(config, f"a file is called {name!r:.80}")
        try:
            stream = zlib.decompressobj()
            content = stream.decompress(base64.b64decode(text, validate=True), left)
        except (TypeError, ValueError, binascii.Error, zlib.error) as error:
            raise _damaged(config, f"the file {name} does not decode: {error}") from error
        if not stream.eof:
            raise _damaged(config, f"the file {name} is cut, or larger than {_MOST_BYTES} bytes")
        left -= len(content)
        files[name] = content
    return files


def _damaged(config: BackendConfig, reason: str) -> HloFileError:
    return HloFileError(
        f"the embedded kernel {config.func_name} cannot be used: {reason}",
        code="HLO-EMBEDDED",
        remedy="embed it again: nki-hlo kernel embed",
    )
