"""Random kernels in every way of running them: each must give what ``simulate`` gives.

Usage: python scripts/fuzz/fuzz_kernels.py [--seed N] [--count N] [--minutes M] [--ways a,b]
           [--keep FOLDER] [--json FILE]

Each kernel is called three times in each way: with some data and constants, with others, and with
the first again; results are compared bit for bit (all NaN are one), and the first results are
looked at once more after the last call. A way may refuse what it cannot hold (``REFUSED``),
nothing else. A kernel that the tracer refuses loses statements until it is taken. Some arrays of some kernels are read-only: a kernel that writes one must be refused, and
leave it as it was. A difference is shrunk, and kept as a Python file in FOLDER. Exit code 1 when a way
differs, hangs, or raises anything but such an error.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import ml_dtypes
import numpy as np
from children import Child
from driving import Driver
from kernels.generate import kernel
from kernels.maker import INTEGERS
from kernels.program import Argument, GeneratedKernel
from kernels.ways import ENVIRONMENTS, WAYS, Call

EDGES = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.5,
    np.inf,
    -np.inf,
    np.nan,
    1e-40,
    -1e-45,
    65504.0,
    3e38,
    -448.0,
)
REFUSED = frozenset({
    "WAY-UNAVAILABLE", "NKI-WRITE-LOST", "NKI-OP-MUTATES", "NKI-READ-ONLY", "NKI-SHARED", "NKI-DTYPE",
    "NEFF-DTYPE", "NEFF-INT64", "NKI-CAPACITY", "NEFF-CAPACITY", "NEFF-SBUF", "NKI-UNINITIALISED",
})  # fmt: skip
"""Codes with which a way may refuse a kernel: what it cannot hold or keep; `simulate`, what reads unwritten memory."""


def values(argument: Argument, chance: np.random.Generator) -> np.ndarray[Any, Any]:
    """An array of an argument's kind, a tenth of it edge values."""
    if argument.limits is not None:
        return chance.integers(*argument.limits, argument.shape).astype(argument.dtype)
    if argument.dtype == "bool":
        return chance.random(argument.shape) < 0.5
    if argument.dtype in (*INTEGERS, "int64", "uint64"):
        info = np.iinfo(argument.dtype)
        small = chance.integers(max(info.min, -20), 20, argument.shape).astype(argument.dtype)
        wide = chance.integers(info.min, info.max, argument.shape, argument.dtype, endpoint=True)
        return np.where(chance.random(argument.shape) < 0.8, small, wide)
    kind = np.dtype(getattr(ml_dtypes, argument.dtype, argument.dtype))
    plain = chance.standard_normal(argument.shape) * chance.choice([0.1, 1.0, 4.0])
    edges = chance.choice(np.array(EDGES), argument.shape)
    mixed = np.where(chance.random(argument.shape) < chance.choice([0.0, 0.1]), edges, plain)
    with np.errstate(all="ignore"):
        return mixed.astype(kind)


def calls_of(made: GeneratedKernel) -> tuple[Call, Call]:
    """The two calls of a kernel."""
    chance = np.random.default_rng(made.seed)
    first, second = (
        Call([values(one, chance) for one in made.arguments],
             {name: pair[number] for name, pair in made.constants.items()})
        for number in (0, 1)
    )  # fmt: skip
    for one, other in itertools.combinations(range(len(made.arguments)), 2):
        fits = first.arrays[one].shape == first.arrays[other].shape
        if (
            fits
            and made.arguments[one].dtype == made.arguments[other].dtype
            and chance.random() < 0.2
        ):
            for call in (first, second):
                call.arrays[other] = call.arrays[one]  # the same array twice
    return first, second


def frozen_of(made: GeneratedKernel) -> frozenset[int]:
    """The arrays of a kernel's calls that are read-only; in the arguments' order."""
    chance = np.random.default_rng((made.seed, 13))
    return frozenset(np.flatnonzero(chance.random(len(made.arguments)) < 0.15).tolist())


def writes_frozen(made: GeneratedKernel, call: Call) -> bool:
    """Whether the kernel writes a read-only array, by whatever name."""
    locked = {id(call.arrays[index]) for index in call.frozen}
    pairs = zip(made.arguments, call.arrays, strict=True)
    return any(made.is_written(one) and id(array) in locked for one, array in pairs)


def same(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    """Equal bits, or NaN in both; of booleans equal truth values."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.dtype == bool:  # unwritten ones have all bits set, of which JAX's device makes 1
        return bool(np.array_equal(one.view(np.uint8) != 0, other.view(np.uint8) != 0))
    a, b = (np.ascontiguousarray(x).reshape(-1) for x in (one, other))
    if a.tobytes() == b.tobytes():
        return True
    if a.dtype.kind in "iub":
        return False
    plain = f"u{a.itemsize}"
    return bool(np.all((a.view(plain) == b.view(plain)) | (np.isnan(a) & np.isnan(b))))


def difference(wanted: dict[str, Any], found: dict[str, Any], way: str) -> str:
    """What is wrong with a way's answer; nothing when it agrees."""
    if "error" in found:
        return "" if found["code"] in REFUSED else f"{way}: {found['error'][:200]}"
    for name, expected in (("first", wanted["first"]), ("second", wanted["second"]),
                           ("again", wanted["first"])):  # fmt: skip
        compared = expected
        if len(found[name]) != len(expected) and not WAYS[way].writes:
            # This execution mode returns the results without the arguments.
            compared = expected[: len(expected) - wanted["arguments"]]
        if len(compared) != len(found[name]):
            return f"{way}: {len(found[name])} results of the {name} call, not {len(compared)}"
        if not all(same(one, other) for one, other in zip(compared, found[name], strict=True)):
            return f"{way}: {name} call differs"
    return f"{way}: kept results changed" if found["changed"] else ""


class Fuzzer:
    """Runs kernels and counts what comes out."""

    def __init__(self, ways: list[str]) -> None:
        self.ways = ways
        self.servers = {
            name: Child("kernels.ways:serve_ways", ENVIRONMENTS[name])
            for name in sorted({WAYS[way].environment for way in ways} | {"host"})
        }
        self.counts: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()

    def ask(
        self, made: GeneratedKernel, way: str, frozen: frozenset[int] = frozenset()
    ) -> dict[str, Any]:
        """A way's answer for a kernel, some of whose arrays are read-only."""
        calls = [one._replace(frozen=frozen) for one in calls_of(made)]
        return self.servers[WAYS[way].environment].ask((made.source(), calls, way))

    def wanted(self, made: GeneratedKernel) -> dict[str, Any]:
        """What simulate gives; of a kernel that it refuses for unwritten memory, what a direct call gives."""
        answer = self.ask(made, "simulate")
        return self.ask(made, "direct") if answer.get("code") == "NKI-UNINITIALISED" else answer

    def traced(self, seed: int) -> tuple[GeneratedKernel, dict[str, Any]] | None:
        """The kernel of a seed without what the tracer refuses, and what simulate gives."""
        made = kernel(seed)
        for _ in range(12):
            answer = self.wanted(made)
            if "error" not in answer:
                return made, answer
            self.refusals[answer["code"] or answer["error"][:80]] += 1
            if not answer["code"]:
                return made, answer
            line = refused_line(answer["trace"] + answer["error"])
            smaller = without_line(made, line)
            if smaller is None or not smaller.results:
                return None
            made = smaller
        return None

    def wrong(self, made: GeneratedKernel, wanted: dict[str, Any], ways: list[str]) -> list[str]:
        """What differs, for each way that does."""
        found, frozen = [], frozen_of(made)
        refused = writes_frozen(made, calls_of(made)[0]._replace(frozen=frozen))
        for way in ways:
            if made.seed % WAYS[way].often:
                continue
            answer = self.ask(made, way, frozen)
            self.counts[way] += 1
            if refused and WAYS[way].refuses and not answer.get("code"):
                found.append(f"{way}: a read-only array is written: {answer.get('error', '')}")
                continue
            if "error" in answer and answer["code"]:
                self.refusals[f"{way}: {answer['code']}"] += 1
            loses = made.writes and not WAYS[way].writes and "error" not in answer
            fault = f"{way}: a write is lost" if loses else difference(wanted, answer, way)
            if fault:
                found.append(fault)
        return found

    def shrunk(self, made: GeneratedKernel, way: str) -> GeneratedKernel:
        """The smallest kernel found that still differs in a way."""
        for smaller in made.smaller():
            if not smaller.results:
                continue
            wanted = self.wanted(smaller)
            if "error" in wanted:
                continue
            if self.wrong(smaller, wanted, [way]):
                return self.shrunk(smaller, way)
        return made


def refused_line(text: str) -> int:
    """The line of the generated file that an error names, 0 when none."""
    import re

    lines = [int(one) for one in re.findall(r'generated_\d+_\d+\.py(?::|", line )(\d+)', text)]
    return lines[-1] if lines else 0


def without_line(made: GeneratedKernel, line: int) -> GeneratedKernel | None:
    """The kernel without the statement that stands on a line of its source."""
    at = made.source().split("def kernel", 1)[0].count("\n") + 2
    for number, statement in enumerate(made.statements):
        size = sum(1 for _ in statement.render(""))
        if at <= line < at + size:
            return made._keeping(
                [*made.statements[:number], *made.statements[number + 1 :]], made.results
            )
        at += size
    return None


def ways_of(made: GeneratedKernel, ways: list[str]) -> list[str]:
    """The ways to compare with ``simulate``, which is one itself where arrays are read-only."""
    return [way for way in ways if way != "simulate" or frozen_of(made)]


def main() -> int:
    """Run from the command line."""
    driver = Driver(__doc__, ways=list(WAYS)).parse()
    fuzzer = Fuzzer(driver.ways)
    for seed in driver.seeds():
        look(driver, fuzzer, seed)
    for server in fuzzer.servers.values():
        server.stop()
    return driver.finish("kernels", fuzzer.counts, refused=fuzzer.refusals)


def look(driver: Driver, fuzzer: Fuzzer, seed: int) -> None:
    """Run one seed in every way; its faults, shrunk."""
    found = fuzzer.traced(seed)
    if found is None:
        fuzzer.counts["refused whole"] += 1
        return
    made, wanted = found
    if "error" in wanted:
        fault = wanted["error"][:300]
        told = {"seed": seed, "fault": fault, "source": made.source()}
        driver.found(
            told, f"# seed {seed}: simulate: {fault}\n{made.source()}", f"{seed}-simulate.py"
        )
        return
    for fault in fuzzer.wrong(made, wanted, ways_of(made, fuzzer.ways)):
        way = fault.split(":")[0]
        source = fuzzer.shrunk(made, way).source()
        told = {"seed": seed, "fault": fault, "source": source}
        driver.found(told, f"# seed {seed}: {fault}\n{source}", f"{seed}-{way}.py")


if __name__ == "__main__":
    sys.exit(main())
