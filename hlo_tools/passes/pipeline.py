"""Pipeline: passes run one after the other, checked, timed and shown on request."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_tools._gc import no_collection
from hlo_tools.errors import HloError, HloVerifyError, reports_bugs
from hlo_tools.ir.module import Module
from hlo_tools.passes.arguments import print_pass
from hlo_tools.passes.base import Pass
from hlo_tools.passes.invariants import broken
from hlo_tools.passes.merging import reading_once
from hlo_tools.passes.pipeline_text import parse_passes
from hlo_tools.rewrite.errors import PassError

if TYPE_CHECKING:
    from hlo_tools.verify import Finding

__all__ = ["Pipeline", "Report", "Step"]


@dataclass(frozen=True, slots=True)
class Step:
    """The report of one pass.

    Attributes:
        text: the pass with its arguments.
        modified: whether it changed anything.
        before, after: instructions of the module.
        seconds: how long it took, 0.0 when not timed.
    """

    text: str
    modified: bool
    before: int
    after: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """The report of a pipeline: ``steps`` has an entry per pass that ran, in order."""

    steps: tuple[Step, ...]

    @property
    def modified(self) -> bool:
        """True if a pass changed the module."""
        return any(step.modified for step in self.steps)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """``passes`` in the order in which they run; immutable."""

    passes: tuple[Pass, ...]

    @classmethod
    def parse(cls, text: str) -> Pipeline:
        """The pipeline of a text; see :mod:`hlo_tools.passes.pipeline_text`.

        Raises:
            PassError: with line and column of the text.
        """
        return cls(parse_passes(text))

    def run(
        self,
        module: Module,
        *,
        verify_each: bool = False,
        time_passes: bool = False,
        print_between: Callable[[str], object] | None = None,
        check: Callable[[Module], object] | None = None,
        on_pass: Callable[[str, int], object] | None = None,
    ) -> Report:
        """Run every pass on ``module``, which is changed in place.

        Args:
            verify_each: verify the module before the first and after every pass, and check what
                each pass requires and ensures.
            time_passes: measure each pass, bringing the message up to date included.
            print_between: called with the module's text before the first pass, and after every
                pass that changed it; a comment line names it.
            check: called with the module after every pass that changed it; an error that it raises
                is placed at the pass.
            on_pass: called before every pass with its text and its number.

        Raises:
            HloVerifyError: ``verify_each`` found something wrong; the place names the pass.
            PassError: a pass cannot do what it is meant to, or cannot read the module.
            HloUnsupportedError: as :meth:`Module.require_known_fields`.
        """
        module.require_known_fields()
        with reading_once(module):
            return self._run(module, verify_each, time_passes, print_between, check, on_pass)

    def _run(
        self,
        module: Module,
        verify_each: bool,
        time_passes: bool,
        print_between: Callable[[str], object] | None,
        check: Callable[[Module], object] | None,
        on_pass: Callable[[str, int], object] | None,
    ) -> Report:
        if verify_each:
            _verify(module, "before the first pass")
        if print_between is not None:
            print_between(_shown(module, "before the first pass"))
        steps: list[Step] = []
        count = _count(module)
        for number, stage in enumerate(self.passes):
            if on_pass is not None:
                on_pass(print_pass(stage), number)
            if verify_each:
                _require(module, stage)
            step = _run_pass(stage, module, count, time_passes)
            count = step.after
            steps.append(step)
            if verify_each:
                _ensure(module, stage)
            if print_between is not None and step.modified:
                print_between(_shown(module, f"after {step.text}"))
            if check is not None and step.modified:
                with _placed(f"pass {step.text}"):
                    check(module)
        return Report(tuple(steps))

    def __str__(self) -> str:
        return ",".join(print_pass(stage) for stage in self.passes)


def _run_pass(stage: Pass, module: Module, before: int, timed: bool) -> Step:
    started = time.perf_counter() if timed else 0.0
    read = module.pass_rows
    before_pass = b"" if _is_ours(stage) else module.proto.SerializeToString(deterministic=True)
    with _placed(f"pass {stage.name}"), no_collection():
        try:
            modified = stage.run(module)
        except (HloError, MemoryError, OSError):
            raise
        except Exception as error:
            raise _failure(stage, module, error) from error
        if not _is_ours(stage):
            _check_report(modified, module, before_pass)
        if modified and module.pass_rows is read:  # it did not update what was read
            module.pass_rows = {}
        module.proto  # noqa: B018 - edits are brought into the message as part of the pass
    seconds = time.perf_counter() - started if timed else 0.0
    return Step(print_pass(stage), modified, before, _count(module), seconds)


def _is_ours(stage: Pass) -> bool:
    return type(stage).__module__.partition(".")[0] == __name__.partition(".")[0]


def _check_report(modified: object, module: Module, before: bytes) -> None:
    """Refuse a pass that does not report its changes: a proof or a check would leave them out."""
    remedy = "run(module) returns True if it changed the module, and False if it did not"
    if not isinstance(modified, bool):
        raise PassError(f"its run() returned {modified!r}", code="HLO-PASS-REPORT", remedy=remedy)
    if not modified and module.proto.SerializeToString(deterministic=True) != before:
        raise PassError(
            "it changed the module and returned False", code="HLO-PASS-REPORT", remedy=remedy
        )


def _failure(stage: Pass, module: Module, error: Exception) -> PassError:
    """Return the error of a failed pass: the rule that the module violates, or the faulty package."""
    what = f"{type(error).__name__}: {error}"
    wrong = _first_error(module)
    if wrong is not None:
        return PassError(
            f"it cannot read the module ({what}), which is not valid: {wrong.message}",
            code="HLO-PASS-MODULE",
            place=wrong.place,
            remedy="nki-hlo verify lists what is wrong with the module",
        )
    if not _is_ours(stage):
        package = type(stage).__module__.partition(".")[0]
        return PassError(
            f"it fails: {what}",
            code="HLO-PASS-FAILED",
            remedy=f"this is a bug of {package}; --debug shows where",
        )
    if not reports_bugs():
        raise error
    return PassError(
        f"it fails: {what}",
        code="HLO-INTERNAL",
        remedy="this is a bug of the pass, not of the module; please report it with the module and "
        "the output of the same command with --debug",
    )


def _first_error(module: Module) -> Finding | None:
    from hlo_tools.verify import Severity, verify

    return next((finding for finding in verify(module) if finding.severity is Severity.error), None)


@contextmanager
def _placed(where: str) -> Generator[None]:
    """Errors name the pass that raised them."""
    try:
        yield
    except HloError as error:
        location = f"{where}: {error.place}" if error.place else where
        raise type(error)(
            error.message, code=error.code, place=location, remedy=error.remedy
        ) from error


def _count(module: Module) -> int:
    return sum(len(proto.instructions) for proto in module.proto.computations)


def _shown(module: Module, when: str) -> str:
    from hlo_tools.text import print_module

    return f"// {when}\n{print_module(module)}"


def _verify(module: Module, when: str) -> None:
    finding = _first_error(module)
    if finding is not None:
        raise HloVerifyError(
            finding.message,
            code=finding.code,
            place=f"{when}: {finding.place or module.path}",
            remedy=finding.remedy,
        )


def _require(module: Module, stage: Pass) -> None:
    violation = broken(module, stage.requires)
    if violation is not None:
        invariant, what = violation
        raise PassError(
            f"{stage.name} requires {invariant.name} ({invariant.meaning}); {what} violates it",
            code="HLO-PASS-REQUIRES",
            place=f"pass {stage.name}",
            remedy="run a pass that ensures it before; nki-hlo opt --list shows which do",
        )


def _ensure(module: Module, stage: Pass) -> None:
    _verify(module, f"after {stage.name}")
    if stage != type(stage)():
        return
    violation = broken(module, stage.ensures)
    if violation is not None:
        invariant, what = violation
        raise PassError(
            f"{stage.name} ensures {invariant.name} ({invariant.meaning}), but {what} violates it",
            code="HLO-PASS-ENSURES",
            place=f"pass {stage.name}",
            remedy="this is a bug of the pass; report it with the module",
        )
