"""Drivers of suites that are not in this repository can fail: wrong values are never excused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fuzz.drivers.differing import difference as fuzz_difference
from tests.fuzz.drivers.driving import Driver
from tests.suites.jax_suite.children import Found
from tests.suites.jax_suite.outcomes import aside, reason_of
from tests.suites.jax_tests import Row
from tests.suites.published.comparing import difference

ROOT = Path(__file__).resolve().parents[2]

NAN, INF = float("nan"), float("inf")


def kind(test: str, outcome: str, reason: str = "") -> str:
    return Row("linalg", "linalg_test", "neff", Found(test, outcome, reason)).kind


@pytest.mark.parametrize("outcome", ["wrong", "foreign", "bug", "crash", "hang"])
def test_a_name_excuses_no_failure(outcome: str) -> None:
    for test in ("LinalgTest.testEigh", "RandomTest.testMultivariateNormal", "A.testNorm"):
        assert kind(test, outcome, "AssertionError: not equal") == outcome
        assert kind(test, outcome, "NEFF-F64 arithmetic on float64") == outcome


def test_refusals_of_float64_and_decompositions_are_aside() -> None:
    assert kind("A.testAdd", "refused", "NEFF-F64 arithmetic on float64") == "aside"
    assert kind("A.testQr", "refused", "NEFF-CUSTOM-CALL target 'lapack_sgeqrf'") == "aside"
    assert kind("A.testQr", "refused", "NEFF-SHAPE too large") == "refused"
    assert not aside("passed", "NEFF-F64")


def test_a_refusal_that_was_handled_excuses_no_wrong_value() -> None:
    with pytest.raises(AssertionError) as caught:
        try:
            raise ValueError("[NEFF-F64] complex numbers")
        except ValueError:
            np.testing.assert_allclose([1.0], [2.0])
    assert reason_of(caught.value)[0] == "wrong"
    assert reason_of(ValueError("[NEFF-F64] complex numbers"))[0] == "refused"


@pytest.mark.parametrize(
    ("result", "expected", "report"),
    [
        ([1.0, NAN], [1.0, 2.0], "not finite"),
        ([1.0, INF], [1.0, 2.0], "not finite"),
        ([1.0, 2.0], [1.0, NAN], "is finite"),
        ([INF], [-INF], "another infinity"),
        ([], [1.0], "0 elements instead of 1"),
        ([1.0], [1.0, 2.0], "1 elements instead of 2"),
        ([1.0, 2.1], [1.0, 2.0], "differs by 0.1"),
        ([0.0, 1e-9], [0.0, 0.0], "differs by"),
        ([NAN, INF, 2.001], [NAN, INF, 2.0], ""),
    ],
)
def test_published_kernels_are_compared_element_by_element(
    result: list[float], expected: list[float], report: str
) -> None:
    message = difference(np.array(result), [np.array(expected)], 1e-2)
    assert report in message if report else message == ""
    assert difference((), [np.array(expected)], 1e-2) == "0 results instead of 1"


def test_a_prefix_is_only_compared_when_that_is_stated() -> None:
    result, expected = np.array([1.0]), np.array([1.0, 2.0])
    assert difference(result, [expected], 1e-2, is_prefix=True) == ""
    assert difference(expected, [result], 1e-2, is_prefix=True)


def test_a_cast_excuses_no_integer_and_no_nan() -> None:
    """An integer may differ only where rounding moves it; an overflow needs large results."""
    expected, moved = np.array([3, 4]), np.array([3, 5])
    assert fuzz_difference(expected, np.array([7, 4]), [expected, moved], error=0.1)
    assert fuzz_difference(expected, np.array([3, 6]), [expected, moved], error=0.1) == ""
    small, nan = np.array([1.0, 2.0]), np.array([1.0, NAN])
    assert fuzz_difference(small, nan, [], error=0.1)
    assert fuzz_difference(np.array([1.0, 1e30]), nan, [], error=0.1) == ""


def test_a_driver_that_compared_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["fuzz", "--count", "0"])
    driver = Driver("A driver.").parse()
    assert list(driver.seeds()) == []
    assert driver.finish("programs", {}) == 2 and driver.finish("programs", {"way": 1}) == 0


@pytest.mark.parametrize(
    "words", [["tests.suites.xla_simplifier", "EMPTY"], ["tests.suites.jax_tests", "EMPTY"]]
)
def test_a_folder_without_tests_is_an_error(words: list[str], tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        *(str(tmp_path) if word == "EMPTY" else word for word in words),
    ]
    done: Any = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr
