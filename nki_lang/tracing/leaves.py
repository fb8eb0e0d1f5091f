"""A value divided into its leaves, each with the path that leads to it."""

from __future__ import annotations

import array
import collections
import types
import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from nki_lang.tracing.content import Parts, Walk, parts_of

__all__ = ["ALL_HIDDEN", "OWN_HIDDEN", "Leaves", "Path"]

Path = tuple[Any, Hashable]
"""(path of the owner, or None; name, key or number in it)."""

ALL_HIDDEN = -1
"""Limit of a hidden path: everything below the path is hidden too."""

OWN_HIDDEN = 1 << 60
"""Limit of a hidden path: everything below the path counts."""

_ATOM_TYPES = frozenset({type(None), bool, int, str, bytes, float, complex, type(...)})


class Leaves(Walk):
    """A walk that keeps what belongs to each path apart.

    Attributes:
        leaves: by path, the content of the value there without that of its elements.
        undivided: paths of values that are not divided, such as an array.

    Args:
        hidden: paths whose own content does not count; with each :data:`ALL_HIDDEN`, :data:`OWN_HIDDEN`, or how
            many elements of a list count.
    """

    __slots__ = ("_count", "_hidden", "_label", "_limit", "_path", "_places", "leaves", "undivided")

    def __init__(self, hidden: Mapping[Path, int] | None = None) -> None:
        super().__init__()
        self.leaves: dict[Path, Parts] = {}
        self.undivided: set[Path] = set()
        self._hidden: Mapping[Path, int] = hidden or {}
        self._places: dict[int, Path] = {}
        self._path: Path | None = None
        self._label: Hashable = None
        self._count = 0
        self._limit: int | None = None

    def entry(self, label: Hashable, value: object, depth: int) -> None:
        self._label = label
        self.value(value, depth)

    def value(self, value: object, depth: int) -> None:
        label, self._label = self._label, None
        if label is None:
            label, self._count = self._count, self._count + 1
            if self._limit is not None and self._count > self._limit:
                return
        path: Path = (self._path, label)
        while path in self.leaves:  # a global and an attribute of one name
            path = (self._path, (path[1], 0))
        self.leaves[path] = ()
        limit = self._hidden.get(path)
        if limit != ALL_HIDDEN:
            parts = self._own_parts(path, value, depth, limit)
            self.leaves[path] = parts if limit is None else ()

    def _own_parts(self, path: Path, value: object, depth: int, limit: int | None) -> Parts:
        if type(value) not in _ATOM_TYPES:
            first = self._places.setdefault(id(value), path)
            if first != path:
                return ("again", first)
        outer = self.parts, self._path, self._count, self._limit
        self.parts, self._path, self._count, self._limit = [], path, 0, limit
        super().value(value, depth)
        parts_of_value = tuple(self.parts)
        self.parts, self._path, self._count, self._limit = outer
        return parts_of_value

    def is_whole(self, path: Path | None) -> bool:
        """Return True if the value at the path, or a value that contains it, is not divided."""
        while path is not None and path not in self.undivided:
            path = path[0]
        return path is not None

    def _mark_undivided(self) -> None:
        if self._path is not None:
            self.undivided.add(self._path)

    # -- what is divided in another way than it is compared -----------------------------------

    def _sequence(self, value: Iterable[object], depth: int) -> None:
        super()._sequence(value, depth)
        self.parts.append(getattr(value, "maxlen", None))

    def _set(self, value: Any, depth: int) -> None:
        labels = tuple(parts_of(item, strict=True) for item in value)
        self.parts += (type(value).__name__, labels)
        for label in labels:
            self.entry(("item", label), None, depth)

    def _mapping(self, value: Mapping[Any, object], depth: int) -> None:
        labels = [key if type(key) is str else parts_of(key) for key in value]
        self.parts += (type(value).__name__, tuple(labels))
        for label, item in zip(labels, value.values(), strict=True):
            self.entry(label, item, depth)

    def _default_dict(self, value: collections.defaultdict[Any, Any], depth: int) -> None:
        self.entry("default_factory", value.default_factory, depth)
        self._mapping(value, depth)

    def _namespace(self, value: types.SimpleNamespace, depth: int) -> None:
        self._mapping(vars(value), depth)

    def _bytes(self, value: Any, depth: int) -> None:
        super()._bytes(value, depth)
        if len(value) != 1:
            self._mark_undivided()

    def _array(self, value: Any, depth: int) -> None:
        super()._array(value, depth)
        if value.size != 1:
            self._mark_undivided()

    def _reduced(self, value: object, depth: int) -> None:
        self._mark_undivided()
        super()._reduced(value, depth)

    _METHODS: ClassVar[dict[type, Callable[[Any, Any, int], None]]] = {
        **Walk._METHODS,
        **dict.fromkeys((tuple, list, collections.deque), _sequence),
        **dict.fromkeys((set, frozenset), _set),
        **dict.fromkeys(
            (dict, types.MappingProxyType, collections.OrderedDict, collections.Counter), _mapping
        ),
        **dict.fromkeys((bytearray, memoryview, array.array), _bytes),
        np.ndarray: _array,
        collections.defaultdict: _default_dict,
        types.SimpleNamespace: _namespace,
        weakref.WeakKeyDictionary: lambda self, value, depth: self._mapping(dict(value), depth),
    }
