"""A program into a NEFF. Same program, same bytes: nothing of the machine enters the file."""

from __future__ import annotations

import hashlib
import io
import os
from typing import Any, BinaryIO

import numpy as np

from neff.container import documents, strict_json
from neff.container.archive import Limits, Member, write_archive
from neff.container.atomic import atomic_file
from neff.container.header import (
    HASHES,
    HEADER_SIZE,
    NAME_BYTES,
    OUR_FEATURE_BIT,
    Header,
    new_hash,
    pack_header,
)
from neff.container.manifest import MANIFEST, manifest_of, plain_array
from neff.encoding import SourceTable, encode_engine
from neff.errors import NeffCompileError
from neff.program import Program
from neff.version import __version__
from nki_lang.base.dtypes import Array
from nki_lang.ir import Engine

__all__ = ["SOURCES", "header_of", "members_of", "write"]

SOURCES = "debug_info/x-nki-hlo-sources.json"

NEFF_VERSION = (2, 0)
"""The newest that public sources show."""

_NUMPY_KINDS = frozenset("biufc")


def write(
    program: Program,
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    compressed: bool = True,
    pkg_version: int = 1,
) -> None:
    """Write a program as a NEFF. The file appears whole or not at all.

    Args:
        program: what to write; not changed.
        path: where to.
        name: the header's network name; the program's own by default. Folders are dropped.
        compressed: gzip the payload; without, the file loads faster and is larger.
        pkg_version: 1 for a SHA-256 over the payload, 2 for an MD5.

    Raises:
        NeffCompileError: ``NEFF-ENCODE``; something in the program cannot be written.
        NeffError: ``NEFF-WRITE``; the file cannot be written.
    """
    members = members_of(program)
    plain = sum(member.size for member in members)
    with atomic_file(path) as file:
        size, digest = _payload(members, file, pkg_version, compressed=compressed)
        limits = Limits()
        if compressed and plain > max(limits.ratio_free_bytes, limits.ratio * size):
            # A reader would take so high a ratio for an attack.
            size, digest = _payload(members, file, pkg_version, compressed=False)
        header = header_of(program, digest, size, name=name, pkg_version=pkg_version)
        file.seek(0)
        file.write(pack_header(header))


def _payload(
    members: list[Member], file: BinaryIO, pkg_version: int, *, compressed: bool
) -> tuple[int, bytes]:
    """Write the payload behind the space of the header; its size and hash."""
    hasher = new_hash(pkg_version)
    file.seek(HEADER_SIZE)
    file.truncate()

    def sink(data: bytes | memoryview) -> None:
        hasher.update(data)
        file.write(data)

    write_archive(members, sink, compressed=compressed)
    return file.tell() - HEADER_SIZE, hasher.digest()


def header_of(
    program: Program, digest: bytes, size: int, *, name: str | None, pkg_version: int
) -> Header:
    """The header of a program whose payload has this size and digest."""
    cores = len(program.subgraphs)
    label = _plain_name(program.name if name is None else name)
    identity = b"nki-hlo neff uuid\0" + digest + label.encode()
    unique = bytearray(hashlib.sha256(identity).digest()[:16])
    unique[6] = unique[6] & 0x0F | 0x80  # a UUID of version 8: made of the contents
    unique[8] = unique[8] & 0x3F | 0x80
    return Header(
        pkg_version=pkg_version,
        data_size=size,
        version=NEFF_VERSION,
        build_version=f"nki-hlo-{__version__}",
        num_tpb=cores,
        hash=digest.ljust(HASHES[1][1], b"\0"),
        uuid=bytes(unique),
        name=label,
        requested_tpb_count=cores,
        tpb_per_node=(cores,),
        feature_bits=OUR_FEATURE_BIT,
        lnc_size=cores,
    )


def _plain_name(name: str) -> str:
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    plain = "".join(char if char.isprintable() else "_" for char in last)
    return plain.encode()[:NAME_BYTES].decode(errors="ignore")


def members_of(program: Program) -> list[Member]:
    """Every file of the archive in its order.

    Raises:
        NeffCompileError: ``NEFF-ENCODE``; something in the program cannot be written.
    """
    try:
        files, constants = _constants(program)
        manifest = strict_json.dump(manifest_of(program, files))
        fixed = {
            MANIFEST: manifest,
            "info.json": strict_json.dump(documents.info(program)),
            "hlo_stats.json": strict_json.dump(program.metadata.get("hlo_stats", {})),
            "neff.json": strict_json.dump(documents.network(program)),
            "kelf-0.json": strict_json.dump(documents.graph_list(program)),
        }
    except (TypeError, ValueError) as error:
        raise NeffCompileError(
            f"the program cannot be written: {error}",
            code="NEFF-ENCODE",
            place=program.name,
            remedy="constants need a value of their own type and shape, metadata JSON values",
        ) from None
    sources = SourceTable()
    members = [Member(member, (data,)) for member, data in fixed.items()]
    for core in range(len(program.subgraphs)):
        members += _subgraph(program, core, files, sources)
    members.append(Member(SOURCES, (strict_json.dump(sources.to_json(), indent=None),)))
    return members + constants


def _subgraph(
    program: Program, core: int, files: dict[str, str], sources: SourceTable
) -> list[Member]:
    graph, folder = program.subgraphs[core], f"sg{core:02d}"
    strange = set(graph.engines) - set(documents.ENGINE_FILES)
    if strange:
        names = ", ".join(sorted(engine.name for engine in strange))
        raise NeffCompileError(
            f"core {core} has a program for {names}; allowed are "
            f"{', '.join(engine.name for engine in documents.ENGINE_FILES)}",
            code="NEFF-ENCODE",
            place=program.name,
            remedy="assign the steps to an engine that has its own program",
        )
    identifiers = {name: number for number, name in enumerate(program.variables)}
    queues: dict[str, dict[str, Any]] = {}
    texts: list[Member] = []
    codes: list[Member] = []
    for engine, (_, stem) in documents.ENGINE_FILES.items():
        document, owned = documents.engine_document(program, graph, engine)
        queues |= owned
        texts.append(Member(f"{folder}/{stem}.json", (strict_json.dump(document, indent=None),)))
        code = encode_engine(
            graph.engines.get(engine, []),
            engine=Engine(engine),
            core=core,
            variables=identifiers,
            sources=sources,
        )
        codes.append(Member(f"{folder}/{stem}.bin", (code,)))
    definition = documents.definition(program, core, files, queues)
    return [Member(f"{folder}/def.json", (strict_json.dump(definition),)), *texts, *codes]


def _constants(program: Program) -> tuple[dict[str, str], list[Member]]:
    """Member name of each constant, and the members."""
    files: dict[str, str] = {}
    members: list[Member] = []
    for variable in program.variables.values():
        if variable.kind != "constant":
            continue
        array = plain_array(variable)
        native = array.dtype.kind in _NUMPY_KINDS
        suffix = "npy" if native else "raw"
        member = f"sg{max(0, variable.core):02d}/const_{len(files):04d}.{suffix}"
        raw = array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")
        head = (_npy_header(array),) if native else ()
        files[variable.name] = member
        members.append(Member(member, (*head, raw)))
    return files, members


def _npy_header(array: Array) -> bytes:
    buffer = io.BytesIO()
    description = np.lib.format.header_data_from_array_1_0(array)
    np.lib.format.write_array_header_1_0(buffer, description)
    return buffer.getvalue()
