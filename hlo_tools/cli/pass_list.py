"""``nki-hlo opt --list``: the passes and their options."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from hlo_tools.cli.shared import console
from hlo_tools.passes import Registered, find_pass, registered_passes
from hlo_tools.passes.arguments import arguments_of, words_of
from hlo_tools.passes.invariants import INVARIANTS

__all__ = ["list_passes"]


def list_passes(names: Sequence[str], *, as_json: bool) -> int:
    """Print the passes, ours and those of other packages, with their origin; named ones in full.

    Raises:
        HloError: ``HLO-NO-PASS``: there is no such pass.
    """
    passes = registered_passes()
    for name in names:
        find_pass(name)
    chosen = [passes[name] for name in names or passes]
    if as_json:
        console.write_json("opt", passes=[_as_json(entry) for entry in chosen])
    elif names:
        for entry in chosen:
            _print_pass(entry)
    else:
        rows = [(entry.name, entry.origin, _first_line(entry)) for entry in chosen]
        console.table(("pass", "origin", "does"), rows)
    return 0


def _first_line(entry: Registered) -> str:
    return _documentation(entry).partition("\n")[0]


def _documentation(entry: Registered) -> str:
    return inspect.getdoc(entry.load()) or ""


def _print_pass(entry: Registered) -> None:
    kind = entry.load()
    console.line(f"{entry.name} ({entry.origin})")
    for text in _documentation(entry).splitlines():
        console.line(f"  {text}".rstrip())
    for title, words in (("requires", kind.requires), ("ensures", kind.ensures)):
        for word in words:
            console.line(f"  {title} {word}: {INVARIANTS[word].meaning}")
    for group in kind.needs:
        console.line(f"  needs {' or '.join(group)}")
    for argument in arguments_of(kind).values():
        console.line(f"  {argument.name}={argument.kind} (default {_shown(argument.default)})")


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else words_of(value) or "none"


def _as_json(entry: Registered) -> dict[str, object]:
    kind = entry.load()
    arguments = [
        {
            "name": argument.name,
            "takes": argument.kind,
            "default": argument.default,
        }
        for argument in arguments_of(kind).values()
    ]
    return {
        "name": entry.name,
        "origin": entry.origin,
        "value": entry.value,
        "does": _first_line(entry),
        "requires": list(kind.requires),
        "ensures": list(kind.ensures),
        "arguments": arguments,
    }
