"""The provenance file beside a NEFF: an in-toto statement with SLSA's predicate.

``dense.neff.provenance.json`` holds digests of the NEFF and of every input, the flags and the
versions; no path, time or machine, so equal builds have equal statements. It is not signed: whatever
signs in-toto statements can. As in-toto asks of readers, keys that are not known are passed over; the
type of the build and of the predicate must be these. Form: https://slsa.dev/spec/v1.0/provenance and
https://github.com/in-toto/attestation (Statement v1).
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, cast

from hlo_tools.files.plain import MAX_RECORD_BYTES, MAX_RESULT_BYTES, read_beside, read_plain
from hlo_tools.store import Action
from neff.builds.flags import FLAGS_FILE
from neff.builds.sources import Source
from neff.builds.stored import action_of
from neff.container import open_package, program_of
from neff.container.strict_json import is_object
from neff.errors import NeffError, NeffFileError
from neff.options import Flags
from neff.version import __version__

__all__ = ["SUFFIX", "mismatches", "write_provenance"]

SUFFIX: Final = ".provenance.json"
_STATEMENT: Final = "https://in-toto.io/Statement/v1"
_PREDICATE: Final = "https://slsa.dev/provenance/v1"
_BUILD: Final = "urn:nki-hlo:neff:1"
_LIBRARIES: Final = ("numpy", "ml_dtypes", "protobuf")
_INPUT: Final = "input "
_OPTION: Final = "option "

Statement = dict[str, Any]


def write_provenance(source: Source, flags: Flags, output: Path, *, digest: str = "") -> Path:
    """Write the statement of a NEFF that was just made.

    Args:
        source, flags: what it was made from.
        output: the NEFF.
        digest: of the action that made it; "" when it is not known.

    Returns:
        The file: the NEFF's name and :data:`SUFFIX`.

    Raises:
        NeffError: ``NEFF-PROVENANCE``: the inputs have changed since it was made.
        HloFileError: the file cannot be written.
    """
    from hlo_tools.files.writing import write_bytes

    action = action_of(source, flags)
    if digest and action.digest != digest:
        raise NeffError(
            "the inputs changed while it was built",
            code="NEFF-PROVENANCE",
            place=str(output),
            remedy="build again",
        )
    file = output.with_name(output.name + SUFFIX)
    text = json.dumps(_statement(action, source, output), indent=1, sort_keys=True)
    write_bytes(f"{text}\n".encode(), file)
    return file


def _statement(action: Action, source: Source, output: Path) -> Statement:
    parts = action.parts
    options = {
        name.removeprefix(_OPTION): value
        for name, value in parts.items()
        if name.startswith(_OPTION)
    }
    inputs = {
        name.removeprefix(_INPUT): value for name, value in parts.items() if name.startswith(_INPUT)
    }
    if (flags_file := source.folder / FLAGS_FILE).exists():
        inputs[FLAGS_FILE] = hashlib.sha256(read_beside(flags_file)).hexdigest()
    return {
        "_type": _STATEMENT,
        "subject": [{"name": output.name, "digest": {"sha256": _digest(output)}}],
        "predicateType": _PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": _BUILD,
                "externalParameters": {
                    "target": program_of(open_package(output)).target,
                    "fast_loading": parts["fast_loading"],
                    "options": options,
                },
                "internalParameters": {"action": action.digest},
                "resolvedDependencies": [
                    {"name": name, "digest": {"sha256": digest}}
                    for name, digest in sorted(inputs.items())
                ],
            },
            "runDetails": {"builder": {"id": _BUILD, "version": _versions(parts["toolchain"])}},
        },
    }


def _versions(toolchain: str) -> dict[str, str]:
    """Return the versions of everything that may influence the bytes."""
    versions = {"nki-hlo": __version__, "toolchain": toolchain, "zlib": zlib.ZLIB_RUNTIME_VERSION}
    for name in _LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "unknown"
    return versions


def _digest(file: Path) -> str:
    return hashlib.sha256(read_plain(file, MAX_RESULT_BYTES)).hexdigest()


def mismatches(file: Path, source: Source | None = None) -> Iterator[tuple[str, str]]:
    """In what a NEFF and its statement, or the inputs that are there now, do not agree.

    Args:
        file: the NEFF; nothing is yielded when it has no statement and ``source`` is None.
        source: the module or kernel that it should have been made from.

    Yields:
        Place and message.

    Raises:
        NeffFileError: ``NEFF-PROVENANCE``: the statement is missing though a source is given, or
            it is not one of ours.
    """
    path = file.with_name(file.name + SUFFIX)
    if not path.exists() and source is None:
        return
    statement = _read(path)
    try:
        definition = statement["predicate"]["buildDefinition"]
        subjects = [str(subject["digest"]["sha256"]) for subject in statement["subject"]]
        target = str(definition["externalParameters"]["target"])
        materials = {
            str(dependency["name"]): str(dependency["digest"]["sha256"])
            for dependency in definition["resolvedDependencies"]
        }
        made_by = str(statement["predicate"]["runDetails"]["builder"]["version"]["nki-hlo"])
    except (KeyError, TypeError, IndexError):
        raise _unusable(path, "it lacks what a build writes") from None
    if definition.get("buildType") != _BUILD:
        raise _unusable(path, f"its buildType is {definition.get('buildType')!r:.80}, not {_BUILD}")
    if _digest(file) not in subjects:
        yield str(file), f"its digest is not the one in {path.name}: it is another file"
    package = open_package(file, check_hash=False)
    if package.is_ours and program_of(package).target != target:
        yield str(file), f"it is for {program_of(package).target}; {path.name} says {target}"
    tool = package.document("info.json") if "info.json" in package.members else None
    stated = tool.get("tool_version") if is_object(tool) else None
    if package.is_ours and made_by not in str(stated):
        yield str(file), f"it was made by {stated}; {path.name} says {made_by}"
    if source is not None:
        yield from _inputs(source, materials, path)


def _inputs(source: Source, digests: dict[str, str], path: Path) -> Iterator[tuple[str, str]]:
    action = action_of(source, Flags())
    now = {
        name.removeprefix(_INPUT): value
        for name, value in action.parts.items()
        if name.startswith(_INPUT)
    }
    if (flags_file := source.folder / FLAGS_FILE).exists():
        now[FLAGS_FILE] = hashlib.sha256(read_beside(flags_file)).hexdigest()
    for name in sorted(digests.keys() | now.keys()):
        if name not in now:
            yield str(source.file), f"{name}, which {path.name} lists, is not there"
        elif name not in digests:
            yield str(source.file), f"{name} is not listed in {path.name}"
        elif now[name] != digests[name]:
            yield str(source.file), f"{name} is not what the NEFF was made from"


def _read(path: Path) -> Statement:
    try:
        document: object = json.loads(read_plain(path, MAX_RECORD_BYTES))
    except OSError as error:
        raise _unusable(path, error.strerror or "it cannot be read") from None
    except (ValueError, RecursionError):
        raise _unusable(path, "it is not JSON") from None
    if not isinstance(document, dict):
        raise _unusable(path, "it is not a statement")
    statement = cast("Statement", document)
    if statement.get("_type") != _STATEMENT or statement.get("predicateType") != _PREDICATE:
        raise _unusable(path, "it is not a statement of SLSA's provenance")
    return statement


def _unusable(path: Path, reason: str) -> NeffFileError:
    return NeffFileError(
        f"the provenance cannot be used: {reason}",
        code="NEFF-PROVENANCE",
        place=str(path),
        remedy="nki-neff build --provenance writes it; build again",
    )
