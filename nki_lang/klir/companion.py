"""The companion record of a kernel file: everything in our IR that KLIR cannot express.

It is a JSON object, described field by field in ``docs/klir.md``, with sorted keys and without
white space, so that equal kernels give equal bytes. An operand is JSON where JSON has the value,
else an object with one key, the kind of the value.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, TypeGuard, cast

from nki_lang.base.dtypes import BY_NAME, DType
from nki_lang.base.errors import NkiFileError, NkiValidationError
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.unknown_fields import UPDATE
from nki_lang.ir.types import Access, Engine, Register, Tensor, is_group

__all__ = ["FORMAT", "PRIVATE_OPCODE", "VERSION", "dumps", "engine_named", "loads", "operand_from_json", "operand_to_json", "tensor_from_json", "tensor_to_json"]  # fmt: skip

FORMAT = "nki-lang kernel companion"
VERSION = 1
_MAX_NESTING = 64

PRIVATE_OPCODE = 0x4E4B4900
"""``ExtendedInst.opcode`` of an instruction that only the companion record contains ("NKI\\0")."""


def dumps(record: dict[str, object]) -> bytes:
    """Return the bytes of a record."""
    complete = {"format": FORMAT, "version": VERSION} | record
    text = json.dumps(
        complete, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode() + b"\n"


def _damaged(message: str) -> NkiFileError:
    return NkiFileError(
        f"the companion record is damaged: {message}",
        code="NKI-FILE-COMPANION",
        remedy="write the kernel again; without its companion the file can be read as a plain "
        "KLIR file, which loses the content of the companion",
    )


def is_record(value: object) -> TypeGuard[dict[str, Any]]:
    """Return True for a JSON object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Return True for a JSON list."""
    return isinstance(value, list)


def loads(data: bytes) -> dict[str, Any]:
    """Return the record in ``data``.

    Raises:
        NkiFileError: the data is no companion record, or has a newer version.
    """
    try:
        record: object = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise _damaged(str(error)) from None
    if not is_record(record) or record.get("format") != FORMAT:
        raise _damaged(f"it is not marked as a {FORMAT!r}")
    if record.get("version") != VERSION:
        raise NkiFileError(
            f"the companion record has version {record.get('version')!r}, this reader reads {VERSION}",
            code="NKI-FILE-VERSION",
            remedy=f"{UPDATE}, or write the kernel again with this version",
        )
    return record


def tensor_to_json(tensor: Tensor) -> dict[str, Any]:
    """Return all attributes of a tensor except its name."""
    return {
        "dtype": tensor.dtype.name,
        "shape": list(tensor.shape),
        "buffer": tensor.buffer.value,
        "address": None if tensor.address is None else list(tensor.address),
        "fixed": tensor.fixed,
    }


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 48


def tensor_from_json(name: str, record: dict[str, Any], declared: Tensor | None) -> Tensor:
    """Return the tensor of a record, or ``declared`` with the changes of the record.

    Raises:
        NkiFileError: the record is incomplete or contradictory.
    """
    if declared is not None:
        record = tensor_to_json(declared) | record
    try:
        shape, address = record["shape"], record["address"]
        if not all(map(_is_count, shape)) or not isinstance(record["fixed"], bool):
            raise ValueError
        if address is not None and (len(address) != 2 or not all(map(_is_count, address))):
            raise ValueError
        return Tensor(
            name, BY_NAME[record["dtype"]], tuple(shape), MemoryRegion(record["buffer"]),
            None if address is None else (address[0], address[1]), record["fixed"],
        )  # fmt: skip
    except (KeyError, TypeError, ValueError):
        raise _damaged(f"the tensor {name!r} is described as {record!r}") from None


def operand_to_json(value: object, use: Callable[[Tensor], str]) -> Any:
    """Return an operand as JSON.

    Args:
        value: the operand.
        use: receives each tensor and returns the name that refers to it.

    Raises:
        NkiValidationError: the value is no operand.
    """
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if is_group(value):
        return [operand_to_json(entry, use) for entry in value]
    if kind is list:
        return {"list": [operand_to_json(entry, use) for entry in cast("list[object]", value)]}
    if kind is dict:
        pairs = cast("dict[object, object]", value).items()
        return {
            "dict": [
                [operand_to_json(key, use), operand_to_json(entry, use)] for key, entry in pairs
            ]
        }
    if type(value) is Access:
        fields = [operand_to_json(entry, use) for entry in value[1:]]
        return {"access": [use(value.tensor), *fields]}
    if type(value) is Register:
        return {"register": value.name}
    if type(value) is DType:
        return {"dtype": value.name}
    if isinstance(value, (MemoryRegion, Engine)):
        return {type(value).__name__: value.name}
    raise NkiValidationError(
        f"{value!r} ({kind.__name__}) cannot be written into a kernel file",
        code="NKI-KLIR-OPERAND",
        remedy="operands and metadata are tensors, registers, numbers, strings, None, dtypes, "
        "or tuples, lists and dicts of these",
    )


def engine_named(name: Any) -> Engine:
    """Return the engine called ``name``."""
    try:
        return Engine[name]
    except (KeyError, TypeError):
        raise _damaged(f"there is no engine {name!r}") from None


def _access(fields: object, tensor: Callable[[str], Tensor], depth: int) -> Access:
    if not is_list(fields) or len(fields) != 8 or not isinstance(fields[0], str):
        raise _damaged("an access has another number of parts")
    values: list[Any] = [_operand(field, tensor, depth) for field in fields[1:]]
    offset, pattern, scalar, vector, dim, dtype, step = values
    pairs_fit = is_group(pattern) and all(
        is_group(pair) and len(pair) == 2 and all(type(number) is int for number in pair)
        for pair in pattern
    )
    kinds_fit = (
        type(offset) is int
        and type(dim) is int
        and isinstance(scalar, (Register, Access, type(None)))
        and isinstance(vector, (Access, type(None)))
        and isinstance(dtype, (DType, type(None)))
        and isinstance(step, (int, type(None)))
    )
    if not pairs_fit or not kinds_fit:
        raise _damaged("an access is made of the wrong values")
    return Access(tensor(fields[0]), offset, pattern, scalar, vector, dim, dtype, step)


def _operand(value: object, tensor: Callable[[str], Tensor], depth: int) -> Any:
    if depth > _MAX_NESTING:
        raise _damaged(f"values hold each other more than {_MAX_NESTING} deep")
    if is_list(value):
        return tuple([_operand(entry, tensor, depth + 1) for entry in value])
    if not is_record(value):
        return value
    if len(value) != 1 or not value.keys() <= _KINDS.keys():
        raise NkiFileError(
            f"the companion record has an operand with the keys {sorted(value)}; this version "
            f"knows operands of one key: {', '.join(_KINDS)}",
            code="NKI-FILE-UNKNOWN-FIELD",
            remedy=f"{UPDATE}, or write the kernel again",
        )
    ((kind, inner),) = value.items()
    try:
        return _KINDS[kind](inner, tensor, depth + 1)
    except (KeyError, TypeError, ValueError):
        raise _damaged(f"there is no operand {kind} of {str(inner)[:60]}") from None


_KINDS: dict[str, Callable[[Any, Callable[[str], Tensor], int], Any]] = {
    "float": lambda inner, tensor, depth: float(inner),
    "list": lambda inner, tensor, depth: [_operand(entry, tensor, depth) for entry in inner],
    "dict": lambda inner, tensor, depth: {
        _operand(key, tensor, depth): _operand(entry, tensor, depth) for key, entry in inner
    },
    "access": _access,
    "register": lambda inner, tensor, depth: Register(str(inner)),
    "dtype": lambda inner, tensor, depth: BY_NAME[inner],
    "MemoryRegion": lambda inner, tensor, depth: MemoryRegion[inner],
    "Engine": lambda inner, tensor, depth: Engine[inner],
}


def operand_from_json(value: object, tensor: Callable[[str], Tensor]) -> Any:
    """Return the operand of its JSON form; ``tensor`` returns a tensor by its name.

    Raises:
        NkiFileError: the record is damaged.
    """
    return _operand(value, tensor, 0)
