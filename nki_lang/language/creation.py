"""Making tensors, and moving them between memories by name."""

from __future__ import annotations

from typing import Any, SupportsIndex

import numpy as np

from nki_lang.dtypes import Array, DType, dtype_of
from nki_lang.errors import fail
from nki_lang.frontend.builder import current
from nki_lang.frontend.objects import is_sequence
from nki_lang.frontend.operators import multiply, right_shift
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.frontend.view import refuse
from nki_lang.ir import Engine, Tensor
from nki_lang.memory import MemoryRegion

__all__ = [
    "empty_like",
    "full",
    "load",
    "load_transpose2d",
    "ndarray",
    "ones",
    "rand",
    "random_seed",
    "shared_constant",
    "shared_identity_matrix",
    "store",
    "zeros",
    "zeros_like",
]

_sbuf, _psum = MemoryRegion.sbuf, MemoryRegion.psum
_TILING = "nki/get-started/about/tiling-overview.rst"


def ndarray(
    shape: Any,
    dtype: Any,
    buffer: Any = _sbuf,
    name: str = "",
    address: tuple[int, int] | None = None,
) -> NkiTensor:
    """A new tensor with undefined contents.

    ``address`` is (partition, byte offset in the partition) for SBUF and PSUM.
    """
    builder = current()
    region = buffer if type(buffer) is MemoryRegion else _region(buffer)
    element = dtype if type(dtype) is DType else _element(dtype)
    extents = tuple(shape) if is_sequence(shape) else (shape,)
    extents = tuple(_extent(extent, extents) for extent in extents)
    if region is _sbuf or region is _psum:
        extents = _check_on_chip(extents, element, region, address, builder)
    if address is not None:
        address = (int(address[0]), int(address[1]))
    storage = builder.new_tensor(extents, element, region, name or "", address)
    return NkiTensor(extents, element, storage, region)


def _extent(extent: Any, shape: tuple[Any, ...]) -> int:
    if type(extent) is int and extent > 0:
        return extent
    if not isinstance(extent, SupportsIndex):
        fail(f"shape {shape} has the extent {extent!r}", "NKI-SHAPE", "extents are integers")
    number = int(extent)
    if number < 1:
        fail(f"shape {shape} has the extent {number}", "NKI-SHAPE", "extents are 1 or more")
    return number


def _region(buffer: Any) -> MemoryRegion:
    names = {"hbm": "private_hbm"}
    try:
        return MemoryRegion(names.get(buffer, buffer))
    except (ValueError, TypeError):
        fail(
            f"buffer={buffer!r} is not a memory",
            "NKI-BUFFER",
            "use nl.sbuf, nl.psum, nl.private_hbm or nl.shared_hbm",
            "nl.ndarray",
        )


def _element(dtype: Any) -> DType:
    try:
        return dtype_of(dtype)
    except TypeError as error:
        fail(str(error), "NKI-DTYPE", "use one of the dtypes of nki.language", "nl.ndarray")


def _check_on_chip(
    shape: tuple[int, ...],
    dtype: DType,
    region: MemoryRegion,
    address: tuple[int, int] | None,
    builder: Any,
) -> tuple[int, ...]:
    """One tile against the size of its memory; the sum of them is checked after tracing."""
    if not shape:
        fail(
            f"a tile in {region} without a dimension",
            "NKI-SHAPE",
            "the first dimension is the partitions: give one number the shape (1, 1), an argument"
            " of no dimension by .reshape(1, 1)",
            f"{_TILING}:96",
        )
    if len(shape) == 1:
        shape = (shape[0], 1)
    if shape[0] > 128:
        fail(
            f"a tile of shape {shape} in {region} has {shape[0]} partitions",
            "NKI-PARTITION",
            "a tile has at most 128 partitions (nl.tile_size.pmax); split the first dimension",
            f"{_TILING}:96",
        )
    need = dtype.itemsize
    for extent in shape[1:]:
        need *= extent
    target = builder.target
    have = target.psum_partition_bytes if region is _psum else target.sbuf_usable_bytes
    start = 0 if address is None else int(address[1])
    if start < 0 or start + need > have:
        where = f" at byte {start}" if start else ""
        fail(
            f"a tile of shape {shape} {dtype}{where} takes {need} bytes in each partition of"
            f" {region}; {target.name} has {have}",
            "NKI-CAPACITY",
            "split the free dimension into tiles",
            "nki/guides/architecture, SBUF and PSUM sizes",
        )
    if address is not None and not 0 <= int(address[0]) <= 128 - shape[0]:
        fail(
            f"a tile of {shape[0]} partitions cannot start at partition {address[0]}",
            "NKI-START-PARTITION",
            "partitions are numbered 0 to 127",
            "nl.ndarray, address",
        )
    return shape


def _fill(shape: Any, value: Any, dtype: Any, buffer: Any, name: str) -> NkiTensor:
    from nki_lang.isa.dma import dma_copy
    from nki_lang.isa.movement import memset

    tensor = ndarray(shape, dtype, buffer, name)
    if tensor.on_chip:
        memset(tensor, value)
        return tensor
    constant = np.full(tensor.shape, value, dtype=tensor.dtype.dtype)
    dma_copy(tensor, _constant(constant, tensor.dtype))
    return tensor


def zeros(shape: Any, dtype: Any, buffer: Any = _sbuf, name: str = "") -> NkiTensor:
    """A new tensor of zeros."""
    return _fill(shape, 0, dtype, buffer, name)


def ones(shape: Any, dtype: Any, buffer: Any = _sbuf, name: str = "") -> NkiTensor:
    """A new tensor of ones."""
    return _fill(shape, 1, dtype, buffer, name)


def full(shape: Any, fill_value: Any, dtype: Any, buffer: Any = _sbuf, name: str = "") -> NkiTensor:
    """A new tensor filled with one value."""
    return _fill(shape, fill_value, dtype, buffer, name)


def zeros_like(x: NkiTensor, dtype: Any = None, buffer: Any = None, name: str = "") -> NkiTensor:
    """A new tensor of zeros with the shape of ``x``."""
    return _fill(x.shape, 0, dtype or x.dtype, buffer or x.buffer, name)


def empty_like(x: NkiTensor, dtype: Any = None, buffer: Any = None, name: str = "") -> NkiTensor:
    """A new tensor with the shape of ``x`` and undefined contents."""
    return ndarray(x.shape, dtype or x.dtype, buffer or x.buffer, name)


def load(src: NkiTensor, dtype: Any = None) -> NkiTensor:
    """A new SBUF tile with the values of an HBM tensor."""
    from nki_lang.isa.dma import dma_copy

    tile = ndarray(src.shape, dtype or src.dtype)
    dma_copy(tile, src)
    return tile


def store(dst: NkiTensor, value: NkiTensor) -> None:
    """Write an SBUF tile into an HBM tensor."""
    from nki_lang.isa.dma import dma_copy

    dma_copy(dst, value)


def load_transpose2d(src: NkiTensor, dtype: Any = None) -> NkiTensor:
    """A new SBUF tile with the values of a 2-D HBM tensor, transposed."""
    from nki_lang.isa.dma import dma_transpose
    from nki_lang.isa.movement import tensor_copy

    if len(src.shape) != 2:
        refuse(
            src,
            "load_transpose2d takes two dimensions",
            "NKI-SHAPE",
            "view the tensor as two dimensions with reshape",
        )
    tile = ndarray((src.shape[1], src.shape[0]), src.dtype)
    dma_transpose(tile, src)
    if dtype is None or tile.dtype == dtype:
        return tile
    cast = ndarray(tile.shape, dtype)
    tensor_copy(cast, tile)
    return cast


def _constant(value: Array, dtype: DType) -> NkiTensor:
    storage: Tensor = current().new_constant(np.ascontiguousarray(value), dtype)
    return NkiTensor(storage.shape, dtype, storage, MemoryRegion.shared_hbm)


def shared_constant(constant: Any) -> NkiTensor:
    """An HBM tensor with the values of a NumPy array (or of a ``.npy`` file)."""
    value = np.load(constant) if isinstance(constant, str) else np.asarray(constant)
    return _constant(value, _element(value.dtype))


def shared_identity_matrix(n: int, dtype: Any = "uint8", dst: NkiTensor | None = None) -> NkiTensor:
    """The n x n identity in SBUF (or in ``dst``)."""
    from nki_lang.isa.dma import dma_copy

    element = _element(dtype) if dst is None else dst.dtype
    eye = np.eye(n, dtype=np.float32).astype(element.dtype)
    tile = ndarray((n, n), element) if dst is None else dst
    dma_copy(tile, _constant(eye, element))
    return tile


def random_seed(seed: NkiTensor) -> None:
    """Seed the generator that :func:`rand` uses."""
    from nki_lang.isa.random import set_rng_seed

    set_rng_seed(seed)


def rand(shape: Any, dtype: Any, buffer: Any = _sbuf, name: str = "") -> NkiTensor:
    """A new tensor of uniform random numbers in [0, 1).

    24 random bits of each element become the fraction, which float32 holds exactly.
    """
    from nki_lang.isa.dma import dma_copy
    from nki_lang.isa.elementwise import tensor_scalar
    from nki_lang.isa.random import rng

    tensor = ndarray(shape, dtype, buffer, name)
    bits = ndarray(tensor.shape, "uint32")
    rng(bits, Engine.vector)
    fraction = ndarray(tensor.shape, "uint32")
    tensor_scalar(fraction, bits, right_shift, 8)
    tile = tensor if tensor.on_chip else ndarray(tensor.shape, tensor.dtype)
    tensor_scalar(tile, fraction, multiply, 2.0**-24)
    if tile is not tensor:
        dma_copy(tensor, tile)
    return tensor
