"""Runs of a command on candidate modules: cached by content, repeated, in parallel, resumable."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from hlo_tools.errors import HloError
from hlo_tools.ir.module import Module

__all__ = ["Candidate", "Plan", "Trials"]

Candidate = tuple[str, Callable[[], Module | None]]
"""A name and a function that builds the module, or returns None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Options of the runs of a command on candidates.

    Attributes:
        command: a shell command; ``{}`` stands for the module's path, which else comes last.
        suffix: of the module's file, which says its format.
        jobs: candidates that are tried at the same time.
        repeat: times that the command must succeed on a candidate.
        timeout: seconds after which a run counts as failed; 0 is none.
        most: runs after which the search ends.
        journal: file that keeps verdicts by content, so that a search can be resumed.
    """

    command: str
    suffix: str = ".hlo"
    jobs: int = 1
    repeat: int = 1
    timeout: float = 0
    most: int = 1000
    journal: Path | None = None


@dataclass(slots=True)
class Trials:
    """Verdicts on candidates.

    Attributes:
        plan: how the command is run.
        valid: says whether a module is worth a run.
        runs: runs of the command so far.
        cached: candidates whose verdict was known.
    """

    plan: Plan
    valid: Callable[[Module], bool]
    runs: int = 0
    cached: int = 0
    _verdicts: dict[str, bool] = field(default_factory=dict[str, bool])

    def __post_init__(self) -> None:
        journal = self.plan.journal
        if journal is not None and journal.exists():
            for line in journal.read_text().splitlines():
                try:
                    row = json.loads(line)
                    self._verdicts[str(row["sha256"])] = bool(row["succeeds"])
                except (ValueError, KeyError, TypeError) as error:
                    raise HloError(
                        f"a line of the journal is not one of ours: {line[:60]}",
                        code="HLO-ARGUMENT", place=str(journal),
                        remedy="name another file, or remove this one",
                    ) from error  # fmt: skip

    @property
    def is_over(self) -> bool:
        """True if all runs are used up."""
        return self.runs >= self.plan.most

    def first(self, candidates: Iterator[Candidate]) -> tuple[str, Module] | None:
        """The first candidate for which the command succeeds; some are tried at a time."""
        while not self.is_over and (batch := list(islice(candidates, max(self.plan.jobs, 1)))):
            built = [(name, module) for name, make in batch if (module := self._made(make))]
            verdicts = self._judge([module for _, module in built])
            for (name, module), succeeds in zip(built, verdicts, strict=True):
                if succeeds:
                    return name, module
        return None

    def _made(self, make: Callable[[], Module | None]) -> Module | None:
        try:
            module = make()
            return module if module is not None and self.valid(module) else None
        except HloError:  # the edit does not apply here
            return None

    def _judge(self, modules: Sequence[Module]) -> list[bool]:
        keys = [hashlib.sha256(module.module_bytes()).hexdigest() for module in modules]
        unknown = {k: m for k, m in zip(keys, modules, strict=True) if k not in self._verdicts}
        self.cached += len(keys) - len(unknown)
        if len(unknown) == 1 or self.plan.jobs == 1:
            verdicts = [self.succeeds(module) for module in unknown.values()]
        else:
            with ThreadPoolExecutor(self.plan.jobs) as pool:
                verdicts = list(pool.map(self.succeeds, unknown.values()))
        self.runs += len(unknown)
        for key, verdict in zip(unknown, verdicts, strict=True):
            self._verdicts[key] = verdict
            self._note(key, verdict)
        return [self._verdicts[key] for key in keys]

    def _note(self, key: str, verdict: bool) -> None:
        if self.plan.journal is not None:
            with self.plan.journal.open("a") as file:
                file.write(json.dumps({"sha256": key, "succeeds": verdict}) + "\n")

    def succeeds(self, module: Module) -> bool:
        """Return True if the command succeeds on a module in every required run."""
        with tempfile.TemporaryDirectory(prefix="nki-hlo-reduce-") as folder:
            path = Path(folder) / f"module{self.plan.suffix}"
            module.save(path)
            return all(self._run(path) for _ in range(self.plan.repeat))

    def _run(self, path: Path) -> bool:
        name = shlex.quote(str(path))
        command = self.plan.command
        line = command.replace("{}", name) if "{}" in command else f"{command} {name}"
        try:
            done = subprocess.run(
                line, shell=True, cwd=path.parent, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env={**os.environ, "NKI_HLO_MODULE": str(path)},
                timeout=self.plan.timeout or None,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0
