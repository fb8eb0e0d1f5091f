"""Prices a kernel alone by the timing model, for searches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from neff.compiler.assembly.assemble import assemble, kernel_parts
from neff.compiler.lowering.tiles.task import Task
from neff.compiler.plans import SIZES, SMALLER, Tuning
from neff.errors import NeffCompileError
from neff.timing import estimate
from nki_lang.base.targets import Target
from nki_lang.ir import KernelIR

__all__ = ["Variant", "priced", "smaller_variants", "variants"]

Variant = tuple[str, Callable[[], Task]]
"""(description of the difference, function that returns its task)."""


def priced(kernel: KernelIR, target: Target) -> float:
    """Return nanoseconds; infinite for a kernel that does not fit."""
    try:
        return estimate(assemble(kernel_parts(kernel, target))).total.value
    except NeffCompileError:
        return float("inf")


def variants(
    make: Callable[[Tuning], Task], default: Tuning, fields: tuple[str, ...]
) -> Iterator[Variant]:
    """Yield the default task, and tasks with one size changed.

    Args:
        make: returns a task from sizes.
        default: the default sizes.
        fields: the sizes that affect the task.
    """
    yield "", lambda: make(default)
    for field in fields:
        for size in SIZES[field]:
            changed = replace(default, **{field: size})
            yield f"{field} {size}", lambda changed=changed: make(changed)


def smaller_variants(make: Callable[[Tuning], Task], default: Tuning) -> Iterator[Variant]:
    """Yield tasks that need less memory on chip each time.

    Args:
        make: returns a task from sizes.
        default: the default sizes.
    """
    for share in SMALLER:
        reduced = default.divided(share)
        yield f"sizes divided by {share} to fit", lambda reduced=reduced: make(reduced)
