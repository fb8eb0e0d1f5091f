"""Execution of kernels: the memories, the fast executor, and the eager interpreter."""

from collections.abc import Mapping, Sequence
from typing import Any

from nki_lang.execute.executor import Executable, Pool, load
from nki_lang.execute.memory import Memory
from nki_lang.execute.prepare import failure, prepare
from nki_lang.execute.ranks import run_ranks

__all__ = [
    "Executable",
    "Memory",
    "Pool",
    "failure",
    "load",
    "prepare",
    "run_ranks",
    "simulate",
    "simulate_ranks",
]


def simulate(kernel: Any, **options: Any) -> Any:
    """Return a function that interprets ``kernel`` eagerly; see
    :func:`nki_lang.execute.eager.simulate`.
    """
    from nki_lang.execute.eager import simulate as interpret

    return interpret(kernel, **options)


def simulate_ranks(kernel: Any, calls: Sequence[Mapping[str, Any]], **options: Any) -> list[Any]:
    """Interpret ``kernel`` for each rank; see :func:`nki_lang.execute.eager.simulate_ranks`."""
    from nki_lang.execute.eager import simulate_ranks as interpret

    return interpret(kernel, calls, **options)
