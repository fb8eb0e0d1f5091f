"""``nl.tile_size``: the sizes of the target, as plain integers."""

from __future__ import annotations

import os

from nki_lang.base.errors import warn_deprecated
from nki_lang.base.targets import Target, current_target
from nki_lang.frontend.builder import active
from nki_lang.frontend.objects import NKIObject

__all__ = ["_TileSize", "tile_size"]


def _target() -> Target:
    builder = active()
    return current_target() if builder is None else builder.target


class _TileSize(NKIObject):
    """Hardware tile sizes (tiling-overview.rst:96-98, nki.language.tile_size.rst).

    ``psum_min_align`` and ``sbuf_min_align``: the documents name these attributes without their
    values; 4 bytes is the smallest that holds for every dtype.
    """

    pmax: int = 128
    psum_fmax: int = 512
    psum_bank_fmax: int = 512
    psum_bank_fmax_bytes: int = 2048
    gemm_stationary_fmax: int = 128
    gemm_moving_fmax: int = 512
    bn_stats_fmax: int = 512
    psum_min_align: int = 4
    sbuf_min_align: int = 4

    def __init__(self) -> None:
        """The one instance is ``nl.tile_size``."""

    @property
    def psum_num_banks(self) -> int:
        """Usable PSUM banks: 8, or 7 when DMA transposes are lowered to the tensor engine."""
        reserved = os.environ.get("NKI_DMA_TRANSPOSE_AS_PE_TRANSPOSE", "").lower() == "true"
        return 7 if reserved and _target().generation >= 3 else _target().psum_banks

    @property
    def sbuf_size_bytes(self) -> int:
        """Bytes of SBUF in all partitions."""
        return _target().sbuf_partition_bytes * _target().partitions

    @property
    def sbuf_fmax(self) -> int:
        """Usable float32 elements in a partition of SBUF."""
        return _target().sbuf_usable_bytes // 4

    @property
    def sbuf_fmax_bytes(self) -> int:
        """Usable bytes in a partition of SBUF."""
        return _target().sbuf_usable_bytes

    @property
    def total_available_sbuf_size(self) -> int:
        """The same as ``sbuf_fmax_bytes`` (deprecated name)."""
        warn_deprecated(
            "nl.tile_size.total_available_sbuf_size is deprecated since NKI 0.4; write"
            " sbuf_fmax_bytes"
        )
        return _target().sbuf_usable_bytes


tile_size = _TileSize()
