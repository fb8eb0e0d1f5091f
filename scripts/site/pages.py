"""The site's pages: those of the repository with links that fit, and generated ones."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hlo_tools.cli.shared.codes import Code, codes
from scripts.reference.surface import MODULES, members, public, signature
from scripts.site.costs import cost_of

__all__ = ["ROOT", "api_pages", "code_pages", "copied"]

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"`[^`\n]*`|(?<!!)\[([^\]]+)\]\(([^)#\s]*)(#[^)\s]*)?\)")
"""A link, or code, in which the same characters are a call: ``kernel[4, 2](x)``."""
_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Rules|Yields):$")


def copied() -> Iterator[tuple[str, str]]:
    """(name, text) of every page of the repository."""
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
    files += sorted((ROOT / "docs").glob("*.md"))
    names = {file: "index.md" if file.name == "README.md" else file.name for file in files}
    for file, name in names.items():
        yield name, _LINK.sub(lambda match, file=file: _link(match, file, names), file.read_text())


def _link(match: re.Match[str], file: Path, names: dict[Path, str]) -> str:
    if match[1] is None:  # code
        return match[0]
    text, path, anchor = match[1], match[2], match[3] or ""
    if "://" in path or not path:
        return match[0]
    target = Path(os.path.normpath(file.parent / path))
    if target in names:
        return f"[{text}]({names[target]}{anchor})"
    assert target.exists(), f"{file.name}: {path} does not exist"
    return f"{text} (`{target.relative_to(ROOT)}` in the repository)"


def code_pages() -> Iterator[tuple[str, str]]:
    """One page for each family of codes."""
    families: dict[str, list[Code]] = {}
    for code, entry in codes().items():
        families.setdefault(re.split("[-_]", code)[0], []).append(entry)
    for family, rows in families.items():
        parts = [f"# Codes {family}\n\n`nki-hlo explain CODE` prints the same.\n"]
        yield f"codes/{family.lower()}.md", "\n".join(parts + [_code(row) for row in rows])
    listed = "\n".join(f"{family.lower()}" for family in families)
    yield "codes/index.md", f"# Codes\n\n```{{toctree}}\n:maxdepth: 2\n\n{listed}\n```\n"


def _code(entry: Code) -> str:
    text = f"## {entry.code}\n\n**{_plain(entry.title)}**\n\n"
    text += f"{_plain(entry.why)}\n\n" if entry.why else ""
    text += f"- Remedy: {_plain(entry.remedy)}.\n" if entry.remedy else ""
    text += f"- Found by: `{entry.command}`\n" if entry.command else ""
    text += f"- Targets: {entry.targets}\n" if entry.targets != "all" else ""
    text += f"- Severity: {entry.severity}\n" if entry.severity != "error" else ""
    return text + (f"- Example: `{entry.test}`\n" if entry.test else "")


def _plain(text: str) -> str:
    return re.sub(r"([<>*_\[\]{}|])", r"\\\1", text) if "`" not in text else text


def api_pages() -> Iterator[tuple[str, str]]:
    """One page for each public module: its functions (instructions), classes, constants, errors."""
    for module in MODULES:
        parts = [f"# {module}\n"]
        for name, value in sorted(public(module), key=lambda entry: _kind_rank(entry[1])):
            parts.append(_entry(module, name, value))
        yield f"api/{module}.md", "\n".join(parts)
    listed = "\n".join(MODULES)
    yield "api/index.md", f"# API\n\n```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n"


def _kind_rank(value: Any) -> int:
    """Return the position of a kind of name on a page: readers look for functions first."""
    if isinstance(value, type):
        return 3 if issubclass(value, BaseException) else 1
    return 0 if callable(value) else 2


def _entry(module: str, name: str, value: Any) -> str:
    text = f"## {name}\n\n"
    if not callable(value):
        return (
            f"{text}A constant: `{value!r}`.\n" if len(repr(value)) < 80 else f"{text}A constant.\n"
        )
    text += f"```python\n{name}{signature(value)}\n```\n\n{markdown(inspect.getdoc(value) or '')}\n"
    text += cost_of(name) if module == "nki.isa" else ""
    if isinstance(value, type) and not issubclass(value, BaseException):
        # Properties come first: they say what an object holds (a module: its instructions).
        entries = sorted(members(value), key=lambda entry: not isinstance(entry[1], property))
        for member, what in entries:
            shown = "" if isinstance(what, property) else signature(what)
            text += f"\n### {name}.{member}\n\n`{member}{shown}`\n\n"
            text += markdown(inspect.getdoc(what) or "") + "\n"
    return text


def markdown(doc: str) -> str:
    """A docstring (Google's sections, roles and double backquotes of RST) as Markdown."""
    out: list[str] = []
    section = code = False
    for line in doc.splitlines():
        if code and line and not line.startswith("    "):
            out.append("```")
            code = False
        if code:
            out.append(line.removeprefix("    "))
            continue
        if _SECTION.match(line):
            out += ["", f"**{line.removesuffix(':')}**", ""]
            section = True
            continue
        if line.rstrip().endswith("::"):
            out += [_inline(line.rstrip()[:-1]), "", "```python"]
            code = True
            continue
        section = section and (line.startswith("    ") or not line)
        item = section and re.match(r"    \S", line)
        out.append(("- " if item else "  " if section and line else "") + _inline(line.strip()))
    return "\n".join(out + ["```"] * code)


def _inline(text: str) -> str:
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text).replace("``", "`")
    parts = text.split("`")
    return "`".join(
        piece if number % 2 else re.sub(r"([<>*_\[\]{}])", r"\\\1", piece)
        for number, piece in enumerate(parts)
    )
