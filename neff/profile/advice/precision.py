"""Tiles in fp32 where 16 bits are enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from neff.profile.advice.rebuild import with_tensors
from neff.profile.advice.rule import BEST_FIX, Fix, Rule, Subject
from nki_lang.base.dtypes import dtype_of
from nki_lang.base.memory import MemoryRegion
from nki_lang.ir import Access, Block, Engine, Instruction, Tensor

__all__ = ["PRECISION"]

_MATMUL_OPS = frozenset({"nc_matmul", "nc_transpose"})

_MIN_LARGE_ELEMENTS = 16
"""Elements of a partition; smaller sums and scales stay in fp32."""


def _accesses(instruction: Instruction) -> Iterator[tuple[str, Access]]:
    for name, value in instruction.operands.items():
        if type(value) is Access:
            yield name, value


def _is_large(tensor: Tensor) -> bool:
    return (
        tensor.on_chip
        and tensor.dtype.name == "float32"
        and tensor.free_elements >= _MIN_LARGE_ELEMENTS
    )


def _fixes(subject: Subject) -> Iterator[Fix]:
    factors, culprits = _factors(subject)
    narrow = _between_narrow(subject) if _is_narrow_outside(subject) else set[str]()
    names = factors | narrow
    if not names:
        return
    if factors:
        message = (
            f"{len(culprits)} matrix products in fp32 take two passes of two cycles per "
            "column, where bfloat16 takes one pass of one cycle"
        )
    else:
        culprits = [
            inst for inst in subject.instructions()
            if any(access.tensor.name in narrow for _, access in _accesses(inst))
        ]  # fmt: skip
        message = (
            f"{len(narrow)} tiles are fp32, although all loaded and stored data has 16 bits: "
            "they take twice the bytes and exclude the fast modes"
        )
    half = dtype_of("bfloat16")

    def halved(tensor: Tensor) -> Tensor:
        return replace(tensor, dtype=half) if tensor.name in names else tensor

    yield Fix(message, tuple(culprits), subject.changed(lambda body: with_tensors(body, halved)))
    if any(_loads_wide(inst, names) for inst in subject.instructions()):
        yield Fix(
            f"{message}; their inputs are fp32 and could be bfloat16 in HBM too",
            tuple(culprits),
            subject.changed(
                lambda body: _with_loads(with_tensors(body, halved), names, _narrow_input)
            ),
        )
        yield Fix(
            f"{message}; their inputs are fp32 and could be cast on chip",
            tuple(culprits),
            subject.changed(
                lambda body: _with_loads(with_tensors(body, halved), names, _cast_on_chip)
            ),
        )


def _loads_wide(instruction: Instruction, names: set[str]) -> bool:
    """Return whether an instruction loads one of these tiles from fp32 in HBM."""
    dst, src = instruction.operands.get("dst"), instruction.operands.get("src")
    return (
        instruction.op == "dma_copy"
        and type(dst) is Access
        and type(src) is Access
        and dst.tensor.name in names
        and not src.tensor.on_chip
        and src.element_type.name == "float32"
    )


def _with_loads(
    body: Block, names: set[str], narrowed: Callable[[Instruction], list[Instruction]]
) -> Block:
    statements: Block = []
    for statement in body:
        if not isinstance(statement, Instruction):
            statements.append(replace(statement, body=_with_loads(statement.body, names, narrowed)))
        elif _loads_wide(statement, names):
            statements += narrowed(statement)
        else:
            statements.append(statement)
    return statements


def _narrow_input(load: Instruction) -> list[Instruction]:
    """Return the load from a 16-bit input."""
    src = load.operands["src"]
    tensor = replace(src.tensor, dtype=dtype_of("bfloat16"))
    return [replace(load, operands={**load.operands, "src": src._replace(tensor=tensor)})]


def _cast_on_chip(load: Instruction) -> list[Instruction]:
    """Return the load into a separate fp32 tile, and a copy that casts."""
    dst = load.operands["dst"]
    wide = replace(dst.tensor, name=f"{dst.tensor.name}/fp32", dtype=dtype_of("float32"))
    staged = dst._replace(tensor=wide)
    copy = Instruction(
        "tensor_copy", {"dst": dst, "src": staged}, Engine.unknown, "", load.location
    )
    return [replace(load, operands={**load.operands, "dst": staged}), copy]


def _factors(subject: Subject) -> tuple[set[str], list[Instruction]]:
    """Return the tiles in SBUF that products read in fp32, and their transposes in PSUM."""
    names: set[str] = set()
    products: list[Instruction] = []
    fp32_products: list[Instruction] = []
    for inst in subject.instructions():
        if inst.op not in _MATMUL_OPS:
            continue
        products.append(inst)
        if inst.op == "nc_transpose" or inst.operands.get("is_transpose"):
            continue
        fp32_names = {
            access.tensor.name for name, access in _accesses(inst)
            if name in ("stationary", "moving") and access.element_type.name == "float32"
            and access.tensor.on_chip and access.dtype is None
        }  # fmt: skip
        if fp32_names:
            names |= fp32_names
            fp32_products.append(inst)
    return (names | _transposed(subject, products, names) if names else names), fp32_products


def _transposed(subject: Subject, products: list[Instruction], names: set[str]) -> set[str]:
    """Return the tiles that become a factor by a transpose, which keeps the type."""
    transposed: set[str] = set()
    copies = [inst for inst in subject.instructions() if inst.op in ("tensor_copy", "activation")]
    transposes = {
        access.tensor.name: inst
        for inst in products
        for name, access in _accesses(inst)
        if name == "dst" and (inst.op == "nc_transpose" or inst.operands.get("is_transpose"))
    }
    for copy in copies:
        dst, src = copy.operands.get("dst"), copy.operands.get("src", copy.operands.get("data"))
        if type(dst) is Access and type(src) is Access and dst.tensor.name in names:
            transpose = transposes.get(src.tensor.name)
            if transpose is not None:
                transposed |= {a.tensor.name for _, a in _accesses(transpose) if a.tensor.on_chip}
    return transposed


def _is_narrow_outside(subject: Subject) -> bool:
    """Return whether all large data in HBM have at most 16 bits."""
    sizes = [
        access.element_type.itemsize
        for inst in subject.instructions()
        for _, access in _accesses(inst)
        if not access.tensor.on_chip and access.tensor.elements >= 128 * _MIN_LARGE_ELEMENTS
    ]
    return bool(sizes) and max(sizes) <= 2


def _between_narrow(subject: Subject) -> set[str]:
    return {
        access.tensor.name
        for inst in subject.instructions()
        for _, access in _accesses(inst)
        if access.tensor.buffer is MemoryRegion.sbuf
        and _is_large(access.tensor)
        and access.dtype is None
    }


PRECISION = Rule(
    "PERF-FP32",
    "fp32 where 16 bits would do",
    "A product in fp32 takes four times as long as one in bfloat16 (Trainium architecture guides; "
    "tensor.fp32_cycles), VectorE is up to twice as fast on 2-byte types in SBUF "
    "(vector.fast_16_cycles), and sums in PSUM stay fp32 either way.",
    "make the tiles bfloat16 if the result stays accurate enough; sums and statistics stay fp32",
    _fixes,
    takes=BEST_FIX,
)
