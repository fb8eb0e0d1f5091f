"""The arrays among a simulated kernel's arguments, of any framework."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nki_lang.base.dtypes import Array
from nki_lang.execute.hosts import framework_of, kind_of, overlaps_itself, to_kind, to_numpy
from nki_lang.tracing.arguments import bind_call, replace_tensors

__all__ = ["ArgumentArray", "argument_arrays"]


@dataclass(frozen=True, slots=True)
class ArgumentArray:
    """One array among the arguments: as the caller passed it, and as the kernel sees it."""

    original: Any
    array: Array

    def copied(self) -> ArgumentArray:
        """Return the argument with an array of its own."""
        return ArgumentArray(self.original, self.array.copy())

    def give_back(self) -> None:
        """Copy what the kernel wrote into the caller's array."""
        kind = kind_of(self.original)
        if kind == "numpy" and not np.shares_memory(self.original, self.array):
            np.copyto(self.original, self.array)
        elif kind == "torch":
            if not np.may_share_memory(to_numpy(self.original), self.array):
                self.original.copy_(to_kind(self.array, "torch"))
            framework_of(self.original).wrote(self.original)


def argument_arrays(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[ArgumentArray]:
    """Return the arrays among the arguments, in the order of the kernel's inputs.

    All arrays are copied if two of them share memory, or if the kernel may not write to one of
    them, because a refused call must not change its arguments.
    """
    values: list[Any] = []

    def take(value: Any, _name: str) -> Any:
        values.append(value)
        return value

    bound = bind_call(func, args, kwargs)
    bound.apply_defaults()
    for value in bound.arguments.values():
        replace_tensors(value, "", take)
    for kind in {kind_of(value) for value in values}:
        tensors = [value for value in values if kind_of(value) == kind]
        framework_of(tensors[0]).check(func, tensors)
    originals = [to_numpy(value) for value in values]
    arrays = [np.ascontiguousarray(array).reshape(array.shape) for array in originals]
    needs_copies = _share_memory(originals) or any(
        framework_of(value).refusal(func, "", value) is not None for value in values
    )
    return [
        ArgumentArray(value, array.copy() if needs_copies else array)
        for value, array in zip(values, arrays, strict=True)
    ]


def _share_memory(arrays: list[Array]) -> bool:
    """Return True if a write into an array may change another element or array, or is not
    allowed.
    """
    if any(not array.flags.writeable or overlaps_itself(array) for array in arrays):
        return True
    pairs = itertools.combinations(arrays, 2)
    return any(np.may_share_memory(first, second) for first, second in pairs)
