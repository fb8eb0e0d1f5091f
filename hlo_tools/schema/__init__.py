"""The message classes of HLO, in a descriptor pool of their own.

``schema.HloModuleProto`` and every other message and enum of ``proto/`` are attributes of this
module, made when first asked for; so are the values of top-level enums (``schema.F32``). The pool is private, so another package's ``hlo_pb2`` in the
same process (TensorFlow's, nkipy's, a vendor's) neither disturbs ours nor is disturbed by it.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["enum", "enum_values", "message", "names", "pool"]

PACKAGE = "xla"


@cache
def pool() -> Any:
    """The private descriptor pool with HLO's files in it."""
    from google.protobuf import descriptor_pb2, descriptor_pool

    data = files(__name__).joinpath("descriptors.binpb").read_bytes()
    private = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
        private.AddSerializedFile(file.SerializeToString())
    return private


@cache
def message(name: str) -> Any:
    """The class of a message: ``"HloModuleProto"``, ``"HloModuleProto.ProfileInfo"``.

    Raises:
        KeyError: the schema has no such message.
    """
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(pool().FindMessageTypeByName(f"{PACKAGE}.{name}"))


@cache
def enum(name: str) -> Any:
    """The wrapper of an enum, with ``Name(number)``, ``Value(name)`` and the values by name.

    Raises:
        KeyError: the schema has no such enum.
    """
    from google.protobuf.internal import enum_type_wrapper

    return enum_type_wrapper.EnumTypeWrapper(pool().FindEnumTypeByName(f"{PACKAGE}.{name}"))


@cache
def names() -> tuple[str, ...]:
    """Names of all top-level messages and enums, in the order of their files."""
    found: list[str] = []
    for file in ("xla_data.proto", "metrics.proto", "hlo.proto"):
        descriptor = pool().FindFileByName(file)
        found += list(descriptor.message_types_by_name) + list(descriptor.enum_types_by_name)
    return tuple(found)


@cache
def enum_values() -> dict[str, int]:
    """Values of all top-level enums by name, as modules that protoc generates have them."""
    found: dict[str, int] = {}
    for name in names():
        try:
            found.update(enum(name).items())
        except KeyError:
            continue
    return found


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    for find in (message, enum):
        try:
            return find(name)
        except KeyError:
            continue
    if name in enum_values():
        return enum_values()[name]
    raise AttributeError(f"HLO's schema has no message or enum {name!r}")
