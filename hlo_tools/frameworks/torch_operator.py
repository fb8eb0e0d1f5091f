"""``nki_op``: a function with kernels inside as a PyTorch custom operator.

Importing this module imports torch and makes the torch device "neuron".
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from hlo_tools.frameworks.torch_written import declaring
from hlo_tools.torch_device import device as torch_device
from nki_lang.base.errors import NkiTypeError, fail

__all__ = ["OPERATOR_FUNCTIONS", "nki_op"]

OPERATOR_FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""Operators of nki_op, as ``library.name.default`` -> the Python function."""


def nki_op(
    name: str,
    fn: Callable[..., object] | None = None,
    *,
    mutates_args: str | Iterable[str] = (),
    schema: str | None = None,
) -> Any:
    """Register a Python function as the operator ``torch.ops.<library>.<name>``.

    The result is a :class:`torch.library.CustomOpDef`. Shapes for torch.compile and
    torch.export come from the function itself: kernels called with tensors without data
    return results without data. ``register_fake`` replaces that, ``register_autograd`` adds the
    operator's gradient.

    Args:
        name: ``"library::operator"``.
        fn: the function; without it the call is a decorator. Its annotations are the schema.
        mutates_args: names of the arguments that the function writes in place.
        schema: the schema, when the annotations do not determine it.

    Raises:
        ValueError: the name is not of that form, the annotations make no schema, or the function
            returns one of its arguments.
        NkiTypeError: ``fn`` is not a function.
        NkiValidationError: when the operator is called: code ``NKI-OP-MUTATES``, a kernel in it
            writes an argument that ``mutates_args`` does not name.
    """

    def register(function: Callable[..., object]) -> Any:
        if not inspect.isfunction(function):
            fail(f"nki_op makes an operator of a function, not of {function!r}", "NKI-OPERAND",
                 "write @nki_op(name) above a def with annotations", "torch_neuronx.nki_op",
                 NkiTypeError)  # fmt: skip
        torch_device.install()
        changed = "unknown" if mutates_args == "unknown" else tuple(mutates_args)
        operator_schema = schema or torch.library.infer_schema(function, mutates_args=changed)
        guarded = function if isinstance(changed, str) else _guarded(name, function, changed)
        operator = torch.library.custom_op(
            name, guarded, mutates_args=changed, schema=operator_schema
        )
        operator.register_fake(guarded)
        OPERATOR_FUNCTIONS[f"{name.replace('::', '.')}.default"] = guarded
        return operator

    if "::" not in name:
        raise ValueError(f"an operator is named 'library::operator', not {name!r}")
    return register if fn is None else register(fn)


def _guarded(name: str, function: Callable[..., object], changed: tuple[str, ...]) -> Any:
    """The function, with kernels in it kept from writing arguments that are not ``changed``."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def guarded(*args: object, **kwargs: object) -> Any:
        written: list[torch.Tensor] = []
        undeclared: list[tuple[torch.Tensor, str]] = []
        for key, value in signature.bind(*args, **kwargs).arguments.items():
            for tensor in _tensors(value):
                if key in changed:
                    written.append(tensor)
                else:
                    undeclared.append((tensor, f"argument {key!r} of operator {name}"))
        with declaring(written, undeclared):
            return function(*args, **kwargs)

    return guarded


def _tensors(value: object) -> list[torch.Tensor]:
    """An argument, or those in a list of them."""
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
