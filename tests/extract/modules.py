"""Small modules made by hand."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from hlo_tools import schema

F32 = 11


def _shape(message, extent: int) -> None:
    message.element_type = F32
    message.dimensions.append(extent)
    message.is_dynamic_dimension.append(False)
    message.layout.minor_to_major.append(0)


def _module(name: str, extent: int):
    module = schema.HloModuleProto(name=name, entry_computation_name="main")
    for _ in range(2):
        _shape(module.host_program_shape.parameters.add(), extent)
    _shape(module.host_program_shape.result, extent)
    return module


def add_module(
    *,
    name: str = "m",
    prefix: str = "",
    first_id: int = 1,
    source: str = "",
    opcode: str = "add",
    extent: int = 4,
    swap: bool = False,
    frontend: str = "",
) -> bytes:
    """``opcode`` of two parameters."""
    module = _module(name, extent)
    if frontend:
        module.frontend_attributes.map["note"] = frontend
    main = module.computations.add(name=f"{prefix}main", id=first_id + 100)
    module.entry_computation_id = main.id
    for position, kind in enumerate(("parameter", "parameter", opcode)):
        inst = main.instructions.add(
            name=f"{prefix}i.{position}", opcode=kind, id=first_id + position
        )
        _shape(inst.shape, extent)
        if kind == "parameter":
            inst.parameter_number = position
        inst.metadata.source_file = source
    operands = [first_id, first_id + 1]
    main.instructions[2].operand_ids.extend(reversed(operands) if swap else operands)
    main.root_id = first_id + 2
    return module.SerializeToString(deterministic=True)


def kernel_module(*paths: Path) -> bytes:
    """Kernel calls in a row, each of a file."""
    module = _module("m", 4)
    main = module.computations.add(name="main", id=9)
    module.entry_computation_id = 9
    for position in range(2):
        inst = main.instructions.add(
            name=f"p{position}", opcode="parameter", id=position + 1, parameter_number=position
        )
        _shape(inst.shape, 4)
    for number, path in enumerate(paths):
        config = {
            "kernel_version": 1,
            "klir_binary": {"binary": str(path), "input_names": ["a", "b"], "output_names": ["c"]},
            "func_name": path.stem,
            "grid": [],
            "has_collectives": False,
        }
        call = main.instructions.add(
            name=f"call.{number}",
            opcode="custom-call",
            id=number + 3,
            custom_call_target="AwsNeuronCustomNativeKernel",
            custom_call_api_version=2,
            backend_config=base64.b64encode(json.dumps(config).encode()),
            operand_ids=[1, 2],
        )
        _shape(call.shape, 4)
        main.root_id = call.id
    return module.SerializeToString(deterministic=True)
