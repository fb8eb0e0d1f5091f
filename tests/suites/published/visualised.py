"""The NKI examples of triton-viz: each has a demo with arguments and the result that it expects.

The demo runs up to its kernel call; the kernel, its arguments and what the demo expects are
taken from there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

from tests.suites.published.cases import Array, Case, module_at

__all__ = ["visualised"]


class _Called(Exception):
    """A demo came to its kernel."""

    def __init__(self, kernel: Any, args: tuple[Any, ...]) -> None:
        super().__init__("called")
        self.kernel, self.args = kernel, tuple(map(_plain, args))


class _Traced:
    """Stand-in for ``triton_viz.trace(...)(kernel)``; its call ends the demo."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def __getitem__(self, _grid: Any) -> _Traced:
        return self

    def __call__(self, *args: Any, **_: Any) -> NoReturn:
        raise _Called(self.kernel, args)


def visualised(root: Path) -> Iterator[Case]:
    """The examples below ``examples/nki_beta2`` of a checkout."""
    sys.modules["triton_viz"] = _stand_in()
    for file in sorted((root / "examples" / "nki_beta2").glob("*.py")):
        yield _case(file.stem, module_at(file))


def _stand_in() -> ModuleType:
    module: Any = ModuleType("triton_viz")
    module.trace = lambda *_, **__: _Traced
    return module


def _case(name: str, example: Any) -> Case:
    import nki

    try:
        example._run_demo()
    except _Called as called:
        trace = called.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_name != "_run_demo":
            trace = trace.tb_next
        assert trace is not None
        variables = trace.tb_frame.f_locals
        expected_values = [
            _plain(variables[name]) for name in variables if name.startswith("expected")
        ]
        outs = [argument for argument in called.args if isinstance(argument, np.ndarray)][
            -len(expected_values) :
        ]
        expected = tuple(
            _padded(w, out.shape) for w, out in zip(expected_values, outs, strict=True)
        )
        return Case(name, nki.jit(called.kernel), called.args, expected, cores=(1,), tolerance=1e-4)
    raise RuntimeError(f"the demo of {name} calls no kernel")


def _padded(value: Array, shape: tuple[int, ...]) -> Array:
    """Zeros around what the demo compares; it compares the corner."""
    return np.pad(value, [(0, extent - n) for n, extent in zip(value.shape, shape, strict=True)])


def _plain(value: Any) -> Any:
    return value.numpy() if type(value).__module__.startswith("torch") else value
