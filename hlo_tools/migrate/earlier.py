"""Kernels of NKI 0.2 to 0.6 for a later version: names that were removed or deprecated, and loops.

The names come from :data:`nki_lang.strict.SYMBOLS`; the rules of the version are checked again on
the result, so that what stays is reported with the rule's own text.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import libcst as cst

from hlo_tools.migrate.loop_functions import as_function, register_loop
from hlo_tools.migrate.markers import Marker, Unmigrated
from hlo_tools.migrate.source import Source, dotted_name
from hlo_tools.migrate.statements import names_in
from nki_lang.strict import VERSIONS, Violation, check_file
from nki_lang.strict.versions import SYMBOLS

__all__ = ["rewrite_earlier"]

DYNAMIC_RANGE = "nki.language.dynamic_range"


def rewrite_earlier(text: str, version: str) -> tuple[str, tuple[Marker, ...]]:
    """Return the source for a version, and what a person must rewrite.

    Args:
        text: source of NKI 0.2 to 0.6.
        version: one of :data:`nki_lang.strict.VERSIONS`.
    """
    source = Source(text)
    rewriter = _Rewriter(source, version, _register_loops(text, version))
    module = source.module.visit(rewriter)
    return _marked(module.code, version, rewriter.refused)


def _violations(text: str, version: str) -> list[Violation]:
    with tempfile.TemporaryDirectory(prefix="nki-hlo-") as folder:
        file = Path(folder) / "kernels.py"
        file.write_text(text)
        return check_file(file, version=version)


def _register_loops(text: str, version: str) -> frozenset[int]:
    """Return the lines of ``while register`` loops that the version refuses."""
    rows = _violations(text, version)
    return frozenset(row.line for row in rows if row.code.endswith("WHILE-REGISTER"))


def _marked(
    text: str, version: str, refused: dict[str, Unmigrated]
) -> tuple[str, tuple[Marker, ...]]:
    """Put a comment above each line that the version still refuses or warns of."""
    markers: list[Marker] = []
    lines = text.split("\n")
    for row in sorted(_violations(text, version), reverse=True):
        line = lines[row.line - 1]
        reason = refused.get(line.strip())
        marker = (
            Marker("NKI-M012", row.line, row.message, row.why, row.instead)
            if reason is None
            else Marker(reason.code, row.line, reason.what, reason.why, reason.how)
        )
        indent = line[: len(line) - len(line.lstrip())]
        lines.insert(row.line - 1, f"{indent}{marker.comment()}")
        markers.append(marker)
    return "\n".join(lines), tuple(reversed(markers))


def _is_gone(name: str, version: str) -> bool:
    symbol = SYMBOLS.get(name)
    if symbol is None:
        return False
    limits = [limit for limit in (symbol.removed, symbol.deprecated) if limit]
    return any(VERSIONS.index(version) >= VERSIONS.index(limit) for limit in limits)


class _Rewriter(cst.CSTTransformer):
    def __init__(self, source: Source, version: str, register_loops: frozenset[int]) -> None:
        super().__init__()
        self.source = source
        self.version = version
        self.register_loops = register_loops
        self.refused: dict[str, Unmigrated] = {}
        self.used_names = names_in(source.module)
        self.functions: list[cst.FunctionDef] = []

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        """Note the function that loops stand in."""
        self.functions.append(node)

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        """Leave the function."""
        self.functions.pop()
        return updated_node

    def _replaced(self, node: cst.BaseExpression) -> str:
        """Return the builtin that takes the place of a name, "" for none."""
        name = self.source.resolved(node)
        replacement = SYMBOLS[name].replacement if _is_gone(name, self.version) else ""
        return replacement if replacement.isidentifier() else ""

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        """Replace a loop's range, whose arguments then have no names."""
        if not self._replaced(original_node.func):
            return updated_node
        named = {
            entry.keyword.value: entry for entry in updated_node.args if entry.keyword is not None
        }
        arguments = [entry for entry in updated_node.args if entry.keyword is None]
        if "stop" in named and not arguments and "start" not in named:
            return original_node
        arguments += [
            named[key].with_changes(keyword=None, equal=cst.MaybeSentinel.DEFAULT)
            for key in ("start", "stop", "step") if key in named
        ]  # fmt: skip
        return updated_node.with_changes(args=arguments)

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        """Replace ``nl.affine_range`` by ``range``."""
        name = self._replaced(original_node)
        return cst.Name(name) if name else updated_node

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        """Replace an imported name."""
        if original_node.value not in self.source.aliases:
            return updated_node
        name = self._replaced(original_node)
        return cst.Name(name) if name else updated_node

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        """Leave the names of imports."""
        return False

    def leave_ImportFrom(
        self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom
    ) -> cst.BaseSmallStatement | cst.RemovalSentinel:
        """Drop the names that are replaced."""
        if original_node.module is None or isinstance(original_node.names, cst.ImportStar):
            return updated_node
        module = dotted_name(original_node.module)
        entries = [
            entry for entry in original_node.names
            if not _is_gone(f"{module}.{dotted_name(entry.name)}", self.version)
            or not SYMBOLS[f"{module}.{dotted_name(entry.name)}"].replacement.isidentifier()
        ]  # fmt: skip
        if not entries:
            return cst.RemoveFromParent()
        entries[-1] = entries[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return updated_node.with_changes(names=entries)

    def leave_For(
        self, original_node: cst.For, updated_node: cst.For
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        """Turn a loop over a dynamic range into a function and ``nl.fori_loop``."""
        iterated = original_node.iter
        if (
            not isinstance(iterated, cst.Call)
            or self.source.resolved(iterated.func) != DYNAMIC_RANGE
        ):
            return updated_node
        if not _is_gone(DYNAMIC_RANGE, self.version) or not self.functions:
            return updated_node
        try:
            return as_function(original_node, updated_node, self.functions[-1], self.used_names)
        except Unmigrated as error:
            self.refused[_first_line(original_node)] = error
            return updated_node

    def leave_While(
        self, original_node: cst.While, updated_node: cst.While
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        """Turn ``while register`` into a function and ``nl.while_loop``."""
        if self.source.line(original_node) not in self.register_loops or not self.functions:
            return updated_node
        try:
            return register_loop(
                original_node, updated_node, self.functions[-1], self.used_names,
                {module: name for name, module in self.source.aliases.items()}.get("nki.language", "nl"),
            )  # fmt: skip
        except Unmigrated as error:
            self.refused[_first_line(original_node)] = error
            return updated_node


def _first_line(node: cst.CSTNode) -> str:
    text = cst.Module([]).code_for_node(node)
    lines = [
        line.strip()
        for line in text.split("\n")
        if line.strip() and not line.strip().startswith("#")
    ]
    return lines[0]
