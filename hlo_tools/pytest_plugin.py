"""A plugin for pytest that checks kernels: the fixture ``nki_check`` and two options.

``nki_check(kernel, *arguments)`` simulates a kernel with checks and fails the test with what
they find; ``nki_check.strict(kernel)`` reads it for what the vendor's compiler refuses, in the version of NKI
that ``NKI_HLO_NKI`` selects or the newest.
``nki_budget(kernel, *arguments, max_latency_us=40)`` fails the test when the timing model's estimate
is beyond a limit.
``pytest --nki-checks all`` does the first to every kernel that a test calls or simulates, and
``pytest --nki-strict`` the second. Under both, kernels that are called run in the simulator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from nki_lang.base.services import service

__all__ = ["KernelBudget", "KernelChecker"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options."""
    group = parser.getgroup("nki", "NKI kernels")
    group.addoption(
        "--nki-checks", default="", metavar="NAMES",
        help="check every kernel that a test runs: names with commas between, or all",
    )  # fmt: skip
    group.addoption(
        "--nki-strict", action="store_true",
        help="kernels that a test runs must be in the language that the vendor's compiler accepts",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Refuse checks that do not exist before any test runs."""
    names = config.getoption("--nki-checks")
    if not names:
        return
    from nki_lang.base.errors import NkiValidationError
    from nki_lang.execute.checks import checks_of

    try:
        checks_of([name.strip() for name in names.split(",")])
    except NkiValidationError as error:
        raise pytest.UsageError(f"--nki-checks: {error.message}; {error.remedy}") from None


class KernelChecker:
    """Value of the fixture ``nki_check``.

    Attributes:
        checks: names of the checks that are run when a call names none.
        reports: findings in the kernel that runs now are reported only here.
    """

    reports = False

    def __init__(self) -> None:
        self.checks: tuple[str, ...] = (
            "overlap", "races", "accumulation", "finite", "unused", "capacity",
        )  # fmt: skip

    def __call__(
        self,
        kernel: object,
        *args: object,
        nki_checks: str | Iterable[str] | None = None,
        nki_target: str | None = None,
        **kwargs: object,
    ) -> Any:
        """Simulate the kernel; its results, or a failed test with all that was found.

        Args:
            kernel: a kernel; ``kernel[2]`` runs on two cores.
            args, kwargs: its arguments.
            nki_checks: names of checks, or ``"all"``.
            nki_target: the family; the kernel's own or the current one by default.
        """
        __tracebackhide__ = True
        from nki_lang.kernel import simulate

        run: Any = simulate(kernel, checks=nki_checks or self.checks, target=nki_target)
        KernelChecker.reports = True
        try:
            result = run(*args, **kwargs)
        finally:
            KernelChecker.reports = False
        faults = [finding for finding in run.report if finding.check != "precision"]
        if faults:
            pytest.fail("\n".join(map(str, faults)), pytrace=False)
        return result

    def strict(self, kernel: object) -> None:
        """Fail the test when the compiler refuses what the kernel uses."""
        __tracebackhide__ = True
        problems = _strict_errors(kernel)
        if problems:
            pytest.fail("\n".join(problems), pytrace=False)


def _strict_errors(kernel: object) -> list[str]:
    from nki_lang.base.versions import NEWEST_VERSION, selected_version
    from nki_lang.strict import check_kernel

    violations = check_kernel(kernel, version=selected_version() or NEWEST_VERSION)
    return [str(violation) for violation in violations if violation.severity == "error"]


@pytest.fixture
def nki_check() -> KernelChecker:
    """Checks kernels: ``nki_check(kernel, *arguments)`` and ``nki_check.strict(kernel)``."""
    return KernelChecker()


class KernelBudget:
    """Value of the fixture ``nki_budget``."""

    def __call__(
        self,
        kernel: object,
        *args: object,
        max_latency_us: float | None = None,
        max_sbuf_bytes: float | None = None,
        max_hbm_bytes: float | None = None,
        min_utilisation: dict[str, float] | None = None,
        nki_target: str | None = None,
        **kwargs: object,
    ) -> Any:
        """Estimate the kernel; its profile, or a failed test with the limits that it exceeds.

        Args:
            kernel: a kernel; ``kernel[2]`` runs on two cores.
            args, kwargs: its arguments.
            max_latency_us: of the estimated body.
            max_sbuf_bytes, max_hbm_bytes: of memory, SBUF's for all partitions.
            min_utilisation: engine -> share of the time in which it is busy, 0 to 1.
            nki_target: the family; the kernel's own or the current one by default.

        Without a limit those of ``[tool.nki-neff.budgets]`` for the kernel's name are checked.
        """
        __tracebackhide__ = True
        report, checks = service("kernel-budget")(
            kernel, args, kwargs, target=nki_target, max_latency_us=max_latency_us,
            max_sbuf_bytes=max_sbuf_bytes, max_hbm_bytes=max_hbm_bytes,
            min_utilisation=min_utilisation,
        )  # fmt: skip
        exceeded = [str(check) for check in checks if not check.is_kept]
        if exceeded:
            pytest.fail("\n".join(exceeded), pytrace=False)
        return report


@pytest.fixture
def nki_budget() -> KernelBudget:
    """Limits the estimate of kernels: ``nki_budget(kernel, *arguments, max_latency_us=40)``."""
    return KernelBudget()


@pytest.fixture(autouse=True)
def _nki_watch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Checks what a test simulates, when the command line enables it."""
    names = request.config.getoption("--nki-checks")
    strict = request.config.getoption("--nki-strict")
    if not names and not strict:
        yield
        return
    from nki_lang.execute.checks import watch

    problems: list[str] = []

    def listen(func: object, findings: list[Any]) -> None:
        # A fault is an error that the test itself may expect.
        if names and not KernelChecker.reports:
            problems.extend(
                str(finding) for finding in findings if finding.check not in ("fault", "precision")
            )
        if strict:
            problems.extend(_strict_errors(func))

    monkeypatch.setenv("NKI_SIMULATOR", "1")
    if names:
        monkeypatch.setenv(watch.CHECKS_VARIABLE, names)
    monkeypatch.setattr(watch, "LISTENERS", [*watch.LISTENERS, listen])
    yield
    if problems:
        pytest.fail("\n".join(dict.fromkeys(problems)), pytrace=False)
