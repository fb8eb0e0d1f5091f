"""One call of an instruction on tiles of all sorts, beside what scalars say it gives."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.base.dtypes import dtype_of
from nki_lang.base.targets import target_of
from nki_lang.execute import simulate
from nki_lang.kernel import Kernel

EDGES = [0.0, -0.0, 1.0, -1.5, 2.5, -2.5, 0.1, 3e-39, -1e-45, 300.4, -70000.0, 3e9, -3e38,
         math.inf, -math.inf, math.nan]  # fmt: skip
"""Zeros, ties, subnormals, what overflows small types, and the rest."""


@dataclass
class Case:
    """One call.

    Attributes:
        op: name of the function in ``nki.isa``.
        target: family.
        reads: name -> (values, dtype) or (values, dtype, memory) of each tile that is read.
        writes: name -> (shape, dtype) or (shape, dtype, memory) of each tile that is written.
        expected: name -> values, in row-major order, of what was written.
        options: the other parameters.
        old: name -> values that a written tile holds before.
        close: relative error allowed; 0 for equal bits.
        layouts: where the tiles lie.
        before: called in the kernel before the instruction.
    """

    op: str
    target: str
    reads: dict[str, Any]
    writes: dict[str, Any]
    expected: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    old: dict[str, Any] = field(default_factory=dict)
    close: float = 0.0
    layouts: tuple[str, ...] = ("whole", "strided", "lower")
    before: Any = None
    note: str = ""

    @property
    def fits_below(self) -> bool:
        """No tile has more than the 32 partitions of a quadrant."""
        read = [len(entry[0]) for entry in self.reads.values()]
        return max(read + [entry[0][0] for entry in self.writes.values()]) <= 32

    def __str__(self) -> str:
        types = "-".join(str(entry[1]) for entry in (*self.reads.values(), *self.writes.values()))
        return f"{self.op}-{self.target}-{types}-{self.note}"


def array_of(values, dtype, shape=None):
    """Python numbers as an array that holds them exactly."""
    if isinstance(values, np.ndarray):
        return values
    kind = dtype_of(dtype).dtype
    wide = np.asarray(values, dtype=np.int64 if kind.kind in "iu" else np.float64)
    return (wide if shape is None else wide.reshape(shape)).astype(kind)


def tile_like(array, dtype, memory, layout):
    """A tile of the array's shape, in a memory of its own or every second element of a larger."""
    shape = array if isinstance(array, tuple) else array.shape
    if layout == "whole":
        return nl.ndarray(shape, dtype, getattr(nl, memory))
    if layout == "lower":  # from partition 32 on, behind other columns
        tile = nl.ndarray((64, *shape[1:-1], shape[-1] + 3), dtype, getattr(nl, memory))
        return tile[(slice(32, 32 + shape[0]), *[slice(None)] * (len(shape) - 2), slice(3, None))]
    wide = (*shape[:-1], 2 * shape[-1] + 1)
    tile = nl.ndarray(wide, dtype, getattr(nl, memory))
    return tile[tuple([slice(None)] * (len(shape) - 1) + [slice(1, None, 2)])]


def fill(tile, source, dtype):
    """Bring values from HBM into a tile, through SBUF when it lies in PSUM."""
    if tile.buffer is not nl.psum:
        nisa.dma_copy(dst=tile, src=source)
        return
    step = nl.ndarray(source.shape, dtype, nl.sbuf)
    nisa.dma_copy(dst=step, src=source)
    nisa.tensor_copy(dst=tile, src=step)


def kernel_of(case, layout):
    """The case as a kernel: arguments are what is read, then what is there before."""
    memories = {name: (*entry, "sbuf")[2] for name, entry in (*case.reads.items(),
                                                             *case.writes.items())}  # fmt: skip

    def kernel(tensors, old):
        tiles = {}
        for name, value in tensors.items():
            dtype = getattr(nl, case.reads[name][1])
            source = value.view(dtype) if dtype.kind == "packed" else value
            tiles[name] = tile_like(source, dtype, memories[name], layout)
            fill(tiles[name], source, dtype)
        for name, entry in case.writes.items():
            tiles[name] = tile_like(tuple(entry[0]), getattr(nl, entry[1]), memories[name], layout)
            if name in old:
                fill(tiles[name], old[name], tiles[name].dtype)
        if case.before is not None:
            case.before()
        options = dict(case.options)
        together = options.pop("gathered", None)
        if together is not None:  # one parameter takes all that is read, as a list
            options[together] = [tiles.pop(name) for name in tensors]
        getattr(nisa, case.op)(**{**tiles, **options})
        results = []
        for name, entry in case.writes.items():
            tile = tiles[name]
            out = nl.ndarray(tuple(entry[0]), tile.dtype, nl.shared_hbm)
            if tile.buffer is nl.psum:
                step = nl.ndarray(tuple(entry[0]), tile.dtype, nl.sbuf)
                nisa.tensor_copy(dst=step, src=tile)
                tile = step
            nisa.dma_copy(dst=out, src=tile)
            results.append(out)
        return tuple(results)

    return kernel


def run(case, layout):
    """Return the values that the instruction wrote; the eager and the fast executor agree on them."""
    arrays = {name: array_of(entry[0], entry[1]) for name, entry in case.reads.items()}
    old = {name: array_of(values, case.writes[name][1], case.writes[name][0])
           for name, values in case.old.items()}  # fmt: skip
    family = target_of(case.target)
    kernel = Kernel(kernel_of(case, layout), target=family)
    eager = simulate(kernel, target=family)(arrays, old)
    fast = kernel(arrays, old)
    for first, second in zip(eager, fast, strict=True):
        assert first.tobytes() == second.tobytes() or np.array_equal(
            first.astype(np.float64), second.astype(np.float64), equal_nan=True
        ), "simulate and the executor differ"
    return dict(zip(case.writes, eager, strict=True))


def compare(case, results):
    """Every element against the scalars."""
    for name, expected in case.expected.items():
        actual = results[name].reshape(-1)
        exact = actual.astype(np.int64 if actual.dtype.kind in "iu" else np.float64).tolist()
        flat = np.asarray(expected, dtype=object).reshape(-1).tolist()
        assert len(exact) == len(flat), (len(exact), len(flat))
        for position, (result, reference) in enumerate(zip(exact, flat, strict=True)):
            assert same(result, reference, case.close), (
                f"{name}[{position}] is {result!r}, not {reference!r}"
            )


def same(actual, expected, close):
    """Equal numbers, or close ones; NaN equals NaN."""
    if expected is None:  # nobody says what it is
        return True
    if math.isnan(actual) or math.isnan(expected):
        return math.isnan(actual) and math.isnan(expected)
    if close:
        return actual == expected or abs(actual - expected) <= close * max(abs(expected), 1e-3)
    return actual == expected
