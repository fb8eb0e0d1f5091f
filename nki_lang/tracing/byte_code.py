"""One pass over the byte code of a function: the names that it loads, and their uses."""

from __future__ import annotations

import dis
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, cast

__all__ = ["Scan", "scan"]

_SKIPPED_OPERATIONS = frozenset(
    {"CACHE", "PUSH_NULL", "EXTENDED_ARG", "NOP", "PRECALL", "RESUME", "COPY"}
)

_TEXT_IMPORTERS = frozenset({"import_module", "__import__", "modules"})


class _CodeStep(NamedTuple):
    """An instruction: ``kind`` is its operation without what differs between versions of Python."""

    kind: str
    name: str
    value: object


@dataclass(slots=True)
class Scan:
    """The loads of one code object, without nested code objects.

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
        """Add the loads of a nested code object."""
        self.globals.update(names)
        self.imports.update(imports)
        self.aliases.update(aliases)
        self.bare.update(bare)
        self.computed = self.computed or computed


def scan(code: types.CodeType) -> Scan:
    """Return the loads of the code object."""
    loads = Scan()
    steps = [*_steps(code), *[_CodeStep("end", "", None)] * 3]
    level, module, member = 0, "", ""
    for position, (kind, name, value) in enumerate(steps):
        if kind == "integer" and isinstance(value, int):
            level = value  # the last integer before IMPORT_NAME is the import's level
        elif kind == "import":
            module, member = "." * level + name, ""
            loads.imports.add((level, name))
        elif kind == "from":
            member = name
        elif kind == "store" and module:
            loads.aliases.add((module, member, name))
            following = steps[position + 1].kind
            module = module if following == "from" else ""
        elif kind in ("global", "local"):
            _enter_name(loads, steps, position)
        elif kind == "attribute":
            loads.attributes.add(name)
            if steps[position + 1].kind not in ("attribute", "assigned"):
                loads.bare.add(name)
                _note_text(loads, steps, position)
    return loads


def _enter_name(loads: Scan, steps: list[_CodeStep], position: int) -> None:
    kind, name, _ = steps[position]
    if kind == "global":
        loads.globals.add(name)
    chain = tuple(_attributes(steps, position + 1))
    end = position + 1 + len(chain)
    loads.chains.setdefault(name, set()).add(chain)
    if not chain and steps[end].kind != "assigned" and name != "__name__":
        loads.bare.add(name)
        if kind == "global":
            _note_text(loads, steps, position)


def _attributes(steps: list[_CodeStep], position: int) -> Iterator[str]:
    """Yield the attributes that are loaded in sequence from the position on."""
    while steps[position].kind == "attribute":
        yield steps[position].name
        position += 1


def _note_text(loads: Scan, steps: list[_CodeStep], position: int) -> None:
    """Record a module that is reached by a text: a constant text, or an unknown module."""
    name = steps[position].name
    if name == "get" and position and steps[position - 1].name == "modules":
        name = "modules"
    if name not in _TEXT_IMPORTERS or steps[position + 1].kind == "contains":
        return
    end = position + 2
    while steps[end].kind in ("constant", "integer"):
        end += 1
    text = steps[position + 1]
    if (text.kind != "text" and text.name != "__name__") or steps[end].kind not in ("call", "item"):
        loads.computed = loads.computed or name
    else:
        chain = tuple(_attributes(steps, end + 1))
        loads.aliases.add((text.name, "", f"<{text.name}>"))
        loads.chains.setdefault(f"<{text.name}>", set()).add(chain)
        if not chain:
            loads.bare.add(text.name)


def _steps(code: types.CodeType) -> Iterator[_CodeStep]:
    for step in dis.get_instructions(code):
        operation = step.opname
        value: object = step.argval
        if operation in _SKIPPED_OPERATIONS:
            continue
        if isinstance(value, tuple) and "_FAST" in operation:  # two in one, from Python 3.13 on
            first = operation.startswith("STORE")
            second = "STORE_FAST_STORE" in operation
            names = cast("tuple[str, str]", value)
            yield _CodeStep("store" if first else "local", names[0], None)
            yield _CodeStep("store" if second else "local", names[1], None)
        else:
            yield _CodeStep(
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
    return _KIND_OF_OPERATION.get(operation, "other")


_KIND_OF_OPERATION = {
    "LOAD_GLOBAL": "global", "LOAD_NAME": "global", "LOAD_ATTR": "attribute",
    "LOAD_METHOD": "attribute", "STORE_ATTR": "assigned", "DELETE_ATTR": "assigned",
    "IMPORT_NAME": "import", "IMPORT_FROM": "from", "BINARY_SUBSCR": "item",
    "CONTAINS_OP": "contains", "KW_NAMES": "constant",
}  # fmt: skip
