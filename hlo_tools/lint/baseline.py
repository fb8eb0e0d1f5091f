"""Baselines: findings that are known, so that only new ones count.

The file is JSON with one row for each (module file, code, place) and how often it was found.
Paths are relative to the baseline's folder; nothing else of the machine stands in it. The key in the
name of a cache's entry (``MODULE_<key>``) changes with every edit of a kernel, so it is not compared.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from hlo_tools.errors import HloFileError
from hlo_tools.files.plain import MAX_RECORD_BYTES, read_plain
from hlo_tools.files.writing import write_bytes
from hlo_tools.verify import Finding

__all__ = ["gone", "read_baseline", "unknown_to", "write_baseline"]

_SCHEMA = "nki-hlo/baseline/1"

Key = tuple[str, str, str]


def _key(finding: Finding, folder: Path) -> Key:
    return _relative(finding.file, folder), finding.code, finding.place


def _relative(file: str, folder: Path) -> str:
    if file.startswith("<"):
        return file
    return _without_key(Path(os.path.relpath(file, folder)).as_posix())


_MODULE_KEY = re.compile(r"(^|/)MODULE_[^/]*")


def _without_key(file: str) -> str:
    return _MODULE_KEY.sub(r"\1MODULE_*", file)


def write_baseline(path: str | Path, findings: Sequence[Finding]) -> None:
    """Write the findings as known ones.

    Raises:
        HloFileError: the file cannot be written.
    """
    counts = Counter(_key(finding, Path(path).parent) for finding in findings)
    rows = [
        {"file": file, "code": code, "place": location, "count": count}
        for (file, code, location), count in sorted(counts.items())
    ]
    text = json.dumps({"schema": _SCHEMA, "findings": rows}, indent=2, ensure_ascii=False)
    write_bytes((text + "\n").encode(), path)


def read_baseline(path: str | Path) -> Counter[Key]:
    """Return the number of known occurrences per finding.

    Raises:
        HloFileError: there is no such file, or it is not a baseline (HLO-BASELINE).
    """
    try:
        record: Any = json.loads(read_plain(path, MAX_RECORD_BYTES))
        if record["schema"] != _SCHEMA:
            raise ValueError(f"its schema is {record['schema']!r}, not {_SCHEMA!r}")
        rows = record["findings"]
        baseline: Counter[Key] = Counter()
        for row in rows:
            baseline[_without_key(row["file"]), row["code"], row["place"]] += int(row["count"])
        return baseline
    except OSError as error:
        reason = error.strerror or str(error)
        raise _wrong(path, f"it cannot be read: {reason}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _wrong(path, f"it is not a baseline: {error}") from error


def unknown_to(baseline: Counter[Key], findings: Sequence[Finding], folder: Path) -> list[Finding]:
    """The findings that are not known, in their order; ``folder`` is that of the baseline."""
    left = Counter(baseline)
    new: list[Finding] = []
    for finding in findings:
        key = _key(finding, folder)
        if left[key] > 0:
            left[key] -= 1
        else:
            new.append(finding)
    return new


def gone(
    baseline: Counter[Key],
    findings: Sequence[Finding],
    folder: Path,
    *,
    files: Collection[str],
    codes: Collection[str],
) -> Counter[Key]:
    """Return the baseline's findings that no longer occur in the checked files and rules.

    Args:
        baseline: the known findings.
        findings: all that were found.
        folder: of the baseline.
        files: the modules that were checked; a module that is not there has no findings.
        codes: the rules that were checked.
    """
    checked_files = {_relative(file, folder) for file in files}
    left = baseline - Counter(_key(finding, folder) for finding in findings)
    return Counter(
        {
            (file, code, location): count
            for (file, code, location), count in left.items()
            if code in codes
            and (file in checked_files or not (file[:1] == "<" or _exists(folder, file)))
        }
    )


def _exists(folder: Path, file: str) -> bool:
    if "MODULE_*" not in file:
        return (folder / file).exists()
    return any(folder.glob(file)) if not Path(file).is_absolute() else Path(file).exists()


def _wrong(path: str | Path, reason: str) -> HloFileError:
    return HloFileError(
        f"the baseline cannot be used: {reason}",
        code="HLO-BASELINE",
        place=str(path),
        remedy="write it with nki-hlo lint --baseline FILE --write-baseline",
    )
