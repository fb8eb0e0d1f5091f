"""The ways in which one kernel runs, for tests that hold them beside each other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import nki  # noqa: F401  kernels take the frameworks' arrays
import numpy as np
import pytest

from nki_lang.execute import simulate
from nki_lang.execute.hosts import to_kind

__all__ = ["WAYS", "every_way", "run"]


def _neff(kernel: Any, args: tuple[Any, ...]) -> Any:
    from hlo_tools.extract.protocol import EXECUTOR
    from neff.device.frameworks.numpy_calls import Calls

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(EXECUTOR, "neff")
        return Calls().run(kernel, args, {})


def _jax(kernel: Any, args: tuple[Any, ...]) -> Any:
    import jax

    positions = [position for position, value in enumerate(args) if isinstance(value, np.ndarray)]

    def call(*arrays: Any) -> Any:
        arguments = list(args)
        for position, array in zip(positions, arrays, strict=True):
            arguments[position] = array
        return kernel(*arguments)

    return jax.jit(call)(*(args[position] for position in positions))


def _torch(kernel: Any, args: tuple[Any, ...]) -> Any:
    import torch  # noqa: F401  arrays become tensors

    tensors = {id(v): to_kind(v.copy(), "torch") for v in args if isinstance(v, np.ndarray)}
    arguments = [tensors.get(id(v), v) for v in args]
    return kernel(*arguments)


def _threads(kernel: Any, args: tuple[Any, ...]) -> Any:
    """Four threads at a time; the first result, when all are the same bits."""
    copies = [[v.copy() if isinstance(v, np.ndarray) else v for v in args] for _ in range(16)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda arguments: kernel(*arguments), copies))
    encodings = {b"".join(np.asarray(v).tobytes() for v in _several(result)) for result in results}
    assert len(encodings) == 1
    return results[0]


def _several(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


WAYS = {
    "simulate": lambda kernel, args: simulate(kernel)(*args),
    "direct": lambda kernel, args: kernel(*args),
    "threads": _threads,
    "neff": _neff,
    "jax": _jax,
    "torch": _torch,
}

_MARKS = {"jax": pytest.mark.jax, "torch": pytest.mark.torch_xla}

every_way = pytest.mark.parametrize(
    "mode", [pytest.param(mode, marks=_MARKS.get(mode, ())) for mode in WAYS]
)


def run(mode: str, kernel: Any, *args: Any) -> np.ndarray[Any, Any]:
    """The one result of a kernel, run in this way on copies of the arrays."""
    copies = tuple(v.copy() if isinstance(v, np.ndarray) else v for v in args)
    return np.asarray(WAYS[mode](kernel, copies))
