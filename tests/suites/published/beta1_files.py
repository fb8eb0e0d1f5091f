"""Run one published file with kernels of NKI beta 1, by the convention that its repository follows.

==================== ==============================================================================
convention           how the file is run
==================== ==============================================================================
harness              ``# SUBSTITUTE HERE``: its ``test_nki`` compares its kernel with a solution
solution             a file below ``sols`` or ``examples``, put into the harness of its number
operator             ``kernel`` of a file, and ``NAME_..._numpy_N.py`` with inputs and a NumPy result
tests                pytest runs the file, or the test files that import it
script               the file, or a script that imports it, runs as ``__main__``
cases                arguments and NumPy results of :mod:`published.beta1_cases`
==================== ==============================================================================
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.suites.published.cases import module_at
from tests.suites.published.comparing import difference
from tests.suites.published.table import reason_of

__all__ = ["Outcome", "run_file"]

PLACEHOLDER = "# SUBSTITUTE HERE"
TOLERANCE = 1e-2
"""A share of the largest number: published references are float32, kernels of these files also bfloat16."""
_DIFFERENCE = re.compile(r"\bdiffer\b|does not match|do not match|\bmismatch|\bfail", re.IGNORECASE)
NO_TESTS = 5
"""Exit code of pytest when it selected no test."""
_CODE = re.compile(r"\[(NKI-[A-Z0-9-]+)\]")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one file.

    Attributes:
        kind: ``equal`` to its reference, ``traced`` (it ran; there is no reference), ``differs``,
            ``refused`` with a code, ``error`` without one, or ``no arguments``.
        convention: how the file was run.
        reason: of every kind but the first two.
    """

    kind: str
    convention: str
    reason: str = ""


class _Differs(Exception):
    """A kernel ran and its reference disagrees."""


class _NoArguments(Exception):
    """Nothing says how to call the file's kernels."""


def run_file(file: Path, checkout: Path, references: Path | None) -> Outcome:
    """Run the kernels of a file.

    Args:
        file: the Python file.
        checkout: the repository that contains it; scripts and tests that import it are looked for
            here.
        references: folder of operator references, or None.
    """
    text = file.read_text(encoding="utf-8", errors="replace")
    sys.path[:0] = [str(file.parent), str(checkout), str(checkout / "src")]
    for convention, run in _CONVENTIONS.items():
        request = SimpleNamespace(file=file, text=text, checkout=checkout, references=references)
        try:
            kind = run(request)
        except _NoArguments:
            continue
        except (_Differs, AssertionError) as error:
            return Outcome("differs", convention, reason_of(error))
        except Exception as error:  # every failure of a kernel is one line of the report
            return Outcome(_kind_of(str(error)), convention, reason_of(error))
        return Outcome(kind, convention)
    return Outcome("no arguments", "", "no harness, test, script or case calls its kernels")


def _kind_of(message: str) -> str:
    return "refused" if _CODE.search(message) else "error"


def _by_harness(request: SimpleNamespace) -> str:
    if PLACEHOLDER not in request.text:
        raise _NoArguments
    number = request.file.name.partition("_")[0]
    folder = request.checkout / "sols" / request.file.parent.name
    solutions = sorted(folder.glob(f"{number}_*.py"))
    _run_harness(request.text, solutions[0].read_text(encoding="utf-8") if solutions else "")
    return "equal"


def _by_solution(request: SimpleNamespace) -> str:
    names = (request.file.parent.name, f"{request.file.parent.name}-nki1")
    number = request.file.name.partition("_")[0]
    harnesses = [
        harness
        for name in names
        for harness in sorted((request.checkout / "harnesses" / name).glob(f"{number}_*.py"))
    ]
    if PLACEHOLDER in request.text or not harnesses:
        raise _NoArguments
    _run_harness(harnesses[0].read_text(encoding="utf-8"), request.text)
    return "equal"


def _run_harness(harness: str, solution: str) -> None:
    """Run ``test_nki`` of a harness; without a solution, its kernel is compared with itself."""
    called = re.search(r"test_nki\((\w+), *(\w+)\)", harness.partition("__main__")[2])
    if called is None:
        raise _NoArguments
    reference, tested = called.groups()
    solution = re.sub(r"^def test\(", f"def {tested}(", solution, flags=re.MULTILINE)
    with tempfile.TemporaryDirectory() as scratch:
        program = Path(scratch) / "harness.py"
        program.write_text(harness.replace(PLACEHOLDER, solution), encoding="utf-8")
        module = module_at(program)
        function = getattr(module, tested, None)
        if solution and function is None:
            raise _NoArguments
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            agrees = module.test_nki(
                getattr(module, reference), function or getattr(module, reference)
            )
        if not agrees:
            raise _Differs(f"test_nki is false: {output.getvalue()[-200:]}")


def _by_operator(request: SimpleNamespace) -> str:
    if request.references is None or not re.search(r"^def kernel\(", request.text, re.MULTILINE):
        raise _NoArguments
    stems = {re.split(r"_[A-Z]", path.stem)[0]: path for path in request.references.glob("*.py")}
    names = [re.split(r"_[A-Z]", request.file.stem)[0], *request.file.parts, request.file.stem]
    name = next((name for name in names if name in stems), None) or next(
        (
            stem
            for stem in sorted(stems, key=len, reverse=True)
            if request.file.stem.startswith(stem)
        ),
        None,
    )
    if name is None:
        raise _NoArguments
    reference = module_at(stems[name])
    inputs = reference.get_inputs()
    expected = reference.forward(*inputs)
    results = module_at(request.file).kernel(*reference.transform_to_nki_inputs(inputs))
    message = difference(
        reference.transform_nki_outputs(results, expected),
        list(expected) if isinstance(expected, tuple) else [expected],
        TOLERANCE,
    )
    if message:
        raise _Differs(message)
    return "equal"


def _by_cases(request: SimpleNamespace) -> str:
    from tests.suites.published.beta1_cases import cases_of

    cases = cases_of(request.file)
    if cases is None:
        raise _NoArguments
    has_reference = False
    for case in cases(module_at(request.file)):
        results = case.kernel(*case.args, **case.kwargs)
        message = difference(results, case.expected, case.tolerance)
        if message:
            raise _Differs(f"{case.name} {message}")
        has_reference = has_reference or any(array is not None for array in case.expected)
    return "equal" if has_reference else "traced"


def _by_tests(request: SimpleNamespace) -> str:
    """Run the file's tests, or those that import it, but not those of measured times."""
    is_test = request.file.name.startswith("test_") and re.search(r"def test_", request.text)
    files = [request.file] if is_test else [
        path for path in _importers(request) if path.name.startswith("test_")
    ]  # fmt: skip
    if not files:
        raise _NoArguments
    command = ["-m", "pytest", "-q", "-x", "--tb=short", "-p", "no:cacheprovider", "-k", "not perf",
               f"--rootdir={request.checkout}", *map(str, files)]  # fmt: skip
    _run_child(command)
    return "equal"


def _by_script(request: SimpleNamespace) -> str:
    """Run the file, or a script that imports it; silence is success."""
    files = [request.file] if "__main__" in request.text else [
        path
        for path in _importers(request)
        if "__main__" in path.read_text(encoding="utf-8", errors="replace")
    ]  # fmt: skip
    if not files:
        raise _NoArguments
    for path in files:
        _run_child([str(path)])
    return "equal"


def _run_child(arguments: list[str]) -> None:
    """Run Python; raise what its output says went wrong."""
    path = os.pathsep.join(sys.path)
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run(
            [sys.executable, *arguments], capture_output=True, text=True, cwd=scratch,
            env=dict(os.environ) | {"PYTHONPATH": path},
        )  # fmt: skip
    output = done.stdout + done.stderr
    lines = [line for line in output.splitlines() if line.strip()]
    if done.returncode == NO_TESTS and "pytest" in arguments:
        raise _NoArguments
    if done.returncode:
        failures = [line for line in lines if re.match(r"E  |\w+(\.\w+)*Error", line)]
        message = " ".join(
            (failures or lines)[:3] if "-m" in arguments else (failures or lines)[-2:]
        )
        is_difference = "AssertionError" in message or message.lstrip("E ").startswith("assert")
        raise (_Differs if is_difference else RuntimeError)(message)
    differences = [line for line in lines if _DIFFERENCE.search(line)]
    if differences:
        raise _Differs(differences[0])


def _importers(request: SimpleNamespace) -> Iterator[Path]:
    """Yield the files of the checkout that import the file, nearest first."""
    name = re.escape(request.file.stem)
    pattern = re.compile(rf"^\s*(from|import)\s+([\w.]*\.)?{name}\b", re.MULTILINE)
    folders = [request.file.parent, request.checkout / "test", request.checkout / "tests"]
    visited: set[Path] = set()
    for folder in folders:
        for path in sorted(
            folder.glob("**/*.py") if folder.name.startswith("test") else folder.glob("*.py")
        ):
            if path not in visited and path != request.file and "integration" not in path.parts:
                visited.add(path)
                if pattern.search(path.read_text(encoding="utf-8", errors="replace")):
                    yield path


_CONVENTIONS: dict[str, Any] = {
    "harness": _by_harness,
    "solution": _by_solution,
    "cases": _by_cases,
    "operator": _by_operator,
    "tests": _by_tests,
    "script": _by_script,
}
