"""Copies and fills on chip.

The rules of each instruction are in its row of :mod:`nki_lang.isa.table`.
"""

from __future__ import annotations

from typing import Any

from nki_lang.frontend.tensor import NkiTensor
from nki_lang.ir import Engine
from nki_lang.isa.enums import engine
from nki_lang.isa.issue import NkiInstruction, issue
from nki_lang.isa.older import takes_dtype
from nki_lang.isa.table import TABLE

__all__ = ["memset", "nc_stream_shuffle", "tensor_copy", "tensor_copy_predicated"]


@takes_dtype
def tensor_copy(
    dst: NkiTensor, src: NkiTensor, engine: Engine = engine.unknown, name: str | None = None
) -> NkiInstruction:
    """Copy a tile; bit exact on Vector and GpSimd when the dtypes agree, else through float32."""
    return issue(TABLE["tensor_copy"], (dst, src), engine, name)


def memset(
    dst: NkiTensor, value: Any, engine: Engine = engine.unknown, name: str | None = None
) -> NkiInstruction:
    """Fill ``dst`` with a constant."""
    return issue(TABLE["memset"], (dst, value), engine, name)


def tensor_copy_predicated(
    dst: NkiTensor,
    src: float | NkiTensor,
    predicate: NkiTensor,
    reverse_pred: Any = False,
    name: str | None = None,
) -> NkiInstruction:
    """Copy ``src`` to ``dst`` where ``predicate`` is not zero, and leave the rest of ``dst``."""
    return issue(
        TABLE["tensor_copy_predicated"], (dst, src, predicate, reverse_pred), Engine.unknown, name
    )


def nc_stream_shuffle(
    dst: NkiTensor, src: NkiTensor, shuffle_mask: Any, name: str | None = None
) -> NkiInstruction:
    """Move data between the partitions of each quadrant of 32 by ``shuffle_mask``.

    ``dst`` partition ``i`` takes ``src`` partition ``shuffle_mask[i]``; 255 leaves it as it is."""
    return issue(TABLE["nc_stream_shuffle"], (dst, src, shuffle_mask), Engine.unknown, name)
