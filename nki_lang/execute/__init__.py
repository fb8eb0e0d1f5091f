"""Execution of kernels: the memories, the fast executor, and the eager interpreter.

Other packages use the names below, ``execute.checks`` and ``execute.hosts``, and nothing else of
this package.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from nki_lang.execute.bodies import MAX_STATEMENTS, LoopFunction
from nki_lang.execute.direct import direct_step
from nki_lang.execute.exchange import Meeting, run_together
from nki_lang.execute.executor import Executable, Pool, load
from nki_lang.execute.loops import loop_step
from nki_lang.execute.memory import Memory
from nki_lang.execute.prepare import OPERAND_ERRORS, failure, prepare
from nki_lang.execute.program import uninitialised
from nki_lang.execute.ranks import meeting_of, run_ranks
from nki_lang.execute.reaching import ReachingRead, certain_reads
from nki_lang.execute.tracking import Tracker

__all__ = [
    "MAX_STATEMENTS",
    "OPERAND_ERRORS",
    "Executable",
    "LoopFunction",
    "Meeting",
    "Memory",
    "Pool",
    "ReachingRead",
    "Tracker",
    "certain_reads",
    "direct_step",
    "failure",
    "load",
    "loop_step",
    "meeting_of",
    "prepare",
    "run_ranks",
    "run_together",
    "simulate",
    "simulate_ranks",
    "uninitialised",
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
