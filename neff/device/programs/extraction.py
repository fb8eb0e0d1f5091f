"""Extraction: every program that is compiled goes into the compile cache."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

from hlo_tools.extract.bundle import write_bundle
from hlo_tools.extract.flags import cache_folder, flags_from_environment, remote_cache
from hlo_tools.extract.key import cache_key
from hlo_tools.extract.protocol import CapturedModule, note
from hlo_tools.files.writing import write_bytes
from hlo_tools.ir.loading import load
from hlo_tools.kernels.backend_config import decode
from neff.device.programs.capture import Captured
from neff.device.programs.program import opcode_counts
from neff.device.programs.rewrite import kernel_configs

__all__ = ["dump", "extract"]


def extract(program: Captured) -> None:
    """Write a program to the cache that the environment names, and notify the script's parent.

    Raises:
        HloError: the cache cannot be written, or a kernel file is gone; the compilation fails
            with it.
    """
    started = time.perf_counter()
    cache = cache_folder()
    entry: Path | None = None
    if cache is not None:
        entry = write_bundle(cache, program.module, flags_from_environment(program.target))
        _publish(entry)
    note(
        CapturedModule(
            name=program.name,
            path="" if entry is None else str(entry),
            instructions=sum(opcode_counts(program.module).values()),
            kernels=tuple(decode(config).func_name for config in kernel_configs(program.module)),
            size=len(program.module) if entry is None else _size(entry),
            seconds=time.perf_counter() - started,
        )
    )


def dump(program: Captured) -> None:
    """Write a program to the working folder, as ``MODULE_<key>_<name>.hlo.pb`` and ``.hlo.txt``.

    The vendor documents NEURON_FRAMEWORK_DEBUG=1 ("in both HLO format and text form"), not the
    names of the files. Equal programs are one pair of files.

    Raises:
        HloFileError: code ``HLO-WRITE``; the compilation fails with it.
    """
    key = cache_key(program.module)
    name = re.sub(r"[^\w.+-]", "_", program.name)
    stem = f"MODULE_{key}_{name}.hlo"
    write_bytes(program.module, f"{stem}.pb")
    write_bytes(f"{load(program.module).to_text()}\n".encode(), f"{stem}.txt")


def _publish(entry: Path) -> None:
    """Put an entry into the remote cache that the environment names, if it names one."""
    if not (url := remote_cache()):
        return
    from hlo_tools.extract.remote import publish
    from hlo_tools.store import open_store

    store = open_store(url)
    if not publish(store, entry):
        sys.stderr.write("\n".join([*store.notes, f"not published, but kept: {entry}"]) + "\n")
        store.notes.clear()


def _size(entry: Path) -> int:
    return sum(path.stat().st_size for path in entry.rglob("*") if path.is_file())
