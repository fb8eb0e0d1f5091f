"""The versions of NKI: names that were added, deprecated or removed, and the rules that differ.

Source: release notes, loop guide and migration guide of NKI 0.6.0 and 0.7.0.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType

from nki_lang.base.versions import VERSIONS
from nki_lang.strict.modules import Definition
from nki_lang.strict.rules import Rule
from nki_lang.strict.syntax import Match

__all__ = [
    "SYMBOLS",
    "VERSION_RULES",
    "SymbolVersions",
    "parses",
    "version_matches",
]


@dataclass(frozen=True, slots=True)
class SymbolVersions:
    """The history of one public name; "" where a version is not known or does not apply.

    Attributes:
        name: dotted, such as ``nki.language.dynamic_range``.
        since: the first version that has it.
        deprecated: the first version that warns of it.
        removed: the first version without it.
        replacement: what to write instead.
    """

    name: str
    since: str = ""
    deprecated: str = ""
    removed: str = ""
    replacement: str = ""


_ADDED = {
    "nki.language": "alloc_blocks alloc_tiles blocks int64 NkiBlockGrid NkiGrid NkiTileGrid tiles uint64",
    "nki.isa": "NkiScalar scalar_load scalar_store sendrecv_compute",
    "nki.collectives": "all_gather_v_prepare all_gather_v_trigger all_to_all_v_prepare"
    " all_to_all_v_trigger rg_partition_op",
    "nki.compiler": "AddressRotation CompileConfig SpecializationConfig",
}
_RANGES = ("affine_range", "sequential_range", "static_range")

SYMBOLS: MappingProxyType[str, SymbolVersions] = MappingProxyType(
    {
        symbol.name: symbol
        for symbol in (
            SymbolVersions("nki.language.dynamic_range", "", "0.6", "0.7", "nl.fori_loop"),
            *(SymbolVersions(f"nki.language.{name}", "", "0.7", "", "range") for name in _RANGES),
            *(
                SymbolVersions(f"{module}.{name}", "0.7")
                for module, names in _ADDED.items()
                for name in names.split()
            ),
        )
    }
)
"""Names whose history differs between the versions of :mod:`nki_lang.base.versions`."""

_TABLE = (
    Rule("REMOVED", "the name {}", "NKI {} has no such name", "write {}"),
    Rule("DEPRECATED", "the name {}", "it is deprecated since NKI {}", "write {}", warning=True),
    Rule("NEWER", "the name {}", "it exists since NKI {}", "check with --nki {}"),
    Rule("WHILE-REGISTER", "'while {}' on a register", "NKI 0.7 removed it: a condition is known while tracing",
         "write nl.while_loop(register, body)"),
    Rule("TILE-ASSIGN", "an assignment to the view {} of a tensor",
         "the vendor's simulator accepts it and its compiler does not",
         "write nisa.tensor_copy, nisa.dma_copy or nisa.memset with dst="),
)  # fmt: skip

VERSION_RULES: MappingProxyType[str, Rule] = MappingProxyType({rule.code: rule for rule in _TABLE})
"""The rules that depend on the version, by code."""

_REGISTERS = frozenset({"nki.isa.register_alloc", "nki.collectives.rank_id"})
_TILES = frozenset(
    f"nki.language.{name}"
    for name in ("ndarray", "zeros", "ones", "full", "zeros_like", "empty_like", "load")
)
_FULL_PYTHON = "0.7"
"""The first version that traces kernels instead of parsing them."""


def parses(version: str) -> bool:
    """Return True if the compiler of a version parses kernels, so that the strict subset holds."""
    return version not in VERSIONS or VERSIONS.index(version) < VERSIONS.index(_FULL_PYTHON)


def version_matches(definition: Definition, version: str) -> Iterator[Match]:
    """Yield what a version of NKI refuses or warns of in a function, whatever Python it uses."""
    node, module = definition.node, definition.module
    registers, tiles = _assigned(definition, _REGISTERS), _assigned(definition, _TILES)
    for entry in ast.walk(node):
        if isinstance(entry, (ast.Name, ast.Attribute)) and isinstance(entry.ctx, ast.Load):
            yield from _symbol(entry, module.dotted(entry), version)
        elif isinstance(entry, ast.While) and not parses(version):
            if isinstance(entry.test, ast.Name) and entry.test.id in registers:
                yield Match("WHILE-REGISTER", entry, (entry.test.id,))
        elif isinstance(entry, ast.Assign):
            for target in entry.targets:
                if _is_view(target, tiles):
                    yield Match("TILE-ASSIGN", target, (ast.unparse(target),))


def _is_view(target: ast.expr, tiles: set[str]) -> bool:
    if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Name):
        return False
    return target.value.id in tiles


def _assigned(definition: Definition, makers: frozenset[str]) -> set[str]:
    """Return the names that every assignment in the function gives the result of such a call."""
    is_result: dict[str, bool] = {}
    for entry in ast.walk(definition.node):
        if isinstance(entry, ast.Assign):
            call = entry.value
            is_call = isinstance(call, ast.Call) and definition.module.dotted(call.func) in makers
            for target in entry.targets:
                if isinstance(target, ast.Name):
                    is_result[target.id] = is_result.get(target.id, True) and is_call
    return {name for name, is_call in is_result.items() if is_call}


def _symbol(node: ast.expr, name: str, version: str) -> Iterator[Match]:
    symbol = SYMBOLS.get(name)
    if symbol is None:
        return
    if symbol.since and _before(version, symbol.since):
        yield Match("NEWER", node, (name, symbol.since))
    elif symbol.removed and not _before(version, symbol.removed):
        yield Match("REMOVED", node, (name, symbol.removed, symbol.replacement))
    elif symbol.deprecated and not _before(version, symbol.deprecated):
        yield Match("DEPRECATED", node, (name, symbol.deprecated, symbol.replacement))


def _before(version: str, limit: str) -> bool:
    return VERSIONS.index(version) < VERSIONS.index(limit)
