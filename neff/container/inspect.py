"""The description of any NEFF without running it, the vendor's included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from neff.container.descriptors import pieces_of, ring_bytes
from neff.container.header import OUR_FEATURE_BIT, new_hash
from neff.container.read import Package, program_of
from neff.container.strict_json import is_list, is_object, objects
from neff.errors import NeffError, NeffFileError
from neff.program import EngineLoop, EngineStep, Program, Variable, named_ranks
from neff.timing import Parameters, estimate

__all__ = ["describe", "describe_program"]

Row = dict[str, Any]

_ESTIMATE_ERRORS = (NeffError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
"""Exceptions that estimating a damaged or invented file may raise."""


def describe(package: Package, overrides: Mapping[str, float] | None = None) -> dict[str, Any]:
    """Header, members, variables, memory and, for our own NEFFs, engines and estimated time.

    Args:
        package: the file.
        overrides: parameters of the timing model that have other values.

    Raises:
        NeffFileError: a member that the description needs is damaged.
    """
    document: dict[str, Any] = {
        "file": package.place,
        "made_by": "nki-hlo" if package.is_ours else "other",
        "header": _header(package),
        "members": [{"name": name, "bytes": len(data)} for name, data in package.members.items()],
        "subgraphs": _graphs(package),
        "memory": _memory_table(package),
    }
    if package.is_ours:
        document |= describe_program(program_of(package), overrides)
    else:
        document["inputs"], document["outputs"] = _foreign_tensors(package)
    return document


def describe_program(
    program: Program, overrides: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """Tensors, engines and estimated time of a program."""
    return {
        "estimate": _estimate(program, overrides or {}),
        "name": program.name,
        "target": program.target,
        "inputs": [_tensor(program.variables[name]) for name in program.inputs],
        "outputs": [_tensor(program.variables[name]) for name in program.outputs],
        "scratch_bytes": program.scratch_bytes,
        "devices": max(1, program.devices, named_ranks(program)),
        "engines": [
            _engine(core, engine.name, steps)
            for core, graph in enumerate(program.subgraphs)
            for engine, steps in graph.engines.items()
        ],
        "metadata": program.metadata,
    }


def _estimate(program: Program, overrides: Mapping[str, float]) -> Row:
    """The total with its range; of a program that cannot be estimated, the reason."""
    try:
        total = estimate(program, parameters=Parameters(program.target, overrides))
    except _ESTIMATE_ERRORS as error:
        return {"estimated": True, "error": getattr(error, "message", str(error))}
    figures = total.to_json()
    names = ("statistic", "dma", "total_us", "low_us", "high_us", "measured_share", "complete")
    return {"estimated": True, "text": str(total), **{name: figures[name] for name in names}}


def _memory_table(package: Package) -> list[Row]:
    """Device memory of each subgraph in bytes, by the names of the runtime's own breakdown.

    ``scratchpad`` is the largest end of a virtual variable in each area, summed over the areas;
    the runtime rounds it up to its page. ``rings`` follow a published estimate.
    """
    rows: list[Row] = []
    for graph in _graphs(package):
        folder = graph["definition"].rpartition("/")[0]
        definition = package.document(graph["definition"])
        variables = _objects(definition, "var")
        _check_sizes(variables, f"{package.place}: {graph['definition']}")
        try:
            rings = _rings(package, folder, definition, variables)
        except OverflowError as error:
            raise NeffFileError(
                str(error), code="NEFF-DEFINITION", place=f"{package.place}: {folder}"
            ) from None
        rows.append(
            {
                "subgraph": graph["name"],
                "code": sum(
                    len(data)
                    for name, data in package.members.items()
                    if name.startswith(f"{folder}/") and name.endswith(".bin")
                ),
                "constants": _total(variables, "file"),
                "inputs": _total(variables, "input"),
                "outputs": _total(variables, "output"),
                "scratchpad": _scratchpad(variables),
                "rings_io": rings["io"],
                "rings_spill": rings["spill"],
            }
        )
    return rows


def _header(package: Package) -> Row:
    header = package.header
    payload_hash = _whole_hash(package)
    return {
        "pkg_version": header.pkg_version,
        "hash": header.digest.hex(),
        "hash_kind": header.hash_name,
        "hash_matches": payload_hash,
        "data_size": header.data_size,
        "neff_version": ".".join(map(str, header.version)),
        "build_version": header.build_version,
        "name": header.name,
        "uuid": header.uuid.hex(),
        "num_tpb": header.num_tpb,
        "requested_tpb_count": header.requested_tpb_count,
        "tpb_per_node": list(header.tpb_per_node),
        "feature_bits": hex(header.feature_bits),
        "features": [_bit_name(bit) for bit in range(64) if header.feature_bits >> bit & 1],
        "lnc_size": header.lnc_size,
        "compressed": package.compressed,
    }


def _bit_name(bit: int) -> str:
    ours = 1 << bit == OUR_FEATURE_BIT
    return "nki-hlo instruction encoding" if ours else f"unnamed bit {bit}"


def _whole_hash(package: Package) -> bool:
    return new_hash(package.header.pkg_version, [package.payload]).digest() == package.header.digest


def _graphs(package: Package) -> list[Row]:
    """The subgraphs that the kelf files name, in order."""
    graphs: list[Row] = []
    for name in sorted(package.members):
        if not (name.startswith("kelf-") and name.endswith(".json")):
            continue
        document: object = package.document(name)
        listed: object = document.get("graphs") if is_object(document) else None
        for row in listed if is_list(listed) else ():
            graph = row if is_object(row) else Row()
            location, label = graph.get("definition"), graph.get("name")
            if not isinstance(location, str) or not isinstance(label, str):
                raise NeffFileError(
                    "a graph without name or definition",
                    code="NEFF-DEFINITION",
                    place=f"{package.place}: {name}",
                )
            graphs.append({"name": label, "definition": location})
    return graphs


def _objects(document: object, key: str) -> dict[str, Row]:
    """The objects in ``document[key]`` by name, without the values of another type."""
    table: object = document.get(key) if is_object(document) else None
    if not is_object(table):
        return {}
    return {name: row for name, row in table.items() if is_object(row)}


def _size(row: Row, key: str = "size") -> int:
    value = row.get(key, 0)
    return value if isinstance(value, int) else 0


def _check_sizes(variables: dict[str, Row], location: str) -> None:
    for name, row in variables.items():
        if not all(0 <= _size(row, key) < 1 << 63 for key in ("size", "backing_variable_off")):
            raise NeffFileError(
                f"variable {name[:80]!r} has a size or offset that cannot be",
                code="NEFF-DEFINITION",
                place=location,
            )


def _total(variables: dict[str, Row], kind: str) -> int:
    return sum(_size(row) for row in variables.values() if row.get("type") == kind)


def _scratchpad(variables: dict[str, Row]) -> int:
    ends: dict[str, int] = {}
    for row in variables.values():
        if row.get("type") == "virtual":
            area = str(row.get("fabric_path") or row.get("backing_buf") or "main")
            end = _size(row, "backing_variable_off") + _size(row)
            ends[area] = max(ends.get(area, 0), end)
    return sum(ends.values())


def _rings(
    package: Package, folder: str, definition: Any, variables: dict[str, Row]
) -> dict[str, int]:
    """Bytes of descriptor rings: ``io`` when a side is an input or output, else ``spill``."""
    outside = {name for name, row in variables.items() if row.get("type") in ("input", "output")}
    total = {"io": 0, "spill": 0}
    for key in ("act", "dve", "pe", "pool", "sp"):
        name: object = definition.get(key) if is_object(definition) else None
        member = f"{folder}/{name}"
        if not isinstance(name, str) or member not in package.members:
            continue
        for row in objects(package.document(member), "dma"):
            total["io" if _touches(row, outside) else "spill"] += ring_bytes(row)
    return total


def _touches(descriptor: Row, names: set[str]) -> bool:
    return any(
        isinstance(side := piece.get(key), str) and side in names
        for piece in pieces_of(descriptor)
        if is_object(piece)
        for key in ("from", "to")
    )


def _foreign_tensors(package: Package) -> tuple[list[Row], list[Row]]:
    """Inputs and outputs of a NEFF that is not ours, as def.json of the first subgraph has them."""
    graphs = _graphs(package)
    if not graphs:
        return [], []
    variables = _objects(package.document(graphs[0]["definition"]), "var")
    tensors = {
        kind: [
            {"name": name, "bytes": _size(row)}
            for name, row in variables.items()
            if row.get("type") == kind
        ]
        for kind in ("input", "output")
    }
    return tensors["input"], tensors["output"]


def _tensor(variable: Variable) -> Row:
    row: Row = {
        "name": variable.name,
        "dtype": variable.dtype.name,
        "shape": list(variable.shape),
        "bytes": variable.nbytes,
    }
    if variable.alias:
        row["alias"] = variable.alias
    return row


def _engine(core: int, engine: str, steps: list[EngineStep]) -> Row:
    counts: Counter[str] = Counter()
    loops = _count(steps, counts)
    return {
        "core": core,
        "engine": engine,
        "instructions": sum(counts.values()),
        "loops": loops,
        "opcodes": dict(sorted(counts.items())),
    }


def _count(steps: list[EngineStep], counts: Counter[str]) -> int:
    loops = 0
    for step in steps:
        if isinstance(step, EngineLoop):
            loops += 1 + _count(step.body, counts)
        else:
            counts[step.instruction.op] += 1
    return loops
