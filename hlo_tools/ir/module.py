"""Module: a loaded HLO module, its computations, and how it is written again.

What edits, orders, prints and saves is imported when it is asked for: most modules are loaded to
be read.
"""

# pyright: reportPrivateUsage=false
# The views and what edits, writes and numbers them anew share the state behind the views.

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from hlo_tools import schema
from hlo_tools._messages import counted
from hlo_tools.errors import HloError, HloFileError
from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.types.aliases import Alias, of_module
from hlo_tools.types.ids import scheme_of
from hlo_tools.wire.large_constants import Envelope, LiteralRange, canonical, encode_varint, splice

if TYPE_CHECKING:
    from hlo_tools.schema.messages import HloComputationProto, HloModuleProto, OpMetadata, Payload
    from hlo_tools.schema.unknown import UnknownField
    from hlo_tools.text import PrintOptions
    from hlo_tools.wire.fields import Buffer

__all__ = ["Module"]

MANY_INSTRUCTIONS = 400
"""From so many instructions on, a module is searched for unknown fields as columns of its bytes."""
KERNEL_TARGET = "AwsNeuronCustomNativeKernel"


class Module:
    """A program in HLO: a view over a HloModuleProto, whatever file it came from.

    Args:
        proto: the HloModuleProto; the module works on it, not on a copy.
        original: the bytes that ``envelope`` was read from, written again while nothing changes.
        envelope: the message of the file, when the module is only a part of it (HloProto, ...).
        path: where it came from, for messages.
        allow_unknown_fields: pass over fields that this version does not know; see
            :meth:`require_known_fields`.

    Attributes:
        configuration: what the header of a text says and no message holds, such as
            ``{"num_partitions": "2"}``; it is printed again.
    """

    __slots__ = (
        "_behind",
        "_callers",
        "_computations",
        "_envelope",
        "_given",
        "_has_known_fields",
        "_kept",
        "_made",
        "_names",
        "_next_legacy_id",
        "_original",
        "_places",
        "_proto",
        "_unsettled",
        "allow_unknown_fields",
        "configuration",
        "pass_rows",
        "path",
    )

    def __init__(
        self,
        proto: HloModuleProto,
        *,
        original: Buffer | None = None,
        envelope: Envelope | None = None,
        path: str = "",
        allow_unknown_fields: bool = False,
    ) -> None:
        self._proto = proto
        self.allow_unknown_fields = allow_unknown_fields
        self._has_known_fields = False
        self._original = original
        self._computations: dict[int, Computation] | None = None
        self._names: dict[str, int] | None = None
        self._next_legacy_id: int | None = None
        self._kept: dict[tuple[int, int], LiteralRange] = {}
        self._made: set[int] = set()
        self._behind: bytes | None = None
        self._given = False
        self.pass_rows: dict[int, Any] | None = None
        self._unsettled: list[Computation] = []
        self._places: dict[int, int] | None = None
        self._callers: dict[int, dict[Instruction, None]] | None = None
        self._envelope = envelope
        self.path = path
        self.configuration: dict[str, str] = {}

    @classmethod
    def new(cls, name: str) -> Module:
        """An empty module."""
        return cls(schema.HloModuleProto(name=name))

    # Reading

    @property
    def proto(self) -> HloModuleProto:
        """The HloModuleProto, with every edit in it."""
        self._given = True
        self._settle()
        return self._proto

    @property
    def envelope(self) -> Envelope | None:
        """The message that the module is a part of (HloProto, ...), with every edit; else None."""
        self._settle()
        return self._envelope

    @property
    def name(self) -> str:
        """The name of the module."""
        return self._proto.name

    @property
    def folder(self) -> Path | None:
        """Folder of its file, which relative names of kernel files start from; None without one."""
        if not self.path or self.path.startswith("<"):
            return None
        return Path(self.path).parent

    @property
    def computations(self) -> tuple[Computation, ...]:
        """All computations in the file's order: called ones first, the entry usually last."""
        return tuple(self.by_id().values())

    @property
    def entry(self) -> Computation:
        """The computation where the program begins.

        Raises:
            HloFileError: the entry id names no computation (HLO-REFERENCE).
        """
        return self.computation_by_id(self._proto.entry_computation_id)

    @property
    def instructions(self) -> Iterator[Instruction]:
        """Every instruction of every computation."""
        for computation in self.computations:
            yield from computation.instructions

    @property
    def id_scheme(self) -> str:
        """``"wide"`` or ``"legacy"``; see :mod:`hlo_tools.types.ids`."""
        return scheme_of(self._proto)

    @property
    def frontend_attributes(self) -> Mapping[str, str]:
        """Attributes that a framework set on the module; a live map of the proto."""
        self._given = True
        return self._proto.frontend_attributes.map

    @property
    def aliases(self) -> tuple[Alias, ...]:
        """Which parts of the result are written over which parameters."""
        return of_module(self._proto)

    @property
    def donors(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """Parameters (number, part) whose buffers any result may be written over."""
        entries = self._proto.buffer_donor.entries
        return tuple(
            (donor.parameter_number, tuple(donor.parameter_shape_index)) for donor in entries
        )

    def computation_by_id(self, computation_id: int) -> Computation:
        """The computation with an id.

        Raises:
            HloFileError: there is none (HLO-REFERENCE).
        """
        computation = self.by_id().get(computation_id)
        if computation is None:
            missing = f" with the id {computation_id}" if self.by_id() else ""
            raise HloFileError(
                f"module {self.name or '(no name)'} has no computation{missing}",
                code="HLO-REFERENCE",
                place=self.path,
                remedy="the module is damaged, or was edited inconsistently",
            )
        return computation

    def computation(self, name: str) -> Computation:
        """The computation called ``name`` (a leading % is left out).

        Raises:
            HloError: there is none (HLO-NO-COMPUTATION).
        """
        bare_name = name.removeprefix("%")
        for computation in self.computations:
            if computation.name == bare_name:
                return computation
        from hlo_tools._messages import did_you_mean

        names = [computation.name for computation in self.computations]
        listed = ", ".join("%" + name for name in names[:10])
        more = f" and {len(names) - 10} more" if len(names) > 10 else ""
        raise HloError(
            f"module {self.name} has no computation %{bare_name}",
            code="HLO-NO-COMPUTATION",
            place=self.path,
            remedy=f"{did_you_mean(bare_name, names, '%')}it has {listed}{more}",
        )

    def find_custom_calls(self, target: str = KERNEL_TARGET) -> list[Instruction]:
        """Every custom call of ``target``, computations in order of the file."""
        return [
            view
            for view in self.instructions
            if view.proto.custom_call_target == target and view.proto.opcode == "custom-call"
        ]

    def callers_of(self, computation: Computation) -> tuple[Instruction, ...]:
        """The instructions that call ``computation``; takes time in proportion to their number.

        The first question reads the module once; edits keep the answer right.
        """
        callers = self._callers
        if callers is None:
            callers = self._callers = {}
            for instruction in self.instructions:
                for called in instruction.proto.called_computation_ids:
                    callers.setdefault(called, {})[instruction] = None
        return tuple(callers.get(computation.id, ()))

    def computations_in_order(self) -> list[Computation]:
        """Computations, called ones first.

        Raises:
            HloFileError: computations call each other in a circle (HLO-CYCLE).
        """
        from hlo_tools.ir.ordering import computations_in_order

        return computations_in_order(self)

    def kept_constant(self, computation_id: int, local_id: int) -> LiteralRange | None:
        """Where a constant stands that was left in the file."""
        return self._kept.get((computation_id, local_id)) if self._kept else None

    @property
    def has_kept_constants(self) -> bool:
        """True when large constants were left in the file."""
        return bool(self._kept)

    def resolve_payload(self, payload: Payload) -> bytes:
        """The bytes of a ``Payload``: its own, or an entry of the module's shared ones.

        Raises:
            HloFileError: the entry does not exist (HLO-REFERENCE).
        """
        if payload.WhichOneof("payload_source") != "id":
            return payload.value
        if not 0 <= payload.id < len(self._proto.payloads):
            raise HloFileError(
                f"shared payload {payload.id} does not exist; there are "
                f"{len(self._proto.payloads)}",
                code="HLO-REFERENCE",
                place=self.path,
                remedy="the module is damaged, or its payloads were dropped",
            )
        return self._proto.payloads[payload.id]

    def resolve_metadata(self, metadata: OpMetadata) -> OpMetadata:
        """The ``OpMetadata`` itself where ``metadata`` only points at a shared one."""
        if not metadata.HasField("metadata_payload"):
            return metadata
        data = self.resolve_payload(metadata.metadata_payload)
        resolved = schema.OpMetadata()
        try:
            resolved.ParseFromString(data)
        except Exception as error:
            raise HloFileError(
                "a shared payload that should be an OpMetadata is none",
                code="HLO-DAMAGED",
                place=self.path,
                remedy="get the file again from its source",
            ) from error
        return resolved

    # Changing

    @property
    def is_changed(self) -> bool:
        """True when saving writes other bytes than were loaded."""
        self._notice_direct_edits()
        return self._original is None

    def touch(self) -> None:
        """Say that a message was changed directly: views look again, saving writes anew."""
        self._settle()
        self._has_known_fields = False
        self.mark_changed()
        self._names = self._next_legacy_id = self._places = self._callers = None
        computations_by_id = self._computations
        if computations_by_id is None:
            return
        by_proto = {id(c._proto): c for c in computations_by_id.values()}
        self._computations = {
            proto.id: by_proto.get(id(proto)) or Computation(proto, self)
            for proto in self._proto.computations
        }
        for computation in self._computations.values():
            computation.forget()

    def _notice_direct_edits(self) -> None:
        """Mark the module as changed if a message was, except where constants stayed in the file."""
        if self._original is None or not self._given or self._kept or self._behind is not None:
            return
        message = self._proto if self._envelope is None else self._envelope
        loaded = type(message).FromString(bytes(self._original))
        if canonical(loaded) != canonical(message):
            self.touch()

    def mark_changed(self) -> None:
        """Saving writes anew from now on; views stay as they are.

        Raises:
            HloUnsupportedError: as :meth:`require_known_fields`, at the first change.
        """
        if self._original is not None:
            self.require_known_fields()
        self._original = None
        if self.pass_rows:
            self.pass_rows = {}

    def unique_name(self, base: str) -> str:
        """Return ``base``, or ``base.N`` if an instruction or computation has that name."""
        from hlo_tools.ir.editing import unique_name

        return unique_name(self, base)

    def add_computation(self, name: str) -> Computation:
        """Add an empty computation, whose root is to be set; the first one becomes the entry."""
        from hlo_tools.ir.editing import add_computation

        return add_computation(self, name)

    def require_known_fields(self) -> None:
        """Refuse a module with fields or enum numbers that this version does not know.

        What evaluates, builds, prints, converts or changes modules calls it: a newer producer may
        say in such a field what an operation does. ``allow_unknown_fields`` passes over them.

        Raises:
            HloUnsupportedError: the module has such a field (HLO-UNKNOWN-FIELD).
        """
        from hlo_tools.schema.unknown import are_allowed, refuse
        from hlo_tools.schema.unknown_numbers import refuse_number, unknown_numbers

        if self.allow_unknown_fields or are_allowed():
            return
        is_checked = self._has_known_fields
        if self.holds_unknown_fields:
            message = self._proto if self._envelope is None else self._envelope
            raise refuse(message, self.path)
        number = None if is_checked else next(unknown_numbers(self._proto), None)
        if number is not None:
            self._has_known_fields = False
            raise refuse_number(number, self.path)

    @property
    def holds_unknown_fields(self) -> bool:
        """True if the module, or the message around it, has a field that this version lacks."""
        from hlo_tools.schema.unknown import unknown_fields

        if self._has_known_fields:
            return False
        message = self._proto if self._envelope is None else self._envelope
        count = sum(len(computation.instructions) for computation in self._proto.computations)
        if count < MANY_INSTRUCTIONS and not self._kept:
            # It is checked each time: its messages may have been changed since.
            return next(unknown_fields(message), None) is not None
        from hlo_tools.outline.unknown import holds_unknown_fields

        data = self._original if self._behind is None else None
        if data is None:
            data = message.SerializeToString()
        self._has_known_fields = not holds_unknown_fields(data, message.DESCRIPTOR)
        return not self._has_known_fields

    def unknown_fields(self) -> Iterator[UnknownField]:
        """The fields that this version lacks, of the module and of the message around it."""
        from hlo_tools.schema.unknown import unknown_fields

        if self.holds_unknown_fields:
            yield from unknown_fields(self._proto if self._envelope is None else self._envelope)

    # Writing

    def to_bytes(self) -> bytes:
        """The file again: the very bytes that were loaded while nothing changed.

        After a change: the same message written deterministically, unknown fields kept.

        Raises:
            HloFileError: the module has become larger than protobuf writes (HLO-TOO-LARGE).
        """
        self._settle()
        self._notice_direct_edits()
        if self._original is not None:
            return bytes(self._original)
        if self._kept:
            return self._behind_length(self._spliced(self._envelope))
        message = self._proto if self._envelope is None else self._envelope
        try:
            return self._behind_length(canonical(message))
        except Exception as error:
            raise HloFileError(
                f"protobuf cannot write the module: {error}",
                code="HLO-TOO-LARGE",
                place=self.path,
                remedy="move large constants out of the module",
            ) from error

    def module_bytes(self) -> bytes:
        """The HloModuleProto alone, whatever file it came from."""
        self._settle()
        self._notice_direct_edits()
        if self._original is not None and self._envelope is None:
            return bytes(self._original)
        if self._kept:
            return self._spliced()
        return canonical(self._proto)

    def untouched(self) -> tuple[HloModuleProto, bytes] | None:
        """The HloModuleProto with the bytes that it was read from, while nobody can have changed it.

        None once a message was given out, and for modules that are only a part of their file.
        """
        if self._given or self._kept or self._envelope is not None or self._original is None:
            return None
        return self._proto, bytes(self._original)

    def whole(self) -> HloModuleProto:
        """The HloModuleProto with every constant in it, also those that were left in the file."""
        if not self._kept:
            return self.proto
        return schema.HloModuleProto.FromString(self.module_bytes())

    def to_text(self, options: PrintOptions | None = None) -> str:
        """The module as HLO text, as XLA prints it.

        Args:
            options: one of :data:`hlo_tools.text.PRESETS`, or options of your own.

        Raises:
            HloUnsupportedError: as :meth:`require_known_fields`.
        """
        from hlo_tools import text

        return text.print_module(self, options or text.DEFAULT)

    def save(self, target: str | Path | BinaryIO, form: str | None = None) -> None:
        """Write the module to a path (beside it first, then renamed) or a binary stream.

        A path that ends in ``.gz`` or ``.zst`` is compressed.

        Args:
            form: ``"proto"``, ``"hlo-proto"``, ``"text"``, ``"json"`` or ``"pbtxt"``; where it is
                not given, what the path's name says (``.hlo`` and ``.txt``, ``.json``, ``.pbtxt``),
                else :meth:`to_bytes`.

        Raises:
            HloError: there is no such form (HLO-ARGUMENT).
            HloUnsupportedError: another form was asked for; as :meth:`require_known_fields`.
            HloFileError: the path cannot be written (HLO-WRITE).
        """
        from hlo_tools.files.writing import write_bytes, write_stream
        from hlo_tools.ir.formats import form_of, render

        form = form or form_of(target)
        if form is not None:
            write_bytes(render(self, form), target)
        elif not self._kept or self._behind is not None:
            write_bytes(self.to_bytes(), target)
        elif self._original is not None:
            write_bytes(self._original, target)
        else:
            proto, stored_constants, envelope = self.proto, self._kept, self._envelope
            write_stream(lambda stream: splice(proto, stored_constants, stream, envelope), target)

    def _repr_html_(self) -> str:
        """Return the entry's instructions as an HTML table for notebooks."""
        from hlo_tools.ir.notebook import module_html

        return module_html(self)

    def __repr__(self) -> str:
        return f"<Module {self.name}: {counted(len(self._proto.computations), 'computation')}>"

    # Inside the package

    def _view_of(self, proto: HloComputationProto) -> Computation:
        """A view of a message that was just added."""
        return Computation(proto, self)

    @property
    def raw_proto(self) -> HloModuleProto:
        """The message without waiting edits: what is read or set besides its computations."""
        return self._proto

    def forget_callers(self) -> None:
        """Calls were changed in messages directly: the callers are read anew when asked for."""
        self._callers = None

    def add_calls(self, instruction: Instruction) -> None:
        """An instruction calls what its message says from now on."""
        callers = self._callers
        if callers is not None:
            for called in instruction.proto.called_computation_ids:
                callers.setdefault(called, {})[instruction] = None

    def drop_calls(self, instruction: Instruction) -> None:
        """An instruction no longer calls what its message says."""
        callers = self._callers
        if callers is not None:
            for called in instruction.proto.called_computation_ids:
                callers.get(called, {}).pop(instruction, None)

    def keep_constant(self, computation_id: int, local_id: int, stored: LiteralRange) -> None:
        """A constant of the module is in a file."""
        self._kept[computation_id, local_id] = stored

    def drop_constant(self, computation_id: int, local_id: int) -> None:
        """A constant that may have been in a file is removed, or is in the message now."""
        self._kept.pop((computation_id, local_id), None)

    def drop_computations(self, gone: list[Computation]) -> None:
        """Take computations, and their schedules, out of the module."""
        proto = self.proto
        ids = {computation.id for computation in gone}
        remaining = [c for c in self.by_id().values() if c.id not in ids]
        rank = {c.id: position for position, c in enumerate(remaining)}

        def place(computation: HloComputationProto) -> int:
            return rank.get(computation.id, len(remaining))

        proto.computations.sort(key=place)
        del proto.computations[len(remaining) :]
        for number in ids & set(proto.schedule.sequences):
            del proto.schedule.sequences[number]
        self._made -= ids
        self._computations = {c.id: c for c in remaining}
        self._places = self._callers = None
        self.mark_changed()

    def _behind_length(self, message: bytes) -> bytes:
        """The message as its file has it: by itself, or behind its length and before arguments."""
        if self._behind is None:
            return message
        return encode_varint(len(message)) + message + self._behind

    def _spliced(self, envelope: Envelope | None = None) -> bytes:
        """The module with the constants that were left in the file."""
        stream = io.BytesIO()
        splice(self._proto, self._kept, stream, envelope)
        return stream.getvalue()

    def by_id(self) -> dict[int, Computation]:
        """Its computations by id, in the file's order.

        Raises:
            HloFileError: two have the same id (HLO-DUPLICATE-ID).
        """
        computations_by_id = self._computations
        if computations_by_id is None:
            self._given = True
            computations_by_id = {
                row.id: Computation(row, self) for row in self._proto.computations
            }
            if len(computations_by_id) != len(self._proto.computations):
                raise HloFileError(
                    f"two computations of module {self.name} have the same id",
                    code="HLO-DUPLICATE-ID",
                    place=self.path,
                    remedy="the module is damaged, or was edited inconsistently",
                )
            self._computations = computations_by_id
        return computations_by_id

    def _settle(self) -> None:
        if self._original is None and self._computations is not None:
            from hlo_tools.ir.editing import settle_module

            settle_module(self)
