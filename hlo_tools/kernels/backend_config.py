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
from typing import TypeVar, cast

from hlo_tools.errors import HloError, HloUnsupportedError
from nki_lang.base.unknown_fields import REMEDY, unknown_fields_are_allowed

__all__ = ["EMBEDDED", "BackendConfig", "decode", "decode_backend_config", "encode", "require_known_config"]  # fmt: skip

EMBEDDED = "nki_hlo_embedded"
"""Key of ``klir_binary`` with the kernel's files, where the module contains them."""
KERNEL_VERSION = 1
"""The only version seen."""

MAX_CONFIG_CHARACTERS = 64 << 20
"""A longer configuration is refused before it is decoded."""

_RECORD_KEYS = ("kernel_version", "klir_binary", "func_name", "grid", "has_collectives")
_BINARY_KEYS = ("binary", "input_names", "output_names")


@dataclass(frozen=True, slots=True)
class BackendConfig:
    """The kernel of a custom call, and how it is called.

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
    extra: Mapping[str, object] = field(default_factory=dict[str, object])
    extra_binary: Mapping[str, object] = field(default_factory=dict[str, object])

    def __post_init__(self) -> None:
        for name in ("input_names", "output_names", "grid"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    def as_dict(self) -> dict[str, object]:
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
    """The configuration as HLO has it."""
    return base64.b64encode(json.dumps(config.as_dict()).encode()).decode("ascii")


def decode(text: str | bytes) -> BackendConfig:
    """The configuration in a custom call.

    Raises:
        HloError: code ``HLO-CONFIG``: no base64, no JSON, a key missing or of a wrong type; the
            key is named.
    """
    record = decode_backend_config(text)
    binary: dict[str, object] = _get(record, "klir_binary", dict, "")
    return BackendConfig(
        binary=_get(binary, "binary", str, "klir_binary."),
        input_names=_list(binary, "input_names", str, "klir_binary."),
        output_names=_list(binary, "output_names", str, "klir_binary."),
        func_name=_get(record, "func_name", str, ""),
        grid=_list(record, "grid", int, ""),
        has_collectives=_get(record, "has_collectives", bool, ""),
        kernel_version=_get(record, "kernel_version", int, ""),
        extra={key: value for key, value in record.items() if key not in _RECORD_KEYS},
        extra_binary={key: value for key, value in binary.items() if key not in _BINARY_KEYS},
    )


def require_known_config(config: BackendConfig) -> None:
    """Refuse a configuration with a version or a key that this version does not know.

    Whatever executes, builds or expands a kernel calls it; decoding and encoding keep all keys.

    Raises:
        HloUnsupportedError: code ``HLO-UNKNOWN-FIELD``.
    """
    keys = [
        *config.extra,
        *(f"klir_binary.{key}" for key in config.extra_binary if key != EMBEDDED),
    ]
    if (not keys and config.kernel_version == KERNEL_VERSION) or unknown_fields_are_allowed():
        return
    entry = f"the key {keys[0]:.80}" if keys else f"kernel_version {config.kernel_version}"
    raise HloUnsupportedError(
        f"the backend_config of kernel {config.func_name} has {entry}, which this version does not "
        "know; what it says would be ignored",
        code="HLO-UNKNOWN-FIELD",
        remedy=REMEDY,
    )


def decode_backend_config(text: str | bytes) -> dict[str, object]:
    """The JSON record itself, whatever keys it has.

    Raises:
        HloError: code ``HLO-CONFIG``: no base64, or no JSON object.
    """
    if len(text) > MAX_CONFIG_CHARACTERS:
        raise _wrong(f"it has {len(text)} characters, more than {MAX_CONFIG_CHARACTERS}")
    if not text:
        raise _wrong("it is empty")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _wrong(f"it is not base64: {error}") from None
    try:
        record: object = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _wrong(f"its base64 does not contain JSON: {error}") from None
    if not isinstance(record, dict):
        raise _wrong(f"its JSON is {type(record).__name__}, not an object")
    return cast(dict[str, object], record)


_TYPE_NAMES: dict[type, str] = {
    str: "a string", int: "an integer", bool: "true or false", dict: "an object"
}  # fmt: skip
T = TypeVar("T", str, int, bool, dict[str, object])


def _get(record: Mapping[str, object], key: str, kind: type[T], where: str) -> T:
    if key not in record:
        raise _wrong(f"the key {where}{key} is missing")
    return _checked(record[key], kind, f"{where}{key}")


def _list(record: Mapping[str, object], key: str, kind: type[T], where: str) -> list[T]:
    if key not in record:
        raise _wrong(f"the key {where}{key} is missing")
    values = record[key]
    if not isinstance(values, list):
        raise _wrong(f"{where}{key} is {values!r:.60}, not a list")
    return [
        _checked(value, kind, f"{where}{key}[{number}]")
        for number, value in enumerate(cast(list[object], values))
    ]


def _checked(value: object, kind: type[T], where: str) -> T:
    """The value, if it is of a type; true and false are not integers."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _wrong(f"{where} is {value!r:.60}, not {_TYPE_NAMES[kind]}")
    return value


def _wrong(reason: str) -> HloError:
    return HloError(
        f"the backend_config of a kernel call cannot be used: {reason}",
        code="HLO-CONFIG",
        remedy="it must be base64 of a JSON object with kernel_version, klir_binary "
        "{binary, input_names, output_names}, func_name, grid, has_collectives",
    )
