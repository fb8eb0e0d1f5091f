"""The public names of ``nki.collectives``.

A rank is one launch of the kernel; a replica group lists the ranks that take part together.
"""

from __future__ import annotations

from nki_lang.base.errors import missing_attribute
from nki_lang.frontend.builder import current
from nki_lang.frontend.operators import Operator
from nki_lang.frontend.registers import VirtualRegister
from nki_lang.frontend.replica_groups import ReplicaGroup, rg_partition_op
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.frontend.view import refuse
from nki_lang.ir import Engine
from nki_lang.isa.issue import NkiInstruction, issue
from nki_lang.isa.prepared import (
    all_gather_v_prepare,
    all_gather_v_trigger,
    all_to_all_v_prepare,
    all_to_all_v_trigger,
)
from nki_lang.isa.table import TABLE

__all__ = [
    "ReplicaGroup",
    "all_gather",
    "all_gather_v",
    "all_gather_v_prepare",
    "all_gather_v_trigger",
    "all_reduce",
    "all_to_all",
    "all_to_all_v",
    "all_to_all_v_prepare",
    "all_to_all_v_trigger",
    "collective_permute",
    "collective_permute_implicit",
    "collective_permute_implicit_current_processing_rank_id",
    "collective_permute_implicit_reduce",
    "rank_id",
    "reduce_scatter",
    "rg_partition_op",
]

_SOURCE = "nki.collectives (nki/api/nki/collectives)"


def _issue(op: str, values: tuple[object, ...], name: str | None) -> NkiInstruction:
    current().has_collectives = True
    return issue(TABLE[op], values, Engine.unknown, name)


def all_reduce(
    srcs: list[NkiTensor],
    dsts: list[NkiTensor],
    replica_group: ReplicaGroup,
    op: Operator,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Every rank of a group gets the reduction of the sources of all.

    Args:
        srcs: tensors read, in SBUF or HBM.
        dsts: tensors written, in SBUF or HBM.
        replica_group: the ranks that take part together.
        op: an operator of nki.language, such as nl.add.
        priority: 0 to 3, on trn3 and later; None for the default.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-COLLECTIVE, NKI-OPERATOR, NKI-PRIORITY.

    Rules:
        all tensors are in HBM or all are in SBUF; several only in HBM; sources and destinations
            pair up (NKI-COLLECTIVE).
        replica_group is an ncc.ReplicaGroup, or lists of ranks (NKI-COLLECTIVE).
        op is one of add, maximum, minimum (NKI-OPERATOR).
        each destination has as many elements as its source (NKI-COLLECTIVE).
        priority is 0 to 3, on trn3 and later (NKI-PRIORITY).

    Engines: DMA on trn1, trn2, trn3.
    Source: nisa.all_reduce (nki/api/nki/isa, NKI 0.6.0).

    Example, given x (128, 512) float32 in HBM; group ReplicaGroup([[0]])::

        total = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
        ncc.all_reduce(srcs=[x], dsts=[total], replica_group=group, op=nl.add)
    """
    return _issue("all_reduce", (srcs, dsts, replica_group, op, priority), name)


def all_gather(
    srcs: list[NkiTensor],
    dsts: list[NkiTensor],
    replica_group: ReplicaGroup,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Every rank gets the sources of all, one behind the other along ``collective_dim``.

    Args:
        srcs: tensors read, in SBUF or HBM.
        dsts: tensors written, in SBUF or HBM.
        replica_group: the ranks that take part together.
        collective_dim: the dimension along which parts lie one behind the other.
        priority: 0 to 3, on trn3 and later; None for the default.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-COLLECTIVE, NKI-PRIORITY.

    Rules:
        all tensors are in HBM or all are in SBUF; several only in HBM; sources and destinations
            pair up (NKI-COLLECTIVE).
        replica_group is an ncc.ReplicaGroup, or lists of ranks (NKI-COLLECTIVE).
        collective_dim is 0; 1 only for an all_gather in SBUF (NKI-COLLECTIVE).
        priority is 0 to 3, on trn3 and later (NKI-PRIORITY).

    Engines: DMA on trn1, trn2, trn3.
    Source: nisa.all_gather (nki/api/nki/isa, NKI 0.6.0).

    Example, given x (128, 512) float32 in HBM; group ReplicaGroup([[0]])::

        whole = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
        ncc.all_gather(srcs=[x], dsts=[whole], replica_group=group, collective_dim=0)
    """
    _check_scale(srcs, dsts, replica_group, "gather")
    return _issue("all_gather", (srcs, dsts, replica_group, collective_dim, priority), name)


def all_gather_v(
    srcs: list[NkiTensor],
    dsts: list[NkiTensor],
    replica_group: ReplicaGroup,
    metadata_tensor: NkiTensor,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """``all_gather`` with counts read from ``metadata_tensor`` at run time.

    Args:
        srcs: tensors read, in HBM.
        dsts: tensors written, in HBM.
        replica_group: the ranks that take part together.
        metadata_tensor: tensor read and written, in SBUF or HBM, of uint32.
        recv_counts_known: the counts in metadata_tensor include what is received.
        has_rdispls: metadata_tensor has a row of offsets of what is received.
        priority: 0 to 3, on trn3 and later; None for the default.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-COLLECTIVE, NKI-PRIORITY.

    Rules:
        all tensors are in HBM or all are in SBUF; several only in HBM; sources and destinations
            pair up (NKI-COLLECTIVE).
        replica_group is an ncc.ReplicaGroup, or lists of ranks (NKI-COLLECTIVE).
        the metadata is uint32 of shape (rows, ranks), in SBUF (1, rows, ranks); rows is 3, or 4
            with has_rdispls (NKI-COLLECTIVE).
        priority is 0 to 3, on trn3 and later (NKI-PRIORITY).

    Engines: DMA on trn1, trn2, trn3.
    Source: nisa.all_gather_v (nki/api/nki/isa, NKI 0.6.0).

    Example, given x (128, 512) float32 in HBM; group ReplicaGroup([[0]])::

        counts = nl.ndarray((1, 3, 1), nl.uint32, buffer=nl.sbuf)
        nisa.memset(counts, 0)
        whole = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
        ncc.all_gather_v(srcs=[x], dsts=[whole], replica_group=group, metadata_tensor=counts)
    """
    values = (srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls, priority)
    return _issue("all_gather_v", values, name)


def reduce_scatter(
    srcs: list[NkiTensor],
    dsts: list[NkiTensor],
    replica_group: ReplicaGroup,
    collective_dim: int,
    op: Operator,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Every rank gets its part, along ``collective_dim``, of the reduction of all sources.

    Args:
        srcs: tensors read, in SBUF or HBM.
        dsts: tensors written, in SBUF or HBM.
        replica_group: the ranks that take part together.
        collective_dim: the dimension along which parts lie one behind the other.
        op: an operator of nki.language, such as nl.add.
        priority: 0 to 3, on trn3 and later; None for the default.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-COLLECTIVE, NKI-OPERATOR, NKI-PRIORITY.

    Rules:
        all tensors are in HBM or all are in SBUF; several only in HBM; sources and destinations
            pair up (NKI-COLLECTIVE).
        replica_group is an ncc.ReplicaGroup, or lists of ranks (NKI-COLLECTIVE).
        op is one of add, maximum, minimum (NKI-OPERATOR).
        collective_dim is 0; 1 only for an all_gather in SBUF (NKI-COLLECTIVE).
        priority is 0 to 3, on trn3 and later (NKI-PRIORITY).

    Engines: DMA on trn1, trn2, trn3.
    Source: nisa.reduce_scatter (nki/api/nki/isa, NKI 0.6.0).

    Example, given x (128, 512) float32 in HBM; group ReplicaGroup([[0]])::

        part = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
        ncc.reduce_scatter(srcs=[x], dsts=[part], replica_group=group, collective_dim=0, op=nl.add)
    """
    _check_scale(dsts, srcs, replica_group, "scatter")
    return _issue("reduce_scatter", (srcs, dsts, replica_group, collective_dim, op, priority), name)


def all_to_all(
    srcs: list[NkiTensor],
    dsts: list[NkiTensor],
    replica_group: ReplicaGroup,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Part ``j`` of the source of rank ``i`` becomes part ``i`` of the result of rank ``j``.

    Args:
        srcs: tensors read, in HBM.
        dsts: tensors written, in HBM.
        replica_group: the ranks that take part together.
        collective_dim: the dimension along which parts lie one behind the other.
        priority: 0 to 3, on trn3 and later; None for the default.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-COLLECTIVE, NKI-PRIORITY.

    Rules:
        all tensors are in HBM or all are in SBUF; several only in HBM; sources and destinations
            pair up (NKI-COLLECTIVE).
        replica_group is an ncc.ReplicaGroup, or lists of ranks (NKI-COLLECTIVE).
        collective_dim is 0; 1 only for an all_gather in SBUF (NKI-COLLECTIVE).
        each destination has as many elements as its source (NKI-COLLECTIVE).
        priority is 0 to 3, on trn3 and later (NKI-PRIORITY).

    Engines: DMA on trn1, trn2, trn3.
    Source: nisa.all_to_all (nki/api/nki/isa, NKI 0.6.0).

    Example, given x (128, 512) float32 in HBM; group ReplicaGroup([[0]])::

        parts = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
        ncc.all_to_all(srcs=[x], dsts=[parts], replica_group=group, collective_dim=0)
    """
    return _issue("all_to_all", (srcs, dsts, replica_group, collective_dim, priority), name)


def all_to_all_v(
    srcs: list[NkiTensor],
    dsts: list[NkiTensor],
    replica_group: ReplicaGroup,
    metadata_tensor: NkiTensor,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """``all_to_all`` with counts read from ``metadata_tensor`` at run time.

    Args:
        srcs: tensors read, in HBM.
        dsts: tensors written, in HBM.
        replica_group: the ranks that take part together.
        metadata_tensor: tensor read and written, in SBUF or HBM, of uint32.
        recv_counts_known: the counts in metadata_tensor include what is received.
        has_rdispls: metadata_tensor has a row of offsets of what is received.
        priority: 0 to 3, on trn3 and later; None for the default.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-COLLECTIVE, NKI-PRIORITY.

    Rules:
        all tensors are in HBM or all are in SBUF; several only in HBM; sources and destinations
            pair up (NKI-COLLECTIVE).
        replica_group is an ncc.ReplicaGroup, or lists of ranks (NKI-COLLECTIVE).
        the metadata is uint32 of shape (rows, ranks), in SBUF (1, rows, ranks); rows is 3, or 4
            with has_rdispls (NKI-COLLECTIVE).
        priority is 0 to 3, on trn3 and later (NKI-PRIORITY).

    Engines: DMA on trn1, trn2, trn3.
    Source: nisa.all_to_all_v (nki/api/nki/isa, NKI 0.6.0).

    Example, given x (128, 512) float32 in HBM; group ReplicaGroup([[0]])::

        counts = nl.ndarray((1, 3, 1), nl.uint32, buffer=nl.sbuf)
        nisa.memset(counts, 0)
        parts = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
        ncc.all_to_all_v(srcs=[x], dsts=[parts], replica_group=group, metadata_tensor=counts)
    """
    values = (srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls, priority)
    return _issue("all_to_all_v", values, name)


def collective_permute(
    srcs: list[NkiTensor],
    dsts: list[NkiTensor],
    source_target_pairs: list[tuple[int, int]],
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """The source of one rank becomes the result of another, for each (source, target).

    Args:
        srcs: tensors read, in HBM.
        dsts: tensors written, in HBM.
        source_target_pairs: (rank that sends, rank that receives).
        priority: 0 to 3, on trn3 and later; None for the default.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-COLLECTIVE, NKI-PRIORITY.

    Rules:
        all tensors are in HBM or all are in SBUF; several only in HBM; sources and destinations
            pair up (NKI-COLLECTIVE).
        one tensor on each side, and every rank at most once as source and once as target
            (NKI-COLLECTIVE).
        each destination has as many elements as its source (NKI-COLLECTIVE).
        priority is 0 to 3, on trn3 and later (NKI-PRIORITY).

    Engines: DMA on trn1, trn2, trn3.
    Source: nisa.collective_permute (nki/api/nki/isa, NKI 0.6.0).

    Example, given x (128, 512) float32 in HBM::

        received = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
        ncc.collective_permute(srcs=[x], dsts=[received], source_target_pairs=[(0, 0)])
    """
    return _issue("collective_permute", (srcs, dsts, source_target_pairs, priority), name)


def collective_permute_implicit(
    srcs_by_channel: list[list[NkiTensor]],
    dsts_by_channel: list[list[NkiTensor]],
    replica_group: ReplicaGroup,
    channel_ids: list[int] = [0],  # noqa: B006  (the documented default; never changed)
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Each rank sends to the next of its ring, on several channels at once.

    Args:
        srcs_by_channel: tensors read, in SBUF or HBM.
        dsts_by_channel: tensors written, in SBUF or HBM.
        replica_group: the ranks that take part together.
        channel_ids: the channels of the ring, from 0, one for each list of tensors.
        priority: 0 to 3, on trn3 and later; None for the default.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-COLLECTIVE, NKI-PRIORITY.

    Rules:
        replica_group is an ncc.ReplicaGroup, or lists of ranks (NKI-COLLECTIVE).
        channel_ids count from 0, at most four, with one tensor for each (NKI-COLLECTIVE).
        each destination has as many elements as its source (NKI-COLLECTIVE).
        priority is 0 to 3, on trn3 and later (NKI-PRIORITY).

    Engines: DMA on trn1, trn2, trn3.
    Source: nisa.collective_permute_implicit (nki/api/nki/isa, NKI 0.6.0).

    Example, given x (128, 512) float32 in HBM; group ReplicaGroup([[0]])::

        received = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
        ncc.collective_permute_implicit([[x]], [[received]], replica_group=group, channel_ids=[0])
    """
    values = (srcs_by_channel, dsts_by_channel, replica_group, channel_ids, priority)
    return _issue("collective_permute_implicit", values, name)


def collective_permute_implicit_reduce(
    srcs0_by_channel: list[list[NkiTensor]],
    srcs1_by_channel: list[list[NkiTensor]],
    dsts_by_channel: list[list[NkiTensor]],
    replica_group: ReplicaGroup,
    op: Operator,
    channel_ids: list[int] = [0],  # noqa: B006  (the documented default; never changed)
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Each rank sends ``srcs0 <op> srcs1`` to the next of its ring.

    Args:
        srcs0_by_channel: tensors read, in SBUF or HBM.
        srcs1_by_channel: tensors read, in SBUF or HBM.
        dsts_by_channel: tensors written, in SBUF or HBM.
        replica_group: the ranks that take part together.
        op: an operator of nki.language, such as nl.add.
        channel_ids: the channels of the ring, from 0, one for each list of tensors.
        priority: 0 to 3, on trn3 and later; None for the default.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-COLLECTIVE, NKI-OPERATOR, NKI-PRIORITY.

    Rules:
        replica_group is an ncc.ReplicaGroup, or lists of ranks (NKI-COLLECTIVE).
        op is one of add, maximum, minimum (NKI-OPERATOR).
        channel_ids count from 0, at most four, with one tensor for each (NKI-COLLECTIVE).
        each destination has as many elements as its source (NKI-COLLECTIVE).
        priority is 0 to 3, on trn3 and later (NKI-PRIORITY).

    Engines: DMA on trn1, trn2, trn3.
    Source: nisa.collective_permute_implicit_reduce (nki/api/nki/isa, NKI 0.6.0).

    Example, given x (128, 512) float32 in HBM; group ReplicaGroup([[0]])::

        received = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
        ncc.collective_permute_implicit_reduce([[x]], [[x]], [[received]], replica_group=group, op=nl.add)
    """
    values = (
        srcs0_by_channel, srcs1_by_channel, dsts_by_channel, replica_group, op, channel_ids,
        priority,
    )  # fmt: skip
    return _issue("collective_permute_implicit_reduce", values, name)


def collective_permute_implicit_current_processing_rank_id(
    iteration_id: int,
    replica_group: ReplicaGroup,
    channel_id: int = 0,
    name: str | None = None,
) -> VirtualRegister:
    """A register with the rank whose data a ring step works on.

    Args:
        iteration_id: the step of the ring, from 0.
        replica_group: the ranks that take part together.
        channel_id: the channel of the ring, from 0.
        name: a label, for schedules and profiles.

    Returns:
        VirtualRegister: the rank.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-COLLECTIVE.

    Rules:
        replica_group is an ncc.ReplicaGroup, or lists of ranks (NKI-COLLECTIVE).

    Engines: GpSimd or Scalar or Sync or Tensor or Vector on trn1, trn2, trn3.
    Source: nisa.collective_permute_implicit_current_processing_rank_id (nki/api/nki/isa, NKI 0.6.0).

    Example, given group ReplicaGroup([[0]])::

        rank = ncc.collective_permute_implicit_current_processing_rank_id(0, replica_group=group)
    """
    register = VirtualRegister(current().new_register("rank"))
    values = (register, iteration_id, replica_group, channel_id)
    _issue("collective_permute_implicit_current_processing_rank_id", values, name)
    return register


def rank_id(name: str | None = None) -> VirtualRegister:
    """A register with the rank of this launch.

    Args:
        name: a label, for schedules and profiles.

    Returns:
        VirtualRegister: the rank.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE.

    Engines: GpSimd or Scalar or Sync or Tensor or Vector on trn1, trn2, trn3.
    Source: nisa.rank_id (nki/api/nki/isa, NKI 0.6.0).

    Example::

        rank = ncc.rank_id()
    """
    register = VirtualRegister(current().new_register("rank"))
    _issue("rank_id", (register,), name)
    return register


def _check_scale(
    parts: list[NkiTensor], wholes: list[NkiTensor], group: ReplicaGroup, what: str
) -> None:
    """The larger side holds one part for each rank of a group."""
    ranks = {len(ranks) for ranks in group.replica_groups}
    if len(ranks) != 1:
        return
    (count,) = ranks
    for extent, full_extent in zip(parts, wholes, strict=False):
        if full_extent.size != extent.size * count:
            refuse(
                extent,
                f"a {what} over {count} ranks pairs {extent.shape} with {full_extent.shape}",
                "NKI-COLLECTIVE",
                f"the larger tensor holds {count} times the elements of the smaller",
                _SOURCE,
            )


__getattr__ = missing_attribute("nki.collectives", __all__)
