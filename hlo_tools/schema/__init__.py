"""The message classes of HLO, in a descriptor pool of their own.

``schema.HloModuleProto`` and every other message and enum of ``proto/`` are attributes of this
module, made on first use; so are the values of top-level enums (``schema.F32``). The pool is
private, so another package's ``hlo_pb2`` in the same process (TensorFlow's, nkipy's, a vendor's)
neither disturbs ours nor is disturbed by it. ``messages.pyi`` has the classes for type checkers;
there is no such module at run time, so import it under ``TYPE_CHECKING`` only.
"""

from __future__ import annotations

import threading
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
    from google.protobuf.message import Message

    from hlo_tools.schema.messages import *  # noqa: F403

__all__ = ["enum", "enum_values", "message", "names", "pool"]

PACKAGE = "xla"


_making = threading.Lock()


def pool() -> DescriptorPool:
    """The private descriptor pool with HLO's files in it."""
    with _making:  # two threads must not get two pools: classes of one are not those of the other
        return _pool()


@cache
def _pool() -> DescriptorPool:
    from google.protobuf import descriptor_pb2, descriptor_pool

    data = files(__name__).joinpath("descriptors.binpb").read_bytes()
    private = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
        private.AddSerializedFile(file.SerializeToString())
    return private


@cache
def message(name: str) -> type[Message]:
    """The class of a message: ``"HloModuleProto"``, ``"HloModuleProto.ProfileInfo"``.

    Raises:
        KeyError: the schema has no such message.
    """
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(pool().FindMessageTypeByName(f"{PACKAGE}.{name}"))


@cache
def enum(name: str) -> EnumTypeWrapper:
    """The wrapper of an enum, with ``Name(number)``, ``Value(name)`` and the values by name.

    Raises:
        KeyError: the schema has no such enum.
    """
    from google.protobuf.internal import enum_type_wrapper

    return enum_type_wrapper.EnumTypeWrapper(pool().FindEnumTypeByName(f"{PACKAGE}.{name}"))


@cache
def names() -> tuple[str, ...]:
    """Names of all top-level messages and enums, in the order of their files."""
    all_names: list[str] = []
    for file in ("xla_data.proto", "metrics.proto", "hlo.proto"):
        descriptor = pool().FindFileByName(file)
        all_names += list(descriptor.message_types_by_name) + list(descriptor.enum_types_by_name)
    return tuple(all_names)


@cache
def enum_values() -> dict[str, int]:
    """Values of all top-level enums by name, as modules that protoc generates have them."""
    values: dict[str, int] = {}
    for name in names():
        try:
            values.update(enum(name).items())
        except KeyError:
            continue
    return values


if not TYPE_CHECKING:  # a type checker reports names that are not in messages.pyi

    def __getattr__(name: str) -> object:
        definition = None if name.startswith("_") else _find(name)
        if definition is None:
            raise AttributeError(f"HLO's schema has no message or enum {name!r}")
        globals()[name] = definition
        return definition


def _find(name: str) -> object:
    for find in (message, enum):
        try:
            return find(name)
        except KeyError:
            continue
    return enum_values().get(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
