"""Many builds at once, with any executor of ``concurrent.futures``; unchanged ones are skipped.

Works are values that pickle, results are too, and workers share nothing but the file system. The
folder of the NEFFs keeps a record of what each was built from.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, cast

from hlo_tools.errors import CodedError
from hlo_tools.store import open_store
from neff.builds.flags import flags_of
from neff.builds.sources import Source
from neff.builds.stored import action_of, make
from nki_lang.atomic import atomic_file
from nki_lang.errors import NkiError

__all__ = ["Failure", "Outcome", "Progress", "Work", "build_many"]

RECORD: Final = ".nki-neff-builds.json"
_ATTEMPTS: Final = 3
"""How often a build is begun whose worker died; another build may have killed it."""

Status = Literal["built", "fetched", "unchanged", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Work:
    """One build to do.

    Attributes:
        source: what to build.
        flags: of the command line; those beside the module come first.
        output: the file to write.
        built_from: digest of the inputs that the file there was built from, "" to build anyway.
        store: URL or folder of a store of NEFFs (:mod:`hlo_tools.store`), "" for none.
        read_only: the store is read, not written.
    """

    source: Source
    flags: tuple[str, ...]
    output: Path
    built_from: str = ""
    store: str = ""
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of ours as plain values: it crosses processes."""

    code: str
    message: str
    place: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a build.

    Attributes:
        work: the build.
        status: ``built``; ``fetched``: it came from the store; ``unchanged``: the file there was made of the same inputs; ``failed``;
            ``skipped``: not begun, since another failed.
        target: family of the NEFF, "" when there is none.
        size: bytes of the NEFF.
        seconds: how long it took.
        digest: of the inputs.
        warnings: one line each.
        failure: what went wrong.
        notes: what went wrong with the store.
    """

    work: Work
    status: Status
    target: str = ""
    size: int = 0
    seconds: float = 0.0
    digest: str = ""
    warnings: tuple[str, ...] = ()
    failure: Failure | None = None
    notes: tuple[str, ...] = ()


Progress = Callable[[Outcome], None]


def build_many(
    works: Sequence[Work],
    *,
    executor: Callable[[], Executor] | None = None,
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
        keep_going: begin further builds after one failed.
        on_done: called with each outcome as it comes.
    """
    known = {folder: _read_record(folder) for folder in {work.output.parent for work in works}}
    works = [replace(work, built_from=_unchanged(work, known)) for work in works]
    if executor is None:
        outcomes = _one_by_one(works, keep_going, on_done)
    else:
        outcomes = _with_executor(works, executor, keep_going, on_done)
    for folder in known:
        _write_record(folder, [one for one in outcomes if one.work.output.parent == folder])
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


def _with_executor(
    works: Sequence[Work], make: Callable[[], Executor], keep_going: bool, on_done: Progress
) -> list[Outcome]:
    found: dict[int, Outcome] = {}
    attempts = dict.fromkeys(range(len(works)), 0)
    while len(found) < len(works):
        waiting = [number for number in range(len(works)) if number not in found]
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
                found[number] = outcome
                on_done(outcome)
                if outcome.status == "failed" and not keep_going:
                    for other in futures:
                        other.cancel()
    return [found[number] for number in range(len(works))]


def _outcome(future: Future[Outcome], work: Work, *, last: bool) -> Outcome | None:
    """What a future holds; None when its worker died and it may be tried again."""
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
            "it may need more memory than there is; build it by itself, or with fewer processes",
        )
        return Outcome(work, "failed", failure=failure)


def run_work(work: Work) -> Outcome:
    """Do one build, in whatever process this is; errors of ours become part of the outcome."""
    started = time.perf_counter()
    try:
        flags = flags_of(work.source.folder, work.flags)
        action = action_of(work.source, flags)
        if action.digest == work.built_from:
            return Outcome(work, "unchanged", size=work.output.stat().st_size, digest=action.digest)
        store = open_store(work.store, read_only=work.read_only) if work.store else None
        made = make(work.source, flags, work.output, action=action, store=store)
    except (CodedError, NkiError) as error:
        place = str(getattr(error, "place", "") or getattr(error, "location", "") or "")
        failure = Failure(error.code, error.message, place, error.remedy)
        return Outcome(work, "failed", seconds=time.perf_counter() - started, failure=failure)
    except (OSError, MemoryError) as error:
        failure = Failure(
            "NEFF-IO" if isinstance(error, OSError) else "NEFF-MEMORY",
            str(error) or "out of memory",
            str(getattr(error, "filename", None) or work.source.file),
            "check that the files are readable and the machine has room",
        )
        return Outcome(work, "failed", seconds=time.perf_counter() - started, failure=failure)
    notes = tuple(store.notes) if store is not None else ()
    return Outcome(
        work,
        "fetched" if made.fetched else "built",
        made.target,
        work.output.stat().st_size,
        time.perf_counter() - started,
        action.digest,
        made.warnings,
        notes=notes,
    )


# ------------------------------------------------------------------ what NEFFs were built from


def _read_record(folder: Path) -> dict[str, tuple[str, str]]:
    """Output's name -> (digest of its inputs, digest of itself); a damaged record is empty."""
    try:
        document: object = json.loads((folder / RECORD).read_bytes())
        rows = cast("dict[str, list[str]]", document)
        return {name: (str(inputs), str(output)) for name, (inputs, output) in rows.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _unchanged(work: Work, known: dict[Path, dict[str, tuple[str, str]]]) -> str:
    """The digest of inputs that the output there was built from, "" when it is not known."""
    inputs, output = known[work.output.parent].get(work.output.name, ("", ""))
    try:
        same = bool(inputs) and hashlib.sha256(work.output.read_bytes()).hexdigest() == output
    except OSError:
        same = False
    return inputs if same else ""


def _write_record(folder: Path, outcomes: Sequence[Outcome]) -> None:
    rows = {name: list(row) for name, row in _read_record(folder).items()}
    for one in outcomes:
        if one.status in ("built", "fetched"):
            content = hashlib.sha256(one.work.output.read_bytes()).hexdigest()
            rows[one.work.output.name] = [one.digest, content]
    if not rows:
        return
    try:
        with atomic_file(folder / RECORD) as file:
            file.write(json.dumps(dict(sorted(rows.items())), indent=1).encode())
    except OSError:
        return  # the next build builds again
