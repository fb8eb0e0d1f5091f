"""Which memory kernels may write: the arguments that an operator of torch declares.

Importing this module imports torch.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor

from hlo_tools.frameworks.plan import BoundCall
from hlo_tools.torch_device.tensors import host_view
from nki_lang.base.dtypes import Array
from nki_lang.base.errors import NkiValidationError
from nki_lang.base.source import definition_of, name_of
from nki_lang.execute.hosts import share_memory

__all__ = [
    "check_declared",
    "declaring",
    "has_no_data",
    "host_of",
    "mark_written",
    "not_declared",
    "overlap",
]


@dataclass(frozen=True, slots=True)
class _Operator:
    """Arguments of an operator that runs.

    Attributes:
        written: those that it declares to write.
        others: the rest, each with what it is called.
    """

    written: Sequence[torch.Tensor]
    undeclared: Sequence[tuple[torch.Tensor, str]]


_OPERATORS: ContextVar[tuple[_Operator, ...]] = ContextVar("operators", default=())


@contextmanager
def declaring(
    written: Sequence[torch.Tensor], undeclared: Sequence[tuple[torch.Tensor, str]]
) -> Generator[None]:
    """Refuse kernels that write the memory of ``others`` which is not that of ``written``, too."""
    token = _OPERATORS.set((*_OPERATORS.get(), _Operator(written, undeclared)))
    try:
        yield
    finally:
        _OPERATORS.reset(token)


def check_declared(call: BoundCall, func: object) -> None:
    """Refuse a kernel that writes an argument which an operator around it does not declare.

    Raises:
        NkiValidationError: ``NKI-OP-MUTATES``.
    """
    for _, operand in call.plan.written:
        undeclared = not_declared(func, call.tensors[operand])
        if undeclared is not None:
            raise undeclared


def not_declared(func: object, tensor: torch.Tensor) -> NkiValidationError | None:
    """The error if a kernel writes what an operator around it does not declare; None of the rest."""
    for operator in _OPERATORS.get():
        if any(overlap(tensor, declared) for declared in operator.written):
            continue
        for undeclared, label in operator.undeclared:
            if overlap(tensor, undeclared):
                return NkiValidationError(
                    f"kernel {name_of(func)} writes {label}, which does not declare it",
                    code="NKI-OP-MUTATES",
                    location=definition_of(func),
                    remedy="name it in mutates_args of nki_op, or let the kernel return a new "
                    "tensor",
                    source="torch.library.custom_op, mutates_args",
                )
    return None


def host_of(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in host memory that holds the elements; of the host and XLA the tensor itself."""
    return tensor if has_no_data(tensor) else host_view(tensor)


def mark_written(tensor: torch.Tensor) -> None:
    """Let autograd find what it saved of a tensor stale."""
    torch.autograd.graph.increment_version(tensor)


def has_no_data(tensor: torch.Tensor) -> bool:
    """True for tensors that exist as shapes only (under torch.compile, torch.export, "meta")."""
    return isinstance(tensor, FakeTensor) or tensor.is_meta


def overlap(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Two tensors have an element in common; of XLA tensors, whose places are not known, a storage."""
    if left.device != right.device or {left.layout, right.layout} != {torch.strided}:
        return False
    if left.device.type == "xla":
        return _storage(left) == _storage(right)
    if not (has_no_data(left) or has_no_data(right)):
        return share_memory(_places(left, left.data_ptr()), _places(right, right.data_ptr()))
    if _storage(left) != _storage(right):
        return False
    return share_memory(*(_places(host, _assumed(host)) for host in (left, right)))


def _assumed(tensor: torch.Tensor) -> int:
    """An address for a tensor without data, at its place from where its storage would be."""
    return (1 << 20) + int(tensor.storage_offset()) * tensor.element_size()


class _Places:
    """An array that NumPy takes to be at an address; only where its elements are is asked."""

    def __init__(self, tensor: torch.Tensor, address: int) -> None:
        size = tensor.element_size()
        self.__array_interface__ = {
            "version": 3,
            "data": (address, True),
            "typestr": f"|V{size}",
            "shape": tuple(int(extent) for extent in tensor.shape),
            "strides": tuple(int(step) * size for step in tensor.stride()),
        }


def _places(tensor: torch.Tensor, address: int) -> Array:
    return np.asarray(_Places(tensor, address))


def _storage(tensor: torch.Tensor) -> int:
    """The identity of a storage; XLA tensors within an operator have it in common with no view."""
    base: Any = tensor._base
    storage: Any = (tensor if base is None else base).untyped_storage()
    return storage._cdata
