"""Mean and variance by partition (``bn_stats``, ``bn_aggr``)."""

from __future__ import annotations

import numpy as np

from nki_lang.base.dtypes import Array
from nki_lang.semantics.numbers import in_order, single, store
from nki_lang.semantics.table import semantics

__all__: list[str] = []


@semantics(parallel=True)
def bn_stats(dst: Array, data: Array) -> None:
    """(count, mean, variance * count) of the even elements, then of the odd ones."""
    lanes = data.shape[0]
    value = in_order(single(data)).reshape(lanes, -1)
    parts = [_moments(value[:, 0::2]), _moments(value[:, 1::2])]
    store(dst, np.concatenate(parts, axis=1))


def _moments(value: Array) -> Array:
    lanes, count = value.shape
    result = np.zeros((lanes, 3), np.float32)
    result[:, 0] = count
    if count:
        mean = value.mean(axis=1, dtype=np.float32)
        result[:, 1] = mean
        result[:, 2] = np.square(value - mean[:, None]).sum(axis=1, dtype=np.float32)
    return result


@semantics(parallel=True)
def bn_aggr(dst: Array, data: Array) -> None:
    """Mean and variance from (count, mean, variance * count) triples."""
    triples = in_order(single(data)).reshape(data.shape[0], -1, 3)
    count, mean, spread = triples[..., 0], triples[..., 1], triples[..., 2]
    total = count.sum(axis=1)
    overall = (count * mean).sum(axis=1) / total
    inside = spread.sum(axis=1) + (count * np.square(mean - overall[:, None])).sum(axis=1)
    store(dst, np.stack([overall, inside / total], axis=1))
