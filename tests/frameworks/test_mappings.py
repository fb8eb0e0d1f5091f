"""Mappings among a kernel's arguments keep their class: a defaultdict its default."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

pytestmark = [pytest.mark.jax, pytest.mark.torch_xla]

X = np.arange(12, dtype=np.float32).reshape(3, 4)


@nki.jit
def scaled(tensors: Any, scales: Any) -> Any:
    x = tensors["x"]
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    total = nl.load(x)
    factor = scales["x"] * (2.0 if tensors["bias"] is None else 5.0)
    nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=factor)
    nl.store(result, total)
    return result


def none() -> None:
    return None


def three() -> float:
    return 3.0


class Absent(dict[str, Any]):
    def __missing__(self, _key: str) -> None:
        return None


KINDS = {
    "default": lambda x: defaultdict(none, x=x),
    "subclass": lambda x: Absent(x=x),
    "ordered": lambda x: OrderedDict(x=x, bias=None),
}


def in_jax(tensors: Any, scales: Any) -> Any:
    import jax

    def call(x: Any) -> Any:
        tensors["x"] = x
        return scaled(tensors, scales)

    return jax.jit(call)(tensors["x"])


def in_torch(tensors: Any, scales: Any) -> Any:
    import torch

    tensors["x"] = torch.from_numpy(X)
    return scaled(tensors, scales).numpy()


WAYS = {"call": scaled, "simulate": nki.simulate(scaled), "jax": in_jax, "torch": in_torch}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", WAYS)
def test_a_mapping_keeps_its_class(mode: str, kind: str) -> None:
    result = WAYS[mode](KINDS[kind](X.copy()), defaultdict(three))
    np.testing.assert_array_equal(np.asarray(result), X * 6)
