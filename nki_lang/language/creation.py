"""Making tensors, and moving them between memories by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from nki_lang.base.dtypes import Array, DType, DTypeLike, dtype_of
from nki_lang.base.errors import fail
from nki_lang.base.memory import MemoryRegion
from nki_lang.frontend.builder import current
from nki_lang.frontend.objects import is_sequence
from nki_lang.frontend.operators import multiply, right_shift
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.frontend.view import refuse
from nki_lang.ir import Engine, Tensor

__all__ = [
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
    shape: int | Sequence[int],
    dtype: DTypeLike,
    buffer: MemoryRegion | str = _sbuf,
    name: str = "",
    address: tuple[int, int] | None = None,
) -> NkiTensor:
    """A new tensor with undefined contents.

    ``address`` is (partition, byte offset in the partition) for SBUF and PSUM.

    Args:
        shape: the extents; on chip the first one is the partitions, at most 128.
        dtype: of the result, such as nl.bfloat16; that of the operand when None.
        buffer: the memory: nl.sbuf, nl.psum, nl.private_hbm or nl.shared_hbm.
        name: of the tensor, as files and profiles show it.
        address: (partition, byte in the partition) for SBUF and PSUM; None lets the tracer
            choose.

    Returns:
        NkiTensor: the tensor; its contents are undefined.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-PARTITION, NKI-CAPACITY,
            NKI-BUFFER, NKI-DTYPE, NKI-SHAPE.

    Source: nl.ndarray (nki/api/nki/language, NKI 0.6.0).

    Example::

        tile = nl.ndarray((128, 64), nl.bfloat16, buffer=nl.sbuf)
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


def _extent(extent: object, shape: tuple[object, ...]) -> int:
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


def _element(dtype: object) -> DType:
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


def zeros(
    shape: int | Sequence[int], dtype: DTypeLike, buffer: MemoryRegion | str = _sbuf, name: str = ""
) -> NkiTensor:
    """A new tensor of zeros.

    Args:
        shape: the extents; on chip the first one is the partitions, at most 128.
        dtype: of the result, such as nl.bfloat16; that of the operand when None.
        buffer: the memory: nl.sbuf, nl.psum, nl.private_hbm or nl.shared_hbm.
        name: of the tensor, as files and profiles show it.

    Returns:
        NkiTensor: the new tensor.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-PARTITION, NKI-CAPACITY,
            NKI-BUFFER, NKI-DTYPE, NKI-SHAPE.

    Source: nl.zeros (nki/api/nki/language, NKI 0.6.0).

    Example::

        tile = nl.zeros((128, 64), nl.float32)
    """
    return _fill(shape, 0, dtype, buffer, name)


def ones(
    shape: int | Sequence[int], dtype: DTypeLike, buffer: MemoryRegion | str = _sbuf, name: str = ""
) -> NkiTensor:
    """A new tensor of ones.

    Args:
        shape: the extents; on chip the first one is the partitions, at most 128.
        dtype: of the result, such as nl.bfloat16; that of the operand when None.
        buffer: the memory: nl.sbuf, nl.psum, nl.private_hbm or nl.shared_hbm.
        name: of the tensor, as files and profiles show it.

    Returns:
        NkiTensor: the new tensor.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-PARTITION, NKI-CAPACITY,
            NKI-BUFFER, NKI-DTYPE, NKI-SHAPE.

    Source: nl.ones (nki/api/nki/language, NKI 0.6.0).

    Example::

        tile = nl.ones((128, 64), nl.float32)
    """
    return _fill(shape, 1, dtype, buffer, name)


def full(
    shape: int | Sequence[int],
    fill_value: float,
    dtype: DTypeLike,
    buffer: MemoryRegion | str = _sbuf,
    name: str = "",
) -> NkiTensor:
    """A new tensor filled with one value.

    Args:
        shape: the extents; on chip the first one is the partitions, at most 128.
        fill_value: the number in every element.
        dtype: of the result, such as nl.bfloat16; that of the operand when None.
        buffer: the memory: nl.sbuf, nl.psum, nl.private_hbm or nl.shared_hbm.
        name: of the tensor, as files and profiles show it.

    Returns:
        NkiTensor: the new tensor.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-PARTITION, NKI-CAPACITY,
            NKI-BUFFER, NKI-DTYPE, NKI-SHAPE.

    Source: nl.full (nki/api/nki/language, NKI 0.6.0).

    Example::

        tile = nl.full((128, 64), 0.5, nl.float32)
    """
    return _fill(shape, fill_value, dtype, buffer, name)


def zeros_like(
    x: NkiTensor,
    dtype: DTypeLike | None = None,
    buffer: MemoryRegion | str | None = None,
    name: str = "",
) -> NkiTensor:
    """A new tensor of zeros with the shape of ``x``.

    Args:
        x: a tile in SBUF or PSUM.
        dtype: of the result, such as nl.bfloat16; that of the operand when None.
        buffer: the memory: nl.sbuf, nl.psum, nl.private_hbm or nl.shared_hbm.
        name: of the tensor, as files and profiles show it.

    Returns:
        NkiTensor: the new tensor.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-PARTITION, NKI-CAPACITY,
            NKI-BUFFER, NKI-DTYPE, NKI-SHAPE.

    Source: nl.zeros_like (nki/api/nki/language, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        tile = nl.zeros_like(a)
    """
    return _fill(x.shape, 0, dtype or x.dtype, buffer or x.buffer, name)


def load(src: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """A new SBUF tile with the values of an HBM tensor.

    Args:
        src: a tensor in HBM, two-dimensional for a transpose.
        dtype: of the result, such as nl.bfloat16; that of the operand when None.

    Returns:
        NkiTensor: the new tile in SBUF.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-PARTITION, NKI-CAPACITY,
            NKI-BUFFER, NKI-DTYPE, NKI-SHAPE.

    Source: nl.load (nki/api/nki/language, NKI 0.6.0).

    Example, given x (128, 512) float32 in HBM::

        tile = nl.load(x[0:64, :])
    """
    from nki_lang.isa.dma import dma_copy

    tile = ndarray(src.shape, dtype or src.dtype)
    dma_copy(tile, src)
    return tile


def store(dst: NkiTensor, value: NkiTensor) -> None:
    """Write an SBUF tile into an HBM tensor.

    Args:
        dst: the tensor written; None for a new one.
        value: a tile in SBUF.

    Returns:
        None.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-SHAPE, NKI-BUFFER.

    Source: nl.store (nki/api/nki/language, NKI 0.6.0).

    Example, given x (128, 512) float32 in HBM; a and b (128, 512) float32 tiles in SBUF::

        whole = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(whole, a)
    """
    from nki_lang.isa.dma import dma_copy

    dma_copy(dst, value)


def load_transpose2d(src: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """A new SBUF tile with the values of a 2-D HBM tensor, transposed.

    Args:
        src: a tensor in HBM, two-dimensional for a transpose.
        dtype: of the result, such as nl.bfloat16; that of the operand when None.

    Returns:
        NkiTensor: the new tile in SBUF.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-PARTITION, NKI-CAPACITY,
            NKI-BUFFER, NKI-DTYPE, NKI-SHAPE.

    Source: nl.load_transpose2d (nki/api/nki/language, NKI 0.6.0).

    Example::

        short = nl.ndarray((128, 64), nl.bfloat16, buffer=nl.private_hbm)
        nl.store(short, nl.full((128, 64), 1.0, nl.bfloat16))
        tile = nl.load_transpose2d(short)
    """
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


def shared_constant(constant: Array | str) -> NkiTensor:
    """An HBM tensor with the values of a NumPy array (or of a ``.npy`` file).

    Args:
        constant: a NumPy array, or the path of a .npy file.

    Returns:
        NkiTensor: the new tensor.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-DTYPE.

    Source: nl.shared_constant (nki/api/nki/language, NKI 0.6.0).

    Example::

        table = nl.shared_constant(np.arange(8, dtype=np.float32))
    """
    value = np.load(constant) if isinstance(constant, str) else np.asarray(constant)
    return _constant(value, _element(value.dtype))


def shared_identity_matrix(
    n: int, dtype: DTypeLike = "uint8", dst: NkiTensor | None = None
) -> NkiTensor:
    """The n x n identity in SBUF (or in ``dst``).

    Args:
        n: a number of elements.
        dtype: of the result, such as nl.bfloat16; that of the operand when None.
        dst: the tensor written; None for a new one.

    Returns:
        NkiTensor: the new tensor.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-PARTITION, NKI-CAPACITY,
            NKI-BUFFER, NKI-DTYPE, NKI-SHAPE.

    Source: nl.shared_identity_matrix (nki/api/nki/language, NKI 0.6.0).

    Example::

        eye = nl.shared_identity_matrix(128, dtype=nl.bfloat16)
    """
    from nki_lang.isa.dma import dma_copy

    element = _element(dtype) if dst is None else dst.dtype
    eye = np.eye(n, dtype=np.float32).astype(element.dtype)
    tile = ndarray((n, n), element) if dst is None else dst
    dma_copy(tile, _constant(eye, element))
    return tile


def random_seed(seed: NkiTensor) -> None:
    """Seed the generator that :func:`rand` uses.

    Args:
        seed: a tile of one 32-bit value.

    Returns:
        None.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-SHAPE.

    Source: nl.random_seed (nki/api/nki/language, NKI 0.6.0).

    Example::

        nl.random_seed(nl.full((1, 1), 7, nl.uint32))
    """
    from nki_lang.isa.random import set_rng_seed

    set_rng_seed(seed)


def rand(
    shape: int | Sequence[int], dtype: DTypeLike, buffer: MemoryRegion | str = _sbuf, name: str = ""
) -> NkiTensor:
    """A new tensor of uniform random numbers in [0, 1).

    24 random bits of each element become the fraction, which float32 holds exactly.

    Args:
        shape: the extents; on chip the first one is the partitions, at most 128.
        dtype: of the result, such as nl.bfloat16; that of the operand when None.
        buffer: the memory: nl.sbuf, nl.psum, nl.private_hbm or nl.shared_hbm.
        name: of the tensor, as files and profiles show it.

    Returns:
        NkiTensor: the new tensor.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-PARTITION, NKI-CAPACITY,
            NKI-BUFFER, NKI-DTYPE, NKI-SHAPE.

    Source: nl.rand (nki/api/nki/language, NKI 0.6.0).

    Example::

        tile = nl.rand((128, 64), nl.float32)
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
