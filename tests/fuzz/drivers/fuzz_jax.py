"""Random JAX programs in every way of compiling them, beside jaxlib on the CPU.

Usage: python -m tests.fuzz.drivers.fuzz_jax [--seed N] [--count N] [--minutes M] [--ways a,b]
           [--each N] [--nests SHARE] [--keep FOLDER] [--json FILE]

A share of the seeds are loop nests (``loop_nests``): loops of all kinds in loops and branches, whose
bodies read and write the state around them, call kernels and index arrays. Their floats are integers
that no rounding changes, so that every result must be equal to jaxlib's and to that of an
interpreter in NumPy; none may be refused. ``--nests 1 --seed N --count 1`` shows one again.

Each program runs with two sets of data, in the evaluator and in ``--each`` further ways. Integers
and predicates must be equal; floats up to an error that follows from how far jaxlib's own results
move when the arguments are disturbed. A NEFF may refuse 64-bit
numbers that engines do not compute; any other exception, a hang, or a wrong value is a difference. A difference is shrunk, and kept as a Python file in FOLDER.
Exit code 1 when there was any.
"""

from __future__ import annotations

import os
import random
import re
import sys
from collections import Counter
from typing import Any

os.environ.update(OPENBLAS_NUM_THREADS="1", JAX_PLATFORMS="cpu", TF_CPP_MIN_LOG_LEVEL="3")

from tests.fuzz.drivers.children import Child
from tests.fuzz.drivers.differing import STEP, Array, difference, disturbed, unequal
from tests.fuzz.drivers.driving import Driver, chosen, find_faults, kind_of
from tests.fuzz.drivers.jax_programs.generate import program
from tests.fuzz.drivers.jax_programs.ways import WAYS, Request
from tests.fuzz.drivers.loop_nests.program import NestProgram, nest_program
from tests.fuzz.drivers.loop_nests.ways import WAYS as NEST_WAYS
from tests.fuzz.drivers.programs import Program

OURS = re.compile(r'File "[^"]*/(hlo_tools|neff|nki_lang)/')
"""A line of a traceback that is in one of our packages."""


class Fuzzer:
    """Runs programs and counts what comes out."""

    def __init__(self) -> None:
        self.child = Child(
            "tests.fuzz.drivers.jax_programs.ways:serve_programs", {"JAX_PLATFORMS": "cpu"}
        )
        self.runs: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.foreign: Counter[str] = Counter()

    def faults(self, generated: Program, modes: list[str]) -> dict[str, str]:
        """Return the fault of each execution mode that has one."""
        calls = [generated.arrays(0), generated.arrays(1)]
        modes = [mode for mode in modes if generated.is_smooth or not WAYS[mode].error]
        least = max((WAYS[mode].error for mode in modes), default=0.0)
        moved = [
            disturbed(call, number, error)
            for error in (0.0, least)
            for call in calls
            for number in (1, 2)
        ]
        asked = Request(generated.source(), generated.wide, calls, moved, modes)
        answer = self.child.ask(asked)
        if "error" in answer:
            return self._without_oracle(answer, asked._replace(disturbed=[], ways=[]), modes)
        self.runs.update(modes)
        fault_texts = {
            mode: self._way(mode, answer, elementwise=generated.is_plain) for mode in modes
        }
        wrong = [mode for mode in modes if fault_texts[mode]]
        if any("error" not in answer["found"][mode] for mode in wrong):
            cast = STEP["bfloat16"] if all(WAYS[mode].error for mode in wrong) else 0.0
            unsimplified = self.child.ask(asked._replace(ways=[], unsimplified=True, least=cast))
            if "error" not in unsimplified:
                unsimplified["found"] = answer["found"]
                fault_texts = {
                    mode: self._way(mode, unsimplified, elementwise=generated.is_plain)
                    for mode in wrong
                }
        return {mode: message for mode, message in fault_texts.items() if message}

    def _without_oracle(
        self, answer: dict[str, Any], alone: Request, modes: list[str]
    ) -> dict[str, str]:
        """Programs that JAX refuses, or that crash jaxlib by itself, are no faults of ours."""
        if OURS.search(answer["trace"]):
            return {modes[0]: answer["error"][:300]}
        self.foreign[answer["error"][:80]] += 1
        if not answer["error"].startswith(("hangs", "the process died")):
            return {}
        return {} if "error" in self.child.ask(alone) else {modes[0]: answer["error"]}

    def _way(self, mode: str, answer: dict[str, Any], *, elementwise: bool) -> str:
        outcome = answer["found"][mode]
        if "error" in outcome:
            if outcome["code"] not in WAYS[mode].refuses:
                return outcome["error"][:300]
            self.refusals[f"{mode}: {outcome['code']}: {kind_of(outcome['error'])}"] += 1
            return ""
        # Which of two zeros is the extreme, engines do not say.
        signs = mode == "evaluate" or not answer["extremes"]
        for call, (expected, results) in enumerate(
            zip(answer["wanted"], outcome["results"], strict=True)
        ):
            if len(expected) != len(results):
                return f"{len(results)} results instead of {len(expected)}"
            for number, (wanted_value, result) in enumerate(zip(expected, results, strict=True)):
                first = 2 * call + (4 if WAYS[mode].error else 0)
                rounded = [arrays[number] for arrays in answer["rounded"][call]]
                shaken = [arrays[number] for arrays in answer["disturbed"][first : first + 2]]
                error = WAYS[mode].error
                if wanted_value.dtype.name == "float64" and mode != "evaluate":
                    error = max(error, 4e-6)  # the device holds float64 as float32
                message = difference(
                    wanted_value, result, [*shaken, *rounded], error=error, elementwise=elementwise and not error,
                    signs=signs, rounded=rounded,
                )  # fmt: skip
                if message:
                    return f"call {call} result {number}: {message}"
        return ""


FAST_ORACLE = {
    "XLA_FLAGS": "--xla_backend_optimization_level=0"
    " --xla_disable_hlo_passes=fusion,cpu-instruction-fusion"
}
"""Exact numbers are the same in code that is not optimized, which jaxlib compiles in half the time."""


class NestFuzzer:
    """Runs loop nests; each result must be equal, and nothing may be refused."""

    def __init__(self) -> None:
        self.child = Child(
            "tests.fuzz.drivers.loop_nests.ways:serve_nests",
            {"JAX_PLATFORMS": "cpu", **FAST_ORACLE},
        )
        self.runs: Counter[str] = Counter()
        self.foreign: Counter[str] = Counter()

    def faults(self, program: NestProgram, modes: list[str]) -> dict[str, str]:
        """The fault of each way that is wrong.

        Where jaxlib differs from the interpreter, ways are compared with the interpreter: XLA skips
        a loop that counts by two from ``remainder(-3, 3)``. ``evaluate`` then runs beside them,
        so that two executors that know nothing of each other have to agree against jaxlib.
        """
        answer = self.child.ask(program.request([mode for mode in modes if mode != "jaxlib"]))
        if "error" in answer:
            return {"jaxlib": answer["error"][:300]}
        self.runs.update(f"nest {mode}" for mode in modes)
        expected = program.meant()
        if any(map(unequal, expected, answer["wanted"])):
            if "evaluate" not in modes:
                return self.faults(program, [*modes, "evaluate"])
            self.foreign["jaxlib differs from the interpreter of nests"] += 1
        results = {mode: _nest_fault(expected, answer["found"][mode]) for mode in answer["found"]}
        return {mode: message for mode, message in results.items() if message}


def _nest_fault(expected: list[list[Array]], answer: dict[str, Any]) -> str:
    if "error" in answer:
        return answer["error"][:300]
    for call, (wanted_value, results) in enumerate(zip(expected, answer["results"], strict=True)):
        message = unequal(wanted_value, results)
        if message:
            return f"call {call} {message}"
    return ""


def is_nest(seed: int, share: float) -> bool:
    """True when a seed gives a loop nest."""
    return random.Random(f"is a loop nest {seed}").random() < share


def main() -> int:
    """Run from the command line."""
    driver = Driver(__doc__, ways=list(dict.fromkeys([*WAYS, *NEST_WAYS])), extra_ways=2)
    driver.parser.add_argument("--nests", type=float, default=0.4, help="share of loop nests")
    driver.parse()
    fuzzer, nests = Fuzzer(), NestFuzzer()
    for seed in driver.seeds():
        nested = is_nest(seed, driver.options.nests)
        table = NEST_WAYS if nested else WAYS
        modes = [mode for mode in driver.ways if mode in table]
        modes = chosen(seed, modes, driver.options.each, "evaluate")
        if nested:
            find_faults(driver, nests, nest_program(seed), modes, ".py")
        else:
            find_faults(driver, fuzzer, program(seed), modes, ".py")
    fuzzer.child.stop()
    nests.child.stop()
    runs = fuzzer.runs + nests.runs
    foreign = fuzzer.foreign + nests.foreign
    return driver.finish("programs", runs, refused=fuzzer.refusals, foreign=foreign)


if __name__ == "__main__":
    sys.exit(main())
