"""One build as a value that crosses processes, and doing it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hlo_tools.errors import CodedError
from hlo_tools.store import Action, Store, open_store
from neff.builds.flags import flags_of
from neff.builds.sources import Source
from neff.builds.stored import action_of, fetch, make

if TYPE_CHECKING:
    from neff.profile.explanation import Told

__all__ = ["Failure", "Outcome", "Work", "run_work", "settled"]

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
        explain: say what the compiler did, too.
    """

    source: Source
    flags: tuple[str, ...]
    output: Path
    built_from: str = ""
    store: str = ""
    read_only: bool = False
    explain: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of ours as plain values: it crosses processes."""

    code: str
    message: str
    place: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a build.

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
        explanation: what the compiler did, when it was asked for and the NEFF was built.
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
    explanation: Told | None = None


def run_work(work: Work) -> Outcome:
    """Do one build, in whatever process this is; errors of ours become part of the outcome."""
    started = time.perf_counter()
    try:
        flags = flags_of(work.source.folder, work.flags)
        action = action_of(work.source, flags)
        store = open_store(work.store, read_only=work.read_only) if work.store else None
        if _is_current(work, action, store):
            return Outcome(work, "unchanged", size=work.output.stat().st_size, digest=action.digest)
        build = make(
            work.source, flags, work.output, action=action, store=store, explain=work.explain
        )
    except CodedError as error:
        failure = Failure(error.code, error.message, error.place, error.remedy)
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
        "fetched" if build.fetched else "built",
        build.target,
        work.output.stat().st_size,
        time.perf_counter() - started,
        action.digest,
        build.warnings,
        notes=notes,
        explanation=None if build.explanation is None else build.explanation.told(),
    )


def _is_current(work: Work, action: Action, store: Store | None) -> bool:
    """Return True if the NEFF of a build is there, and in the store, too.

    A build that a store lacks is repeated, since its warnings are stored with it.
    """
    return action.digest == work.built_from and not (store is not None and store.lacks(action))


def settled(work: Work) -> Outcome | None:
    """Return the outcome without a build: an unchanged or stored NEFF; None when a build is
    needed.
    """
    started = time.perf_counter()
    try:
        flags = flags_of(work.source.folder, work.flags)
        action = action_of(work.source, flags)
        store = open_store(work.store, read_only=work.read_only) if work.store else None
        if _is_current(work, action, store):
            return Outcome(work, "unchanged", size=work.output.stat().st_size, digest=action.digest)
        if store is None:
            return None
        stored = fetch(store, action, work.source, work.output)
    except (CodedError, OSError, MemoryError):
        return None  # the build reports it
    if stored is None:
        return None
    size, seconds = work.output.stat().st_size, time.perf_counter() - started
    return Outcome(work, "fetched", stored.target, size, seconds, action.digest, stored.warnings)
