"""Errors of lowering a PyTorch graph to HLO, at the line of the user's code."""

from __future__ import annotations

from neff.errors import NeffCompileError

__all__ = [
    "TorchGraphError", "data_dependent", "no_row", "not_decomposed", "not_lowered",
    "random_operator", "wrong_result",
]  # fmt: skip


class TorchGraphError(NeffCompileError):
    """A graph of PyTorch's operators that cannot be lowered to HLO."""


def no_row(operator: str, location: str) -> TorchGraphError:
    """The error of an operator that has neither a lowering nor a decomposition."""
    return TorchGraphError(
        f"{operator} has no lowering to HLO",
        code="NEFF-TORCH-OPERATOR",
        place=location,
        remedy="write it with other operators, or compute it before the compiled function and pass "
        "the result as an input",
    )


def not_lowered(operator: str, location: str, what: str) -> TorchGraphError:
    """The error of an operator that is lowered, but not for these arguments."""
    return TorchGraphError(
        f"{operator} is not lowered to HLO {what}",
        code="NEFF-TORCH-ARGUMENT",
        place=location,
        remedy="write it with other operators or other arguments",
    )


def data_dependent(operator: str, location: str) -> TorchGraphError:
    """The error of a shape or a number that depends on values of the inputs."""
    return TorchGraphError(
        f"{operator} makes a shape or a number of the values of tensors, which a NEFF cannot: its "
        "shapes are fixed",
        code="NEFF-TORCH-DATA",
        place=location,
        remedy="compute with tensors of fixed shapes (torch.where instead of a condition or a mask, "
        "index_select instead of an index), or compute it outside and pass the result as an input",
    )


def random_operator(operator: str, location: str) -> TorchGraphError:
    """The error of random numbers drawn within the compiled function."""
    return TorchGraphError(
        f"{operator} draws random numbers: a NEFF would return the same ones at each call",
        code="NEFF-TORCH-RANDOM",
        place=location,
        remedy="call eval() on the module if this is dropout, or draw the numbers outside and pass "
        "them as an input",
    )


def wrong_result(operator: str, location: str, lowered: str, expected: str) -> TorchGraphError:
    """The error of a lowering whose result has another shape or dtype than PyTorch's."""
    return TorchGraphError(
        f"{operator} was lowered to {lowered}, PyTorch's result is {expected}",
        code="NEFF-TORCH-RESULT",
        place=location,
        remedy="report this with the line above; write it with other operators meanwhile",
    )


def not_decomposed(operator: str, location: str, reason: str) -> TorchGraphError:
    """The error of an operator whose decomposition raises an error itself."""
    return TorchGraphError(
        f"{operator} could not be written with other operators ({reason})",
        code="NEFF-TORCH-DECOMPOSITION",
        place=location,
        remedy="write it with other operators or other arguments, and report this",
    )
