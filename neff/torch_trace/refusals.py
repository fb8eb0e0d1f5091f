"""Errors of a trace, at the line of the user's code."""

from __future__ import annotations

from neff.errors import NeffCompileError

__all__ = [
    "HostStepError",
    "TraceKeywordError",
    "host_operator",
    "host_read",
    "host_write",
    "no_form",
    "random_draw",
]


class HostStepError(NeffCompileError):
    """A traced function needs a value while it is traced, or changes state of the host."""


class TraceKeywordError(NeffCompileError, TypeError):
    """``trace`` was called with a keyword that it does not have."""


_READS = {
    "aten::_local_scalar_dense": "item(), int(), float(), bool(), a condition or an index",
    "aten::_to_copy": "cpu(), to('cpu'), tolist() or printing",
    "aten::copy_": "a copy into a tensor of the host",
}
"""The Python expressions behind the operators that read values."""


def host_read(operator: str, location: str) -> HostStepError:
    """The error of a value of the inputs that is read while the function is traced."""
    written = _READS.get(operator)
    return HostStepError(
        f"{operator} reads a value that depends on the inputs{f' ({written})' if written else ''}: "
        "the traced function would keep the value of the examples",
        code="NEFF-TRACE-READ",
        place=location,
        remedy="compute with tensors (torch.where instead of a condition, index_select instead of "
        "an index), or take the value as an argument that is no tensor and trace once for each",
    )


def host_operator(operator: str, location: str) -> HostStepError:
    """The error of an operator that torch_xla runs on the CPU, or whose result's shape is data."""
    return HostStepError(
        f"{operator} has no form without values here: torch_xla computes it on the CPU while the function "
        "is traced, and the traced function would keep the result of the examples",
        code="NEFF-TRACE-HOST",
        place=location,
        remedy="write it with other operators, compute it before the traced function and pass the "
        "result as an input, or trace the code before and after it separately",
    )


def no_form(operator: str, location: str) -> HostStepError:
    """The error of an operator that torch_xla does not lower for its arguments, or lowers wrongly."""
    return HostStepError(
        f"torch_xla has no right form of {operator} for these arguments: it fails, or its result has "
        "another shape or dtype than PyTorch's",
        code="NEFF-TRACE-OPERATOR",
        place=location,
        remedy="write it with other operators, or give its arguments other shapes (a scalar tensor "
        "as a tensor of one element)",
    )


def random_draw(operator: str, location: str) -> HostStepError:
    """The error of random numbers that are drawn while the function is traced."""
    return HostStepError(
        f"{operator} draws random numbers: the traced function would return the same ones at each call",
        code="NEFF-TRACE-RANDOM",
        place=location,
        remedy="call eval() on the module if this is dropout, or draw the numbers outside and pass "
        "them as an input",
    )


def host_write(what: str, location: str) -> HostStepError:
    """The error of state that the function changes and that calls of the NEFF would not."""
    return HostStepError(
        f"{what}: calls of the traced function would not",
        code="NEFF-TRACE-STATE",
        place=location,
        remedy="keep state in buffers of the traced module (register_buffer), which each call "
        "updates, or pass it as an input and return it",
    )
