"""Random HLO modules, evaluated, run by jaxlib, and put through whatever keeps what they compute.

Usage: python scripts/fuzz/fuzz_hlo.py [--seed N] [--count N] [--minutes M] [--ways a,b] [--each N]
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
from pathlib import Path
from typing import Any

os.environ.update(OPENBLAS_NUM_THREADS="1", JAX_PLATFORMS="cpu", TF_CPP_MIN_LOG_LEVEL="3")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
from children import Child
from differing import STEP, difference, disturbed
from driving import Driver, chosen, find_faults, kind_of
from hlo_programs.generate import module
from hlo_programs.ways import WAYS
from programs import Program

Array = np.ndarray[Any, Any]

NAMES = ["jaxlib", *WAYS]
UNSIMPLIFIED = {
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_disable_hlo_passes=algsimp,fusion,constant_folding",
}
"""Of jaxlib without its algebraic simplification, its fusions (in which LLVM takes an integer as a
float of 8 bits for a number that is never NaN) and its folding of constants (which gives -1 -32
leading zeros); a difference that it has with itself is none."""
TARGETS = ("trn1", "trn2", "trn3", "trn2 by chance")
"""One of these is taken always: what the compiler may get wrong is most of all."""


class Fuzzer:
    """Runs modules and counts what comes out."""

    def __init__(self) -> None:
        self.child = Child("hlo_programs.ways:serve_modules", {"JAX_PLATFORMS": "cpu"})
        self.oracle = Child("hlo_programs.ways:serve_oracle", {"JAX_PLATFORMS": "cpu"})
        self.unsimplified = Child("hlo_programs.ways:serve_oracle", UNSIMPLIFIED)
        self.runs: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()

    def faults(self, made: Program, ways: list[str]) -> dict[str, str]:
        """What is wrong with each way that is wrong."""
        arrays = made.arrays()
        moved = [disturbed(arrays, number) for number in (1, 2)]
        ours = [one for one in ways if one != "jaxlib"]
        answer = self.child.ask((made.source(), arrays, moved, ours, made.seed))
        if "error" in answer:
            return {ways[0]: f"evaluate: {answer['error'][:300]}"}
        found = {way: self._by_sign(way, answer, made) for way in ours}
        if "jaxlib" in ways:
            found["jaxlib"] = self._by_jaxlib(self.oracle, answer, made)
            if found["jaxlib"]:
                found["jaxlib"] = self._by_jaxlib(self.unsimplified, answer, made)
        return {way: told for way, told in found.items() if told}

    def _by_sign(self, way: str, answer: dict[str, Any], made: Program) -> str:
        """A target's results are right with either sign of the NaN that arithmetic makes, and of an
        extreme of zeros, in each element."""
        given = answer["found"][way]
        told = self._way(way, given, answer, made)
        if told and way in TARGETS and "error" not in given:
            mixed = _mixed(given["results"], [given["wanted"], *answer["signed"]])
            others = [{**given, "wanted": wanted} for wanted in (*answer["signed"], mixed)]
            if not all(self._way(way, other, answer, made) for other in others):
                return ""
        return told

    def _by_jaxlib(self, oracle: Child, answer: dict[str, Any], made: Program) -> str:
        given = oracle.ask((answer["module"], made.arrays()))
        if "error" in given:
            self.refusals[f"jaxlib: {given['error'][:40]}"] += 1
            return ""
        given = {"wanted": given["results"], "results": answer["wanted"]}
        told = self._way("jaxlib", given, answer, made)
        if told:  # its own NaN have now one sign, now the other
            mixed = _mixed(given["wanted"], [answer["wanted"], *answer["signed"]])
            told = self._way("jaxlib", {**given, "results": mixed}, answer, made)
        return told

    def _way(self, way: str, given: dict[str, Any], answer: dict[str, Any], made: Program) -> str:
        self.runs[way] += 1
        if "error" in given:
            if given["code"] not in WAYS[way].refuses:
                return given["error"][:300]
            self.refusals[f"{way}: {kind_of(given['error'])}"] += 1
            return ""
        if len(given["wanted"]) != len(given["results"]):
            return f"{len(given['results'])} results instead of {len(given['wanted'])}"
        exact = way in WAYS and WAYS[way].exact
        for number, (want, result) in enumerate(
            zip(given["wanted"], given["results"], strict=True)
        ):
            if exact:
                told = (
                    ""
                    if _same_bits(want, result)
                    else difference(want, result, [want]) or "bits differ"
                )
            else:
                shaken = [arrays[number] for arrays in answer["disturbed"]]
                # The device holds float64 as float32.
                narrow = 4e-6 if want.dtype == np.float64 and way != "jaxlib" else 0.0
                each, signed = made.is_plain, []
                if way in TARGETS:
                    signed = [one[number] for one in answer["signed"]]
                    want = _with_zeros(want, result, signed)
                    if _is_periodic(made, made.results[number]):
                        shaken, each = [], False
                told = difference(want, result, shaken, error=narrow, each=each, rounded=signed)
            if told:
                return f"result {number}: {told}"
        return ""


def _mixed(wanted: list[Array], runs: list[list[Array]]) -> list[Array]:
    """Of several runs' elements those that are wanted, else those of the first run."""
    found = list(runs[0])
    for run in runs[1:]:
        for number, (want, one) in enumerate(zip(wanted, run, strict=False)):
            if want.shape == one.shape == found[number].shape:
                found[number] = np.where(want == one, one, found[number])
    return found


def _is_periodic(made: Program, result: str) -> bool:
    """Whether a result is the sine or cosine of an argument: a moved one may give any other value."""
    given = {one.value.name for one in made.arguments}
    return any(
        one.made.name == result
        and one.text.startswith(("sine(", "cosine("))
        and given.issuperset(one.uses)
        and one.made.dtype in ("float32", "float16", "bfloat16")
        for one in made.statements
    )


def _with_zeros(want: Array, result: Array, signed: list[Array]) -> Array:
    """What is wanted, with the result's zeros where either sign is right: engines do not say which of
    two zeros is the extreme."""
    if want.shape != result.shape or want.dtype.name not in STEP or want.dtype.kind == "c":
        return want
    zeros = [result, *signed]
    signs = [np.signbit(one.astype(np.float64)) for one in signed]
    free = np.all([one == 0 for one in zeros], axis=0) & np.any(signs != signs[0], axis=0)
    return np.where(free, result, want)


def _same_bits(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    """Equal bits, or NaN in both."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.tobytes() == other.tobytes():
        return True
    if one.dtype.kind in "iub" or "int" in one.dtype.name:
        return False
    kind = np.complex128 if one.dtype.kind == "c" else np.float64
    a, b = one.astype(kind), other.astype(kind)
    signs = np.signbit(a.real) == np.signbit(b.real)
    return bool(np.all((np.isnan(a) & np.isnan(b)) | ((a == b) & signs)))


def main() -> int:
    """Run from the command line."""
    driver, fuzzer = Driver(__doc__, ways=NAMES, each=6).parse(), Fuzzer()
    for seed in driver.seeds():
        ways = chosen(seed, driver.ways, driver.options.each, "jaxlib")
        target = TARGETS[seed % len(TARGETS)]
        if target in driver.ways and target not in ways:
            ways.append(target)
        find_faults(driver, fuzzer, module(seed), ways, ".hlo")
    fuzzer.child.stop()
    fuzzer.oracle.stop()
    fuzzer.unsimplified.stop()
    return driver.finish("modules", fuzzer.runs, refused=fuzzer.refusals)


if __name__ == "__main__":
    sys.exit(main())
