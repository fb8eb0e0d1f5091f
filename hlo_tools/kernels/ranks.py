"""Kernel calls of several devices of one process, whose collectives synchronise.

XLA runs the call of each device by itself. A kernel that communicates with other ranks starts when
the last rank that its replica groups name has called it; the ranks are the devices' numbers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from hlo_tools.errors import HloVerifyError
from hlo_tools.types.element_types import Array
from nki_lang.ir import KernelIR, walk

__all__ = ["Place", "at", "current_place", "meet", "ranks_of"]

_PATIENCE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a call runs.

    Attributes:
        run: one execution of a program on all its devices.
        rank: number of the device.
    """

    run: int
    rank: int


_place: ContextVar[Place | None] = ContextVar("place", default=None)


@contextmanager
def at(place: Place | None) -> Generator[None]:
    """Set where kernel calls inside run."""
    token = _place.set(place)
    try:
        yield
    finally:
        _place.reset(token)


def current_place() -> Place | None:
    """Where the kernel call that is executed now runs; None outside of a program of XLA."""
    return _place.get()


def ranks_of(kernel: KernelIR) -> int:
    """How many ranks the kernel's replica groups name; 0 when it has none."""
    groups = {
        instruction.operands["replica_group"]
        for body in kernel.bodies
        for instruction in walk(body)
        if "replica_group" in instruction.operands
    }
    return 1 + max((rank for group in groups for ranks in group for rank in ranks), default=-1)


@dataclass(slots=True)
class _Launch:
    """Operands that each rank brought, and the results or the error for all ranks."""

    brought: dict[int, Sequence[Array]] = field(default_factory=dict[int, Sequence[Array]])
    results: list[list[Array]] | None = None
    error: BaseException | None = None

    @property
    def is_over(self) -> bool:
        return self.results is not None or self.error is not None


_changed = threading.Condition()
_open: dict[tuple[str, int], _Launch] = {}


def meet(
    name: str,
    place: Place,
    size: int,
    inputs: Sequence[Array],
    work: Callable[[list[Sequence[Array]]], list[list[Array]]],
) -> list[Array]:
    """Wait for the calls of all ranks; the last one works for all.

    Args:
        name: what is called, the same text for every rank.
        place: where this call runs.
        size: number of ranks.
        inputs: this rank's.
        work: inputs of all ranks -> results of all ranks.

    Raises:
        HloVerifyError: code ``HLO-KERNEL-RANKS``; a rank did not come, or came twice at once.
        BaseException: whatever ``work`` raised, for every rank.
    """
    key = (name, place.run)
    with _changed:
        launch = _open.setdefault(key, _Launch())
        if place.rank in launch.brought or place.rank >= size:
            raise _wrong(place, size, place.rank >= size)
        launch.brought[place.rank] = inputs
        is_last = len(launch.brought) == size
        if is_last:
            del _open[key]
    if is_last:
        _work(launch, size, work)
    with _changed:
        if not _changed.wait_for(lambda: launch.is_over, _PATIENCE_SECONDS):
            _open.pop(key, None)
            raise _missing(launch, size)
    if launch.error is not None:
        raise launch.error
    assert launch.results is not None
    return launch.results[place.rank]


def _work(launch: _Launch, size: int, work: Callable[..., list[list[Array]]]) -> None:
    try:
        results = work([launch.brought[rank] for rank in range(size)])
    except BaseException as error:
        launch.error = error
    else:
        launch.results = results
    with _changed:
        _changed.notify_all()


def _wrong(location: Place, size: int, is_outside: bool) -> HloVerifyError:
    if is_outside:
        what = f"device {location.rank} runs a kernel whose replica groups name {size} ranks"
        remedy = "name every device of the mesh in the replica groups"
    else:
        what = f"rank {location.rank} runs two calls of one kernel at the same time"
        remedy = "let one of the calls use a result of the other"
    return HloVerifyError(what, code="HLO-KERNEL-RANKS", remedy=remedy)


def _missing(launch: _Launch, size: int) -> HloVerifyError:
    absent = ", ".join(str(rank) for rank in range(size) if rank not in launch.brought)
    return HloVerifyError(
        f"rank {absent} of {size} did not call the kernel in {_PATIENCE_SECONDS:.0f} s",
        code="HLO-KERNEL-RANKS",
        remedy="run it on as many devices as its replica groups name (jax.shard_map)",
    )
