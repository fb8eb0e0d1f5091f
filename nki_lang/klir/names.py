"""What a kernel file calls the tensors and the source lines of its kernel, and their bytes."""

from __future__ import annotations

from typing import Any

from nki_lang.dtypes import DType
from nki_lang.errors import NkiValidationError
from nki_lang.ir.types import Access, Engine, KernelIR, Register, Tensor
from nki_lang.klir import cbor, companion, schema
from nki_lang.klir.callers import CallerWriter
from nki_lang.klir.paths import shown_names
from nki_lang.klir.values import FALSE, NONE, SOME, TRUE, Unsayable, dtype_bytes
from nki_lang.memory import MemoryRegion
from nki_lang.source import SourceLocation

__all__ = ["Names"]

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


class Names:
    """Tensors, accesses and positions of one kernel as bytes, with what the companion adds.

    Attributes:
        inexact: set when decoding would give another value than the one just encoded.
        engine: of the instruction at hand, for the codec of the engine.
        shared: name -> tensor, for every tensor that all cores see, in the order of meeting.
        tensor_notes: the companion's notes on tensors: of shared ones, then of each core's.
        functions: runs of positions in one function, ``[count, function]``.
        places: ``[index, line, column]`` of positions that KLIR cannot say.
        files: source file -> the name that the kernel file calls it by.
        callers: the calls around each position.
    """

    def __init__(self, kernel_ir: KernelIR) -> None:
        self.inexact = False
        self.engine = Engine.unknown
        self.shared: dict[str, Tensor] = {}
        self.tensor_notes: list[dict[str, dict[str, Any]]] = [{}]
        self.functions: list[list[Any]] = []
        self.places: list[list[int]] = []
        self.files = shown_names(kernel_ir)
        self.callers = CallerWriter(self.files)
        self._constants = {constant.tensor.name for constant in kernel_ir.constants}
        self._local: dict[str, Tensor] = {}
        # Tensors go by their identity, which is looked up faster than their value; they are
        # kept so that no other object gets the identity of one that is gone.
        self._tensor_bytes: dict[int, bytes] = {}
        self._heads: dict[int, bytes] = {}
        self._keep: list[Tensor] = []
        self._patterns: dict[tuple[tuple[int, int], ...], bytes] = {}
        self._positions: dict[SourceLocation, bytes] = {}
        self._located = 0

    def begin_core(self) -> None:
        """Private tensors have their names in one core; two cores may use one name."""
        self.tensor_notes.append({})
        self._local = {}
        self._tensor_bytes.clear()
        self._heads.clear()

    # --- tensors ---------------------------------------------------------------------------

    def tensor(self, tensor: Tensor) -> bytes:
        """KLIR's record of a tensor: its name and attributes."""
        known = self._tensor_bytes.get(id(tensor))
        if known is not None:
            return known
        self._meet(tensor)
        encoded = self._encode_tensor(tensor)
        self._tensor_bytes[id(tensor)] = encoded
        self._keep.append(tensor)
        return encoded

    def note(self, tensor: Tensor) -> str:
        """The name of a tensor that the companion speaks of, which KLIR may not mention."""
        self._meet(tensor)
        self._notes_of(tensor)[tensor.name] = companion.tensor_to_json(tensor)
        return tensor.name

    def operand_to_json(self, value: Any) -> Any:
        """An operand for the companion; the tensors in it are noted."""
        return companion.operand_to_json(value, self.note)

    def _meet(self, tensor: Tensor) -> None:
        scope = self.shared if self._is_shared(tensor) else self._local
        known = scope.setdefault(tensor.name, tensor)
        if known is not tensor and known != tensor:
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

    def _override(self, dtype: DType | None) -> bytes:
        if dtype is None:
            return NONE
        encoded, exact = dtype_bytes(dtype)
        if not exact:
            self.inexact = True
        return SOME + encoded

    # --- positions -------------------------------------------------------------------------

    def position(self, location: SourceLocation | None) -> bytes:
        """A statement's place in the source; counts the functions for the companion."""
        if location is None:
            return _NO_POSITION
        functions = self.functions
        if functions and functions[-1][1] == location.function:
            functions[-1][0] += 1
        else:
            functions.append([1, location.function])
        self.callers.add(location)
        if location.column == 0 or location.column < -1 or location.line < 0:
            self.places.append([self._located, location.line, location.column])
        self._located += 1
        known = self._positions.get(location)
        if known is None:
            known = self._positions[location] = self._encode_position(location)
        return known

    def same_position(self, location: SourceLocation | None) -> bytes:
        """The position of a region again, for the statements that stand for it; not counted."""
        return _NO_POSITION if location is None else self._positions[location]

    def _encode_position(self, location: SourceLocation) -> bytes:
        line, column = max(location.line, 0), max(location.column, 0)
        name = cbor.text(self.files[location.file])
        parts = (_POSITION, cbor.integer(line), cbor.integer(column), NONE, NONE, SOME, name)
        return b"".join(parts)


def _encode_pairs(pattern: tuple[tuple[int, int], ...]) -> bytes:
    parts = [cbor.array_head(len(pattern))]
    for step, count in pattern:
        if count < 0:
            raise Unsayable
        parts += [_PAIR, cbor.integer(step), cbor.integer(count), b"\x00"]
    return b"".join(parts)
