"""Custom calls of compilers and frameworks that have a reference: target -> its meaning in NumPy.

Sources: the lowering rules of JAX (``jax/_src/lax/linalg.py``), XLA's expanders of decompositions
(``xla/hlo/transforms/expanders``, ``xla/service/x64*``) and LAPACK's documentation. Each
is checked on programs that XLA compiled (``tests/evaluate/test_custom_calls.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo_tools.evaluate import factorizations
from hlo_tools.evaluate.operation import Call
from hlo_tools.evaluate.values import Value, undefined
from hlo_tools.types.ffi_attributes import integer_attributes
from hlo_tools.types.shape import Shape

__all__ = ["REFERENCES", "evaluate_reference"]

Attributes = Mapping[str, int]
Compute = Callable[[Call, Attributes], Sequence[Value]]


@dataclass(frozen=True, slots=True)
class Reference:
    """The meaning of a custom call.

    Attributes:
        operands: how many it takes.
        compute: its results, from the call and the integer attributes of its configuration.
    """

    operands: int
    compute: Compute


def evaluate_reference(call: Call, reference: Reference) -> Value:
    """The result of a custom call; it must have the types that the instruction states.

    Raises:
        EvaluationError: it does not take these operands, or has other results (HLO-CUSTOM-CALL).
    """
    target = call.row.custom_call_target
    remedy = "the module was written for another version of the target, or is damaged"
    if len(call.values) != reference.operands:
        raise call.fail(
            f"calls {target!r} with {len(call.values)} operands; it takes {reference.operands}",
            "HLO-CUSTOM-CALL",
            remedy,
        )
    attributes = integer_attributes(call.row.backend_config)
    try:
        values = list(reference.compute(call, attributes))
    except (AttributeError, LookupError, TypeError, ValueError, np.linalg.LinAlgError) as error:
        raise call.fail(
            f"calls {target!r} with operands or attributes that it does not take: {error}",
            "HLO-CUSTOM-CALL",
            remedy,
        ) from error
    stated = [Shape(shape) for shape in call.row.shape.tuple_shapes] or [Shape(call.row.shape)]
    computed = [_typed(value) for value in values]
    if computed != [(shape.dtype, tuple(shape.dimensions)) for shape in stated]:
        raise call.fail(
            f"calls {target!r}, which returns {', '.join(map(_shown, computed))} for these operands",
            "HLO-CUSTOM-CALL",
            remedy,
        )
    return tuple(values) if call.row.shape.tuple_shapes else values[0]


def _typed(value: Value) -> tuple[Any, tuple[int, ...]]:
    array = np.asarray(value)
    return array.dtype, array.shape


def _shown(kind: tuple[object, tuple[int, ...]]) -> str:
    return f"{kind[0]}[{','.join(map(str, kind[1]))}]"


# -- data that moves -----------------------------------------------------------------------------


def _first_operand(call: Call, attributes: Attributes) -> Sequence[Value]:
    return [call.values[0]]


def _undefined_buffer(call: Call, attributes: Attributes) -> Sequence[Value]:
    """A buffer before anything is written: NaN, or the lowest number, so that a read of it shows."""
    return [undefined(call.extents, call.dtype)]


def _low_half(call: Call, attributes: Attributes) -> Sequence[Value]:
    """The low 32 bits; the nearest float32 of a float."""
    wide = call.operands[0]
    if wide.dtype.kind == "f":
        return [wide.astype(np.float32)]
    return [wide.astype(np.uint64).astype(call.dtype)]


def _high_half(call: Call, attributes: Attributes) -> Sequence[Value]:
    """The high 32 bits; for a float what its nearest float32 leaves."""
    wide = call.operands[0]
    if wide.dtype.kind == "f":
        return [(wide - wide.astype(np.float32)).astype(np.float32)]
    return [(wide.astype(np.uint64) >> np.uint64(32)).astype(call.dtype)]


def _combined(call: Call, attributes: Attributes) -> Sequence[Value]:
    """64 bits of two halves, the low one first; the sum of two floats."""
    low, high = call.operands
    if low.dtype.kind == "f":
        return [low.astype(np.float64) + high.astype(np.float64)]
    bits = low.astype(np.uint32).astype(np.uint64)
    bits |= high.astype(np.uint32).astype(np.uint64) << np.uint64(32)
    return [bits.view(call.dtype)]


# -- decompositions ------------------------------------------------------------------------------


def _lower_factor(call: Call, attributes: Attributes) -> Sequence[Value]:
    return factorizations.cholesky(call.operands[0], lower=True)[:1]


def _inverse_of_lower(call: Call, attributes: Attributes) -> Sequence[Value]:
    return [np.linalg.inv(np.tril(call.operands[0])).astype(call.dtype)]


def _householder(call: Call, attributes: Attributes) -> Sequence[Value]:
    return factorizations.householder(call.operands[0])


def _orthogonal(call: Call, attributes: Attributes) -> Sequence[Value]:
    return [factorizations.orthogonal(*call.operands)]


def _compact_product(call: Call, attributes: Attributes) -> Sequence[Value]:
    return [factorizations.compact_product(call.operands[0])]


def _lu_with_permutation(call: Call, attributes: Attributes) -> Sequence[Value]:
    lu, pivots, permutation, _ = factorizations.lu(call.operands[0])
    return [lu, pivots, permutation]


# -- LAPACK on the CPU (jaxlib's FFI) -------------------------------------------------------------


def _potrf(call: Call, attributes: Attributes) -> Sequence[Value]:
    return factorizations.cholesky(call.operands[0], lower=_letter(attributes, "uplo", "LU") == "L")


def _getrf(call: Call, attributes: Attributes) -> Sequence[Value]:
    lu, pivots, _, info = factorizations.lu(call.operands[0])
    return [lu, (pivots + 1).astype(np.int32), info]


def _gesdd(call: Call, attributes: Attributes) -> Sequence[Value]:
    mode = _letter(attributes, "mode", "ASN")
    a = call.operands[0]
    overwritten, _, left, right, info = (Shape(shape) for shape in call.row.shape.tuple_shapes)
    values = np.linalg.svd(a, full_matrices=mode == "A", compute_uv=mode != "N")
    if mode == "N":
        parts = [np.asarray(values), *(undefined(s.dimensions, a.dtype) for s in (left, right))]
    else:
        u, singular, vt = values
        parts = [singular, u, vt]
    return [
        undefined(overwritten.dimensions, a.dtype),
        *parts,
        np.zeros(info.dimensions, np.int32),
    ]


def _syevd(call: Call, attributes: Attributes) -> Sequence[Value]:
    mode = _letter(attributes, "mode", "VN")
    a = call.operands[0]
    values, vectors = np.linalg.eigh(a, UPLO="L" if attributes["uplo"] == ord("L") else "U")
    if mode == "N":
        vectors = undefined(a.shape, a.dtype)
    return [vectors, values, np.zeros(a.shape[:-2], np.int32)]


def _trsm(call: Call, attributes: Attributes) -> Sequence[Value]:
    return [
        factorizations.triangular_solution(
            *call.operands,
            lower=_letter(attributes, "uplo", "LU") == "L",
            unit_diagonal=_letter(attributes, "diag", "UN") == "U",
            transpose=_letter(attributes, "trans_x", "NTC"),
            left_side=_letter(attributes, "side", "LR") == "L",
        ).astype(call.dtype)
    ]


def _letter(attributes: Attributes, name: str, letters: str) -> str:
    """An attribute that is the code of a letter, as LAPACK's options are.

    Raises:
        ValueError: it is missing or none of the letters.
    """
    letter = chr(attributes[name]) if attributes.get(name, -1) > 0 else ""
    if letter not in letters or not letter:
        raise ValueError(f"{name} is {letter or 'missing'}, not one of {', '.join(letters)}")
    return letter


def _lapack(names: str, letters: str, operands: int, compute: Compute) -> dict[str, Reference]:
    reference = Reference(operands, compute)
    return {f"lapack_{letter}{name}_ffi": reference for name in names.split() for letter in letters}


REFERENCES: dict[str, Reference] = {
    "AllocateBuffer": Reference(0, _undefined_buffer),
    "AssumeGatherIndicesInBound": Reference(1, _first_operand),
    "GatherScatterIndicesBitpacked": Reference(1, _first_operand),
    "X64SplitLow": Reference(1, _low_half),
    "X64SplitHigh": Reference(1, _high_half),
    "X64Combine": Reference(2, _combined),
    "Cholesky": Reference(1, _lower_factor),
    "InvertDiagBlocksLowerTriangular": Reference(1, _inverse_of_lower),
    "QrDecompositionBlock": Reference(1, _householder),
    "Qr": Reference(1, _householder),
    "ProductOfElementaryHouseholderReflectors": Reference(2, _orthogonal),
    "CompactWyHelper": Reference(1, _compact_product),
    "LuRealDecompositionBlock": Reference(1, _lu_with_permutation),
    "LuDecomposition": Reference(1, _lu_with_permutation),
    **_lapack("potrf", "sdcz", 1, _potrf),
    **_lapack("getrf", "sdcz", 1, _getrf),
    **_lapack("geqrf", "sdcz", 1, _householder),
    **_lapack("orgqr", "sd", 2, _orthogonal),
    **_lapack("ungqr", "cz", 2, _orthogonal),
    **_lapack("gesdd", "sdcz", 1, _gesdd),
    **_lapack("syevd", "sd", 1, _syevd),
    **_lapack("heevd", "cz", 1, _syevd),
    **_lapack("trsm", "sdcz", 2, _trsm),
}
"""Target -> reference. Kernel calls, ``TopK`` and partitioning marks are evaluated elsewhere."""
