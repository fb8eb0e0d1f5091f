"""Random kernels in every way of running them: each must give what ``simulate`` gives.

Usage: python -m tests.fuzz.drivers.fuzz_kernels [--seed N] [--count N] [--minutes M] [--ways a,b]
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
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import ml_dtypes
import numpy as np

from tests.fuzz.drivers.children import Child
from tests.fuzz.drivers.driving import Driver
from tests.fuzz.drivers.kernels.generate import kernel
from tests.fuzz.drivers.kernels.maker import INTEGERS
from tests.fuzz.drivers.kernels.program import Argument, GeneratedKernel
from tests.fuzz.drivers.kernels.ways import ENVIRONMENTS, WAYS, Call

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


def calls_of(generated: GeneratedKernel) -> tuple[Call, Call]:
    """The two calls of a kernel."""
    chance = np.random.default_rng(generated.seed)
    first, second = (
        Call([values(argument, chance) for argument in generated.arguments],
             {name: pair[number] for name, pair in generated.constants.items()})
        for number in (0, 1)
    )  # fmt: skip
    for left, right in itertools.combinations(range(len(generated.arguments)), 2):
        fits = first.arrays[left].shape == first.arrays[right].shape
        if (
            fits
            and generated.arguments[left].dtype == generated.arguments[right].dtype
            and chance.random() < 0.2
        ):
            for call in (first, second):
                call.arrays[right] = call.arrays[left]  # the same array twice
    return first, second


def frozen_of(generated: GeneratedKernel) -> frozenset[int]:
    """The arrays of a kernel's calls that are read-only; in the arguments' order."""
    chance = np.random.default_rng((generated.seed, 13))
    return frozenset(np.flatnonzero(chance.random(len(generated.arguments)) < 0.15).tolist())


def writes_frozen(generated: GeneratedKernel, call: Call) -> bool:
    """Return True when the kernel writes a read-only array under any of its names."""
    locked = {id(call.arrays[index]) for index in call.frozen}
    pairs = zip(generated.arguments, call.arrays, strict=True)
    return any(generated.is_written(argument) and id(array) in locked for argument, array in pairs)


def same(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> bool:
    """Equal bits, or NaN in both; of booleans equal truth values."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    if left.dtype == bool:  # unwritten ones have all bits set, of which JAX's device makes 1
        return bool(np.array_equal(left.view(np.uint8) != 0, right.view(np.uint8) != 0))
    a, b = (np.ascontiguousarray(x).reshape(-1) for x in (left, right))
    if a.tobytes() == b.tobytes():
        return True
    if a.dtype.kind in "iub":
        return False
    plain = f"u{a.itemsize}"
    return bool(np.all((a.view(plain) == b.view(plain)) | (np.isnan(a) & np.isnan(b))))


def difference(reference: dict[str, Any], outcome: dict[str, Any], mode: str) -> str:
    """Return the difference of an execution mode's answer; "" when it agrees."""
    if "error" in outcome:
        return "" if outcome["code"] in REFUSED else f"{mode}: {outcome['error'][:200]}"
    for name, expected in (("first", reference["first"]), ("second", reference["second"]),
                           ("again", reference["first"])):  # fmt: skip
        compared = expected
        if len(outcome[name]) != len(expected) and not WAYS[mode].writes:
            # This execution mode returns the results without the arguments.
            compared = expected[: len(expected) - reference["arguments"]]
        if len(compared) != len(outcome[name]):
            return f"{mode}: {len(outcome[name])} results of the {name} call, not {len(compared)}"
        if not all(
            same(wanted_value, have)
            for wanted_value, have in zip(compared, outcome[name], strict=True)
        ):
            return f"{mode}: {name} call differs"
    return f"{mode}: kept results changed" if outcome["changed"] else ""


class Fuzzer:
    """Runs kernels and counts what comes out."""

    def __init__(self, ways: list[str]) -> None:
        self.ways = ways
        self.servers = {
            name: Child("tests.fuzz.drivers.kernels.ways:serve_ways", ENVIRONMENTS[name])
            for name in sorted({WAYS[mode].environment for mode in ways} | {"host"})
        }
        self.counts: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()

    def ask(
        self, generated: GeneratedKernel, mode: str, frozen: frozenset[int] = frozenset()
    ) -> dict[str, Any]:
        """A way's answer for a kernel, some of whose arrays are read-only."""
        calls = [call._replace(frozen=frozen) for call in calls_of(generated)]
        return self.servers[WAYS[mode].environment].ask((generated.source(), calls, mode))

    def wanted(self, generated: GeneratedKernel) -> dict[str, Any]:
        """Return the answer of simulate, or of a direct call when simulate refuses unwritten memory."""
        answer = self.ask(generated, "simulate")
        return (
            self.ask(generated, "direct") if answer.get("code") == "NKI-UNINITIALISED" else answer
        )

    def traced(self, seed: int) -> tuple[GeneratedKernel, dict[str, Any]] | None:
        """The kernel of a seed without what the tracer refuses, and what simulate gives."""
        generated = kernel(seed)
        for _ in range(12):
            answer = self.wanted(generated)
            if "error" not in answer:
                return generated, answer
            self.refusals[answer["code"] or answer["error"][:80]] += 1
            if not answer["code"]:
                return generated, answer
            line = refused_line(answer["trace"] + answer["error"])
            smaller = without_line(generated, line)
            if smaller is None or not smaller.results:
                return None
            generated = smaller
        return None

    def wrong(
        self, generated: GeneratedKernel, reference: dict[str, Any], modes: list[str]
    ) -> list[str]:
        """Return the differences of all execution modes."""
        faults, frozen = [], frozen_of(generated)
        refused = writes_frozen(generated, calls_of(generated)[0]._replace(frozen=frozen))
        for mode in modes:
            if generated.seed % WAYS[mode].often:
                continue
            answer = self.ask(generated, mode, frozen)
            self.counts[mode] += 1
            if refused and WAYS[mode].refuses and not answer.get("code"):
                faults.append(f"{mode}: a read-only array is written: {answer.get('error', '')}")
                continue
            if "error" in answer and answer["code"]:
                self.refusals[f"{mode}: {answer['code']}"] += 1
            loses = generated.writes and not WAYS[mode].writes and "error" not in answer
            fault = f"{mode}: a write is lost" if loses else difference(reference, answer, mode)
            if fault:
                faults.append(fault)
        return faults

    def shrunk(self, generated: GeneratedKernel, mode: str) -> GeneratedKernel:
        """The smallest kernel found that still differs in a way."""
        for smaller in generated.smaller():
            if not smaller.results:
                continue
            reference = self.wanted(smaller)
            if "error" in reference:
                continue
            if self.wrong(smaller, reference, [mode]):
                return self.shrunk(smaller, mode)
        return generated


def refused_line(text: str) -> int:
    """The line of the generated file that an error names, 0 when none."""
    import re

    lines = [
        int(number) for number in re.findall(r'generated_\d+_\d+\.py(?::|", line )(\d+)', text)
    ]
    return lines[-1] if lines else 0


def without_line(generated: GeneratedKernel, line: int) -> GeneratedKernel | None:
    """The kernel without the statement that stands on a line of its source."""
    position = generated.source().split("def kernel", 1)[0].count("\n") + 2
    for number, statement in enumerate(generated.statements):
        size = sum(1 for _ in statement.render(""))
        if position <= line < position + size:
            return generated._keeping(
                [*generated.statements[:number], *generated.statements[number + 1 :]],
                generated.results,
            )
        position += size
    return None


def ways_of(generated: GeneratedKernel, modes: list[str]) -> list[str]:
    """The ways to compare with ``simulate``, which is one itself where arrays are read-only."""
    return [mode for mode in modes if mode != "simulate" or frozen_of(generated)]


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
    traced = fuzzer.traced(seed)
    if traced is None:
        fuzzer.counts["refused whole"] += 1
        return
    generated, reference = traced
    if "error" in reference:
        fault = reference["error"][:300]
        report = {"seed": seed, "fault": fault, "source": generated.source()}
        driver.found(
            report, f"# seed {seed}: simulate: {fault}\n{generated.source()}", f"{seed}-simulate.py"
        )
        return
    for fault in fuzzer.wrong(generated, reference, ways_of(generated, fuzzer.ways)):
        mode = fault.split(":")[0]
        source = fuzzer.shrunk(generated, mode).source()
        report = {"seed": seed, "fault": fault, "source": source}
        driver.found(report, f"# seed {seed}: {fault}\n{source}", f"{seed}-{mode}.py")


if __name__ == "__main__":
    sys.exit(main())
