"""Changes that a kernel makes while it is traced, element by element; they are no inputs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import cast

from nki_lang.tracing.content import Parts, Unidentifiable, parts_of
from nki_lang.tracing.fingerprint import enter_surroundings
from nki_lang.tracing.leaves import ALL_HIDDEN, OWN_HIDDEN, Leaves, Path

__all__ = ["Divided", "Filled", "label_of"]

Divided = dict[str, Leaves]
"""Name of an object that a kernel reads -> its leaves."""

Surroundings = frozenset[tuple[Hashable, Parts]]


def label_of(entry: Hashable) -> str:
    """Return the readable name of an entry: ``names / prefix``."""
    if isinstance(entry, str):
        return entry
    name, path = cast("tuple[str, Path]", entry)
    labels: list[str] = []
    while path[0] is not None:
        labels.insert(0, str(path[1]))
        path = path[0]
    return " / ".join([name, *labels])


@dataclass(slots=True)
class Filled:
    """The changes of tracing a kernel so far.

    Attributes:
        hidden: by name, the paths that do not count; see :class:`Leaves`.
        undivided: names of changed objects that cannot be divided: then no trace is cached.
    """

    hidden: dict[str, dict[Path, int]] = field(default_factory=dict[str, dict[Path, int]])
    undivided: set[str] = field(default_factory=set[str])

    def surroundings(self, function: object, classes: Iterable[type]) -> Surroundings:
        """Return the values outside the arguments that the function reads, except those it changes.

        Raises:
            Unidentifiable: something in it has no content that could be compared.
        """
        for name in self.undivided:
            raise Unidentifiable(f"{name}, which the kernel changes")
        content: dict[Hashable, Parts] = {}
        walks: Divided = {}

        def enter(name: str, value: object) -> None:
            hidden = self.hidden.get(name)
            if hidden is None:
                content[name] = content.get(name, ()) + parts_of(value)
                return
            if name not in walks:
                walks[name] = Leaves(hidden)
            walks[name].value(value, 0)

        enter_surroundings(enter, function, classes)
        for name, walk in walks.items():
            for path, parts in walk.leaves.items():
                if path not in self.hidden[name]:
                    content[name, path] = parts
        return frozenset(content.items())

    def without(self, surroundings: Surroundings) -> Surroundings:
        """Return the surroundings without entries that do not count any more."""
        return frozenset(entry for entry in surroundings if not self._is_hidden(entry[0]))

    def _is_hidden(self, entry: Hashable) -> bool:
        if isinstance(entry, str):
            return False
        name, path = cast("tuple[str, Path]", entry)
        hidden = self.hidden.get(name, {})
        if path in hidden:
            return True
        while path[0] is not None:
            limit, label = hidden.get(path[0]), path[1]
            if limit == ALL_HIDDEN or (limit is not None and type(label) is int and label >= limit):
                return True
            path = path[0]
        return False

    def divided(self, function: object, classes: Iterable[type]) -> Divided:
        """Return everything that a function reads besides its arguments, divided into leaves.

        Raises:
            Unidentifiable: something in it has no content that could be compared.
        """
        walks: Divided = {}

        def enter(name: str, value: object) -> None:
            if name not in walks:
                walks[name] = Leaves(self.hidden.get(name))
            walks[name].value(value, 0)

        enter_surroundings(enter, function, classes)
        return walks

    def note(self, before: Divided, function: object, classes: Iterable[type]) -> bool:
        """Record what tracing changed since ``before``; return True if it changed anything.

        Additions are recorded first: an object that also appears in an addition keeps its earlier
        content elsewhere. An object that is read for the first time (a module that the kernel
        imports) is an input.
        """
        changed = False
        for added in (True, False):
            for name, walk in self.divided(function, classes).items():
                if name in before and self._note(name, before[name], walk, added):
                    changed = True
        return changed

    def _note(self, name: str, earlier: Leaves, walk: Leaves, added: bool) -> bool:
        changes = {
            path: limit
            for path, parts in walk.leaves.items()
            if (limit := _changed(earlier, walk, path, parts)) is not None
            and (not added or limit == ALL_HIDDEN)
        }
        for path, limit in changes.items():
            again = "again" in (*walk.leaves[path][:1], *earlier.leaves.get(path, ())[:1])
            if not added and (again or walk.is_whole(path) or earlier.is_whole(path)):
                self.undivided.add(name)
            hidden = self.hidden.setdefault(name, {})
            hidden[path] = min(limit, hidden.get(path, limit))
        return bool(changes)


def _changed(earlier: Leaves, walk: Leaves, path: Path, parts: Parts) -> int | None:
    """Return how many elements of a path are unchanged (or ALL, OWN); None when all are."""
    earlier_content = earlier.leaves.get(path)
    if earlier_content is None:
        owner = path[0]
        changed = owner in earlier.leaves and earlier.leaves[owner] != walk.leaves[owner]
        return ALL_HIDDEN if changed else None
    if earlier_content == parts or (not parts and earlier_content):
        return None
    return (
        cast(int, earlier_content[1])
        if len(earlier_content) > 1 and earlier_content[0] in _SEQUENCE_TYPES
        else OWN_HIDDEN
    )


_SEQUENCE_TYPES = frozenset({"list", "tuple", "deque"})
