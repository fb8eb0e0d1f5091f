"""Run kernels that other people published, unmodified, against NumPy and torch.

Nothing of them is in this repository: pass the checkouts. ::

    python -m tests.suites.public_kernels --docs <vendor documentation checkout>/nki \\
        --samples <nki-samples checkout> --nki-library <nki-library checkout> \\
        [--ways simulate,neff,jax] [--only NAME ...] [--json results.json]

Each kernel runs on one core and, where it can, on two, in each way, and is compared with its
reference; a table of kernels by ways follows. The exit code is 1 when one failed or differs.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import os
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

from tests.suites.published.cases import RANDOM, Case
from tests.suites.published.comparing import difference
from tests.suites.published.documentation import documented
from tests.suites.published.library import library
from tests.suites.published.models import models
from tests.suites.published.samples import samples
from tests.suites.published.table import Result, print_table, reason_of, write_json
from tests.suites.published.visualised import visualised
from tests.suites.published.ways import WAYS

SOURCES = {
    "docs": documented,
    "samples": samples,
    "library": library,
    "models": models,
    "triton-viz": visualised,
}


def run(case: Case, mode: str, cores: int, target: str) -> Result:
    """Run one case in one way."""
    os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] = target  # some examples set their own
    kernel = case.kernel if cores == 1 else case.kernel[cores]
    args, kwargs = copy.deepcopy((case.args, case.kwargs))
    start, reason = time.perf_counter(), ""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            outputs = WAYS[mode](kernel, args, kwargs)
        reason = difference(outputs, case.expected, case.tolerance, is_prefix=case.is_prefix)
    except Exception as error:  # every failure of a kernel is one line of the report
        reason = reason_of(error)
    seconds = round(time.perf_counter() - start, 2)
    outcome = "failed" if reason else "passed"
    return Result(case.name, f"{cores} cores, {target}", mode, outcome, reason, seconds)


def _cases(options: argparse.Namespace) -> Iterator[tuple[str, Case]]:
    roots = {
        "docs": options.docs, "samples": options.samples, "library": options.nki_library,
        "models": options.models, "triton-viz": options.triton_viz,
    }  # fmt: skip
    named = (
        ((source, case) for case in SOURCES[source](root))
        for source, root in roots.items()
        if root is not None
    )
    for source, case in chain.from_iterable(named):
        if not options.only or any(word in case.name for word in options.only):
            yield source, case


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--docs", type=Path, help="the documentation's nki folder")
    parser.add_argument("--samples", type=Path, help="checkout of nki-samples")
    parser.add_argument("--nki-library", type=Path, help="checkout of nki-library")
    parser.add_argument("--models", type=Path, help="checkout of neuronx-distributed-inference")
    parser.add_argument("--triton-viz", type=Path, help="checkout of triton-viz")
    parser.add_argument("--seed", type=int, default=0, help="of the arrays")
    parser.add_argument("--ways", default="simulate,neff,jax", help=f"of {', '.join(WAYS)}")
    parser.add_argument("--only", nargs="*", default=[], help="words that names must contain")
    parser.add_argument("--target", default="trn2", help="for kernels that name none")
    parser.add_argument("--json", type=Path, help="write every result to this file")
    options = parser.parse_args()
    os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] = options.target
    RANDOM.bit_generator.state = np.random.default_rng(options.seed).bit_generator.state
    warnings.simplefilter("ignore")
    modes, results = options.ways.split(","), []
    for source, case in _cases(options):
        for cores in case.cores:
            for mode in modes:
                result = run(case, mode, cores, case.target or options.target)
                if result.reason:
                    print(f"{case.name} [{cores}] {mode}: {result.reason}", file=sys.stderr)
                results.append(replace(result, kernel=f"{source}: {case.name}"))
    print_table(results, modes)
    if options.json:
        write_json(results, options.json)
    right = sum(result.outcome == "passed" for result in results)
    print(f"\n{right} of {len(results)} right")
    return 0 if results and right == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
