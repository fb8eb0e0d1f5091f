"""Builds on a Dask cluster: modules go there as bytes, NEFFs come back as bytes, no folder is shared.

A worker that dies takes nothing with it: Dask gives what it had to others, and what has killed several
workers is tried again by itself.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, cast

from hlo_tools.errors import CodedError
from hlo_tools.store import open_store
from neff.builds.flags import flags_of
from neff.builds.sources import Source
from neff.builds.stored import Made, action_of, keep, source_files
from neff.builds.works import Failure, Outcome, Work, run_work
from neff.errors import NeffError
from neff.version import toolchain_digest

__all__ = ["build_on_cluster"]

_BATCH: Final = 16
"""Modules of one task, at most: a task costs some 4 ms beside its work."""
_ATTEMPTS: Final = 3
_PATIENCE: Final = 20
"""Seconds until a scheduler has to answer, and then to have a worker."""
_WORKER_FOLDER_MARK: Final = "{folder}"


@dataclass(frozen=True, slots=True)
class Parcel:
    """A build with everything that it needs.

    Attributes:
        place: the module's folder: its own name behind its parent's, of which an entry's is checked.
        file: the source in it.
        files: content by name in the folder.
        flags: of the command line.
        toolchain: digest of the sources that are to build it.
    """

    place: str
    file: str
    files: dict[str, bytes]
    flags: tuple[str, ...]
    toolchain: str


@dataclass(frozen=True, slots=True)
class Parcels:
    """The returned files of a build: outcome, paths without the worker's folder, and the NEFF."""

    outcome: Outcome
    neff: bytes


class _Task(Protocol):
    """A future of Dask's."""

    def result(self) -> list[Parcels]: ...


def build_on_cluster(
    works: Sequence[Work],
    scheduler: str,
    *,
    keep_going: bool,
    on_done: Callable[[Outcome], None],
) -> list[Outcome]:
    """Build works on the workers of a scheduler; the outcomes in their order.

    Args:
        works: none of them unchanged.
        scheduler: its address, ``tcp://host:8786``.
        keep_going: begin further builds after one failed.
        on_done: called with each outcome as it comes.

    Raises:
        NeffError: ``NEFF-CLUSTER``: the package is missing, no scheduler answers there, or
            it has no worker.
    """
    outcomes: dict[int, Outcome] = {}
    parcels: dict[int, Parcel] = {}
    for number, work in enumerate(works):
        try:
            parcels[number] = _pack(work)
        except (CodedError, OSError):
            outcomes[number] = run_work(work)  # which reports it, or builds what cannot be sent
            on_done(outcomes[number])
    client, completed = _connect(scheduler)
    waiting: list[list[int]] = _batches(list(parcels), _size(len(parcels), len(client.nthreads())))
    failed = False
    try:
        for attempt in range(_ATTEMPTS):
            tasks = {
                client.submit(build_parcels, [parcels[n] for n in batch], pure=False): batch
                for batch in waiting
            }
            waiting = list[list[int]]()
            for task in completed(list(tasks)):
                batch = tasks[task]
                done = _results(task, [works[n] for n in batch], last=attempt == _ATTEMPTS - 1)
                if done is None:
                    waiting += _batches(batch, 1)  # its workers died: each by itself
                    continue
                for number, outcome in zip(batch, done, strict=True):
                    outcomes[number] = outcome
                    on_done(outcome)
                    failed = failed or outcome.status == "failed"
                if failed and not keep_going:
                    waiting = list[list[int]]()
                    break
            if not waiting:
                break
    finally:
        client.close()
    return [outcomes.get(n) or Outcome(work, "skipped") for n, work in enumerate(works)]


def _size(count: int, workers: int) -> int:
    """Modules of a batch: every worker gets several batches."""
    return max(1, min(_BATCH, count // (4 * max(workers, 1))))


def _batches(numbers: Sequence[int], size: int) -> list[list[int]]:
    return [list(numbers[start : start + size]) for start in range(0, len(numbers), size)]


def _results(task: _Task, works: Sequence[Work], *, last: bool) -> list[Outcome] | None:
    """The outcomes of a task, their NEFFs written; None when its workers died."""
    killed = cast("type[Exception]", import_module("distributed").KilledWorker)
    try:
        return [_unpack(parcels, work) for parcels, work in zip(task.result(), works, strict=True)]
    except killed as error:
        if not last:
            return None
        failure = Failure(
            "NEFF-WORKER",
            f"workers of the cluster died of it: {error}",
            "",
            "it may need more memory than a worker has; build it without --scheduler",
        )
        return [Outcome(work, "failed", failure=failure) for work in works]


def _pack(work: Work) -> Parcel:
    folder = work.source.folder.absolute()
    if flags_of(folder, work.flags).kernels:
        raise NeffError("workers may not have these registered kernels", code="NEFF-CLUSTER",
                        remedy="it is built here")  # fmt: skip
    files = dict(source_files(work.source))
    location = f"{folder.parent.name or 'a'}/{folder.name or 'b'}"
    return Parcel(location, work.source.file.name, files, work.flags, toolchain_digest())


def _unpack(parcels: Parcels, work: Work) -> Outcome:
    """The outcome as if it had been built here; the NEFF gets its name."""
    from hlo_tools.files.writing import write_bytes

    folder = str(work.source.folder)
    outcome = parcels.outcome
    failure = outcome.failure and replace(
        outcome.failure, place=outcome.failure.place.replace(_WORKER_FOLDER_MARK, folder)
    )
    warnings = tuple(text.replace(_WORKER_FOLDER_MARK, folder) for text in outcome.warnings)
    if parcels.neff:
        write_bytes(parcels.neff, work.output)
        _keep(work, Made(outcome.target, warnings, False))
    return replace(outcome, work=work, warnings=warnings, failure=failure)


def _keep(work: Work, build: Made) -> None:
    if work.store:
        store = open_store(work.store, read_only=work.read_only)
        action = action_of(work.source, flags_of(work.source.folder, work.flags))
        keep(store, action, work.source, work.output, build)


def build_parcels(parcels: Sequence[Parcel]) -> list[Parcels]:
    """Build parcels in a folder of this machine; runs in a worker."""
    return [_build(parcel) for parcel in parcels]


def _build(parcel: Parcel) -> Parcels:
    with tempfile.TemporaryDirectory(prefix="nki-neff-") as name:
        folder = Path(name) / parcel.place
        for file, content in parcel.files.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        output = Path(name) / "out.neff"
        work = Work(Source(folder / parcel.file, folder), parcel.flags, output)
        outcome = run_work(work)
        if toolchain_digest() != parcel.toolchain:
            failure = Failure(
                "NEFF-CLUSTER",
                "the worker has another version of the toolchain: its NEFFs would differ",
                "",
                "install the same nki-hlo on every worker",
            )
            return Parcels(Outcome(work, "failed", failure=failure), b"")
        neff = output.read_bytes() if outcome.status == "built" else b""
        failure = outcome.failure and replace(
            outcome.failure, place=outcome.failure.place.replace(str(folder), _WORKER_FOLDER_MARK)
        )
        warnings = tuple(
            text.replace(str(folder), _WORKER_FOLDER_MARK) for text in outcome.warnings
        )
        return Parcels(replace(outcome, failure=failure, warnings=warnings), neff)


class _Client(Protocol):
    """The used methods of Dask's client."""

    def submit(self, function: object, *words: object, pure: bool) -> _Task: ...
    def nthreads(self) -> dict[str, int]: ...
    def close(self) -> None: ...


def _connect(scheduler: str) -> tuple[_Client, Callable[[list[_Task]], Sequence[_Task]]]:
    try:
        distributed = import_module("distributed")
        client = distributed.Client(scheduler, timeout=_PATIENCE)
    except ImportError:
        raise NeffError(
            "--scheduler needs the package distributed",
            code="NEFF-CLUSTER",
            remedy="pip install '.[dask]' in the checkout",
        ) from None
    except (OSError, ValueError) as error:
        raise NeffError(
            f"no scheduler answers: {error}",
            code="NEFF-CLUSTER",
            place=scheduler,
            remedy="start one with dask scheduler, and pass the address that it prints",
        ) from error
    try:
        client.wait_for_workers(1, timeout=_PATIENCE)
    except OSError as error:  # of which TimeoutError is one
        client.close()
        raise NeffError(
            f"the scheduler has had no worker for {_PATIENCE} seconds",
            code="NEFF-CLUSTER",
            place=scheduler,
            remedy="start workers with dask worker ADDRESS, in an environment like this one",
        ) from error
    return client, distributed.as_completed
