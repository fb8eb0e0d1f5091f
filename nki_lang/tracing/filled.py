"""What a kernel changes while it is traced, which is no input of it: element by element."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from nki_lang.tracing.content import Parts, Unidentifiable, parts_of
from nki_lang.tracing.fingerprint import enter_surroundings
from nki_lang.tracing.leaves import ALL, OWN, Leaves, Path

__all__ = ["Divided", "Filled", "divided", "label_of"]

Divided = dict[str, Leaves]
"""By name of what a kernel reads, its leaves."""

Surroundings = frozenset[tuple[Hashable, Parts]]


def divided(function: Any, classes: Iterable[type]) -> Divided:
    """Everything that a function reads beside its arguments, in leaves.

    Raises:
        Unidentifiable: something in it has no content that could be compared.
    """
    found: Divided = {}

    def enter(name: str, value: Any) -> None:
        if name not in found:
            found[name] = Leaves()
        found[name].value(value, 0)

    enter_surroundings(enter, function, classes)
    return found


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

    def surroundings(self, function: Any, classes: Iterable[type]) -> Surroundings:
        """Values outside the arguments that the function reads, but for what it changes itself.

        Raises:
            Unidentifiable: something in it has no content that could be compared.
        """
        for name in self.undivided:
            raise Unidentifiable(f"{name}, which the kernel changes")
        found: dict[Hashable, Parts] = {}
        split: Divided = {}

        def enter(name: str, value: Any) -> None:
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
            limit = hidden.get(path[0])
            if limit == ALL or (
                limit is not None and isinstance(path[1], int) and path[1] >= limit
            ):
                return True
            path = path[0]
        return False

    def note(self, before: Divided, after: Divided) -> bool:
        """Note what tracing changed; returns whether that is anything."""
        found = False
        for name, walk in after.items():
            if name not in before:
                continue  # read for the first time: an input
            earlier = before[name]
            for path, parts in walk.leaves.items():
                limit = _changed(earlier, walk, path, parts)
                if limit is None:
                    continue
                found = True
                if walk.is_whole(path) or earlier.is_whole(path) or _is_again(earlier, parts, path):
                    self.undivided.add(name)
                hidden = self.hidden.setdefault(name, {})
                hidden[path] = min(limit, hidden.get(path, limit))
        return found


def _is_again(earlier: Leaves, parts: Parts, path: Path) -> bool:
    """Whether tracing made one object be met at two places, or no more."""
    return "again" in (*parts[:1], *earlier.leaves.get(path, ())[:1])


def _changed(earlier: Leaves, walk: Leaves, path: Path, parts: Parts) -> int | None:
    """How much of a path tracing changed; None when nothing."""
    known = earlier.leaves.get(path)
    if known is not None:
        if known == parts:
            return None
        return cast(int, known[1]) if len(known) > 1 and known[0] in _ROWS else OWN
    owner = path[0]
    if owner in earlier.leaves and earlier.leaves[owner] != walk.leaves[owner]:
        return ALL
    return None


_ROWS = frozenset({"list", "tuple", "deque"})
