"""Random HLO modules, evaluated, run by jaxlib, and put through whatever keeps what they compute.

Usage: python scripts/fuzz/fuzz_hlo.py [--seed N] [--count N] [--minutes M] [--ways a,b] [--each N]
           [--keep FOLDER] [--json FILE]

Each module is evaluated beside jaxlib's CPU client, and goes through ``--each`` further ways: text
and files, passes, slices, kernel calls put in and out, the compiler. What keeps results keeps
their bits. A refusal with a code is no difference; another exception, a hang, an invalid module
or a wrong value is. A difference is shrunk, and kept as a text file in FOLDER. Exit code 1 when
there was any.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.update(OPENBLAS_NUM_THREADS="1", JAX_PLATFORMS="cpu", TF_CPP_MIN_LOG_LEVEL="3")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
from children import Child
from differing import difference, disturbed
from hlo_programs.generate import module
from hlo_programs.ways import WAYS
from programs import Program

NAMES = ["jaxlib", *WAYS]


class Fuzzer:
    """Runs modules and counts what comes out."""

    def __init__(self) -> None:
        self.child = Child("hlo_programs.ways:serve_modules", {"JAX_PLATFORMS": "cpu"})
        self.oracle = Child("hlo_programs.ways:serve_oracle", {"JAX_PLATFORMS": "cpu"})
        self.runs: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()

    def faults(self, made: Program, ways: list[str]) -> dict[str, str]:
        """What is wrong with each way that is wrong."""
        arrays = made.arrays()
        moved = [disturbed(arrays, number) for number in (1, 2)]
        ours = [one for one in ways if one != "jaxlib"]
        answer = self.child.ask((made.source(), arrays, moved, ours, made.seed))
        if "error" in answer:
            if answer["code"]:
                self.refusals[f"evaluate: {answer['code']}: {answer['error'][:60]}"] += 1
                return {}
            return {ways[0]: f"evaluate: {answer['error'][:300]}"}
        found = {way: self._way(way, answer["found"][way], answer, made) for way in ours}
        if "jaxlib" in ways:
            given = self.oracle.ask((answer["module"], arrays))
            if "error" in given:
                self.refusals[f"jaxlib: {given['error'][:40]}"] += 1
            else:
                given = {"wanted": given["results"], "results": answer["wanted"]}
                found["jaxlib"] = self._way("jaxlib", given, answer, made)
        return {way: told for way, told in found.items() if told}

    def _way(self, way: str, given: dict[str, Any], answer: dict[str, Any], made: Program) -> str:
        self.runs[way] += 1
        if "error" in given:
            if given["code"]:
                self.refusals[f"{way}: {given['code']}"] += 1
            return "" if given["code"] else given["error"][:300]
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
                told = difference(want, result, shaken, error=narrow, each=made.is_plain)
            if told:
                return f"result {number}: {told}"
        return ""

    def shrunk(self, made: Program, way: str) -> Program:
        """The smallest module found that still differs in a way."""
        for smaller in made.smaller():
            if smaller != made and smaller.statements and self.faults(smaller, [way]):
                return self.shrunk(smaller, way)
        return made


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


def chosen(seed: int, ways: list[str], each: int) -> list[str]:
    """jaxlib, and some of the other ways."""
    rest = [one for one in ways if one != "jaxlib"]
    some = random.Random(seed).sample(rest, min(each, len(rest)))
    return [*(["jaxlib"] if "jaxlib" in ways else []), *some]


def look(fuzzer: Fuzzer, made: Program, ways: list[str], keep: Path | None) -> list[dict[str, Any]]:
    """Run one module; its faults, shrunk."""
    faults = []
    for way, fault in fuzzer.faults(made, ways).items():
        small = fuzzer.shrunk(made, way)
        told = fuzzer.faults(small, [way]).get(way, fault)
        print(f"seed {made.seed}: {way}: {told}\n{small.shown()}", flush=True)
        faults.append({"seed": made.seed, "way": way, "fault": told, "source": small.shown()})
        if keep:
            keep.mkdir(parents=True, exist_ok=True)
            name = f"{made.seed}-{way.split('{')[0].replace(' ', '_')}.hlo"
            (keep / name).write_text(f"# {way}: {told}\n{small.shown()}")
    return faults


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--ways", default=",".join(NAMES))
    parser.add_argument("--each", type=int, default=6, help="ways beside jaxlib")
    parser.add_argument("--keep", type=Path, default=None)
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    ways = [one.strip() for one in options.ways.split(",") if one.strip()]
    unknown = [one for one in ways if one not in NAMES]
    if unknown:
        parser.error(f"there is no way {unknown[0]!r}; there are {', '.join(NAMES)}")
    fuzzer, faults = Fuzzer(), []
    until = time.monotonic() + 60 * options.minutes if options.minutes else None
    seed = options.seed
    while (time.monotonic() < until) if until else seed < options.seed + options.count:
        faults += look(fuzzer, module(seed), chosen(seed, ways, options.each), options.keep)
        seed += 1
    fuzzer.child.stop()
    fuzzer.oracle.stop()
    report = {"seeds": [options.seed, seed], "runs": dict(fuzzer.runs),
              "refused": dict(fuzzer.refusals.most_common()), "faults": faults}  # fmt: skip
    if options.json:
        options.json.write_text(json.dumps(report, indent=1))
    runs, refused = sum(fuzzer.runs.values()), sum(fuzzer.refusals.values())
    print(f"{seed - options.seed} modules, {runs} runs, {refused} refused, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
