"""One pass over the byte code of a function: the names that it loads, and what becomes of them."""

from __future__ import annotations

import dis
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, cast

__all__ = ["Scan", "scan"]

_SKIPPED = frozenset({"CACHE", "PUSH_NULL", "EXTENDED_ARG", "NOP", "PRECALL", "RESUME", "COPY"})

_BY_TEXT = frozenset({"import_module", "__import__", "modules"})


class _Step(NamedTuple):
    """An instruction: ``kind`` is its operation without what differs between versions of Python."""

    kind: str
    name: str
    value: object


@dataclass(slots=True)
class Scan:
    """What one code object, without those inside it, loads.

    Attributes:
        globals: names of globals.
        chains: by name of a global or a local, the attributes that are loaded of it in a row.
        bare: names and last attributes that are used as they are.
        attributes: every attribute that is loaded.
        imports: (level, module) of each import statement.
        aliases: (module, member or "", name that is assigned) of each import statement.
        computed: by what a module is reached whose name is computed, or "".
    """

    globals: set[str] = field(default_factory=set[str])
    chains: dict[str, set[tuple[str, ...]]] = field(default_factory=dict[str, set[tuple[str, ...]]])
    bare: set[str] = field(default_factory=set[str])
    attributes: set[str] = field(default_factory=set[str])
    imports: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    aliases: set[tuple[str, str, str]] = field(default_factory=set[tuple[str, str, str]])
    computed: str = ""

    def add(
        self,
        names: Iterable[str],
        imports: Iterable[tuple[int, str]],
        aliases: Iterable[tuple[str, str, str]],
        bare: Iterable[str],
        computed: str,
    ) -> None:
        """What a code object inside this one loads."""
        self.globals.update(names)
        self.imports.update(imports)
        self.aliases.update(aliases)
        self.bare.update(bare)
        self.computed = self.computed or computed


def scan(code: types.CodeType) -> Scan:
    """What the code object loads."""
    found = Scan()
    steps = [*_steps(code), *[_Step("end", "", None)] * 3]
    level, module, member = 0, "", ""
    for place, (kind, name, value) in enumerate(steps):
        if kind == "integer" and isinstance(value, int):
            level = value  # the last integer before IMPORT_NAME is the import's level
        elif kind == "import":
            module, member = "." * level + name, ""
            found.imports.add((level, name))
        elif kind == "from":
            member = name
        elif kind == "store" and module:
            found.aliases.add((module, member, name))
            following = steps[place + 1].kind
            module = module if following == "from" else ""
        elif kind in ("global", "local"):
            _enter_name(found, steps, place)
        elif kind == "attribute":
            found.attributes.add(name)
            if steps[place + 1].kind not in ("attribute", "assigned"):
                found.bare.add(name)
                _note_text(found, steps, place)
    return found


def _enter_name(found: Scan, steps: list[_Step], place: int) -> None:
    kind, name, _ = steps[place]
    if kind == "global":
        found.globals.add(name)
    chain = tuple(_attributes(steps, place + 1))
    end = place + 1 + len(chain)
    found.chains.setdefault(name, set()).add(chain)
    if not chain and steps[end].kind != "assigned" and name != "__name__":
        found.bare.add(name)
        if kind == "global":
            _note_text(found, steps, place)


def _attributes(steps: list[_Step], place: int) -> Iterator[str]:
    """The attributes that are loaded one after the other from there on."""
    while steps[place].kind == "attribute":
        yield steps[place].name
        place += 1


def _note_text(found: Scan, steps: list[_Step], place: int) -> None:
    """A module that is reached by a text: the text is a constant, or the module unknown."""
    name = steps[place].name
    if name == "get" and place and steps[place - 1].name == "modules":
        name = "modules"
    if name not in _BY_TEXT or steps[place + 1].kind == "contains":
        return
    end = place + 2
    while steps[end].kind in ("constant", "integer"):
        end += 1
    text = steps[place + 1]
    if (text.kind != "text" and text.name != "__name__") or steps[end].kind not in ("call", "item"):
        found.computed = found.computed or name
    else:
        chain = tuple(_attributes(steps, end + 1))
        found.aliases.add((text.name, "", f"<{text.name}>"))
        found.chains.setdefault(f"<{text.name}>", set()).add(chain)
        if not chain:
            found.bare.add(text.name)


def _steps(code: types.CodeType) -> Iterator[_Step]:
    for step in dis.get_instructions(code):
        operation = step.opname
        value: object = step.argval
        if operation in _SKIPPED:
            continue
        if isinstance(value, tuple) and "_FAST" in operation:  # two in one, from Python 3.13 on
            first = operation.startswith("STORE")
            second = "STORE_FAST_STORE" in operation
            names = cast("tuple[str, str]", value)
            yield _Step("store" if first else "local", names[0], None)
            yield _Step("store" if second else "local", names[1], None)
        else:
            yield _Step(
                _kind(operation, cast(object, value), step.argrepr), str(step.argval), value
            )


def _kind(operation: str, value: object, shown: str) -> str:
    if operation.startswith(("LOAD_CONST", "LOAD_SMALL_INT", "RETURN_CONST")):
        return "text" if type(value) is str else "integer" if type(value) is int else "constant"
    if operation.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF")):
        return "local"
    if operation.startswith(("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF")):
        return "store"
    if operation.startswith("CALL"):
        return "call"
    if operation == "BINARY_OP":
        return "item" if shown == "[]" else "other"
    return _KINDS.get(operation, "other")


_KINDS = {
    "LOAD_GLOBAL": "global", "LOAD_NAME": "global", "LOAD_ATTR": "attribute",
    "LOAD_METHOD": "attribute", "STORE_ATTR": "assigned", "DELETE_ATTR": "assigned",
    "IMPORT_NAME": "import", "IMPORT_FROM": "from", "BINARY_SUBSCR": "item",
    "CONTAINS_OP": "contains", "KW_NAMES": "constant",
}  # fmt: skip
