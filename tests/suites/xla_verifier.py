"""How much of what XLA's verifier finds ours finds, and what it finds beside.

Reads the verifier's tests in a checkout of XLA (nothing of them is in this repository)::

    python -m tests.suites.xla_verifier CHECKOUT [--held-out] [--others] [--corpus FOLDER] [--json FILE]

A test is held out when the SHA-256 of ``Fixture.Name`` starts with 0, 1 or 2: those are for
reports and left out otherwise. ``--others`` checks every module that other tests of XLA parse as
valid (``ParseAndReturnVerifiedModule``), ``--corpus`` every module below a folder: a finding in
one of these is a false alarm.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import hlo_tools
from hlo_tools.errors import HloError
from hlo_tools.ir.module import Module
from hlo_tools.text import parse
from hlo_tools.verify import Options, Severity, verify
from tests.suites.xla.texts import Parsed, Test, is_held_out, modules_in, read_tests

_FIXTURES = {
    "LayoutSensitive": Options(layout_sensitive=True),
    "LayoutFusion": Options(layout_sensitive=True),
    "AllowMixedPrecision": Options(mixed_precision=True),
    "LayoutSensitiveAndAllowMixedPrecision": Options(layout_sensitive=True, mixed_precision=True),
    "ForCollectiveDeadlocks": Options(deadlocks=True),
    "SkipCheckReplicaGroups": Options(replica_groups=False),
}
_OPTIONS: dict[str, dict[str, bool]] = {
    "VerifyCallNestedComputationThreadName": {"threads": True},
    "VerifyBroadcastDimensionsOrder": {"ordered_broadcasts": True},
    "VerifyInstructionNameUnchanged": {"same_names": True},
    "VerifyNoHostMemorySpace": {"device_memory": True},
    "MakeLayoutSensitive": {"layout_sensitive": True},
    "VerifyReshapeIsBitcast": {"bitcast_reshapes": True},
    "WithAllowUnboundedDynamism(true)": {"unbounded": True},
}
_CHANGED_IN_CPP = re.compile(
    r"ReplaceOperandWith|->set_\w+\(|mutable_shape\(|mutable_layout\(|RemoveInstruction|AddInstruction"
)
_VALID = re.compile(
    r"(?:ASSERT|EXPECT)_TRUE\(status|_OK\((?!_AND)|IS_OK\(|IsOkAndHolds|IsOk\(\)|StatusCode::kOk"
)
_INVALID = re.compile(
    r"(?:ASSERT|EXPECT)_FALSE\(\w+\.ok|HasSubstr|StatusIs\((?!\s*absl::StatusCode::kOk)"
)
_DEVICES = {
    "replicas": re.compile(r"set_replica_count\((\d+)\)|^HloModule[^\n]*replica_count=(\d+)", re.M),
    "partitions": re.compile(
        r"set_num_partitions\((\d+)\)|^HloModule[^\n]*num_partitions=(\d+)", re.M
    ),
}
_MADE = re.compile(
    r"(Make\w+Computation)\(\s*\{((?:\{[\d, ]*\},?\s*)*)\}(?:,\s*(\d+))?(?:,\s*(\d+))?"
    r'(?:,\s*"([^"]*)")?\s*\)'
)


@dataclass(frozen=True, slots=True)
class Case:
    """One module of a test, and what XLA's verifier makes of it."""

    name: str
    text: str
    valid: bool
    options: Options


DIFFERENT = ("missed", "false alarm", "unread")
"""Outcomes in which ours and XLA's verifier disagree, or nothing is known: exit code 1."""


@dataclass(frozen=True, slots=True)
class Result:
    """Outcome of our verifier: ``found``, ``missed``, ``quiet``, ``false alarm`` or ``unread``."""

    name: str
    outcome: str
    message: str = ""


def main() -> int:
    """Print the counts, and each module that ours judges otherwise."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("checkout", type=Path)
    words.add_argument("--held-out", action="store_true", help="the tests kept for reports")
    words.add_argument("--others", action="store_true", help="valid modules of other tests")
    words.add_argument("--corpus", type=Path, help="valid modules below a folder")
    words.add_argument("--json", type=Path)
    options = words.parse_args()
    tests = read_tests(options.checkout / "xla/service/hlo_verifier_test.cc")
    cases = [
        case for test in tests if is_held_out(test.full_name) is options.held_out
        for case in _cases(test)
    ]  # fmt: skip
    results = [_judged(case) for case in cases]
    if options.others:
        results += [_judged(case) for case in _others(options.checkout)]
    if options.corpus:
        results += _corpus(options.corpus)
    _print(results)
    if options.json:
        options.json.write_text(json.dumps([asdict(result) for result in results], indent=1))
    judged_otherwise = any(result.outcome in DIFFERENT for result in results)
    return 1 if judged_otherwise else 0 if results else 2


def _cases(test: Test) -> Iterator[Case]:
    """The modules of a verifier test with what it expects of each."""
    options = _options(test)
    from_templates = [_from_template(match, test) for match in _MADE.finditer(test.body)]
    parsed = sorted(
        [*modules_in(test), *(module for module, _ in from_templates)],
        key=lambda module: module.end,
    )
    devices = {module.end: counts for module, counts in from_templates}
    for number, text_module in enumerate(parsed):
        until = parsed[number + 1].end if number + 1 < len(parsed) else len(test.body)
        after = test.body[text_module.end : until]
        if not text_module.text or _CHANGED_IN_CPP.search(after):
            continue
        valid, invalid = _VALID.search(after), _INVALID.search(after)
        if not (valid or invalid or text_module.verified):
            continue
        case_options = replace(
            options, **devices.get(text_module.end, _devices(test.body + text_module.text))
        )
        name = test.full_name if len(parsed) == 1 else f"{test.full_name}#{number}"
        yield Case(name, text_module.text, not invalid, case_options)


def _options(test: Test) -> Options:
    suffix = re.sub(r"^HloVerif\w*?er(?:Test)?(?=[A-Z]|$)|^HloVerifer", "", test.fixture)
    base_options = _FIXTURES.get(suffix, Options())
    for word, values in _OPTIONS.items():
        if word in test.body:
            base_options = replace(base_options, **values)
    return base_options


def _devices(text: str) -> dict[str, int]:
    return {
        name: int(match[1] or match[2])
        for name, pattern in _DEVICES.items()
        if (match := pattern.search(text))
    }


def _from_template(call: re.Match[str], test: Test) -> tuple[Parsed, dict[str, int]]:
    """A module of the file's own helpers: replica groups and attributes put into a template."""
    template = test.strings.get(f"{call[1]}.kTemplate", "")
    groups = f"{{{call[2].strip()}}}"
    attributes = f", {call[5]}" if call[5] else ""
    text = template.replace("REPLICA_GROUPS", groups).replace("OTHER_ATTRIBUTES", attributes)
    named = len(re.findall(r"\d+", call[2]))
    counts = {"replicas": int(call[3] or named or 1), "partitions": int(call[4] or 1)}
    return Parsed(text, False, call.end(), call[0]), counts


def _others(checkout: Path) -> Iterator[Case]:
    """Modules that other tests parse and expect to be valid (their test base allows mixed precision)."""
    for path in sorted(checkout.rglob("*_test.cc")):
        if path.name == "hlo_verifier_test.cc":
            continue
        for test in read_tests(path):
            for number, module in enumerate(modules_in(test)):
                if module.text and module.verified:
                    name = f"{path.relative_to(checkout)}:{test.full_name}#{number}"
                    devices = _devices(test.body + module.text)
                    yield Case(name, module.text, True, Options(mixed_precision=True, **devices))


def _corpus(folder: Path) -> list[Result]:
    results: list[Result] = []
    for path in sorted(file for file in folder.rglob("*") if file.is_file()):
        try:
            module = hlo_tools.load(path)
        except HloError as error:
            results.append(Result(str(path), "unread", str(error)))
            continue
        errors = [problem for problem in verify(module) if problem.severity is Severity.error]
        outcome, message = ("false alarm", str(errors[0])) if errors else ("quiet", "")
        results.append(Result(str(path), outcome, message))
    return results


def _judged(case: Case) -> Result:
    try:
        module = Module(parse(case.text))
    except HloError as error:
        outcome = "unread" if case.valid else "found"
        return Result(case.name, outcome, str(error))
    errors = [
        problem
        for problem in verify(module, options=case.options)
        if problem.severity is Severity.error
    ]
    if case.valid:
        return Result(
            case.name, "false alarm" if errors else "quiet", str(errors[0]) if errors else ""
        )
    return Result(case.name, "found" if errors else "missed", str(errors[0]) if errors else "")


def _print(results: list[Result]) -> None:
    for result in results:
        if result.outcome in DIFFERENT:
            print(f"{result.outcome}: {result.name}: {result.message[:230]}")
    counts = Counter(entry.outcome for entry in results)
    wrong, valid = counts["found"] + counts["missed"], counts["quiet"] + counts["false alarm"]
    print(f"found {counts['found']} of {wrong} ({100 * counts['found'] / (wrong or 1):.1f} %)")
    share = 100 * counts["false alarm"] / (valid or 1)
    print(f"false alarms {counts['false alarm']} of {valid} ({share:.2f} %)")
    print(f"unread {counts['unread']}")


if __name__ == "__main__":
    sys.exit(main())
