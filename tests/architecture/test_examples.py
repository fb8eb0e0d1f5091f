"""Examples that Hypothesis draws: the same in every run of CI, others each night."""

from __future__ import annotations

import subprocess
import sys

import pytest

IMPORTS = ((), ("hlo_tools.passes",), ("neff.timing.parameter_table", "hlo_tools.trace"))
"""Modules of the checkout that tests import: Hypothesis would draw their constants."""


@pytest.mark.parametrize(("profile", "digests"), [("project", 1), ("night", len(IMPORTS))])
def test_examples_depend_on_imports_only_at_night(
    profile: str, digests: int, python_environment: dict[str, str]
) -> None:
    command = [sys.executable, "-m", "tests.architecture.drawn_examples", profile]
    runs = [
        subprocess.Popen(
            [*command, *modules], env=python_environment, stdout=subprocess.PIPE, text=True
        )
        for modules in IMPORTS
    ]
    outputs = {run.communicate()[0] for run in runs}
    assert [run.returncode for run in runs] == [0] * len(IMPORTS)
    assert len(outputs) == digests
