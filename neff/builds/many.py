"""Many builds at once, with any executor of ``concurrent.futures``; unchanged ones are skipped.

Works are values that pickle, results are too, and workers share nothing but the file system. The
folder of the NEFFs keeps a record of what each was built from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

from hlo_tools.files.plain import MAX_RECORD_BYTES, MAX_RESULT_BYTES, read_plain
from neff.builds.cluster import build_on_cluster
from neff.builds.works import Failure, Outcome, Work, run_work, settled
from nki_lang.base.atomic import atomic_file

__all__ = ["Failure", "Outcome", "Progress", "Work", "build_many"]

RECORD: Final = ".nki-neff-builds.json"
_ATTEMPTS: Final = 3
"""How often a build is begun whose worker died; another build may have killed it."""

Progress = Callable[[Outcome], None]
"""Is told each outcome as it comes."""


def build_many(
    works: Sequence[Work],
    *,
    executor: Callable[[], Executor] | None = None,
    scheduler: str = "",
    keep_going: bool = False,
    on_done: Progress = lambda outcome: None,
) -> list[Outcome]:
    """Build all works; the outcomes in their order.

    A NEFF that the record of its folder says was made of the same inputs, flags and version, and
    that is unchanged since, is left as it is.

    Args:
        works: what to build; their outputs differ.
        executor: makes an executor (``lambda: ProcessPoolExecutor(8)``); builds run here, one
            after the other, without one. It is made anew when a worker dies.
        scheduler: address of a Dask scheduler, in place of an executor: its workers share no folder
            with this machine.
        keep_going: begin further builds after one failed.
        on_done: called with each outcome as it comes.
    """
    records = {folder: _read_record(folder) for folder in {work.output.parent for work in works}}
    works = [replace(work, built_from=_unchanged(work, records)) for work in works]
    if scheduler:
        outcomes = _with_cluster(works, scheduler, keep_going, on_done)
    elif executor is None:
        outcomes = _one_by_one(works, keep_going, on_done)
    else:
        outcomes = _with_executor(works, executor, keep_going, on_done)
    for folder in records:
        _write_record(
            folder, [outcome for outcome in outcomes if outcome.work.output.parent == folder]
        )
    return outcomes


def _one_by_one(works: Sequence[Work], keep_going: bool, on_done: Progress) -> list[Outcome]:
    outcomes: list[Outcome] = []
    failed = False
    for work in works:
        outcome = Outcome(work, "skipped") if failed and not keep_going else run_work(work)
        failed = failed or outcome.status == "failed"
        on_done(outcome)
        outcomes.append(outcome)
    return outcomes


def _with_cluster(
    works: Sequence[Work], scheduler: str, keep_going: bool, on_done: Progress
) -> list[Outcome]:
    outcomes = {number: settled(work) for number, work in enumerate(works)}
    for outcome in filter(None, outcomes.values()):
        on_done(outcome)
    left = [work for number, work in enumerate(works) if outcomes[number] is None]
    built = iter(build_on_cluster(left, scheduler, keep_going=keep_going, on_done=on_done))
    return [outcomes[number] or next(built) for number in range(len(works))]


def _with_executor(
    works: Sequence[Work], make: Callable[[], Executor], keep_going: bool, on_done: Progress
) -> list[Outcome]:
    outcomes: dict[int, Outcome] = {}
    attempts = dict.fromkeys(range(len(works)), 0)
    while len(outcomes) < len(works):
        waiting = [number for number in range(len(works)) if number not in outcomes]
        with make() as executor:
            futures: dict[Future[Outcome], int] = {}
            for number in waiting:
                attempts[number] += 1
                futures[executor.submit(run_work, works[number])] = number
            for future in as_completed(futures):
                number = futures[future]
                outcome = _outcome(future, works[number], last=attempts[number] >= _ATTEMPTS)
                if outcome is None:
                    continue  # its worker died: once more
                outcomes[number] = outcome
                on_done(outcome)
                if outcome.status == "failed" and not keep_going:
                    for pending in futures:
                        pending.cancel()
    return [outcomes[number] for number in range(len(works))]


def _outcome(future: Future[Outcome], work: Work, *, last: bool) -> Outcome | None:
    """Return the result of a future; None when its worker died and it may be tried again."""
    if future.cancelled():
        return Outcome(work, "skipped")
    try:
        return future.result()
    except BrokenExecutor as error:
        if not last:
            return None
        failure = Failure(
            "NEFF-WORKER",
            f"the process that built it died {_ATTEMPTS} times: {error}",
            str(work.source.file),
            "it may need more memory than the host has; build the module alone, or with fewer processes",
        )
        return Outcome(work, "failed", failure=failure)


# ------------------------------------------------------------------ what NEFFs were built from


def _read_record(folder: Path) -> dict[str, tuple[str, str]]:
    """Output's name -> (digest of its inputs, digest of itself); a damaged record is empty."""
    try:
        document: object = json.loads(read_plain(folder / RECORD, MAX_RECORD_BYTES))
        rows = cast("dict[str, list[str]]", document)
        return {name: (str(inputs), str(output)) for name, (inputs, output) in rows.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _unchanged(work: Work, records: dict[Path, dict[str, tuple[str, str]]]) -> str:
    """The digest of inputs that the output there was built from, "" when it is not known."""
    inputs, output = records[work.output.parent].get(work.output.name, ("", ""))
    try:
        same = (
            bool(inputs)
            and hashlib.sha256(read_plain(work.output, MAX_RESULT_BYTES)).hexdigest() == output
        )
    except OSError:
        same = False
    return inputs if same else ""


def _write_record(folder: Path, outcomes: Sequence[Outcome]) -> None:
    rows = {name: list(row) for name, row in _read_record(folder).items()}
    for outcome in outcomes:
        if outcome.status in ("built", "fetched"):
            content = hashlib.sha256(outcome.work.output.read_bytes()).hexdigest()
            rows[outcome.work.output.name] = [outcome.digest, content]
    if not rows:
        return
    try:
        with atomic_file(folder / RECORD) as file:
            file.write(json.dumps(dict(sorted(rows.items())), indent=1).encode())
    except OSError:
        return  # the next build builds again
