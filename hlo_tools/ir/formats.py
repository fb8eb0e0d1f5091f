"""Forms that other readers need: id schemes, older dialects, other file formats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hlo_tools import schema
from hlo_tools.errors import HloError
from hlo_tools.files.compression import SUFFIXES
from hlo_tools.ir.module import Module
from hlo_tools.types.ids import LOCAL_MASK, wide
from hlo_tools.types.replica_groups import replica_groups_of
from hlo_tools.types.source_frames import frames_of

__all__ = ["DIALECTS", "FORMATS", "form_of", "render", "set_ids", "to_dialect", "whole"]

SCHEMES = ("wide", "legacy")


def set_ids(module: Module, scheme: str) -> None:
    """Number all instructions anew, densely, in the file's order.

    ``"legacy"`` gives small numbers that are unique in the module; jaxlib before 0.6 and compilers
    built from XLA before mid-2025 take no other (they refuse ids over 2^31 - 1). ``"wide"`` gives
    ``computation id << 32 | number``, as XLA writes since 2025-09. References, schedules and the
    buffers of an HloProto follow.

    Raises:
        HloError: another scheme (HLO-ARGUMENT).
        HloFileError: a reference names no instruction (HLO-REFERENCE).
    """
    if scheme not in SCHEMES:
        raise HloError(
            f"id scheme {scheme!r} is not known", code="HLO-ARGUMENT", remedy="use wide or legacy"
        )
    proto = module.proto
    numbers = _new_numbers(proto, scheme)
    for computation in proto.computations:
        _renumber(computation, numbers[computation.id], module.name)
    for computation_id, sequence in proto.schedule.sequences.items():
        table = numbers.get(computation_id, {})
        ids = [table[i & LOCAL_MASK] for i in sequence.instruction_ids if i & LOCAL_MASK in table]
        del sequence.instruction_ids[:]
        sequence.instruction_ids.extend(ids)
    _renumber_buffers(module, numbers)
    module._kept = {
        (computation, numbers[computation][local] & LOCAL_MASK): kept
        for (computation, local), kept in module._kept.items()
    }
    module.touch()


def _new_numbers(proto: Any, scheme: str) -> dict[int, dict[int, int]]:
    """For each computation id: new ids by old local ids."""
    numbers: dict[int, dict[int, int]] = {}
    following = 1
    for computation in proto.computations:
        table = numbers[computation.id] = {}
        for place, instruction in enumerate(computation.instructions):
            new = wide(computation.id, place) if scheme == "wide" else following + place
            table[instruction.id & LOCAL_MASK] = new
        following += len(computation.instructions)
    return numbers


def _renumber(computation: Any, table: dict[int, int], module_name: str) -> None:
    try:
        for instruction in computation.instructions:
            instruction.id = table[instruction.id & LOCAL_MASK]
            for references in (instruction.operand_ids, instruction.control_predecessor_ids):
                if references:
                    references[:] = [table[i & LOCAL_MASK] for i in references]
        computation.root_id = table[computation.root_id & LOCAL_MASK]
    except KeyError as error:
        raise HloError(
            f"computation %{computation.name} of {module_name} refers to an instruction "
            f"{error.args[0]} that it does not have",
            code="HLO-REFERENCE",
            remedy="the module is damaged; nki-hlo verify tells all that is wrong",
        ) from None


def _renumber_buffers(module: Module, numbers: dict[int, dict[int, int]]) -> None:
    """Logical buffers name instructions by wide id; a legacy id tells no computation and stays."""
    envelope = module.envelope
    hlo = getattr(envelope, "hlo", envelope)
    if envelope is None or not hasattr(hlo, "buffer_assignment"):
        return
    for buffer in hlo.buffer_assignment.logical_buffers:
        place = buffer.defined_at
        new = numbers.get(place.instruction_id >> 32, {}).get(place.instruction_id & LOCAL_MASK)
        if new is not None:
            place.instruction_id = new


def _dialect_2024(module: Module) -> None:
    """Small ids, source lines in each instruction, replica groups as lists, own payloads."""
    proto = module.proto
    for view in list(module.instructions):
        instruction = view.proto
        if instruction.HasField("metadata"):
            _inline_source(view, proto.stack_frame_index)
        if instruction.HasField("backend_config_payload"):
            config = view.backend_config
            instruction.ClearField("backend_config_payload")
            instruction.backend_config = config
        _list_replica_groups(instruction)
    proto.ClearField("stack_frame_index")
    del proto.payloads[:]
    set_ids(module, "legacy")


def _inline_source(view: Any, index: Any) -> None:
    metadata = view.metadata
    frames = frames_of(metadata, index)
    if metadata is not view.proto.metadata:
        view.proto.metadata.CopyFrom(metadata)
    target = view.proto.metadata
    target.ClearField("stack_frame_id")
    if frames:
        target.source_file, target.source_line = frames[0].file, frames[0].line


def _list_replica_groups(instruction: Any) -> None:
    """Explicit groups under their old number, besides whatever form they have."""
    if not instruction.replica_groups:
        for group in replica_groups_of(instruction):
            instruction.replica_groups.add(replica_ids=group)


DIALECTS: dict[str, Callable[[Module], None]] = {"2024": _dialect_2024}
"""What turns a module into the form that readers of a year take."""


def to_dialect(module: Module, dialect: str) -> None:
    """Rewrite a module for older readers.

    Raises:
        HloError: no such dialect (HLO-ARGUMENT).
    """
    rewrite = DIALECTS.get(dialect)
    if rewrite is None:
        raise HloError(
            f"dialect {dialect!r} is not known",
            code="HLO-ARGUMENT",
            remedy=f"use one of {', '.join(DIALECTS)}",
        )
    rewrite(module)


# File formats


def _proto(module: Module) -> bytes:
    return module.module_bytes()


def _hlo(module: Module) -> bytes:
    """An HloProto: the file's own when it is one, else a new one around the module."""
    envelope = module.envelope
    if envelope is not None and envelope.DESCRIPTOR.name == "HloProto":
        return module.to_bytes()
    message = schema.message("HloProto")()
    message.hlo_module.ParseFromString(module.module_bytes())
    return message.SerializeToString(deterministic=True)


def _text(module: Module) -> bytes:
    from hlo_tools.text import print_module

    return (print_module(module).rstrip("\n") + "\n").encode()


def _json(module: Module) -> bytes:
    from google.protobuf import json_format

    options = {"preserving_proto_field_name": True, "indent": 1}
    return (json_format.MessageToJson(whole(module), **options) + "\n").encode()


def _pbtxt(module: Module) -> bytes:
    from google.protobuf import text_format

    return text_format.MessageToString(whole(module)).encode()


def whole(module: Module) -> Any:
    """The message with every constant in it, also those that were left in the file."""
    if not module.has_kept_constants:
        return module.proto
    return schema.message("HloModuleProto").FromString(module.module_bytes())


FORMATS: dict[str, Callable[[Module], bytes]] = {
    "proto": _proto,
    "hlo-proto": _hlo,
    "text": _text,
    "json": _json,
    "pbtxt": _pbtxt,
}
"""What writes a module in each file format."""


def form_of(target: Any) -> str | None:
    """The format that a file's name asks for; None where it asks for none, or is no name.

    A suffix that says how the file is compressed is passed over.
    """
    if not isinstance(target, (str, Path)):
        return None
    path = Path(target)
    if path.suffix in SUFFIXES:
        path = path.with_suffix("")
    return _BY_SUFFIX.get(path.suffix.lower())


_BY_SUFFIX = {".hlo": "text", ".txt": "text", ".json": "json", ".pbtxt": "pbtxt"}


def render(module: Module, form: str) -> bytes:
    """The bytes of a file in a format of :data:`FORMATS`.

    Raises:
        HloError: no such format (HLO-ARGUMENT).
    """
    write = FORMATS.get(form)
    if write is None:
        raise HloError(
            f"format {form!r} is not known",
            code="HLO-ARGUMENT",
            remedy=f"use one of {', '.join(FORMATS)}",
        )
    return write(module)
