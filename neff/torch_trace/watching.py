"""Sees every operator of a traced function, and lets none of them need a value of the inputs.

torch_xla computes on the CPU what it does not lower, and reads what it needs to know of a value:
both run the graph so far with the values of the examples, whose results then stay in the module.
A :class:`Watch` is a dispatch mode. It calls each operator with copies of its operands, so that
such a run leaves the graph as it is, and observes torch_xla's counters. If the operator needed
values that depend on the inputs, a decomposition of the operator is traced instead; without one
the trace is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from neff.device.frameworks.user_lines import user_line
from neff.torch_graph.pytorch import (
    Operator,
    Tensor,
    Tree,
    lazy_device,
    modes,
    overrides,
    pytree,
    torch,
    xlac,
)
from neff.torch_graph.replacements import REPLACEMENTS
from neff.torch_trace import refusals
from neff.torch_trace.corrections import CORRECTIONS
from neff.torch_trace.decompositions import decomposition_of
from neff.torch_trace.expectations import as_expected, expected_results
from neff.torch_trace.normalization import NORMALIZATIONS, UPDATES
from neff.torch_trace.refusals import HostStepError
from neff.torch_trace.scalars import takes_scalars_as_vectors, vectors_of

__all__ = ["ReadWatch", "Watch", "data_leaves", "host_steps"]


_REPLACEMENTS = {**CORRECTIONS, **NORMALIZATIONS, **REPLACEMENTS}

RNG_SEED = -127389
"""The identity that torch_xla gives the seed of its random numbers."""

_TO_HOST = frozenset({"aten::_to_copy", "aten::copy_", "aten::_local_scalar_dense"})
_NORMS = frozenset(
    {
        "_batch_norm_impl_index", "batch_norm_gather_stats", "batch_norm_gather_stats_with_counts",
        "batch_norm_update_stats", "cudnn_batch_norm", "miopen_batch_norm", "native_batch_norm",
    }
)  # fmt: skip
"""Operators that write their statistics although their schema declares no write."""
_STATISTICS = ("running_mean", "running_var")
"""The arguments that these operators write in training."""
_READING_METHODS = (
    "__array__", "__dlpack__", "__dlpack_device__", "__format__", "__repr__", "data_ptr", "numpy",
    "tolist",
)  # fmt: skip
_METRICS = ("TransferFromDeviceTime", "TensorsGraphSize")


def data_leaves(tensors: Sequence[Tensor]) -> tuple[list[int], list[Tensor]]:
    """Identities and values of the data that a lazy computation starts from."""
    lazy = xlac()
    identities, values = lazy._get_tensors_xla_device_data_node(list(tensors))
    return identities, values


def host_steps() -> int:
    """How many graphs ran, transfers came back and operators fell back to the CPU so far."""
    lazy = xlac()
    count = sum(
        lazy._xla_counter_value(name) for name in lazy._xla_counter_names() if _is_fallback(name)
    )
    for name in _METRICS:
        data = lazy._xla_metric_data(name)
        count += data[0] if data else 0
    return count


def _is_fallback(counter: str) -> bool:
    """Counters of torch_xla's lowerings start with ``xla::``, those of fallbacks name the operator."""
    return "::" in counter and not counter.startswith("xla::")


class Watch(modes.TorchDispatchMode):
    """The mode in which a function is traced.

    Args:
        inputs: identities of the examples' data.

    Attributes:
        read: identities of other data whose values were read during the trace.
        refusal: the first refusal, also when the traced function caught it.
    """

    def __init__(self, inputs: Iterable[int]) -> None:
        modes.TorchDispatchMode.__init__(self)
        self.read: set[int] = set()
        self.refusal: HostStepError | None = None
        self._inputs = frozenset(inputs)
        self._steps = host_steps()
        self._made: dict[int, Tensor] = {}
        self._line = ""
        self._within: list[Tensor] = []

    def __torch_dispatch__(
        self,
        func: Operator,
        types: Tree,
        args: tuple[Tree, ...] = (),
        kwargs: dict[str, Tree] | None = None,
    ) -> Tree:
        """Run an operator of the traced function."""
        if not self._within:
            self._line = user_line() or self._line
        self.check_steps()
        try:
            return self._run(func, args, kwargs or {})
        except HostStepError as error:
            self.refusal = self.refusal or error
            raise

    def check_steps(self) -> None:
        """Refuse graphs that ran without an operator, such as by ``torch_xla.sync()``.

        Raises:
            HostStepError: ``NEFF-TRACE-READ``.
        """
        if host_steps() != self._steps and self.refusal is None:
            self.refusal = refusals.host_read(
                "a run of the graph (torch_xla.sync(), mark_step())", self._line
            )
            raise self.refusal

    def read_outside(self, name: str, tensors: Sequence[Tensor], read: Callable[[], Tree]) -> Tree:
        """Run a method that reads values without an operator, such as ``repr``.

        Raises:
            HostStepError: ``NEFF-TRACE-READ``.
        """
        self._line = user_line() or self._line
        self.check_steps()
        if self._depends(tensors):
            error = refusals.host_read(name, self._line)
            self.refusal = self.refusal or error
            raise error
        value = read()
        self._steps = host_steps()
        return value

    def _run(self, func: Operator, args: tuple[Tree, ...], kwargs: dict[str, Tree]) -> Tree:
        name = func.name()
        tensors = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        lazy = [t for t in tensors if t.device.type == "xla"]
        operator = name.partition(".")[0]
        if torch.Tag.nondeterministic_seeded in func.tags and _draws(func, args, kwargs):
            raise refusals.random_draw(operator, self._line)
        written = _written(func, args, kwargs)
        if not lazy or _reads(operator, args, kwargs, written):
            if lazy and self._depends(lazy):
                raise refusals.host_read(operator, self._line)
            self._check_host_writes(operator, written)
            result = func(*args, **kwargs)
            self._steps = host_steps()
            return self._owned(func, result)
        if any(t.device.type == "cpu" for t in written):
            raise refusals.host_write(f"{operator} changes a tensor of the host", self._line)
        args, kwargs = pytree.tree_map_only(torch.Tensor, _moved, (args, kwargs))
        if operator == "aten::_propagate_xla_data":
            return func(*args, **kwargs)
        return self._lowered(func, operator, args, kwargs, written)

    def _lowered(
        self, func: Operator, operator: str, args: tuple[Tree, ...], kwargs: dict[str, Tree],
        written: Sequence[Tensor],
    ) -> Tree:  # fmt: skip
        """Add an operator to the graph, by itself or by its decomposition."""
        if func in UPDATES and func not in self._within:
            return self._updated(func, args, kwargs, written)
        if not written and takes_scalars_as_vectors(func, args, kwargs):
            return self._of_vectors(func, args, kwargs)
        replacement = _REPLACEMENTS.get(func)
        if replacement is not None and func not in self._within:
            result = self._decomposed(func, replacement, args, kwargs)
            if result is not NotImplemented:
                return result
        decomposed = None if written else decomposition_of(func)
        if decomposed is not None and not _has_kernel(func) and func not in self._within:
            return self._decomposed(func, decomposed, args, kwargs)
        result, needed = self._called(func, args, kwargs, written)
        if result is not NotImplemented:
            return result
        if decomposed is None or func in self._within:
            first = self._within[0] if self._within else func
            raise needed(first.name().partition(".")[0], self._line)
        return self._decomposed(func, decomposed, args, kwargs)

    def _called(
        self, func: Operator, args: tuple[Tree, ...], kwargs: dict[str, Tree],
        written: Sequence[Tensor],
    ) -> tuple[Tree, Callable[[str, str], HostStepError]]:  # fmt: skip
        """The result of torch_xla's own form; ``NotImplemented`` and why when it is of no use."""
        expected = expected_results(func, args, kwargs)
        copies = pytree.tree_map_only(torch.Tensor, _copied, (args, kwargs))
        try:
            result = func(*copies[0], **copies[1])
        except Exception:
            if expected is None:
                raise
            return NotImplemented, refusals.no_form
        finally:
            steps, self._steps = self._steps, host_steps()
        if steps != self._steps:
            lazy = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
            if self._depends(lazy):
                return NotImplemented, refusals.host_operator
        if written:
            result = func(*args, **kwargs)
            self._steps = host_steps()
        return as_expected(result, expected), refusals.no_form

    def _updated(
        self, func: Operator, args: tuple[Tree, ...], kwargs: dict[str, Tree],
        written: Sequence[Tensor],
    ) -> Tree:  # fmt: skip
        """Compute results and new statistics, then write the statistics in place."""
        results = self._decomposed(func, UPDATES[func], args, kwargs)
        count = len(func._schema.returns)
        if len(results) > count:
            for tensor, value in zip(written, results[count:], strict=True):
                tensor.copy_(value)
        self._steps = host_steps()
        return results[:count]

    def _of_vectors(self, func: Operator, args: tuple[Tree, ...], kwargs: dict[str, Tree]) -> Tree:
        """Run an operator along the dimension of a scalar as PyTorch does: on one element."""
        args, kwargs = pytree.tree_map_only(torch.Tensor, _functional, (args, kwargs))
        with self:
            results = func(*vectors_of(args), **vectors_of(kwargs))
            return pytree.tree_map_only(torch.Tensor, _plain_scalar, results)

    def _decomposed(
        self,
        func: Operator,
        decomposed: Callable[..., Tree],
        args: tuple[Tree, ...],
        kwargs: dict[str, Tree],
    ) -> Tree:
        self._within.append(func)
        try:
            with self:
                args, kwargs = pytree.tree_map_only(torch.Tensor, _functional, (args, kwargs))
                result = decomposed(*args, **kwargs)
                return pytree.tree_map_only(torch.Tensor, _plain, result)
        finally:
            self._within.pop()

    def _depends(self, tensors: Sequence[Tensor]) -> bool:
        """Return True when values depend on the inputs; record their other dependencies."""
        identities, _ = data_leaves([t for t in tensors if t.device.type == "xla"])
        if not self._inputs.isdisjoint(identities):
            return True
        self.read.update(identities)
        return False

    def _check_host_writes(self, operator: str, written: Sequence[Tensor]) -> None:
        for tensor in written:
            if tensor.device.type == "cpu" and _storage(tensor) not in self._made:
                what = f"{operator} changes a tensor of the host that is not the function's own"
                raise refusals.host_write(what, self._line)

    def _owned(self, func: Operator, result: Tree) -> Tree:
        """Remember the host's tensors that the function makes; results on the device as functional."""
        fresh = func is torch.ops.aten.lift_fresh.default
        if not fresh and any(kind.alias_info is not None for kind in func._schema.returns):
            return _wrapped(result)
        for tensor in pytree.tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and tensor.device.type == "cpu":
                self._made[_storage(tensor)] = tensor
        return _wrapped(result)


class ReadWatch(overrides.TorchFunctionMode):
    """Shows a :class:`Watch` the methods that read values past the dispatcher."""

    _METHODS = frozenset(getattr(torch.Tensor, name) for name in _READING_METHODS)

    def __init__(self, watch: Watch) -> None:
        overrides.TorchFunctionMode.__init__(self)
        self._watch = watch

    def __torch_function__(
        self,
        func: Operator,
        types: Tree,
        args: tuple[Tree, ...] = (),
        kwargs: dict[str, Tree] | None = None,
    ) -> Tree:
        """Run a function of torch."""
        keywords = kwargs or {}
        if func not in self._METHODS or args[0].device.type != "xla":
            return func(*args, **keywords)
        name = f"Tensor.{func.__name__}"
        return self._watch.read_outside(name, args[:1], lambda: func(*args, **keywords))


def _wrapped(result: Tree) -> Tree:
    """Results of operators without operands on the device, as torch_xla itself returns them.

    Within a mode it does not wrap them, and views of plain tensors are copies there.
    """
    return pytree.tree_map_only(torch.Tensor, _functional, result)


def _functional(tensor: Tensor) -> Tree:
    if tensor.device.type != "xla" or torch._is_functional_tensor(tensor):
        return tensor
    return torch._to_functional_tensor(tensor)


def _plain(tensor: Tensor) -> Tree:
    if not torch._is_functional_tensor(tensor):
        return tensor
    torch._sync(tensor)
    return torch._from_functional_tensor(tensor)


def _plain_scalar(tensor: Tensor) -> Tree:
    return _plain(tensor.reshape(()))


def _moved(tensor: Tensor) -> Tree:
    """A tensor of the host beside some of the device: a constant of the function."""
    if tensor.device.type != "cpu" or tensor.dim() == 0:
        return tensor
    return tensor.to(lazy_device())


def _copied(tensor: Tensor) -> Tree:
    return tensor.clone() if tensor.device.type == "xla" else tensor


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _written(func: Operator, args: tuple[Tree, ...], kwargs: dict[str, Tree]) -> list[Tensor]:
    """The tensors that an operator writes in place."""
    written: list[Tensor] = []
    for index, argument in enumerate(func._schema.arguments):
        writes = argument.alias_info is not None and argument.alias_info.is_write
        norm = func._schema.name.removeprefix("aten::") in _NORMS
        if not writes and not (norm and argument.name in _STATISTICS):
            continue
        value = args[index] if index < len(args) else kwargs.get(argument.name)
        written += [t for t in pytree.tree_leaves(value) if isinstance(t, torch.Tensor)]
    return written


def _reads(
    operator: str, args: tuple[Tree, ...], kwargs: dict[str, Tree], written: Sequence[Tensor]
) -> bool:
    """Return True when an operator copies values of the device to the host."""
    if operator not in _TO_HOST:
        return False
    if operator == "aten::_to_copy":
        device = kwargs.get("device")
        return device is not None and torch.device(device).type != "xla"
    if operator == "aten::copy_":
        return written[0].device.type != "xla"
    return True


def _draws(func: Operator, args: tuple[Tree, ...], kwargs: dict[str, Tree]) -> bool:
    """Return True when an operator that can draw random numbers does so with these arguments."""
    arguments = {a.name: v for a, v in zip(func._schema.arguments, args, strict=False)} | kwargs
    probability = arguments.get("dropout_p", arguments.get("p"))
    if "dropout" in func.name() or "attention" in func.name():
        return bool(probability) and arguments.get("train", True) is not False
    return True


def _has_kernel(func: Operator) -> bool:
    """Return True when torch_xla lowers an operator itself.

    Operators that torch composes of others in place would lose writes to views, which are copies
    among the plain tensors there.
    """
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "XLA")
