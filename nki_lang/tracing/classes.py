"""Classes and the content of their objects: user classes, attributes, slots."""

from __future__ import annotations

import functools
import sys
import types

from nki_lang.tracing.code_reads import is_opaque_package

__all__ = [
    "CLASS_PLUMBING",
    "HEAP_TYPE",
    "PICKLING",
    "attributes_of",
    "is_plumbing",
    "is_user_class",
    "layout_of",
]

HEAP_TYPE = 1 << 9


def attributes_of(value: object) -> dict[str, object] | None:
    """The attributes that an object holds, None when it cannot have any; its ``__getattr__`` is not asked, it may raise what it likes."""
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None


PICKLING = frozenset({"__reduce__", "__reduce_ex__", "__getnewargs__", "__getstate__"})


CLASS_PLUMBING = frozenset(
    {
        "__dict__", "__weakref__", "__module__", "__doc__", "__annotations__", "__qualname__",
        "__annotate__", "__annotate_func__", "__annotations_cache__", "__firstlineno__",
        "__static_attributes__", "__dataclass_fields__", "__dataclass_params__",
        "__abstractmethods__", "_abc_impl", "__orig_bases__", "__parameters__",
        "__type_params__", "_member_map_", "_value2member_map_", "_generate_next_value_",
        "_new_member_", "_member_type_", "_use_args_", "_value_repr_",
    }
)  # fmt: skip


def is_plumbing(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


@functools.lru_cache(maxsize=4096)
def layout_of(kind: type) -> tuple[tuple[str, ...], type | None]:
    """Slots of a class and its bases; the base that holds more than attributes, if any."""
    slots: list[str] = []
    content_base: type | None = None
    for base in kind.__mro__:
        for name, member in vars(base).items():
            if isinstance(member, types.MemberDescriptorType) and not is_plumbing(name):
                slots.append(name)
        if base is object or is_user_class(base):
            continue
        if base.__flags__ & HEAP_TYPE == 0 or not PICKLING.isdisjoint(vars(base)):
            content_base = content_base or base
    return tuple(slots), content_base


@functools.lru_cache(maxsize=8192)
def is_user_class(kind: type) -> bool:
    """True for classes of no package that is known by name alone.

    ``dataclasses.make_dataclass`` and ``types.new_class`` say that they come from ``types``.
    """
    if not is_opaque_package(kind.__module__):
        return True
    object_of_name = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        object_of_name = getattr(object_of_name, name, None)
    return object_of_name is not kind and kind.__module__ == "types"
