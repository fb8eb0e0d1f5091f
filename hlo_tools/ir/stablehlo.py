"""StableHLO in and out, through jaxlib's bindings in a process of their own."""

from __future__ import annotations

import importlib.util
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from hlo_tools import schema
from hlo_tools.errors import HloFileError, HloUnsupportedError
from hlo_tools.files.detection import BYTECODE
from hlo_tools.ir.stablehlo_forms import expressible
from hlo_tools.types.comparison import for_older_readers
from hlo_tools.wire.fields import Buffer

__all__ = ["from_hlo", "symbolic", "to_hlo"]

_SECONDS: Final = 600


_SYMBOLIC: Final = ("stablehlo.dynamic_", "get_dimension_size", "shape_assertion")
"""Operations that stand in modules with symbolic shapes, and that HLO does not have."""


def symbolic(reason: str) -> HloUnsupportedError:
    """The error of a module whose shapes are not fixed."""
    return HloUnsupportedError(
        f"the module has symbolic shapes, those of HLO are fixed; {reason}",
        code="HLO-SYMBOLIC-SHAPE",
        remedy="export it with fixed shapes: "
        "jax.export.export(f)(jax.ShapeDtypeStruct((4, 8), 'float32'))",
    )


def to_hlo(content: Buffer) -> bytes:
    """A serialized HloModuleProto of StableHLO: text, bytecode, a portable artifact, or the file
    of ``jax.export`` around one.

    Raises:
        HloUnsupportedError: jaxlib is not installed (HLO-JAXLIB).
        HloFileError: jaxlib does not read it (HLO-STABLEHLO).
    """
    return _run("read", _inside(bytes(content)))


def from_hlo(data: bytes, task: str) -> bytes:
    """StableHLO of a serialized HloModuleProto: ``text``, ``bytecode`` or ``portable``.

    Raises:
        HloUnsupportedError: jaxlib is not installed (HLO-JAXLIB), or an opcode has no form in
            StableHLO (HLO-STABLEHLO-OPCODE).
        HloFileError: jaxlib does not turn the module into StableHLO (HLO-STABLEHLO).
    """
    return _run(task, for_older_readers(_expressible(data)))


def _expressible(data: bytes) -> bytes:
    """The module with operations that StableHLO has."""
    proto = schema.HloModuleProto.FromString(data)
    return proto.SerializeToString(deterministic=True) if expressible(proto) else data


def _inside(data: bytes) -> bytes:
    """Return the bytecode in a file of ``jax.export``, a vector with a length prefix."""
    offset = data.find(BYTECODE)
    if offset < 4:
        return data
    (size,) = struct.unpack_from("<I", data, offset - 4)
    if offset + size > len(data):
        raise HloFileError(
            f"the bytecode needs {size} bytes, {len(data) - offset} are left", code="HLO-TRUNCATED",
            remedy="get the file again from its source",
        )  # fmt: skip
    return data[offset : offset + size]


def _run(task: str, data: bytes) -> bytes:
    if importlib.util.find_spec("jaxlib") is None:
        raise HloUnsupportedError(
            "StableHLO is read and written through jaxlib, which is not installed",
            code="HLO-JAXLIB", remedy="pip install '.[jax]' in the checkout",
        )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="nki-hlo-") as name:
        source, target = Path(name) / "source", Path(name) / "target"
        source.write_bytes(data)
        command = [sys.executable, "-m", "hlo_tools.ir.stablehlo_child", task, source, target]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise HloFileError(
                f"jaxlib did not end within {_SECONDS} s", code="HLO-STABLEHLO"
            ) from error
        if done.returncode or not target.exists():
            raise _refused(task, done)
        return target.read_bytes()


def _refused(
    task: str, done: subprocess.CompletedProcess[str]
) -> HloFileError | HloUnsupportedError:
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    reason = " ".join(lines)
    if not reason:
        reason = f"the process ended with code {done.returncode}"
    if task == "read" and any(word in done.stderr for word in _SYMBOLIC):
        return symbolic(f"jaxlib says: {reason[:300]}")
    what = "read this StableHLO" if task == "read" else "turn the module into StableHLO"
    return HloFileError(
        f"jaxlib does not {what}: {reason[:300]}", code="HLO-STABLEHLO",
        remedy="a version of jaxlib as new as the one that wrote it may"
        if task == "read"
        else "nki-hlo verify says whether the module is valid",
    )  # fmt: skip
