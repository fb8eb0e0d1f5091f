"""``help()`` of instructions: generated from the instruction table, with examples that run."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

import nki_lang
from nki_lang.isa.table import TABLE
from scripts.reference.docstrings import documented, files, rewritten
from scripts.reference.examples import EXAMPLES, TARGETS, kernel_of
from scripts.reference.language import EXAMPLES as OF_LANGUAGE

FAMILY = {2: "trn1", 3: "trn2", 4: "trn3"}


@pytest.mark.parametrize("file", list(files()), ids=lambda file: file.stem)
def test_docstrings_are_those_of_the_table(file: Path) -> None:
    assert file.read_text() == rewritten(file), "run: python -m scripts.reference"


def test_every_function_has_an_example() -> None:
    assert documented().keys() == EXAMPLES.keys() | OF_LANGUAGE.keys()


def test_the_docstring_is_what_help_shows() -> None:
    module, _ = documented()["tensor_scalar"]
    shown = inspect.getdoc(module.tensor_scalar)
    assert shown is not None
    for text in ("Args:", "operand0: a number, or a tile", "Engines: ", "Source: ", "Example"):
        assert text in shown
    assert "Any" not in str(inspect.signature(module.tensor_scalar))


@pytest.mark.parametrize("name", EXAMPLES | OF_LANGUAGE)
def test_example_runs(name: str, tmp_path: Path) -> None:
    function = kernel_of(name, (EXAMPLES | OF_LANGUAGE)[name], tmp_path)
    target = FAMILY[max(TABLE[name].minimum if name in EXAMPLES else 3, 3)]
    kernel = nki_lang.jit(function, platform_target=target)
    if name in TARGETS:
        kernel = kernel[TARGETS[name]]
    x = np.linspace(-1, 1, 128 * 512, dtype=np.float32).reshape(128, 512)
    assert nki_lang.simulate(kernel, checks=())(x).shape == (128, 512)
    if name in EXAMPLES:
        traced = nki_lang.trace(function, (x,), target=target, grid=TARGETS.get(name, ()))
        assert name in str(traced)
