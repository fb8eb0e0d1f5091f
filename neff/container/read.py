"""A NEFF into a program. The payload's hash is checked first; nothing in it is believed after."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo_tools._gc import no_collection
from neff.container import documents, strict_json
from neff.container.archive import Limits, read_archive, too_large
from neff.container.header import (
    HEADER_SIZE,
    OUR_FEATURE_BIT,
    Header,
    new_hash,
    pack_header,
    unpack_header,
)
from neff.container.known_keys import (
    DEFINITION,
    ENGINE,
    FIXED_MEMBERS,
    SOURCE_KEYS,
    Keys,
    require_known_keys,
)
from neff.container.manifest import MANIFEST, Manifest, parse_manifest
from neff.container.write import SOURCES, header_of
from neff.encoding import SourceTable, decode_engine
from neff.errors import NeffFileError
from neff.program import EngineStep, Program, SubGraph, Variable
from nki_lang.base.dtypes import Array
from nki_lang.base.plain_files import UnfitFileError, read_plain
from nki_lang.ir import Engine, Tensor

__all__ = ["Package", "open_package", "program_of", "read", "require_known_descriptors"]

_PIECE = 1 << 24


@dataclass(frozen=True, slots=True)
class Package:
    """A NEFF taken apart but not understood: any NEFF, ours or the vendor's.

    Attributes:
        place: the file's name, for errors.
        header: its header.
        raw_header: the 1024 bytes.
        payload: the bytes behind it.
        members: the archive's files by name.
        compressed: the payload is gzipped.
        checked: the payload matches the header's hash.
    """

    place: str
    header: Header
    raw_header: bytes
    payload: memoryview
    members: dict[str, memoryview]
    compressed: bool
    checked: bool = True

    @property
    def is_ours(self) -> bool:
        """True when this project's compiler wrote it."""
        return MANIFEST in self.members

    def document(self, name: str) -> Any:
        """A JSON member.

        Raises:
            NeffFileError: ``NEFF-MEMBER`` when it is missing, ``NEFF-JSON`` when damaged.
        """
        return strict_json.load(self.bytes(name), f"{self.place}: {name}")

    def bytes(self, name: str) -> memoryview:
        """A member's bytes.

        Raises:
            NeffFileError: ``NEFF-MEMBER``; it is missing.
        """
        content = self.members.get(name)
        if content is None:
            raise NeffFileError(
                f"the archive has no member {name[:200]!r}", code="NEFF-MEMBER", place=self.place
            )
        return content


def open_package(
    path: str | os.PathLike[str], *, check_hash: bool = True, limits: Limits | None = None
) -> Package:
    """Take any NEFF apart.

    Args:
        path: the file.
        check_hash: compare the payload with the header's hash.
        limits: upper limits of the archive.

    Raises:
        NeffFileError: the file cannot be opened (``NEFF-OPEN``), its header is wrong, its hash
            differs (``NEFF-HASH``), or its archive is damaged or unsafe.
    """
    location = os.fspath(path)
    data = _content(path, location, limits or Limits())
    header = unpack_header(data, len(data), location)
    payload = data[HEADER_SIZE:]
    if check_hash:
        _check_hash(header, payload, location)
    members = read_archive(payload, location, limits)
    gzipped = bytes(payload[:2]) == b"\x1f\x8b"
    raw = bytes(data[:HEADER_SIZE])
    return Package(location, header, raw, payload, members, gzipped, checked=check_hash)


def read(path: str | os.PathLike[str]) -> Program:
    """The program in a NEFF that this project's compiler wrote.

    Constants are views of the file, read-only.

    Args:
        path: a NEFF.

    Raises:
        NeffFileError: the file is damaged, or not ours (``NEFF-FOREIGN``).
    """
    with no_collection():
        return program_of(open_package(path))


def program_of(package: Package) -> Program:
    """The program in a package.

    Raises:
        NeffFileError: the package is damaged, or not ours (``NEFF-FOREIGN``).
    """
    if not package.is_ours:
        raise NeffFileError(
            f"this NEFF was not built by nki-hlo (build {package.header.build_version!r}, name "
            f"{package.header.name!r}); the encoding of its instructions is not public",
            code="NEFF-FOREIGN",
            place=package.place,
            remedy="'nki-neff info' shows its documented parts; to run it here, build its "
            "HLO module with 'nki-neff build'",
        )
    manifest = parse_manifest(package.document(MANIFEST), f"{package.place}: {MANIFEST}")
    program = manifest.program
    sources = SourceTable.from_json(
        _known(package, SOURCES, SOURCE_KEYS), f"{package.place}: {SOURCES}"
    )
    shared_tensors: dict[tuple[object, ...], Tensor] = {}
    for core, semaphores in enumerate(manifest.semaphores):
        program.subgraphs.append(
            _subgraph(package, program, core, semaphores, sources, shared_tensors)
        )
    for name, member in manifest.files.items():
        program.variables[name].value = _constant(package, program.variables[name], member)
    _check_members(package, manifest)
    for member, keys in FIXED_MEMBERS.items():
        _known(package, member, keys)
    if package.checked:  # the header has marks made from the hash
        _check_header(package, program)
    return program


def _known(package: Package, member: str, keys: Keys) -> Any:
    """A JSON member that has only keys that this version knows."""
    document = package.document(member)
    require_known_keys(document, keys, f"{package.place}: {member}")
    return document


def _content(path: str | os.PathLike[str], location: str, limits: Limits) -> memoryview:
    """The whole file. Not mapped: what was checked must stay what is used."""
    try:
        return memoryview(read_plain(path, HEADER_SIZE + limits.total_bytes))
    except OSError as error:
        if isinstance(error, UnfitFileError) and error.too_large:
            raise too_large(location, limits) from None
        reason = getattr(error, "strerror", None) or error
        raise NeffFileError(
            f"Failed to open NEFF file: {reason}",
            code="NEFF-OPEN",
            place=location,
            remedy="check that the file exists and that you may read it",
        ) from None


def _check_hash(header: Header, payload: memoryview, location: str) -> None:
    pieces = (payload[start : start + _PIECE] for start in range(0, len(payload), _PIECE))
    digest = new_hash(header.pkg_version, pieces).digest()
    if digest != header.digest:
        raise NeffFileError(
            f"the payload's {header.hash_name} is {digest.hex()}, the header says "
            f"{header.digest.hex()}",
            code="NEFF-HASH",
            place=f"{location}, byte 172",
        )


def _subgraph(
    package: Package,
    program: Program,
    core: int,
    semaphores: int,
    sources: SourceTable,
    shared_tensors: dict[tuple[object, ...], Tensor],
) -> SubGraph:
    folder = f"sg{core:02d}"
    definition = _known(package, f"{folder}/def.json", DEFINITION)
    location = f"{package.place}: {folder}/def.json"
    engines: dict[Engine, list[EngineStep]] = {}
    names = list(program.variables)
    for engine, (key, stem) in documents.ENGINE_FILES.items():
        if not strict_json.is_object(definition) or definition.get(f"{key}_instr") != f"{stem}.bin":
            raise NeffFileError(
                f"'{key}_instr' does not name {stem}.bin", code="NEFF-DEFINITION", place=location
            )
        member = f"{folder}/{stem}.bin"
        engines[engine] = decode_engine(
            package.bytes(member),
            engine=engine,
            core=core,
            variables=names,
            sources=sources,
            location=f"{package.place}: {member}",
            shared_tensors=shared_tensors,
        )
    return SubGraph(engines, semaphores)


def _constant(package: Package, variable: Variable, member: str) -> Array:
    data = package.bytes(member)
    location = f"{package.place}: {member}"
    dtype = variable.dtype.dtype
    if member.endswith(".npy"):
        data = data[_npy_body(data, dtype, variable.shape, location) :]
    if len(data) != variable.nbytes:
        raise NeffFileError(
            f"{len(data)} bytes for constant {variable.name[:80]!r} of {variable.nbytes}",
            code="NEFF-CONSTANT",
            place=location,
        )
    if not variable.nbytes:
        return np.zeros(variable.shape, dtype)
    return np.frombuffer(data, dtype).reshape(variable.shape)


def _npy_body(data: memoryview, dtype: np.dtype[Any], shape: tuple[int, ...], location: str) -> int:
    """Return where the elements of a .npy member begin; its header must agree with the program."""
    file = io.BytesIO(bytes(data[:4096]))
    try:
        version = np.lib.format.read_magic(file)
        if version != (1, 0):
            raise ValueError(f"version {version}")
        npy_header = np.lib.format.read_array_header_1_0(file)
    except Exception as error:  # the parser evaluates a literal: anything can come out of it
        raise NeffFileError(
            f"damaged .npy header: {error}", code="NEFF-CONSTANT", place=location
        ) from None
    if npy_header != (shape, False, dtype):
        raise NeffFileError(
            f"the .npy header says {npy_header[2]}{list(npy_header[0])}, the program {dtype}{list(shape)}",
            code="NEFF-CONSTANT",
            place=location,
        )
    return file.tell()


def require_known_descriptors(package: Package) -> None:
    """Refuse engines' JSON with keys that this version does not know; loading does not read it.

    Raises:
        NeffFileError: ``NEFF-UNKNOWN-FIELD``, or ``NEFF-JSON`` where one is damaged.
    """
    for member in package.members:
        folder, _, name = member.partition("/")
        if folder.startswith("sg") and name != "def.json" and name.endswith(".json"):
            _known(package, member, ENGINE)


def _check_members(package: Package, manifest: Manifest) -> None:
    """No member that the program does not name: nothing rides along unseen."""
    expected = {MANIFEST, "info.json", "hlo_stats.json", "neff.json", "kelf-0.json", SOURCES}
    for core in range(len(manifest.semaphores)):
        expected.add(f"sg{core:02d}/def.json")
        for _, stem in documents.ENGINE_FILES.values():
            expected |= {f"sg{core:02d}/{stem}.json", f"sg{core:02d}/{stem}.bin"}
    expected |= set(manifest.files.values())
    strange = sorted(set(package.members) ^ expected)
    if strange:
        raise NeffFileError(
            f"member {strange[0][:200]!r} is missing or does not belong here",
            code="NEFF-MEMBER",
            place=package.place,
        )


def _check_header(package: Package, program: Program) -> None:
    """The hash does not cover the header, but every field of ours follows from the payload."""
    header = package.header
    expected = header_of(
        program, header.digest, header.data_size, name=header.name, pkg_version=header.pkg_version
    )
    if not header.feature_bits & OUR_FEATURE_BIT or pack_header(expected) != package.raw_header:
        position = next(
            index
            for index, pair in enumerate(
                zip(pack_header(expected), package.raw_header, strict=True)
            )
            if pair[0] != pair[1]
        )
        raise NeffFileError(
            "the header does not fit the payload",
            code="NEFF-HEADER",
            place=f"{package.place}, byte {position}",
            remedy="the header was damaged or changed; build or copy the file again",
        )
