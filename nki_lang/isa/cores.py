"""Several cores of one logical core.

The rules of each instruction are in its row of :mod:`nki_lang.isa.table`.
"""

from __future__ import annotations

from typing import Any

from nki_lang.frontend.builder import current
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.ir import Engine
from nki_lang.isa.enums import dma_engine, engine
from nki_lang.isa.issue import NkiInstruction, issue
from nki_lang.isa.table import TABLE

__all__ = ["barrier", "core_barrier", "sendrecv"]


def core_barrier(
    data: NkiTensor, cores: Any, engine: Engine = engine.gpsimd, name: str | None = None
) -> NkiInstruction:
    """Wait until both cores have come here (trn2)."""
    return issue(TABLE["core_barrier"], (data, cores), engine, name)


def sendrecv(
    src: Any,
    dst: Any,
    send_to_rank: Any,
    recv_from_rank: Any,
    pipe_id: Any,
    dma_engine: Any = dma_engine.dma,
    name: str | None = None,
) -> NkiInstruction:
    """Send ``src`` to one core and receive ``dst`` from another (trn2)."""
    return issue(
        TABLE["sendrecv"],
        (src, dst, send_to_rank, recv_from_rank, pipe_id, dma_engine),
        Engine.unknown,
        name,
    )


def barrier(data: Any = None, engine: Engine = Engine.gpsimd, name: str | None = None) -> Any:
    """Wait until all cores of the logical core have come here.

    The documented list of nki.isa has :func:`core_barrier` alone; kernels that call
    ``nisa.barrier()`` mean that one over all cores. Without ``data`` the last shared HBM tensor
    stands for what is synchronised. On one core it does nothing.
    """
    builder = current()
    if builder.lnc < 2:
        return None
    if data is None:
        storage = builder.shared_tensor()
        data = NkiTensor(storage.shape, storage.dtype, storage, storage.buffer)
    return core_barrier(data, tuple(range(builder.lnc)), engine, name)
