"""What a kernel changes while it is traced, which is no input of it: element by element."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import cast

from nki_lang.tracing.content import Parts, Unidentifiable, parts_of
from nki_lang.tracing.fingerprint import enter_surroundings
from nki_lang.tracing.leaves import ALL, OWN, Leaves, Path

__all__ = ["Divided", "Filled", "label_of"]

Divided = dict[str, Leaves]
"""By name of what a kernel reads, its leaves."""

Surroundings = frozenset[tuple[Hashable, Parts]]


def label_of(entry: Hashable) -> str:
    """The name of an entry for people: ``names / prefix``."""
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
    """What tracing a kernel changed so far.

    Attributes:
        hidden: by name, the paths that do not count; see :class:`Leaves`.
        undivided: names of what it changed, but cannot be divided: nothing is remembered then.
    """

    hidden: dict[str, dict[Path, int]] = field(default_factory=dict[str, dict[Path, int]])
    undivided: set[str] = field(default_factory=set[str])

    def surroundings(self, function: object, classes: Iterable[type]) -> Surroundings:
        """Values outside the arguments that the function reads, but for what it changes itself.

        Raises:
            Unidentifiable: something in it has no content that could be compared.
        """
        for name in self.undivided:
            raise Unidentifiable(f"{name}, which the kernel changes")
        found: dict[Hashable, Parts] = {}
        split: Divided = {}

        def enter(name: str, value: object) -> None:
            hidden = self.hidden.get(name)
            if hidden is None:
                found[name] = found.get(name, ()) + parts_of(value)
                return
            if name not in split:
                split[name] = Leaves(hidden)
            split[name].value(value, 0)

        enter_surroundings(enter, function, classes)
        for name, walk in split.items():
            for path, parts in walk.leaves.items():
                if path not in self.hidden[name]:
                    found[name, path] = parts
        return frozenset(found.items())

    def without(self, known: Surroundings) -> Surroundings:
        """Surroundings without what does not count any more."""
        return frozenset(one for one in known if not self._is_hidden(one[0]))

    def _is_hidden(self, entry: Hashable) -> bool:
        if isinstance(entry, str):
            return False
        name, path = cast("tuple[str, Path]", entry)
        hidden = self.hidden.get(name, {})
        if path in hidden:
            return True
        while path[0] is not None:
            limit, label = hidden.get(path[0]), path[1]
            if limit == ALL or (limit is not None and type(label) is int and label >= limit):
                return True
            path = path[0]
        return False

    def divided(self, function: object, classes: Iterable[type]) -> Divided:
        """Everything that a function reads beside its arguments, in leaves.

        Raises:
            Unidentifiable: something in it has no content that could be compared.
        """
        found: Divided = {}

        def enter(name: str, value: object) -> None:
            if name not in found:
                found[name] = Leaves(self.hidden.get(name))
            found[name].value(value, 0)

        enter_surroundings(enter, function, classes)
        return found

    def note(self, before: Divided, function: object, classes: Iterable[type]) -> bool:
        """Note what tracing changed since ``before``; returns whether that is anything.

        What it added goes first: an object that is met there too stays what it was elsewhere.
        What is read for the first time (a module that the kernel imports) is an input.
        """
        found = False
        for added in (True, False):
            for name, walk in self.divided(function, classes).items():
                if name in before and self._note(name, before[name], walk, added):
                    found = True
        return found

    def _note(self, name: str, earlier: Leaves, walk: Leaves, added: bool) -> bool:
        changes = {
            path: limit
            for path, parts in walk.leaves.items()
            if (limit := _changed(earlier, walk, path, parts)) is not None
            and (not added or limit == ALL)
        }
        for path, limit in changes.items():
            again = "again" in (*walk.leaves[path][:1], *earlier.leaves.get(path, ())[:1])
            if not added and (again or walk.is_whole(path) or earlier.is_whole(path)):
                self.undivided.add(name)
            hidden = self.hidden.setdefault(name, {})
            hidden[path] = min(limit, hidden.get(path, limit))
        return bool(changes)


def _changed(earlier: Leaves, walk: Leaves, path: Path, parts: Parts) -> int | None:
    """How much of a path tracing changed; None when nothing."""
    known = earlier.leaves.get(path)
    if known is None:
        owner = path[0]
        changed = owner in earlier.leaves and earlier.leaves[owner] != walk.leaves[owner]
        return ALL if changed else None
    if known == parts or (not parts and known):
        return None
    return cast(int, known[1]) if len(known) > 1 and known[0] in _ROWS else OWN


_ROWS = frozenset({"list", "tuple", "deque"})
