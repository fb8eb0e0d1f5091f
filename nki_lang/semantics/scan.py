"""Scans along the free axes."""

from __future__ import annotations

import numpy as np

from nki_lang.base.dtypes import Array
from nki_lang.semantics.elementwise import apply
from nki_lang.semantics.numbers import single, store
from nki_lang.semantics.operators import operator_of
from nki_lang.semantics.table import semantics

__all__: list[str] = []


@semantics(parallel=True)
def tensor_tensor_scan(
    dst: Array,
    data0: Array,
    data1: Array,
    initial: object,
    op0: str,
    op1: str,
    reverse0: bool = False,
    reverse1: bool = False,
) -> None:
    """``dst[i] = (data0[i] <op0> dst[i-1]) <op1> data1[i]``, from ``initial``, in float32."""
    lanes = data0.shape[0]
    left = np.ascontiguousarray(single(data0).reshape(lanes, -1).T)
    right = np.ascontiguousarray(single(data1).reshape(lanes, -1).T)
    first, second = operator_of(op0), operator_of(op1)
    previous = np.broadcast_to(single(np.asarray(initial)).reshape(-1), (lanes,))
    result = np.empty_like(left)
    for step in range(len(left)):
        value = apply(first, left[step], previous, reverse0)
        result[step] = apply(second, value, right[step], reverse1)
        previous = result[step]
    store(dst, np.ascontiguousarray(result.T))
