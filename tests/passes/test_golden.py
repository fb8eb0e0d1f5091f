"""Each pass before and after, as text that a person can review.

A file holds cases between lines ``// -----``; a case is a line ``// -p PIPELINE``, the module
before, a line ``// becomes``, and the module after. ``pytest --update`` writes the latter anew.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hlo_tools import Module
from hlo_tools.passes import SEPARATOR, Pipeline, registered_passes
from hlo_tools.text import parse, print_module

GOLDEN = Path(__file__).parent / "golden"
FILES = sorted(GOLDEN.glob("*.hlo"))
BECOMES = "// becomes"
ON_KERNELS = {"embed", "expand", "replace", "swap"}
"""Passes that need kernel files; tests/kernel_calls has them."""


def rewritten(case: str) -> str:
    """A case with the text that the pipeline makes of it now."""
    head, _, rest = case.strip().partition("\n")
    before = rest.partition(BECOMES)[0]
    assert head.startswith("// -p "), head
    module = Module(parse(before))
    Pipeline.parse(head.removeprefix("// -p ")).run(module, verify_each=True)
    return f"{head}\n{before}{BECOMES}\n{print_module(module.proto).strip()}\n"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_before_and_after(file: Path, update_golden: bool) -> None:
    cases = file.read_text().split(SEPARATOR + "\n")
    found = f"\n{SEPARATOR}\n".join(rewritten(case) for case in cases)
    if update_golden:
        file.write_text(found)
    assert found == file.read_text()


def test_every_pass_has_a_file() -> None:
    assert {file.stem for file in FILES} == set(registered_passes()) - ON_KERNELS
