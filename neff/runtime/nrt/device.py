"""A runtime as the vendor's Python packages see it: tensors, models, execution.

It does what ``nrt_*`` does with a device, on this machine: tensors are host memory, a model is
a :class:`neff.runtime.LoadedModel`.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt

from neff.errors import NeffError
from neff.profile import profile_of, summary, write_files
from neff.program import Variable
from neff.runtime.model import LoadedModel, load
from neff.runtime.nrt.status import Errors, Status, status_of
from neff.runtime.nrt.tensors import NrtTensor
from neff.runtime.ranks import run_together_once
from neff.runtime.rendezvous import Rendezvous
from neff.runtime.tensors import TensorMetadata
from neff.runtime.trips import trips_of
from nki_lang.base.dtypes import Array
from nki_lang.base.tracebacks import without_package_frames_in_methods
from nki_lang.base.visible_cores import core_count

__all__ = ["Device", "ModelTensorInfo", "NrtModel", "array_type"]

_REPORTED = {
    "tfloat32": "float32",
    "bool": "uint8",
    "float8_e4m3": "int8",
    "float8_e4m3fn": "int8",
    "float8_e5m2": "int8",
    "float8_e8m0fnu": "uint8",
    "float8_e5m2_x4": "uint32",
    "float8_e4m3fn_x4": "uint32",
    "float4_e2m1fn_x4": "uint16",
}
"""Types that the runtime reports under another name; fp8 as int8 is the vendor's own rule."""

_KNOWN_NAMES = frozenset(
    [
        "float32",
        "float16",
        "bfloat16",
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
    ]
)


@dataclass(slots=True)
class ModelTensorInfo:
    """Metadata of a model's inputs and outputs by name."""

    inputs: dict[str, TensorMetadata]
    outputs: dict[str, TensorMetadata]


class NrtModel:
    """A loaded model."""

    __slots__ = ("core_id", "loaded", "neff_path", "rank_id", "world_size")

    def __init__(
        self, loaded: LoadedModel, neff_path: str, core_id: int, rank_id: int, world_size: int
    ) -> None:
        self.loaded: LoadedModel | None = loaded
        self.neff_path = neff_path
        self.core_id = core_id
        self.rank_id = rank_id
        self.world_size = world_size

    @property
    def is_collective(self) -> bool:
        """Return whether it runs together with other ranks."""
        return self.world_size > 1

    def __repr__(self) -> str:
        return f"NrtModel(neff_path={self.neff_path!r}, core_id={self.core_id})"


class HoldsTensor(Protocol):
    """A tensor with shape and type over device memory."""

    tensor_ref: NrtTensor


@without_package_frames_in_methods
class Device:
    """The runtime of one process.

    Args:
        errors: how the front package names its errors.
        verbose_level: accepted and not used.
    """

    _live: ClassVar[dict[type, weakref.ReferenceType[Device]]] = {}
    _guard: ClassVar[threading.Lock] = threading.Lock()
    patience: ClassVar[float] = 30.0
    """Seconds that a rank waits for the others of its model."""

    def __init__(self, errors: Errors, verbose_level: int = 0) -> None:
        self._errors = errors
        self.verbose_level = verbose_level
        self._open = True
        self._listeners: list[list[dict[str, Any]]] = []
        self._ticket = 0
        self._rendezvous = Rendezvous(self.patience)
        with Device._guard:
            if self.live() is not None:
                raise errors.own_error(
                    "Cannot create an instance of the runtime: a previous instance still exists. "
                    "Close it first, or delete every reference to it.",
                    code="NEFF-RUNTIME-ALIVE",
                    remedy="close the one that exists first",
                )
            Device._live[type(self)] = weakref.ref(self)

    @classmethod
    def live(cls) -> Self | None:
        """The runtime of this kind that is open in the process, whoever made it."""
        reference = Device._live.get(cls)
        device = reference() if reference else None
        return device if isinstance(device, cls) and device._open else None

    @staticmethod
    def get_visible_neuron_core_count() -> int:
        """Number of simulated cores; see :mod:`nki_lang.base.visible_cores`."""
        return core_count()

    def close(self) -> int:
        """End the runtime; tensors and models are of no use any more."""
        self._open = False
        return 0

    # -- models ----------------------------------------------------------------------------

    def load_model(
        self,
        neff_file: str,
        core_id: int = 0,
        cc_enabled: bool = False,
        rank_id: int = 0,
        world_size: int = 1,
    ) -> NrtModel:
        """Load a NEFF onto a core.

        Args:
            neff_file: its path.
            core_id: one of the visible cores.
            cc_enabled: accepted; ``world_size`` decides whether ranks communicate.
            rank_id, world_size: which of how many ranks this is; all are loaded in this process,
                and each runs in a thread of its own.

        Raises:
            the package's errors: ``NEFF-RUNTIME-CLOSED``, ``NEFF-CORE``, ``NEFF-OPEN``,
                ``NEFF-COLLECTIVES``, ``NEFF-RANKS``, or whatever the file is refused for.
        """
        self._check_core(core_id)
        if not os.path.isfile(neff_file):
            raise self._errors.missing_file(
                f"Failed to open NEFF file: {neff_file}. Please check that the file exists and "
                "that you have permission to read it.",
                code="NEFF-OPEN",
                remedy="pass the path of a file that nki-neff build wrote",
            )
        if not 0 <= rank_id < world_size:
            raise self._errors.status(
                Status.NRT_INVALID,
                f"Failed to load model: there is no rank {rank_id} of {world_size}",
                code="NEFF-COLLECTIVES",
                remedy="rank_id counts from 0 and is below world_size",
            )
        try:
            loaded = load(neff_file)
            loaded.require_ranks(world_size)
        except NeffError as error:
            raise self._failed("Failed to load model", error) from error
        return NrtModel(loaded, str(neff_file), core_id, rank_id, world_size)

    def unload_model(self, model: NrtModel) -> None:
        """Drop a model; again is fine."""
        model.loaded = None

    def get_tensor_info(self, model: NrtModel) -> ModelTensorInfo:
        """Metadata of a model's tensors, dtypes as the vendor's runtime names them."""
        loaded = self._loaded(model)
        return ModelTensorInfo(
            {name: _reported(entry) for name, entry in loaded.inputs.items()},
            {name: _reported(entry) for name, entry in loaded.outputs.items()},
        )

    def execute(
        self,
        model: NrtModel,
        inputs: Mapping[str, NrtTensor],
        outputs: Mapping[str, NrtTensor],
        ntff_name: str | None = None,
        save_trace: bool = False,
    ) -> None:
        """Run a model; results are in ``outputs`` afterwards.

        Args:
            model: what to run.
            inputs, outputs: tensors by name, each of as many bytes as the model's.
            ntff_name, save_trace: leave the documents of ``nki-neff profile``, which are estimated,
                in the folder ``X.profile`` for a name ``X.ntff``: its format is not public.

        Raises:
            the package's errors: ``NEFF-RUNTIME-CLOSED``, ``NEFF-UNLOADED``, ``NEFF-FREED``,
                ``NEFF-SHAPE``, or whatever goes wrong while the program runs.
        """
        self._check_open()
        loaded = self._loaded(model)
        variables = loaded.program.variables
        arrays = {
            name: self._array(tensor, variables.get(name), name) for name, tensor in inputs.items()
        }
        results = {
            name: self._array(tensor, variables.get(name), name) for name, tensor in outputs.items()
        }
        if save_trace:
            _profile(loaded, arrays, Path(ntff_name or "profile.ntff").with_suffix(".profile"))
        self._tell("start")
        try:
            self._run(model, loaded, arrays, results)
        except NeffError as error:
            raise self._failed("Failed to execute model", error) from error
        finally:
            self._tell("stop")
            self._ticket += 1

    def _run(
        self,
        model: NrtModel,
        loaded: LoadedModel,
        arrays: dict[str, Array],
        results: dict[str, Array],
    ) -> None:
        """Run alone, or when all ranks of the model are here."""
        if not model.is_collective:
            loaded.run(arrays, results)
            return

        def together(
            ranks: list[tuple[LoadedModel, dict[str, Array], dict[str, Array]]],
        ) -> list[None]:
            models, inputs, outputs = zip(*ranks, strict=True)
            run_together_once(models, inputs, outputs)
            return [None] * len(ranks)

        key = os.path.realpath(model.neff_path), model.world_size
        execution = loaded, arrays, results
        self._rendezvous.meet(key, model.rank_id, model.world_size, execution, together)

    def inputs_of(
        self, model: NrtModel, inputs: Mapping[str, NrtTensor]
    ) -> dict[str, npt.NDArray[np.generic]]:
        """The inputs of a model as arrays; what goes wrong is as for :meth:`execute`."""
        variables = self._loaded(model).program.variables
        return {
            name: self._array(tensor, variables.get(name), name) for name, tensor in inputs.items()
        }

    # -- tensors ---------------------------------------------------------------------------

    def allocate_tensor(self, size: int, core_id: int = 0, name: str | None = None) -> NrtTensor:
        """New device memory of ``size`` bytes, filled with zeros.

        Raises:
            the package's errors: ``NEFF-RUNTIME-CLOSED``, ``NEFF-CORE``, ``NEFF-TENSOR`` (a
                negative size) or ``NEFF-MEMORY``.
        """
        self._check_core(core_id)
        if size < 0:
            raise self._errors.status(
                Status.NRT_INVALID,
                f"Failed to allocate tensor: size {size}",
                code="NEFF-TENSOR",
                remedy="pass the size in bytes, 0 or more",
            )
        try:
            return NrtTensor(np.zeros(size, np.uint8), core_id, name)
        except MemoryError:
            raise self._errors.status(
                Status.NRT_FAIL_HOST_MEM_ALLOC,
                f"Failed to allocate tensor: no {size} bytes of memory",
                code="NEFF-MEMORY",
                remedy="free tensors that are not needed, or use a machine with more memory",
            ) from None

    def slice_from_tensor(
        self, source: NrtTensor, offset: int = 0, size: int = 0, name: str | None = None
    ) -> NrtTensor:
        """A tensor over ``size`` bytes of another from byte ``offset`` on; size 0 is the rest.

        Raises:
            the package's errors: ``NEFF-FREED`` or ``NEFF-TENSOR-RANGE``.
        """
        data = self._data(source, "slice")
        length = size or data.size - offset
        self._check_range("Failed to allocate tensor slice", source, length, offset)
        return NrtTensor(data[offset : offset + length], source.core_id, name)

    def free_tensor(self, tensor: NrtTensor | HoldsTensor) -> None:
        """Give a tensor's memory back; again is fine.

        Args:
            tensor: device memory, or a tensor with shape and type that holds it: the vendor's guide
                to ``nrtpy`` passes the latter.
        """
        (tensor if isinstance(tensor, NrtTensor) else tensor.tensor_ref).drop()

    def tensor_write(self, tensor: NrtTensor, data: bytes, offset: int = 0) -> None:
        """Copy bytes into a tensor; see :meth:`tensor_write_from_pybuffer`."""
        self.tensor_write_from_pybuffer(tensor, data, offset)

    def tensor_write_from_pybuffer(self, tensor: NrtTensor, buffer: Any, offset: int = 0) -> None:
        """Copy the bytes of any C-contiguous buffer into a tensor from byte ``offset`` on.

        Raises:
            ValueError: the buffer is not contiguous.
            the package's errors: ``NEFF-FREED`` or ``NEFF-TENSOR-RANGE``.
        """
        target = self._data(tensor, "write to")
        source = _bytes_of(buffer)
        self._check_range(
            "The write operation exceeds the tensor bound", tensor, source.size, offset
        )
        target[offset : offset + source.size] = source

    def tensor_read(self, tensor: NrtTensor, offset: int = 0, size: int = 0) -> bytes:
        """``size`` bytes of a tensor from byte ``offset`` on; size 0 is the rest.

        Raises:
            the package's errors: ``NEFF-FREED`` or ``NEFF-TENSOR-RANGE``.
        """
        data = self._data(tensor, "read from")
        length = size or data.size - offset
        self._check_range("The read operation exceeds the tensor bound", tensor, length, offset)
        return data[offset : offset + length].tobytes()

    def tensor_read_to_pybuffer(
        self, tensor: NrtTensor, buffer: Any, offset: int = 0, size: int = 0
    ) -> None:
        """Copy bytes of a tensor into any writable buffer; size 0 is the rest.

        Raises:
            RuntimeError: the buffer is smaller than that.
            the package's errors: ``NEFF-FREED`` or ``NEFF-TENSOR-RANGE``.
        """
        data = self._data(tensor, "read from")
        length = size or data.size - offset
        self._check_range("The read operation exceeds the tensor bound", tensor, length, offset)
        target = _bytes_of(buffer)
        if target.size < length:
            raise RuntimeError(
                f"Buffer too small for tensor data: {target.size} bytes, needed {length}"
            )
        target[:length] = data[offset : offset + length]

    # -- traces ----------------------------------------------------------------------------

    def listen(self, events: list[dict[str, Any]]) -> None:
        """Append an event to ``events`` at the start and stop of each execution."""
        self._listeners.append(events)

    def unlisten(self, events: list[dict[str, Any]]) -> None:
        """Stop appending."""
        self._listeners = [listener for listener in self._listeners if listener is not events]

    def _tell(self, phase: str) -> None:
        for events in self._listeners:
            events.append(
                {
                    "event_type": "nc_exec_running",
                    "phase": phase,
                    "tracking_id": self._ticket,
                    "data": {"nc_timestamp_ns": time.perf_counter_ns()},
                }
            )

    # -- checks ----------------------------------------------------------------------------

    def _check_open(self) -> None:
        if not self._open:
            raise self._errors.status(
                Status.NRT_CLOSED,
                "The runtime was closed",
                code="NEFF-RUNTIME-CLOSED",
                remedy="create a new runtime",
            )

    def _check_core(self, core_id: int) -> None:
        self._check_open()
        count = core_count()
        if not 0 <= core_id < count:
            raise self._errors.status(
                Status.NRT_INVALID,
                f"There is no core {core_id}; visible are 0 to {count - 1}",
                code="NEFF-CORE",
                remedy="NEURON_RT_NUM_CORES or NEURON_RT_VISIBLE_CORES sets how many there are",
            )

    def _loaded(self, model: NrtModel) -> LoadedModel:
        if model.loaded is None:
            raise self._errors.own_error(
                f"Unable to execute an unloaded model. Load {model.neff_path} again.",
                code="NEFF-UNLOADED",
                remedy="load the model again",
            )
        return model.loaded

    def _data(self, tensor: NrtTensor, action: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
        self._check_open()
        if tensor.data is None:
            raise self._errors.own_error(
                f"Unable to {action} a freed tensor: {tensor.name!r}.",
                code="NEFF-FREED",
                remedy="create a new tensor",
            )
        return tensor.data

    def _check_range(self, what: str, tensor: NrtTensor, size: int, offset: int) -> None:
        if offset < 0 or size < 0 or offset + size > tensor.size:
            raise self._errors.own_error(
                f"{what}. Tensor size: {tensor.size} bytes; Input size: {size} bytes; "
                f"Offset: {offset} bytes.",
                code="NEFF-TENSOR-RANGE",
                remedy="offset and size must lie in the tensor",
            )

    def _array(self, tensor: NrtTensor, variable: Variable | None, name: str) -> Array:
        """A tensor's bytes as an array of the variable's type."""
        if tensor.data is None:
            raise self._errors.own_error(
                f"Tensor {name!r} is freed. Unable to add it into the tensor set.",
                code="NEFF-FREED",
                remedy="create a new tensor",
            )
        if variable is None:
            return tensor.data
        if tensor.size != variable.nbytes:
            raise self._errors.status(
                Status.NRT_INVALID,
                f"Failed to add tensor to set: {name!r} has {tensor.size} bytes, the model's has "
                f"{variable.nbytes} ({variable.dtype}{list(variable.shape)})",
                code="NEFF-SHAPE",
                remedy="create the tensor with as many bytes as the model's",
            )
        return tensor.data.view(variable.dtype.dtype).reshape(variable.shape)

    def _failed(self, what: str, error: NeffError) -> Exception:
        return self._errors.status(
            status_of(error), f"{what}: {error}", code=error.code, remedy=error.remedy
        )


def _profile(model: LoadedModel, inputs: Mapping[str, object], folder: Path) -> None:
    """Leave the estimated profile of a run in a folder."""
    profile = profile_of(model.program, trips=trips_of(model.program, inputs, model.name))
    write_files(profile, summary(profile), folder)


def array_type(variable: Variable) -> np.dtype[Any]:
    """NumPy type of the arrays that a user sees for a variable."""
    name = _REPORTED.get(variable.dtype.name)
    return np.dtype(name) if name else variable.dtype.dtype


def _reported(entry: TensorMetadata) -> TensorMetadata:
    """As the runtime's API reports a tensor: a scalar has the shape ``[1]``, which nkipy's callers
    rely on (``np.ascontiguousarray`` makes a scalar an array of one element).
    """
    name = _REPORTED.get(entry.dtype, entry.dtype)
    reported_name = name if name in _KNOWN_NAMES else "unknown"
    return TensorMetadata(entry.size, reported_name, list(entry.shape) or [1])


def _bytes_of(buffer: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A buffer's bytes, seen and not copied. Types that have no buffer protocol code come as
    arrays.
    """
    if isinstance(buffer, np.ndarray):
        if not buffer.flags.c_contiguous:
            raise ValueError("the array is not C-contiguous")
        return buffer.reshape(-1).view(np.uint8)
    return np.frombuffer(buffer, np.uint8) if len(buffer) else np.zeros(0, np.uint8)
