"""Decorators of NKI beta 1: ``nki.jit`` with its modes, ``trace``, ``baremetal``, ``simulate_kernel``.

Source: nki/api/nki (SDK 2.26).
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from nki_lang.base.errors import NkiTypeError, fail
from nki_lang.base.targets import Target, target_of
from nki_lang.beta1.function import Beta1Function
from nki_lang.beta1.index import is_integer
from nki_lang.beta1.session import require_session
from nki_lang.beta1.signature import checked_call
from nki_lang.beta1.values import AxisLike, Value
from nki_lang.frontend.builder import active
from nki_lang.frontend.objects import is_sequence
from nki_lang.kernel import Kernel
from nki_lang.kernel import simulate as simulate_current

__all__ = [
    "Beta1Kernel", "jit", "nc", "num_programs", "program_id", "program_ndim", "simulate_kernel",
    "spmd_dim", "trace",
]  # fmt: skip

_MODES = frozenset({"auto", "jax", "torchxla", "baremetal", "benchmark", "simulation", "trace"})
_OPTIONS = frozenset(
    {"additional_compile_opt", "experimental_flags", "show_compiler_tb", "debug_kernel",
     "enable_out_of_bound_check", "kernel_return", "save_neff_name", "save_trace_name",
     "artifacts_dir"}
)  # fmt: skip
"""Options without an effect on numbers."""


class GridDim:
    """One dimension of a launch grid that is spread over cores.

    Attributes:
        extent: number of programs.
    """

    __slots__ = ("extent",)

    def __init__(self, extent: int) -> None:
        self.extent = extent

    def __mul__(self, count: int) -> GridDim:
        return GridDim(self.extent * int(count))

    __rmul__ = __mul__


@checked_call
def nc(cores: int) -> GridDim:
    """``nl.nc(2)``: programs on different cores; here they run one after the other."""
    return GridDim(int(cores))


@checked_call
def spmd_dim(*parts: Value) -> GridDim:
    """``nl.spmd_dim(nl.nc(2), 2)``: the product of cores and programs."""
    extent = 1
    for entry in parts:
        extent *= entry.extent if isinstance(entry, GridDim) else int(entry)
    return GridDim(extent)


def _launch_grid(grid: Value) -> tuple[int, ...]:
    entries: tuple[Value, ...] = tuple(grid) if is_sequence(grid) else (grid,)
    extents: list[int] = []
    for entry in entries:
        extent = entry.extent if isinstance(entry, GridDim) else entry
        if not is_integer(extent) or extent < 1:
            fail(f"launch grid {grid!r}", "NKI-GRID", "extents are positive integers: kernel[4, 2]",
                 "nki/programming_model.rst (beta 1)")  # fmt: skip
        extents.append(int(extent))
    return tuple(extents)


class Beta1Kernel(Kernel):
    """A kernel of NKI beta 1.

    Attributes:
        mode: how a call with NumPy arrays runs: ``"simulation"`` interprets it.
    """

    def __init__(self, func: Callable[..., Value], *, mode: str = "auto", **options: Value) -> None:
        self.mode = mode
        super().__init__(_function_of(func), **options)

    def _with(self, **changes: Value) -> Beta1Kernel:
        options: dict[str, Value] = {
            "func": self.func,
            "target": self._bound,
            "schedule": self.schedule,
        }
        kernel = Beta1Kernel(**(options | changes), mode=self.mode)
        kernel._cache, kernel._ambient, kernel._filled = self._cache, self._ambient, self._filled
        return kernel

    def __getitem__(self, grid: Value) -> Beta1Kernel:
        """Return the kernel launched on a grid of programs of any rank."""
        return self._with(func=Beta1Function(self._user_function(), _launch_grid(grid)))

    def _user_function(self) -> Callable[..., Value]:
        function: Value = self.func
        return function.func

    def _read_by(self) -> Value:
        return self._user_function()

    def _key(self, args: tuple[Value, ...], kwargs: dict[str, Value]) -> Value:
        key = super()._key(args, kwargs)
        function: Value = self.func
        return None if key is None else ((key[0], function.grid), key[1])

    def __call__(self, *args: Value, **kwargs: object) -> Value:
        if self.mode == "simulation" and not _is_inside_kernel():
            return simulate_kernel(self, *args, **kwargs)
        return super().__call__(*args, **kwargs)


def _is_inside_kernel() -> bool:
    return active() is not None


def _function_of(func: Value) -> Beta1Function:
    if isinstance(func, Beta1Function):
        return func
    if isinstance(func, Kernel):
        return _function_of(func.func)
    if not callable(func):
        fail(f"nki.jit decorates a function, not {func!r}", "NKI-JIT",
             "write @nki.jit above the definition of the kernel", "nki.jit (beta 1)", NkiTypeError)  # fmt: skip
    return Beta1Function(func)


def jit(func: Value = None, mode: str = "auto", **kwargs: Value) -> Value:
    """Decorator: make a function a kernel of NKI beta 1.

    Args:
        func: the function; None when the decorator is written with arguments.
        mode: ``"simulation"`` interprets calls with NumPy arrays; ``"baremetal"``, ``"jax"``,
            ``"torchxla"``, ``"benchmark"``, ``"trace"`` and ``"auto"`` let the arguments decide.
        kwargs: ``platform_target`` binds the kernel to a family; options of the compiler have no
            effect.

    Raises:
        NkiTypeError: code ``NKI-JIT``; an unknown mode or option, or an object that is no function.
    """
    if func is None:
        return functools.partial(jit, mode=mode, **kwargs)
    if mode not in _MODES:
        fail(f"nki.jit has no mode {mode!r}", "NKI-JIT", f"use one of {', '.join(sorted(_MODES))}",
             "nki.jit (beta 1)", NkiTypeError)  # fmt: skip
    name = kwargs.pop("platform_target", None)
    unknown = set(kwargs) - _OPTIONS
    if unknown:
        fail(f"nki.jit has no option {', '.join(sorted(unknown))}", "NKI-JIT",
             f"use platform_target, or one of {', '.join(sorted(_OPTIONS))}", "nki.jit (beta 1)",
             NkiTypeError)  # fmt: skip
    target: Target | None = target_of(name) if isinstance(name, str) else name
    return Beta1Kernel(func, mode=mode, target=target)


def trace(func: Value = None, **kwargs: Value) -> Value:
    """``nki.trace``: the old name of the tracing decorator."""
    return jit(func, **kwargs)


def simulate_kernel(kernel: Value, *args: Value, **kwargs: object) -> Value:
    """Interpret a kernel, ``kernel[grid]`` or a plain function on NumPy arrays.

    Arguments that the kernel stores to are written in place; returned tensors are returned.
    """
    if not isinstance(kernel, Beta1Kernel):
        kernel = Beta1Kernel(kernel)
    return simulate_current(kernel, checks=())(*args, **kwargs)


@checked_call
def program_id(axis: int) -> int:
    """Index of the program along an axis of the launch grid."""
    session = require_session()
    _check_axis(axis, session.grid)
    return session.program[axis] if session.program else 0


@checked_call
def num_programs(axes: AxisLike = None) -> int:
    """Number of programs along the axes; of all of them by default."""
    grid = require_session().grid
    chosen = range(len(grid)) if axes is None else axes
    count = 1
    for axis in (chosen,) if isinstance(chosen, int) else chosen:
        _check_axis(axis, grid)
        count *= grid[axis] if grid else 1
    return count


@checked_call
def program_ndim() -> int:
    """Number of axes of the launch grid."""
    return len(require_session().grid)


def _check_axis(axis: int, grid: tuple[int, ...]) -> None:
    if not 0 <= axis < max(1, len(grid)):
        fail(f"the launch grid {grid} has no axis {axis}", "NKI-GRID", "launch kernel[a, b]",
             "nki/programming_model.rst (beta 1)")  # fmt: skip
