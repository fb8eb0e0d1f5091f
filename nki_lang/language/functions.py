"""Public functions on tiles that are no operators; the work is in ``composed.py``.

They stand here so that importing the language does not import every instruction.
"""

from __future__ import annotations

from collections.abc import Sequence

from nki_lang.base.dtypes import DTypeLike
from nki_lang.frontend.tensor import NkiTensor, define_assignment

__all__ = [
    "broadcast_to", "dropout", "expand_dims", "gather_flattened", "matmul", "rms_norm",
    "softmax", "transpose", "where",
]  # fmt: skip


def softmax(
    x: NkiTensor, axis: int | Sequence[int] = -1, dtype: DTypeLike | None = None
) -> NkiTensor:
    """Softmax along the last free axes.

    Args:
        x: a tile in SBUF or PSUM.
        axis: the axis, or axes, counted from 0; 0 is the partition dimension.
        dtype: of the result, such as nl.bfloat16; that of the operand when None.

    Returns:
        NkiTensor: a new tile in SBUF.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-OPERAND (no tile on chip),
            NKI-SHAPE, NKI-CAPACITY.

    Source: nl.softmax (nki/api/nki/language, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        weights = nl.softmax(a, axis=1)
    """
    from nki_lang.language import composed

    return composed.softmax(x, axis, dtype)


def rms_norm(
    x: NkiTensor,
    w: NkiTensor,
    axis: int | Sequence[int],
    n: int,
    epsilon: float = 1e-06,
    dtype: DTypeLike | None = None,
    compute_dtype: DTypeLike | None = None,
) -> NkiTensor:
    """``x / RMS(x) * w`` with the mean square taken over ``n`` values.

    Args:
        x: a tile in SBUF or PSUM.
        w: the weights, a tile or a tensor.
        axis: the axis, or axes, counted from 0; 0 is the partition dimension.
        n: a number of elements.
        epsilon: what is added to the mean square.
        dtype: of the result, such as nl.bfloat16; that of the operand when None.
        compute_dtype: the dtype of what is in between; float32 when None.

    Returns:
        NkiTensor: a new tile in SBUF.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-OPERAND (no tile on chip),
            NKI-SHAPE, NKI-CAPACITY.

    Source: nl.rms_norm (nki/api/nki/language, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        scaled = nl.rms_norm(a, b, axis=1, n=512)
    """
    from nki_lang.language import composed

    return composed.rms_norm(x, w, axis, n, epsilon, dtype, compute_dtype)


def where(
    condition: NkiTensor, x: NkiTensor | float, y: NkiTensor | float, dtype: DTypeLike | None = None
) -> NkiTensor:
    """``x`` where the condition is not zero, else ``y``.

    Args:
        condition: a tile; elements other than 0 select x.
        x: a tile in SBUF or PSUM.
        y: a tile in SBUF or PSUM, or a number.
        dtype: of the result, such as nl.bfloat16; that of the operand when None.

    Returns:
        NkiTensor: a new tile in SBUF.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-OPERAND (no tile on chip),
            NKI-SHAPE, NKI-CAPACITY.

    Source: nl.where (nki/api/nki/language, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        positive = nl.where(nl.greater(a, 0.0), a, b)
    """
    from nki_lang.language import composed

    return composed.where(condition, x, y, dtype)


def dropout(x: NkiTensor, rate: float | NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Elements of ``x`` replaced by zero with probability ``rate``.

    Args:
        x: a tile in SBUF or PSUM.
        rate: the probability of zero, 0 to 1.
        dtype: of the result, such as nl.bfloat16; that of the operand when None.

    Returns:
        NkiTensor: a new tile in SBUF.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-OPERAND (no tile on chip),
            NKI-SHAPE, NKI-CAPACITY.

    Source: nl.dropout (nki/api/nki/language, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        fewer = nl.dropout(a, 0.1)
    """
    from nki_lang.language import composed

    return composed.dropout(x, rate, dtype)


def expand_dims(x: NkiTensor, axis: int) -> NkiTensor:
    """A view with a dimension of extent 1 at ``axis``.

    Args:
        x: a tile in SBUF or PSUM.
        axis: the axis, or axes, counted from 0; 0 is the partition dimension.

    Returns:
        NkiTensor: the view.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-DIM, NKI-PARTITION-DIM.

    Source: nl.expand_dims (nki/api/nki/language, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        three = nl.expand_dims(a, 1)
    """
    return x.expand_dim(axis)


def broadcast_to(
    x: NkiTensor, shape: int | Sequence[int], dtype: DTypeLike | None = None
) -> NkiTensor:
    """A tile of the given shape; dimensions of extent 1 are repeated.

    Args:
        x: a tile in SBUF or PSUM.
        shape: the extents; on chip the first one is the partitions, at most 128.
        dtype: of the result, such as nl.bfloat16; that of the operand when None.

    Returns:
        NkiTensor: a new tile in SBUF.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-OPERAND (no tile on chip),
            NKI-SHAPE, NKI-CAPACITY.

    Source: nl.broadcast_to (nki/api/nki/language, NKI 0.6.0).

    Example, given column a (128, 1) float32 tile::

        wide = nl.broadcast_to(column, (128, 512))
    """
    from nki_lang.language import composed

    return composed.broadcast_to(x, shape, dtype)


def transpose(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """A 2-D tile with its axes swapped, in PSUM.

    Args:
        x: a tile in SBUF or PSUM.
        dtype: of the result, such as nl.bfloat16; that of the operand when None.

    Returns:
        NkiTensor: a new tile in PSUM.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-OPERAND (no tile on chip),
            NKI-SHAPE, NKI-CAPACITY.

    Source: nl.transpose (nki/api/nki/language, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        turned = nl.transpose(a[:, 0:128])
    """
    from nki_lang.language import composed

    return composed.transpose(x, dtype)


def matmul(x: NkiTensor, y: NkiTensor, transpose_x: bool = False) -> NkiTensor:
    """``x @ y``, or ``x.T @ y`` with ``transpose_x``; the result is in PSUM.

    Args:
        x: a tile in SBUF or PSUM.
        y: a tile in SBUF or PSUM, or a number.
        transpose_x: x is (K, M) already.

    Returns:
        NkiTensor: a new tile in PSUM.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-OPERAND (no tile on chip),
            NKI-SHAPE, NKI-CAPACITY.

    Source: nl.matmul (nki/api/nki/language, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        sums = nl.matmul(a[:, 0:128], b)
    """
    from nki_lang.language import composed

    return composed.matmul(x, y, transpose_x)


def gather_flattened(
    data: NkiTensor, indices: NkiTensor, axis: int = 0, dtype: DTypeLike | None = None
) -> NkiTensor:
    """Elements of each partition of ``data`` by flattened index.

    Args:
        data: a tile in SBUF.
        indices: a tile of uint32, indices into a partition's elements.
        axis: the axis, or axes, counted from 0; 0 is the partition dimension.
        dtype: of the result, such as nl.bfloat16; that of the operand when None.

    Returns:
        NkiTensor: a new tile in SBUF.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-OPERAND (no tile on chip),
            NKI-SHAPE, NKI-CAPACITY.

    Source: nl.gather_flattened (nki/api/nki/language, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        indices = nl.zeros((128, 8), nl.uint32)
        few = nl.gather_flattened(a, indices, axis=1)
    """
    from nki_lang.language import composed

    return composed.gather_flattened(data, indices, axis, dtype)


def _assign(tensor: NkiTensor, key: object, value: object) -> None:
    from nki_lang.language import assignment

    assignment.assign(tensor, key, value)


define_assignment(_assign)
