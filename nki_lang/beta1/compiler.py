"""``neuronxcc.nki.compiler``: fixed addresses and directives of NKI beta 1.

The address functions follow nki/nki_direct_allocation_guide.rst and nki/api/nki/compiler (2.26).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from inspect import signature
from math import prod

from nki_lang.base.errors import missing_attribute
from nki_lang.base.memory import MemoryRegion
from nki_lang.beta1.signature import checked_call
from nki_lang.beta1.values import Value

__all__ = [
    "allocation_scope", "enable_stack_allocator", "force_auto_alloc", "multi_buffer", "no_reorder",
    "psum", "sbuf", "skip_middle_end_transformations",
]  # fmt: skip

_BANK_BYTES = 2048
_ADDRESS_PARAMETERS = ("idx", "pdim_size", "fdim_size")
"""Parameters of an address function in nki/nki_direct_allocation_guide.rst."""


class Placement:
    """A memory with a function of addresses, as ``buffer=`` takes it.

    Attributes:
        region: the memory.
        place: (block index, tile shape, bytes of an element) -> (partition, byte).
    """

    __slots__ = ("place", "region")

    def __init__(self, region: MemoryRegion, place: Callable[..., tuple[int, int]]) -> None:
        self.region = region
        self.place = place


def _modulo(index: tuple[int, ...], extents: tuple[int, ...]) -> int:
    """Return the row-major number of a block among ``extents`` tiles that are reused in turn."""
    number = 0
    padded = index + (0,) * (len(extents) - len(index))
    for entry, extent in zip(padded, extents or (1,) * len(index), strict=True):
        number = number * extent + entry % extent
    return number


class _Memory:
    """``nki.compiler.sbuf`` and ``nki.compiler.psum``."""

    def __init__(self, region: MemoryRegion) -> None:
        self.region = region

    def auto_alloc(self) -> MemoryRegion:
        """The memory without fixed addresses."""
        return self.region

    def alloc(self, func: Callable[..., tuple[int, ...]]) -> Placement:
        """Fixed addresses by ``func(block index, partitions, bytes in a partition)``.

        The arguments are passed by the names ``idx``, ``pdim_size`` and ``fdim_size`` if the
        function has them: ``functools.partial`` may have bound a parameter before them.
        """
        has_names = signature(func).parameters.keys() >= set(_ADDRESS_PARAMETERS)

        def place(index: tuple[int, ...], shape: tuple[int, ...], itemsize: int) -> tuple[int, int]:
            values = (index, shape[0], prod(shape[1:]) * itemsize)
            if has_names:
                address = func(**dict(zip(_ADDRESS_PARAMETERS, values, strict=True)))
            else:
                address = func(*values)
            if self.region is MemoryRegion.sbuf:
                partition, byte = address
                return int(partition), int(byte)
            bank, partition, byte = address
            return int(partition), int(bank) * _BANK_BYTES + int(byte)

        return Placement(self.region, place)


class _Sbuf(_Memory):
    def mod_alloc(
        self,
        *,
        base_addr: int,
        base_partition: int = 0,
        num_par_tiles: tuple[int, ...] = (),
        num_free_tiles: tuple[int, ...] = (),
    ) -> Placement:
        """Addresses of blocks that take turns in a few tiles."""

        def address(index: tuple[int, ...], pdim: int, fdim: int) -> tuple[int, int]:
            partition = base_partition + _modulo(index, num_par_tiles) * pdim
            return partition, base_addr + _modulo(index, num_free_tiles) * fdim

        return self.alloc(address)


class _Psum(_Memory):
    def mod_alloc(
        self,
        *,
        base_bank: int,
        base_addr: int = 0,
        base_partition: int = 0,
        num_bank_tiles: tuple[int, ...] = (),
        num_par_tiles: tuple[int, ...] = (),
        num_free_tiles: tuple[int, ...] = (),
    ) -> Placement:
        """Addresses of blocks that take turns in a few banks."""

        def address(index: tuple[int, ...], pdim: int, fdim: int) -> tuple[int, int, int]:
            partition = base_partition + _modulo(index, num_par_tiles) * pdim
            byte = base_addr + _modulo(index, num_free_tiles) * fdim
            return base_bank + _modulo(index, num_bank_tiles), partition, byte

        return self.alloc(address)


sbuf = _Sbuf(MemoryRegion.sbuf)
psum = _Psum(MemoryRegion.psum)


def _unchanged(func: Value) -> Value:
    return func


@checked_call
def skip_middle_end_transformations(func: Value = None) -> Value:
    """A directive for the vendor's compiler; no effect on results."""
    return _unchanged if func is None else func


@checked_call
def enable_stack_allocator(func: Value = None, log_level: int = 50) -> Value:
    """A directive for the vendor's compiler; no effect on results."""
    return _unchanged if func is None else func


@checked_call
def force_auto_alloc(func: Value = None) -> Value:
    """A directive for the vendor's compiler; no effect on results."""
    return _unchanged if func is None else func


@checked_call
@contextmanager
def allocation_scope() -> Generator[None]:
    """A directive for the vendor's compiler; no effect on results."""
    yield


@checked_call
@contextmanager
def multi_buffer(factor: int = 2) -> Generator[None]:
    """A directive for the vendor's compiler; no effect on results."""
    yield


@checked_call
@contextmanager
def no_reorder() -> Generator[None]:
    """Instructions that keep their order."""
    from nki_lang.frontend.control_flow import no_reorder as keep_order

    with keep_order():
        yield


__getattr__ = missing_attribute("neuronxcc.nki.compiler", __all__, {})
