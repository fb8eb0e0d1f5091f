"""Reads and writes kernel files: header, kernel, companion record, constants."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from nki_lang.base.atomic import atomic_file
from nki_lang.base.errors import NkiFileError, NkiValidationError
from nki_lang.base.plain_files import UnfitFileError, check_path, read_plain, shown
from nki_lang.base.targets import current_target, target_of
from nki_lang.base.unknown_fields import UPDATE
from nki_lang.ir.types import KernelIR
from nki_lang.klir import checksum, companion, constants, foreign, schema
from nki_lang.klir.cbor import Damage, UnknownStructure
from nki_lang.klir.decode import decode
from nki_lang.klir.encode import encode

__all__ = ["KernelFile", "dumps", "loads", "read", "write"]

MAX_FILE_BYTES = 1 << 30


class KernelFile(NamedTuple):
    """A kernel as bytes.

    Attributes:
        klir: the ``.klir`` file.
        companion: the companion record.
        constants: file name relative to the kernel file -> bytes.
    """

    klir: bytes
    companion: bytes
    constants: dict[str, bytes]


def _file(contents: bytes) -> bytes:
    """Return a file with these contents: version, name of the format with the checksum,
    contents.
    """
    version = schema.writer("KLRFile")(schema.node("KLRFile")(*schema.version()))
    name = checksum.name_of(version, contents)
    return version + schema.writer("KLRMetaData")(schema.node("KLRMetaData")(name)) + contents


def dumps(kernel_ir: KernelIR) -> KernelFile:
    """Return a kernel as bytes; equal kernels give equal bytes.

    Raises:
        NkiValidationError: two tensors have one name, or a value is no operand.
    """
    files: dict[str, bytes] = {}
    names: dict[str, str] = {}
    for constant in kernel_ir.constants:
        file, data = constants.to_npy(constant.value)
        names[constant.tensor.name] = file
        files[file] = data
    encoded, record = encode(kernel_ir, names)
    klir = _file(schema.head("Contents", "lnc") + encoded)
    klir = foreign.restored(klir, kernel_ir.metadata)
    record |= {
        "klir_sha256": hashlib.sha256(klir).hexdigest(),
        "target": kernel_ir.target,
        "grid": list(kernel_ir.grid),
        "returns_tuple": kernel_ir.returns_tuple,
        "has_collectives": kernel_ir.has_collectives,
    }
    return KernelFile(klir, companion.dumps(record), files)


def _damaged(offset: int, message: str) -> NkiFileError:
    return NkiFileError(
        f"the kernel file is damaged at byte {offset}: {message}",
        code="NKI-FILE-KLIR",
        remedy="write or copy the file again",
    )


def _newer(unknown: UnknownStructure) -> NkiFileError:
    return NkiFileError(
        f"the kernel file has {unknown.structure} at byte {unknown.offset}, which this version "
        "does not know",
        code="NKI-FILE-UNKNOWN-FIELD",
        remedy=f"{UPDATE}, or write the kernel again with this version",
    )


def _parse(data: bytes) -> Any:
    """Return the contents of a file, after checking its version and checksum."""
    state = schema.ReadState()
    position = header_end = end = 0
    format_name = ""
    try:
        version, position = schema.reader("KLRFile")(data, position, state)
        if tuple(version)[:2] != schema.version()[:2]:
            raise NkiFileError(
                f"the kernel file has format version {'.'.join(map(str, version))}; this version "
                "reads 0.0",
                code="NKI-FILE-VERSION",
                remedy=f"{UPDATE}, or write the kernel again with this version",
            )
        header_end = position
        name, end = schema.reader("KLRMetaData")(data, position, state)
        format_name = name.format
        contents, position = schema.reader("Contents")(data, end, state)
    except UnknownStructure as unknown:
        if not end:
            raise _damaged(unknown.offset, unknown.message) from None
        # Damage that looks like a newer structure fails the checksum.
        checksum.require(format_name, data[:header_end], data[end:])
        raise _newer(unknown) from None
    except Damage as damage:
        raise _damaged(damage.offset, damage.message) from None
    except IndexError:
        raise _damaged(len(data), "the file ends in the middle of a value") from None
    if position != len(data):
        raise _damaged(position, f"{len(data) - position} bytes follow the kernel")
    checksum.require(format_name, data[:header_end], data[end:])
    return contents


def _kernel_of(contents: Any) -> Any:
    """Return the ``LncKernel`` of a file's contents, also for a kernel of one core."""
    if contents.constructor == "lnc":
        return contents[0]
    if contents.constructor == "kernel":
        kernel = contents[0]
        return schema.node("LncKernel")(
            kernel.name, kernel.inputs, kernel.outputs, [kernel.body], [], [], []
        )
    raise NkiFileError(
        f"the file holds {contents.constructor!r}, not a kernel",
        code="NKI-FILE-CONTENTS",
        remedy="pass a kernel file (.klir) as the tracer writes it",
    )


def loads(
    data: bytes,
    record: bytes | None = None,
    files: Mapping[str, bytes] | Callable[[str], bytes] | None = None,
    *,
    target: str | None = None,
) -> KernelIR:
    """Return the kernel in the bytes of a kernel file.

    Args:
        data: the ``.klir`` file.
        record: the companion record; without it, missing information is inferred.
        files: the constants' files by name, or a function that reads one.
        target: target family of a kernel without record; default: the current target.

    Raises:
        NkiFileError: the file is damaged, or the kernel IR cannot express it.
    """
    contents = _parse(data)
    node = _kernel_of(contents)
    companion_record: dict[str, Any] = {}
    if record is not None:
        companion_record = companion.loads(record)
        if companion_record.get("klir_sha256") != hashlib.sha256(data).hexdigest():
            raise NkiFileError(
                "the kernel file is not the one that its companion record was written for",
                code="NKI-FILE-HASH",
                remedy="write or copy both again; without the companion the file can be read "
                "as a plain KLIR file",
            )
    get = files if callable(files) else (files or {}).__getitem__
    values: dict[str, Any] = {}
    for entry in node.sharedConstants:
        try:
            content = get(constants.plain_name(entry.name, entry.fileName))
        except (KeyError, OSError) as error:
            raise NkiFileError(
                f"the file {entry.fileName!r} of the constant {entry.name!r} cannot be read: {error}",
                code="NKI-FILE-CONSTANT",
                remedy="copy the kernel file together with the folder shared_constants next to it",
            ) from None
        values[entry.name] = constants.from_npy(entry.name, content)
    family = target_of(target).name if target is not None else current_target().name
    kernel_ir = decode(node, companion_record, values, family)
    if record is None:
        try:
            foreign.keep(kernel_ir, data, lambda: dumps(kernel_ir).klir)
        except (NkiValidationError, OverflowError) as error:
            raise NkiFileError(
                f"the kernel in the file could not be written again: {error}",
                code="NKI-FILE-UNSUPPORTED",
            ) from error
    return kernel_ir


# --- files ---------------------------------------------------------------------------------


def _replace(path: Path, data: bytes) -> None:
    """Writes a file so that it is there whole or not at all."""
    with atomic_file(path) as out:
        out.write(data)


def _companion_path(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def write(kernel_ir: KernelIR, path: str | os.PathLike[str]) -> KernelFile:
    """Writes a kernel: ``path``, ``path`` + ``.json`` and the constants' files.

    The constants come first and the kernel file last, so that a kernel file that is there is
    complete.

    Raises:
        NkiFileError: code ``NKI-FILE-WRITE``; the folder cannot be written.
    """
    location = Path(path)
    kernel_file = dumps(kernel_ir)
    try:
        check_path(location)
        for name, data in kernel_file.constants.items():
            file = location.parent / name
            file.parent.mkdir(exist_ok=True)
            if not file.exists():
                _replace(file, data)
        _replace(_companion_path(location), kernel_file.companion)
        _replace(location, kernel_file.klir)
    except OSError as error:
        raise NkiFileError(
            f"the kernel file {shown(path)} cannot be written: {error.strerror or error}",
            code="NKI-FILE-WRITE",
            remedy="pass a path in a folder that exists and is writable",
        ) from error
    return kernel_file


def _read_bytes(path: Path) -> bytes:
    try:
        return read_plain(path, MAX_FILE_BYTES)
    except UnfitFileError as error:
        raise NkiFileError(
            f"{shown(path)}: {error.strerror}",
            code="NKI-FILE-SIZE" if error.too_large else "NKI-FILE-READ",
        ) from error


def _read_constant(kernel: Path, name: str) -> bytes:
    """A constant in the folder of a kernel file.

    Raises:
        NkiFileError: a link leads out of the folder that the kernel lies in.
    """
    path = kernel.parent / name
    homes = (kernel.parent, Path(os.path.realpath(kernel)).parent)
    real = os.path.realpath(path)
    if not any(Path(real).is_relative_to(os.path.realpath(home)) for home in homes):
        raise NkiFileError(
            f"the constant {path} is a link out of the kernel's folder",
            code="NKI-FILE-CONSTANT",
            remedy="copy the constant itself into the folder shared_constants next to the kernel",
        )
    return _read_bytes(path)


def read(path: str | os.PathLike[str], *, target: str | None = None) -> KernelIR:
    """Return the kernel in a file, with its companion record and constants.

    Args:
        path: the ``.klir`` file.
        target: as for :func:`loads`.

    Raises:
        NkiFileError: the file cannot be read, is damaged, or has no form in the kernel IR.
    """
    location = Path(path)
    companion_path = _companion_path(location)
    try:
        data = _read_bytes(location)
        record = _read_bytes(companion_path) if companion_path.exists() else None
    except OSError as error:
        raise NkiFileError(
            f"the kernel file {os.fspath(path)} cannot be read: {error.strerror or error}",
            code="NKI-FILE-READ",
            remedy="check the path",
        ) from error
    try:
        return loads(data, record, lambda name: _read_constant(location, name), target=target)
    except NkiFileError as error:
        raise NkiFileError(
            f"{os.fspath(path)}: {error.message}", code=error.code, remedy=error.remedy
        ) from error
