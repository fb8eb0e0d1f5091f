"""One candidate of ``nki-hlo grade``: compiled, checked, compared with a reference, estimated."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt

from hlo_tools.cli.shared.kernel_call import load_kernel, parse_arguments
from hlo_tools.errors import CodedError, HloError
from hlo_tools.extract.python_file import import_file
from neff.errors import NeffError
from nki_lang.base.errors import NkiError
from nki_lang.kernel import Kernel

__all__ = ["PRELOADED", "Case", "Grading", "cases_of", "graded", "largest_difference"]

PRELOADED = (
    "neff.cli.grading", "neff.compiler", "neff.profile.advice", "neff.runtime.trips",
    "nki_lang.execute.checks.watch",
)  # fmt: skip
"""Modules that every candidate needs."""

Array = npt.NDArray[np.generic]
Record = dict[str, object]

_TOLERANCES = {8: 1e-5, 4: 1e-3}
"""Allowed difference by bytes of a float, relative to the largest value; 0.05 for shorter ones, and
0 for integers."""

_CASE_KEYS = {"name", "arguments", "seed", "tolerance"}


@dataclass(frozen=True, slots=True)
class Case:
    """Arguments with which every candidate runs.

    Attributes:
        name: in records.
        words: ``x=f32[128,512]`` and constants.
        seed: of the generated tensors.
        tolerance: allowed relative difference; None for the one of the element type.
    """

    name: str
    words: tuple[str, ...]
    seed: int = 0
    tolerance: float | None = None


@dataclass(frozen=True, slots=True)
class Grading:
    """All that a process needs to grade one candidate.

    Attributes:
        candidate: ``FILE.py`` or ``FILE.py:NAME``.
        kernel: name of the kernel where the candidate has none, "" for the only kernel of the file.
        cores, target: as of ``nki-hlo tune``.
        cases: to run.
        expected: files with the results of the reference, for each case.
        with_checks, with_advice: what else to find out.
    """

    candidate: str
    kernel: str
    cores: int
    target: str
    cases: tuple[Case, ...]
    expected: tuple[tuple[Path, ...], ...]
    with_checks: bool = True
    with_advice: bool = True


def cases_of(path: str) -> tuple[Case, ...]:
    """Read the cases of a JSON file: a list with the arguments of each case by name, or objects with
    ``arguments`` and, optionally, ``name``, ``seed`` and ``tolerance``.

    Raises:
        NeffError: ``NEFF-CASES``; the file has another form.
    """
    try:
        document: object = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise _no_cases(path, f"it cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise _no_cases(path, f"it is not JSON: {error}") from error
    if not isinstance(document, list) or not document:
        raise _no_cases(path, "it is not a list with at least one case")
    entries = cast("list[object]", document)
    return tuple(_case(path, number, entry) for number, entry in enumerate(entries))


def _case(path: str, number: int, entry: object) -> Case:
    if not isinstance(entry, dict):
        raise _no_cases(path, f"case {number} is not an object")
    fields = cast("dict[str, object]", entry)
    arguments = fields.get("arguments", fields)
    if not isinstance(arguments, dict):
        raise _no_cases(path, f"the arguments of case {number} are not an object")
    options = fields if "arguments" in fields else {}
    unknown = sorted(options.keys() - _CASE_KEYS)
    seed, tolerance = options.get("seed", 0), options.get("tolerance")
    if unknown or type(seed) is not int or not (tolerance is None or _is_tolerance(tolerance)):
        reason = (
            f"has unknown keys {', '.join(unknown)}" if unknown else "has a wrong seed or tolerance"
        )
        raise _no_cases(path, f"case {number} {reason}")
    values = cast("dict[str, object]", arguments)
    words = tuple(
        f"{name}={value if isinstance(value, str) else repr(value)}"
        for name, value in values.items()
    )
    name = str(options.get("name", number))
    return Case(name, words, seed, None if tolerance is None else float(cast("float", tolerance)))


def _is_tolerance(value: object) -> bool:
    return type(value) in (int, float) and 0 <= cast("float", value) < float("inf")


def _no_cases(path: str, reason: str) -> NeffError:
    return NeffError(
        f"this is no file of cases: {reason}",
        code="NEFF-CASES",
        place=path,
        remedy='write a list such as [{"x": "f32[128,512]", "n": 4}]',
    )


def graded(grading: Grading) -> Record:
    """Return the record of a candidate; whatever it raises is part of the record."""
    warnings.simplefilter("ignore")
    record: Record = {"candidate": grading.candidate, "compiled": False, "correct": False}
    try:
        _grade(grading, record)
    except MemoryError:
        raise
    except CodedError as error:
        record["error"] = {
            "code": error.code, "message": error.message, "place": error.place,
            "remedy": error.remedy,
        }  # fmt: skip
    except Exception as error:  # the kernel's own assertions, say
        record["error"] = {"code": "", "message": f"{type(error).__name__}: {error}", "place": ""}
    return record


def _grade(grading: Grading, record: Record) -> None:
    kernel = _kernel(grading)
    results: list[Record] = []
    record["cases"] = results
    for case, paths in zip(grading.cases, grading.expected, strict=True):
        results.append(_case_record(grading, kernel, case, paths))
        record["compiled"] = True
    record["correct"] = all(result["correct"] for result in results)
    if grading.with_checks:
        record["checks"] = _findings(grading, kernel, grading.cases[0])
    if grading.with_advice:
        record["advice"] = _advice(grading, kernel, grading.cases[0])


def _kernel(grading: Grading) -> Kernel:
    file, colon, name = grading.candidate.rpartition(":")
    if colon and file.endswith(".py"):
        return load_kernel(file, name)
    if grading.kernel:
        return load_kernel(grading.candidate, grading.kernel)
    module = import_file(grading.candidate)
    kernels = {name: value for name, value in vars(module).items() if isinstance(value, Kernel)}
    if len(kernels) != 1:
        raise HloError(
            f"the file has {len(kernels)} kernels, not one",
            code="HLO-NO-KERNEL",
            place=grading.candidate,
            remedy=f"write {grading.candidate}:NAME, or use --kernel NAME",
        )
    return next(iter(kernels.values()))


def _launched(grading: Grading, kernel: Kernel) -> Kernel:
    return kernel[grading.cores] if grading.cores > 1 else kernel


def _case_record(grading: Grading, kernel: Kernel, case: Case, expected: Sequence[Path]) -> Record:
    from neff.compiler import compile_kernel
    from neff.profile.budgets import sbuf_peak
    from neff.runtime import load
    from neff.runtime.trips import trips_of
    from neff.timing import estimate

    values = parse_arguments(list(case.words), seed=case.seed)
    kernel_ir = _launched(grading, kernel).trace((), values, target=grading.target or None)
    program = compile_kernel(kernel_ir)
    inputs = dict(zip(program.inputs, kernel.arrays((), values), strict=True))
    outputs, unwritten = load(program).run_checked(inputs)
    total = estimate(program, trips=trips_of(program, inputs))
    statistics = cast("Mapping[str, object]", program.metadata.get("statistics", {}))
    comparison = _compared([np.load(path) for path in expected], list(outputs.values()), case)
    unwritten_count = sum(unwritten.values())
    return {
        "name": case.name,
        **comparison,
        "correct": bool(comparison["correct"]) and not unwritten_count,
        "unwritten_elements": unwritten_count,
        "target": program.target,
        "total_us": round(total.total.value / 1e3, 3),
        "low_us": round(total.total.low / 1e3, 3),
        "high_us": round(total.total.high / 1e3, 3),
        "bottleneck": total.bottleneck,
        "sbuf_bytes_per_partition": sbuf_peak(program)[0],
        "psum_bytes_per_partition": statistics.get("psum_peak_bytes_per_partition"),
    }


def _compared(expected: Sequence[Array], outputs: Sequence[Array], case: Case) -> Record:
    """Return the comparison of all results with the reference's, of the worst one."""
    if len(expected) != len(outputs):
        message = f"{len(outputs)} results; the reference has {len(expected)}"
        return {"correct": False, "message": message}
    worst: Record = {"correct": True, "largest_error": 0.0, "position": None}
    largest = 0.0
    for number, (right, result) in enumerate(zip(expected, outputs, strict=True)):
        if right.shape != result.shape:
            message = f"result {number} has the shape {result.shape}; the reference {right.shape}"
            return {"correct": False, "message": message}
        error, index = largest_difference(right, result)
        is_float = result.dtype.kind not in "biu"
        allowed = _TOLERANCES.get(result.dtype.itemsize, 0.05) if is_float else 0.0
        allowed = allowed if case.tolerance is None else case.tolerance
        is_correct = bool(worst["correct"]) and error <= allowed
        if error > largest:
            largest = error
            worst = {
                "largest_error": _plain(error),
                "position": {"result": number, "index": list(index)},
                "expected": _plain(right[index]),
                "actual": _plain(result[index]),
            }
        worst["correct"] = is_correct
    return worst


def largest_difference(expected: Array, result: Array) -> tuple[float, tuple[int, ...]]:
    """Return the largest difference relative to the largest finite value, and its index.

    A value that is not finite differs infinitely from anything else.
    """
    if not expected.size:
        return 0.0, ()
    wide = np.complex128 if "c" in expected.dtype.kind + result.dtype.kind else np.float64
    right, left = expected.astype(wide), result.astype(wide)
    is_same = (right == left) | (np.isnan(right) & np.isnan(left))
    with np.errstate(invalid="ignore"):
        distance = np.where(is_same, 0.0, np.abs(right - left))
    distance = np.where(np.isnan(distance), np.inf, distance)
    location = np.unravel_index(int(distance.argmax()), distance.shape)
    finite = np.abs(right[np.isfinite(right)])
    scale = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
    return float(distance[location]) / scale, tuple(int(axis) for axis in location)


def _plain(value: object) -> float | str:
    """Return a number that JSON has; the text of any other, such as ``inf``."""
    number = complex(cast("complex", value))
    if number.imag or not np.isfinite(number.real):
        return str(value)
    return number.real


def _findings(grading: Grading, kernel: Kernel, case: Case) -> list[object]:
    """Return what the checks of ``nki-hlo check`` find on the first case."""
    from nki_lang.base.targets import target_of
    from nki_lang.execute.checks import CHECKS, Finding, watch
    from nki_lang.kernel import simulate

    findings: list[object] = []

    def listen(_function: object, new_findings: list[Finding]) -> None:
        findings.extend(finding.to_json() for finding in new_findings)

    names = tuple(name for name in CHECKS if name != "precision")
    target = target_of(grading.target) if grading.target else None
    watch.LISTENERS.append(listen)
    try:
        run = simulate(_launched(grading, kernel), target=target, checks=names)
        run(**parse_arguments(list(case.words), seed=case.seed))
    except NkiError:
        if not findings:
            raise
    finally:
        watch.LISTENERS.remove(listen)
    return findings


def _advice(grading: Grading, kernel: Kernel, case: Case) -> list[Record]:
    from neff.compiler import compile_kernel
    from neff.profile import profile_of
    from neff.profile.advice import advice_of, advice_rows

    values = parse_arguments(list(case.words), seed=case.seed)
    kernel_ir = _launched(grading, kernel).trace((), values, target=grading.target or None)
    return advice_rows(advice_of(profile_of(compile_kernel(kernel_ir))))
