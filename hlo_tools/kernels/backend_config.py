"""The ``backend_config`` of a kernel's custom call: base64 of a JSON record, read and written.

Key order and spacing are those of the vendor's page on framework custom operators (its printed
module decodes and encodes to the same characters).
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hlo_tools.errors import HloError

__all__ = ["BackendConfig", "decode", "decode_backend_config", "encode"]

LARGEST = 64 << 20
"""Characters that a configuration may have."""

_KNOWN = ("kernel_version", "klir_binary", "func_name", "grid", "has_collectives")
_KNOWN_BINARY = ("binary", "input_names", "output_names")


@dataclass(frozen=True, slots=True)
class BackendConfig:
    """What a custom call says about its kernel.

    Attributes:
        binary: path of the kernel file, absolute or relative to the module's folder.
        input_names: the kernel's name of each operand, constants included, in operand order.
        output_names: the kernel's name of each result, in order.
        func_name: the kernel's function.
        grid: the launch grid; empty when launched without one.
        has_collectives: whether the kernel communicates with other devices.
        kernel_version: 1 in every configuration seen.
        extra: further keys of the record, written again after the known ones.
        extra_binary: further keys of its ``klir_binary``.
    """

    binary: str
    input_names: Sequence[str]
    output_names: Sequence[str]
    func_name: str
    grid: Sequence[int] = ()
    has_collectives: bool = False
    kernel_version: int = 1
    extra: Mapping[str, Any] = field(default_factory=dict)
    extra_binary: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("input_names", "output_names", "grid"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    def as_dict(self) -> dict[str, Any]:
        """The JSON record, keys in the order in which they are written."""
        return {
            "kernel_version": self.kernel_version,
            "klir_binary": {
                "binary": self.binary,
                "input_names": list(self.input_names),
                "output_names": list(self.output_names),
                **self.extra_binary,
            },
            "func_name": self.func_name,
            "grid": list(self.grid),
            "has_collectives": self.has_collectives,
            **self.extra,
        }


def encode(config: BackendConfig) -> str:
    """The configuration as it stands in HLO."""
    return base64.b64encode(json.dumps(config.as_dict()).encode()).decode("ascii")


def decode(text: str | bytes) -> BackendConfig:
    """The configuration in a custom call.

    Raises:
        HloError: code ``HLO-CONFIG``: no base64, no JSON, a key missing or of a wrong type; the
            key is named.
    """
    record = decode_backend_config(text)
    binary = _get(record, "klir_binary", dict, "")
    return BackendConfig(
        binary=_get(binary, "binary", str, "klir_binary."),
        input_names=_list(binary, "input_names", str, "klir_binary."),
        output_names=_list(binary, "output_names", str, "klir_binary."),
        func_name=_get(record, "func_name", str, ""),
        grid=_list(record, "grid", int, ""),
        has_collectives=_get(record, "has_collectives", bool, ""),
        kernel_version=_get(record, "kernel_version", int, ""),
        extra={key: value for key, value in record.items() if key not in _KNOWN},
        extra_binary={key: value for key, value in binary.items() if key not in _KNOWN_BINARY},
    )


def decode_backend_config(text: str | bytes) -> dict[str, Any]:
    """The JSON record itself, whatever keys it has.

    Raises:
        HloError: code ``HLO-CONFIG``: no base64, or no JSON object.
    """
    if len(text) > LARGEST:
        raise _wrong(f"it has {len(text)} characters, more than {LARGEST}")
    if not text:
        raise _wrong("it is empty")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _wrong(f"it is not base64: {error}") from None
    try:
        record = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _wrong(f"its base64 does not contain JSON: {error}") from None
    if not isinstance(record, dict):
        raise _wrong(f"its JSON is {type(record).__name__}, not an object")
    return record


_WORDS = {str: "a string", int: "an integer", bool: "true or false", dict: "an object"}


def _get(record: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    if key not in record:
        raise _wrong(f"the key {where}{key} is missing")
    value = record[key]
    if not _is(value, kind):
        raise _wrong(f"{where}{key} is {value!r:.60}, not {_WORDS[kind]}")
    return value


def _list(record: Mapping[str, Any], key: str, kind: type, where: str) -> list[Any]:
    if key not in record:
        raise _wrong(f"the key {where}{key} is missing")
    values = record[key]
    if not isinstance(values, list):
        raise _wrong(f"{where}{key} is {values!r:.60}, not a list")
    for number, value in enumerate(values):
        if not _is(value, kind):
            raise _wrong(f"{where}{key}[{number}] is {value!r:.60}, not {_WORDS[kind]}")
    return values


def _is(value: Any, kind: type) -> bool:
    """``isinstance`` in which true and false are no integers."""
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def _wrong(reason: str) -> HloError:
    return HloError(
        f"the backend_config of a kernel call cannot be used: {reason}",
        code="HLO-CONFIG",
        remedy="it must be base64 of a JSON object with kernel_version, klir_binary "
        "{binary, input_names, output_names}, func_name, grid, has_collectives",
    )
