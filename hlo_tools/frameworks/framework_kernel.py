"""``FrameworkKernel``: how any framework makes its custom call of a kernel call.

A framework's kind inherits :class:`FrameworkKernel`, describes its tensors (three methods),
and gets from :meth:`FrameworkKernel.dump_config` the configuration that its custom call carries.
"""

from __future__ import annotations

import operator
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from hlo_tools.frameworks.arguments import Arguments, bind_arguments
from hlo_tools.frameworks.plan import BoundCall, CallPlan, TensorSpec
from nki_lang.base.dtypes import DType, dtype_of
from nki_lang.base.errors import NkiValidationError
from nki_lang.base.source import definition_of
from nki_lang.base.targets import Target, current_target, target_of
from nki_lang.base.versions import selected_version
from nki_lang.kernel import Kernel, simulator_is_on
from nki_lang.tracing.fingerprint import Unidentifiable, fingerprint

if TYPE_CHECKING:
    from hlo_tools.ir.instruction import Instruction
    from hlo_tools.ir.module import Module

__all__ = ["FrameworkKernel", "clear_cache"]

_CACHE_SIZE = 1024

Grid = tuple[int, ...]


class _PlanCache:
    """The plans made so far, the least recently used ones dropped."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._plans: OrderedDict[Any, CallPlan] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: object) -> CallPlan | None:
        """The plan, if its kernel file still exists."""
        with self._lock:
            plan = self._plans.get(key)
            if plan is None:
                return None
            if not plan.binary.is_file():
                del self._plans[key]
                return None
            self._plans.move_to_end(key)
            return plan

    def put(self, key: object, plan: CallPlan) -> None:
        with self._lock:
            self._plans[key] = plan
            while len(self._plans) > self._size:
                self._plans.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._plans.clear()


_plans = _PlanCache(_CACHE_SIZE)


def clear_cache() -> None:
    """Forget every plan made in this process (the kernel files stay)."""
    _plans.clear()


class FrameworkKernel:
    """A kernel function seen by a framework.

    Inherit and implement :meth:`translate_to_neuron_dtype`, :meth:`is_framework_tensor` and
    :meth:`map_framework_tensor`; then :meth:`dump_config` returns what a custom call needs. The
    kernel is specialised for the shapes and dtypes of the tensors and for the values of all
    other arguments, so call it for each set of them.

    Args:
        func_name: name of the kernel; the function's own by default.
        func: the Python function, or an ``nki.jit`` kernel, whose grid and target are taken
            when none are given.
        grid: SPMD launch grid, a number or a tuple; none by default.
        enable_cache: look up configurations made before by function, arguments, grid, target and
            the other attributes. A changed function (its code, closure, globals or defaults) is
            noticed. False traces anew every time.
        platform_target: ``trn1``, ``trn2`` or ``trn3``; by default what
            NEURON_PLATFORM_TARGET_OVERRIDE names at the time of the call.
        attributes: other attributes of the kernel; they take part in the cache key. The tracer
            knows ``schedule``, the extra dependencies of ``nki.jit``'s ``with_schedule``.
    """

    def __init__(
        self,
        func_name: str | None = None,
        func: Callable[..., object] | None = None,
        grid: int | Grid | list[int] | None = (),
        enable_cache: bool = True,
        *,
        platform_target: str | None = None,
        **attributes: object,
    ) -> None:
        if not callable(func):
            raise NkiValidationError(
                f"func must be a kernel function, not {func!r}",
                code="NKI-FUNC",
                remedy=f"write {type(self).__name__}(func=my_kernel)",
            )
        if "target" in attributes:  # an attribute has no effect on the target
            raise NkiValidationError(
                "a kernel's target is given as platform_target, not as target",
                code="NKI-TARGET",
                remedy=f"write platform_target={attributes['target']!r}",
            )
        if isinstance(func, Kernel):
            platform_target = platform_target or (func.target.name if func.target else None)
            grid, func = grid or func.grid, func.func
        self.func: Callable[..., Any] = func
        self.func_name = func_name or getattr(self.func, "__name__", type(func).__name__)
        self.grid = _normal_grid(grid)
        self.enable_cache = enable_cache
        self.platform_target = platform_target
        self.attributes: Mapping[str, Any] = dict(attributes)
        self.__name__ = self.func_name
        self.__doc__ = getattr(self.func, "__doc__", None)
        self.__wrapped__ = self.func

    def __repr__(self) -> str:
        grid = f"[{', '.join(map(str, self.grid))}]" if self.grid else ""
        return f"<{type(self).__name__} {self.func_name}{grid}>"

    def __getitem__(self, grid: int | Grid) -> FrameworkKernel:
        """The same kernel with another launch grid."""
        return type(self)(
            self.func_name,
            self.func,
            grid,
            self.enable_cache,
            platform_target=self.platform_target,
            **self.attributes,
        )

    @classmethod
    def call(cls, kernel: Kernel, args: tuple[object, ...], kwargs: dict[str, Any]) -> Any:
        """Call an ``nki.jit`` kernel as this framework does."""
        target = kernel.target.name if kernel.target else None
        bound = cls(
            kernel.__name__,
            kernel.func,
            kernel.grid,
            platform_target=target,
            schedule=kernel.schedule,
        )
        return bound(*args, **kwargs)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call the kernel. A kind that can run its calls implements this."""
        raise self._not_implemented("__call__(*args, **kwargs)")

    # What a framework's kind implements.

    def translate_to_neuron_dtype(self, _dtype: object) -> Any:
        """The kernel language's (or NumPy's) dtype for a dtype of the framework."""
        raise self._not_implemented("translate_to_neuron_dtype(_dtype)")

    def is_framework_tensor(self, t: object) -> bool:
        """True if and only if ``t`` is to be treated as a tensor.

        An argument for which this is False is a constant, known when the kernel is compiled.
        """
        raise self._not_implemented("is_framework_tensor(t)")

    def map_framework_tensor(self, t: object) -> tuple[Any, Any]:
        """(shape, dtype) of a tensor of the framework, both in the framework's own terms."""
        raise self._not_implemented("map_framework_tensor(t)")

    # What a framework's kind uses.

    def dump_config(self, *args: object, **kwargs: object) -> tuple[str, list[str], list[str]]:
        """The call's backend_config, the names of its inputs and the names of its outputs.

        Raises:
            NkiValidationError: the kernel refuses the arguments or breaks a rule of its target.
            TypeError: the arguments do not fit the function's signature.
        """
        plan = self.plan(*args, **kwargs)
        return plan.backend_config, plan.input_names, plan.output_names

    def module(self, *args: object, **kwargs: object) -> Module:
        """An HLO module that is this call alone, ready to be saved or built.

        Its parameters are the call's operands, its result is a tuple of the call's results.

        Raises:
            As :meth:`dump_config`.
        """
        from hlo_tools.frameworks.call_module import build_call_module  # protobuf and its schema
        from hlo_tools.ir.loading import load

        return load(build_call_module(self.plan(*args, **kwargs), self.func_name))

    def instruction(self, *args: object, **kwargs: object) -> Instruction:
        """The custom call of this kernel call, in a :meth:`module` of its own.

        ``str`` of it is its HLO text, ``.proto`` the message to copy into a graph.
        """
        (call,) = self.module(*args, **kwargs).find_custom_calls()
        return call

    def plan(self, *args: object, **kwargs: object) -> CallPlan:
        """Everything about the call: shapes, aliases, constants, what it returns."""
        return self.bind(*args, **kwargs).plan

    def bind(self, *args: object, **kwargs: object) -> BoundCall:
        """The plan of a call together with its tensors."""
        arguments = bind_arguments(
            self.func, args, kwargs, self.is_framework_tensor, self._tensor_spec
        )
        target = self.target()
        key = self._key(arguments, target) if self.enable_cache else None
        plan = _plans.get(key) if key is not None else None
        if plan is None:
            from hlo_tools.frameworks.specialize import specialize  # tracer and file format

            schedule = self.attributes.get("schedule", ())
            plan = specialize(self.func, self.func_name, arguments, target, self.grid, schedule)
            if key is not None:
                _plans.put(key, plan)
        if simulator_is_on():
            from hlo_tools.frameworks import simulation

            simulation.remember(plan, self.func, arguments, target, self.grid)
        return BoundCall(plan, arguments.tensors)

    def target(self) -> Target:
        """The family that the kernel is compiled for."""
        if self.platform_target:
            return target_of(self.platform_target)
        return current_target()

    def _key(self, arguments: Arguments, target: Target) -> Any:
        """The cache key, or None when something has no comparable content."""
        try:
            return (
                fingerprint(self.func),
                self.func_name,
                self.grid,
                target.name,
                selected_version(),
                repr(sorted(self.attributes.items())),
                arguments.describe(),
            )
        except Unidentifiable:
            return None

    def _tensor_spec(self, tensor: object, name: str) -> TensorSpec:
        shape, framework_dtype = self._mapped(tensor, name)
        try:
            dtype: DType = dtype_of(self.translate_to_neuron_dtype(framework_dtype))
        except (TypeError, KeyError) as error:
            if isinstance(error, KeyError):  # a table of the framework's dtypes has no such row
                why = f"which {type(self).__name__}.translate_to_neuron_dtype does not translate"
            else:
                why = f"which no kernel can take: {error}"
            raise NkiValidationError(
                f"argument {name!r} of {self.func_name} has dtype {framework_dtype}, {why}",
                code="NKI-DTYPE",
                location=definition_of(self.func),
                remedy="convert the tensor before the call (float64 to float32, for one)",
            ) from None
        return TensorSpec(shape, dtype, name)

    def _mapped(self, tensor: object, name: str) -> tuple[tuple[int, ...], Any]:
        """Return the checked result of :meth:`map_framework_tensor` for a tensor."""
        mapped = self.map_framework_tensor(tensor)
        try:
            shape, framework_dtype = mapped
            extents = tuple(operator.index(extent) for extent in shape)
        except (TypeError, ValueError):
            extents, framework_dtype = (-1,), None
        if any(extent < 0 for extent in extents):
            raise NkiValidationError(
                f"{type(self).__name__}.map_framework_tensor returned {mapped!r} for argument "
                f"{name!r} of {self.func_name}; it returns (shape, dtype), the shape as a "
                "sequence of numbers",
                code="NKI-FRAMEWORK-TENSOR",
                location=definition_of(type(self).map_framework_tensor),
                remedy="return the shape that the framework states, and its dtype",
            )
        return extents, framework_dtype

    def _not_implemented(self, signature: str) -> NotImplementedError:
        return NotImplementedError(
            f"{type(self).__name__} does not implement {signature}; a kind of FrameworkKernel "
            "implements translate_to_neuron_dtype, is_framework_tensor and map_framework_tensor, "
            "and __call__ when it runs its calls itself"
        )


def _normal_grid(grid: Any) -> Grid:
    items: tuple[Any, ...] = (grid,) if isinstance(grid, int) else tuple(grid or ())
    if not all(isinstance(item, int) and not isinstance(item, bool) and item > 0 for item in items):
        raise NkiValidationError(
            f"a launch grid is a positive number or a tuple of them, not {grid!r}",
            code="NKI-GRID",
        )
    return items
