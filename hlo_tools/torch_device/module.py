"""``torch.neuron``: what PyTorch and scripts call on the module of a device type.

Operators are done when they return, so streams and events order nothing; an event records the
host's clock. The default generators of all devices are the CPU's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from types import ModuleType

from hlo_tools.torch_device import memory
from hlo_tools.torch_device.numbering import DeviceLike, device_of, index_of
from hlo_tools.torch_device.tensors import NAME, Tensor, Torch, torch
from nki_lang.base.visible_cores import core_count

__all__ = ["DeviceModule"]


class DeviceContext:
    """``with torch.neuron.device(1):`` makes a device the current one."""

    def __init__(self, device: DeviceLike) -> None:
        self.idx = index_of(device)
        self.prev_idx = -1

    def __enter__(self) -> DeviceContext:
        self.prev_idx = torch.accelerator.current_device_index()
        torch.accelerator.set_device_index(self.idx)
        return self

    def __exit__(self, *_: object) -> None:
        torch.accelerator.set_device_index(self.prev_idx)


class DeviceModule(ModuleType):
    """The functions of ``torch.neuron``.

    Args:
        name: of the module.
        load: loads the native library.
        is_obtainable: says whether it can be loaded.
    """

    device = DeviceContext
    memory_stats = staticmethod(memory.memory_stats)
    memory_allocated = staticmethod(memory.memory_allocated)
    max_memory_allocated = staticmethod(memory.max_memory_allocated)
    memory_reserved = staticmethod(memory.memory_reserved)
    max_memory_reserved = staticmethod(memory.max_memory_reserved)
    memory_summary = staticmethod(memory.memory_summary)
    reset_peak_memory_stats = staticmethod(memory.reset_peak_memory_stats)
    reset_accumulated_memory_stats = staticmethod(memory.reset_accumulated_memory_stats)

    def __init__(
        self, name: str, load: Callable[[], None], is_obtainable: Callable[[], bool]
    ) -> None:
        super().__init__(name, "The device neuron; see docs/torch-device.md of nki-hlo.")
        self._load = load
        self._is_obtainable = is_obtainable
        self._is_loaded = False

    def _lazy_init(self) -> None:
        """PyTorch calls this before the device is first used."""
        if not self._is_loaded:
            self._load()
            self._is_loaded = True

    init = _lazy_init

    def is_available(self) -> bool:
        return self._is_loaded or self._is_obtainable()

    def is_initialized(self) -> bool:
        return self._is_loaded

    def _is_in_bad_fork(self) -> bool:
        return False

    def device_count(self) -> int:
        return core_count() if self.is_available() else 0

    def current_device(self) -> int:
        self._lazy_init()
        return torch.accelerator.current_device_index()

    def set_device(self, device: DeviceLike) -> None:
        self._lazy_init()
        torch.accelerator.set_device_index(index_of(device))

    def get_device_name(self, device: DeviceLike = None) -> str:
        return f"{NAME}:{index_of(device)}"

    def synchronize(self, device: DeviceLike = None) -> None:
        """Nothing to wait for: operators are done when they return."""
        self._lazy_init()

    def current_stream(self, device: DeviceLike = None) -> Torch:
        self._lazy_init()
        return torch.accelerator.current_stream(device_of(device))

    def set_stream(self, stream: Torch) -> None:
        torch.accelerator.set_stream(stream)

    def Stream(self, device: DeviceLike = None, priority: int = 0) -> Torch:
        """A new stream of a device; operators on it are done when they return."""
        return torch.Stream(device=device_of(device), priority=priority)

    def Event(self, enable_timing: bool = False, **flags: bool) -> Torch:
        """A new event, which records the time at which it is reached."""
        self._lazy_init()
        return torch.Event(NAME, enable_timing=enable_timing, **flags)

    def stream(self, stream: Torch) -> Torch:
        """Make a stream the current one for a block."""
        return nullcontext() if stream is None else stream

    def get_amp_supported_dtype(self) -> list[Torch]:
        return [torch.bfloat16, torch.float16]

    def is_bf16_supported(self, including_emulation: bool = True) -> bool:
        return True

    def _generator(self, device: DeviceLike) -> Torch:
        """The CPU's generator, which every device draws from by default."""
        index_of(device)
        return torch.default_generator

    def manual_seed(self, seed: int) -> None:
        self._generator(None).manual_seed(seed)

    manual_seed_all = manual_seed

    def seed(self) -> None:
        self._generator(None).seed()

    seed_all = seed

    def initial_seed(self) -> int:
        return self._generator(None).initial_seed()

    def get_rng_state(self, device: DeviceLike = NAME) -> Tensor:
        return self._generator(device).get_state()

    def set_rng_state(self, new_state: Tensor, device: DeviceLike = NAME) -> None:
        self._generator(device).set_state(new_state)

    def get_rng_state_all(self) -> list[Tensor]:
        return [self.get_rng_state(index) for index in range(self.device_count())]

    def set_rng_state_all(self, new_states: Iterable[Tensor]) -> None:
        for index, state in enumerate(new_states):
            self.set_rng_state(state, index)

    def empty_cache(self) -> None:
        """Nothing to free: memory that is not used is the host's."""
