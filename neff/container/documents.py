"""The JSON members that the vendor documents, rendered from a program.

Sources: "Work with NEFF Files" (def.json, engine JSON), AWS's users of neff.json, and public
observations of kelf-0.json; ``docs/neff-format.md`` tells them apart.
"""

from __future__ import annotations

from neff.container.descriptors import describe_transfers
from neff.program import Program, SubGraph, Variable
from neff.version import __version__
from nki_lang.base.targets import target_of
from nki_lang.ir import Engine

__all__ = ["ENGINE_FILES", "definition", "engine_document", "graph_list", "info", "network"]

ENGINE_FILES = {
    Engine.scalar: ("act", "Activation0"),
    Engine.vector: ("dve", "DVE0"),
    Engine.tensor: ("pe", "PE0"),
    Engine.gpsimd: ("pool", "Pool0"),
    Engine.sync: ("sp", "SP0"),
}
"""Engine -> its key in def.json and the stem of its two files."""

_TYPES = {"input": "input", "output": "output", "constant": "file", "scratch": "virtual"}


def info(program: Program) -> dict[str, object]:
    """``info.json``: ``tool_version`` and ``num_tpb`` are the fields whose meaning is public."""
    return {
        "tool_version": f"nki-hlo {__version__}",
        "num_tpb": len(program.subgraphs),
        "target": program.target,
    }


def graph_list(program: Program) -> dict[str, object]:
    """``kelf-0.json``: one graph a physical core."""
    graphs = [
        {"name": f"sg{core:02d}", "definition": f"sg{core:02d}/def.json"}
        for core in range(len(program.subgraphs))
    ]
    return {"graphs": graphs, "version": "0.5"}


def network(program: Program) -> dict[str, object]:
    """``neff.json``: a TVM graph with one node for each input and one for the accelerator."""
    inputs = [program.variables[name] for name in program.inputs]
    outputs = [program.variables[name] for name in program.outputs]
    attributes = {
        "func_name": "sg00",
        "num_inputs": str(len(inputs)),
        "num_outputs": str(len(outputs)),
        "flatten_data": "0",
    }
    nodes: list[dict[str, object]] = [
        {"op": "null", "name": variable.name, "inputs": [], "output_names": [variable.name]}
        for variable in inputs
    ]
    nodes.append(
        {
            "op": "tvm_op",
            "name": "sg00",
            "attrs": attributes,
            "inputs": [[index, 0, 0] for index in range(len(inputs))],
            "output_names": [variable.name for variable in outputs],
        }
    )
    variables = [*inputs, *outputs]
    count = len(inputs)
    return {
        "nodes": nodes,
        "arg_nodes": list(range(count)),
        "heads": [[count, index, 0] for index in range(len(outputs))],
        "node_row_ptr": [*range(count + 1), count + len(outputs)],
        "attrs": {
            "dltype": ["list_str", [variable.dtype.name for variable in variables]],
            "shape": ["list_shape", [list(variable.shape) for variable in variables]],
            "storage_id": ["list_int", list(range(len(variables)))],
        },
        "metadata": {
            "signatures": {
                "default": {"inputs": _signature(inputs), "outputs": _signature(outputs)}
            }
        },
    }


def _signature(variables: list[Variable]) -> dict[str, object]:
    return {
        variable.name: {"id": index, "dtype": variable.dtype.name, "shape": list(variable.shape)}
        for index, variable in enumerate(variables)
    }


def definition(
    program: Program, core: int, files: dict[str, str], queues: dict[str, dict[str, object]]
) -> dict[str, object]:
    """``sgNN/def.json``.

    Args:
        program: the program.
        core: which subgraph.
        files: member that holds each constant, by the constant's name.
        queues: queue sets of all engines of the core.
    """
    document: dict[str, object] = {"name": "definition"}
    for key, stem in ENGINE_FILES.values():
        document[key] = f"{stem}.json"
        document[f"{key}_instr"] = f"{stem}.bin"
    document["dma_queue"] = queues
    document["var"] = _variables(program, core, files)
    return document


def _variables(program: Program, core: int, files: dict[str, str]) -> dict[str, object]:
    table: dict[str, object] = {}
    for number, variable in enumerate(program.variables.values()):
        if variable.core not in (-1, core):
            continue
        row: dict[str, object] = {
            "type": _TYPES[variable.kind],
            "var_id": number,
            "size": variable.nbytes,
            "ops": [],
        }
        if variable.kind == "scratch":
            row["backing_variable_off"] = variable.offset
        if variable.name in files:
            folder, _, name = files[variable.name].partition("/")
            row["file_name"] = name
            if folder != f"sg{core:02d}":
                row["x_folder"] = folder
        table[variable.name] = row
    target = target_of(program.target)
    chip = {
        "SB": target.partitions * target.sbuf_partition_bytes,
        "PSUM": target.partitions * target.psum_partition_bytes,
    }
    for offset, (name, size) in enumerate(chip.items()):
        table.setdefault(
            name,
            {
                "type": "state-buffer",
                "var_id": len(program.variables) + offset,
                "size": size,
                "ops": [],
            },
        )
    return table


def engine_document(
    program: Program, graph: SubGraph, engine: Engine
) -> tuple[dict[str, object], dict[str, dict[str, object]]]:
    """An engine's JSON and the queue sets that it owns."""
    kinds = {name: variable.kind for name, variable in program.variables.items()}
    steps = graph.engines.get(engine, [])
    transfers = describe_transfers(steps, engine, target_of(program.target), kinds)
    return {"dma": transfers.descriptors}, transfers.queues
