"""The pytest plugin that runs nki-library's tests in every way (see ``library_tests.py``).

Its tests call the vendor's simulator by name and get ours. Each call that the simulator took is
repeated in the other ways on copies of the arguments, and the results are compared.
"""

from __future__ import annotations

import copy
import json
import math
import os
import random
import re
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from tests.suites.published.comparing import difference, listed
from tests.suites.published.table import Result, outcome_of, reason_of
from tests.suites.published.ways import RANK_WAYS, WAYS

SETTINGS = "NKI_LIBRARY_TESTS"
"""JSON: ``ways``, ``records`` (file), ``sample``, ``seed``, ``seconds``, ``gigabytes``."""

_SETTINGS = json.loads(os.environ.get(SETTINGS, "{}"))
_TARGET = "NEURON_PLATFORM_TARGET_OVERRIDE"
_TOLERANCE = 1e-2
"""Tolerance relative to the largest number of a result: sums may be taken in another order."""

_found: list[tuple[str, str, float]] = []
"""(way, what went wrong, seconds) of the test that runs."""


def pytest_configure() -> None:
    """Let every simulated call be repeated in the other ways."""
    from test.utils import simulation_setup  # of the copy

    from hlo_tools.frameworks import simulated

    plain = simulated.SimulatedKernel.__call__
    last: list[Any] = []
    one_rank = simulation_setup.run_simulator_inference

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        copied = copy.deepcopy((args, kwargs))
        with _target(os.environ.get("NKI_NC_VERSION", "trn2")):
            result = plain(self, *args, **kwargs)
            for mode in _SETTINGS["ways"]:
                _repeat(mode, self._kernel, copied, result)
        last[:] = listed(result)
        return result

    def inference(test: Any) -> dict[str, Any]:
        if test.inference_args.collective_ranks > 1:
            return _by_ranks(test)
        named = one_rank(test)
        return {
            name: _packed(*pair) for name, *pair in zip(named, named.values(), last, strict=True)
        }

    simulation_setup.run_simulator_inference = inference
    simulated.SimulatedKernel.__call__ = call  # type: ignore[method-assign]


@contextmanager
def _target(name: str) -> Iterator[None]:
    previous = os.environ.get(_TARGET)
    os.environ[_TARGET] = name
    try:
        yield
    finally:
        if previous is None:
            del os.environ[_TARGET]
        else:
            os.environ[_TARGET] = previous


def _repeat(mode: str, kernel: Any, call: tuple[Any, Any], result: Any) -> None:
    start, wrong = time.perf_counter(), ""
    try:
        args, kwargs = copy.deepcopy(call)
        wrong = difference(WAYS[mode](kernel, args, kwargs), result, _TOLERANCE)
    except Exception as error:
        wrong = reason_of(error)
    _found.append((mode, wrong, time.perf_counter() - start))


def _by_ranks(test: Any) -> dict[str, Any]:
    """Run a test of several ranks in every way and compare; nothing is left for it to compare."""
    count = test.inference_args.collective_ranks
    inputs, golden = test.kernel_input, test.validation_args.golden_output
    calls = [_of_rank(inputs, rank) for rank in range(count)]
    cores = test.compiler_input.logical_nc_config
    kernel = test.kernel_func[cores] if cores > 1 else test.kernel_func
    copied = copy.deepcopy(calls)
    with _target(test.compiler_input.platform_target.get_nc_gen()):
        results = RANK_WAYS["simulate"](kernel, calls)
        rank_count = (
            count if hasattr(golden, "for_rank") else 1
        )  # one golden output is that of rank 0
        for rank, result in enumerate(results[:rank_count]):
            wrong = _misses(result, list(_of_rank(golden, rank).values()))
            assert not wrong, f"rank {rank}: {wrong}"
        for mode in set(RANK_WAYS).intersection(_SETTINGS["ways"]):
            _repeat_ranks(mode, kernel, copied, results)
    test.validation_args = None
    return {}


def _misses(result: Any, golden: list[Any]) -> str:
    """Return the difference of the results that have no validator of the test's own."""
    ours = listed(result)
    if len(ours) != len(golden):
        return f"{len(ours)} results instead of {len(golden)}"
    judged = [index for index, array in enumerate(golden) if hasattr(array, "validator")]
    for index in judged:
        if not golden[index].validator().validate(np.asarray(ours[index])):
            return f"result {index} is refused by the test's own validator"
    plain = [index for index in range(len(golden)) if index not in judged]
    expected = [golden[index] for index in plain]
    return difference([ours[index] for index in plain], expected, _TOLERANCE)


def _of_rank(values: Any, rank: int) -> dict[str, Any]:
    """A test's inputs or golden outputs of one rank, which may be those of all."""
    if hasattr(values, "for_rank"):
        values = values.for_rank(rank)
    elif hasattr(values, "golden"):
        values = values.golden or values.output_ndarray
    return {name.removesuffix(".must_alias_input"): value for name, value in values.items()}


def _repeat_ranks(mode: str, kernel: Any, calls: list[Any], results: list[Any]) -> None:
    start, wrong = time.perf_counter(), ""
    try:
        rank_results = RANK_WAYS[mode](kernel, copy.deepcopy(calls))
        for rank, (actual, expected) in enumerate(zip(rank_results, results, strict=True)):
            different = difference(actual, expected, _TOLERANCE)
            wrong = wrong or (different and f"rank {rank}: {different}")
    except Exception as error:
        wrong = reason_of(error)
    _found.append((mode, wrong, time.perf_counter() - start))


def _packed(cast: Any, values: Any) -> Any:
    """Packed elements as bytes of the golden's float type, as the suite reads them from hardware.

    Without hardware it casts results to that type, and packed elements are integers here."""
    raw = np.asarray(values)
    bits = raw.dtype.kind == "u" and cast.dtype.kind == "f"
    return raw.view(cast.dtype) if bits and raw.dtype.itemsize == cast.dtype.itemsize else cast


# -- which tests, for how long, with what result ------------------------------------------------


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep at most ``sample`` tests of each function: any with a ``seed``, else spread over the
    smaller half of its cases."""
    if not _SETTINGS["sample"]:
        return
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        groups.setdefault(item.nodeid.partition("[")[0], []).append(item)
    selected: list[pytest.Item] = []
    for name, group in groups.items():
        candidates = [item for item in group if item.get_closest_marker("skip") is None] or group
        smaller = sorted(candidates, key=_size)[: max(len(candidates) // 2, _SETTINGS["sample"])]
        count = min(_SETTINGS["sample"], len(smaller))
        if _SETTINGS["seed"] is not None:
            selected += random.Random(f"{_SETTINGS['seed']} {name}").sample(candidates, count)
        else:
            selected += [smaller[i * len(smaller) // count] for i in range(count)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(selected)])
    items[:] = selected


def _size(item: pytest.Item) -> float:
    """How large a case is: the product of the numbers in its name."""
    numbers = re.findall(r"(?<![.\d])\d+(?![.\d])", item.name.partition("[")[2])
    return math.prod(max(int(number), 1) for number in numbers if int(number) < 10**6)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """End a test that takes too long."""

    def late(*_: Any) -> None:
        raise TimeoutError(f"took more than {_SETTINGS['seconds']:g} s")

    _found.clear()
    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, _SETTINGS["seconds"])
    usual, maximum = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (int(_SETTINGS["gigabytes"] * 2**30), maximum))
    try:
        yield
    finally:  # pytest needs memory to report that there was none
        resource.setrlimit(resource.RLIMIT_DATA, (usual, maximum))
        signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Iterator[None]:
    """Write down each way's result; a test that failed in one way has failed."""
    hook_result: Any = yield
    report = hook_result.get_result()
    if report.when != "call" and report.passed:
        return
    kernel, case = _kernel_of(item), item.name
    reason = ""
    if report.skipped:
        reason = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else "skipped"
    elif report.failed:
        reason = reason_of(_limit_in(call.excinfo.value) or call.excinfo.value)
    own_seconds = call.duration - sum(seconds for _, _, seconds in _found)
    outcome = "skipped" if report.skipped else outcome_of(reason)
    results = [Result(kernel, case, "simulate", outcome, reason, round(own_seconds, 2))]
    for mode, wrong, seconds in _found:
        results.append(Result(kernel, case, mode, outcome_of(wrong), wrong, round(seconds, 2)))
    with open(_SETTINGS["records"], "a", encoding="utf-8") as file:
        file.writelines(json.dumps(asdict(result)) + "\n" for result in results)
    failures = [f"{mode}: {wrong}" for mode, wrong, _ in _found if wrong]
    if report.passed and failures:
        report.outcome, report.longrepr = "failed", "\n".join(failures)


def _limit_in(error: BaseException | None) -> BaseException | None:
    """The error of a limit that another error followed."""
    while error is not None:
        if isinstance(error, (MemoryError, TimeoutError)):
            return error
        error = error.__cause__ or error.__context__
    return None


def _kernel_of(item: pytest.Item) -> str:
    """``core/cumsum/test_cumsum.py`` as ``core/cumsum``; a file of several, with its name."""
    path = item.nodeid.partition("::")[0].partition("nkilib/")[2].removesuffix(".py")
    folder, _, name = path.rpartition("/")
    return f"{folder}/{name.removeprefix('test_')}"
