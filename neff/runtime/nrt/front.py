"""Models and tensors as the packages ``spike`` and ``nrtpy`` offer them.

Both have the same classes under other names; each makes its own from these by naming its
session.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from neff.program import Program, Variable
from neff.runtime.nrt.benchmark import BenchmarkResult, estimated, host_times, summarise
from neff.runtime.nrt.device import Device, NrtModel, array_type
from neff.runtime.nrt.session import Session
from neff.runtime.nrt.status import TensorMismatchError, TensorNameError
from neff.runtime.nrt.tensors import NrtTensor
from neff.runtime.tensors import TensorMetadata
from nki_lang.base.dtypes import Array
from nki_lang.base.tracebacks import without_package_frames_in_methods

__all__ = ["FrontModel", "FrontTensor"]

_BIT_CARRIERS = frozenset({"int8", "uint8", "uint16", "uint32"})
"""Reported types that a tensor of another type with as many bits may be passed for."""


@without_package_frames_in_methods
class FrontTensor:
    """A device tensor with a shape and a type.

    Attributes:
        tensor_ref: the device memory.
        shape: extents.
        dtype: NumPy type.
        name: a name or None.
    """

    session: ClassVar[Session]

    def __init__(
        self,
        tensor_ref: NrtTensor,
        shape: int | tuple[int, ...],
        dtype: Any,
        name: str | None = None,
    ) -> None:
        self.tensor_ref = tensor_ref
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.dtype = dtype
        self.name = name

    @classmethod
    def from_numpy(cls, array: object, name: str | None = None, core_id: int = 0) -> FrontTensor:
        """Copy an array into new device memory."""
        array = np.asarray(array)
        dense = np.ascontiguousarray(array).reshape(array.shape)
        device = cls.session.device()
        tensor = device.allocate_tensor(dense.nbytes, core_id, name)
        device.tensor_write_from_pybuffer(tensor, dense)
        return cls(tensor, dense.shape, dense.dtype, name)

    def numpy(self) -> Array:
        """A copy of the content as an array."""
        array = np.empty(self.shape, self.dtype)
        self.session.device().tensor_read_to_pybuffer(self.tensor_ref, array, 0, array.nbytes)
        return array

    def write_from_numpy(self, array: object) -> None:
        """Replace the content.

        Raises:
            ValueError: the array has another number of bytes.
        """
        dense = np.ascontiguousarray(array)
        expected = int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize
        if dense.nbytes != expected:
            raise ValueError(f"Size mismatch: source {dense.nbytes} bytes, target {expected} bytes")
        self.session.device().tensor_write_from_pybuffer(self.tensor_ref, dense)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape}, dtype={self.dtype}, name={self.name})"


@without_package_frames_in_methods
class FrontModel:
    """A loaded NEFF.

    Attributes:
        model_ref: the runtime's model.
        name: what errors call it.
        neff_path: the file.
        input_tensors_info, output_tensors_info: metadata by name.
    """

    session: ClassVar[Session]
    tensor_class: ClassVar[type[FrontTensor]]

    def __init__(self, model_ref: NrtModel, name: str, neff_path: Path) -> None:
        self.model_ref = model_ref
        self.name = name
        self.neff_path = neff_path
        info = self._device().get_tensor_info(model_ref)
        self.input_tensors_info: dict[str, TensorMetadata] = info.inputs
        self.output_tensors_info: dict[str, TensorMetadata] = info.outputs

    @classmethod
    def load_from_neff(
        cls,
        neff_path: str | os.PathLike[str],
        name: str | None = None,
        core_id: int = 0,
        cc_enabled: bool = False,
        rank_id: int = 0,
        world_size: int = 1,
    ) -> Any:
        """Load a NEFF.

        Args:
            neff_path: the file.
            name: what errors call the model; the file's stem by default.
            core_id: the core to load it onto.
            cc_enabled: accepted; ``world_size`` decides whether ranks communicate.
            rank_id, world_size: which of how many ranks this is. All are loaded in this process,
                and each is called from a thread of its own.
        """
        path = Path(neff_path)
        device = cls.session.device()
        model = device.load_model(str(path), core_id, cc_enabled, rank_id, world_size)
        return cls(model, path.stem if name is None else name, path)

    def allocate_output_tensors(self) -> list[Any]:
        """A new tensor for each output, on the model's core."""
        device = self._device()
        tensors: list[Any] = []
        for name in self.output_tensors_info:
            variable = self._variable(name)
            tensor = device.allocate_tensor(variable.nbytes, self.model_ref.core_id, name)
            tensors.append(self.tensor_class(tensor, variable.shape, array_type(variable), name))
        return tensors

    def __call__(
        self,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any] | None = None,
        save_trace: bool = False,
        ntff_name: str | None = None,
    ) -> dict[str, Any] | None:
        """Execute the model.

        Args:
            inputs: tensors by name, every input of the model.
            outputs: tensors to write to by name; made when None.
            save_trace, ntff_name: leave an estimated profile in the folder ``X.profile`` for a name
                ``X.ntff``, the format of that file not being public.

        Returns:
            The output tensors by name when ``outputs`` is None, else None.

        Raises:
            TensorNameError: a ValueError; an unknown or missing name.
            TensorMismatchError: an AssertionError; another core, shape or dtype.
        """
        allocated = None
        if outputs is None:
            outputs = allocated = {tensor.name: tensor for tensor in self.allocate_output_tensors()}
        self._validate(inputs, outputs)
        if ntff_name is None:
            ntff_name = str(self.neff_path.with_suffix(".ntff"))
        self._device().execute(
            self.model_ref, _references(inputs), _references(outputs), ntff_name, save_trace
        )
        return allocated

    def benchmark(
        self,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any] | None = None,
        warmup_iter: int = 5,
        benchmark_iter: int = 5,
        mode: str = "device",
    ) -> BenchmarkResult:
        """Time the model.

        Args:
            inputs, outputs: as for a call.
            warmup_iter: untimed runs first.
            benchmark_iter: timed runs.
            mode: ``"host"`` for the time that this machine takes. ``"device"`` for what the
                device's own clock would show, estimated by the timing model: the model runs once,
                and every iteration takes the same time.

        Raises:
            ValueError: an unknown mode, no timed run, or a negative number of untimed ones.
            TensorNameError, TensorMismatchError: as for a call.
        """
        if mode not in ("device", "host"):
            raise ValueError(f"Invalid benchmark mode '{mode}'. Use 'device' or 'host'.")
        if benchmark_iter < 1 or warmup_iter < 0:
            raise ValueError(
                f"benchmark_iter must be at least 1 and warmup_iter at least 0, got "
                f"{benchmark_iter} and {warmup_iter}"
            )
        if outputs is None:
            outputs = {tensor.name: tensor for tensor in self.allocate_output_tensors()}
        self._validate(inputs, outputs)
        device, sources, targets = self._device(), _references(inputs), _references(outputs)
        if mode == "device":
            arrays = device.inputs_of(self.model_ref, sources)
            device.execute(self.model_ref, sources, targets)
            return estimated(self._program(), arrays, warmup_iter, benchmark_iter)
        durations = host_times(
            lambda: device.execute(self.model_ref, sources, targets), warmup_iter, benchmark_iter
        )
        return summarise(durations, warmup_iter)

    def _device(self) -> Device:
        return self.session.device()

    def _program(self) -> Program:
        loaded = self.model_ref.loaded
        assert loaded is not None
        return loaded.program

    def _variable(self, name: str) -> Variable:
        return self._program().variables[name]

    def _validate(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        for role, tensors, names in (
            ("input", inputs, self.input_tensors_info),
            ("output", outputs, self.output_tensors_info),
        ):
            unknown = sorted(set(tensors) - set(names))
            if unknown:
                raise TensorNameError(
                    f"Unknown {role}(s) {unknown} for model '{self.name}'. Expected {role}s: "
                    f"{list(names)}",
                    code=f"NEFF-{role.upper()}",
                    remedy=f"pass only {role}s that the model has",
                )
        missing = [name for name in self.input_tensors_info if name not in inputs]
        if missing:
            raise TensorNameError(
                f"Missing input(s) {missing} for model '{self.name}'. Expected inputs: "
                f"{list(self.input_tensors_info)}",
                code="NEFF-INPUT",
                remedy="pass a tensor for every input",
            )
        for name, tensor in inputs.items():
            self._check_tensor(f"Input {name}", tensor, self.input_tensors_info[name], name)
        for name, tensor in outputs.items():
            self._check_tensor(f"Output {name}", tensor, self.output_tensors_info[name], name)

    def _check_tensor(self, what: str, tensor: Any, info: TensorMetadata, name: str) -> None:
        core, model_core = tensor.tensor_ref.core_id, self.model_ref.core_id
        if core != model_core:
            raise TensorMismatchError(
                f"{what}: expected model and tensor on the same core, got model core_id {model_core} and "
                f"tensor core_id {core}",
                code="NEFF-CORE",
                remedy="create the tensor on the core that the model was loaded on",
            )
        if (tuple(tensor.shape) or (1,)) != tuple(info.shape):  # scalars are reported as [1]
            raise TensorMismatchError(
                f"{what}: expected shape {info.shape}, got {list(tensor.shape)}",
                code="NEFF-SHAPE",
                remedy="a NEFF is built for fixed shapes; build it again for this one",
            )
        dtype, variable = np.dtype(tensor.dtype), self._variable(name)
        carried = info.dtype in _BIT_CARRIERS and dtype == variable.dtype.dtype
        if not carried and dtype != array_type(variable):
            raise TensorMismatchError(
                f"{what}: expected dtype {info.dtype}, got {dtype}",
                code="NEFF-DTYPE",
                remedy="convert the array, or build the NEFF again for this type",
            )


def _references(tensors: Mapping[str, Any]) -> dict[str, NrtTensor]:
    return {name: tensor.tensor_ref for name, tensor in tensors.items()}
