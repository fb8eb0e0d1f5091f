"""What a kernel alone takes by the timing model, for searches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from neff.compiler.assembly.assemble import assemble, kernel_parts
from neff.compiler.lowering.task import Task
from neff.compiler.plans import SIZES, Tuning
from neff.errors import NeffCompileError
from neff.timing import estimate
from nki_lang.base.targets import Target
from nki_lang.ir import KernelIR

__all__ = ["Variant", "priced", "variants"]

Variant = tuple[str, Callable[[], Task]]
"""What is different about a variant, and what makes its task."""


def priced(kernel: KernelIR, target: Target) -> float:
    """Nanoseconds; infinite for a kernel that does not fit."""
    try:
        return estimate(assemble(kernel_parts(kernel, target))).total.value
    except NeffCompileError:
        return float("inf")


def variants(
    make: Callable[[Tuning], Task], usual: Tuning, fields: tuple[str, ...]
) -> Iterator[Variant]:
    """The usual task, and those with one size changed.

    Args:
        make: a task from sizes.
        usual: the sizes to begin with.
        fields: of the sizes that matter to it.
    """
    yield "", lambda: make(usual)
    for field in fields:
        for size in SIZES[field]:
            changed = replace(usual, **{field: size})
            yield f"{field} {size}", lambda changed=changed: make(changed)
