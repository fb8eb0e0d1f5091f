"""Encodes our kernel IR as KLIR: the bytes of the kernel and the companion record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nki_lang.base.memory import MemoryRegion
from nki_lang.ir.types import Block, Engine, Instruction, KernelIR
from nki_lang.klir import cbor, schema
from nki_lang.klir.names import Names
from nki_lang.klir.regions import encode_body
from nki_lang.klir.statements import StatementWriter

__all__ = ["encode"]


def encode(kernel_ir: KernelIR, constant_files: dict[str, str]) -> tuple[bytes, dict[str, Any]]:
    """Return the ``LncKernel`` of a kernel and its entries of the companion record.

    Args:
        kernel_ir: the kernel.
        constant_files: name of a constant's tensor -> its file.
    """
    names = Names(kernel_ir)
    producers = _producers(kernel_ir)
    statements = StatementWriter(names, producers)
    inputs = [names.tensor(tensor) for tensor in kernel_ir.inputs]
    outputs = [names.tensor(tensor) for tensor in kernel_ir.outputs]
    for constant in kernel_ir.constants:
        names.note(constant.tensor)
    metadata = names.operand_to_json(kernel_ir.metadata)
    bodies = [encode_body(body, names, statements) for body in kernel_ir.bodies]
    trees = [tree for _, tree in bodies]
    groups = (
        inputs,
        outputs,
        [encoded for encoded, _ in bodies],
        _constant_files(constant_files),
        _shared(kernel_ir, names),
    )
    chunks = [schema.head("LncKernel"), cbor.text(kernel_ir.name)]
    for group in groups:
        chunks += [cbor.array_head(len(group)), *group]
    chunks.append(_edges(producers))
    engines = {
        op: engine.name for op, engine in statements.engines.items() if engine is not Engine.unknown
    }
    record = {
        "tensors": names.tensor_notes if any(names.tensor_notes) else None,
        "instructions": statements.notes,
        "functions": names.functions,
        "callers": names.callers.record(),
        "places": names.locations,
        "engines": engines,
        "regions": trees if any(tree is not None for tree in trees) else None,
        "metadata": metadata,
    }
    nonempty = {key: value for key, value in record.items() if value and value != {"dict": []}}
    return b"".join(chunks), nonempty


def _producers(kernel_ir: KernelIR) -> dict[str, tuple[str, ...]]:
    """Return consumer -> the instructions that it waits for, over all cores."""
    producers_of: dict[str, dict[str, None]] = {}
    for body in kernel_ir.bodies:
        for instruction in _dependent(body):
            if instruction.name:
                producers_of.setdefault(instruction.name, {}).update(
                    dict.fromkeys(instruction.depends_on)
                )
    return {name: tuple(producers) for name, producers in producers_of.items()}


def _dependent(block: Block) -> Iterator[Instruction]:
    for statement in block:
        if not isinstance(statement, Instruction):
            yield from _dependent(statement.body)
        elif statement.depends_on:
            yield statement


def _edges(producers: dict[str, tuple[str, ...]]) -> bytes:
    """Return ``depends_on`` as edges, one per pair of producer and consumer."""
    head = schema.head("Edges")
    edges = [
        head + cbor.text(producer) + cbor.array_head(1) + cbor.text(consumer)
        for consumer, names in producers.items()
        for producer in names
    ]
    return cbor.array_head(len(edges)) + b"".join(edges)


def _constant_files(constant_files: dict[str, str]) -> list[bytes]:
    head = schema.head("SharedConstantFile")
    return [head + cbor.text(name) + cbor.text(file) for name, file in constant_files.items()]


def _shared(kernel_ir: KernelIR, names: Names) -> list[bytes]:
    """Return the tensors in shared HBM that are neither inputs, outputs nor constants."""
    named = {tensor.name for tensor in (*kernel_ir.inputs, *kernel_ir.outputs)}
    named |= {constant.tensor.name for constant in kernel_ir.constants}
    return [
        names.tensor(tensor)
        for tensor in list(names.shared.values())
        if tensor.buffer is MemoryRegion.shared_hbm and tensor.name not in named
    ]
