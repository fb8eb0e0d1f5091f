"""Run the front end's conformance tests of KLR (``interop/test``) on this tracer.

Its tests hand functions to KLR's own parser through the package ``klr``; here a package of that
name traces them instead and writes the kernel file where the test wants it::

    python scripts/klr_tests.py <KLR checkout> [-- -k name]

KLR evaluates a language of its own, so some functions mean something else in Python: those are
named in ``NOT_PYTHON`` with the reason and deselected.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

NOT_PYTHON = {
    "test_class.py::test_succeed[overload2]": "comparisons have reflected methods there",
    "test_dict.py::test_succeed[expr_dict]": "an empty dict is true there",
    "test_dict.py::test_succeed[items]": "a dict's items() is a list there",
    "test_dict.py::test_succeed[keys]": "a dict's keys() is a list there",
    "test_dict.py::test_succeed[values]": "a dict's values() is a list there",
    "test_dict.py::test_succeed[pop]": "dict.pop of an absent key gives None there",
    "test_dict.py::test_succeed[dict_len]": "dict.pop of an absent key gives None there",
    "test_dyn_ap.py::test_dynamic_ap": "a kernel that is named like a test",
    "test_dyn_ap.py::test_dyn_ap_fail": "a kernel that is named like a test",
    "test_dyn_ap.py::test_succeed[test_dynamic_ap]": "its pattern leaves the tensor, which we refuse",
    "test_enum.py::test_succeed[enum1]": "members are made by calling the class there",
    "test_list.py::test_succeed[expr_list]": "missing arguments are invented there",
    "test_list.py::test_succeed[count]": "list.count(x) is the length there",
    "test_list.py::test_succeed[index]": "list.index of an absent value gives None there",
    "test_list.py::test_succeed[remove]": "list.remove removes every such value there",
    "test_memory.py::test_succeed[pointers]": "sbuf and psum are pointers without an import there",
    "test_memory.py::test_succeed[views]": "sbuf and psum are pointers without an import there",
}

FRONTEND = """
from klr_tests import Kernel
"""


class Kernel:
    """A function with KLR's calling form: ``specialize`` traces it, ``trace`` writes the file."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self._kernel: Any = None

    def specialize(self, args: Any = (), kwargs: Any = None, *_: Any) -> str:
        """Trace the function; what went wrong as JSON."""
        from nki_lang.kernel import Kernel as Traced

        function = self.function
        traced = function if isinstance(function, Traced) else Traced(function)
        try:
            self._kernel = traced.trace(tuple(args or ()), kwargs)
        except Exception as error:
            if isinstance(error, AssertionError) and error.__traceback__ is None:
                raise
            return json.dumps({"errors": [f"{type(error).__name__}: {error}"], "warnings": []})
        return json.dumps({"errors": [], "warnings": []})

    def trace(self, place: str) -> str:
        """Write the kernel file."""
        from nki_lang import klir

        if self._kernel is None:
            return json.dumps({"errors": ["not specialised"]})
        klir.write(self._kernel, place)
        return json.dumps({"errors": []})

    def __call__(self) -> None:
        errors = json.loads(self.specialize())["errors"]
        if errors:
            raise RuntimeError(errors[0])


def main() -> int:
    if len(sys.argv) < 2:
        print((__doc__ or "").strip())
        return 2
    tests = Path(sys.argv[1]).resolve() / "interop" / "test"
    extra = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else []
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "klr"
        package.mkdir()
        (package / "__init__.py").write_text("from nki_lang.language import NKIObject\n")
        (package / "frontend.py").write_text(FRONTEND)
        copy = Path(folder) / "conformance"  # beside its own klr package, that would be found
        shutil.copytree(tests, copy)
        paths = [folder, ROOT, ROOT / "compat", ROOT / "scripts", copy]
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(map(str, paths)))
        skipped = [f"--deselect={name}" for name in NOT_PYTHON]
        command = [
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(copy),
            *skipped, *extra,
        ]  # fmt: skip
        return subprocess.run(command, cwd=copy, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
