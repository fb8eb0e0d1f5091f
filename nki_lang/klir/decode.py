"""Decodes KLIR to our kernel IR, with or without the companion record."""

from __future__ import annotations

from typing import Any

from nki_lang.base.dtypes import DType, dtype_of
from nki_lang.base.errors import NkiError, NkiFileError
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.source import SourceLocation
from nki_lang.ir.types import (
    Access,
    Block,
    Constant,
    Engine,
    Instruction,
    KernelIR,
    Register,
    Tensor,
)
from nki_lang.klir import companion
from nki_lang.klir.applied import Finisher, TreeReader
from nki_lang.klir.companion import PRIVATE_OPCODE
from nki_lang.klir.companion_keys import require_known_keys
from nki_lang.klir.control import Branch, LabelledBlock, recover
from nki_lang.klir.reach import check_reach, check_size
from nki_lang.klir.table import Row, row_of_operator
from nki_lang.klir.values import dtype_of_name

__all__ = ["Decoder", "decode"]

_REGION_OF_MEMORY = {
    "hbm": MemoryRegion.shared_hbm,
    "shared_hbm": MemoryRegion.shared_hbm,
    "private_hbm": MemoryRegion.private_hbm,
    "sbuf": MemoryRegion.sbuf,
    "psum": MemoryRegion.psum,
}

_COLLECTIVE_PREFIXES = ("all_", "reduce_scatter", "collective_permute", "rank_id", "klir.broadcast")


class Decoder:
    """Decodes one kernel.

    Attributes:
        engine: engine of the current instruction, set by the codec of the engine.
        refs: identity of a node -> its access in this core.
    """

    def __init__(self, record: dict[str, Any]) -> None:
        self.engine = Engine.unknown
        self.refs: dict[int, Access] = {}
        self._by_node: dict[int, Tensor] = {}
        self._places: dict[int, SourceLocation | None] = {}
        self._patterns: dict[int, tuple[tuple[int, int], ...]] = {}
        self._nodes: list[Any] = []
        self._core = 0
        self._locals: list[dict[str, Tensor]] = [{}]
        self._all_notes: list[dict[str, Any]] = record.get("tensors", [{}])
        self._plans: dict[str, tuple[Row, list[Any], int]] = {}
        self._checked: set[Any] = set()

    def unsupported(self, construct: str) -> NkiFileError:
        """Return an error for valid KLIR that our IR cannot express."""
        return NkiFileError(
            f"the kernel file contains {construct}, which the kernel IR cannot express",
            code="NKI-FILE-UNSUPPORTED",
            remedy="write the kernel with the documented NKI functions",
        )

    def begin_core(self, core: int) -> None:
        """Start a core; private tensors have their names in one core. Core 0 precedes the first
        core.
        """
        while len(self._locals) <= core:
            self._locals.append({})
        self._core = core
        self._by_node.clear()
        self.refs.clear()

    def _scope(self, buffer: MemoryRegion) -> int:
        return 0 if buffer is MemoryRegion.shared_hbm else self._core

    def _notes(self, core: int) -> dict[str, Any]:
        return self._all_notes[core] if core < len(self._all_notes) else {}

    # --- tensors ---------------------------------------------------------------------------

    def dtype(self, name: str) -> DType:
        """Return the data type that KLIR calls ``name``."""
        dtype = dtype_of_name(name)
        if dtype is None:
            raise self.unsupported(f"a tensor of the type {name}")
        return dtype

    def tensor(self, node: object) -> Tensor:
        """Return the tensor of a ``TensorName``; equal nodes are one object in one reading."""
        cached = self._by_node.get(id(node))
        if cached is not None:
            return cached
        decoded = self._make(node)
        first = self._locals[self._scope(decoded.buffer)].setdefault(decoded.name, decoded)
        visible_cores = (
            range(len(self._locals))
            if decoded.buffer is MemoryRegion.shared_hbm
            else (0, self._core)
        )
        if any(self._locals[core].get(decoded.name, decoded) != decoded for core in visible_cores):
            raise self.unsupported(f"two different tensors called {decoded.name!r}")
        self._by_node[id(node)] = first
        self._nodes.append(node)
        return first

    def _make(self, node: Any) -> Tensor:
        buffer = _REGION_OF_MEMORY.get(node.address.memory)
        if buffer is None:
            raise self.unsupported(f"a tensor in the memory {node.address.memory}")
        offsets = node.address.parOffset, node.address.freeOffset
        address = None if None in offsets else offsets
        shape = (node.shape.parDim, *node.shape.freeDims)
        check_size(node.name, shape, offsets)
        tensor = Tensor(
            node.name, self.dtype(node.dtype), shape, buffer, address, address is not None
        )
        note = self._notes(self._scope(buffer)).get(node.name)
        return tensor if note is None else companion.tensor_from_json(node.name, note, tensor)

    def remember(self, node: object, access: Access) -> Access:
        """Cache the access of a node. The node stays alive, so no other node gets its identity."""
        self.refs[id(node)] = access
        self._nodes.append(node)
        return access

    def location(self, node: object) -> SourceLocation | None:
        """Return the source location of a statement."""
        try:
            return self._places[id(node)]
        except KeyError:
            location = self._places[id(node)] = _location(node)
            self._nodes.append(node)
            return location

    def find(self, name: str) -> Tensor | None:
        """Return a tensor of this core or a shared one, from the kernel or the companion."""
        for core in (self._core, 0):
            tensor = self._locals[core].get(name)
            if tensor is not None:
                return tensor
        for core in (self._core, 0):
            note = self._notes(core).get(name)
            if note is not None:
                noted = companion.tensor_from_json(name, note, None)
                self._locals[core][name] = noted
                return noted
        return None

    def named(self, name: str) -> Tensor:
        """Return a tensor that the companion names."""
        return self.find(name) or companion.tensor_from_json(name, {}, None)

    def access(self, node: Any) -> Access:
        """Decode any form of KLIR's ``Access``."""
        if node.constructor == "birPattern":
            inner = node[0]
            access = Access(
                self.tensor(inner.tensor),
                inner.offset,
                self._pattern(inner.pattern),
                self._scalar_offset(inner.scalarOffset),
                None if inner.vectorOffset is None else self.access(inner.vectorOffset),
                inner.indirectDim,
                None if inner.dtypeOverride is None else self.dtype(inner.dtypeOverride),
            )
        elif node.constructor == "simple":
            tensor = self.tensor(node[0])
            access = Access(tensor, 0, tuple(zip(_steps(tensor.shape), tensor.shape, strict=True)))
        elif node.constructor == "basic":
            access = self._basic(node[0])
        else:
            access = self._two_part(node[0])
        self._check(access)
        return access

    def _check(self, access: Access) -> None:
        key = id(access.tensor), access.offset, access.pattern, access.indirect_dim, access.dtype
        if key not in self._checked:
            check_reach(access)
            self._checked.add(key)

    def _pattern(self, pairs: Any) -> tuple[tuple[int, int], ...]:
        pattern = self._patterns.get(id(pairs))
        if pattern is None:
            pattern = self._patterns[id(pairs)] = tuple([self._pair(pair) for pair in pairs])
            self._nodes.append(pairs)
        return pattern

    def _pair(self, pair: Any) -> tuple[int, int]:
        if pair.offset:
            raise self.unsupported("an access pattern whose dimensions have offsets")
        return pair.step, pair.num

    def _scalar_offset(self, node: Any) -> Register | Access | None:
        if node is None:
            return None
        return Register(node[0]) if node.constructor == "reg" else self.access(node[0])

    def _basic(self, node: Any) -> Access:
        tensor = self.tensor(node.tensor)
        if len(node.indexes) != len(tensor.shape):
            raise self.unsupported(f"{len(node.indexes)} indices into {tensor.name!r}")
        offset = 0
        pairs: list[tuple[int, int]] = []
        for index, step in zip(node.indexes, _steps(tensor.shape), strict=True):
            if index.constructor == "coord":
                offset += index[0] * step
                pairs.append((step, 1))
                continue
            cut = index[0]
            if cut.step == 0:
                raise self.unsupported("a slice that does not advance")
            offset += cut.l * step
            pairs.append((step * cut.step, len(range(cut.l, cut.u, cut.step))))
        return Access(tensor, offset, tuple(pairs))

    def _two_part(self, node: Any) -> Access:
        """Decode an access with separate partition and free dimensions; the free offset counts
        bytes.
        """
        tensor = self.tensor(node.tensor)
        size = tensor.dtype.itemsize
        if node.freeOffset % size or node.fixedAxis:
            raise self.unsupported(f"an access to {tensor.name!r} that is not whole elements")
        row = tensor.free_elements
        pairs = [(row, node.parNum), *(self._pair(pair) for pair in node.pattern)]
        return Access(tensor, node.parOffset * row + node.freeOffset // size, tuple(pairs))

    # --- statements ------------------------------------------------------------------------

    def block(self, node: Any) -> LabelledBlock:
        """Decode a block: its instructions, and the branch at its end."""
        body: list[Instruction] = []
        branch = None
        last = len(node.body) - 1
        for index, statement in enumerate(node.body):
            operator, name, position = statement
            if operator.constructor == "cmpBranch":
                if index != last:
                    raise self.unsupported("a branch that does not end its block")
                branch = _branch(operator[0], self.location(position))
            else:
                body.append(self.instruction(operator, name, position))
        return LabelledBlock(node.label, node.noReorder, body, branch)

    def instruction(self, operator: Any, name: str | None, position: Any) -> Instruction:
        """Decode one statement that is no branch."""
        fields = operator[0]
        kind = operator.constructor
        if kind == "extendedInst" and fields.opcode == PRIVATE_OPCODE:
            return Instruction(
                _private_name(fields), {}, Engine.unknown, name or "", self.location(position)
            )
        plan = self._plans.get(kind)
        if plan is None:
            plan = self._plans[kind] = self._plan(kind)
        row, decoders, _ = plan
        self.engine = Engine.unknown
        decoded: dict[str, Any] = {}
        for decode, operand, index in decoders:
            if operand is None:
                decode(fields[index], self, decoded)
            else:
                decoded[operand] = decode(fields[index], self)
        for operand, default, _ in row.extras:
            decoded[operand] = default
        operands = {operand: decoded[operand] for operand in row.operands}
        return Instruction(row.op, operands, self.engine, name or "", self.location(position))

    def _plan(self, kind: str) -> tuple[Row, list[Any], int]:
        row = row_of_operator(kind)
        if row is None:
            raise self.unsupported(f"the operator {kind}")
        decoders = [
            (codec.decode, operand, index)
            for index, (codec, operand) in enumerate(row.fields)
            if codec.decode is not None
        ]
        # A codec that reads other operands comes after them.
        decoders.sort(key=lambda decoder: decoder[1] is None)
        return row, decoders, len(row.operands)


def _steps(shape: tuple[int, ...]) -> list[int]:
    steps: list[int] = []
    step = 1
    for extent in reversed(shape):
        steps.append(step)
        step *= extent
    return steps[::-1]


def _branch(node: Any, location: SourceLocation | None) -> Branch:
    return Branch(
        node.op, node.reg1, node.reg2, node.imm, node.trueLabel, node.falseLabel, location
    )


def _location(node: Any) -> SourceLocation | None:
    if node.filename is None and not node.line:
        return None
    return SourceLocation(node.filename or "", node.line, "", node.column or -1)


def _private_name(fields: Any) -> str:
    try:
        return bytes(fields.data0).decode()
    except ValueError:
        raise NkiFileError(
            "an instruction in the companion record has no readable name",
            code="NKI-FILE-PRIVATE",
        ) from None


def _body(blocks: list[LabelledBlock], tree: Any) -> list[Any]:
    if tree is None:
        return recover(blocks)
    flat = [instruction for block in blocks for instruction in block.body]
    reader = TreeReader(flat)
    statements = reader.block(tree, 0)
    if next(reader.remaining, None) is not None:
        raise ValueError("fewer instructions than the file has")
    return statements


def _dependences(edges: Any, statements: Block) -> None:
    """Set ``depends_on`` from the edges, producer to consumers."""
    producers: dict[str, list[str]] = {}
    for edge in edges:
        for consumer in edge.toEdges:
            producers.setdefault(consumer, []).append(edge.fromEdge)
    if producers:
        _set_dependences(statements, producers)


def _set_dependences(statements: Block, producers: dict[str, list[str]]) -> None:
    for statement in statements:
        if not isinstance(statement, Instruction):
            _set_dependences(statement.body, producers)
        elif statement.name in producers:
            statement.depends_on = tuple(producers[statement.name])


def _constant_tensor(decoder: Decoder, name: str, value: Any) -> Tensor:
    tensor = decoder.find(name)
    if tensor is not None:
        return tensor
    try:
        dtype = dtype_of(value.dtype)
    except TypeError:
        raise decoder.unsupported(f"a constant of the type {value.dtype}") from None
    return Tensor(name, dtype, value.shape, MemoryRegion.shared_hbm)


def _uses_collectives(bodies: list[Block]) -> bool:
    def has_collective(statements: Block) -> bool:
        for statement in statements:
            if isinstance(statement, Instruction):
                if statement.op.startswith(_COLLECTIVE_PREFIXES):
                    return True
            elif has_collective(statement.body):
                return True
        return False

    return any(map(has_collective, bodies))


def decode(
    node: object, record: dict[str, object], constants: dict[str, object], target: str
) -> KernelIR:
    """Return the kernel of an ``LncKernel``.

    Args:
        node: the ``LncKernel``.
        record: the companion record, ``{}`` without one.
        constants: name -> array.
        target: the target, when the record names none.

    Raises:
        NkiFileError: our IR cannot express the kernel, or the record is damaged.
    """
    try:
        return _decode(node, record, constants, target)
    except (KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
        if not record or not _decodes_alone(node, constants, target):
            raise  # a bug of ours: the record is not at fault
        raise NkiFileError(
            f"the companion record does not fit the kernel file ({type(error).__name__}: {error})",
            code="NKI-FILE-COMPANION",
            remedy="write the kernel again",
        ) from error


def _decodes_alone(node: object, constants: dict[str, object], target: str) -> bool:
    """Return True if the kernel decodes without its record, or is refused with a code."""
    try:
        _decode(node, {}, constants, target)
    except NkiError:
        return True
    except (KeyError, ValueError, TypeError, AttributeError, IndexError):
        return False
    return True


def _decode(node: Any, record: dict[str, Any], constants: dict[str, Any], target: str) -> KernelIR:
    require_known_keys(record)
    decoder = Decoder(record)
    inputs = tuple([decoder.tensor(tensor) for tensor in node.inputs])
    outputs = tuple([decoder.tensor(tensor) for tensor in node.outputs])
    trees = record.get("regions") or [None] * len(node.bodies)
    bodies: list[Block] = []
    for core, (blocks, tree) in enumerate(zip(node.bodies, trees, strict=True), 1):
        decoder.begin_core(core)
        bodies.append(_body([decoder.block(block) for block in blocks], tree))
    finisher = Finisher(decoder.named, record)
    for core, body in enumerate(bodies, 1):
        decoder.begin_core(core)
        _dependences(node.edges, body)
        finisher.defined = set()
        finisher.block(body)
    decoder.begin_core(0)
    constants_of_kernel: list[Constant] = []
    for file in node.sharedConstants:
        value = constants[file.name]
        tensor = _constant_tensor(decoder, file.name, value)
        stored = tensor.dtype.dtype
        if value.dtype != stored and value.dtype.itemsize == stored.itemsize:
            value = value.view(stored)
        constants_of_kernel.append(Constant(tensor, value))
    collectives = record.get("has_collectives")
    return KernelIR(
        name=node.name,
        target=record.get("target", target),
        lnc=len(bodies),
        inputs=inputs,
        outputs=outputs,
        bodies=tuple(bodies),
        constants=tuple(constants_of_kernel),
        grid=tuple(record.get("grid", ())),
        returns_tuple=bool(record.get("returns_tuple", len(outputs) > 1)),
        has_collectives=_uses_collectives(bodies) if collectives is None else bool(collectives),
        metadata=companion.operand_from_json(record.get("metadata", {"dict": []}), decoder.named),
    )
