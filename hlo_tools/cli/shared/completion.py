"""Completion of names from our tables and modules, in addition to commands, options and files.

Each function is passed to typer as ``autocompletion=``. Completion never fails: what cannot be
found out is not offered.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from hlo_tools.ir.overview import ModuleOutline

__all__ = [
    "codes",
    "computations",
    "instructions",
    "kernels",
    "lint_codes",
    "opcodes",
    "pass_names",
    "pipelines",
    "words",
]

Completer = Callable[[str], list[str]]
_MAX_OFFERED_NAMES = 500
"""Nobody reads a longer list of offered names."""


def words(*fixed_words: str) -> Completer:
    """Some fixed words; also after a comma."""

    def complete(incomplete: str) -> list[str]:
        return _listed(fixed_words, incomplete)

    return complete


def pass_names(incomplete: str) -> list[str]:
    """One pass."""
    from hlo_tools.passes.registry import registered_passes

    with suppress(Exception):
        return _beginning(registered_passes(), incomplete)
    return []


def pipelines(incomplete: str) -> list[str]:
    """The pass that is being typed, after those already there."""
    from hlo_tools.passes.registry import registered_passes

    with suppress(Exception):
        return _listed(registered_passes(), incomplete)
    return []


def lint_codes(incomplete: str) -> list[str]:
    """Codes of lint's rules, comma-separated."""
    from hlo_tools.lint import registered_rules

    with suppress(Exception):
        return _listed(registered_rules(), incomplete)
    return []


def codes(incomplete: str) -> list[str]:
    """Every code of an error or finding."""
    with suppress(Exception):
        from hlo_tools.cli.shared.codes import codes as known

        return _beginning(known(), incomplete)
    return []


def instructions(ctx: typer.Context, incomplete: str) -> list[str]:
    """Instructions of the module that the command line names already."""
    return _beginning(_rows(ctx, lambda row: row.name), incomplete)


def opcodes(ctx: typer.Context, incomplete: str) -> list[str]:
    """Opcodes that occur in the module; all there are without one."""
    from hlo_tools.types.opcodes import OPCODES

    occurring = sorted(set(_rows(ctx, lambda row: row.opcode)))
    return _beginning(occurring or OPCODES, incomplete)


def computations(ctx: typer.Context, incomplete: str) -> list[str]:
    """Computations of the module."""
    with suppress(Exception):
        return _beginning(
            [computation.name for computation in _outline(ctx).computations], incomplete
        )
    return []


def kernels(ctx: typer.Context, incomplete: str) -> list[str]:
    """Kernels that the module calls."""
    from hlo_tools.ir.loading import load
    from hlo_tools.kernels.backend_config import decode

    with suppress(Exception):
        calls = load(_file(ctx)).find_custom_calls()
        names = dict.fromkeys(decode(call.backend_config).func_name for call in calls)
        return _beginning(names, incomplete)
    return []


def _outline(ctx: typer.Context) -> ModuleOutline:
    from hlo_tools.ir.loading import load_outline

    return load_outline(_file(ctx))


def _file(ctx: typer.Context) -> str:
    """The module on the command line: click does not report it while an option has no value yet."""
    path = ctx.params.get("file")
    if path:
        return path
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    return next(word for word in shlex.split(line) if os.path.isfile(word))


def _rows(ctx: typer.Context, what: Callable[[Any], str]) -> Iterator[str]:
    with suppress(Exception):
        for computation in _outline(ctx).computations:
            for row in computation:
                yield what(row.proto)


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    start = incomplete.removeprefix("%")
    mark = incomplete[: len(incomplete) - len(start)]
    matches: list[str] = []
    for name in names:
        if name.startswith(start):
            matches.append(mark + name)
            if len(matches) == _MAX_OFFERED_NAMES:
                break
    return matches


def _listed(names: Iterable[str], incomplete: str) -> list[str]:
    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in _beginning(names, last)]
