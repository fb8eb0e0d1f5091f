"""Several cores of one logical core.

The rules of each instruction are in its row of :mod:`nki_lang.isa.table`.
"""

from __future__ import annotations

from collections.abc import Sequence

from nki_lang.base.errors import fail
from nki_lang.frontend import operators
from nki_lang.frontend.builder import current
from nki_lang.frontend.operators import Operator
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.ir import Engine
from nki_lang.isa.elementwise import tensor_tensor
from nki_lang.isa.enums import dma_engine, engine
from nki_lang.isa.issue import NkiInstruction, issue
from nki_lang.isa.table import TABLE

__all__ = ["barrier", "core_barrier", "sendrecv", "sendrecv_compute"]


def core_barrier(
    data: NkiTensor, cores: Sequence[int], engine: Engine = engine.gpsimd, name: str | None = None
) -> NkiInstruction:
    """Wait until both cores have come here (trn2).

    Args:
        data: tensor read, in SBUF or PSUM or HBM.
        cores: the cores that wait for each other: (0, 1).
        engine: the engine that runs it; unknown lets the compiler choose.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-CORES.

    Rules:
        cores is (0, 1), the two cores of a logical core (NKI-CORES).

    Engines: GpSimd or Scalar or Sync or Tensor or Vector on trn2, trn3.
    Source: nisa.core_barrier (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        shared = nl.ndarray((2, 128, 512), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=shared[nl.program_id(0)], src=a)
        nisa.core_barrier(data=shared, cores=(0, 1))
    """
    return issue(TABLE["core_barrier"], (data, cores), engine, name)


def sendrecv(
    src: NkiTensor,
    dst: NkiTensor,
    send_to_rank: int,
    recv_from_rank: int,
    pipe_id: int,
    dma_engine: dma_engine = dma_engine.dma,
    name: str | None = None,
) -> NkiInstruction:
    """Send ``src`` to one core and receive ``dst`` from another (trn2).

    Args:
        src: tile read, in SBUF.
        dst: tile written, in SBUF.
        send_to_rank: the core that data go to: 0 or 1.
        recv_from_rank: the core that data come from: 0 or 1.
        pipe_id: a number that tells exchanges apart which are under way at one time.
        dma_engine: who moves the data between the cores.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-SHAPE, NKI-CORES, NKI-SIZE.

    Rules:
        dst, src have the same partitions and the same elements per partition (NKI-SHAPE).
        dst, src have the same dtype (NKI-DTYPE).
        ranks are 0 or 1 (NKI-CORES).
        gpsimd_dma moves at most 256 elements per partition (NKI-SIZE).

    Engines: DMA on trn2, trn3.
    Source: nisa.sendrecv (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF; out a (128, 512) float32 tile::

        other = 1 - nl.program_id(0)
        nisa.sendrecv(src=a, dst=out, send_to_rank=other, recv_from_rank=other, pipe_id=0)
    """
    return issue(
        TABLE["sendrecv"],
        (src, dst, send_to_rank, recv_from_rank, pipe_id, dma_engine),
        Engine.unknown,
        name,
    )


def sendrecv_compute(
    src: NkiTensor,
    dst: NkiTensor,
    send_to_rank: int,
    recv_from_rank: int,
    reduce_op: Operator,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = reduce_op(src, the tile of the other core)``: an exchange and a reduction (trn2).

    The kernel IR holds the exchange and the reduction as two instructions.

    Args:
        src: tile read, in SBUF.
        dst: tile written, in SBUF.
        send_to_rank: the core that data go to: 0 or 1.
        recv_from_rank: the core that data come from: 0 or 1.
        reduce_op: nl.add, nl.maximum or nl.minimum.
        name: a label of the reduction, for schedules and profiles.

    Returns:
        NkiInstruction: the reduction, for depends_on.

    Raises:
        NkiValidationError: NKI-OPERATOR; NKI-BUFFER, tensors in HBM are not supported; or a rule
            of :func:`sendrecv`.

    Source: nisa.sendrecv_compute (nki/api, NKI 0.7.0).

    Example, given tiles a and out::

        other = 1 - nl.program_id(0)
        nisa.sendrecv_compute(a, out, other, other, nl.add)
    """
    if reduce_op not in (operators.add, operators.maximum, operators.minimum):
        fail(f"sendrecv_compute with reduce_op={reduce_op!r}", "NKI-OPERATOR",
             "use nl.add, nl.maximum or nl.minimum",
             "nisa.sendrecv_compute (nki/api, NKI 0.7.0)")  # fmt: skip
    storage = current().new_tensor(src.shape, src.dtype, src.buffer, "", None)
    received = NkiTensor(src.shape, src.dtype, storage, src.buffer)
    sendrecv(src, received, send_to_rank, recv_from_rank, 0)
    return tensor_tensor(dst, src, received, reduce_op, name=name)


def barrier(
    data: NkiTensor | None = None, engine: Engine = Engine.gpsimd, name: str | None = None
) -> NkiInstruction | None:
    """Wait until all cores of the logical core have come here.

    The documented list of nki.isa has :func:`core_barrier` alone; kernels that call
    ``nisa.barrier()`` mean that one over all cores. Without ``data`` the last shared HBM tensor
    stands for what is synchronised. On one core it does nothing; ``engine`` and ``name`` are those
    of the instruction.
    """
    builder = current()
    if builder.lnc < 2:
        return None
    if data is None:
        storage = builder.shared_tensor()
        data = NkiTensor(storage.shape, storage.dtype, storage, storage.buffer)
    return core_barrier(data, tuple(range(builder.lnc)), engine, name)
