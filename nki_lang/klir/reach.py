"""Nothing read from a file is trusted: where an access may point."""

from __future__ import annotations

from nki_lang.errors import NkiFileError
from nki_lang.ir.types import Access

__all__ = ["check_reach", "check_size"]

MAX_ELEMENTS = 1 << 40
_MAX_DIMENSIONS = 32


def _refused(access: Access, what: str) -> NkiFileError:
    return NkiFileError(
        f"an access to {access.tensor.name!r} {list(access.tensor.shape)} {what}",
        code="NKI-FILE-ACCESS",
        remedy="the file is damaged or was written by a tool that does not check its kernels",
    )


def check_size(name: str, shape: tuple[int, ...], offsets: tuple[int | None, int | None]) -> None:
    """Checks that a tensor could lie in some memory.

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
    """Checks that an access stays in its tensor, as far as the file alone shows.

    Offsets that registers and index tensors add are checked while the kernel runs.

    Raises:
        NkiFileError: code ``NKI-FILE-ACCESS``.
    """
    tensor = access.tensor
    if len(access.pattern) > _MAX_DIMENSIONS:
        raise _refused(access, f"has {len(access.pattern)} dimensions")
    if tensor.on_chip and not access.pattern:
        raise _refused(access, "has no dimension of partitions")
    if any(abs(number) > MAX_ELEMENTS for pair in access.pattern for number in pair):
        raise _refused(access, "has steps or extents beyond any memory")
    if not 0 <= access.indirect_dim < max(1, len(tensor.shape)):
        raise _refused(access, f"indexes its dimension {access.indirect_dim}")
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
        raise _refused(access, f"reads {count} elements")
    if count == 0 or access.is_dynamic:
        if not 0 <= access.offset <= size:
            raise _refused(access, f"begins at its element {access.offset}")
        return
    if low < 0 or high >= size:
        raise _refused(access, f"goes from its element {low} to {high}")
    if tensor.on_chip and tensor.shape:
        _check_columns(access, size // max(1, tensor.shape[0]))


def _check_columns(access: Access, width: int) -> None:
    """The free dimensions stay in the partition of ``width`` elements where they start."""
    low = high = access.offset % max(1, width)
    for step, extent in access.pattern[1:]:
        reach = step * (extent - 1)
        low, high = low + min(0, reach), high + max(0, reach)
    if low < 0 or high >= width:
        raise _refused(access, f"goes from element {low} to {high} of a partition of {width}")
