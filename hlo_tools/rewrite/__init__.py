"""Tools of passes: patterns, and edits that move instructions between computations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hlo_tools.rewrite.cloning import clone_computation, clone_instruction, clone_into
    from hlo_tools.rewrite.dead_code import remove_dead, remove_unreachable
    from hlo_tools.rewrite.errors import PassError
    from hlo_tools.rewrite.inlining import inline_call, inline_calls, outline

__all__ = [
    "PassError",
    "clone_computation",
    "clone_instruction",
    "clone_into",
    "inline_call",
    "inline_calls",
    "outline",
    "remove_dead",
    "remove_unreachable",
]

_HOMES = {
    "PassError": "errors",
    "clone_computation": "cloning",
    "clone_instruction": "cloning",
    "clone_into": "cloning",
    "inline_call": "inlining",
    "inline_calls": "inlining",
    "outline": "inlining",
    "remove_dead": "dead_code",
    "remove_unreachable": "dead_code",
}


def __getattr__(name: str) -> Any:
    """A public name, loaded when it is first used: most users need one file of the folder."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
