"""``nki-neff info``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.options import AsJson
from neff.cli.options import File

__all__ = ["command"]

FINE, DAMAGED = 0, 1

_SCALES = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"))


def command(file: File, as_json: AsJson = False) -> int:
    """Show header, members, tensors, memory and engines of any NEFF, the vendor's included.

    Exit code 1 when the payload does not match its hash.

    Example: nki-neff info matmul.neff
    """
    from neff.container import open_package
    from neff.container.inspect import describe
    from neff.timing import overrides_of

    document = describe(open_package(file, check_hash=False), overrides_of((), Path.cwd()))
    if as_json:
        console.write_json("info", **document)
    else:
        _print(document)
    if document["header"]["hash_matches"]:
        return FINE
    console.note("the payload does not match the header's hash: the file is damaged or was changed")
    return DAMAGED


def _print(document: dict[str, Any]) -> None:
    _header(document)
    for role in ("inputs", "outputs"):
        console.line()
        rows = [
            (row["name"], row.get("dtype", "?"), str(row.get("shape", "?")), _bytes(row["bytes"]))
            for row in document[role]
        ]
        console.table((role, "dtype", "shape", "size"), rows)
    console.line()
    _memory(document["memory"])
    if "engines" in document:
        console.line()
        rows = [
            (
                row["core"],
                row["engine"],
                row["instructions"],
                row["loops"],
                _opcodes(row["opcodes"]),
            )
            for row in document["engines"]
        ]
        console.table(("core", "engine", "instructions", "loops", "of them"), rows)
    console.line()
    members = [(row["name"], row["bytes"]) for row in document["members"]]
    console.table(("member", "bytes"), members)


def _header(document: dict[str, Any]) -> None:
    header = document["header"]
    state = "matches" if header["hash_matches"] else "DOES NOT MATCH"
    rows = [
        ("file", document["file"]),
        ("made by", document["made_by"]),
        ("network name", header["name"]),
        ("target", document.get("target", "unknown")),
        ("NEFF version", header["neff_version"]),
        ("package version", header["pkg_version"]),
        ("build version", header["build_version"] or "(none)"),
        ("payload", f"{_bytes(header['data_size'])}, {_packed(header['compressed'])}"),
        ("hash", f"{header['hash_kind']} {header['hash']} ({state})"),
        ("UUID", header["uuid"]),
        ("cores", f"{header['num_tpb']} (logical core of {header['lnc_size']})"),
        ("devices", document.get("devices", "unknown")),
        ("features", f"{header['feature_bits']} {', '.join(header['features'])}".rstrip()),
    ]
    if "estimate" in document:
        rows.append(("time", _time(document["estimate"])))
    for name, value in rows:
        console.line(f"{name + ':':<18}{value}")


def _time(estimate: dict[str, Any]) -> str:
    if "error" in estimate:
        return f"cannot be estimated: {estimate['error']}"
    return f"{'' if estimate['complete'] else 'at least '}{estimate['text']} (estimated)"


def _packed(compressed: bool) -> str:
    return "gzip" if compressed else "not compressed"


def _memory(rows: list[dict[str, Any]]) -> None:
    names = ("code", "constants", "inputs", "outputs", "scratchpad", "rings_io", "rings_spill")
    table = [(row["subgraph"], *(_bytes(row[name]) for name in names)) for row in rows]
    console.table(("device memory", *(name.replace("_", " ") for name in names)), table)


def _opcodes(counts: dict[str, int]) -> str:
    maximum = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} {name}" for name, count in maximum)


def _bytes(count: int) -> str:
    for scale, unit in _SCALES:
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} B"
