"""The reduction registers of the Vector and Scalar Engines, and the instructions that use them.

One float32 register a partition; several instructions share them (isa stub,
tensor_scalar_cumulative and activation, "Accumulator behavior").
"""

from __future__ import annotations

import numpy as np

from nki_lang.base.dtypes import Array
from nki_lang.semantics.elementwise import scaled
from nki_lang.semantics.numbers import per_partition, single, store
from nki_lang.semantics.operators import Operator, operator_of
from nki_lang.semantics.reduction import reduce_free
from nki_lang.semantics.state import EngineState
from nki_lang.semantics.table import semantics

__all__ = ["accumulate", "started"]


def started(
    registers: Array | None, operator: Operator, command: str, initial: object, partitions: int
) -> Array:
    """The registers as ``command`` leaves them before anything is reduced into them."""
    if command == "load_reduce":
        value = np.zeros(partitions, np.float32)
        loaded = single(np.asarray(0.0 if initial is None else initial)).reshape(-1)
        if loaded.size == 1:
            value[:] = loaded[0]
        else:
            value[: loaded.size] = loaded
        return value
    if command in ("reset", "reset_reduce") or registers is None:
        identity = 0.0 if operator.identity is None else operator.identity
        return np.full(partitions, identity, np.float32)
    return registers.copy()


def accumulate(
    state: EngineState,
    value: Array,
    operator: Operator,
    command: str,
    initial: object = None,
) -> Array:
    """Reduce ``value`` into the Vector Engine's registers; what its partitions hold then.

    ``idle`` leaves the registers unchanged and returns the reduction alone; what hardware reads
    out then is undefined (isa stub, exponential).
    """
    lanes = value.shape[0]
    reduced = reduce_free(operator, value)
    if command == "idle":
        return reduced
    registers = started(
        state.vector_accumulator, operator, command, initial, state.target.partitions
    )
    if command != "reset":
        registers[:lanes] = operator.function(registers[:lanes], reduced)
    state.vector_accumulator = registers
    return registers[:lanes]


@semantics("dst", "reduce_res", parallel=True, aligned=("dst",))
def tensor_scalar_reduce(
    dst: Array,
    data: Array,
    op0: str,
    operand0: object,
    reduce_op: str,
    state: EngineState,
    reduce_res: Array | None = None,
    reverse0: bool = False,
    reduce_cmd: str = "reset_reduce",
    reduce_init: object = None,
    reduce_res_negate: bool = False,
) -> None:
    """``dst = data <op0> operand0``, and its reduction along the free axes."""
    value = scaled(single(data), operator_of(op0), operand0, reverse0)
    total = accumulate(state, value, operator_of(reduce_op), reduce_cmd, reduce_init)
    store(dst, value)
    if reduce_res is not None:
        store(reduce_res, -total if reduce_res_negate else total)


@semantics("dst", "reduce_res", parallel=True, aligned=("dst",))
def exponential(
    dst: Array,
    src: Array,
    state: EngineState,
    max_value: object = 0.0,
    reduce_res: Array | None = None,
    reduce_cmd: str = "idle",
    reduce_init: object = 0.0,
) -> None:
    """``dst = exp(src - max_value)``, and the running sum in the registers."""
    value = np.exp(single(src) - per_partition(max_value, src))
    total = accumulate(state, value, operator_of("add"), reduce_cmd, reduce_init)
    store(dst, value)
    if reduce_res is not None:
        store(reduce_res, total)


_RUNNING = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


@semantics(parallel=True)
def tensor_scalar_cumulative(
    dst: Array,
    src: Array,
    op0: str,
    op1: str,
    imm0: object,
    state: EngineState,
    imm1: object = None,
    reduce_cmd: str = "reset_reduce",
) -> None:
    """``reg = op1(op0(src[i], imm0), reg); dst[i] = reg`` along the flattened free axes.

    In float32 and in this order, as the stub's pseudocode has it.
    """
    lanes = src.shape[0]
    value = scaled(single(src), operator_of(op0), imm0, False).reshape(lanes, -1)
    operator = operator_of(op1)
    registers = started(
        state.vector_accumulator, operator, reduce_cmd, imm1, state.target.partitions
    )
    chain = np.empty((lanes, value.shape[1] + 1), np.float32)
    chain[:, 0], chain[:, 1:] = registers[:lanes], value
    if op1 in _RUNNING:
        chain = _RUNNING[op1].accumulate(chain, axis=1)
    else:
        for column in range(1, chain.shape[1]):
            chain[:, column] = operator.function(chain[:, column], chain[:, column - 1])
    registers[:lanes] = chain[:, -1]
    state.vector_accumulator = registers
    store(dst, chain[:, 1:])
