"""The suite's selections: quick tests cover every module, and slow tests state their reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.imports import modules, top_module

ROOT = Path(__file__).resolve().parents[2]
QUICK = ROOT / "tests" / "quick.txt"
PACKAGES = ["nki_lang", "hlo_tools", "neff"]


def quick() -> dict[str, list[str]]:
    """Test file -> ``package/module`` of every module that it covers."""
    by_file: dict[str, list[str]] = {}
    for line in QUICK.read_text().splitlines():
        if line.startswith("#"):
            continue
        file, *words = line.split()
        package = words[0].rstrip(":") if words else ""
        by_file[file] = [f"{package}/{name}" for name in words[1:]]
    return by_file


def marks(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """(name, expression) of each ``pytest.mark.NAME`` or ``pytest.mark.NAME(...)``."""
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pytest.mark":
            yield node.attr, called.get(id(node), node)


def says_why(mark: ast.expr) -> bool:
    reasons = mark.args[:1] if isinstance(mark, ast.Call) else []
    return any(
        isinstance(reason, ast.Constant) and len(str(reason.value)) > 10 for reason in reasons
    )


def test_quick_covers_every_module() -> None:
    covered = {name for names in quick().values() for name in names}
    expected = {
        f"{package}/{top_module(module, package)}"
        for package in PACKAGES
        for module in modules(package)
        if module != package
    }
    assert covered == expected


def test_quick_names_files_that_exist() -> None:
    assert [file for file in quick() if not (ROOT / file.partition("::")[0]).exists()] == []


def test_quick_selects_no_test_of_a_module_that_is_skipped() -> None:
    """pytest stops with "found no collectors" where an optional package is missing."""
    files = [file for file, _, test in (entry.partition("::") for entry in quick()) if test]
    assert [file for file in files if skips_itself(ast.parse((ROOT / file).read_text()))] == []


def skips_itself(tree: ast.Module) -> bool:
    """True if importing the module can skip it: ``pytest.importorskip`` or ``pytest.skip``."""
    statements = [
        node for node in tree.body if not isinstance(node, (ast.FunctionDef, ast.ClassDef))
    ]
    return any("skip(" in ast.unparse(node) for node in statements)


def test_slow_tests_say_why() -> None:
    silent = [
        f"{path.relative_to(ROOT)}:{mark.lineno}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for name, mark in marks(ast.parse(path.read_text()))
        if name == "slow" and not says_why(mark)
    ]
    assert not silent, "\n".join(silent)
