"""Random kernels beside a machine in plain Python, which shares nothing with the toolchain.

Usage: python -m tests.fuzz.drivers.fuzz_oracle [--seed N] [--count N] [--minutes M] [--ways a,b]
           [--keep FOLDER] [--json FILE]

A kernel is data (``oracle/program.py``): it is printed as source for the toolchain, and executed
element by element on lists (``oracle/machine.py``), where an element that nothing wrote is None.
Every element of every result is compared, how many of them nothing wrote, and whether `simulate`
refuses the kernel: it must when an access leaves its partition, a product accumulates onto nothing
or an unwritten element reaches a result, and must not otherwise. Exit code 1 when something
differs.
"""

from __future__ import annotations

import math
import os
import sys
from collections import Counter
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"

from tests.fuzz.drivers.children import Child
from tests.fuzz.drivers.driving import Driver, kind_of
from tests.fuzz.drivers.oracle.cells import Mark, fill
from tests.fuzz.drivers.oracle.draw import program
from tests.fuzz.drivers.oracle.machine import Expected, expected
from tests.fuzz.drivers.oracle.program import Program
from tests.fuzz.drivers.oracle.values import given

WAYS = ("simulate", "direct", "neff", "klir")
OUTSIDE = frozenset({"NKI-AP-BOUNDS", "NKI-INDEX", "NKI-OUT-OF-BOUNDS", "NEFF-EXEC-OUT-OF-BOUNDS"})
RULES = frozenset({"NKI-CAPACITY", "NEFF-CAPACITY"})
"""Codes of refusals that the generator does not avoid."""
_ZEROS = ("maximum", "minimum", "relu")
"""Operators whose zero has either sign when both zeros meet."""


def same(left: float, right: float, *, signs: bool) -> bool:
    """Equal numbers, NaN and the signs of zeros included."""
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    return left == right and (not signs or math.copysign(1, left) == math.copysign(1, right))


class Fuzzer:
    """Runs programs in some ways and counts what comes out."""

    def __init__(self, ways: list[str]) -> None:
        self.ways = ways
        self.child = Child("tests.fuzz.drivers.oracle.running:serve_runs")
        self.counts: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.models: Counter[str] = Counter()

    def faults(self, generated: Program, modes: list[str]) -> dict[str, str]:
        """Return the fault of each execution mode that has one."""
        values = given(generated)
        reference = expected(generated, values)
        kernel = generated.kernel()
        arrays = [
            (values[argument.name], argument.shape, argument.dtype) for argument in kernel.arguments
        ]
        faults_by_way: dict[str, str] = {}
        for mode in modes:
            answer = self.child.ask((kernel.source(), arrays, mode))
            self.counts[mode] += 1
            fault = self._difference(generated, reference, answer, mode)
            if fault:
                faults_by_way[mode] = fault
        self.models[outcome(reference)] += 1
        return faults_by_way

    def _difference(
        self, generated: Program, reference: Expected, answer: dict[str, Any], mode: str
    ) -> str:
        refused = "error" in answer
        if refused and not answer["code"]:
            return answer["error"][:300]
        if refused:
            self.refusals[f"{mode}: {answer['code']}"] += 1
            allowed = refusals(reference, mode) | RULES
            return "" if answer["code"] in allowed else f"refused: {answer['error'][:400]}"
        if reference.outside:
            return f"is not refused, but leaves its tensor: {reference.outside}"
        if mode == "simulate" and reference.unstarted:
            return f"is not refused: {reference.unstarted}"
        if mode == "simulate" and reference.mark is Mark.YES:
            return "is not refused, but an unwritten element reaches a result"
        if reference.unstarted or reference.address:
            return ""
        return different(generated, reference, answer)

    def shrunk(self, generated: Program, mode: str, kind: str) -> Program:
        """The smallest program found with a fault of the same kind."""
        for smaller in generated.smaller():
            fault = self.faults(smaller, [mode]).get(mode, "") if smaller.body else ""
            if fault and kind_of(fault)[:40] == kind:
                return self.shrunk(smaller, mode, kind)
        return generated


def outcome(reference: Expected) -> str:
    """Return the model's outcome in a word."""
    if reference.outside or reference.unstarted:
        return "outside" if reference.outside else "unstarted"
    if reference.address:
        return "unwritten reaches an index"
    return f"unwritten reaches a result: {reference.mark.name.lower()}"


def refusals(reference: Expected, mode: str) -> frozenset[str]:
    """Codes with which a way may refuse the program."""
    if reference.outside:
        return OUTSIDE
    if reference.address:
        return OUTSIDE | {"NKI-UNINITIALISED"}
    if reference.unstarted:  # what follows was not looked at
        return OUTSIDE | {"NKI-ACCUMULATION"}
    if mode != "simulate":
        return frozenset()
    return frozenset({"NKI-UNINITIALISED"} if reference.mark else ())


def different(generated: Program, reference: Expected, answer: dict[str, Any]) -> str:
    """The first element that differs.

    A result that depends on unwritten elements may also be called unwritten as a whole, and then
    holds what unwritten memory does (docs/simulator.md).
    """
    text = generated.kernel().source()
    signs = not any(f"nl.{name}" in text for name in _ZEROS)
    for name, elements, cells in zip(
        generated.results, answer["results"], reference.results, strict=True
    ):
        if len(elements) != len(cells):
            return f"{name} has {len(elements)} elements, not {len(cells)}"
        for position, (element, cell) in enumerate(zip(elements, cells, strict=True)):
            rights = (
                {cell.value, fill(generated.tensors[name].dtype)} if cell.mark else {cell.value}
            )
            if not any(same(element, right, signs=signs) for right in rights):
                return f"{name}, element {position} is {element!r}, not {cell.value!r}"
    for name, count in zip(generated.results, reference.unwritten, strict=True):
        message = answer.get("unwritten")
        if message is not None and message.get(name, 0) != count:
            return f"{name}: {message.get(name, 0)} elements are called unwritten, not {count}"
    return ""


def shown(generated: Program) -> str:
    """The source, with what calls it."""
    values = given(generated)
    arguments = [f"#   {argument.name}: {argument.dtype}{list(argument.shape)} = {values[argument.name][:40]}"
                 for argument in generated.kernel().arguments]  # fmt: skip
    return generated.kernel().source() + "\n".join(arguments) + "\n"


def main() -> int:
    """Run from the command line."""
    driver = Driver(__doc__, ways=WAYS).parse()
    fuzzer = Fuzzer(driver.ways)
    for seed in driver.seeds():
        generated = program(seed)
        for mode, fault in fuzzer.faults(generated, driver.ways).items():
            small = fuzzer.shrunk(generated, mode, kind_of(fault)[:40])
            message = fuzzer.faults(small, [mode]).get(mode, fault)
            source = shown(small)
            driver.found(
                {"seed": seed, "way": mode, "fault": message, "source": source},
                f"# seed {seed}: {mode}: {message}\n{source}", f"{seed}-{mode}.py",
            )  # fmt: skip
    fuzzer.child.stop()
    return driver.finish("kernels", fuzzer.counts, refused=fuzzer.refusals, outcomes=fuzzer.models)


if __name__ == "__main__":
    sys.exit(main())
