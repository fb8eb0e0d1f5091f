"""Checks the bounds of tensors and accesses that come from a file, which is not trusted."""

from __future__ import annotations

from nki_lang.base.errors import NkiFileError
from nki_lang.ir.types import Access

__all__ = ["check_reach", "check_size"]

MAX_ELEMENTS = 1 << 40
_MAX_DIMENSIONS = 32


def _bad_access(access: Access, fault: str) -> NkiFileError:
    return NkiFileError(
        f"an access to {access.tensor.name!r} {list(access.tensor.shape)} {fault}",
        code="NKI-FILE-ACCESS",
        remedy="the file is damaged or was written by a tool that does not check its kernels",
    )


def check_size(name: str, shape: tuple[int, ...], offsets: tuple[int | None, int | None]) -> None:
    """Check that some memory could contain a tensor of this size.

    Raises:
        NkiFileError: code ``NKI-FILE-ACCESS``.
    """
    elements = 1
    for extent in shape[:_MAX_DIMENSIONS]:
        elements *= max(extent, 1)
    far = any(offset is not None and offset > MAX_ELEMENTS for offset in offsets)
    if len(shape) > _MAX_DIMENSIONS or elements > MAX_ELEMENTS or far:
        raise NkiFileError(
            f"the tensor {name!r} of {len(shape)} dimensions fits into no memory",
            code="NKI-FILE-ACCESS",
            remedy="the file is damaged",
        )


def check_reach(access: Access) -> None:
    """Check that an access stays in its tensor, as far as the file alone shows.

    Offsets that registers and index tensors add are checked while the kernel runs.

    Raises:
        NkiFileError: code ``NKI-FILE-ACCESS``.
    """
    tensor = access.tensor
    if len(access.pattern) > _MAX_DIMENSIONS:
        raise _bad_access(access, f"has {len(access.pattern)} dimensions")
    if tensor.on_chip and not access.pattern:
        raise _bad_access(access, "has no dimension of partitions")
    if any(abs(number) > MAX_ELEMENTS for pair in access.pattern for number in pair):
        raise _bad_access(access, "has steps or extents beyond any memory")
    if not 0 <= access.indirect_dim < max(1, len(tensor.shape)):
        raise _bad_access(access, f"indexes its dimension {access.indirect_dim}")
    size = tensor.elements * tensor.dtype.itemsize // access.element_type.itemsize
    low = high = access.offset
    count = 1
    for step, extent in access.pattern:
        count *= extent
        if step > 0:
            high += step * (extent - 1)
        else:
            low += step * (extent - 1)
    if count > MAX_ELEMENTS:
        raise _bad_access(access, f"reads {count} elements")
    if count == 0 or access.is_dynamic:
        if not 0 <= access.offset <= size:
            raise _bad_access(access, f"begins at its element {access.offset}")
        return
    if low < 0 or high >= size:
        raise _bad_access(access, f"goes from its element {low} to {high}")
    if tensor.on_chip and tensor.shape:
        _check_columns(access, size // max(1, tensor.shape[0]))


def _check_columns(access: Access, width: int) -> None:
    """Check that the free dimensions stay in the partition of ``width`` elements where they
    start.
    """
    low = high = access.offset % max(1, width)
    for step, extent in access.pattern[1:]:
        reach = step * (extent - 1)
        low, high = low + min(0, reach), high + max(0, reach)
    if low < 0 or high >= width:
        raise _bad_access(access, f"goes from element {low} to {high} of a partition of {width}")
