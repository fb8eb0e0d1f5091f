"""Compiler flags as the compile cache records them, and the short hash in an entry's name.

``compile_flags.json`` holds the flags as a JSON list; the first eight hex digits of the MD5 of
that text end the entry's name. The list begins with the target. Flags for where files go
or how much is printed are not part of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from hlo_tools.errors import HloFileError, HloUnsupportedError
from hlo_tools.extract import protocol

__all__ = [
    "DEFAULT_CACHE",
    "cache_folder",
    "flags_from_environment",
    "flags_hash",
    "flags_text",
    "remote_cache",
]

DEFAULT_CACHE: Final = "/var/tmp/neuron-compile-cache"
"""Where extraction goes when no cache is named, as on Neuron."""

REMOTE: Final = ("s3", "gs", "gcs", "memory")
"""Schemes of remote compile caches; their packages are those of docs/caches.md."""

_NO_PART_OF_THE_KEY: Final = ("--cache_dir", "--framework", "--target", "--verbose", "-v")
_TAKES_A_VALUE: Final = ("--cache_dir", "--framework", "--target", "--verbose")


def flags_text(flags: Sequence[str]) -> str:
    """Return the content of ``compile_flags.json``.

    >>> flags_text(["--target=trn1"])
    '["--target=trn1"]'
    """
    return json.dumps(list(flags))


def flags_hash(flags: Sequence[str]) -> str:
    """The eight digits for the flags in an entry's name.

    >>> flags_hash(["--target=trn1"])
    'e30acd3a'
    """
    digest = hashlib.md5(flags_text(flags).encode(), usedforsecurity=False)
    return digest.hexdigest()[:8]


def _given(environment: Mapping[str, str]) -> list[str]:
    text = environment.get(protocol.COMPILER_FLAGS, "")
    try:
        return shlex.split(text)
    except ValueError as error:
        raise HloFileError(
            f"NEURON_CC_FLAGS is not a list of flags: {error}",
            code="HLO-FLAGS",
            place=f"NEURON_CC_FLAGS={text!r}",
            remedy="close the quotes",
        ) from error


def flags_from_environment(target: str, environment: Mapping[str, str] = os.environ) -> list[str]:
    """The flags that a program of this process is compiled with: the target, then those of
    NEURON_CC_FLAGS that matter to the compiler.

    Args:
        target: name of the target family, ``trn1``, ``trn2`` or ``trn3``.
        environment: variables and their values; the process's own by default.

    Raises:
        HloFileError: code ``HLO-FLAGS``; NEURON_CC_FLAGS has an open quote.
    """
    flags = [f"--target={target}"]
    skip_value = False
    for flag in _given(environment):
        name, equals, _ = flag.partition("=")
        if skip_value and not flag.startswith("-"):
            skip_value = False
            continue
        skip_value = False
        if name in _NO_PART_OF_THE_KEY:
            skip_value = name in _TAKES_A_VALUE and not equals
            continue
        flags.append(flag)
    return flags


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The compile cache that the environment names, or None; of a remote one, its local mirror.

    ``--cache_dir`` in NEURON_CC_FLAGS wins over NEURON_COMPILE_CACHE_URL. A ``file:`` address is
    the folder that it names. Extraction without either goes where the vendor's default is.

    Raises:
        HloUnsupportedError: code ``HLO-CACHE-URL``; no cache can be at the address.
    """
    address = _address(environment)
    if not address:
        extracting = environment.get(protocol.EXTRACT_ONLY, "") == "1"
        return Path(DEFAULT_CACHE) if extracting else None
    if remote_cache(environment):
        return _mirror_of(address)
    if urlsplit(address).scheme == "file":
        return Path(unquote(urlsplit(address).path))
    return Path(address)


def remote_cache(environment: Mapping[str, str] = os.environ) -> str:
    """The address of the compile cache when it is not a folder of this machine, else "".

    Raises:
        HloUnsupportedError: code ``HLO-CACHE-URL``; no cache can be there.
    """
    address = _address(environment)
    scheme = urlsplit(address).scheme
    if "://" not in address or scheme == "file":
        return ""
    if scheme not in REMOTE:
        raise HloUnsupportedError(
            f"a compile cache at {scheme}:// is not supported",
            code="HLO-CACHE-URL",
            place=f"NEURON_COMPILE_CACHE_URL={address}",
            remedy=f"name a folder, or an address with {', '.join(f'{remote_scheme}://' for remote_scheme in REMOTE)}",
        )
    return address


def _mirror_of(url: str) -> Path:
    """The folder of this machine in which entries of a remote cache are written first."""
    from hlo_tools.kernels.cache import cache_folder as kernels

    return kernels().parent / "modules" / hashlib.sha256(url.encode()).hexdigest()[:16]


def _address(environment: Mapping[str, str]) -> str:
    flags = _given(environment)
    address = environment.get(protocol.CACHE, "")
    for index, flag in enumerate(flags):
        name, equals, value = flag.partition("=")
        if name == "--cache_dir":
            address = value if equals else "".join(flags[index + 1 : index + 2])
    return address
