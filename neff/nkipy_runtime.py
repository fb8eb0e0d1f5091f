"""NumPy functions compiled and run, under the names of ``nkipy.runtime`` (aws-neuron/nkipy, b91c980).

Each function is traced to HLO, compiled to a NEFF, written, read back and run.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import shlex
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import neff
from hlo_tools.kernel_calls import named_kernels
from hlo_tools.trace import TracedFunction, trace
from hlo_tools.trace.function import traced_call
from hlo_tools.trace.kernel import NKIPyKernel
from neff.options import parse_flags
from neff.runtime import load
from neff.runtime.spike_api import SpikeModel, SpikeTensor
from nki_lang.base.dtypes import Array
from nki_lang.base.targets import current_target

__all__ = [
    "DeviceKernel",
    "DeviceTensor",
    "baremetal_jit",
    "baremetal_run_traced_kernel",
    "is_neuron_compatible",
]


class DeviceTensor(SpikeTensor):
    """A tensor on the device, also from and to PyTorch."""

    @classmethod
    def from_torch(cls, tensor: Any, name: str | None = None, core_id: int = 0) -> DeviceTensor:
        """Copy a torch tensor into new device memory."""
        from hlo_tools.frameworks.torch_kernel import view_of

        device_tensor = cls.from_numpy(view_of(tensor.cpu()), name, core_id)
        assert isinstance(device_tensor, DeviceTensor)
        return device_tensor

    def torch(self) -> Any:
        """A copy of the content as a torch tensor."""
        from hlo_tools.frameworks.torch_kernel import tensor_of

        return tensor_of(self.numpy())

    def write_from_torch(self, tensor: Any) -> None:
        """Replace the content.

        Raises:
            ValueError: the tensor has another number of bytes.
        """
        from hlo_tools.frameworks.torch_kernel import view_of

        self.write_from_numpy(view_of(tensor.cpu()))


class DeviceKernel(SpikeModel):
    """A NumPy function as a loaded NEFF; its inputs have the names of the function's parameters."""

    tensor_class = DeviceTensor
    _loaded: dict[str, DeviceKernel] = {}  # noqa: RUF012 - the kernels of this process

    @classmethod
    def compile_and_load(
        cls,
        kernel: Callable[..., Any] | NKIPyKernel,
        *args: object,
        name: str | None = None,
        additional_compiler_args: str | None = None,
        use_cached_if_exists: bool = True,
        build_dir: str | None = None,
        target: object = None,
        is_spmd: bool = True,
        cc_enabled: bool | None = None,
        rank_id: int | None = None,
        world_size: int | None = None,
        **kwargs: object,
    ) -> DeviceKernel:
        """Trace, compile and load.

        Args:
            kernel: a NumPy function.
            args, kwargs: its arguments: arrays or :class:`DeviceTensor` (their values do not
                matter), and constants.
            name: the model's; the function's by default.
            additional_compiler_args: flags of ``neuronx-cc``; ``--target`` names the family.
            use_cached_if_exists: give the same function, arguments and flags once compiled again.
            build_dir: where to leave the NEFF.
            target: taken for nkipy's sake; the family is that of the environment or the flags.
            is_spmd, cc_enabled, rank_id, world_size: as nkipy's; one rank is simulated.

        Raises:
            TraceError: the function cannot be traced, at its line.
            NeffCompileError: the compiler does not cover it.
        """
        function = kernel.func if isinstance(kernel, NKIPyKernel) else kernel
        label = name or function.__name__
        arrays = [_array_of(argument) for argument in args]
        traced = trace(
            function, *arrays, **{key: _array_of(value) for key, value in kwargs.items()}
        )
        data = traced.to_module().module_bytes()
        flags = f"{current_target().name} {additional_compiler_args or ''}"
        key = hashlib.sha256(f"{label}\0{flags}\0".encode() + data).hexdigest()
        if use_cached_if_exists and key in cls._loaded:
            return cls._loaded[key]
        with TemporaryDirectory(prefix="nki-hlo-") as scratch:
            folder = Path(build_dir or scratch)
            folder.mkdir(parents=True, exist_ok=True)
            path = _compile(traced, folder / f"{label}.neff", additional_compiler_args or "")
            loaded = cls.load_from_neff(
                path,
                label,
                cc_enabled=bool(cc_enabled),
                rank_id=rank_id or 0,
                world_size=world_size or 1,
            )
        if use_cached_if_exists:
            cls._loaded[key] = loaded
        return loaded


def baremetal_jit(
    kernel_func: Callable[..., Any] | None = None,
    *,
    backend: str = "hlo",
    additional_compiler_args: str = "",
    target: object = None,
) -> Any:
    """A NumPy function that is compiled to a NEFF and run from it at each call.

    ``backend`` other than nkipy's "hlo" is refused; ``target`` is taken for nkipy's sake.
    """

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        kernel = NKIPyKernel.trace(func, backend)

        @functools.wraps(func)
        def run(*args: object, **kwargs: Any) -> Any:
            return baremetal_run_traced_kernel(
                kernel, *args, additional_compiler_args=additional_compiler_args, **kwargs
            )

        return run

    return decorate if kernel_func is None else decorate(kernel_func)


def baremetal_run_traced_kernel(
    kernel: NKIPyKernel,
    *args: object,
    artifacts_dir: str | None = None,
    additional_compiler_args: str = "",
    target: object = None,
    **kwargs: object,
) -> Any:
    """Compile a kernel for its arguments and run it.

    Returns:
        The function's result, several as a tuple. Arguments that it writes to are written.

    Raises:
        TraceError, NeffCompileError: it cannot be traced or compiled.
    """
    traced = traced_call(kernel.func, args, kwargs, for_one_call=True)
    with TemporaryDirectory(prefix="nki-hlo-") as scratch:
        folder = Path(artifacts_dir or scratch)
        folder.mkdir(parents=True, exist_ok=True)
        path = _compile(traced, folder / f"{kernel.__name__}.neff", additional_compiler_args)
        model = load(path, name=kernel.__name__)
    arrays = _arrays(kernel.func, args, kwargs)
    fed = {
        tensor.name: array.astype(tensor.dtype, copy=False)
        for tensor, array in zip(traced.inputs, arrays, strict=True)
    }
    outputs = model.run(fed)
    # A NEFF has booleans as bytes.
    results = [np.array(outputs[tensor.name]).astype(tensor.dtype) for tensor in traced.outputs]
    hidden: set[int] = set()
    for alias in traced.aliases:
        np.copyto(arrays[alias.param_index], results[alias.output_index], casting="unsafe")
        if not alias.is_user_returned:
            hidden.add(alias.output_index)
    shown = [result for index, result in enumerate(results) if index not in hidden]
    return shown[0] if len(shown) == 1 else tuple(shown)


def is_neuron_compatible() -> bool:
    """True: the simulated runtime runs on any machine."""
    return True


def _compile(traced: TracedFunction, path: Path, arguments: str) -> Path:
    flags = parse_flags(shlex.split(arguments))
    family = flags.target or current_target().name
    program = neff.compile(
        traced.to_module(), target=family, options=flags.options,
        kernels=named_kernels(flags.kernels), check_kernels=flags.check_kernels,
    )  # fmt: skip
    neff.write(program, path, compressed=not flags.fast_loading)
    return path


def _array_of(value: Any) -> Any:
    return value.numpy() if isinstance(value, SpikeTensor) else value


def _arrays(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Array]:
    """The arrays among the arguments, in the order in which tracing takes them."""
    signature = inspect.signature(func)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    values: list[Any] = []
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            values += value
        elif kind is inspect.Parameter.VAR_KEYWORD:
            values += value.values()
        else:
            values.append(value)
    return [array for array in values if isinstance(array, np.ndarray)]
