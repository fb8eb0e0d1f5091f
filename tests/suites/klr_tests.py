"""Run the front end's conformance tests of KLR (``interop/test``) on this tracer.

Its tests hand functions to KLR's own parser through the package ``klr``; here a package of that
name traces them instead, writes the kernel file where the test wants it, and runs them eagerly, as
a NEFF and as a custom call in JAX::

    python -m tests.suites.klr_tests <KLR checkout> [--ways simulate,neff,jax] [--json results.json] \\
        [-- -k name]

A function that the tests want refused must be refused by the tracer and by the simulator. KLR
evaluates a language of its own, so some functions mean something else in Python: those are
named in ``NOT_PYTHON`` with the reason and deselected.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.suites.published.table import Result, print_table, reason_of, write_json
from tests.suites.published.ways import WAYS

WAYS_VARIABLE, RECORDS_VARIABLE = "KLR_TESTS_WAYS", "KLR_TESTS_RECORDS"
ROOT = Path(__file__).resolve().parents[2]

NOT_PYTHON = {
    "test_basic.py::test_succeed[undefined_ok]": "a name that nobody defines may be called there",
    "test_class.py::test_succeed[overload2]": "comparisons have reflected methods there",
    "test_dict.py::test_succeed[expr_dict]": "an empty dict is true there",
    "test_dict.py::test_succeed[items]": "a dict's items() is a list there",
    "test_dict.py::test_succeed[keys]": "a dict's keys() is a list there",
    "test_dict.py::test_succeed[values]": "a dict's values() is a list there",
    "test_dict.py::test_succeed[pop]": "dict.pop of an absent key gives None there",
    "test_dict.py::test_succeed[dict_len]": "dict.pop of an absent key gives None there",
    "test_dyn_ap.py::test_dynamic_ap": "a kernel that is named like a test",
    "test_dyn_ap.py::test_dyn_ap_fail": "a kernel that is named like a test",
    "test_dyn_ap.py::test_fail[test_dyn_ap_fail]": "an integer scalar_offset is a runtime index there",
    "test_dyn_ap.py::test_succeed[test_dynamic_ap]": "its pattern leaves the tensor, which we refuse",
    "test_enum.py::test_succeed[enum1]": "members are made by calling the class there",
    "test_fstr.py::test_succeed[fstr2]": "an object is printed with its fields there",
    "test_fstr.py::test_succeed[fstr4]": "a list is printed without spaces there",
    "test_fstr.py::test_succeed[fstr5]": "a tuple is printed without spaces there",
    "test_fstr.py::test_succeed[fstr6]": "a dict is printed without quotes there",
    "test_list.py::test_succeed[expr_list]": "missing arguments are invented there",
    "test_list.py::test_succeed[count]": "list.count(x) is the length there",
    "test_list.py::test_succeed[index]": "list.index of an absent value gives None there",
    "test_list.py::test_succeed[remove]": "list.remove removes every such value there",
    "test_memory.py::test_succeed[pointers]": "sbuf and psum are pointers without an import there",
    "test_memory.py::test_succeed[views]": "sbuf and psum are pointers without an import there",
}

FRONTEND = """
from tests.suites.klr_tests import Kernel
"""


class Kernel:
    """A function with KLR's calling form: ``specialize`` runs it, ``trace`` writes the file."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self._kernel: Any = None

    def specialize(self, args: Any = (), kwargs: Any = None, *_: Any) -> str:
        """Trace the function and run it in the other ways; what went wrong as JSON."""
        from nki_lang.kernel import Kernel as Traced

        function = self.function
        traced = function if isinstance(function, Traced) else Traced(function)
        reasons = {"trace": self._trace(traced, tuple(args or ()), dict(kwargs or {}))}
        for mode in os.environ[WAYS_VARIABLE].split(","):
            if mode == "simulate" or not reasons["trace"]:
                reasons[mode] = _attempt(mode, traced, tuple(args or ()), dict(kwargs or {}))
        unwanted = "::test_fail" in os.environ["PYTEST_CURRENT_TEST"]
        _record(reasons, unwanted)
        wrong = list(filter(None, reasons.values()))
        if unwanted and not all(reasons[mode] for mode in reasons if mode in ("trace", "simulate")):
            wrong = []
        return json.dumps({"errors": wrong, "warnings": []})

    def _trace(self, traced: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        try:
            self._kernel = traced.trace(args, kwargs)
        except Exception as error:
            if isinstance(error, AssertionError) and error.__traceback__ is None:
                raise
            return reason_of(error)
        return ""

    def trace(self, location: str) -> str:
        """Write the kernel file."""
        from nki_lang import klir

        if self._kernel is None:
            return json.dumps({"errors": ["not specialised"]})
        klir.write(self._kernel, location)
        return json.dumps({"errors": []})

    def __call__(self) -> None:
        errors = json.loads(self.specialize())["errors"]
        if errors:
            raise RuntimeError(errors[0])


def _attempt(mode: str, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    try:
        WAYS[mode](kernel, *copy.deepcopy((args, kwargs)))
    except Exception as error:
        return reason_of(error)
    return ""


def _record(reasons: dict[str, str], unwanted: bool) -> None:
    test = os.environ["PYTEST_CURRENT_TEST"].partition(" ")[0]
    with open(os.environ[RECORDS_VARIABLE], "a", encoding="utf-8") as file:
        for mode, reason in reasons.items():
            good = bool(reason) == unwanted
            why = "" if good else reason or "was not refused"
            result = Result(
                test.partition("::")[0], test, mode, "passed" if good else "failed", why
            )
            file.write(json.dumps(asdict(result)) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--ways", default="simulate,neff,jax", help=f"of {', '.join(WAYS)}")
    parser.add_argument("--json", type=Path, help="write every result to this file")
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:split])
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "klr"
        package.mkdir()
        (package / "__init__.py").write_text("from nki_lang.language import NKIObject\n")
        (package / "frontend.py").write_text(FRONTEND)
        location = Path(folder) / "conformance"  # beside its own klr package, that would be found
        shutil.copytree(options.checkout.resolve() / "interop" / "test", location)
        records = Path(folder) / "records"
        paths = [folder, ROOT, ROOT / "compat", location]
        environment = dict(os.environ) | {
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            WAYS_VARIABLE: options.ways, RECORDS_VARIABLE: str(records),
        }  # fmt: skip
        skipped = [f"--deselect={name}" for name in NOT_PYTHON]
        command = [
            sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider",
            "--rootdir", str(location), *skipped, *words[split + 1 :],
        ]  # fmt: skip
        code = subprocess.run(command, cwd=location, env=environment).returncode
        lines = records.read_text(encoding="utf-8").splitlines() if records.exists() else []
    results = [Result(**json.loads(line)) for line in lines]
    if results:
        print_table(results, ["trace", *options.ways.split(",")])
    if options.json:
        write_json(results, options.json)
    # Some of its tests throw away what specialize found wrong.
    return code or int(any(result.outcome == "failed" for result in results))


if __name__ == "__main__":
    sys.exit(main())
