"""Files of random kernels and modules, whose instructions are of every kind."""

from __future__ import annotations

import tempfile
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any

__all__ = ["kernel_files", "klir_of", "members_of", "module_file", "neff_files"]

Files = dict[str, bytes]


@lru_cache(maxsize=8)
def kernel_files(number: int) -> Files:
    """A random kernel as a kernel binary, its record and its constants."""
    return klir_of(_traced(number))


@lru_cache(maxsize=8)
def neff_files(number: int) -> Files:
    """The members and the header of the NEFF of a random kernel, or of a random module."""
    from neff.compiler import compile, compile_kernel
    from neff.errors import NeffError

    for offset in range(100):
        seed = 1000 * number + offset
        try:
            if number % 2:
                return members_of(compile_kernel(_traced(seed)))
            return members_of(compile(_module(seed), target=("trn1", "trn2", "trn3")[number % 3]))
        except NeffError:
            continue
    raise AssertionError("nothing random compiles")


@lru_cache(maxsize=8)
def module_file(number: int) -> bytes:
    """A random module's message."""
    return _module(number).module_bytes()


def _module(seed: int) -> Any:
    import hlo_tools
    from tests.fuzz.drivers.hlo_programs.generate import module

    return hlo_tools.load(module(seed).source().encode())


def _traced(number: int) -> Any:
    """The first random kernel from a seed on that the language takes."""
    from nki_lang.base.errors import NkiError
    from tests.fuzz.drivers.fuzz_kernels import calls_of
    from tests.fuzz.drivers.kernels.generate import kernel
    from tests.fuzz.drivers.kernels.ways import load_source

    for offset in range(100):
        generated = kernel(1000 * number + offset)
        call = calls_of(generated)[0]
        with tempfile.TemporaryDirectory() as folder:
            try:
                loaded = load_source(generated.source(), Path(folder))
                with warnings.catch_warnings(action="ignore"):
                    return loaded.trace(tuple(call.arrays), call.constants)
            except NkiError:
                continue
    raise AssertionError("no random kernel is right")


def klir_of(kernel: Any) -> Files:
    """A kernel's files."""
    from nki_lang import klir

    files = klir.dumps(kernel)
    return {"k.klir": files.klir, "k.klir.json": files.companion, **files.constants}


def members_of(program: Any) -> Files:
    """A program's members; its header without a name."""
    from neff.container import open_package, write

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.neff"
        write(program, path)
        package = open_package(path)
        members = {name: bytes(data) for name, data in package.members.items()}
        return members | {"": bytes(package.raw_header)}
