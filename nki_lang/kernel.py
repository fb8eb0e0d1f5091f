"""``nki.jit`` and ``nki.simulate``: kernels as objects that are called."""

from __future__ import annotations

import functools
import inspect
import os
import threading
import types
from collections.abc import Callable, Iterable
from typing import Any, cast

import numpy as np

from nki_lang.base.errors import NkiTypeError, fail, warn_at_caller
from nki_lang.base.services import service
from nki_lang.base.targets import Target, current_target, target_of
from nki_lang.base.tracebacks import without_package_frames
from nki_lang.base.versions import selected_version
from nki_lang.frontend.builder import active
from nki_lang.frontend.objects import is_sequence
from nki_lang.ir import KernelIR
from nki_lang.semantics.state import has_wide_scales
from nki_lang.tracing.arguments import replace_tensors
from nki_lang.tracing.configuration import (
    CompileConfig,
    SpecializationConfig,
    require_configurations,
)
from nki_lang.tracing.filled import Divided, Filled, label_of
from nki_lang.tracing.fingerprint import (
    Unidentifiable,
    call_key,
    is_tensor,
)
from nki_lang.tracing.results import rebuild
from nki_lang.tracing.tracer import Schedule, check_grid, trace_kernel

__all__ = [
    "Kernel",
    "jit",
    "register_framework",
    "set_array_runner",
    "simulate",
    "simulator_is_on",
    "trace",
]

_IGNORED_OPTIONS = frozenset(
    {
        "mode", "debug_kernel", "show_compiler_tb", "experimental_flags", "compiler_opts", "opts",
        "enable_cache",
    }
)  # fmt: skip

_FRAMEWORK_CALLS: dict[str, tuple[Callable[[Any], bool], Callable[..., Any]]] = {}


def register_framework(
    name: str,
    detects: Callable[[Any], bool],
    call: Callable[[Kernel, tuple[Any, ...], dict[str, Any]], object],
) -> None:
    """Let a framework handle calls with its tensors.

    Args:
        name: for people; a second registration of a name replaces the first.
        detects: returns whether an argument is a tensor of the framework.
        call: runs the kernel: ``call(kernel, args, kwargs)``.
    """
    _FRAMEWORK_CALLS[name] = (detects, call)


_TRACE_LOCK = threading.RLock()
"""Held while a call traces a kernel; reentrant, for a kernel's Python code may call another one."""

_ARRAY_RUNNER: list[Callable[[Kernel, tuple[Any, ...], dict[str, Any]], Any]] = []


def set_array_runner(run: Callable[[Kernel, tuple[Any, ...], dict[str, Any]], object]) -> None:
    """Let ``run(kernel, args, kwargs)`` handle calls with NumPy arrays from now on."""
    _ARRAY_RUNNER[:] = [run]


def trace(
    func: Any,
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
    *,
    target: str | Target | None = None,
    grid: Any = (),
) -> KernelIR:
    """The kernel IR of a kernel or a plain function for these arguments.

    A kernel's own target, grid and schedule hold where none is given; see
    :func:`nki_lang.tracing.tracer.trace_kernel`.

    Args:
        func: a kernel, or the function itself.
        args: its positional arguments: arrays, or anything with shape and dtype; constants.
        kwargs: its arguments by name.
        target: the family, such as ``"trn2"``.
        grid: the launch grid: 2 for two cores.

    Raises:
        NkiValidationError: the kernel breaks a rule of the language or a limit of the target.
    """
    if not isinstance(func, Kernel):
        return trace_kernel(func, args, kwargs, target=target, grid=grid)
    return trace_kernel(
        func.func,
        args,
        kwargs,
        target=target or func.target,
        grid=grid or func.grid,
        schedule=func.schedule,
    )


def simulator_is_on() -> bool:
    """Return True if NKI_SIMULATOR=1 selects the interpreter.

    Raises:
        NkiValidationError: code ``NKI-SIMULATOR``; the variable is neither 0 nor 1 nor empty.
    """
    value = os.environ.get("NKI_SIMULATOR", "").strip()
    if value not in ("", "0", "1"):
        fail(f"NKI_SIMULATOR={value} in the environment", "NKI-SIMULATOR",
             "1 interprets every kernel; 0 or unset does not", "nki/guides/nki_simulator.rst")  # fmt: skip
    return value == "1"


class Kernel:
    """A kernel function, specialised and run when it is called.

    Called with NumPy arrays it is traced (once for each combination of shapes, dtypes, constants
    and target) and run; called with tensors of a framework it becomes an operator of that
    framework; called from another kernel it is inlined. ``kernel[2]`` launches it on two cores.

    Attributes:
        func: the function.
        target: target family of the kernel, or None for the current target.
        grid: launch grid, () without one.
        schedule: extra dependencies, see :meth:`with_schedule`.
    """

    def __init__(
        self,
        func: Callable[..., object],
        *,
        target: Target | None = None,
        grid: tuple[int, ...] = (),
        schedule: Schedule = (),
    ) -> None:
        self.func = func
        self._bound = target
        self.grid = grid
        self.schedule = schedule
        self._cache: dict[Any, Any] = {}
        self._ambient: dict[Any, Any] = {}
        self._filled = Filled()
        self._owner: Any = None
        functools.update_wrapper(self, func)
        if not hasattr(func, "__name__"):  # a partial, or an object that is called
            inner = getattr(func, "func", type(func))
            self.__name__ = getattr(inner, "__name__", "kernel")

    def __repr__(self) -> str:
        grid = str(list(self.grid)) if self.grid else ""
        return f"<nki kernel {self.__name__}{grid}>"

    __name__: str

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None:
            return self
        bound_kernel = self._with(func=types.MethodType(self.func, instance))
        bound_kernel._owner = instance
        return bound_kernel

    @property
    def target(self) -> Target | None:
        """``platform_target``; None without one and when NEURON_PLATFORM_TARGET_OVERRIDE is set,
        which overrides it: one script is extracted for every family.
        """
        return None if os.environ.get("NEURON_PLATFORM_TARGET_OVERRIDE") else self._bound

    def __getitem__(self, grid: object) -> Kernel:
        """Return the kernel launched on ``grid`` cores."""
        launch = check_grid(grid, self.target or current_target())
        return self._with(grid=launch)

    def with_schedule(self, edges: Any) -> Kernel:
        """Return the kernel with extra dependencies ``[(consumer, producer or [producers]),
        ...]``.
        """
        try:
            schedule = tuple(
                (consumer, (before,) if isinstance(before, str) else tuple(before))
                for consumer, before in edges
            )
            named = all(isinstance(n, str) for edge in schedule for n in (edge[0], *edge[1]))
        except (TypeError, ValueError):
            named, schedule = False, ()
        if not named:
            fail(f"with_schedule got {edges!r}", "NKI-SCHEDULE",
                 "pass a list of (consumer, producer or [producers]), by the names of instructions",
                 "nki/guides/how-to-scheduling-apis.rst", NkiTypeError)  # fmt: skip
        return self._with(schedule=schedule)

    def _with(self, **changes: Any) -> Kernel:
        options: dict[str, Any] = {
            "func": self.func, "target": self._bound, "grid": self.grid, "schedule": self.schedule,
        }  # fmt: skip
        kernel = Kernel(**(options | changes))
        kernel._cache, kernel._ambient = self._cache, self._ambient  # the key distinguishes them
        kernel._filled = self._filled
        kernel._owner = self._owner
        return kernel

    @without_package_frames
    def __call__(self, *args: object, **kwargs: object) -> Any:
        if active() is not None:
            return self.func(*args, **kwargs)
        for detects, call in _FRAMEWORK_CALLS.values():
            if _any_tensor((args, kwargs), detects):
                return call(self, args, kwargs)
        if simulator_is_on():
            return simulate(self)(*args, **kwargs)
        if _ARRAY_RUNNER:
            return _ARRAY_RUNNER[0](self, args, kwargs)
        return self._run(args, kwargs)

    # -- specialising ---------------------------------------------------------------------

    @without_package_frames
    def trace(
        self,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
        *,
        target: str | Target | None = None,
        grid: object = (),
    ) -> KernelIR:
        """Return the kernel IR for these arguments (arrays or anything with shape and dtype)."""
        return trace(self, args, kwargs, target=target, grid=grid)

    @without_package_frames
    def ir(self, *args: object, **kwargs: object) -> KernelIR:
        """Return the kernel IR for these arguments."""
        return trace(self, args, kwargs)

    @without_package_frames
    def klir(self, *args: object, **kwargs: object) -> bytes:
        """Return the KLIR binary for these arguments."""
        from nki_lang import klir

        return klir.dumps(trace(self, args, kwargs)).klir

    @without_package_frames
    def lines(self, *args: object, **kwargs: object) -> str:
        """Return the instructions for these arguments as text."""
        return str(trace(self, args, kwargs))

    @without_package_frames
    def cost(self, *args: object, **kwargs: object) -> Any:
        """Return the cost of each line for these arguments on the target, by the timing model.

        Loops that depend on the arguments are counted in a run on them. The result is a
        ``neff.profile.CostReport``, which prints as a table with one row for equal instructions.
        """
        return service("kernel-cost")(trace(self, args, kwargs), self.arrays(args, kwargs))

    @without_package_frames
    def profile(self, *args: object, **kwargs: object) -> Any:
        """Return the time profile for these arguments on the target, by the timing model.

        The result is a ``neff.profile.ProfileReport``, which prints as tables, in a notebook too.
        """
        return service("kernel-profile")(trace(self, args, kwargs), self.arrays(args, kwargs))

    # -- running on NumPy arrays ----------------------------------------------------------

    def _run(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        executable = self._specialised(args, kwargs)
        arrays = self.arrays(args, kwargs)
        kernel_ir = executable.kernel_ir
        if kernel_ir.aliases:
            from nki_lang.execute.hosts import require_writable

            written = {kernel_ir.inputs[i].name: arrays[i] for i in kernel_ir.aliases.values()}
            require_writable(kernel_ir.name, written)
        return deliver(kernel_ir, arrays, executable.run(arrays))

    def arrays(self, args: tuple[object, ...], kwargs: dict[str, object]) -> list[Any]:
        """Return the tensors among the arguments, in the order of the kernel's inputs."""
        bound = inspect.signature(self.func).bind(*args, **kwargs)
        bound.apply_defaults()
        arrays: list[Any] = []

        def take(value: object, _name: str) -> Any:
            arrays.append(value)
            return None

        for value in bound.arguments.values():
            replace_tensors(value, "", take)
        return arrays

    def __nki_identity__(self) -> tuple[Any, ...]:
        """Return the content of a kernel that is an argument, or that another kernel reads."""
        return (self.func, self._bound and self._bound.name, self.grid, self.schedule, self._owner)

    def _key(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        """Return the cache key of a call; None when a value in it cannot be compared."""
        target = self.target or current_target()
        rules = os.environ.get("NKI_PRECISE_FP"), has_wide_scales(), selected_version()
        try:
            content, classes = call_key((args, kwargs, self._owner))
            call = (target.name, self.grid, self.schedule, rules, content)
            surroundings = self._surroundings(classes)
        except Unidentifiable:
            return None
        earlier = self._ambient.setdefault(call, surroundings)
        if earlier != surroundings:
            names = sorted({label_of(entry) for entry, _ in earlier ^ surroundings})
            warn_at_caller(
                f"kernel {self.__name__} is traced again because {', '.join(names)} changed since"
                " the last call; kernels are pure functions of their arguments"
            )
            self._ambient[call] = surroundings
        return (call, surroundings)

    def _surroundings(self, classes: list[type]) -> frozenset[Any]:
        """Return the values outside the arguments that the function reads, except those it
        changes.
        """
        return self._filled.surroundings(self._read_by(), classes)

    def _read_by(self) -> Any:
        """Return the function without the object that it is bound to, which is an argument."""
        return self.func.__func__ if self._owner is not None else self.func  # type: ignore[attr-defined]

    def _specialised(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        """Return the executable for these arguments, traced unless it is cached."""
        key = self._key(args, kwargs)
        executable = None if key is None else self._cache.get(key)
        if executable is not None:
            return executable
        with _TRACE_LOCK:
            return self._traced(args, kwargs)

    def _traced(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        """Trace as :meth:`_specialised`, one thread at a time: another may have traced it meanwhile.

        Objects that the kernel changes while it is traced (a list that it fills) are no inputs.
        """
        from nki_lang import execute

        key = self._key(args, kwargs)
        executable = None if key is None else self._cache.get(key)
        if executable is not None:
            return executable
        divided = None if key is None else self._divided(args, kwargs)
        executable = execute.Pool(execute.load(trace(self, args, kwargs)))
        if divided is not None:
            self._keep(key, executable, divided, args, kwargs)
        return executable

    def _divided(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Divided | None:
        """Return what the function reads, to the last element; None when it cannot be compared."""
        try:
            _, classes = call_key((args, kwargs, self._owner))
            return self._filled.divided(self._read_by(), classes)
        except Unidentifiable:
            return None

    def _keep(
        self,
        key: Any,
        executable: Any,
        earlier: Divided,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        call, before = key
        try:
            _, classes = call_key((args, kwargs, self._owner))
            if self._surroundings(classes) != before:
                self._note_filled(earlier, classes)
            before = self._surroundings(classes)
        except Unidentifiable:
            return
        self._ambient[call] = before
        self._cache[call, before] = executable

    def _note_filled(self, before: Divided, classes: list[type]) -> None:
        """Remove the elements and attributes that tracing changed from the inputs."""
        if not self._filled.note(before, self._read_by(), classes):
            return
        self._ambient.clear()
        for (call, surroundings), executable in list(self._cache.items()):
            self._cache[call, self._filled.without(surroundings)] = executable


def deliver(kernel_ir: KernelIR, arrays: list[Any], results: list[Any]) -> Any:
    """Write results that alias arguments into them, and return what the kernel returns."""
    outputs = list(results)
    for output, argument in kernel_ir.aliases.items():
        np.copyto(arrays[argument], results[output].reshape(arrays[argument].shape))
        outputs[output] = arrays[argument]
    returned = outputs[: kernel_ir.metadata.get("returned", len(outputs))]
    structure = kernel_ir.metadata.get("structure")
    if structure is not None:
        return rebuild(structure, returned)
    if kernel_ir.returns_tuple:
        return tuple(returned)
    return returned[0] if returned else None


def _any_tensor(value: object, detects: Callable[[Any], bool]) -> bool:
    if is_sequence(value):
        return any(_any_tensor(item, detects) for item in value)
    if isinstance(value, dict):
        return any(_any_tensor(item, detects) for item in cast(dict[str, object], value).values())
    if isinstance(value, np.ndarray) or not is_tensor(value):
        return False
    return detects(value)


def jit(
    fn: Callable[..., Any] | None = None,
    *,
    compile_config: CompileConfig | None = None,
    specialization_config: SpecializationConfig | None = None,
    **kwargs: Any,
) -> Any:
    """Decorator: make a function a kernel, with or without arguments.

    ``platform_target`` binds it to a family. Options of earlier versions (``mode``,
    ``debug_kernel``, ...) are accepted and have no effect, as are the two configurations, which
    choose between ways of the vendor's compiler to the same numbers.

    Args:
        fn: the function; None when the decorator is written with arguments.
        compile_config: an ``nki.compiler.CompileConfig``.
        specialization_config: an ``nki.compiler.SpecializationConfig``.
        kwargs: ``platform_target="trn1"``, ``"trn2"`` or ``"trn3"``.

    Returns:
        Kernel: the kernel, or a decorator that makes one.

    Raises:
        NkiTypeError: an unknown option, or an object that is no function.
    """
    require_configurations(compile_config, specialization_config)
    if fn is None:
        return functools.partial(jit, **kwargs)
    name = kwargs.pop("platform_target", None) or kwargs.pop("target", None)
    unknown = set(kwargs) - _IGNORED_OPTIONS - {"grid"}
    if unknown:
        fail(f"nki.jit has no option {', '.join(sorted(unknown))}", "NKI-JIT",
             "platform_target binds a kernel to a family; kernel[2] launches it on two cores",
             "nki.jit", NkiTypeError)  # fmt: skip
    if isinstance(fn, Kernel):
        fn = fn.func
    if not callable(fn):
        fail(f"nki.jit decorates a function, not {fn!r}", "NKI-JIT",
             "write @nki.jit above the definition of the kernel", "nki.jit", NkiTypeError)  # fmt: skip
    target = target_of(name) if isinstance(name, str) else name
    grid = kwargs.get("grid", ())
    launch = check_grid(grid, target or current_target()) if grid else ()
    return Kernel(fn, target=target, grid=launch)


def simulate(
    kernel: object,
    *,
    target: str | Target | None = None,
    checks: str | Iterable[str] | None = None,
) -> Callable[..., Any]:
    """Return a function that interprets the kernel instruction by instruction on NumPy arrays.

    Breakpoints and prints inside the kernel see values.

    Args:
        kernel: a kernel (``kernel[2]`` runs as two cores) or a plain function.
        target: family; the kernel's own, or the current one, when None.
        checks: names of checks, ``"all"``, or ``()`` for none; their findings are in the attribute
            ``report`` of the function, see :mod:`nki_lang.execute.checks`. With None the default
            checks run, and warn.
    """
    from nki_lang import execute

    if not isinstance(kernel, Kernel):
        if not callable(kernel):
            fail(f"simulate takes a kernel, not {kernel!r}", "NKI-OPERAND",
                 "decorate the function with @nki.jit", "nki.simulate", NkiTypeError)  # fmt: skip
        kernel = Kernel(kernel)
    family = target_of(target) if isinstance(target, str) else target
    return execute.simulate(kernel, target=family, checks=checks)
