"""Runs tests of one file of JAX's in this process, a line of JSON for each start and each end.

``python -m tests.suites.jax_suite.child FILE list`` prints the names; ``... FILE run SECONDS`` reads names from
standard input, gives each so much CPU time, and writes what came of them to standard output's original descriptor.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import time
import unittest
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn

from tests.suites.jax_suite.outcomes import TestTimeout, reason_of

__all__: list[str] = []


def _suite(file: Path) -> unittest.TestSuite:
    """The file's tests, imported by its name as absl's runner would import it."""
    from absl import flags

    if not flags.FLAGS.is_parsed():
        flags.FLAGS(sys.argv[:1])
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"no module at {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    from jax._src import config

    config.parse_flags_with_absl()
    # Which tests there are, and which of them are skipped, depends on the device that they see.
    importlib.import_module("jax._src.test_util")
    config.config.update("jax_test_dut", "cpu")
    spec.loader.exec_module(module)
    return unittest.defaultTestLoader.loadTestsFromModule(module)


def _cases(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from _cases(test)
        else:
            yield test


def _name(case: unittest.TestCase) -> str:
    """``Class.method``, without the parameters that some have behind it (addresses among them)."""
    return case.id().partition(".")[2].partition(" ")[0]


class _Recorder(unittest.TestResult):
    """Keeps the first thing that went wrong; sub-tests count as their test."""

    outcome, reason = "passed", ""

    def _failed(self, error: BaseException | None) -> None:
        if self.outcome == "passed" and error is not None:
            self.outcome, self.reason = reason_of(error)

    def addError(self, test, err):  # type: ignore[no-untyped-def]
        self._failed(err[1])

    def addFailure(self, test, err):  # type: ignore[no-untyped-def]
        self._failed(err[1])

    def addSubTest(self, test, subtest, err):  # type: ignore[no-untyped-def]
        if err is not None:
            self._failed(err[1])

    def addSkip(self, test, reason):  # type: ignore[no-untyped-def]
        if self.outcome == "passed":
            self.outcome, self.reason = "skipped", reason


def _expired(signum: int, frame: FrameType | None) -> NoReturn:
    raise TestTimeout


def _run(case: unittest.TestCase, seconds: float) -> tuple[str, str]:
    from jax._src import config

    # These expect what is lowered for the device that they are told of.
    names_platform = "platform_dependent" in case.id()
    config.config.update("jax_test_dut", "" if names_platform else "cpu")
    recorder = _Recorder()
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        case.run(recorder)
    except TestTimeout:
        return "hang", f"more than {seconds:g} s of CPU time"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return recorder.outcome, recorder.reason


def main() -> None:
    file, what = Path(sys.argv[1]), sys.argv[2]
    records = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what tests print is no record
    cases = {_name(case): case for case in _cases(_suite(file))}
    if what == "list":
        records.write(json.dumps(list(cases)) + "\n")
        return
    signal.signal(signal.SIGPROF, _expired)
    for name in json.load(sys.stdin):
        records.write(json.dumps({"start": name}) + "\n")
        begun = time.monotonic()
        outcome, reason = _run(cases[name], float(sys.argv[3]))
        row = {"test": name, "outcome": outcome, "reason": reason}
        records.write(json.dumps(row | {"seconds": round(time.monotonic() - begun, 2)}) + "\n")
    records.flush()
    os._exit(0)  # frameworks' threads are not waited for


if __name__ == "__main__":
    main()
