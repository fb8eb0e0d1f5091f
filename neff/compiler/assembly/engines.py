"""On which engine an instruction runs, when the kernel leaves it open.

The instruction table lists the engines that can; the rules here choose among them. Of several
the one is taken that would be done first by the timing model's costs, of what it has to do already.
"""

from __future__ import annotations

from dataclasses import replace

from neff.timing import InstructionCosts, Parameters
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.targets import Target
from nki_lang.ir import Access, Block, Engine, Instruction
from nki_lang.isa.rules import BITVEC
from nki_lang.isa.table import TABLE

__all__ = ["TRANSFERS", "EngineChooser"]

TRANSFERS: frozenset[str] = frozenset(
    op for op, spec in TABLE.items() if Engine.dma in spec.engines[4]
)
"""Instructions that the DMA engines carry out."""

_WORD_TYPES = frozenset({"int32", "uint32"})

_WINDOW_NS = 20_000.0
"""An engine that had nothing to do for long is not taken for everything that comes: work further
back than this does not count."""

_PREFERENCE = (
    Engine.vector,
    Engine.scalar,
    Engine.gpsimd,
    Engine.tensor,
    Engine.sync,
)


class EngineChooser:
    """Chooses engines for one core's program, statement by statement."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._load: dict[Engine, float] = dict.fromkeys(_PREFERENCE, 0.0)
        self._costs = InstructionCosts(Parameters(target.name))

    def assign(self, body: Block) -> Block:
        """The statements with an engine on every instruction."""
        assigned: Block = []
        for statement in body:
            if isinstance(statement, Instruction):
                engine = self.engine_of(statement)
                assigned.append(
                    statement if engine is statement.engine else replace(statement, engine=engine)
                )
            else:
                assigned.append(replace(statement, body=self.assign(statement.body)))
        return assigned

    def engine_of(self, instruction: Instruction) -> Engine:
        """The engine whose program has the instruction."""
        if instruction.op in TRANSFERS:
            engine = _trigger(instruction)
            if engine is Engine.gpsimd:  # makes the descriptors, and computes nothing meanwhile
                self._load[engine] += self._cost(instruction, engine)
            return engine
        if instruction.engine is not Engine.unknown:
            engine = instruction.engine
        else:
            engine = self._chosen(instruction)
        if engine in self._load:
            self._load[engine] += self._cost(instruction, engine)
            least = self._load[engine] - _WINDOW_NS
            for loaded, load in self._load.items():
                self._load[loaded] = max(load, least)
        return engine

    def _cost(self, instruction: Instruction, engine: Engine) -> float:
        return self._costs.of(replace(instruction, engine=engine)).interval

    def _chosen(self, instruction: Instruction) -> Engine:
        spec = TABLE.get(instruction.op)
        if spec is None:
            return Engine.sync
        allowed = set(spec.engines[self._target.generation])
        rule = _RULES.get(instruction.op)
        if rule is not None:
            allowed = rule(instruction, allowed, self._target)
        if len(allowed) > 1 and _touches_psum(instruction):
            allowed.discard(Engine.gpsimd)
        if instruction.op.startswith("register_"):
            return Engine.sync
        choices = [engine for engine in _PREFERENCE if engine in allowed]
        return min(
            choices, key=lambda engine: self._load[engine] + 2 * self._cost(instruction, engine)
        )


def _trigger(instruction: Instruction) -> Engine:
    """Whose program starts a transfer: loads wait for nothing that the kernel computes and are
    started by the sync engine, ahead of the work; stores wait for results and are started by
    GpSimd, so that no load waits behind them."""
    if instruction.engine in (Engine.sync, Engine.scalar):
        return instruction.engine
    target = instruction.operands.get("dst")
    if type(target) is Access and not target.tensor.on_chip:
        return Engine.gpsimd
    return Engine.sync


def _touches_psum(instruction: Instruction) -> bool:
    return any(
        type(operand) is Access and operand.tensor.buffer is MemoryRegion.psum
        for operand in instruction.operands.values()
    )


def _types(instruction: Instruction) -> set[str]:
    return {
        operand.element_type.name
        for operand in instruction.operands.values()
        if type(operand) is Access
    }


def _floats_only(instruction: Instruction) -> bool:
    return all(name.startswith(("float", "bfloat", "tfloat")) for name in _types(instruction))


_SCALAR_PAIRS = frozenset({("multiply", None), ("add", None), ("multiply", "add")})
"""Operations of tensor_scalar that the scalar engine of trn2 has (NKI-ENGINE)."""


def _tensor_tensor(instruction: Instruction, allowed: set[Engine], target: Target) -> set[Engine]:
    """Words are exact on GpSimd; powers only exist there (isa stub, nisa.tensor_tensor)."""
    op = instruction.operands["op"]
    if op == "power":
        return {Engine.gpsimd}
    if op not in BITVEC and _types(instruction) <= _WORD_TYPES and not _touches_psum(instruction):
        return {Engine.gpsimd}
    return _shared(allowed, target)


def _tensor_scalar(instruction: Instruction, allowed: set[Engine], target: Target) -> set[Engine]:
    """Bit operations on the vector engine; the scalar engine has few pairs and none on trn1."""
    operators = {instruction.operands["op0"], instruction.operands.get("op1")} - {None}
    if operators & BITVEC:
        return {Engine.vector}
    if operators & {"power", "rsqrt"}:
        return {Engine.gpsimd} if not _touches_psum(instruction) else {Engine.vector}
    operands = instruction.operands
    pair = (operands["op0"], operands.get("op1"))
    plain = not (operands.get("reverse0") or operands.get("reverse1")) and target.generation >= 3
    if not (plain and pair in _SCALAR_PAIRS and _floats_only(instruction)):
        allowed = allowed - {Engine.scalar}
    return _shared(allowed, target)


def _tensor_copy(instruction: Instruction, allowed: set[Engine], target: Target) -> set[Engine]:
    """The scalar engine casts through float32, so integers do not go there; trn1 has none."""
    if target.generation < 3 or not _floats_only(instruction):
        allowed = allowed - {Engine.scalar}
    return _shared(allowed, target)


def _transpose(instruction: Instruction, allowed: set[Engine], target: Target) -> set[Engine]:
    """The tensor engine reads SBUF and writes PSUM; anything else is for the vector engine."""
    to_psum = instruction.operands["dst"].tensor.buffer is MemoryRegion.psum
    from_sbuf = instruction.operands["data"].tensor.buffer is MemoryRegion.sbuf
    return {Engine.tensor} if to_psum and from_sbuf else {Engine.vector}


def _barrier(instruction: Instruction, allowed: set[Engine], target: Target) -> set[Engine]:
    return {Engine.gpsimd}


def _shared(allowed: set[Engine], target: Target) -> set[Engine]:
    """On trn1 the vector engine and GpSimd cannot use SBUF at the same time (arch guide
    trainium_inferentia2, 596), so nothing is gained by moving work between them."""
    return allowed - {Engine.gpsimd} if target.generation < 3 else allowed


_RULES = {
    "core_barrier": _barrier,
    "nc_transpose": _transpose,
    "tensor_copy": _tensor_copy,
    "tensor_scalar": _tensor_scalar,
    "tensor_tensor": _tensor_tensor,
}
