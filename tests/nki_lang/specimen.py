"""Small pieces that the tests of the kernel language share."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

import pytest

import nki_lang
import nki_lang.language as nl
from nki_lang.base.errors import NkiValidationError
from nki_lang.base.targets import target_of
from nki_lang.frontend.builder import TraceBuilder, building
from nki_lang.ir import KernelIR


@contextmanager
def tracing(target: str = "trn2", **options: Any):
    """A builder of its own, for code outside a kernel."""
    with building(TraceBuilder(target_of(target), **options)) as builder:
        yield builder


def spec(*shape: int, dtype: Any = nl.float32) -> nki_lang.TensorSpec:
    """A tensor argument."""
    return nki_lang.TensorSpec(shape, dtype)


def trace(func: Any, *args: Any, target: str = "trn2", grid: Any = (), **kwargs: Any) -> KernelIR:
    """The kernel IR of ``func``."""
    return nki_lang.trace(func, args, kwargs, target=target, grid=grid)


def ops(kernel: KernelIR) -> list[str]:
    """Names of all instructions."""
    return [instruction.op for instruction in kernel.instructions()]


@contextmanager
def refused(code: str, *words: str):
    """The block breaks the rule ``code``, is told so at a line of its own file, and why."""
    with pytest.raises(NkiValidationError) as caught:
        yield caught
    error = caught.value
    assert error.code == code, error
    assert error.location is not None and "nki_lang/nki_lang" not in error.location.file
    assert error.location.file.endswith(".py") and "/tests/" in error.location.file
    for word in words:
        assert word in str(error), error
