"""Random kernels beside a machine in plain Python, which shares nothing with the toolchain.

Usage: python scripts/fuzz/fuzz_oracle.py [--seed N] [--count N] [--minutes M] [--ways a,b]
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
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from children import Child
from driving import Driver, kind_of
from oracle.cells import Mark, fill
from oracle.draw import program
from oracle.machine import Expected, expected
from oracle.program import Program
from oracle.values import given

WAYS = ("simulate", "direct", "neff", "klir")
OUTSIDE = frozenset({"NKI-AP-BOUNDS", "NKI-INDEX", "NKI-OUT-OF-BOUNDS", "NEFF-EXEC-OUT-OF-BOUNDS"})
RULES = frozenset({"NKI-CAPACITY", "NEFF-CAPACITY"})
"""Codes of refusals that the generator does not avoid."""
_ZEROS = ("maximum", "minimum", "relu")
"""Operators whose zero has either sign when both zeros meet."""


def same(one: float, other: float, *, signs: bool) -> bool:
    """Equal numbers, NaN and the signs of zeros included."""
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return one == other and (not signs or math.copysign(1, one) == math.copysign(1, other))


class Fuzzer:
    """Runs programs in some ways and counts what comes out."""

    def __init__(self, ways: list[str]) -> None:
        self.ways = ways
        self.child = Child("oracle.running:serve_runs")
        self.counts: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.models: Counter[str] = Counter()

    def faults(self, made: Program, ways: list[str]) -> dict[str, str]:
        """What is wrong with each way that is wrong."""
        values = given(made)
        wanted = expected(made, values)
        kernel = made.kernel()
        arrays = [(values[one.name], one.shape, one.dtype) for one in kernel.arguments]
        found: dict[str, str] = {}
        for way in ways:
            answer = self.child.ask((kernel.source(), arrays, way))
            self.counts[way] += 1
            fault = self._difference(made, wanted, answer, way)
            if fault:
                found[way] = fault
        self.models[outcome(wanted)] += 1
        return found

    def _difference(self, made: Program, wanted: Expected, answer: dict[str, Any], way: str) -> str:
        refused = "error" in answer
        if refused and not answer["code"]:
            return answer["error"][:300]
        if refused:
            self.refusals[f"{way}: {answer['code']}"] += 1
            allowed = refusals(wanted, way) | RULES
            return "" if answer["code"] in allowed else f"refused: {answer['error'][:400]}"
        if wanted.outside:
            return f"is not refused, but leaves its tensor: {wanted.outside}"
        if way == "simulate" and wanted.unstarted:
            return f"is not refused: {wanted.unstarted}"
        if way == "simulate" and wanted.mark is Mark.YES:
            return "is not refused, but an unwritten element reaches a result"
        if wanted.unstarted or wanted.address:
            return ""
        return different(made, wanted, answer)

    def shrunk(self, made: Program, way: str, kind: str) -> Program:
        """The smallest program found with a fault of the same kind."""
        for smaller in made.smaller():
            fault = self.faults(smaller, [way]).get(way, "") if smaller.body else ""
            if fault and kind_of(fault)[:40] == kind:
                return self.shrunk(smaller, way, kind)
        return made


def outcome(wanted: Expected) -> str:
    """What the model says, in a word."""
    if wanted.outside or wanted.unstarted:
        return "outside" if wanted.outside else "unstarted"
    if wanted.address:
        return "unwritten reaches an index"
    return f"unwritten reaches a result: {wanted.mark.name.lower()}"


def refusals(wanted: Expected, way: str) -> frozenset[str]:
    """Codes with which a way may refuse the program."""
    if wanted.outside:
        return OUTSIDE
    if wanted.address:
        return OUTSIDE | {"NKI-UNINITIALISED"}
    if wanted.unstarted:  # what follows was not looked at
        return OUTSIDE | {"NKI-ACCUMULATION"}
    if way != "simulate":
        return frozenset()
    return frozenset({"NKI-UNINITIALISED"} if wanted.mark else ())


def different(made: Program, wanted: Expected, answer: dict[str, Any]) -> str:
    """The first element that differs.

    A result that depends on unwritten elements may also be called unwritten as a whole, and then
    holds what unwritten memory does (docs/simulator.md).
    """
    text = made.kernel().source()
    signs = not any(f"nl.{name}" in text for name in _ZEROS)
    for name, found, cells in zip(made.results, answer["results"], wanted.results, strict=True):
        if len(found) != len(cells):
            return f"{name} has {len(found)} elements, not {len(cells)}"
        for place, (one, other) in enumerate(zip(found, cells, strict=True)):
            rights = {other.value, fill(made.tensors[name].dtype)} if other.mark else {other.value}
            if not any(same(one, right, signs=signs) for right in rights):
                return f"{name}, element {place} is {one!r}, not {other.value!r}"
    for name, count in zip(made.results, wanted.unwritten, strict=True):
        told = answer.get("unwritten")
        if told is not None and told.get(name, 0) != count:
            return f"{name}: {told.get(name, 0)} elements are called unwritten, not {count}"
    return ""


def shown(made: Program) -> str:
    """The source, with what calls it."""
    values = given(made)
    arguments = [f"#   {one.name}: {one.dtype}{list(one.shape)} = {values[one.name][:40]}"
                 for one in made.kernel().arguments]  # fmt: skip
    return made.kernel().source() + "\n".join(arguments) + "\n"


def main() -> int:
    """Run from the command line."""
    driver = Driver(__doc__, ways=WAYS).parse()
    fuzzer = Fuzzer(driver.ways)
    for seed in driver.seeds():
        made = program(seed)
        for way, fault in fuzzer.faults(made, driver.ways).items():
            small = fuzzer.shrunk(made, way, kind_of(fault)[:40])
            told = fuzzer.faults(small, [way]).get(way, fault)
            source = shown(small)
            driver.found(
                {"seed": seed, "way": way, "fault": told, "source": source},
                f"# seed {seed}: {way}: {told}\n{source}", f"{seed}-{way}.py",
            )  # fmt: skip
    fuzzer.child.stop()
    return driver.finish("kernels", fuzzer.counts, refused=fuzzer.refusals, outcomes=fuzzer.models)


if __name__ == "__main__":
    sys.exit(main())
