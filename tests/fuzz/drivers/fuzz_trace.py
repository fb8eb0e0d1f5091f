"""PyTorch's operators traced with one set of values and run with another, beside the CPU.

Usage: python -m tests.fuzz.drivers.fuzz_trace [--seed N] [--count N] [--minutes M] [--keep FOLDER]
       [--json FILE] [--lines FILE] [--operators NAMES] [--slice N] [--export]

Each seed is one operator of PyTorch's test database (``torch.testing``, with the package
expecttest), in the order of their names: ``--count 700`` takes every one, ``--operators a,b`` those
named, ``--slice N`` the same N in every run, from every category in turn. ``--lines`` appends one line of JSON for each operator as soon as it ran, and skips the
operators that the file already holds. ``--export`` traces by torch.export
(``inline_weights_to_neff=False``), which needs torch alone. ``torch_neuronx.trace`` compiles it for the tensors of a sample; the results, and the inputs that
the operator writes, have to be torch's own for them and for tensors of the same shapes with other values, or the trace has to be refused with a code. Operators run in a
child process, since a fault of torch_xla may end it. Exit code 1 when a result differs or is that of the
examples, or the trace raises an error without a code.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", PJRT_DEVICE="NEURON")

from tests.fuzz.drivers.children import Child, serve
from tests.fuzz.drivers.driving import Driver

DTYPES = ("float32", "int64", "bool", "complex64")
"""Each operator takes the first of them that it supports."""
MAX_SILENT_SECONDS = 1800.0
"""A child that answers later hangs; a sweep in the background of a busy machine is slow."""
SLICE_SEED = 20
"""Chooses the operators of ``--slice``."""
SAMPLES = 2
"""Samples of an operator, at most."""
MAX_ELEMENTS = 4096
"""Larger samples take minutes without saying more."""
UNDEFINED = {
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
}  # fmt: skip
"""Their elements are not defined."""
DEADLY = {"mvlgamma"}
"""PyTorch 2.9 itself divides integers by zero and dies."""
SIGNS = {"linalg.eigh", "linalg.qr", "linalg.svd", "pca_lowrank", "qr", "svd", "svd_lowrank"}
"""Their results have any sign."""


def names() -> dict[str, str]:
    """Return each operator's name with its variant, and its category."""
    from torch.testing._internal.common_methods_invocations import op_db

    left_out = UNDEFINED | DEADLY | SIGNS
    return {op.formatted_name: _category(op) for op in op_db if op.name not in left_out}


def _category(op: Any) -> str:
    """Return a module of torch (``linalg``, ``fft``, ``nn``, ...) or the database's class."""
    module, dot, _ = op.name.partition(".")
    return module if dot else type(op).__name__


def slice_of(categories: dict[str, str], count: int) -> list[str]:
    """Draw operators, the same in every run, from every category in turn."""
    draw = random.Random(SLICE_SEED)
    members: dict[str, list[str]] = {}
    for name in draw.sample(sorted(categories), len(categories)):
        members.setdefault(categories[name], []).append(name)
    iterations = [
        (iteration, category) for category in members for iteration in range(len(members[category]))
    ]
    return [members[category][turn] for turn, category in sorted(iterations)[:count]]


def answers() -> None:
    """Return the outcomes of an operator's samples, in the child process."""
    import torch_neuronx  # noqa: F401
    from torch.testing._internal.common_methods_invocations import op_db

    warnings.simplefilter("ignore")
    operators = {op.formatted_name: op for op in op_db}

    def answer(question: tuple[str, bool]) -> dict[str, Any]:
        name, by_export = question
        if not name:
            return {"names": names()}
        outcomes, faults = Counter[str](), dict[str, str]()
        for sample, second in _pairs(operators[name]):
            outcome, message = _traced(operators[name], sample, second, by_export)
            outcomes[outcome] += 1
            if message:
                faults.setdefault(outcome, message)
        return {"outcomes": dict(outcomes), "faults": faults}

    serve(answer, valid=True)


def _pairs(op: Any) -> Iterator[tuple[Any, Any]]:
    """Samples with others of the same shapes."""
    import torch

    kinds = [kind for name in DTYPES if (kind := getattr(torch, name)) in op.dtypes]
    if not kinds:
        return
    drawn: list[list[Any]] = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        try:
            drawn.append(
                [s for _, s in zip(range(12), op.sample_inputs("cpu", kinds[0]), strict=False)]
            )
        except Exception:  # the database's own: an operator that this build lacks
            return
    count = 0
    for first, second in zip(*drawn, strict=False):
        (ours, second_leaves), (structure, second_structure) = zip(
            _leaves(first), _leaves(second), strict=True
        )
        if (
            structure == second_structure
            and count < SAMPLES
            and all(map(_is_alike, ours, second_leaves))
        ):
            count += 1
            yield first, second


def _leaves(sample: Any) -> tuple[list[Any], Any]:
    from torch.utils import _pytree as pytree

    return pytree.tree_flatten((sample.input, tuple(sample.args), dict(sample.kwargs)))


def _is_alike(first: Any, second: Any) -> bool:
    import torch

    if not isinstance(first, torch.Tensor):
        return type(first) is type(second) and (first == second or callable(first))
    if not isinstance(second, torch.Tensor) or first.layout is not torch.strided:
        return False
    return (first.shape, first.dtype) == (
        second.shape,
        second.dtype,
    ) and first.numel() <= MAX_ELEMENTS


def _traced(op: Any, sample: Any, second: Any, by_export: bool) -> tuple[str, str]:
    """(outcome, detail): correct, refused CODE, an error, or wrong."""
    import torch
    import torch_neuronx
    from torch.utils import _pytree as pytree

    leaves, structure = _leaves(sample)
    positions = [n for n, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def function(*tensors: Any) -> Any:
        values = dict(zip(positions, tensors, strict=True))
        filled = [values.get(n, leaf) for n, leaf in enumerate(leaves)]
        x, args, kwargs = pytree.tree_unflatten(filled, structure)
        return op(x, *args, **kwargs)

    runs = [tuple(_leaves(s)[0][n].detach() for n in positions) for s in (sample, second)]
    state = torch.random.get_rng_state()
    try:
        expected = [_results_and_inputs(function, run) for run in runs]
    except Exception:
        return "not on the CPU", ""
    if not positions or not all(isinstance(t, torch.Tensor) for t in expected[0] + expected[1]):
        return "no tensors", ""
    is_random = not torch.equal(state, torch.random.get_rng_state())
    try:
        traced = torch_neuronx.trace(function, runs[0], inline_weights_to_neff=not by_export)
        results = [_results_and_inputs(traced, run) for run in runs]
    except Exception as error:
        code = getattr(error, "code", "")
        return (
            (f"refused {code}", "") if code else ("error", f"{type(error).__name__}: {error}"[:400])
        )
    if is_random:
        return "wrong", "random numbers are frozen"
    for wanted_value, have in zip(expected, results, strict=True):
        message = _difference(wanted_value, have)
        if message:
            return "wrong", message
    return "correct", ""


def _results_and_inputs(function: Any, run: tuple[Any, ...]) -> list[Any]:
    """Return the results, then the inputs, which the function may have written."""
    from torch.utils import _pytree as pytree

    inputs = [tensor.clone() for tensor in run]
    return [*pytree.tree_leaves(function(*inputs)), *inputs]


def _difference(expected: list[Any], results: list[Any]) -> str:
    import torch

    if len(expected) != len(results):
        return f"{len(results)} tensors instead of {len(expected)}"
    for wanted_value, have in zip(expected, results, strict=True):
        if wanted_value.shape != have.shape or wanted_value.dtype != have.dtype:
            return f"{have.dtype}{list(have.shape)} instead of {wanted_value.dtype}{list(wanted_value.shape)}"
        kind = torch.complex128 if wanted_value.is_complex() else torch.float64
        alike = torch.isclose(
            wanted_value.resolve_conj().to(kind),
            have.to(kind),
            rtol=1e-3,
            atol=1e-3,
            equal_nan=True,
        )
        if not bool(alike.all()):
            return f"{int((~alike).sum())} of {wanted_value.numel()} elements differ: {wanted_value.flatten()[:4].tolist()} {have.flatten()[:4].tolist()}"
    return ""


class Lines:
    """A file with one line of JSON for each operator."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path and path.exists() else []
        self._rows = {row["operator"]: row for row in map(json.loads, lines)}

    def row_of(self, operator: str) -> dict[str, Any] | None:
        """Return what an earlier run wrote for an operator."""
        return self._rows.get(operator)

    def append(self, row: dict[str, Any]) -> None:
        """Add the row of an operator."""
        if self._path:
            with self._path.open("a") as file:
                file.write(json.dumps(row) + "\n")


def row_of(child: Child, name: str, by_export: bool) -> dict[str, Any]:
    """Run one operator."""
    start = time.monotonic()
    answer = child.ask((name, by_export))
    if "outcomes" not in answer:
        answer = {"outcomes": {"error": 1}, "faults": {"error": answer["error"]}}
    return {"operator": name, **answer, "seconds": round(time.monotonic() - start, 1)}


def main() -> int:
    """Run from the command line."""
    driver, child = (
        Driver(__doc__),
        Child("tests.fuzz.drivers.fuzz_trace:answers", silent=MAX_SILENT_SECONDS),
    )
    driver.parser.add_argument("--lines", type=Path, help="append a line of JSON an operator")
    driver.parser.add_argument("--operators", default="", help="names, instead of all of them")
    driver.parser.add_argument(
        "--slice", type=int, default=0, help="so many, from every category in turn"
    )
    driver.parser.add_argument("--export", action="store_true", help="trace by torch.export")
    options = driver.parse().options
    lines = Lines(options.lines)
    operators = [name for name in options.operators.split(",") if name]
    categories = {} if operators else child.ask(("", options.export))["names"]
    if options.slice:
        operators = slice_of(categories, options.slice)
    operators = operators or sorted(categories)
    outcomes: Counter[str] = Counter()
    for seed in driver.seeds():
        if seed >= len(operators):
            break
        name = operators[seed]
        row = lines.row_of(name)
        if row is None:
            row = row_of(child, name, options.export)
            lines.append(row)
        outcomes.update(row["outcomes"])
        for outcome, message in row["faults"].items():
            fault = {"seed": seed, "operator": name, "outcome": outcome, "fault": message}
            driver.found(fault, f"seed {seed}: {name}: {outcome}: {message}", f"{seed}.txt")
    child.stop()
    return driver.finish("operators", outcomes)


if __name__ == "__main__":
    sys.exit(main())
