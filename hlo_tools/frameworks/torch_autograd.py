"""Registration of kernels with autograd and the transforms of torch.func.

Importing this module imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import torch

from hlo_tools.frameworks.plan import BoundCall
from nki_lang.base.errors import NkiValidationError
from nki_lang.base.source import definition_of, name_of

__all__ = [
    "check_differentiable",
    "check_transforms",
    "gradient_lost",
    "without_gradient",
]

# Names that PyTorch does not export; nothing public does the same.
_native = import_module("torch._C")
_is_transformed: Callable[[torch.Tensor], bool] = _native._functorch.is_functorch_wrapped_tensor
_unpack_dual: Callable[..., Any] = import_module("torch.autograd.forward_ad").unpack_dual

_REMEDY = (
    "call it in the forward of a torch.autograd.Function and write its backward, "
    "or register a gradient for the operator (nki_op(...).register_autograd)"
)


class _NoGradient(torch.autograd.Function):
    """Makes differentiating through a kernel's result an error.

    The result counts as written in place, so that it stays the tensor that it is: a view of it
    could not be written any more.
    """

    @staticmethod
    def forward(ctx: Any, result: torch.Tensor, *_inputs: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(result)
        return result

    @staticmethod
    def backward(ctx: object, *_gradients: torch.Tensor) -> object:
        raise RuntimeError(
            f"[HLO-KERNEL-GRADIENT] an NKI kernel has no gradient of its own\n  help: {_REMEDY}"
        )


def without_gradient(
    results: list[torch.Tensor], tensors: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """Results whose gradient raises, when one of the tensors requires a gradient.

    Tensors that the kernel wrote are among the results, since what they hold depends on the others.
    """
    asking = [tensor for tensor in tensors if tensor.requires_grad]
    if not torch.is_grad_enabled() or not asking:
        return results
    return [
        _NoGradient.apply(result, *asking) if result.is_floating_point() else result
        for result in results
    ]


def check_differentiable(call: BoundCall, func: object) -> None:
    """Refuse what needs a rule that a kernel lacks, before the kernel runs.

    Raises:
        NkiValidationError: ``HLO-KERNEL-GRADIENT``; see :func:`check_transforms` and
            :func:`gradient_lost`.
    """
    check_transforms(func, call.tensors)
    for result, operand in call.plan.written:
        lost = gradient_lost(func, call.plan.output_names[result], call.tensors[operand])
        if lost is not None:
            raise lost


def check_transforms(func: object, tensors: Sequence[torch.Tensor]) -> None:
    """Refuse a kernel in torch.func's grad, vmap, jvp or functionalize, or on dual numbers.

    Raises:
        NkiValidationError: ``HLO-KERNEL-GRADIENT``.
    """
    if any(_is_transformed(tensor) for tensor in tensors):
        _refuse(func, f"kernel {name_of(func)} is in a transform of torch.func, for which it "
                "has no rule")  # fmt: skip
    if _native._is_fwd_grad_enabled() and any(
        _unpack_dual(tensor).tangent is not None for tensor in tensors
    ):
        _refuse(func, f"kernel {name_of(func)} has no derivative in forward mode")


def gradient_lost(func: object, name: str, tensor: torch.Tensor) -> NkiValidationError | None:
    """The error if a kernel writes a tensor that requires a gradient; None of any other."""
    if not (torch.is_grad_enabled() and tensor.requires_grad):
        return None
    return NkiValidationError(
        f"kernel {name_of(func)} writes {name}, a tensor "
        "that asks for a gradient, and autograd does not see through a kernel",
        code="HLO-KERNEL-GRADIENT",
        location=definition_of(func),
        remedy="call it under torch.no_grad(), or in the forward of a "
        "torch.autograd.Function that marks the tensor dirty",
    )


def _refuse(func: object, message: str) -> None:
    raise NkiValidationError(
        message,
        code="HLO-KERNEL-GRADIENT",
        location=definition_of(func),
        remedy="call it in the forward of a torch.autograd.Function with setup_context, and write "
        "its backward, jvp or vmap",
    )
