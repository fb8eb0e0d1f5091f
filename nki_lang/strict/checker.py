"""Checks a file or a kernel object against the strict subset."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nki_lang.base.errors import NkiFileError, NkiValidationError
from nki_lang.base.versions import VERSIONS
from nki_lang.strict.modules import Definition, Module, Modules
from nki_lang.strict.reach import kernels_in, reachable
from nki_lang.strict.rules import RULES
from nki_lang.strict.syntax import Match, matches
from nki_lang.strict.versions import VERSION_RULES, parses, version_matches

__all__ = ["Violation", "check_file", "check_kernel"]


@dataclass(frozen=True, slots=True, order=True)
class Violation:
    """One construct that the compiler's language lacks.

    Attributes:
        file, line, column: the location; lines and columns start at 1.
        code: ``NKI-STRICT-...``.
        message: the construct.
        why: the reason for the refusal.
        instead: how to write it.
        function: the function or class that contains it.
        severity: ``error``, or ``warning`` if the compiler accepts it with a warning.
    """

    file: str
    line: int
    column: int
    code: str
    message: str
    why: str
    instead: str
    function: str
    severity: str

    def __str__(self) -> str:
        return (
            f"{self.file}:{self.line}:{self.column}: {self.severity}[{self.code}] {self.message}"
            f" in {self.function}: {self.why}\n  help: {self.instead}"
        )

    def to_dict(self) -> dict[str, Any]:
        """The violation as plain data."""
        return {name: getattr(self, name) for name in self.__slots__}


def check_file(
    path: str | Path, names: Sequence[str] = (), *, version: str = ""
) -> list[Violation]:
    """Check kernels of a file, and everything that they call, without running anything.

    Args:
        path: a Python file.
        names: functions to start from; all that ``nki.jit`` decorates when there are none.
        version: "0.6" or "0.7" for the rules and names of that version, of which 0.7 takes any
            Python; "" for the strict subset alone.

    Raises:
        NkiFileError: the file cannot be read, or a file that it uses is not Python.
        NkiValidationError: code ``NKI-STRICT-NO-KERNEL``: there is no such function, or no
            kernel at all. Code ``NKI-VERSION``: an unknown version.
    """
    _require_version(version)
    modules = Modules()
    module = modules.open(Path(path))
    roots = [_function(module, name) for name in names] if names else kernels_in(module)
    if not roots:
        raise NkiValidationError(
            f"{path} has no kernel", code="NKI-STRICT-NO-KERNEL",
            remedy="decorate one with @nki.jit, or name the functions",
        )  # fmt: skip
    return _check(roots, modules, str(path), version)


def _require_version(version: str) -> None:
    if version not in ("", *VERSIONS):
        raise NkiValidationError(
            f"NKI version {version!r}", code="NKI-VERSION",
            remedy=f"versions with rules are {', '.join(VERSIONS)}",
        )  # fmt: skip


def check_kernel(kernel: Any, *, version: str = "") -> list[Violation]:
    """Check a kernel object or function and everything that it calls.

    Args:
        kernel: a kernel or a plain function.
        version: as for :func:`check_file`.

    Raises:
        NkiValidationError: code ``NKI-STRICT-NO-SOURCE``; its source is not in a file. Code
            ``NKI-VERSION``: an unknown version.
    """
    _require_version(version)
    func = inspect.unwrap(getattr(kernel, "func", kernel))
    func = getattr(func, "__func__", func)
    try:
        path = inspect.getsourcefile(func)
        line = func.__code__.co_firstlineno
        modules = Modules()
        module = modules.open(Path(path or ""))
    except (TypeError, AttributeError, OSError, NkiFileError) as error:
        raise NkiValidationError(
            f"the source of {getattr(func, '__name__', kernel)!s} is not in a file",
            code="NKI-STRICT-NO-SOURCE", remedy="define the kernel in a module",
        ) from error  # fmt: skip
    nodes = [
        node
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef)
        and node.name == func.__name__
        and line in (node.lineno, *(decorator.lineno for decorator in node.decorator_list))
    ]
    if not nodes:
        raise NkiValidationError(
            f"{func.__name__} is no longer in {path}", code="NKI-STRICT-NO-SOURCE",
            remedy="import it again",
        )  # fmt: skip
    return _check([Definition(module, nodes[0])], modules, str(path), version)


def _function(module: Module, name: str) -> Definition:
    node = module.definitions.get(name)
    if node is None:
        kernel_names = ", ".join(definition.node.name for definition in kernels_in(module))
        raise NkiValidationError(
            f"{module.path.name} has no function {name!r}", code="NKI-STRICT-NO-KERNEL",
            remedy=f"its kernels are {kernel_names}" if kernel_names else "it has no kernels",
        )  # fmt: skip
    return Definition(module, node)


def _check(
    roots: Iterable[Definition], modules: Modules, shown_name: str, version: str = ""
) -> list[Violation]:
    """``shown``: how the first file is called in the findings."""
    roots = list(roots)
    first = roots[0].module.path
    violations = [
        _violation(definition, match, shown_name if definition.module.path == first else None)
        for definition in reachable(roots, modules)
        for match in _matches(definition, version)
    ]
    return sorted(set(violations))


def _matches(definition: Definition, version: str) -> Iterator[Match]:
    if parses(version):
        yield from matches(definition)
    else:  # a version takes any Python, but no kernel of beta 1
        yield from (match for match in matches(definition) if match.code == "OLD-API")
    if version:
        yield from version_matches(definition, version)


def _violation(definition: Definition, match: Match, shown_name: str | None) -> Violation:
    rule = RULES.get(match.code) or VERSION_RULES[match.code]
    node = match.node
    details = match.details
    return Violation(
        file=shown_name or str(definition.module.path),
        line=getattr(node, "lineno", definition.node.lineno),
        column=getattr(node, "col_offset", 0) + 1,
        code=f"NKI-STRICT-{rule.code}",
        message=_filled(rule.what, details),
        why=_filled(rule.why, details[1:]),
        instead=_filled(rule.instead, details[-1:]),
        function=definition.node.name,
        severity="warning" if rule.warning else "error",
    )


def _filled(text: str, details: Sequence[str]) -> str:
    return text.format(*details) if "{}" in text else text
