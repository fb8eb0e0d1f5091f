"""Every operation of a kind on the same arguments, and the operations that random chains seldom meet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fuzz.drivers.hlo_programs.program import ELEMENTS
from tests.fuzz.drivers.hlo_programs.tables import (
    EXACT_FLOAT,
    EXACT_PAIRS,
    INTEGER_ONES,
    INTEGER_PAIRS,
)
from tests.fuzz.drivers.programs import Value

if TYPE_CHECKING:
    from tests.fuzz.drivers.hlo_programs.generate import Maker

__all__ = ["grid", "random_bits"]


def grid(make: Maker) -> bool:
    """Each exact operation of one type, and the periodic ones, all on two arguments; False when the type has
    none."""
    x = make.pick("fiu", exact=True)
    if x is None or x.dtype.endswith("int4"):  # jaxlib computes those in bytes
        return False
    y = make.like(x, exact=True)
    is_float = x.kind == "f"
    signed = ("negate", "abs", "sign")
    ones = EXACT_FLOAT if is_float else INTEGER_ONES
    for op in ones:
        if x.kind != "u" or op not in signed:
            result_dtype = "bool" if op == "is-finite" else x.dtype
            make.emit(f"{op}({x.name})", x.shape, result_dtype, (x,), jumps=True)
    for op in ("sine", "cosine") if x.dtype in ("float32", "float16", "bfloat16") else ():
        make.emit(f"{op}({x.name})", x.shape, x.dtype, (x,), exact=False)
    for op in EXACT_PAIRS if is_float else INTEGER_PAIRS:
        make.emit(f"{op}({x.name}, {y.name})", x.shape, x.dtype, (x, y), jumps=True)
    return True


def random_bits(make: Maker) -> Value | None:
    """Bits of a generator from a state that may be about to overflow."""
    algorithm, words = make.chance.choice(
        (("rng_three_fry", 2), ("rng_philox", 2), ("rng_philox", 3))
    )
    state = ",".join(
        str(make.chance.choice((0, 1, 2**64 - 1, 2**32 - 1, make.chance.getrandbits(64))))
        for _ in range(words)
    )
    dtype = make.chance.choice(("uint32", "uint32", "uint64", "uint16", "uint8"))
    shape = make.chance.choice(((3,), (4, 5), (130,)))
    kind, tag = ELEMENTS[dtype], make.unique("bits")
    extents = ",".join(map(str, shape))
    returns_bits = make.chance.random() < 0.7
    result_kind = f"{kind}[{extents}]" if returns_bits else f"u64[{words}]"
    body = (
        f"{tag} {{ s = u64[{words}] constant({{{state}}})"
        f" r = (u64[{words}], {kind}[{extents}]) rng-bit-generator(s), algorithm={algorithm}"
        f" ROOT g = {result_kind} get-tuple-element(r), index={int(returns_bits)} }}"
    )
    if not returns_bits:
        dtype, shape = "uint64", (words,)
    return make.emit(f"call(), to_apply={tag}", shape, dtype, jumps=True, called=(body,))
