"""Each pass before and after, as text that a person can review.

A file holds cases between lines ``// -----``; a case is a line ``// -p PIPELINE``, the module
before, a line ``// becomes``, and the module after. ``pytest --update`` writes the latter anew.
What a text cannot show (numbers, ids, refusals) is in ``test_NAME_OF_THE_PASS.py``.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hlo_tools import Module
from hlo_tools.kernels.backend_config import decode
from hlo_tools.passes import SEPARATOR, Pipeline, registered_passes
from hlo_tools.text import parse, print_module

GOLDEN = Path(__file__).parent / "golden"
FILES = sorted(GOLDEN.glob("*.hlo"))
BECOMES = "// becomes"
CONFIGURATION = re.compile(r'backend_config="([A-Za-z0-9+/=]+)"')
ON_KERNELS = {"embed", "expand", "replace", "swap"}
"""Passes that need kernel files: those of the fixture ``folder``."""


def rewritten(case: str) -> str:
    """A case with the text that the pipeline makes of it now."""
    head, _, tail = case.strip().partition("\n")
    before = tail.partition(BECOMES)[0]
    assert head.startswith("// -p "), head
    module = Module(parse(before))
    Pipeline.parse(head.removeprefix("// -p ")).run(module, verify_each=True)
    after = CONFIGURATION.sub(described, print_module(module.proto).strip())
    return f"{head}\n{before}{BECOMES}\n{after}\n"


def described(match: re.Match[str]) -> str:
    """A call's configuration in words, without the folder of the kernel's file."""
    config = decode(match[1])
    embedded = config.extra_binary.get("nki_hlo_embedded", {}).get("files", {})
    inside = f", with {' and '.join(embedded)} inside" if embedded else ""
    return f"backend_config=<{config.func_name} of {Path(config.binary).name}{inside}>"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_before_and_after(file: Path, update_golden: bool, request: pytest.FixtureRequest) -> None:
    if file.stem in ON_KERNELS:
        request.getfixturevalue("folder")
    cases = file.read_text().split(SEPARATOR + "\n")
    text = f"\n{SEPARATOR}\n".join(rewritten(case) for case in cases)
    if update_golden:
        file.write_text(text)
    assert text == file.read_text()


def test_every_pass_has_a_file() -> None:
    assert {file.stem for file in FILES} == set(registered_passes())
