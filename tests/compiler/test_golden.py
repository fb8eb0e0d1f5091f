"""The kernels that each opcode becomes, as text that a person can review.

``golden/OPCODE.hlo`` is a line ``// -t TARGET``, a module, a line ``// becomes``, and the text of
the kernels in order. ``pytest --update`` writes the latter anew; ``test_golden_numbers.py``
runs the modules, and the other files of this folder check numbers against JAX.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from neff.compiler.coverage import coverage
from tests.compiler.lowered import kernels_of

FILES = {file.stem: file for file in sorted((Path(__file__).parent / "golden").glob("*.hlo"))}
BECOMES = "// becomes"
WITH_FILES = {"custom-call"}
"""It needs a kernel's file: test_compile.py."""


@pytest.mark.parametrize("opcode", FILES)
def test_kernels(opcode: str, update_golden: bool) -> None:
    golden = FILES[opcode].read_text()
    head, _, tail = golden.partition("\n")
    module = tail.partition(BECOMES)[0].strip()
    kernels = kernels_of(module, head.removeprefix("// -t "))
    text = f"{head}\n{module}\n{BECOMES}\n{kernels}\n"
    if update_golden:
        FILES[opcode].write_text(text)
    assert f" {opcode}(" in module
    assert text == golden or update_golden


def test_every_covered_opcode_has_a_file() -> None:
    assert set(FILES) == set(coverage()) - WITH_FILES
