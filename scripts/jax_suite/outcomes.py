"""What came of a test: passed, skipped, refused with a code, wrong, foreign, crashed or hung."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

__all__ = ["ASIDE", "TestTimeout", "aside", "reason_of"]

_CODE = re.compile(r"\[((?:NEFF|HLO|NKI)-[A-Z0-9-]+)\]\s*(.*)", re.DOTALL)
_NAME = re.compile(r" \S+(?=:)")

ASIDE: Final = frozenset({"NEFF-COMPLEX", "NEFF-F64"})
"""Codes of the kinds that are not counted: complex numbers and float64."""

_BUGS = frozenset({"NEFF-INTERNAL", "NEFF-LOWERING", "NEFF-MODULE"})
"""Codes that say the compiler failed, or took a valid module for a damaged one."""

_DECOMPOSITIONS = re.compile(
    r"eig|svd|SVD|schur|\bqr|qr\b|Qr|QR|Lu\b|LU|testLu|Cholesky|cholesky|hessenberg|tridiagonal|polar|"
    r"expm|sqrtm|pinv|lstsq|Lstsq|MatrixRank|matrix_rank|OrthogonalInit|testOrthogonal|Polyfit|"
    r"polyfit|testNorm|Cond|testRoots|roots|multivariate|Multivariate|Expm|Sqrtm|Eigh|Svd|rsf2csf",
)
"""Names of tests that decompose a matrix."""


class TestTimeout(BaseException):
    """The test took longer than its limit; no ``except Exception`` of the test catches it."""


def aside(test: str, reason: str) -> bool:
    """True for tests of complex numbers, float64 and matrix decompositions."""
    code = reason.partition(" ")[0]
    return code in ASIDE or "'lapack_" in reason or bool(_DECOMPOSITIONS.search(test))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, then its causes and what was handled when it was raised."""
    seen: set[int] = set()
    queue = [error]
    while queue:
        one = queue.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        queue += [each for each in (one.__cause__, one.__context__) if each is not None]


def reason_of(error: BaseException) -> tuple[str, str]:
    """(outcome, reason) of what a test raised; a coded refusal's reason starts with its code."""
    for one in _chain(error):
        if isinstance(one, TestTimeout):
            return "hang", "took more CPU time than its limit"
        found = _CODE.search(str(one))
        if found:
            code, text = found.groups()
            outcome = "bug" if code in _BUGS else "refused"
            return outcome, f"{code} {' '.join(text.split())}"[:400]
    text = " ".join(str(error).split())
    outcome = "wrong" if isinstance(error, AssertionError) else "foreign"
    return outcome, f"{type(error).__name__}: {text}"[:400]
