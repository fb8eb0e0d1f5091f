"""Encodes the tensors and source locations of a kernel."""

from __future__ import annotations

from typing import Any

from nki_lang.base.dtypes import DType
from nki_lang.base.errors import NkiValidationError
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.source import SourceLocation
from nki_lang.ir.types import Access, Engine, KernelIR, Register, Tensor
from nki_lang.klir import cbor, companion, schema
from nki_lang.klir.callers import CallerWriter
from nki_lang.klir.paths import shown_names
from nki_lang.klir.values import (
    FALSE_BYTE,
    NONE_BYTES,
    SOME_HEAD,
    TRUE_BYTE,
    NotExpressibleError,
    dtype_bytes,
)

__all__ = ["Names"]

_POSITION_HEAD = schema.head("Pos")
_NO_POSITION_BYTES = _POSITION_HEAD + b"\x00\x00" + NONE_BYTES * 3
_PAIR_HEAD = schema.head("APPair")
_ACCESS_HEAD = schema.head("Access", "birPattern") + schema.head("BirAccessPattern")
_STATIC_ACCESS_END = NONE_BYTES + NONE_BYTES + b"\x00" + NONE_BYTES
_SCALAR_REGISTER = schema.head("ScalarOffset", "reg")
_SCALAR_ACCESS = schema.head("ScalarOffset", "acc")
_MEMORY_BYTES = {
    MemoryRegion.sbuf: schema.head("Memory", "sbuf"),
    MemoryRegion.psum: schema.head("Memory", "psum"),
    MemoryRegion.shared_hbm: schema.head("Memory", "hbm"),
    MemoryRegion.private_hbm: schema.head("Memory", "private_hbm"),
}
"""shared_hbm is KLIR's ``hbm``, as leanprover/KLR's frontend has it (KLR/Trace/FromNKI.lean)."""


class Names:
    """Encodes tensors, accesses and locations of one kernel, and collects what the companion adds.

    Attributes:
        inexact: True when decoding would give another value than the one just encoded.
        engine: engine of the current instruction, for the codec of the engine.
        shared: name -> tensor, for every tensor that all cores see, in order of first use.
        tensor_notes: the companion's notes on tensors: on shared ones, then on each core's.
        functions: runs of locations in one function, ``[count, function]``.
        locations: ``[index, line, column]`` of locations that KLIR cannot express.
        files: source file -> its name in the kernel file.
        callers: the calls around each location.
    """

    def __init__(self, kernel_ir: KernelIR) -> None:
        self.inexact = False
        self.engine = Engine.unknown
        self.shared: dict[str, Tensor] = {}
        self.tensor_notes: list[dict[str, dict[str, Any]]] = [{}]
        self.functions: list[list[Any]] = []
        self.locations: list[list[int]] = []
        self.files = shown_names(kernel_ir)
        self.callers = CallerWriter(self.files)
        self._constants = {constant.tensor.name for constant in kernel_ir.constants}
        self._local: dict[str, Tensor] = {}
        # Tensors are looked up by identity, which is faster than by value. They stay alive, so
        # no other object gets the identity of a dead one.
        self._tensor_bytes: dict[int, bytes] = {}
        self._heads: dict[int, bytes] = {}
        self._keep: list[Tensor] = []
        self._patterns: dict[tuple[tuple[int, int], ...], bytes] = {}
        self._positions: dict[SourceLocation, bytes] = {}
        self._located = 0

    def begin_core(self) -> None:
        """Start a core; private tensors of two cores may have the same name."""
        self.tensor_notes.append({})
        self._local = {}
        self._tensor_bytes.clear()
        self._heads.clear()

    # --- tensors ---------------------------------------------------------------------------

    def tensor(self, tensor: Tensor) -> bytes:
        """Return KLIR's record of a tensor: its name and attributes."""
        cached = self._tensor_bytes.get(id(tensor))
        if cached is not None:
            return cached
        self._meet(tensor)
        encoded = self._encode_tensor(tensor)
        self._tensor_bytes[id(tensor)] = encoded
        self._keep.append(tensor)
        return encoded

    def note(self, tensor: Tensor) -> str:
        """Return the name of a tensor that the companion uses and that KLIR may not mention."""
        self._meet(tensor)
        self._notes_of(tensor)[tensor.name] = companion.tensor_to_json(tensor)
        return tensor.name

    def operand_to_json(self, value: object) -> Any:
        """Return an operand for the companion, and note its tensors."""
        return companion.operand_to_json(value, self.note)

    def _meet(self, tensor: Tensor) -> None:
        scope = self.shared if self._is_shared(tensor) else self._local
        first = scope.setdefault(tensor.name, tensor)
        if first is not tensor and first != tensor:
            raise NkiValidationError(
                f"two tensors of the kernel have the name {tensor.name!r}",
                code="NKI-KLIR-NAME",
                remedy="give each tensor a unique name",
            )

    def _is_shared(self, tensor: Tensor) -> bool:
        return tensor.buffer is MemoryRegion.shared_hbm or len(self.tensor_notes) == 1

    def _notes_of(self, tensor: Tensor) -> dict[str, dict[str, Any]]:
        return self.tensor_notes[0 if self._is_shared(tensor) else -1]

    def _encode_tensor(self, tensor: Tensor) -> bytes:
        try:
            dtype, exact = dtype_bytes(tensor.dtype)
            memory = _MEMORY_BYTES[tensor.buffer]
        except NotExpressibleError:
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
        offsets = (NONE_BYTES, NONE_BYTES)
        if address is not None:
            offsets = SOME_HEAD + cbor.integer(address[0]), SOME_HEAD + cbor.integer(address[1])
        integer = cbor.integer
        name = cbor.text(tensor.name)
        return b"".join(
            (
                schema.head("TensorName"), name, dtype,
                schema.head("Shape"), integer(shape[0]), cbor.array_head(len(shape) - 1),
                *map(integer, shape[1:]),
                schema.head("Address"), name, memory, integer(shape[0]),
                integer(tensor.free_bytes), *offsets,
                TRUE_BYTE if tensor.name in self._constants else FALSE_BYTE,
                integer(tensor.free_elements), FALSE_BYTE if address is not None else TRUE_BYTE,
            )
        )  # fmt: skip

    def access(self, access: Access) -> bytes:
        """Return an access as KLIR's ``birPattern``."""
        tensor, offset, pattern, scalar, vector, dimension, dtype, step = access
        head = self._heads.get(id(tensor))
        if head is None:
            head = self._heads[id(tensor)] = _ACCESS_HEAD + self.tensor(tensor)
        pairs = self._patterns.get(pattern)
        if pairs is None:
            pairs = self._patterns[pattern] = _encode_pairs(pattern)
        if offset < 0 or step is not None:
            raise NotExpressibleError
        if scalar is None and vector is None and dtype is None and dimension == 0:
            return head + cbor.integer(offset) + pairs + _STATIC_ACCESS_END
        return b"".join(
            (
                head, cbor.integer(offset), pairs, self._scalar_offset(scalar),
                NONE_BYTES if vector is None else SOME_HEAD + self.access(vector),
                cbor.integer(dimension), self._override(dtype),
            )
        )  # fmt: skip

    def _scalar_offset(self, scalar: Register | Access | None) -> bytes:
        if scalar is None:
            return NONE_BYTES
        if type(scalar) is Register:
            return SOME_HEAD + _SCALAR_REGISTER + cbor.text(scalar.name)
        assert type(scalar) is Access
        return SOME_HEAD + _SCALAR_ACCESS + self.access(scalar)

    def _override(self, dtype: DType | None) -> bytes:
        if dtype is None:
            return NONE_BYTES
        encoded, exact = dtype_bytes(dtype)
        if not exact:
            self.inexact = True
        return SOME_HEAD + encoded

    # --- positions -------------------------------------------------------------------------

    def position(self, location: SourceLocation | None) -> bytes:
        """Return the source location of a statement; count its function for the companion."""
        if location is None:
            return _NO_POSITION_BYTES
        functions = self.functions
        if functions and functions[-1][1] == location.function:
            functions[-1][0] += 1
        else:
            functions.append([1, location.function])
        self.callers.add(location)
        if location.column == 0 or location.column < -1 or location.line < 0:
            self.locations.append([self._located, location.line, location.column])
        self._located += 1
        cached = self._positions.get(location)
        if cached is None:
            cached = self._positions[location] = self._encode_position(location)
        return cached

    def same_position(self, location: SourceLocation | None) -> bytes:
        """Return the location of a region again for its control statements, without counting it."""
        return _NO_POSITION_BYTES if location is None else self._positions[location]

    def _encode_position(self, location: SourceLocation) -> bytes:
        line, column = max(location.line, 0), max(location.column, 0)
        name = cbor.text(self.files[location.file])
        chunks = (
            _POSITION_HEAD,
            cbor.integer(line),
            cbor.integer(column),
            NONE_BYTES,
            NONE_BYTES,
            SOME_HEAD,
            name,
        )
        return b"".join(chunks)


def _encode_pairs(pattern: tuple[tuple[int, int], ...]) -> bytes:
    parts = [cbor.array_head(len(pattern))]
    for step, count in pattern:
        if count < 0:
            raise NotExpressibleError
        parts += [_PAIR_HEAD, cbor.integer(step), cbor.integer(count), b"\x00"]
    return b"".join(parts)
