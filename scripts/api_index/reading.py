"""Names and parameters from stubs, summaries and pages of the vendor's documentation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

__all__ = ["Entry", "Parameter", "documented_entries"]

STUBS, SUMMARIES = "nki/api/nki", "nki/api"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a documented function.

    Attributes:
        name: with ``*`` or ``**`` in front where it takes several.
        default: its source text, None without a default.
        keyword_only: it stands behind ``*``.
    """

    name: str
    default: str | None = None
    keyword_only: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """One documented name.

    Attributes:
        name: dotted, such as ``nki.isa.activation`` or ``nki.language.NkiTensor.ap``.
        parameters: those of a function; None where the index has only the name.
        source: the file that documents it, relative to the path.
    """

    name: str
    parameters: tuple[Parameter, ...] | None
    source: str


def documented_entries(path: Path) -> dict[str, Entry]:
    """Return what a checkout or a folder of pages documents, by name.

    A name with parameters replaces the same name without.

    Raises:
        SyntaxError: a stub is not Python.
    """
    entries: dict[str, Entry] = {}
    for entry in (*_summaries(path), *_stubs(path), *_pages(path)):
        earlier = entries.get(entry.name)
        if earlier is None or earlier.parameters is None:
            entries[entry.name] = entry
    return entries


def _stubs(path: Path) -> Iterator[Entry]:
    for file in sorted((path / STUBS).glob("**/__init__.py")):
        module = ".".join(file.parent.relative_to(path / SUMMARIES).parts)
        source = file.relative_to(path).as_posix()
        tree = ast.parse(file.read_text(encoding="utf-8"))
        yield from _members(tree.body, module, source)


def _members(body: list[ast.stmt], prefix: str, source: str) -> Iterator[Entry]:
    """Yield the public names of a module or a class; a method without its ``self``."""
    in_class = prefix.rpartition(".")[2][:1].isupper() or prefix.count(".") > 1
    for node in body:
        if isinstance(node, ast.FunctionDef):
            bound = in_class and not any(
                isinstance(decorator, ast.Name) and decorator.id == "staticmethod"
                for decorator in node.decorator_list
            )
            if not node.name.startswith("_"):
                yield Entry(f"{prefix}.{node.name}", _parameters(node.args, bound), source)
        elif isinstance(node, ast.ClassDef):
            if not node.name.startswith("_"):
                yield Entry(f"{prefix}.{node.name}", None, source)
                yield from _members(node.body, f"{prefix}.{node.name}", source)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name) and not target.id.startswith("_"):
                    yield Entry(f"{prefix}.{target.id}", None, source)


def _parameters(arguments: ast.arguments, is_bound: bool) -> tuple[Parameter, ...]:
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + [*arguments.defaults]
    parameters = [
        Parameter(argument.arg, None if default is None else ast.unparse(default))
        for argument, default in zip(positional, defaults, strict=True)
    ][int(is_bound) :]
    if arguments.vararg:
        parameters.append(Parameter(f"*{arguments.vararg.arg}"))
    parameters += [
        Parameter(argument.arg, None if default is None else ast.unparse(default), True)
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    if arguments.kwarg:
        parameters.append(Parameter(f"**{arguments.kwarg.arg}"))
    return tuple(parameters)


_MODULE = re.compile(r"^\.\. currentmodule:: (\S+)", re.MULTILINE)
_SUMMARY = re.compile(r"^\.\. autosummary::\n(?:   :.*\n)*\n((?:   [\w.]+ *\n?)+)", re.MULTILINE)


def _summaries(path: Path) -> Iterator[Entry]:
    for file in sorted((path / SUMMARIES).glob("*.rst")):
        text = file.read_text(encoding="utf-8")
        module = _MODULE.search(text)
        if module is None:
            continue
        for summary in _SUMMARY.finditer(text):
            for name in summary[1].split():
                dotted = name if name.startswith("nki.") else f"{module[1]}.{name}"
                yield Entry(dotted, None, file.relative_to(path).as_posix())


def _pages(path: Path) -> Iterator[Entry]:
    """Yield the signatures of HTML pages that Sphinx wrote (``<dt class="sig ..." id="NAME">``)."""
    for file in sorted(path.glob("**/*.html")):
        reader = _SignatureReader()
        reader.feed(file.read_text(encoding="utf-8", errors="replace"))
        for name, text in reader.signatures.items():
            if name.startswith("nki"):
                yield Entry(name, _signature(text), file.relative_to(path).as_posix())


class _SignatureReader(HTMLParser):
    """Collects the text of each signature by the name that it documents."""

    def __init__(self) -> None:
        super().__init__()
        self.signatures: dict[str, str] = {}
        self._name = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "dt" and "sig" in (attributes.get("class") or "").split():
            self._name = attributes.get("id") or ""
            if self._name:
                self.signatures[self._name] = ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "dt":
            self._name = ""

    def handle_data(self, data: str) -> None:
        if self._name:
            self.signatures[self._name] += data


_PLACEHOLDER = re.compile(r"<[^<>]*>")


def _signature(text: str) -> tuple[Parameter, ...] | None:
    """Return the parameters of a printed signature; None if it has none or is not Python.

    A default that Sphinx prints as ``<class 'x'>`` is read as the name ``x``.
    """
    start, end = text.find("("), text.rfind(")")
    if start < 0 or end < start:
        return None
    inner = _PLACEHOLDER.sub(_placeholder_name, text[start + 1 : end])
    try:
        node = ast.parse(f"def f({inner}): ...").body[0]
    except SyntaxError:
        return None
    assert isinstance(node, ast.FunctionDef)
    return _parameters(node.args, is_bound=False)


def _placeholder_name(match: re.Match[str]) -> str:
    words = re.findall(r"[A-Za-z_][\w.]*", match[0])
    return words[-1].rpartition(".")[2] if words else "None"
