"""Python files as the compiler sees them: parsed, never run."""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass, field
from pathlib import Path

from nki_lang.base.errors import NkiFileError
from nki_lang.base.plain_files import MAX_SOURCE_BYTES, read_plain

__all__ = ["Definition", "Module", "Modules", "Reference"]

Node = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

_FOREIGN_PACKAGES = frozenset(sys.stdlib_module_names) | {
    "jax", "jaxlib", "ml_dtypes", "neuron_dtypes", "neuronxcc", "nki", "nki_lang", "numpy",
    "torch", "torch_neuronx", "torch_xla",
}  # fmt: skip
"""Packages that the compiler provides itself, or evaluates on the host."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A name that comes from elsewhere: ``module`` alone, or ``name`` in it."""

    module: Path
    name: str = ""


@dataclass(frozen=True, slots=True)
class Definition:
    """A function or class at the top level of a module, or inside another function."""

    module: Module
    node: Node


@dataclass(slots=True, eq=False)
class Module:
    """One parsed file.

    Attributes:
        path: the file.
        tree: its syntax.
        definitions: functions and classes at the top level, by name.
        imports: the files of the other names, where they are known.
        aliases: dotted names of everything imported, by the name used here.
        assigned: other names that are assigned at the top level.
    """

    path: Path
    tree: ast.Module
    definitions: dict[str, Node] = field(default_factory=dict[str, Node])
    imports: dict[str, Reference] = field(default_factory=dict[str, Reference])
    aliases: dict[str, str] = field(default_factory=dict[str, str])
    assigned: set[str] = field(default_factory=set[str])

    def dotted(self, node: ast.expr) -> str:
        """The full dotted name of an expression such as ``nl.ndarray``, or ""."""
        if isinstance(node, ast.Name):
            return self.aliases.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            owner = self.dotted(node.value)
            return f"{owner}.{node.attr}" if owner else ""
        return ""


class Modules:
    """Files that were read so far; each is read once."""

    def __init__(self) -> None:
        self._known: dict[Path, Module] = {}

    def open(self, path: Path) -> Module:
        """The parsed file.

        Raises:
            NkiFileError: code ``NKI-FILE``; it cannot be read, or is not Python.
        """
        path = path.resolve()
        if path not in self._known:
            self._known[path] = _parse(path)
        return self._known[path]

    def find(self, module: Module, name: str) -> Definition | Module | None:
        """Return the definition of a name at the top level of ``module``, through imports."""
        for _ in range(20):  # re-exports of re-exports
            if name in module.definitions:
                return Definition(module, module.definitions[name])
            reference = module.imports.get(name)
            if reference is None:
                return None
            module = self.open(reference.module)
            if not reference.name:
                return module
            name = reference.name
        return None


def _parse(path: Path) -> Module:
    try:
        tree = ast.parse(read_plain(path, MAX_SOURCE_BYTES), str(path))
    except OSError as error:
        raise NkiFileError(
            f"cannot read {path}: {error.strerror or error}",
            remedy="give the path of a Python file",
        ) from error
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", 0) or 0
        raise NkiFileError(
            f"{path}:{line}: not Python: {getattr(error, 'msg', error)}",
            remedy="correct the syntax",
        ) from error
    module = Module(path, tree)
    for statement in _top_level(tree.body):
        if isinstance(statement, Node):
            module.definitions.setdefault(statement.name, statement)
        elif isinstance(statement, ast.Import):
            _import(module, statement)
        elif isinstance(statement, ast.ImportFrom):
            _import_from(module, statement)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            module.assigned |= {target.id for target in targets if isinstance(target, ast.Name)}
    return module


def _top_level(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements that run when the module is imported, those under if and try included."""
    statements: list[ast.stmt] = []
    for statement in body:
        statements.append(statement)
        for name in ("body", "orelse", "finalbody"):
            if isinstance(statement, (ast.If, ast.Try, ast.With)):
                statements += _top_level(getattr(statement, name, []))
        if isinstance(statement, ast.Try):
            for handler in statement.handlers:
                statements += _top_level(handler.body)
    return statements


def _import(module: Module, statement: ast.Import) -> None:
    for alias in statement.names:
        name = alias.asname or alias.name.partition(".")[0]
        module.aliases[name] = alias.name if alias.asname else name
        path = _file_of(alias.name if alias.asname else name, module.path)
        if path is not None:
            module.imports[name] = Reference(path)


def _import_from(module: Module, statement: ast.ImportFrom) -> None:
    base = statement.module or ""
    for alias in statement.names:
        name = alias.asname or alias.name
        module.aliases[name] = f"{base}.{alias.name}" if base else alias.name
        if statement.level:
            folder = module.path.parents[statement.level - 1]
            start = _inside(folder, base.split(".") if base else [])
        else:
            start = _file_of(base, module.path)
        if start is None:
            continue
        deeper = _inside(start.parent, [alias.name]) if start.name == "__init__.py" else None
        module.imports[name] = Reference(start, alias.name) if deeper is None else Reference(deeper)


def _file_of(name: str, importer: Path) -> Path | None:
    """Return the file of an absolute import: in the importer's folder, its packages or on the path."""
    parts = name.split(".")
    if not name or parts[0] in _FOREIGN_PACKAGES:
        return None
    roots = [importer.parent]
    top = importer.parent
    while (top / "__init__.py").is_file():
        top = top.parent
    roots += [top, *(Path(entry) for entry in sys.path if entry)]
    return next((file for root in roots if (file := _inside(root, parts)) is not None), None)


def _inside(folder: Path, parts: list[str]) -> Path | None:
    location = folder.joinpath(*parts)
    for candidate in (location / "__init__.py", location.with_suffix(".py") if parts else location):
        if candidate.is_file():
            return candidate
    return None
