"""Our kernel IR to KLIR: the bytes of the kernel and what goes into the companion record."""

from __future__ import annotations

from typing import Any

from nki_lang.errors import NkiValidationError
from nki_lang.ir.types import (
    Access,
    Engine,
    Instruction,
    KernelIR,
    Register,
    Tensor,
)
from nki_lang.klir import cbor, companion, schema
from nki_lang.klir.codecs import FALSE, NONE, SOME, TRUE, Unsayable, dtype_bytes
from nki_lang.klir.paths import shown_names
from nki_lang.klir.regions import BodyWriter, registers_of, tree_of
from nki_lang.klir.registers import REGISTER_OPS, inferred, lowered
from nki_lang.klir.table import Row, row_of
from nki_lang.memory import MemoryRegion
from nki_lang.source import SourceLocation

__all__ = ["PRIVATE_OPCODE", "Encoder", "encode"]

PRIVATE_OPCODE = 0x4E4B4900
"""``ExtendedInst.opcode`` of an instruction that stands in the companion record ("NKI\\0")."""

_STATEMENT = schema.head("Stmt", "oper")
_POSITION = schema.head("Pos")
_NO_POSITION = _POSITION + b"\x00\x00" + NONE * 3
_PAIR = schema.head("APPair")
_ACCESS = schema.head("Access", "birPattern") + schema.head("BirAccessPattern")
_PLAIN_END = NONE + NONE + b"\x00" + NONE
_SCALAR_REGISTER = schema.head("ScalarOffset", "reg")
_SCALAR_ACCESS = schema.head("ScalarOffset", "acc")
_MEMORY = {
    MemoryRegion.sbuf: schema.head("Memory", "sbuf"),
    MemoryRegion.psum: schema.head("Memory", "psum"),
    MemoryRegion.shared_hbm: schema.head("Memory", "hbm"),
    MemoryRegion.private_hbm: schema.head("Memory", "private_hbm"),
}
"""shared_hbm is KLIR's ``hbm``, as leanprover/KLR's frontend has it (KLR/Trace/FromNKI.lean)."""


class _Form:
    """What the encoder needs of a row, looked up once."""

    __slots__ = ("count", "encoders", "extras", "has_engine", "prefix")

    def __init__(self, row: Row) -> None:
        self.prefix = row.prefix
        self.encoders = row.encoders
        self.extras = row.extras
        self.has_engine = row.has_engine
        self.count = len(row.operands)


class Encoder:
    """Encodes one kernel.

    Attributes:
        inexact: set by a codec when decoding would give another value.
        engine: of the instruction at hand.
        shared: name -> tensor, for every tensor that all cores see, in the order of meeting.
    """

    def __init__(self, kernel: KernelIR) -> None:
        self.inexact = False
        self.engine = Engine.unknown
        self.shared: dict[str, Tensor] = {}
        self.tensor_notes: list[dict[str, dict[str, Any]]] = [{}]
        self.instruction_notes: list[list[Any]] = []
        self.functions: list[list[Any]] = []
        self.engines: dict[str, Engine] = {}
        self._tensor_bytes: dict[int, bytes] = {}
        self._heads: dict[int, bytes] = {}
        self._patterns: dict[tuple[tuple[int, int], ...], bytes] = {}
        self._positions: dict[SourceLocation, bytes] = {}
        self._forms: dict[str, _Form | None] = {}
        self._constants = {constant.tensor.name for constant in kernel.constants}
        self._producers = _producers(kernel)
        self._local: dict[str, Tensor] = {}
        self._names = shown_names(kernel)
        self.places: list[list[int]] = []
        self._located = 0
        self._count = 0
        self._defined: set[str] = set()
        self._keep: list[Tensor] = []

    # --- tensors ---------------------------------------------------------------------------

    def tensor(self, tensor: Tensor) -> bytes:
        """A tensor's name with all that KLIR says about it."""
        known = self._tensor_bytes.get(id(tensor))
        if known is not None:
            return known
        self._meet(tensor)
        encoded = self._encode_tensor(tensor)
        self._tensor_bytes[id(tensor)] = encoded
        self._keep.append(tensor)
        return encoded

    def _meet(self, tensor: Tensor) -> None:
        scope = self.shared if self._is_shared(tensor) else self._local
        known = scope.setdefault(tensor.name, tensor)
        if known is not tensor and known != tensor:
            raise NkiValidationError(
                f"two tensors of the kernel have the name {tensor.name!r}",
                code="NKI-KLIR-NAME",
                remedy="give each tensor a name of its own",
            )

    def _is_shared(self, tensor: Tensor) -> bool:
        """Private tensors have their names in one core; two cores may use one name."""
        return tensor.buffer is MemoryRegion.shared_hbm or len(self.tensor_notes) == 1

    def _notes_of(self, tensor: Tensor) -> dict[str, dict[str, Any]]:
        return self.tensor_notes[0 if self._is_shared(tensor) else -1]

    def _encode_tensor(self, tensor: Tensor) -> bytes:
        try:
            dtype, exact = dtype_bytes(tensor.dtype)
            memory = _MEMORY[tensor.buffer]
        except Unsayable:
            raise NkiValidationError(
                f"the tensor {tensor.name!r} has the type {tensor.dtype}, which KLIR does not have",
                code="NKI-KLIR-DTYPE",
                remedy="view it as an integer of its size with tensor.view(dtype)",
            ) from None
        shape = tensor.shape or (1,)
        address = tensor.address
        note: dict[str, Any] = {}
        if not exact:
            note["dtype"] = tensor.dtype.name
        if not tensor.shape:
            note["shape"] = []
        if tensor.fixed != (address is not None):
            note["fixed"] = tensor.fixed
        if note:
            self._notes_of(tensor)[tensor.name] = note
        offsets = (NONE, NONE)
        if address is not None:
            offsets = SOME + cbor.integer(address[0]), SOME + cbor.integer(address[1])
        integer = cbor.integer
        name = cbor.text(tensor.name)
        return b"".join(
            (
                schema.head("TensorName"), name, dtype,
                schema.head("Shape"), integer(shape[0]), cbor.array_head(len(shape) - 1),
                *map(integer, shape[1:]),
                schema.head("Address"), name, memory, integer(shape[0]),
                integer(tensor.free_bytes), *offsets,
                TRUE if tensor.name in self._constants else FALSE,
                integer(tensor.free_elements), FALSE if address is not None else TRUE,
            )
        )  # fmt: skip

    def access(self, access: Access) -> bytes:
        """An access as KLIR's ``birPattern``."""
        tensor, offset, pattern, scalar, vector, dimension, dtype, step = access
        head = self._heads.get(id(tensor))
        if head is None:
            head = self._heads[id(tensor)] = _ACCESS + self.tensor(tensor)
        pairs = self._patterns.get(pattern)
        if pairs is None:
            pairs = self._patterns[pattern] = _encode_pairs(pattern)
        if offset < 0 or step is not None:
            raise Unsayable
        if scalar is None and vector is None and dtype is None and dimension == 0:
            return head + cbor.integer(offset) + pairs + _PLAIN_END
        return b"".join(
            (
                head, cbor.integer(offset), pairs, self._scalar_offset(scalar),
                NONE if vector is None else SOME + self.access(vector),
                cbor.integer(dimension), self._override(dtype),
            )
        )  # fmt: skip

    def _scalar_offset(self, scalar: Register | Access | None) -> bytes:
        if scalar is None:
            return NONE
        if type(scalar) is Register:
            return SOME + _SCALAR_REGISTER + cbor.text(scalar.name)
        assert type(scalar) is Access
        return SOME + _SCALAR_ACCESS + self.access(scalar)

    def _override(self, dtype: Any) -> bytes:
        if dtype is None:
            return NONE
        encoded, exact = dtype_bytes(dtype)
        if not exact:
            self.inexact = True
        return SOME + encoded

    # --- statements ------------------------------------------------------------------------

    def position(self, location: SourceLocation | None) -> bytes:
        """Where a statement stands in the source; counts the functions for the companion."""
        if location is None:
            return _NO_POSITION
        functions = self.functions
        if functions and functions[-1][1] == location.function:
            functions[-1][0] += 1
        else:
            functions.append([1, location.function])
        known = self._positions.get(location)
        if location.column == 0 or location.column < -1 or location.line < 0:
            self.places.append([self._located, location.line, location.column])
        self._located += 1
        if known is None:
            name = self._names[location.file]
            line, column = max(location.line, 0), max(location.column, 0)
            known = self._positions[location] = b"".join(
                (
                    _POSITION,
                    cbor.integer(line),
                    cbor.integer(column),
                    NONE,
                    NONE,
                    SOME,
                    cbor.text(name),
                )
            )
        return known

    def control_statement(
        self, operator: bytes, name: str | None, location: SourceLocation | None
    ) -> bytes:
        """A statement that no instruction stands for."""
        place = _NO_POSITION if location is None else self._positions[location]
        given = NONE if name is None else SOME + cbor.text(name)
        return _STATEMENT + operator + given + place

    def statement(self, instruction: Instruction) -> bytes:
        """One instruction; what its statement cannot hold is noted."""
        op = instruction.op
        operands = instruction.operands
        if op in REGISTER_OPS:
            return self._register_statement(instruction)
        try:
            form = self._forms[op]
        except KeyError:
            row = row_of(op)
            form = self._forms[op] = None if row is None else _Form(row)
        self.engine = instruction.engine
        self.inexact = False
        if form is None or len(operands) != form.count:
            return self._private(instruction)
        parts = [form.prefix]
        append = parts.append
        try:
            for encode, name in form.encoders:
                append(encode(operands if name is None else operands[name], self))
        except (Unsayable, KeyError):
            return self._private(instruction)
        note = None
        for name, usual, must in form.extras:
            if name not in operands or (must and operands[name] != usual):
                return self._private(instruction)
            if operands[name] != usual:
                note = note or {}
                note.setdefault("operands", {})[name] = self._json(operands[name])
        if self.inexact:
            note = note or {}
            note.setdefault("operands", {}).update(self._inexact_operands(form, operands))
        return self._finish(instruction, parts, note, form.has_engine)

    def _inexact_operands(self, form: _Form, operands: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for encode, name in form.encoders:
            self.inexact = False
            encode(operands if name is None else operands[name], self)
            if self.inexact:
                names = [name] if name is not None else list(operands)
                found.update({one: self._json(operands[one]) for one in names})
        return found

    def _finish(
        self,
        instruction: Instruction,
        parts: list[bytes],
        note: dict[str, Any] | None,
        has_engine: bool,
    ) -> bytes:
        """The rest of a statement: its name and its place."""
        engine = instruction.engine
        if note is not None and "op" in note:
            if engine is not Engine.unknown:
                note["engine"] = engine.name
        elif not has_engine and engine is not self.engines.setdefault(instruction.op, engine):
            note = note or {}
            note["engine"] = engine.name
        name = instruction.name
        if instruction.depends_on != (self._producers.get(name, ()) if name else ()):
            note = note or {}
            note["depends_on"] = list(instruction.depends_on)
        if note is not None:
            self.instruction_notes.append([self._count, note])
        self._count += 1
        parts.append(SOME + cbor.text(instruction.name) if instruction.name else NONE)
        parts.append(self.position(instruction.location))
        return b"".join(parts)

    def _private(self, instruction: Instruction) -> bytes:
        """An instruction that only the companion record says."""
        note = {
            "op": instruction.op,
            "operands": {name: self._json(value) for name, value in instruction.operands.items()},
        }
        name = instruction.op.encode()
        parts = [
            _STATEMENT, schema.head("Operator", "extendedInst"), schema.head("ExtendedInst"),
            cbor.integer(PRIVATE_OPCODE), TRUE, TRUE, b"\x00", cbor.array_head(len(name)),
            *map(cbor.integer, name), cbor.array_head(1), cbor.integer(self._count),
        ]  # fmt: skip
        return self._finish(instruction, parts, note, False)

    def _register_statement(self, instruction: Instruction) -> bytes:
        """Registers have fewer forms in KLIR; see :mod:`nki_lang.klir.registers`."""
        op, operands = lowered(instruction.op, instruction.operands)
        row = row_of(op)
        if row is None or set(operands) != set(row.operands):
            return self._private(instruction)
        parts = [row.prefix]
        self.inexact = False
        try:
            for encode, name in row.encoders:
                parts.append(encode(operands if name is None else operands[name], self))
        except Unsayable:
            return self._private(instruction)
        note = None
        read = inferred(op, operands, self._defined)
        if self.inexact or read != (instruction.op, instruction.operands):
            given = {name: self._json(value) for name, value in instruction.operands.items()}
            note = {"op": instruction.op, "operands": given}
        return self._finish(instruction, parts, note, False)

    def _json(self, value: Any) -> Any:
        return companion.operand_to_json(value, self._use)

    def _use(self, tensor: Tensor) -> str:
        """Notes a tensor that the companion speaks of, which KLIR may not mention."""
        self._meet(tensor)
        self._notes_of(tensor)[tensor.name] = companion.tensor_to_json(tensor)
        return tensor.name

    # --- bodies ----------------------------------------------------------------------------

    def body(self, statements: list[Any], registers: set[str]) -> tuple[bytes, Any]:
        """The blocks of one core, and its tree of regions when blocks cannot tell it."""
        self._defined = set()
        self.tensor_notes.append({})
        self._local = {}
        self._tensor_bytes.clear()
        self._heads.clear()
        walk = BodyWriter(self, registers)
        walk.block(statements, in_order=False)
        tree = tree_of(statements, self._names) if walk.irregular else None
        return walk.blocks.finish(), tree

    def define(self, register: Register) -> None:
        """A loop gives its register a value."""
        self._defined.add(register.name)


def _encode_pairs(pattern: tuple[tuple[int, int], ...]) -> bytes:
    parts = [cbor.array_head(len(pattern))]
    for step, count in pattern:
        if count < 0:
            raise Unsayable
        parts += [_PAIR, cbor.integer(step), cbor.integer(count), b"\x00"]
    return b"".join(parts)


def _producers(kernel: KernelIR) -> dict[str, tuple[str, ...]]:
    """Consumer -> the instructions it waits for, over all cores."""
    found: dict[str, dict[str, None]] = {}
    for body in kernel.bodies:
        for instruction in _instructions(body):
            if instruction.name:
                found.setdefault(instruction.name, {}).update(dict.fromkeys(instruction.depends_on))
    return {name: tuple(producers) for name, producers in found.items()}


def _edges(producers: dict[str, tuple[str, ...]]) -> bytes:
    """``depends_on``, producer first, one edge a pair."""
    head = schema.head("Edges")
    edges = [
        head + cbor.text(producer) + cbor.array_head(1) + cbor.text(consumer)
        for consumer, names in producers.items()
        for producer in names
    ]
    return cbor.array_head(len(edges)) + b"".join(edges)


def _instructions(statements: list[Any]) -> Any:
    for statement in statements:
        if type(statement) is Instruction:
            if statement.depends_on:
                yield statement
        else:
            yield from _instructions(statement.body)


def _shared(kernel: KernelIR, encoder: Encoder) -> list[bytes]:
    """Tensors in shared HBM that are neither inputs, outputs nor constants."""
    named = {tensor.name for tensor in (*kernel.inputs, *kernel.outputs)}
    named |= {constant.tensor.name for constant in kernel.constants}
    return [
        encoder.tensor(tensor)
        for tensor in list(encoder.shared.values())
        if tensor.buffer is MemoryRegion.shared_hbm and tensor.name not in named
    ]


def encode(kernel: KernelIR, constant_files: dict[str, str]) -> tuple[bytes, dict[str, Any]]:
    """The ``LncKernel`` of a kernel and its part of the companion record.

    Args:
        kernel: the kernel.
        constant_files: name of a constant's tensor -> its file.
    """
    encoder = Encoder(kernel)
    inputs = [encoder.tensor(tensor) for tensor in kernel.inputs]
    outputs = [encoder.tensor(tensor) for tensor in kernel.outputs]
    for constant in kernel.constants:
        encoder._use(constant.tensor)
    metadata = encoder._json(kernel.metadata)
    bodies, trees = [], []
    for body in kernel.bodies:
        loops = any(type(statement) is not Instruction for statement in body)
        encoded, tree = encoder.body(body, registers_of(body) if loops else set())
        bodies.append(encoded)
        trees.append(tree)
    files = [
        schema.head("SharedConstantFile") + cbor.text(name) + cbor.text(file)
        for name, file in constant_files.items()
    ]
    shared = _shared(kernel, encoder)
    parts = [schema.head("LncKernel"), cbor.text(kernel.name)]
    for group in (inputs, outputs, bodies, files, shared):
        parts += [cbor.array_head(len(group)), *group]
    parts.append(_edges(encoder._producers))
    engines = {
        op: engine.name for op, engine in encoder.engines.items() if engine is not Engine.unknown
    }
    record = {
        "tensors": encoder.tensor_notes if any(encoder.tensor_notes) else None,
        "instructions": encoder.instruction_notes,
        "functions": encoder.functions,
        "places": encoder.places,
        "engines": engines,
        "regions": trees if any(tree is not None for tree in trees) else None,
        "metadata": metadata,
    }
    kept = {key: value for key, value in record.items() if value and value != {"dict": []}}
    return b"".join(parts), kept
