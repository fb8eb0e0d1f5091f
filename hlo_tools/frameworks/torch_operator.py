"""``nki_op``: a function with kernels inside as a PyTorch custom operator.

Importing this module imports torch and makes the torch device "neuron".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from hlo_tools.frameworks import torch_device

__all__ = ["nki_op"]


def nki_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    *,
    mutates_args: str | Iterable[str] = (),
    schema: str | None = None,
) -> Any:
    """Register a Python function as the operator ``torch.ops.<library>.<name>``.

    The result is a :class:`torch.library.CustomOpDef`. Shapes for torch.compile and
    torch.export come from the function itself: kernels called with tensors without data
    give results without data. ``register_fake`` replaces that, ``register_autograd`` gives the
    operator a gradient.

    Args:
        name: ``"library::operator"``.
        fn: the function; without it the call is a decorator. Its annotations are the schema.
        mutates_args: names of the arguments that the function writes in place.
        schema: the schema, when the annotations do not say it.

    Raises:
        ValueError: the name is not of that form, or the function returns one of its arguments.
    """

    def register(function: Callable[..., Any]) -> Any:
        torch_device.install()
        changed = mutates_args if mutates_args == "unknown" else tuple(mutates_args)
        operator = torch.library.custom_op(name, function, mutates_args=changed, schema=schema)
        operator.register_fake(function)
        return operator

    if "::" not in name:
        raise ValueError(f"an operator is named 'library::operator', not {name!r}")
    return register if fn is None else register(fn)
