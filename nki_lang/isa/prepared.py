"""Collectives of NKI 0.7 in two steps: prepared from their metadata, triggered when data are there.

The metadata are copied when a collective is prepared, so that later writes do not change it. The
trigger issues the collective with the copy, and writes received counts back into the metadata.

Source: nki.collectives.all_to_all_v_prepare and its neighbors (nki/api, NKI 0.7.0).
"""

from __future__ import annotations

from collections.abc import Sequence

from nki_lang.base.errors import NkiTypeError, fail
from nki_lang.base.memory import ON_CHIP, MemoryRegion
from nki_lang.frontend.builder import current
from nki_lang.frontend.replica_groups import ReplicaGroup
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.ir import Engine, Instruction
from nki_lang.isa.checks import validate
from nki_lang.isa.dma import dma_copy
from nki_lang.isa.issue import NkiInstruction, issue
from nki_lang.isa.movement import tensor_copy
from nki_lang.isa.table import TABLE

__all__ = [
    "PreparedCollective",
    "all_gather_v_prepare",
    "all_gather_v_trigger",
    "all_to_all_v_prepare",
    "all_to_all_v_trigger",
]

_SOURCE = "nki.collectives.all_to_all_v_prepare (nki/api, NKI 0.7.0)"
_RECEIVED_COUNTS = slice(2, 3)
"""The row of the metadata that a collective writes."""


class PreparedCollective(NkiInstruction):
    """The handle of a prepared collective, which its trigger takes.

    Args:
        handle: the instruction that copies the metadata.
        op: the collective.
        values: its operands, with the copy of the metadata.
        metadata: the tensor that received counts are written to.
    """

    __slots__ = ("block", "metadata", "op", "values")

    def __init__(
        self, handle: Instruction, op: str, values: tuple[object, ...], metadata: NkiTensor
    ) -> None:
        super().__init__(handle)
        self.op = op
        self.values = values
        self.metadata = metadata
        self.block = current().block


def _prepare(
    op: str,
    tensors: tuple[Sequence[NkiTensor], Sequence[NkiTensor], object],
    metadata: NkiTensor,
    options: tuple[bool, bool, int | None],
    name: str | None,
) -> PreparedCollective:
    """Check a collective, and copy its metadata.

    Args:
        op: ``all_to_all_v`` or ``all_gather_v``.
        tensors: sources, destinations and the replica group.
        metadata: counts and offsets, valid already.
        options: recv_counts_known, has_rdispls and priority.
        name: a label.

    Raises:
        NkiValidationError: a rule of the collective, or NKI-COLLECTIVE: another one is prepared
            and has not been triggered.
    """
    builder = current()
    if builder.prepared is not None:
        fail(f"{op} is prepared while another collective waits for its trigger", "NKI-COLLECTIVE",
             "trigger the first one before: there is one slot", _SOURCE)  # fmt: skip
    validate(TABLE[op], (*tensors, metadata, *options), Engine.unknown, builder)
    on_chip = metadata.buffer in ON_CHIP
    region = metadata.buffer if on_chip else MemoryRegion.private_hbm
    storage = builder.new_tensor(metadata.shape, metadata.dtype, region, "", None)
    metadata_copy = NkiTensor(metadata.shape, metadata.dtype, storage, region)
    copy = tensor_copy if on_chip else dma_copy
    copied = copy(metadata_copy, metadata, name=name)
    values = (*tensors, metadata_copy, *options)
    prepared = PreparedCollective(copied.handle, op, values, metadata)
    builder.prepared = prepared
    return prepared


def _trigger(op: str, prepared: object, name: str | None) -> NkiInstruction:
    """Issue a prepared collective.

    Raises:
        NkiValidationError: code ``NKI-COLLECTIVE``; it is not the collective that was prepared
            last, or it was prepared inside or outside of a loop that the trigger is not in.
    """
    builder = current()
    if not isinstance(prepared, PreparedCollective) or prepared.op != op:
        fail(f"{op}_trigger takes what {op}_prepare returned, not {prepared!r}", "NKI-COLLECTIVE",
             f"keep the result of ncc.{op}_prepare", _SOURCE, NkiTypeError)  # fmt: skip
    if builder.prepared is not prepared:
        fail(f"{op} was triggered before", "NKI-COLLECTIVE",
             "prepare it again: each has exactly one trigger", _SOURCE)  # fmt: skip
    if not builder.eager and builder.block is not prepared.block:
        fail(f"{op} is triggered in another loop than it was prepared in", "NKI-COLLECTIVE",
             "write both in the body of one loop", _SOURCE)  # fmt: skip
    builder.prepared = None
    builder.has_collectives = True
    handle = issue(TABLE[op], prepared.values, Engine.unknown, name)
    recv_counts_known = prepared.values[4]
    if not recv_counts_known:
        _write_received_counts(prepared)
    return handle


def _write_received_counts(prepared: PreparedCollective) -> None:
    metadata, metadata_copy = prepared.metadata, prepared.values[3]
    assert isinstance(metadata_copy, NkiTensor)
    on_chip = metadata.buffer in ON_CHIP
    rows = (slice(None), _RECEIVED_COUNTS) if on_chip else (_RECEIVED_COUNTS,)
    (tensor_copy if on_chip else dma_copy)(metadata[rows], metadata_copy[rows])


def all_gather_v_prepare(
    srcs: list[NkiTensor],
    dsts: list[NkiTensor],
    replica_group: ReplicaGroup,
    metadata_tensor: NkiTensor,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Prepare an ``all_gather_v`` from its metadata; sources may be filled later.

    Args:
        srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls, priority, name:
            those of ``ncc.all_gather_v``. The metadata are valid when this is called.

    Returns:
        NkiInstruction: what :func:`all_gather_v_trigger` takes, once and before anything else is prepared.

    Raises:
        NkiValidationError: a rule of ``ncc.all_gather_v``, or NKI-COLLECTIVE.

    Source: nki.collectives.all_gather_v_prepare (nki/api, NKI 0.7.0).
    """
    options = (recv_counts_known, has_rdispls, priority)
    return _prepare("all_gather_v", (srcs, dsts, replica_group), metadata_tensor, options, name)


def all_gather_v_trigger(prepare_instr: NkiInstruction, name: str | None = None) -> NkiInstruction:
    """Run the prepared ``all_gather_v``: read its sources and write its destinations.

    Args:
        prepare_instr: what :func:`all_gather_v_prepare` returned.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on.

    Raises:
        NkiValidationError: code ``NKI-COLLECTIVE``; nothing of this kind waits for a trigger.

    Source: nki.collectives.all_gather_v_trigger (nki/api, NKI 0.7.0).
    """
    return _trigger("all_gather_v", prepare_instr, name)


def all_to_all_v_prepare(
    srcs: list[NkiTensor],
    dsts: list[NkiTensor],
    replica_group: ReplicaGroup,
    metadata_tensor: NkiTensor,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Prepare an ``all_to_all_v`` from its metadata; sources may be filled later.

    Args:
        srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls, priority, name:
            those of ``ncc.all_to_all_v``. The metadata are valid when this is called.

    Returns:
        NkiInstruction: what :func:`all_to_all_v_trigger` takes, once and before anything else is prepared.

    Raises:
        NkiValidationError: a rule of ``ncc.all_to_all_v``, or NKI-COLLECTIVE.

    Source: nki.collectives.all_to_all_v_prepare (nki/api, NKI 0.7.0).
    """
    options = (recv_counts_known, has_rdispls, priority)
    return _prepare("all_to_all_v", (srcs, dsts, replica_group), metadata_tensor, options, name)


def all_to_all_v_trigger(prepare_instr: NkiInstruction, name: str | None = None) -> NkiInstruction:
    """Run the prepared ``all_to_all_v``: read its sources and write its destinations.

    Args:
        prepare_instr: what :func:`all_to_all_v_prepare` returned.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on.

    Raises:
        NkiValidationError: code ``NKI-COLLECTIVE``; nothing of this kind waits for a trigger.

    Source: nki.collectives.all_to_all_v_trigger (nki/api, NKI 0.7.0).
    """
    return _trigger("all_to_all_v", prepare_instr, name)
