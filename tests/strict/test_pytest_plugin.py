"""The pytest plugin, on test files of its own."""

from __future__ import annotations

from pathlib import Path

import nki
import numpy
import pytest

import nki_lang.execute
import nki_lang.strict

LOADED = (numpy, nki, nki_lang.execute, nki_lang.strict)
"""Imported beforehand: the inner runs forget what they import, and NumPy loads once only."""

pytest_plugins = ["pytester"]

KERNELS = """
import numpy as np
import nki, nki.isa as nisa, nki.language as nl

@nki.jit
def clean(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.dma_copy(dst=out, src=x)
    return out

@nki.jit
def wasteful(a):
    out = clean(a)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    x[...] = 0.0
    return out

A = np.ones((4, 8), np.float32)
"""


@pytest.fixture
def folder(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(checked_kernels=KERNELS)
    return pytester


def run(folder: pytest.Pytester, *options: str) -> pytest.RunResult:
    plugins = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    return folder.runpytest_inprocess(*plugins, "-p", "hlo_tools.pytest_plugin", *options)


def test_fixture(folder: pytest.Pytester) -> None:
    folder.makepyfile(
        """
        from checked_kernels import *
        def test_clean(nki_check):
            assert (nki_check(clean, A) == A).all()
            nki_check.strict(clean)
        def test_wasteful(nki_check):
            nki_check(wasteful, A)
        def test_chosen(nki_check):
            nki_check(wasteful, a=A, nki_checks="finite", nki_target="trn1")
        def test_strict(nki_check):
            nki_check.strict(wasteful)
        """
    )
    result = run(folder)
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        ["*checked_kernels.py:16: *NKI-UNUSED*", "*NKI-STRICT-TILE-ASSIGN*"]
    )


def test_options(folder: pytest.Pytester) -> None:
    folder.makepyfile(
        """
        from checked_kernels import *
        def test_clean():
            nki.simulate(clean)(A)
        def test_wasteful():
            nki.simulate(wasteful)(A)
        def test_called():
            wasteful(A)
        """
    )
    run(folder).assert_outcomes(passed=3)
    checked = run(folder, "--nki-checks", "unused,finite")
    checked.assert_outcomes(passed=3, errors=2)
    checked.stdout.fnmatch_lines(["*NKI-UNUSED*"])
    strict = run(folder, "--nki-strict")
    strict.assert_outcomes(passed=3, errors=2)
    strict.stdout.no_fnmatch_line("*NKI-UNUSED*")


def test_the_fixture_reports_once(folder: pytest.Pytester) -> None:
    folder.makepyfile(
        """
        from checked_kernels import *
        def test_wasteful(nki_check):
            nki_check(wasteful, A)
        """
    )
    run(folder, "--nki-checks", "all").assert_outcomes(failed=1)


def test_checks_that_do_not_exist(folder: pytest.Pytester) -> None:
    folder.makepyfile("def test_nothing():\n    pass\n")
    result = run(folder, "--nki-checks", "magic")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--nki-checks: there is no check 'magic'; checks are overlap,*"])


def test_entry_point() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert '"hlo_tools.pytest_plugin" = "hlo_tools.pytest_plugin"' in text
