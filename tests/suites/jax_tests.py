"""Run seeded samples of JAX's own tests on the device's executors, beside jaxlib's CPU.

    python -m tests.suites.jax_tests <JAX checkout> --seed 1 --sample 40 [--groups lax,nn]
        [--executors cpu,neff] [--seconds 120] [--json results.json] [--only lax_test:Class.test]

The checkout is of the tag of the installed jaxlib (``jax-v0.10.2``), read and not changed. Each
file runs in a child process. Only tests that pass on jaxlib's CPU count. A table of groups and
one of reasons follow: *refused* means an error with a code, *wrong* a failed assertion, *foreign*
any other exception, *bug* NEFF-INTERNAL, *crash* and *hang* the end of the process. Refusals of
float64 and matrix decompositions are counted apart (*aside*); a wrong value never is.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.suites.jax_suite.children import Found, listed, run
from tests.suites.jax_suite.outcomes import aside

GROUPS: dict[str, tuple[str, ...]] = {
    "lax": ("lax_test",),
    "lax_numpy": (
        "lax_numpy_test", "lax_numpy_einsum_test", "lax_numpy_indexing_test",
        "lax_numpy_operators_test", "lax_numpy_reducers_test", "lax_numpy_setops_test",
        "lax_numpy_ufuncs_test", "lax_numpy_vectorize_test",
    ),
    "nn": ("nn_test",),
    "lax_control_flow": ("lax_control_flow_test",),
    "random": ("random_test", "random_lax_test"),
    "linalg": ("linalg_test",),
    "scipy": (
        "lax_scipy_test", "lax_scipy_special_functions_test", "scipy_signal_test",
        "scipy_stats_test", "scipy_ndimage_test", "scipy_interpolate_test", "scipy_spatial_test",
    ),
    "fft": ("fft_test",),
}  # fmt: skip

_ONE = {"JAX_PLATFORMS": "neuron,cpu", "NEURON_RT_NUM_CORES": "1"}  # some tests name the CPU

EXECUTORS = {
    "jaxlib": {"JAX_PLATFORMS": "cpu"},
    "cpu": _ONE | {"NKI_HLO_EXECUTOR": "cpu"},
    "neff": _ONE | {"NKI_HLO_EXECUTOR": "neff", "NEURON_PLATFORM_TARGET_OVERRIDE": "trn2"},
}
"""Column of the table -> what its children find in their environment."""


@dataclass(frozen=True, slots=True)
class Row:
    """One test on one executor."""

    group: str
    file: str
    executor: str
    result: Found

    @property
    def kind(self) -> str:
        """The outcome, or ``aside``."""
        outcome = self.result.outcome
        return "aside" if aside(outcome, self.result.reason) else outcome


def sampled(root: Path, group: str, seed: int, size: int) -> dict[str, list[str]]:
    """File -> names; ``size`` tests of a group, drawn with the seed."""
    every = [
        (name, test)
        for name in GROUPS[group]
        if (root / f"{name}.py").exists()
        for test in listed(root / f"{name}.py")
    ]
    draw = random.Random(f"{seed} {group}").sample(every, min(size, len(every)))
    chosen: dict[str, list[str]] = {}
    for name, test in sorted(draw):
        chosen.setdefault(name, []).append(test)
    return chosen


def measured(root: Path, group: str, options: argparse.Namespace) -> Iterator[Row]:
    """The group's sample on jaxlib's CPU, and what passes there on the executors."""
    chosen = (
        _only(options.only) if options.only else sampled(root, group, options.seed, options.sample)
    )
    for name, tests in chosen.items():
        file = root / f"{name}.py"
        base = run(file, tests, EXECUTORS["jaxlib"], options.seconds)
        yield from (Row(group, name, "jaxlib", result) for result in base)
        good = [result.test for result in base if result.outcome == "passed"]
        for executor in options.executors.split(","):
            for repeated in run(file, good, EXECUTORS[executor], options.seconds):
                yield Row(group, name, executor, repeated)


def _only(words: Sequence[str]) -> dict[str, list[str]]:
    chosen: dict[str, list[str]] = {}
    for word in words:
        name, _, test = word.partition(":")
        chosen.setdefault(name, []).append(test)
    return chosen


def report(rows: Sequence[Row], executors: Sequence[str]) -> None:
    """Groups by executor, then reasons by frequency."""
    for executor in executors:
        executor_rows = [row for row in rows if row.executor == executor]
        print(f"\n{executor}: passed of those that count, then what else came")
        groups = list(dict.fromkeys(row.group for row in executor_rows))
        for group in [*groups, "all"]:
            kinds = Counter(row.kind for row in executor_rows if group in (row.group, "all"))
            counted = sum(kinds.values()) - kinds["aside"] - kinds["skipped"]
            share = 100 * kinds["passed"] / counted if counted else 100.0
            counts_text = ", ".join(
                f"{kind} {n}" for kind, n in kinds.most_common() if kind != "passed"
            )
            print(f"  {group:18} {kinds['passed']:4}/{counted:<4} {share:5.1f} %   {counts_text}")
        _print_reasons([row for row in executor_rows if row.kind not in ("passed", "skipped")])


def _print_reasons(rows: Sequence[Row]) -> None:
    reasons: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        text = row.result.reason
        short = text.partition(" ")[0] if row.result.outcome == "refused" else text[:70]
        reasons.setdefault((row.kind, short), []).append(row)
    for (kind, short), reason_rows in sorted(reasons.items(), key=lambda item: -len(item[1])):
        print(f"  {len(reason_rows):4} {kind} {short}")
        for row in reason_rows[:6]:
            print(f"         {row.file}:{row.result.test}\n             {row.result.reason[:220]}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--groups", default=",".join(GROUPS))
    parser.add_argument("--executors", default="cpu,neff", help="columns beside jaxlib")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sample", type=int, default=40, help="tests of each group")
    parser.add_argument("--seconds", type=float, default=120.0, help="CPU time of one test")
    parser.add_argument("--jobs", type=int, default=1, help="groups at a time")
    parser.add_argument("--json", type=Path, help="write every result to this file")
    parser.add_argument(
        "--only", action="append", default=[], metavar="FILE:TEST", help="these tests, no sample"
    )
    return parser.parse_args()


def main() -> int:
    options = _options()
    root = options.checkout / "tests"
    if not root.is_dir():
        print(f"{root} is no folder: name a checkout of JAX", file=sys.stderr)
        return 2
    groups = ["only"] if options.only else options.groups.split(",")
    rows: list[Row] = []

    def work(group: str) -> None:
        for row in measured(root, group, options):
            rows.append(row)
            if options.json:
                options.json.write_text(json.dumps([_flat(row) for row in rows], indent=0) + "\n")

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(work, groups))
    executors = options.executors.split(",")
    report(rows, executors)
    if not any(row.result.outcome == "passed" and row.executor in executors for row in rows):
        print("no test passed: nothing was compared", file=sys.stderr)
        return 2
    bad = ("wrong", "foreign", "bug", "crash", "hang")
    return int(any(row.kind in bad for row in rows if row.executor in executors))


def _flat(row: Row) -> dict[str, Any]:
    return {"group": row.group, "file": row.file, "executor": row.executor} | asdict(row.result)


if __name__ == "__main__":
    sys.exit(main())
