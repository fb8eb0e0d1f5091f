"""Random HLO modules, evaluated, run by jaxlib, and put through whatever keeps what they compute.

Usage: python -m tests.fuzz.drivers.fuzz_hlo [--seed N] [--count N] [--minutes M] [--ways a,b] [--each N]
           [--keep FOLDER] [--json FILE]

Each module is evaluated beside jaxlib's CPU client, compiled for one target, and goes through
``--each`` further ways: text and files, passes, slices, kernel calls put in and out, other targets.
What keeps results keeps their bits; other results may differ by as much as they move when the
arguments are disturbed and each instruction rounds otherwise (``rounding.py``). A refusal with a code is no difference; another exception, a
hang, a module that is called invalid or becomes so, or a wrong value is. A difference is shrunk, and
kept as a text file in FOLDER. Exit code 1 when there was any.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from typing import Any

os.environ.update(OPENBLAS_NUM_THREADS="1", JAX_PLATFORMS="cpu", TF_CPP_MIN_LOG_LEVEL="3")

import numpy as np

from tests.fuzz.drivers.children import Child
from tests.fuzz.drivers.differing import STEP, difference, disturbed
from tests.fuzz.drivers.driving import Driver, chosen, find_faults, kind_of
from tests.fuzz.drivers.hlo_programs.generate import module
from tests.fuzz.drivers.hlo_programs.ways import WAYS
from tests.fuzz.drivers.programs import Program

Array = np.ndarray[Any, Any]

NAMES = ["jaxlib", *WAYS]
UNSIMPLIFIED = {
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_disable_hlo_passes=algsimp,fusion,constant_folding",
}
"""Options of jaxlib without algebraic simplification, fusions (LLVM treats an integer read as an
8-bit float as never NaN) and constant folding (it gives -1 -32 leading zeros). A difference
between jaxlib with and without them is no fault."""
TARGETS = ("trn1", "trn2", "trn3", "trn2 by chance")
"""One of these is taken always: what the compiler may get wrong is most of all."""


class Fuzzer:
    """Runs modules and counts what comes out."""

    def __init__(self) -> None:
        self.child = Child(
            "tests.fuzz.drivers.hlo_programs.ways:serve_modules", {"JAX_PLATFORMS": "cpu"}
        )
        self.oracle = Child(
            "tests.fuzz.drivers.hlo_programs.ways:serve_oracle", {"JAX_PLATFORMS": "cpu"}
        )
        self.unsimplified = Child("tests.fuzz.drivers.hlo_programs.ways:serve_oracle", UNSIMPLIFIED)
        self.runs: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()

    def faults(self, generated: Program, modes: list[str]) -> dict[str, str]:
        """Return the fault of each execution mode that has one."""
        arrays = generated.arrays()
        moved = [disturbed(arrays, number) for number in (1, 2)]
        ours = [mode for mode in modes if mode != "jaxlib"]
        answer = self.child.ask((generated.source(), arrays, moved, ours, generated.seed))
        if "error" in answer:
            return {modes[0]: f"evaluate: {answer['error'][:300]}"}
        fault_texts = {mode: self._by_sign(mode, answer, generated) for mode in ours}
        if "jaxlib" in modes:
            fault_texts["jaxlib"] = self._by_jaxlib(self.oracle, answer, generated)
            if fault_texts["jaxlib"]:
                fault_texts["jaxlib"] = self._by_jaxlib(self.unsimplified, answer, generated)
        return {mode: message for mode, message in fault_texts.items() if message}

    def _by_sign(self, mode: str, answer: dict[str, Any], generated: Program) -> str:
        """A target's results are right with either sign of the NaN that arithmetic makes, and of an
        extreme of zeros, in each element."""
        outcome = answer["found"][mode]
        message = self._way(mode, outcome, answer, generated)
        if message and mode in TARGETS and "error" not in outcome:
            mixed = _mixed(outcome["results"], [outcome["wanted"], *answer["signed"]])
            alternatives = [
                {**outcome, "wanted": expected} for expected in (*answer["signed"], mixed)
            ]
            if not all(
                self._way(mode, alternative, answer, generated) for alternative in alternatives
            ):
                return ""
        return message

    def _by_jaxlib(self, oracle: Child, answer: dict[str, Any], generated: Program) -> str:
        outcome = oracle.ask((answer["module"], generated.arrays()))
        if "error" in outcome:
            self.refusals[f"jaxlib: {outcome['error'][:40]}"] += 1
            return ""
        outcome = {"wanted": outcome["results"], "results": answer["wanted"]}
        message = self._way("jaxlib", outcome, answer, generated)
        if message:  # its own NaN have now one sign, now the other
            mixed = _mixed(outcome["wanted"], [answer["wanted"], *answer["signed"]])
            message = self._way("jaxlib", {**outcome, "results": mixed}, answer, generated)
        return message

    def _way(
        self, mode: str, outcome: dict[str, Any], answer: dict[str, Any], generated: Program
    ) -> str:
        self.runs[mode] += 1
        if "error" in outcome:
            if outcome["code"] not in WAYS[mode].refuses:
                return outcome["error"][:300]
            self.refusals[f"{mode}: {kind_of(outcome['error'])}"] += 1
            return ""
        if len(outcome["wanted"]) != len(outcome["results"]):
            return f"{len(outcome['results'])} results instead of {len(outcome['wanted'])}"
        exact = mode in WAYS and WAYS[mode].exact
        for number, (expected, result) in enumerate(
            zip(outcome["wanted"], outcome["results"], strict=True)
        ):
            if exact:
                message = (
                    ""
                    if _same_bits(expected, result)
                    else difference(expected, result, [expected]) or "bits differ"
                )
            else:
                shaken = [arrays[number] for arrays in answer["disturbed"]]
                # The device holds float64 as float32.
                narrow = 4e-6 if expected.dtype == np.float64 and mode != "jaxlib" else 0.0
                elementwise, signed = generated.is_plain, []
                if mode in TARGETS:
                    signed = [run[number] for run in answer["signed"]]
                    expected = _with_zeros(expected, result, signed)
                    if _is_periodic(generated, generated.results[number]):
                        shaken, elementwise = [], False
                message = difference(
                    expected, result, shaken, error=narrow, elementwise=elementwise, rounded=signed
                )
            if message:
                return f"result {number}: {message}"
        return ""


def _mixed(expected: list[Array], runs: list[list[Array]]) -> list[Array]:
    """Return the expected element where any run has it, else the element of the first run."""
    mixed = list(runs[0])
    for run in runs[1:]:
        for number, (wanted_value, result) in enumerate(zip(expected, run, strict=False)):
            if wanted_value.shape == result.shape == mixed[number].shape:
                mixed[number] = np.where(wanted_value == result, result, mixed[number])
    return mixed


def _is_periodic(generated: Program, result: str) -> bool:
    """Return True for the sine or cosine of an argument: a disturbed argument may give any value."""
    argument_names = {argument.value.name for argument in generated.arguments}
    return any(
        statement.result.name == result
        and statement.text.startswith(("sine(", "cosine("))
        and argument_names.issuperset(statement.uses)
        and statement.result.dtype in ("float32", "float16", "bfloat16")
        for statement in generated.statements
    )


def _with_zeros(expected: Array, result: Array, signed: list[Array]) -> Array:
    """Return the expected array with the result's zeros where either sign is right.

    Engines do not specify which of two zeros is the extreme."""
    if (
        expected.shape != result.shape
        or expected.dtype.name not in STEP
        or expected.dtype.kind == "c"
    ):
        return expected
    zeros = [result, *signed]
    signs = [np.signbit(array.astype(np.float64)) for array in signed]
    free = np.all([array == 0 for array in zeros], axis=0) & np.any(signs != signs[0], axis=0)
    return np.where(free, result, expected)


def _same_bits(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> bool:
    """Equal bits, or NaN in both."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    if left.tobytes() == right.tobytes():
        return True
    if left.dtype.kind in "iub" or "int" in left.dtype.name:
        return False
    kind = np.complex128 if left.dtype.kind == "c" else np.float64
    a, b = left.astype(kind), right.astype(kind)
    signs = np.signbit(a.real) == np.signbit(b.real)
    return bool(np.all((np.isnan(a) & np.isnan(b)) | ((a == b) & signs)))


def main() -> int:
    """Run from the command line."""
    driver, fuzzer = Driver(__doc__, ways=NAMES, extra_ways=6).parse(), Fuzzer()
    for seed in driver.seeds():
        modes = chosen(seed, driver.ways, driver.options.each, "jaxlib")
        target = TARGETS[seed % len(TARGETS)]
        if target in driver.ways and target not in modes:
            modes.append(target)
        find_faults(driver, fuzzer, module(seed), modes, ".hlo")
    fuzzer.child.stop()
    fuzzer.oracle.stop()
    fuzzer.unsimplified.stop()
    return driver.finish("modules", fuzzer.runs, refused=fuzzer.refusals)


if __name__ == "__main__":
    sys.exit(main())
