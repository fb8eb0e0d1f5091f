"""Imports go down the layers only, and importing a package stays cheap and framework free."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = {"nki_lang": 1, "hlo_tools": 2, "neff": 3}
COMPAT = {path.name for path in (ROOT / "compat").iterdir() if path.is_dir()}
FRAMEWORKS = ("jax", "jaxlib", "torch", "torch_xla")
NEEDS_NKI_LANG = (
    "frameworks",
    "kernels",
    "cli",
    "extract",
    "pytest_plugin",
    "trace",
    "lint",
    "kernel_calls",
    "files",
    "store",
    "migrate",
)
"""The parts of hlo_tools that may look down into the kernel language."""


def imports_of(path: Path, *, dotted: bool = False) -> list[tuple[int, str]]:
    """(line, module) of every import in a file, lazy ones too.

    Args:
        dotted: return full module names instead of top-level packages.
    """
    modules: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            modules.append((node.lineno, node.module))
    return modules if dotted else [(line, name.split(".")[0]) for line, name in modules]


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("package", LAYERS)
def test_imports_go_down_only(package: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in sources(package)
        for line, name in imports_of(path)
        if LAYERS.get(name, 0) > LAYERS[package] or name in COMPAT
    ]
    assert not wrong, "\n".join(wrong)


def test_the_inside_of_execute_is_imported_by_execute_only() -> None:
    allowed = ("nki_lang.execute", "nki_lang.execute.checks", "nki_lang.execute.hosts")
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for package in (*LAYERS, "compat")
        for path in sources(package)
        if ROOT / "nki_lang" / "execute" not in path.parents
        for line, name in imports_of(path, dotted=True)
        if name.startswith("nki_lang.execute.") and name not in allowed
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", LAYERS)
def test_no_string_names_a_module_of_a_higher_layer(package: str) -> None:
    higher = [name for name, layer in LAYERS.items() if layer > LAYERS[package]]
    if not higher:
        return
    module_name = re.compile(rf"(?:{'|'.join(higher)})\.[a-z_][\w.]*(?::\w+)?")
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} names {node.value}"
        for path in sources(package)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and module_name.fullmatch(node.value)
    ]
    assert not wrong, "\n".join(wrong)


def test_nki_lang_needs_numpy_and_ml_dtypes_only() -> None:
    allowed = {"nki_lang", "numpy", "ml_dtypes"} | set(sys.stdlib_module_names)
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in sources("nki_lang")
        for line, name in imports_of(path)
        if name not in allowed
    ]
    assert not wrong, "\n".join(wrong)


def test_only_some_of_hlo_tools_knows_the_kernel_language() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sources("hlo_tools")
        for line, name in imports_of(path, dotted=True)
        if name.startswith("nki_lang")
        and not name.startswith("nki_lang.base")
        and path.relative_to(ROOT / "hlo_tools").parts[0].removesuffix(".py") not in NEEDS_NKI_LANG
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", LAYERS)
def test_import_brings_in_no_framework(package: str) -> None:
    code = f"import {package}, sys; print(sorted(set(sys.modules) & set({FRAMEWORKS!r})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


@pytest.mark.parametrize("package", LAYERS)
def test_import_stays_cheap(package: str) -> None:
    """Modules are counted; scripts/bench/bench_start.py has the milliseconds (bound 100)."""
    code = (
        "import numpy, ml_dtypes, sys; before = len(sys.modules);"
        f"import {package}; print(len(sys.modules) - before)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert int(done.stdout) < 10


def test_no_conflict_markers_are_left() -> None:
    suffixes = {".py", ".md", ".toml", ".cpp", ".h", ".json", ".yml", ".txt"}
    folders = [ROOT / name for name in (*LAYERS, "compat", "scripts", "tests", "docs", "examples")]
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in suffixes]
    marker = re.compile(r"^(<{7} |>{7} )", re.MULTILINE)
    conflicted = [path for path in [*files, *ROOT.glob("*.md")] if marker.search(path.read_text())]
    assert not conflicted, conflicted
