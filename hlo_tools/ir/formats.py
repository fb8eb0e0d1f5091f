"""The file formats that a module is written in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hlo_tools import schema
from hlo_tools.errors import HloError
from hlo_tools.files.compression import SUFFIXES

if TYPE_CHECKING:
    from hlo_tools.ir.module import Module

__all__ = ["FORMATS", "STABLEHLO", "entry_of", "form_of", "render"]

T = TypeVar("T")


def _proto(module: Module) -> bytes:
    return module.module_bytes()


def _hlo(module: Module) -> bytes:
    """An HloProto: the file's own when it is one, else a new one around the module."""
    envelope = module.envelope
    if isinstance(envelope, schema.HloProto):
        return module.to_bytes()
    message = schema.HloProto()
    message.hlo_module.ParseFromString(module.module_bytes())
    return message.SerializeToString(deterministic=True)


def _text(module: Module) -> bytes:
    return (module.to_text().rstrip("\n") + "\n").encode()


def _json(module: Module) -> bytes:
    from google.protobuf import json_format

    text = json_format.MessageToJson(module.whole(), preserving_proto_field_name=True, indent=1)
    return (text + "\n").encode()


def _pbtxt(module: Module) -> bytes:
    from google.protobuf import text_format

    return text_format.MessageToString(module.whole()).encode()


def _stablehlo(task: str) -> Callable[[Module], bytes]:
    def write(module: Module) -> bytes:
        from hlo_tools.ir.stablehlo import from_hlo  # late: starts a process

        return from_hlo(module.module_bytes(), task)

    return write


FORMATS: dict[str, Callable[[Module], bytes]] = {
    "proto": _proto,
    "hlo-proto": _hlo,
    "text": _text,
    "json": _json,
    "pbtxt": _pbtxt,
}
"""Writers of the file formats that store a complete module."""

STABLEHLO: dict[str, Callable[[Module], bytes]] = {
    "stablehlo": _stablehlo("text"),
    "stablehlo-bytecode": _stablehlo("bytecode"),
    "stablehlo-portable": _stablehlo("portable"),
}
"""Writers of StableHLO, through jaxlib: a different module with equal semantics."""


def form_of(target: object) -> str | None:
    """The format that a file's name asks for; None for the message that came in (``.pb``, ``.bin``,
    a name without suffix), or where the target is not a name.

    A suffix that says how the file is compressed is passed over.

    Raises:
        HloError: the suffix is that of no format (HLO-FORMAT).
    """
    if not isinstance(target, (str, Path)):
        return None
    path = Path(target)
    if path.suffix in SUFFIXES:
        path = path.with_suffix("")
    suffix = path.suffix.lower()
    if suffix in _AS_IT_CAME:
        return None
    if suffix not in _BY_SUFFIX:
        raise HloError(
            f"the suffix {suffix} says no format", code="HLO-FORMAT", place=str(target),
            remedy=f"use .pb, {', '.join(_BY_SUFFIX)}, or name the format (--to, form=)",
        )  # fmt: skip
    return _BY_SUFFIX[suffix]


_AS_IT_CAME = frozenset({"", ".pb", ".bin", ".proto"})


_BY_SUFFIX = {
    ".hlo": "text", ".txt": "text", ".json": "json", ".pbtxt": "pbtxt", ".mlir": "stablehlo",
    ".mlirbc": "stablehlo-bytecode", ".stablehlo": "stablehlo-portable",
}  # fmt: skip


def render(module: Module, form: str) -> bytes:
    """The bytes of a file in a format of :data:`FORMATS` or :data:`STABLEHLO`.

    Raises:
        HloError: no such format (HLO-ARGUMENT).
        HloUnsupportedError: the module has a field that this version does not know
            (HLO-UNKNOWN-FIELD).
    """
    write = entry_of({**FORMATS, **STABLEHLO}, form, "format")
    module.require_known_fields()
    return write(module)


def entry_of(table: Mapping[str, T], name: str, what: str) -> T:
    """The entry of a table.

    Args:
        what: what the table has, for the error.

    Raises:
        HloError: it has no such entry (HLO-ARGUMENT).
    """
    if name not in table:
        raise HloError(
            f"{what} {name!r} is not known",
            code="HLO-ARGUMENT",
            remedy=f"use one of {', '.join(table)}",
        )
    return table[name]
