"""Whether two modules compute the same, seen on random inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hlo_tools.errors import HloVerifyError
from hlo_tools.evaluate import Evaluator
from hlo_tools.evaluate.bisect import largest_difference
from hlo_tools.evaluate.kernel_calls import kernel_calls
from hlo_tools.module import Module
from hlo_tools.shape import Shape

__all__ = ["Proof", "prove_equal", "random_inputs"]


@dataclass(frozen=True, slots=True)
class Proof:
    """What was compared.

    Attributes:
        runs: how many sets of inputs.
        difference: the largest difference of a result, relative to its largest value.
    """

    runs: int
    difference: float


def random_inputs(module: Module, seed: int) -> list[Any]:
    """One array for each parameter of the entry: normal floats, integers and booleans 0 or 1."""
    random = np.random.default_rng(seed)
    return [_random(parameter.shape, random) for parameter in module.entry.parameters]


def _random(shape: Shape, random: np.random.Generator) -> Any:
    if shape.is_tuple:
        return tuple(_random(part, random) for part in shape.tuple_shapes)
    if shape.element.kind in ("int", "uint", "pred"):
        return random.integers(0, 2, shape.dimensions).astype(shape.dtype)
    return random.standard_normal(shape.dimensions).astype(shape.dtype)


def prove_equal(
    before: Module,
    after: Module,
    *,
    runs: int = 3,
    tolerance: float = 1e-3,
    before_root: Path | None = None,
    root: Path | None = None,
) -> Proof:
    """Evaluate both modules, kernels included, on random inputs and compare the results.

    Args:
        runs: sets of inputs, from the seeds 0, 1, ...
        tolerance: largest difference allowed, relative to the largest value of a result.
        before_root, root: folders that kernel files' relative paths start from; ``root`` is that
            of ``after``, and of ``before`` too when that has none.

    Raises:
        HloVerifyError: the results differ (HLO-DIFFERENT).
        EvaluationError: an operation has no result that depends on the module alone.
    """
    worst = 0.0
    for seed in range(runs):
        inputs = random_inputs(before, seed)
        one = _run(before, inputs, before_root or root)
        other = _run(after, inputs, root)
        worst = max(worst, largest_difference(tuple(other), tuple(one)))
        if not worst <= tolerance:
            raise HloVerifyError(
                f"the results differ by {worst:.1e} of the largest value (inputs of seed {seed})",
                code="HLO-DIFFERENT",
                remedy="nki-hlo bisect shows the first instruction that differs; "
                "--tolerance allows more",
            )
    return Proof(runs, worst)


def _run(module: Module, inputs: Sequence[Any], root: Path | None) -> list[Any]:
    return Evaluator(module, custom_calls=kernel_calls(root)).run(inputs)
