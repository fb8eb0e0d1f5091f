"""Compares the results of two modules on random inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hlo_tools._messages import counted
from hlo_tools.errors import HloVerifyError
from hlo_tools.evaluate import Evaluator
from hlo_tools.evaluate.arguments import arrays_of, random_inputs
from hlo_tools.evaluate.difference import largest_difference
from hlo_tools.evaluate.kernel_calls import kernel_calls
from hlo_tools.ir.module import Module
from hlo_tools.types.shape import Shape

__all__ = ["Proof", "Prover", "prove_equal"]


@dataclass(frozen=True, slots=True)
class Proof:
    """The outcome of a comparison.

    Attributes:
        runs: how many sets of inputs.
        difference: the largest difference of a result, relative to its largest value.
    """

    runs: int
    difference: float


class Prover:
    """The results of a module for some random inputs, to compare others with.

    Args:
        module: the module; it may be changed afterwards.
        runs: sets of inputs, from the seeds 0, 1, ...
        tolerance: largest difference allowed, relative to the largest value of a result.
        root: folder that kernel files' relative paths start from; that of a module's file where it
            is not given.

    Raises:
        EvaluationError: an operation has no result that depends on the module alone.
    """

    def __init__(
        self, module: Module, *, runs: int = 3, tolerance: float = 1e-3, root: Path | None = None
    ) -> None:
        self._tolerance = tolerance
        self._root, self._folder = root, module.folder
        self._inputs = [random_inputs(module, seed) for seed in range(runs)]
        self._results = [_run(module, inputs, root or module.folder) for inputs in self._inputs]

    def compare(self, module: Module, root: Path | None = None) -> Proof:
        """Give a module the same inputs. Tuples may be arranged, and elements typed, otherwise.

        Raises:
            HloVerifyError: its results differ, or it takes other parameters (HLO-DIFFERENT).
        """
        worst = 0.0
        for seed, (inputs, expected) in enumerate(zip(self._inputs, self._results, strict=True)):
            folder = root or self._root or module.folder or self._folder
            outputs = _run(module, _arranged(inputs, module), folder)
            worst = max(worst, largest_difference(tuple(outputs), tuple(expected)))
            if not worst <= self._tolerance:
                raise HloVerifyError(
                    f"the results differ by {worst:.1e} of the largest value (inputs of seed {seed})",
                    code="HLO-DIFFERENT",
                    remedy="nki-hlo bisect shows the first instruction that differs; "
                    "--tolerance allows more",
                )
        return Proof(len(self._inputs), worst)


def _arranged(inputs: Sequence[Any], module: Module) -> list[Any]:
    """The same arrays in the tuples and types that a module takes."""
    left = arrays_of(inputs)
    shapes = [parameter.shape for parameter in module.entry.parameters]
    array_count = sum(leaf.is_array for shape in shapes for _, leaf in shape.leaves())
    if array_count != len(left):
        raise HloVerifyError(
            f"the module takes {counted(array_count, 'array')}; it took {len(left)} before",
            code="HLO-DIFFERENT",
            remedy="compare modules with the same parameters",
        )
    left.reverse()
    return [_take(left, shape) for shape in shapes]


def _take(left: list[Any], shape: Shape) -> Any:
    if shape.is_tuple:
        return tuple(_take(left, element_shape) for element_shape in shape.tuple_shapes)
    if not shape.is_array:
        return None
    return np.asarray(left.pop()).astype(shape.dtype, copy=False)


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
            of ``after``, and of ``before`` too when that has none; those of the modules' files
            where they are not given.

    Raises:
        HloVerifyError: the results differ (HLO-DIFFERENT).
        EvaluationError: an operation has no result that depends on the module alone.
    """
    prover = Prover(before, runs=runs, tolerance=tolerance, root=before_root or root)
    return prover.compare(after, root)


def _run(module: Module, inputs: Sequence[Any], root: Path | None) -> list[Any]:
    return Evaluator(module, custom_calls=kernel_calls(root)).run(inputs)
