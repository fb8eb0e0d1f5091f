"""Registered kernels: kernels that take the place of the operations that a pattern describes.

A library says once which operations its kernel computes; for every module the kernel is traced for
the shapes that are there. :func:`replace_registered` is what ``neff.compile`` does with them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np

from hlo_tools import schema
from hlo_tools._messages import counted
from hlo_tools.errors import CodedError, HloError, HloVerifyError
from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.kernel_calls.match import is_alive
from hlo_tools.kernel_calls.operands import (
    add_constants,
    call_fields,
    check_fits,
    config_of,
)
from hlo_tools.kernel_calls.references import read_named
from hlo_tools.kernels.cache import store
from hlo_tools.plugins import plugins
from hlo_tools.rewrite.dead_code import UnusedRemover, remove_unreachable
from hlo_tools.rewrite.patterns import Captures, Condition, Pattern, held
from hlo_tools.types.shape import Shape
from hlo_tools.types.source_frames import frames_of
from nki_lang.ir import KernelIR

__all__ = [
    "GROUP",
    "RegisteredKernel",
    "Replacement",
    "composite",
    "custom_call",
    "named_kernels",
    "replace_registered",
]

GROUP = "nki_neff.kernels"
"""Entry points of this group name registered kernels of installed packages."""

_CALLERS = frozenset({"call", "while", "conditional", "fusion", "async-start"})
"""Opcodes whose computations take whole arrays: those of others are applied element by element."""

_RETURNS_TYPED = 2
"""``API_VERSION_STATUS_RETURNING``, as the vendor's frameworks write it."""


@dataclass(frozen=True, slots=True)
class RegisteredKernel:
    """A kernel, and the operations that it computes.

    The kernel is called as a Python function is: with the operands that the pattern captures under
    the names of its parameters; when the pattern captures none, with the operands of the
    instruction in order. It returns the instruction's result, or the parts of its tuple.

    Attributes:
        kernel: an ``nki.jit`` kernel, or the function itself.
        pattern: what it computes: :func:`custom_call`, :func:`composite`, or a pattern of
            :mod:`hlo_tools.rewrite.patterns`.
        when: is called with the shapes (``.dimensions``, ``.dtype``) in place of the arrays; the
            kernel is put in where it returns true. Without it, everywhere.
        arguments: further arguments of the kernel by name, from the instruction: what its
            attributes or the composite's say.
        name: for messages; the kernel's own when not given.
    """

    kernel: Callable[..., object]
    pattern: Pattern
    when: Callable[..., object] | None = None
    arguments: Callable[[Instruction], Mapping[str, object]] | None = None
    name: str = ""

    @property
    def title(self) -> str:
        """Its name, or the kernel's."""
        return self.name or str(getattr(self.kernel, "__name__", "kernel"))


@dataclass(frozen=True, slots=True)
class Replacement:
    """A registered kernel in place of an HLO instruction.

    Attributes:
        kernel: the registered name.
        call: the kernel call's name in the module.
        opcode, name: of the instruction whose value it computes.
        place: the user's line, else the framework's name, else "".
        binary: the kernel's file in the kernel cache.
        checked: the largest difference from what the instruction computes, relative to the largest
            value; None when it was not asked for.
    """

    kernel: str
    call: str
    opcode: str
    name: str
    place: str
    binary: Path
    checked: float | None = None


def custom_call(target: str, where: Condition | None = None) -> Pattern:
    """Custom calls of a target.

    Args:
        target: ``custom_call_target``.
        where: what else has to be true of the instruction.
    """

    def is_it(view: Instruction) -> bool:
        return view.custom_call_target == target and (where is None or bool(where(view)))

    return Pattern(frozenset({"custom-call"}), where=is_it)


def composite(name: str, where: Condition | None = None) -> Pattern:
    """Calls of a composite (``jax.lax.composite``), or of a computation of that name.

    A function under ``jax.jit`` becomes a computation with the function's name. The number that XLA
    puts behind names does not count.

    Args:
        name: ``composite.name``, or the computation's.
        where: what else has to be true of the ``call``.
    """

    def is_it(view: Instruction) -> bool:
        called = re.sub(r"\.\d+$", "", view.called_computations[0].name)
        composite_name = view.frontend_attributes.get("composite.name", called)
        return composite_name == name and (where is None or bool(where(view)))

    return Pattern(frozenset({"call"}), where=is_it)


def named_kernels(names: Sequence[str]) -> tuple[RegisteredKernel, ...]:
    """The registered kernels that texts name, in order.

    Args:
        names: ``FILE.py:NAME``, or an entry point of :data:`GROUP`; each is a
            :class:`RegisteredKernel` or a list of them.

    Raises:
        HloError: there is no such file or name (HLO-NO-FILE, HLO-NO-NAME), the file cannot be
            imported (HLO-IMPORT), or it is something else (HLO-REGISTERED).
    """
    return tuple(kernel for name in names for kernel in _listed(_named(name), name))


def _named(name: str) -> object:
    if ".py" in name:
        return read_named(name)
    plugins_by_name = {plugin.name: plugin for plugin in plugins(GROUP)}
    if name not in plugins_by_name:
        raise HloError(
            f"no installed package registers kernels as {name!r}", code="HLO-REGISTERED",
            remedy=f"there are: {', '.join(plugins_by_name) or 'none'}; FILE.py:NAME names one of a file",
        )  # fmt: skip
    return plugins_by_name[name].get()


def _listed(registration: object, name: str) -> Iterator[RegisteredKernel]:
    is_list = isinstance(registration, (list, tuple))
    for kernel in cast("Sequence[object]", registration) if is_list else (registration,):
        if not isinstance(kernel, RegisteredKernel):
            raise HloError(
                f"{type(kernel).__name__} is not a registered kernel", code="HLO-REGISTERED",
                place=name, remedy="name a RegisteredKernel, or a list of them",
            )  # fmt: skip
        yield kernel


def replace_registered(
    module: Module,
    kernels: Sequence[RegisteredKernel],
    *,
    target: str,
    check: bool = False,
    tolerance: float = 1e-3,
) -> list[Replacement]:
    """Replace operations by calls of registered kernels; return the replacements.

    Users come before what they use, so a pattern of several instructions is found before one of a
    part of it; of several kernels for one instruction the first is taken.

    Args:
        module: it is changed.
        kernels: what to look for.
        target: family that the kernels are traced for.
        check: evaluate each on random inputs, and what it stands for, and compare.
        tolerance: largest difference allowed, relative to the largest value of a result.

    Raises:
        HloError: a pattern has no opcode (HLO-REGISTERED); a kernel cannot be traced for the
            shapes that are there (HLO-REGISTERED-KERNEL).
        HloVerifyError: what it takes or returns is something else (HLO-KERNEL-OPERAND,
            HLO-KERNEL-RESULT), or has other values (HLO-DIFFERENT).
        NkiError: the kernel breaks a rule of the language.
        EvaluationError: with ``check``: nothing says what the operation computes.
    """
    module.require_known_fields()
    for kernel in kernels:
        if not kernel.pattern.opcodes:
            raise HloError(
                f"the pattern of {kernel.title} has no opcode, so it matches everything",
                code="HLO-REGISTERED",
                remedy="begin with custom_call(...), composite(...) or op(...)",
            )
    replacements: list[Replacement] = []
    work = _Work(kernels, target, tolerance if check else None)
    visited: set[Computation] = set()
    waiting = [module.entry]
    while waiting:
        here = waiting.pop()
        if here in visited:
            continue
        visited.add(here)
        replacements += work.replace_in(here)
        callers = (view for view in here.views() if view.opcode in _CALLERS)
        waiting += [called for view in callers for called in view.called_computations]
    if replacements:
        remove_unreachable(module)
    return replacements


@dataclass(frozen=True, slots=True)
class _Place:
    """An instruction that a pattern fits.

    Attributes:
        view: it.
        captures: name in the pattern -> instruction; empty when the pattern has no names.
    """

    view: Instruction
    captures: Captures

    @property
    def inputs(self) -> tuple[Instruction, ...]:
        return tuple(self.captures.values()) if self.captures else self.view.operands

    def operands_of(self, kernel: KernelIR) -> list[Instruction]:
        """The inputs in the kernel's order."""
        if not self.captures:
            return list(self.view.operands)
        return [self.captures[tensor.name] for tensor in kernel.inputs]

    def called(
        self, values: Mapping[Instruction, object]
    ) -> tuple[list[object], dict[str, object]]:
        """Arguments by position and by name of a function that takes the inputs."""
        if self.captures:
            return [], {name: values[view] for name, view in self.captures.items()}
        return [values[view] for view in self.view.operands], {}


@dataclass(slots=True)
class _Work:
    """Puts kernels into one module.

    Attributes:
        kernels, target: as for :func:`replace_registered`.
        tolerance: of the check, None without one.
        traced: kernels that were traced, by who registered them and the inputs' shapes; those that
            take further arguments are not among them.
        checked: difference by kernel's file and the key of what it stands for.
    """

    kernels: Sequence[RegisteredKernel]
    target: str
    tolerance: float | None
    traced: dict[tuple[int, str], KernelIR] = field(default_factory=dict[tuple[int, str], KernelIR])
    checked: dict[tuple[Path, str], float] = field(default_factory=dict[tuple[Path, str], float])

    def replace_in(self, here: Computation) -> Iterator[Replacement]:
        unused, held_ids = UnusedRemover(here), held(here)
        for view in reversed(here.post_order()):
            if not is_alive(view) or view.local_id in held_ids:
                continue
            fit = next(self._fitting(view), None)
            if fit is not None:
                yield self._replaced(*fit)
                unused.drop([view])

    def _fitting(self, view: Instruction) -> Iterator[tuple[RegisteredKernel, _Place]]:
        for kernel in self.kernels:
            captures = kernel.pattern.match(view, {})
            if captures is None:
                continue
            location = _Place(view, captures)
            arguments, named = location.called(
                {operand: operand.shape for operand in location.inputs}
            )
            if kernel.when is None or kernel.when(*arguments, **named):
                yield kernel, location

    def _replaced(self, kernel: RegisteredKernel, location: _Place) -> Replacement:
        traced = self._traced(kernel, location)
        view = location.view
        single = not view.shape.is_tuple
        results = [view.shape] if single else list(view.shape.tuple_shapes)
        inputs = location.operands_of(traced)
        check_fits(traced, [operand.shape for operand in inputs], results, _line(view) or view.name)
        binary = store(traced)
        difference = self._check(kernel, location, binary) if self.tolerance is not None else None
        here = view.computation
        config = config_of(traced, str(binary))
        fields = call_fields(traced, config, single)
        fields["custom_call_api_version"] = _RETURNS_TYPED
        operands = [*inputs, *add_constants(traced, here)]
        call = here.add("custom-call", view.shape, operands, name=traced.name, like=view, **fields)
        view.replace_uses(call)
        return Replacement(
            kernel.title, call.name, view.opcode, view.name, _line(view), binary, difference
        )

    def _traced(self, kernel: RegisteredKernel, location: _Place) -> KernelIR:
        if kernel.arguments is not None:
            return _traced(kernel, location, self.target)
        key = (id(kernel), " ".join(str(operand.shape) for operand in location.inputs))
        if key not in self.traced:
            self.traced[key] = _traced(kernel, location, self.target)
        return self.traced[key]

    def _check(self, kernel: RegisteredKernel, location: _Place, binary: Path) -> float:
        """Return the largest difference between the kernel and its operations; prove a pair once."""
        from hlo_tools.extract.key import cache_key
        from hlo_tools.kernel_calls.proving import prove_equal
        from hlo_tools.slicing import extract_slice

        sliced = extract_slice(_between(location), targets=[location.view]).module
        content = sliced.to_bytes()
        key = (binary, cache_key(content))
        if key not in self.checked:
            replaced = Module(schema.HloModuleProto.FromString(content))
            replace_registered(replaced, [kernel], target=self.target)
            try:
                proof = prove_equal(sliced, replaced, tolerance=self.tolerance or 0.0)
            except HloVerifyError as error:
                view = location.view
                raise HloVerifyError(
                    f"{kernel.title} does not compute {view.opcode} %{view.name}: {error.message}",
                    code=error.code, place=_line(view) or view.name,
                    remedy="correct the kernel, its pattern, or `when`",
                ) from error  # fmt: skip
            self.checked[key] = proof.difference
        return self.checked[key]


def _between(location: _Place) -> list[Instruction]:
    """Return the instructions that a kernel replaces: the match, without its inputs."""
    inputs, matched = set(location.inputs), {location.view: None}
    stack = [location.view]
    while stack:
        for operand in stack.pop().operands:
            if operand not in inputs and operand not in matched:
                matched[operand] = None
                stack.append(operand)
    return list(matched)


def _traced(kernel: RegisteredKernel, location: _Place, target: str) -> KernelIR:
    from nki_lang import trace

    arrays = {operand: _array(operand.shape) for operand in location.inputs}
    arguments, named = location.called(arrays)
    try:
        if kernel.arguments is not None:
            named |= kernel.arguments(location.view)
        return trace(kernel.kernel, tuple(arguments), named, target=target)
    except CodedError:
        raise
    except Exception as error:  # a person's function may fail in any way
        shapes = ", ".join(str(operand.shape) for operand in location.inputs)
        raise HloError(
            f"{kernel.title} cannot be traced for {counted(len(arrays), 'operand')} ({shapes}): "
            f"{type(error).__name__}: {str(error).partition(chr(10))[0]}",
            code="HLO-REGISTERED-KERNEL",
            place=_line(location.view) or location.view.name,
            remedy="let the kernel take what the pattern finds, or say in `when` what it is for",
        ) from error


def _array(shape: Shape) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """An array of a shape, without memory of its own."""
    if not shape.is_array:
        raise TypeError(f"an operand is {shape}, and kernels take arrays")
    return np.broadcast_to(np.zeros((), shape.dtype), shape.dimensions)


def _line(view: Instruction) -> str:
    """The user's line, else the framework's name, else ""."""
    metadata = view.module.resolve_metadata(view.metadata)
    frames = frames_of(metadata, view.module.proto.stack_frame_index)
    return f"{frames[0].file}:{frames[0].line}" if frames else metadata.op_name
