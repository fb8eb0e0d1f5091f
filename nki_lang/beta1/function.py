"""A function of NKI beta 1 as a function of the kernel IR's tracer.

The tracer calls it with tensors of the current language; it hands tiles to the user's function,
runs the programs of the launch grid one after the other, and takes the results apart.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable

from nki_lang.base.errors import fail
from nki_lang.base.memory import MemoryRegion
from nki_lang.beta1.creation import make
from nki_lang.beta1.demand import fit_on_chip
from nki_lang.beta1.movement import store
from nki_lang.beta1.rewrite import runnable
from nki_lang.beta1.session import Session, session_or_none, start_session
from nki_lang.beta1.tile import Tile
from nki_lang.beta1.values import Value
from nki_lang.frontend.objects import is_mapping, is_sequence
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.tracing.arguments import dict_like, replace_tensors, sequence_like

__all__ = ["Beta1Function"]

MAX_PROGRAMS = 1 << 16
"""Programs of a launch grid."""


class Beta1Function:
    """The callable that the tracer runs.

    Attributes:
        func: the user's function.
        grid: extents of the launch grid, () without one.
        language: of the function; the kernel IR names it.
    """

    __slots__ = (
        "__name__",
        "__signature__",
        "_runnable",
        "func",
        "grid",
    )  # no __dict__: Kernel copies it

    language = "beta1"

    def __init__(self, func: Callable[..., Value], grid: tuple[int, ...] = ()) -> None:
        self.func = func
        self.grid = grid
        self._runnable: Callable[..., Value] | None = None
        self.__name__: str = getattr(func, "__name__", "kernel")
        self.__signature__ = inspect.signature(func)

    @property
    def __code__(self) -> Value:
        """The user's code, where errors about the whole kernel point."""
        return getattr(self.func, "__code__", None)

    def __nki_identity__(self) -> tuple[Value, ...]:
        """Return the content of a kernel that another kernel reads."""
        return (self.func, self.grid)

    def __call__(self, *args: Value, **kwargs: object) -> Value:
        if session_or_none() is not None:
            return self._inline(args, kwargs)
        count = 1
        for extent in self.grid:
            count *= extent
        if not 1 <= count <= MAX_PROGRAMS:
            fail(f"launch grid {self.grid} has {count} programs", "NKI-GRID",
                 f"launch 1 to {MAX_PROGRAMS} programs and loop inside the kernel")  # fmt: skip
        with start_session(self.grid) as session:
            result: Value = None
            for session.program in itertools.product(*map(range, self.grid)):
                session.shared_count = 0
                result = self._run(session, args, kwargs)
            if not session.builder.eager:
                fit_on_chip(session.builder)
            return result

    def _function(self) -> Callable[..., Value]:
        if self._runnable is None:
            self._runnable = runnable(self.func)
        return self._runnable

    def _inline(self, args: tuple[Value, ...], kwargs: dict[str, Value]) -> Value:
        if self.grid:
            fail(
                f"{self.__name__} is launched on a grid inside a kernel"
                " (err_nested_kernel_with_spmd_grid)",
                "NKI-GRID",
                "call it without a grid",
                "nki/api/nki.errors.rst",
            )
        return self._function()(*args, **kwargs)

    def _run(self, session: Session, args: tuple[Value, ...], kwargs: dict[str, Value]) -> Value:
        tiled = [replace_tensors(value, "", _tile_of) for value in args]
        named = {key: replace_tensors(value, "", _tile_of) for key, value in kwargs.items()}
        session.newest = None
        return _tensors_of(self._function()(*tiled, **named))


def _tile_of(value: Value, _name: str) -> Value:
    return Tile(value) if isinstance(value, NkiTensor) else value


def _in_hbm(tile: Tile) -> Tile:
    """Return a result in HBM; the simulator of beta 1 lets kernels return tiles on chip."""
    if not tile.on_chip:
        return tile
    stored = make(tile.shape, tile.dtype, MemoryRegion.shared_hbm)
    store(stored, tile)
    return stored


def _tensors_of(value: Value) -> Value:
    """Replace the tiles in a kernel's result by their tensors."""
    if isinstance(value, Tile):
        return _in_hbm(value).region()
    if is_sequence(value):
        return sequence_like(value, [_tensors_of(entry) for entry in value])
    if is_mapping(value):
        return dict_like(value, {key: _tensors_of(entry) for key, entry in value.items()})
    return value
