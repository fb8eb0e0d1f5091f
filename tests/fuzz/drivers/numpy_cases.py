"""Random calls of NumPy, as expressions of arrays, for a comparison with what the tracer makes of them.

A case is a function's body in words, so that it can be shown, shrunk and run again.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["INTEGERS", "Array", "Case", "build", "generate", "shrunk"]

BF16 = "bfloat16"
FLOATS = ("float32", "float32", "float16", BF16)
INTEGERS = ("int32", "int8", "uint8", "int16", "uint16", "uint32")
ALL = (*FLOATS, *INTEGERS, "bool", "complex64")
VIEWS = (
    "a.swapaxes(0, -1)", "a.swapaxes(0, 1)", "np.moveaxis(a, 0, -1)", "a[..., ::-1]", "a[None]",
    "a[..., None]", "np.broadcast_to(a, (2, *a.shape))", "np.broadcast_to(a[..., :1], a.shape)",
    "np.broadcast_to(a[:1], a.shape)", "np.broadcast_to(a[:, None], (*a.shape[:1], 2, *a.shape[1:]))",
    "a[::2]", "a[:, ::-1]", "a.real", "a.T[1:]",
)  # fmt: skip
"""Replacements of an argument."""
LAYOUTS = ("C", "C", "F", "T", "step", "back")
SHAPES = ((3,), (2, 3), (2, 3, 2), (), (1,), (4, 1), (0,), (2, 0), (3, 3), (5,))
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, float("inf"), float("-inf"), float("nan"),
           1e-40, 3e38, -7.0, 100.0, 1e-8)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Array:
    """An argument: what it is made of."""

    dtype: str
    shape: tuple[int, ...]
    layout: str = "C"
    seed: int = 0
    special: bool = False
    span: int = 0
    """Values from -span to span; 0 for the usual ones."""

    def make(self) -> np.ndarray[Any, Any]:
        """The array, the same each time."""
        values = self._values()
        if self.layout == "F":
            return np.asfortranarray(values)
        if self.layout == "T" and values.ndim > 1:
            return np.ascontiguousarray(values.T).T
        if self.layout == "step" and values.ndim:
            wide = np.zeros((*values.shape[:-1], 2 * values.shape[-1]), values.dtype)
            wide[..., ::2] = values
            return wide[..., ::2]
        if self.layout == "back" and values.ndim:
            return np.ascontiguousarray(values[::-1])[::-1]
        return values

    def _values(self) -> np.ndarray[Any, Any]:
        rng = np.random.default_rng(self.seed)
        dtype = np.dtype(getattr(ml_dtypes, BF16) if self.dtype == BF16 else self.dtype)
        count = int(np.prod(self.shape))
        if dtype.kind == "b":
            values = rng.integers(0, 2, count)
        elif dtype.kind in "iu":
            limits = np.iinfo(dtype)
            low, high = max(limits.min, -(self.span or 9)), min(limits.max, self.span or 9)
            values = rng.integers(low, high + 1, count)
            if self.special and count:
                values[rng.integers(0, count, 2)] = [limits.min, limits.max]
        elif dtype.kind == "c":
            values = rng.uniform(-3, 3, count) + 1j * rng.uniform(-3, 3, count)
            if self.special and count:
                values[rng.integers(0, count)] = rng.choice(
                    (complex(1, np.nan), complex(np.nan, 0), 0)
                )
        else:
            span = self.span or 3
            values = np.round(rng.uniform(-span, span, count) * 8) / 8
            if self.special and count:
                positions = rng.integers(0, count, max(1, count // 2))
                values[positions] = rng.choice(SPECIAL, len(positions))
        with np.errstate(all="ignore"):
            return np.asarray(values).astype(dtype).reshape(self.shape)


@dataclass(frozen=True, slots=True)
class Case:
    """A function body: a call, what is done with its result, and the arguments by name."""

    function: str
    positional: tuple[str, ...]
    named: tuple[tuple[str, str], ...]
    arrays: tuple[tuple[str, Array], ...]
    before: tuple[str, ...] = ()
    probe: str = "plain"
    exact: bool = False

    @property
    def body(self) -> str:
        words = [*self.positional, *(f"{name}={value}" for name, value in self.named)]
        call = f"{self.function}({', '.join(words)})"
        return f"a{call}" if self.function.startswith(".") else call

    @property
    def text(self) -> str:
        """The whole function."""
        lines = [f"def f({', '.join(name for name, _ in self.arrays)}):"]
        lines += [f"    {line}" for line in self.before]
        lines.append(f"    r = {self.body}")
        lines += [f"    {line}" for line in PROBES[self.probe]]
        names = ", ".join(name for name, _ in self.arrays)
        lines.append(f"    return results(r, {names})")
        return "\n".join(lines)


PROBES: dict[str, list[str]] = {
    "plain": [],
    "write": ["s = r", "s += s.dtype.type(1)"],
    "assign": ["if is_array(r): r[...] = 1"],
    "source": ["if is_array(a): a[...] = 1"],
    "order": ["r = np.ravel(r, order='K')"],
    "ravel": ["k = r.ravel()", "k[:1] = 0"],
    "reshape": ["k = r.reshape(-1, 1)", "k[:1] = 0"],
    "later": ["k = r.reshape(-1)", "if is_array(r): r[...] = 1", "r = [r, k]"],
}
"""Uses of a result: none, written in two ways, its argument is written, its order in memory is
queried, written through another shape, or read through one."""


def is_array(value: Any) -> bool:
    """Return True for a value that can be written to: no number and no tuple."""
    name = type(value).__name__
    return name in ("TracedArray", "ndarray")


def results(outputs: Any, *arrays: Any, kinds: list[Any]) -> list[Any]:
    """A function's results in new memory, its arguments after them.

    ``kinds`` gets a list that says which of them are numbers and which are arrays.
    """
    values = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    kinds.append(["array" if is_array(value) else "number" for value in (*arrays, *values)])
    values = [np.bool_(v) if isinstance(v, bool) else v for v in values]
    return [*[np.positive(v) if v.dtype != bool else np.logical_or(v, v) for v in
              [v for v in values if hasattr(v, "dtype")]], *arrays]  # fmt: skip


def build(case: Any, kinds: list[Any] | None = None) -> Callable[..., Any]:
    """The function of a case; each call appends the kinds of its results."""
    names: dict[str, Any] = {
        "np": np,
        "results": partial(results, kinds=[] if kinds is None else kinds),
        "is_array": is_array,
        "bf16": ml_dtypes.bfloat16,
    }
    exec(case.text, names)
    return names["f"]


# What is called, and with what


@dataclass(frozen=True, slots=True)
class Entry:
    """A function with the arguments and options to choose from."""

    function: str
    arguments: tuple[tuple[str, ...], ...] = (("a",),)
    options: tuple[tuple[str, tuple[str, ...]], ...] = ()
    dtypes: tuple[str, ...] = ALL
    shapes: tuple[tuple[int, ...], ...] = SHAPES
    exact: bool = False


def _words(text: str) -> tuple[tuple[str, ...], ...]:
    """``a; a, 0`` as two ways to give arguments."""
    return tuple(tuple(x.strip() for x in _split(group)) for group in text.split(";"))


def _split(text: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append(current)
            current = ""
        else:
            current += letter
    return [*parts, current]


def _options(**values: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((name, tuple(x.strip() for x in text.split(";"))) for name, text in values.items())


DTYPES = "np.float32; np.int32; np.float16; np.int8; np.uint8; bool"
AXES = "0; -1; None; 1; (0, 1); ()"
REDUCE = _options(axis=AXES, keepdims="True; False", out="o", dtype=DTYPES, initial="2; 2.5; -1", where="m")  # fmt: skip
EXTREME = _options(axis=AXES, keepdims="True; False", out="o", initial="2; 2.5; -1", where="m")
PLANE = ((2, 3), (3, 3), (4, 1), (2, 0))
LONG = ((3,), (2, 3), (2, 3, 2), (5,), (4, 1))
REAL = ALL

ENTRIES = [
    *(Entry(f"np.{n}", _words("a"), REDUCE) for n in ("sum", "prod", "nansum", "nanprod")),
    *(Entry(f"np.{n}", _words("a"), EXTREME) for n in ("max", "min", "amax", "amin")),
    *(Entry(f".{n}", ((),), REDUCE) for n in ("sum", "prod")),
    *(Entry(f".{n}", ((),), EXTREME) for n in ("max", "min")),
    *(Entry(f"np.{n}", _words("a; a, 0; a, None, o"), _options(axis=AXES, keepdims="True", out="o", where="m")) for n in ("any", "all")),
    *(Entry(f"np.{n}", _words("a; a, 0; a, 0, np.float32"), _options(axis=AXES, keepdims="True", dtype="np.float32; np.float16; np.int32", out="o", where="m")) for n in ("mean",)),
    *(Entry(f"np.{n}", _words("a; a, 0; a, 0, None, o"), _options(axis=AXES, keepdims="True", dtype="np.float32; np.float16", out="o", where="m", ddof="1; 9", correction="1")) for n in ("var", "std")),
    *(Entry(f".{n}", ((),), _options(axis=AXES, keepdims="True", out="o")) for n in ("mean", "var", "std", "any", "all")),
    *(Entry(f"np.{n}", _words("a; a, 0; a, 0, o"), _options(axis="0; -1; None", keepdims="True", out="o")) for n in ("argmax", "argmin")),
    *(Entry(f".{n}", ((),), _options(axis="0; -1; None", keepdims="True")) for n in ("argmax", "argmin", "ptp") if hasattr(np.ndarray, n)),
    *(Entry(f"np.{n}", _words("a, 0; a, -1; a, 0, np.float32"), _options(dtype=DTYPES, out="o")) for n in ("cumsum", "cumprod")),
    *(Entry(f".{n}", ((),), _options(axis="0; -1; None; 1", dtype=DTYPES)) for n in ("cumsum", "cumprod")),
    Entry("np.ptp", _words("a"), _options(axis=AXES, keepdims="True", out="o")),
    Entry("np.count_nonzero", _words("a; a, 0"), _options(axis=AXES, keepdims="True")),
    Entry("np.average", _words("a; a, 0"), _options(axis="0; -1; None; (0, 1)", weights="b; w; [1, 2, 4]; [3, 1]", returned="True", keepdims="True")),
    Entry("np.linalg.norm", _words("a"), _options(ord="None; 1; 2; np.inf; -np.inf; 0; 3; 'fro'; -1", axis="0; -1; None; (0, 1)", keepdims="True")),
    Entry("np.diff", _words("a; a, 2"), _options(axis="0; -1", prepend="0; 1.5; a", append="0; a")),
    *(Entry(f"np.add.{n}", _words("a; a, 0"), _options(axis="0; -1; 1", dtype=DTYPES, out="o")) for n in ("reduce", "accumulate")),
    Entry("np.add.reduce", _words("a; a, 0, None, None, True"), REDUCE),
    Entry("np.maximum.reduce", _words("a"), EXTREME),
    Entry("np.logical_and.reduce", _words("a"), _options(axis=AXES, keepdims="True", where="m")),
    Entry("np.logical_or.reduce", _words("a"), _options(axis=AXES, keepdims="True", where="m")),
    Entry("np.multiply.reduce", _words("a"), REDUCE),
    *(Entry(f"np.{n}.outer", _words("a, b"), _options(dtype="np.float32")) for n in ("add", "multiply", "subtract", "less", "maximum")),
    Entry("np.add.at", _words("a, [0, 0], 1; a, 0, b")),
    Entry("np.where", _words("m, a, b; a, b, 1; m, a, 2.5; a > 0, a, 0; m, 1, a"), exact=True),
    Entry("np.select", _words("[m, a > 1], [a, b]; [a > 0], [b], 7.5; [m], [a], -1"), exact=True),
    Entry("np.clip", _words("a, 0, 1; a, b, None; a, None, 2; a, -1, b; a, 0.5, 1.5; a, -300, 300; a, 0, 1, o; a, b, c"), _options(out="o", dtype="np.float32", casting="'unsafe'"), exact=True),
    Entry(".clip", _words("0, 1; -1, b; 0.5, None"), _options(out="o"), exact=True),
    *(Entry(f, _words(w), _options(decimals="0; 1; -1; 2; -2; -3", out="o")) for f, w in (("np.round", "a; a, 1; a, -1, o"), ("np.around", "a"))),
    Entry(".round", ((), ("1",), ("-1",)), _options(decimals="1; -1")),
    Entry("np.fix", _words("a; a, o"), _options(out="o")),
    Entry("np.nan_to_num", _words("a; a, True, 7"), _options(copy="False; True", nan="5; -1.5", posinf="9", neginf="-9"), exact=True),
    Entry("np.isclose", _words("a, b; a, a + a.dtype.type(1); a, 1; a, 0.5"), _options(rtol="0.1; 0; b", atol="4; 0.5; 0", equal_nan="True")),
    Entry("np.allclose", _words("a, b; a, a"), _options(rtol="0.1", atol="4", equal_nan="True")),
    *(Entry(f"np.{n}", _words("a")) for n in ("real", "imag")),
    *(Entry(f".{n}", ((),), exact=True) for n in ("conj", "conjugate")),
    Entry("np.take", _words("a, [0, 1]; a, i; a, 0; a, [[0, -1], [1, 1]]; a, i[0]; a, np.array(0); a, []"), _options(axis="0; -1; 1; None", mode="'wrap'; 'clip'; 'raise'", out="o"), exact=True),
    Entry(".take", _words("[0, 1]; i; 0"), _options(axis="0; -1; 1", mode="'wrap'; 'clip'"), exact=True),
    Entry("np.take_along_axis", _words("a, np.argsort(a, 0, 'stable'), 0; a, np.argsort(a, -1, 'stable'), -1; a, i, None; a, i[:, None], 0"), shapes=LONG, exact=True),
    Entry("np.sort", _words("a; a, 0"), _options(axis="0; -1; None; 1", kind="'stable'"), exact=True),
    Entry("np.argsort", _words("a, kind='stable'"), _options(axis="0; -1; None; 1"), exact=True),
    Entry(".argsort", _words("kind='stable'"), _options(axis="0; -1"), exact=True),
    # Shapes
    Entry("np.reshape", _words("a, -1; a, (-1, 1); a, (1, -1); a, a.shape[::-1]; a, a.shape; a, (a.size,)"), _options(order="'C'; 'F'; 'A'", copy="True; None; False"), exact=True),
    Entry(".reshape", _words("-1; -1, 1; (1, -1); a.shape[::-1]"), _options(order="'C'; 'F'; 'A'", copy="True; None"), exact=True),
    Entry("np.ravel", _words("a; a, 'F'"), _options(order="'C'; 'F'; 'A'; 'K'"), exact=True),
    Entry(".ravel", ((), ("'F'",)), _options(order="'C'; 'F'; 'A'; 'K'"), exact=True),
    Entry(".flatten", ((), ("'F'",)), _options(order="'C'; 'F'; 'A'; 'K'"), exact=True),
    Entry(".copy", ((),), _options(order="'C'; 'F'; 'A'; 'K'"), exact=True),
    Entry("np.copy", _words("a"), _options(order="'C'; 'F'; 'A'; 'K'"), exact=True),
    Entry(".astype", _words("np.float32; np.int32; np.float16; np.int8; np.uint8; bool; np.uint32; a.dtype; bf16"), _options(copy="False; True", order="'C'; 'F'; 'A'; 'K'", casting="'unsafe'; 'same_kind'; 'safe'; 'no'"), exact=True),
    Entry(".view", _words("np.int32; np.float32; np.uint32; np.int8; np.uint8; np.int16; np.float16; bool; a.dtype;"), exact=True),
    Entry("np.transpose", _words("a; a, range(a.ndim)[::-1]; a, (1, 0)"), exact=True),
    Entry(".transpose", ((), ("1", "0"), ("(1, 0)",), ("None",)), exact=True),
    Entry("np.swapaxes", _words("a, 0, -1; a, 0, 1"), exact=True),
    Entry(".swapaxes", _words("0, -1; 0, 1"), exact=True),
    Entry("np.moveaxis", _words("a, 0, -1; a, -1, 0; a, (0, 1), (1, 0)"), exact=True),
    Entry("np.expand_dims", _words("a, 0; a, -1; a, (0, 2); a, 1"), exact=True),
    Entry("np.squeeze", _words("a; a, -1; a, 0"), exact=True),
    Entry(".squeeze", ((), ("-1",)), exact=True),
    *(Entry(f"np.{n}", _words("a; a, b"), exact=True) for n in ("atleast_1d", "atleast_2d", "atleast_3d")),
    Entry("np.broadcast_to", _words("a, (2, *a.shape); a, a.shape; a, (3, 3); a, (2, 4, 3)"), exact=True),
    Entry("np.broadcast_arrays", _words("a, b; a, a[..., None]"), exact=True),
    Entry("np.flip", _words("a; a, 0; a, -1; a, (0, 1)"), exact=True),
    *(Entry(f"np.{n}", _words("a"), exact=True) for n in ("fliplr", "flipud")),
    Entry("np.rot90", _words("a; a, 2; a, 3; a, 0; a, 1, (1, 0)"), shapes=PLANE, exact=True),
    Entry("np.roll", _words("a, 1; a, -1; a, 2, 0; a, (1, 2), (0, 1); a, 1, -1; a, 7; a, (1, 2), 0"), exact=True),
    Entry("np.repeat", _words("a, 2; a, 2, 0; a, 3, -1; a, 0; a, [1, 2, 0], 0; a, 1"), exact=True),
    Entry(".repeat", _words("2; 2, 0"), exact=True),
    Entry("np.tile", _words("a, 2; a, (2, 3); a, (1, 2, 1); a, 0; a, ()"), exact=True),
    Entry("np.pad", _words("a, 1; a, (1, 2); a, 2, 'edge'; a, 2, 'reflect'; a, (2, 0), 'symmetric'; a, 1, 'wrap'; a, 4, 'reflect'; a, 4, 'wrap'; a, 0; a, 3, 'symmetric'; a, 1, 'constant'"), _options(constant_values="3; (1, 2); 2.5", reflect_type="'odd'; 'even'"), exact=True),
    Entry("np.concatenate", _words("[a, a]; [a, b]; [a, b], 0; [a, c], -1; (a, a, b), None; [a, w], 0"), _options(axis="0; -1; None", dtype=DTYPES, casting="'unsafe'", out="o"), exact=True),
    Entry("np.stack", _words("[a, a]; [a, b]; [a, b], -1; [a, b], 1"), _options(axis="0; -1", dtype=DTYPES, casting="'unsafe'"), exact=True),
    *(Entry(f"np.{n}", _words("[a, a]; [a, b]; (b, a)"), _options(dtype=DTYPES, casting="'unsafe'"), exact=True) for n in ("vstack", "hstack", "dstack")),
    Entry("np.column_stack", _words("[a, a]; [a, b]"), exact=True),
    Entry("np.append", _words("a, b; a, 1; a, a, 0; a, [1, 2]"), exact=True),
    Entry("np.split", _words("a, 1; a, 2; a, [1]; a, [1, 2], -1; a, 3, 0"), exact=True),
    Entry("np.array_split", _words("a, 2; a, [1]; a, 4; a, 2, -1"), exact=True),
    Entry("np.hsplit", _words("a, 1; a, [1]"), exact=True),
    Entry("np.vsplit", _words("a, 1; a, [1]"), exact=True),
    Entry("np.dsplit", _words("a, 1; a, 2; a, [1]; a, [1, 2]"), shapes=((2, 3, 2), (1, 2, 4), (2, 0, 2), (2, 3)), exact=True),
    *(Entry(f"np.{n}", _words("a"), shapes=(*PLANE, (2, 3, 2), (3,), (1, 2, 0)), exact=True) for n in ("matrix_transpose", "linalg.matrix_transpose")),
    Entry("np.full_like", _words("np.empty_like(a), 2; np.empty_like(a, np.int32), 2; np.empty_like(a, shape=(2, 2)), 1.5; np.empty_like(a, order='F'), b"), exact=True),
    Entry("np.meshgrid", _words("a, b; a, c; a"), _options(indexing="'ij'; 'xy'", sparse="True", copy="False"), shapes=((3,), (1,), ()), exact=True),
    Entry("np.full_like", _words("a, 2; a, 1.5; a, b"), _options(dtype=DTYPES, order="'C'; 'F'; 'A'; 'K'", shape="(2, 2); 3; a.shape[::-1]"), exact=True),
    *(Entry(f"np.{n}", _words("a; a, np.int32"), _options(dtype=DTYPES, order="'C'; 'F'; 'A'; 'K'", shape="(2, 2); 3"), exact=True) for n in ("zeros_like", "ones_like")),
    Entry("np.copyto", _words("a, b; a, 1; a, b, 'unsafe'; a, 2.5; a, w"), _options(where="m; a > 0; True", casting="'unsafe'; 'same_kind'; 'no'"), exact=True),
    Entry("np.astype", _words("a, np.float32; a, np.int32; a, bool"), _options(copy="False; True"), exact=True),
    *(Entry(f"np.{n}", _words("a; a, 1; a, -1"), exact=True) for n in ("tril", "triu", "diag", "diagflat", "diagonal")),
    Entry(".diagonal", ((), ("1",)), shapes=PLANE, exact=True),
    Entry("np.trace", _words("a; a, 1; a, 0, 1, 0"), _options(dtype=DTYPES, out="o"), shapes=(*PLANE, (2, 3, 2))),
    Entry("np.put_along_axis", _words("a, np.argsort(a, 0, 'stable'), b, 0; a, i[:2], 1, None"), shapes=LONG, exact=True),
    # Products
    *(Entry(f"np.{n}", _words("a, b; a, b.T; a.T, b; a, a; a, w; a, 100; 2.5, a"), _options(out="o") if n in ("dot",) else ()) for n in ("dot", "inner", "vdot", "kron")),
    Entry("np.matmul", _words("a, b; a, b.T; a.T, b; a, a[0]; a[0], b.T"), _options(out="o", dtype="np.float32; np.int32", casting="'unsafe'")),
    Entry("np.outer", _words("a, b; a, w; a, 2; a, 100"), _options(out="o")),
    Entry("np.tensordot", _words("a, b, 1; a, b; a, b, 0; a, 100, 0; a, b.T, 1; a, b, ([0], [0]); a, b, ([-1], [-1])")),
    Entry("np.cross", _words("a, b; a.T, b.T"), _options(axis="0; -1"), shapes=((3,), (3, 3), (2, 3), (3, 2))),
    *(Entry("np.einsum", _words(w), _options(out="o", dtype="np.float32; np.int32", casting="'unsafe'"), shapes=s) for w, s in (
        ("'ij,kj->ik', a, b; 'ij->ji', a; 'ij->', a; 'ij->i', a; 'ij,ij->ij', a, b; 'ij,j', a, w; '...j,...j', a, b; 'ij', a; '...j,...j', a[:1], b; 'ij,kj->ik', a, b[:, :1]; 'ij,ij->', a[:, :1], b; 'ij,->ij', a, 100", ((2, 3), (3, 3))),
        ("'i,i->', a, b; 'i,i->i', a, b; 'i,j->ij', a, b; 'i->', a; 'i', a; 'i->i', a; 'i,i->i', a[:1], b; 'i,i', a, b[:1]", ((3,), (5,))))),
]  # fmt: skip

KEYS = ["0", "-1", "...", "()", "None", ":", "1:", "::2", "::-1", "0:0", "-1:", "[0]", "[0, -1]", "i",
        "i[0]", "np.array(0)", "np.array([True, False, True])", "(0, 0)", "(..., 0)", "(0, ...)",
        "(slice(None), 0)", "(slice(None), i)", "(i, 0)", "(i, i)", "(None, 0)", "(0, None)",
        "(slice(None), [0, 1])", "(slice(None), None, 0)", "(..., None)", "(0, slice(None, None, -1))",
        "(i[0], slice(None))", "(slice(None), i[1])", "(i[0], i[1])", "(i[0], ...)", "(i, None, i)",
        "(0, slice(None), i)", "([0, 1], slice(None), [1, 0])", "(slice(1, None), slice(None, None, -2))",
        "np.argmax(a)", "m", "a > 0", "(..., i)", "(i[:, None], i[None, :])", "-7", "(0, 5)"]  # fmt: skip
VALUES = [
    "0",
    "1",
    "2.5",
    "b",
    "c",
    "b[0]",
    "a",
    "a[::-1]",
    "w",
    "True",
    "-1",
    "a.T",
    "[1, 2, 3]",
    "a[0]",
]
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>", "<", "<=", ">", ">=", "==", "!="]  # fmt: skip
NUMBERS = ["2", "-1", "0", "0.5", "True", "300", "2.0", "np.float32(1.5)", "np.int8(3)", "-1.5", "1", "np.float64(0.1)", "np.uint8(7)", "70000", "100", "[1, 2, 3]", "b", "b", "b", "w", "c"]  # fmt: skip


def _ufuncs(inputs: int) -> list[str]:
    from hlo_tools.trace.elementwise import LOWERINGS

    return sorted(ufunc.__name__ for ufunc in LOWERINGS if ufunc.nin == inputs)


UFUNC = _options(out="o", where="m", dtype=DTYPES, casting="'unsafe'; 'same_kind'; 'safe'; 'no'", order="'C'; 'F'; 'K'; 'A'")  # fmt: skip


def generate(rng: random.Random) -> Case:
    """One random case."""
    kind = rng.choices(
        (_table, _unary, _binary, _operator, _getitem, _setitem, _in_place), (9, 4, 4, 3, 2, 2, 2)
    )[0]
    return kind(rng)


def _arguments(rng: random.Random, dtypes: tuple[str, ...], shapes: Any) -> dict[str, Array]:
    dtype, shape = rng.choice(dtypes), rng.choice(shapes)
    second = dtype if rng.random() < 0.6 else rng.choice(dtypes)

    def one(of: str, size: tuple[int, ...], span: int = 0) -> Array:
        special = rng.random() < 0.3
        return Array(of, size, rng.choice(LAYOUTS), rng.randrange(1 << 20), special, span)

    result = rng.choice((dtype, second, "float32", "int32", rng.choice(ALL)))
    return {
        "a": one(dtype, shape),
        "b": one(second, shape),
        "c": one(second, shape[-1:]),
        "w": one(second, shape[:1] if rng.random() < 0.7 else (3,)),
        "m": one("bool", shape),
        "i": Array(rng.choice(("int32", "int32", "uint8", "int8")), (3,), "C", rng.randrange(99), False, 1),
        "o": one(result, rng.choice((shape, shape[1:], shape[:-1], (), (*shape, 1)))),
    }  # fmt: skip


def _case(
    rng: random.Random, function: str, positional: Any, named: Any, arrays: dict[str, Array], *,
    before: tuple[str, ...] = (), exact: bool = False,
) -> Case:  # fmt: skip
    named = tuple(named)
    if any(word in function for word in ("cumsum", "cumprod", "accumulate")) and (
        len(positional) > 2 or any(name == "dtype" for name, _ in named)
    ):
        named = tuple(pair for pair in named if pair[0] != "out")
    case = Case(function, tuple(positional), named, (), before, "plain", exact)

    used = set(re.findall(r"\b[abcwmio]\b", " ".join((case.body, *before)))) | {"a"}
    if any(word in function for word in ("cumsum", "cumprod", "accumulate")):
        # NumPy itself crashes when such an output has another shape, or with a dtype besides, and
        # when strided elements are cast.
        arrays["a"] = replace(arrays["a"], layout="C")
        arrays = {**arrays, "o": replace(arrays["o"], shape=arrays["a"].shape or (1,))}
        if any(value == "None" for _, value in named):
            arrays["o"] = replace(arrays["o"], shape=(int(np.prod(arrays["a"].shape)),))
    if rng.random() < 0.2:
        before = (f"a = {rng.choice(VIEWS)}", *before)
        case = replace(case, before=before)
    probe = rng.choice(list(PROBES)) if rng.random() < 0.5 else "plain"
    used_arrays = tuple((name, array) for name, array in arrays.items() if name in used)
    return replace(case, arrays=used_arrays, probe=probe)


def _table(rng: random.Random) -> Case:
    entry = rng.choice(ENTRIES)
    arrays = _arguments(rng, entry.dtypes, entry.shapes)
    positional = [word for word in rng.choice(entry.arguments) if word]
    if rng.random() < 0.1:
        positional = _with_number(rng, positional)
    named: list[tuple[str, str]] = []
    count = rng.choices((0, 1, 2, 3), (3, 4, 2, 1))[0]
    for name, values in rng.sample(entry.options, min(count, len(entry.options))):
        named.append((name, rng.choice(values)))
    return _case(rng, entry.function, positional, named, arrays, exact=entry.exact)


def _with_number(rng: random.Random, words: list[str]) -> list[str]:
    """The arguments with a number in the place of one array; as they are where there is one only."""
    text = " ; ".join(words)
    positions = [match.span() for match in re.finditer(r"\b[abcw]\b(?![.\[*])", text)]
    if len(positions) < 2:
        return words
    start, end = rng.choice(positions)
    return f"{text[:start]}{rng.choice(NUMBERS[:15])}{text[end:]}".split(" ; ")


def _called(rng: random.Random, name: str, count: int) -> Case:
    arrays = _arguments(rng, ALL, SHAPES)
    words = ["a"] if count == 1 else ["a", rng.choice(("b", "b", "b", "c", *NUMBERS))]
    if count == 2 and rng.random() < 0.2:
        words.reverse()
    if rng.random() < 0.1 and name not in ("divmod", "modf"):
        words.append("o")
    named: dict[str, str] = {}
    for option, values in rng.sample(UFUNC, rng.choices((0, 1, 2), (6, 4, 1))[0]):
        if option == "where" and "o" not in words:
            named["out"] = "o"
        if option != "out" or "o" not in words:
            named[option] = rng.choice(values)
    if name in ("divmod", "modf"):
        named = {}
    return _case(rng, f"np.{name}", words, named.items(), arrays)


def _unary(rng: random.Random) -> Case:
    return _called(rng, rng.choice(_ufuncs(1)), 1)


def _binary(rng: random.Random) -> Case:
    return _called(rng, rng.choice(_ufuncs(2)), 2)


def _operator(rng: random.Random) -> Case:
    arrays = _arguments(rng, ALL, SHAPES)
    left, right = "a", rng.choice(NUMBERS)
    if rng.random() < 0.3:
        left, right = right, left
    if rng.random() < 0.15:
        left = "a[0]" if left == "a" else left
    return _case(rng, "", [f"{left} {rng.choice(OPERATORS)} {right}"], (), arrays)


def _getitem(rng: random.Random) -> Case:
    arrays = _arguments(rng, ALL, LONG if rng.random() < 0.8 else SHAPES)
    return _case(rng, "", [f"a[{rng.choice(KEYS)}]"], (), arrays, exact=True)


def _setitem(rng: random.Random) -> Case:
    arrays = _arguments(rng, ALL, LONG if rng.random() < 0.8 else SHAPES)
    key = rng.choice(KEYS)
    base = rng.choice(
        ("a", "a", "a", "a.T", "a[::2]", "a[..., ::-1]", "a.reshape(-1)", "a.ravel()")
    )
    sign = rng.choice(("=", "=", "=", "+=", "*="))
    line = f"{base}[{key}] {sign} {rng.choice(VALUES)}"
    return _case(rng, "", ["a"], (), arrays, before=(line,), exact=True)


def _in_place(rng: random.Random) -> Case:
    arrays = _arguments(rng, ALL, SHAPES)
    target = rng.choice(("a", "a", "s", "v"))
    before = {"a": (), "s": ("s = a[0]",), "v": (f"v = a[{rng.choice(KEYS)}]",)}[target]
    sign = rng.choice(("+", "-", "*", "/", "//", "%", "&", "|", "^", "**", "<<", ">>", "@"))
    line = f"{target} {sign}= {rng.choice(NUMBERS)}"
    return _case(rng, "", [target], (), arrays, before=(*before, line))


# Shrinking


def shrunk(case: Case, fails: Callable[[Case], bool]) -> Case:
    """A smaller case that still fails: fewer options, plainer arrays."""
    changed = True
    while changed:
        changed = False
        for smaller in _smaller(case):
            if fails(smaller):
                case, changed = smaller, True
                break
    return case


def _smaller(case: Case) -> list[Case]:
    candidates = []
    if case.probe != "plain":
        candidates.append(replace(case, probe="plain"))
    if case.before and case.before[0].startswith("a = "):
        candidates.append(replace(case, before=case.before[1:]))
    for position in range(len(case.named)):
        candidates.append(replace(case, named=case.named[:position] + case.named[position + 1 :]))
    for position, (name, array) in enumerate(case.arrays):
        for plainer in (
            replace(array, layout="C"), replace(array, special=False), replace(array, seed=1),
            replace(array, dtype="float32"), replace(array, shape=array.shape[:1]),
        ):  # fmt: skip
            if plainer != array:
                arrays = (*case.arrays[:position], (name, plainer), *case.arrays[position + 1 :])
                candidates.append(replace(case, arrays=arrays))
    return candidates
