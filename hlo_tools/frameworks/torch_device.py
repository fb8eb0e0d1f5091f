"""A torch device "neuron", in Python: eager tensors whose memory is the host's.

``torch.empty(4, device="neuron")``, ``x.to("neuron")``, ``y.cpu()``, printing, arithmetic and
autograd work; every operation runs on the host at once. Kernels take and return these tensors.
There are as many devices as the "neuron" device of the other frameworks has.

How: PyTorch's PrivateUse1 slot is renamed to "neuron" and its factory functions make
:class:`NeuronTensor`, a wrapper around a CPU tensor. To C++ the wrapper is a *meta* tensor, the
only kind of device without memory for which autograd needs no compiled code; ``.device`` says
what the user means. What PyTorch's own code makes on the device of a wrapper, the zeros of a
gradient for one, :class:`_OwnTensors` turns into wrappers.

Importing this module imports torch; :func:`install` makes the device.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from types import EllipsisType, ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

import torch
from torch.utils import _pytree as pytree
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import TorchDispatchMode

from hlo_tools.frameworks.visible_cores import core_count

if TYPE_CHECKING:
    from hlo_tools.types.element_types import Array

__all__ = ["NAME", "NeuronTensor", "device_count", "install", "is_neuron_tensor"]

NAME: Final = "neuron"

# Names that PyTorch does not export; nothing public does the same.
_native = import_module("torch._C")
_negated: Callable[[torch.Tensor], torch.Tensor] = import_module("torch")._neg_view
_overrides = import_module("torch.overrides")

_RESOLVED = (
    _native.DispatchKey.Conjugate, _native.DispatchKey.Negative, _native.DispatchKey.ZeroTensor,
)  # fmt: skip

_OWN_MEMORY = (torch.matmul, torch.Tensor.matmul, torch.linalg.matmul, torch.linalg.matrix_rank)
"""Functions that expect of ``out`` what a wrapper lacks: they compare memories, or put another in."""

_LONGEST_TUPLE = 32
"""From this length on PyTorch takes a list for positions whatever it holds."""

_lock = threading.Lock()
_installed: list[Any] = []
_current = threading.local()


def device_count() -> int:
    """How many "neuron" devices there are; see :mod:`hlo_tools.frameworks.visible_cores`."""
    return core_count()


class _OwnTensors(TorchDispatchMode):
    """Meta tensors that PyTorch makes within an operation on wrappers are wrappers, too."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self._index = index

    def __torch_dispatch__(
        self,
        func: Callable[..., torch.Tensor],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> torch.Tensor:
        kwargs = kwargs or {}
        device = kwargs.get("device")
        if not isinstance(device, torch.device) or device.type != "meta" or _leaves(args, kwargs):
            return func(*args, **kwargs)
        host_tensor = func(*args, **{**kwargs, "device": torch.device("cpu")})
        return NeuronTensor(host_tensor, self._index)


class NeuronTensor(torch.Tensor):
    """A tensor of the device "neuron" over host memory.

    Attributes:
        host: the memory; a view that conjugates or negates is so marked on the wrapper alone.
        index: number of the device.
    """

    host: torch.Tensor
    index: int

    __slots__ = ("host", "index")

    def __new__(cls, host: torch.Tensor, index: int = 0) -> NeuronTensor:
        if host._is_zerotensor():  # autograd's zeros have no memory
            host = torch.empty(host.shape, dtype=host.dtype, device="cpu").fill_(0)
        if host.layout not in (torch.strided, torch.sparse_coo):
            raise NotImplementedError(
                f'the device "{NAME}" has no tensors of layout {host.layout}; use torch.sparse_coo, '
                "or keep them on the CPU"
            )
        with torch.inference_mode(host.is_inference()):  # views of others are none in that mode
            wrapper = torch.Tensor._make_wrapper_subclass(
                cls,
                host.shape,
                strides=host.stride(),
                storage_offset=host.storage_offset(),
                dtype=host.dtype,
                layout=host.layout,
                device=torch.device("meta"),
                requires_grad=False,
            )
        wrapper.host = host
        wrapper.index = index
        return wrapper

    def __init__(self, host: torch.Tensor, index: int = 0) -> None:
        """See ``__new__``: tensors are made whole there."""

    @property
    def content(self) -> torch.Tensor:
        """The host tensor, conjugated or negated where the wrapper is a view that does so."""
        return _host(self)

    @property
    def device(self) -> torch.device:
        """``device(type="neuron", index=...)``."""
        return torch.device(NAME, self.index)

    @property
    def is_meta(self) -> bool:
        """False: there is data."""
        return False

    @property
    def is_neuron(self) -> bool:
        """True."""
        return True

    def __repr__(self, *, tensor_contents: object = None) -> str:
        text = repr(self.content.detach())
        suffix = f", device='{self.device}'"
        if self.grad_fn is not None:
            suffix += f", grad_fn=<{type(self.grad_fn).__name__}>"
        elif self.requires_grad:
            suffix += ", requires_grad=True"
        return f"{text[:-1]}{suffix})"

    def numpy(self, *, force: bool = False) -> Array:
        """Only with ``force=True``, as for every tensor that is not in host memory."""
        if not force:
            raise TypeError(
                f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to "
                "copy the tensor to host memory first."
            )
        return self.content.detach().numpy(force=True)

    def __format__(self, form: str) -> str:
        return format(self.item(), form) if self.dim() == 0 else object.__format__(self, form)

    def __setitem__(self, key: object, value: object) -> None:
        if not isinstance(value, torch.Tensor):  # C++ would make a meta tensor of a number
            value = torch.tensor(value, dtype=self.dtype, device="cpu")
        super().__setitem__(
            key, value if isinstance(value, NeuronTensor) else value.to(self.device)
        )

    def new(self, *args: object, **kwargs: object) -> torch.Tensor:
        """A tensor of the given data or extents with this one's dtype and device."""
        if (
            len(args) == 1
            and isinstance(args[0], list | tuple)
            and not isinstance(args[0], torch.Size)
        ):
            return self.new_tensor(cast(object, args[0]))
        if self.layout is torch.sparse_coo:  # C++ has no constructor for sparse meta tensors
            host = pytree.tree_map_only(NeuronTensor, _host, args)
            return NeuronTensor(self.content.new(*host), self.index)
        return super().new(*args, **kwargs)

    def new_tensor(self, data: Any, **kwargs: Any) -> torch.Tensor:
        """A tensor of ``data`` with this one's dtype and device by default."""
        return torch.tensor(data, **{"dtype": self.dtype, "device": self.device, **kwargs})

    def tolist(self) -> Any:
        """The content as nested Python lists."""
        return self.content.tolist()

    def cpu(self, memory_format: Any = torch.preserve_format) -> torch.Tensor:
        """A copy in host memory."""
        return self.to("cpu", memory_format=memory_format)

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., object], types: object, args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:  # fmt: skip
        if torch.is_autocast_enabled(NAME) and func.__name__ != "__get__":
            raise RuntimeError(
                f"torch.autocast({NAME!r}) is not supported: convert tensors and modules to a dtype, "
                "as by .to(torch.bfloat16)"
            )
        kwargs = kwargs or {}
        if func in (torch.Tensor.__getitem__, torch.Tensor.__setitem__):
            args = (args[0], _with_tensors(args[1]), *args[2:])
        if func in _OWN_MEMORY and kwargs.get("out") is not None:
            return _written(func, args, kwargs)
        with _native.DisableTorchFunctionSubclass():
            tensors = _leaves(args, kwargs)
            with _OwnTensors(tensors[0].index if tensors else 0), _versions_kept(tensors):
                return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        index = _index_of(args, kwargs)
        target = kwargs.get("device")
        device = torch.device(NAME, index) if target is None else torch.device(target)
        if device.type == "meta":  # autograd means the tensor's own device
            device = torch.device(NAME, index)
        arguments_by_host: dict[int, NeuronTensor] = {}

        def host(tensor: NeuronTensor) -> torch.Tensor:
            content = _host(tensor)
            arguments_by_host[id(content)] = tensor
            return content

        host_args, host_kwargs = pytree.tree_map_only(NeuronTensor, host, (args, kwargs))
        if target is not None:
            host_kwargs["device"] = "cpu" if device.type == NAME else device
        with _views_resolved():
            result = func(*host_args, **host_kwargs)
        if func._schema.is_mutable:
            _follow_shapes(args, kwargs)
        return _wrapped(result, device, arguments_by_host)


def _written(
    func: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> torch.Tensor:
    """Return the result of ``func`` in the tensor ``out``.

    Raises:
        RuntimeError: ``out`` has a dtype that does not take the result's, or a gradient.
    """
    out = cast(torch.Tensor, kwargs["out"])
    options = {name: option for name, option in kwargs.items() if name != "out"}
    computed = cast(torch.Tensor, func(*args, **options))
    if computed.requires_grad or (out.requires_grad and torch.is_grad_enabled()):
        raise RuntimeError(
            f"{func.__name__}(): functions with out=... arguments don't support automatic "
            "differentiation, but one of the arguments requires grad."
        )
    casts = func is torch.linalg.matrix_rank and torch.can_cast(computed.dtype, out.dtype)
    if computed.dtype != out.dtype and not casts:
        raise RuntimeError(
            f"result type {computed.dtype} can't be cast to the desired output type {out.dtype}"
        )
    if computed.device != out.device:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found {computed.device} and {out.device}"
        )
    if out.shape != computed.shape:
        out.resize_(computed.shape)
    return out.copy_(computed)


def _with_tensors(key: object) -> object:
    """An index with tensors for its sequences, of which C++ would make meta tensors, without data."""
    if isinstance(key, tuple):
        return tuple([_positions(index) for index in cast("tuple[object, ...]", key)])
    if not isinstance(key, list | range):
        return key
    indices = list(cast("Sequence[object]", key))
    is_tuple = len(indices) < _LONGEST_TUPLE and any(
        index is None or isinstance(index, torch.Tensor | Sequence | slice | EllipsisType)
        for index in indices
    )
    return tuple([_positions(index) for index in indices]) if is_tuple else _positions(indices)


def _positions(index: object) -> object:
    if not isinstance(index, list | range):
        return index
    numbers = list(cast("Sequence[object]", index))
    return torch.tensor(numbers, dtype=None if numbers else torch.long, device="cpu")


def is_neuron_tensor(value: object) -> bool:
    """True for a tensor of the device "neuron"."""
    return isinstance(value, NeuronTensor)


@contextmanager
def _views_resolved() -> Generator[None]:
    """PyTorch resolves views that conjugate or negate, and zeros without memory, here too.

    Within ``__torch_dispatch__`` it does not: an operation made of others, such as ``pinv``, would
    take such a view for what it views.
    """
    keys = [key for key in _RESOLVED if _native._dispatch_tls_is_dispatch_key_excluded(key)]
    for key in keys:
        _native._dispatch_tls_set_dispatch_key_excluded(key, False)
    try:
        yield
    finally:
        for key in keys:
            _native._dispatch_tls_set_dispatch_key_excluded(key, True)


@contextmanager
def _versions_kept(tensors: list[NeuronTensor]) -> Generator[None]:
    """Views of ordinary tensors stay views of them in inference mode, where wrappers see functions
    such as ``reshape`` whole: a write through one has to be noticed by autograd."""
    if not torch.is_inference_mode_enabled() or any(tensor.is_inference() for tensor in tensors):
        yield
        return
    with torch.inference_mode(False), torch.no_grad():
        yield


def _host(tensor: NeuronTensor) -> torch.Tensor:
    content = tensor.host.conj() if tensor.is_conj() else tensor.host
    return _negated(content) if tensor.is_neg() else content


def _leaves(args: object, kwargs: object) -> list[NeuronTensor]:
    return [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, NeuronTensor)]


def _index_of(args: object, kwargs: object) -> int:
    """The device of an operation; all of its tensors must be on one."""
    devices = sorted({tensor.index for tensor in _leaves(args, kwargs) if tensor.dim() > 0})
    if len(devices) > 1:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found {NAME}:{devices[0]} "
            f"and {NAME}:{devices[1]}"
        )
    return devices[0] if devices else next((t.index for t in _leaves(args, kwargs)), 0)


def _follow_shapes(args: object, kwargs: object) -> None:
    """Copy to a wrapper the extents and strides that an in-place operation set on its memory."""
    for tensor in _leaves(args, kwargs):
        host = tensor.host
        if host.shape != tensor.shape or host.stride() != tensor.stride():
            with _native._DisableTorchDispatch():
                torch.ops.aten.resize_(tensor, host.shape)
                torch.ops.aten.as_strided_(tensor, host.shape, host.stride())


def _wrapped(result: Any, device: torch.device, arguments_by_host: dict[int, NeuronTensor]) -> Any:
    """The operation's result on its device; an argument written in place is returned as it is.

    PyTorch resolves views that conjugate or negate above the level at which wrappers are seen, so
    the wrapper has to carry the mark, and its memory none.
    """
    if device.type != NAME:
        return result

    def wrap(tensor: torch.Tensor) -> torch.Tensor:
        argument = arguments_by_host.get(id(tensor))
        if argument is not None:
            return argument
        conjugates, negates = tensor.is_conj(), tensor.is_neg()
        plain = _negated(tensor) if negates else tensor
        wrapper = NeuronTensor(plain.conj() if conjugates else plain, device.index or 0)
        _native._set_conj(wrapper, conjugates)
        _native._set_neg(wrapper, negates)
        return wrapper

    return pytree.tree_map_only(torch.Tensor, wrap, result)


class _DeviceModule(ModuleType):
    """``torch.neuron``: the functions that PyTorch calls on the module of a device type."""

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def device_count(self) -> int:
        return device_count()

    def current_device(self) -> int:
        return getattr(_current, "index", 0)

    def set_device(self, device: Any) -> None:
        _current.index = _index(torch.device(device) if isinstance(device, str) else device)

    def synchronize(self, device: object = None) -> None:
        """Nothing to wait for: operations are done when they return."""

    def manual_seed_all(self, seed: int) -> None:
        """The host's generator is the only one; torch.manual_seed sets it."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        """Return the dtypes that torch.autocast asks for even when it is disabled; operations
        refuse it if enabled.
        """
        return [torch.bfloat16, torch.float16]

    def _is_in_bad_fork(self) -> bool:
        return False


def _index(device: Any) -> int:
    """The number of a device, checked."""
    if device is None:
        return getattr(_current, "index", 0)
    index = device if isinstance(device, int) else torch.device(device).index
    if index is None:
        return getattr(_current, "index", 0)
    if index >= device_count():
        raise RuntimeError(
            f"there is no device {NAME}:{index}; there are {device_count()} "
            "(NEURON_RT_NUM_CORES changes that)"
        )
    return index


def _empty(
    size: Any,
    *,
    dtype: Any = None,
    layout: object = None,
    device: Any = None,
    pin_memory: object = None,
    memory_format: Any = None,
) -> NeuronTensor:
    host = torch.empty(
        size, dtype=dtype, memory_format=memory_format or torch.contiguous_format, device="cpu"
    )
    return NeuronTensor(host, _index(device))


def _empty_strided(
    size: Any,
    stride: Any,
    *,
    dtype: Any = None,
    layout: object = None,
    device: Any = None,
    pin_memory: object = None,
) -> NeuronTensor:
    host = torch.empty_strided(size, stride, dtype=dtype, device="cpu")
    return NeuronTensor(host, _index(device))


def _made_on_the_host(factory: Callable[..., torch.Tensor]) -> Callable[..., NeuronTensor]:
    """A factory that PyTorch does not make of the two above."""

    def make(*args: object, device: Any = None, dtype: object = None, **_: object) -> NeuronTensor:
        return NeuronTensor(factory(*args, device="cpu", dtype=dtype), _index(device))

    return make


def _default_device() -> torch.device | None:
    """The device of ``with torch.device(...)`` or ``torch.set_default_device``, or None.

    ``torch.get_default_device`` makes a tensor to find out, which would recurse.
    """
    for mode in reversed(_overrides._get_current_function_mode_stack()):
        if isinstance(mode, DeviceContext):
            return mode.device
    return None


def _with_index(device: Any) -> Any:
    """``device`` with the current number when it is the bare "neuron"; anything else as it is."""
    if device == NAME or (isinstance(device, torch.device) and device == torch.device(NAME)):
        return torch.device(NAME, _index(None))
    return device


class _NumberedTo:
    """``Tensor.to`` for which "neuron" means the current device.

    PyTorch takes the current device's number from a compiled device guard, and there is none. A
    tensor of PyTorch/XLA gets the method as it was: torch_xla writes the Python frames of such a
    call into its graphs, and ours is not to be among them.
    """

    def __init__(self, method: Any) -> None:
        self._method = method

        @functools.wraps(method)
        def to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            if args:
                args = (_with_index(args[0]), *args[1:])
            if "device" in kwargs:
                kwargs["device"] = _with_index(kwargs["device"])
            return method(self, *args, **kwargs)

        self._to: Any = to

    def __get__(self, tensor: torch.Tensor | None, owner: type) -> Any:
        if tensor is None:
            return self._to
        chosen = self._method if tensor.device.type == "xla" else self._to
        return chosen.__get__(tensor, owner)


def _through_host(factory: Any) -> Any:
    """``torch.tensor``, ``torch.as_tensor`` or ``torch.asarray`` that fills host memory first.

    The compiled ones copy the data below the level at which a wrapper is seen.
    """

    @functools.wraps(factory)
    def make(data: Any, *, device: Any = None, **kwargs: Any) -> torch.Tensor:
        target = _default_device() if device is None else torch.device(device)
        if target is None or target.type != NAME:
            return factory(data, device=device, **kwargs)
        gradient = kwargs.pop("requires_grad", False)
        tensor = factory(data, device="cpu", **kwargs).to(_with_index(target))
        return tensor.requires_grad_() if gradient else tensor

    return make


def _with_own_tensors(backward: Callable[..., None]) -> Callable[..., None]:
    """``torch.autograd.backward``, which tensors do not get to see as they see other functions."""

    @functools.wraps(backward)
    def run(tensors: object, *args: object, **kwargs: object) -> None:
        first = next(iter(_leaves(tensors, ())), None)
        with nullcontext() if first is None else _OwnTensors(first.index):
            backward(tensors, *args, **kwargs)

    return run


def install() -> None:
    """Make the device. Does so once.

    Raises:
        RuntimeError: another package uses PyTorch's PrivateUse1 slot already.
    """
    with _lock:
        if _installed:
            return
        if _native._get_privateuse1_backend_name() != NAME:
            torch.utils.rename_privateuse1_backend(NAME)
        if not hasattr(torch, NAME):
            import_module("torch")._register_device_module(NAME, _DeviceModule(f"torch.{NAME}"))
        library = torch.library.Library("aten", "IMPL")
        library.impl("empty.memory_format", _empty, "PrivateUse1")
        library.impl("empty_strided", _empty_strided, "PrivateUse1")
        library.impl("tril_indices", _made_on_the_host(torch.tril_indices), "PrivateUse1")
        library.impl("triu_indices", _made_on_the_host(torch.triu_indices), "PrivateUse1")
        torch.Tensor.to = _NumberedTo(torch.Tensor.to)
        torch.tensor = _through_host(torch.tensor)
        torch.as_tensor = _through_host(torch.as_tensor)
        torch.asarray = _through_host(torch.asarray)
        torch.autograd.backward = _with_own_tensors(torch.autograd.backward)
        _installed.append(library)  # the registrations live as long as this object
