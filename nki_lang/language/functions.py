"""Public functions on tiles that are no operators; the work is in ``composed.py``.

They stand here so that importing the language does not import every instruction.
"""

from __future__ import annotations

from typing import Any

from nki_lang.frontend.tensor import NkiTensor

__all__ = [
    "broadcast_to", "dropout", "expand_dims", "gather_flattened", "matmul", "rms_norm",
    "softmax", "transpose", "where",
]  # fmt: skip


def softmax(x: Any, axis: Any = -1, dtype: Any = None) -> NkiTensor:
    """Softmax along the last free axes."""
    from nki_lang.language import composed

    return composed.softmax(x, axis, dtype)


def rms_norm(
    x: Any,
    w: Any,
    axis: Any,
    n: int,
    epsilon: float = 1e-06,
    dtype: Any = None,
    compute_dtype: Any = None,
) -> NkiTensor:
    """``x / RMS(x) * w`` with the mean square taken over ``n`` values."""
    from nki_lang.language import composed

    return composed.rms_norm(x, w, axis, n, epsilon, dtype, compute_dtype)


def where(condition: Any, x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x`` where the condition is not zero, else ``y``."""
    from nki_lang.language import composed

    return composed.where(condition, x, y, dtype)


def dropout(x: Any, rate: Any, dtype: Any = None) -> NkiTensor:
    """Elements of ``x`` replaced by zero with probability ``rate``."""
    from nki_lang.language import composed

    return composed.dropout(x, rate, dtype)


def expand_dims(x: NkiTensor, axis: int) -> NkiTensor:
    """A view with a dimension of extent 1 at ``axis``."""
    return x.expand_dim(axis)


def broadcast_to(x: Any, shape: Any, dtype: Any = None) -> NkiTensor:
    """A tile of the given shape; dimensions of extent 1 are repeated."""
    from nki_lang.language import composed

    return composed.broadcast_to(x, shape, dtype)


def transpose(x: Any, dtype: Any = None) -> NkiTensor:
    """A 2-D tile with its axes swapped, in PSUM."""
    from nki_lang.language import composed

    return composed.transpose(x, dtype)


def matmul(x: Any, y: Any, transpose_x: bool = False) -> NkiTensor:
    """``x @ y``, or ``x.T @ y`` with ``transpose_x``; the result is in PSUM."""
    from nki_lang.language import composed

    return composed.matmul(x, y, transpose_x)


def gather_flattened(data: Any, indices: Any, axis: int = 0, dtype: Any = None) -> NkiTensor:
    """Elements of each partition of ``data`` by flattened index."""
    from nki_lang.language import composed

    return composed.gather_flattened(data, indices, axis, dtype)
