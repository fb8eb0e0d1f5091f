"""NumPy functions and methods on traced arrays, each against NumPy through jaxlib."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import neff
from hlo_tools.evaluate import evaluate
from hlo_tools.trace import supported, trace
from neff import runtime
from tests.trace.running import agree

pytestmark = pytest.mark.jax

RNG = np.random.default_rng(5)
A = RNG.normal(size=(3, 4)).astype("f4")
B = RNG.normal(size=(3, 4)).astype("f4")
C = RNG.normal(size=(2, 3, 4)).astype("f4")
I4 = RNG.integers(-9, 9, (3, 4)).astype("i4")
I1 = RNG.integers(-9, 9, (3, 4)).astype("i1")
U1 = RNG.integers(0, 9, (3, 4)).astype("u1")
H = RNG.normal(size=(3, 4)).astype("f2")
BF = RNG.normal(size=(3, 4)).astype(ml_dtypes.bfloat16)
M = RNG.random((3, 4)) > 0.5
V = RNG.normal(size=6).astype("f4")
NANS = np.where(RNG.random((3, 4)) > 0.6, np.nan, A).astype("f4")
AXES: list[Any] = [None, 0, 1, -1, (0, 1)]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("x", [A, I4, I1, U1, H, BF, M], ids=lambda x: str(x.dtype))
def test_reductions(x: np.ndarray[Any, Any], axis: Any, keepdims: bool) -> None:
    def function(a: Any) -> list[Any]:
        options = {"axis": axis, "keepdims": keepdims}
        return [np.sum(a, **options), np.max(a, **options), np.min(a, **options),
                np.mean(a, **options), np.any(a, **options), np.all(a, **options)]  # fmt: skip

    agree(function, x)


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("x", [A, I4, H], ids=lambda x: str(x.dtype))
def test_more_reductions(x: np.ndarray[Any, Any], axis: Any) -> None:
    def function(a: Any) -> list[Any]:
        return [np.prod(a, axis), np.var(a, axis), np.std(a, axis), np.ptp(a, axis),
                np.count_nonzero(a, axis), np.var(a, axis, ddof=1, keepdims=True)]  # fmt: skip

    agree(function, x, rtol=1e-3)


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("x", [A, I4, NANS, M, BF], ids=["f4", "i4", "nan", "bool", "bf16"])
def test_positions_and_scans(x: np.ndarray[Any, Any], axis: Any) -> None:
    agree(lambda a: [np.argmax(a, axis), np.argmin(a, axis)], x)
    agree(lambda a: np.argmax(a, axis, keepdims=True), x)
    if not np.isnan(x.astype("f4")).any():
        agree(lambda a: [np.cumsum(a, axis), np.cumprod(a, axis)], x, rtol=1e-3)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("function", [np.cumsum, np.cumprod])
def test_running_sums_have_numpys_order(function: Any, axis: int | None) -> None:
    """Its roundings, and it overflows where NumPy does, on the engines too."""
    chance = np.random.default_rng(7)
    plain = chance.normal(size=(60, 50)).astype("f4")
    steep = np.where(plain > 0.5, np.float32(3e38), plain)
    for x in (plain, steep, -steep, steep.T):
        with np.errstate(all="ignore"):
            expected = function(x, axis)
        traced = trace(lambda a: function(a, axis), x)
        program = neff.compile(traced.to_module(), target="trn2")
        actual = runtime.load(program).run({program.inputs[0]: x})[program.outputs[0]]
        np.testing.assert_array_equal(evaluate(traced.to_module(), [x])[0], expected)
        np.testing.assert_array_equal(actual, expected)


CASES: dict[str, tuple[Any, ...]] = {
    "sum where initial": (lambda a, m: np.sum(a, axis=0, where=m, initial=3), A, M),
    "max where": (lambda a, m: np.max(a, axis=0, where=m, initial=-5.0), A, M),
    "mean where": (lambda a: np.mean(a, axis=1, where=np.array([1, 1, 0, 1], bool)), A),
    "average": (lambda a, w: [np.average(a, axis=1, weights=w), np.average(a)], A, np.abs(B)),
    "average vector": (lambda a: np.average(a, axis=0, weights=np.array([1.0, 2, 3])), A),
    "nansum": (lambda a: [np.nansum(a), np.nanprod(a, axis=0)], NANS),
    "sum dtype": (lambda a: [np.sum(a, dtype=np.float32), np.mean(a, dtype=np.float16)], I4),
    "methods": (lambda a: [a.sum(), a.mean(0), a.max(1), a.min(), a.var(), a.std(0), a.prod(),
                           a.any(), a.all(), a.argmax(), a.argmin(1), a.cumsum()], A),
    "norm": (lambda a: [np.linalg.norm(a), np.linalg.norm(a, axis=1), np.linalg.norm(a, ord=1),
                        np.linalg.norm(a, np.inf), np.linalg.norm(a, "fro"),
                        np.linalg.norm(a, 3, axis=0, keepdims=True)], A),
    "diff": (lambda a: [np.diff(a), np.diff(a, axis=0), np.diff(a, n=2)], A),
    "diff bounds": (lambda a: np.diff(a, prepend=0, append=a[:, :1]), A),
    "diff bool": (lambda a: np.diff(a), M),
    "matmul": (lambda a, b: [a @ b.T, a.T @ b, a @ b[0], a[:, 0] @ b], A, B),
    "matmul batch": (lambda a, b: [a @ b.T, b @ np.swapaxes(a, 1, 2), a[:, None] @ b.T], C, B),
    "matmul int": (lambda a, b: a @ b.T, I4, I4),
    "matmul bool": (lambda a: a @ a.T, M),
    "matmul half": (lambda a: a @ a.T, H),
    "dot": (lambda a, b: [np.dot(a, b.T), np.dot(a[0], b[1]), np.dot(a, 2.0), np.dot(a, b[0])], A, B),
    "dot nd": (lambda a, b: np.dot(a, b.T), C, B),
    "inner outer": (lambda a, b: [np.inner(a, b), np.outer(a[0], b[0]), np.vdot(a, b)], A, B),
    "tensordot": (lambda a, b: [np.tensordot(a, b, axes=([1, 2], [0, 1])), np.tensordot(b, b, 2)], C, B),
    "kron cross": (lambda a, b: [np.kron(a, b), np.cross(a.T[:, :3], b.T[:, :3])], A, B),
    "trace": (lambda a: [np.trace(a), np.trace(a, 1), a.trace(-1)], A),
    "einsum": (lambda a, b: [np.einsum("ij,kj->ik", a, b), np.einsum("ij,ij->", a, b),
                             np.einsum("ij->ji", a), np.einsum("ij,ij", a, b), np.einsum("ij->j", a),
                             np.einsum("ij,kj,ik->i", a, b, a @ b.T)], A, B),
    "einsum batch": (lambda c, b: [np.einsum("bij,kj->bik", c, b), np.einsum("...j,kj->...k", c, b),
                                   np.einsum("bij,bkj->bik", c, c)], C, B),
    "reshape": (lambda a: [a.reshape(4, 3), a.reshape(-1), a.reshape((2, -1)), np.reshape(a, (2, 6), order="F"),
                           a.ravel(), a.flatten(), np.ravel(a, "F")], A),
    "transpose": (lambda c: [c.T, c.transpose(1, 0, 2), np.transpose(c, (2, 0, 1)), np.swapaxes(c, 0, -1),
                             np.moveaxis(c, 0, -1), np.moveaxis(c, (0, 1), (2, 0)), c.mT], C),
    "dims": (lambda a: [np.expand_dims(a, 0), np.expand_dims(a, (0, 3)), np.squeeze(a[None, :, None]),
                        np.squeeze(a[None], 0), np.atleast_3d(a), np.atleast_2d(a[0])], A),
    "broadcast_to": (lambda a: [np.broadcast_to(a, (2, 3, 4)), np.broadcast_to(a[:1], (5, 4))], A),
    "broadcast_arrays": (lambda a: list(np.broadcast_arrays(a[:1], a[:, :1])), A),
    "flip": (lambda a: [np.flip(a), np.flip(a, 0), np.fliplr(a), np.flipud(a), np.rot90(a),
                        np.rot90(a, 2), np.rot90(a, 3), np.rot90(a, -1)], A),
    "roll": (lambda a: [np.roll(a, 1), np.roll(a, -2, 1), np.roll(a, (1, 2), (0, 1)), np.roll(a, 9, 0)], A),
    "repeat": (lambda a: [np.repeat(a, 2), np.repeat(a, 3, axis=0), np.repeat(a, [1, 0, 2], axis=0)], A),
    "tile": (lambda a: [np.tile(a, 2), np.tile(a, (2, 1, 3)), np.tile(a[0], (2, 2))], A),
    "pad": (lambda a: [np.pad(a, 1), np.pad(a, ((1, 0), (0, 2)), constant_values=7),
                       np.pad(a, 1, mode="edge"), np.pad(a, 2, mode="reflect"),
                       np.pad(a, 1, mode="wrap"), np.pad(a, 1, mode="symmetric"),
                       np.pad(a, 1, constant_values=((1, 2), (3, 4)))], A),
    "concatenate": (lambda a, b: [np.concatenate([a, b]), np.concatenate([a, b], axis=-1),
                                  np.concatenate([a, b], axis=None), np.concatenate([a])], A, B),
    "concatenate mixed": (lambda a, i: np.concatenate([a, i, np.ones((1, 4))]), A, I4),
    "stack": (lambda a, b: [np.stack([a, b]), np.stack([a, b], 1), np.stack([a, b], -1), np.vstack([a, b]),
                            np.hstack([a, b]), np.dstack([a, b]), np.column_stack([a[0], b[0]]),
                            np.append(a, b), np.append(a, b, 0)], A, B),
    "split": (lambda a: [*np.split(a, 2, 1), *np.split(a, [1, 2]), *np.array_split(a, 3, axis=1),
                         *np.hsplit(a, 2), *np.vsplit(a, 3)], A),
    "meshgrid": (lambda a: [*np.meshgrid(a[0], a[:, 0]), *np.meshgrid(a[0], a[:, 0], indexing="ij")], A),
    "like": (lambda a: [np.zeros_like(a), np.ones_like(a, dtype=np.int32), np.full_like(a, 2.5),
                        np.zeros_like(a, shape=(2, 2)), np.copy(a)], A),
    "triangles": (lambda a: [np.tril(a), np.triu(a, 1), np.tril(a, -1), np.triu(a, -1)], A),
    "triangles batch": (lambda c: [np.tril(c), np.triu(c)], C),
    "diag": (lambda a: [np.diag(a), np.diag(a, 1), np.diag(a, -1), np.diag(a[0]), np.diag(a[0], 2),
                        np.diag(a[0], -1), np.diagonal(a), np.diagflat(a)], A),
    "diagonal nd": (lambda c: [np.diagonal(c), np.diagonal(c, 1, 1, 2), np.trace(c, axis1=1, axis2=2)], C),
    "where": (lambda m, a, b: [np.where(m, a, b), np.where(a > b, a, 0), np.where(m, 1, b),
                               np.where(m[0], a, b[:1]), np.where(m, 1, 2)], M, A, B),
    "select": (lambda a: np.select([a > 1, a > 0], [a, a * 2], default=-1), A),
    "clip": (lambda a: [np.clip(a, -0.5, 0.5), np.clip(a, None, 0.1), np.clip(a, 0, None), a.clip(-1, 1)], A),
    "clip int": (lambda a: np.clip(a, -3, 5), I4),
    "round": (lambda a: [np.round(a), np.round(a, 2), np.around(a, 1), np.fix(a), a.round(1)], A),
    "round int": (lambda a: [np.round(a), np.round(a, -1)], I4),
    "nan_to_num": (lambda a: [np.nan_to_num(a), np.nan_to_num(a, nan=3.0)], NANS),
    "isclose": (lambda a, b: [np.isclose(a, a + 1e-9), np.isclose(a, b), np.allclose(a, a)], A, B),
    "take": (lambda a: [np.take(a, [2, 0], axis=0), np.take(a, 1, axis=1), np.take(a, [0, 11]),
                        np.take(a, np.array([[0, 1], [2, -1]]), axis=1), np.take(a, [5, -6], 1, mode="wrap"),
                        np.take(a, [5, -6], 1, mode="clip")], A),
    "take traced": (lambda a, i: [np.take(a, i, axis=1), np.take(a, i[0], axis=1)], A, np.abs(I4) % 4),
    "take_along_axis": (lambda a, i: [np.take_along_axis(a, i, 1), np.take_along_axis(a, i[:1] * 0, 0)],
                        A, np.abs(I4) % 4),
    "sort": (lambda a: [np.sort(a), np.sort(a, axis=0), np.sort(a, axis=None), np.argsort(a),
                        np.argsort(a, axis=0), a.argsort()], A),
    "sort int": (lambda a: [np.sort(a), np.argsort(a, kind="stable")], I4),
    "astype": (lambda a: [a.astype(np.int32), a.astype(bool), a.astype(np.float16),
                          a.astype(ml_dtypes.bfloat16), a.astype("f8"), np.astype(a, np.int8)], A),
    "astype from int": (lambda a: [a.astype(np.float32), a.astype(np.uint8), a.astype(bool)], I4),
    "view": (lambda a: a.view(np.int32), A),
    "facts": (lambda a: a * (np.size(a) + np.ndim(a) + np.shape(a)[0] + a.size + len(a) + a.nbytes), A),
    "softmax": (lambda a: np.exp(a - a.max(-1, keepdims=True))
                / np.exp(a - a.max(-1, keepdims=True)).sum(-1, keepdims=True), A),
    "iteration": (lambda a: sum(row * i for i, row in enumerate(a)), A),
    "constant results": (lambda a: [a, 3.0, np.arange(3)], A),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_function(name: str) -> None:
    function, *arrays = CASES[name]
    agree(function, *arrays, rtol=1e-4)


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda a: a.reshape(5, 5), ValueError, "cannot reshape array of size 12"),
        (lambda a: np.transpose(a, (0, 0)), ValueError, "repeated axis"),
        (lambda a: np.transpose(a, (0,)), ValueError, "axes don't match"),
        (lambda a: np.squeeze(a, 0), ValueError, "size not equal to one"),
        (lambda a: np.sum(a, axis=2), np.exceptions.AxisError, "out of bounds"),
        (lambda a: a @ a, ValueError, "mismatch in its core dimension"),
        (lambda a: np.concatenate([a, a[:, :2]]), ValueError, "must match exactly"),
        (lambda a: np.stack([a, a[0]]), ValueError, "same shape"),
        (lambda a: np.split(a, 5), ValueError, "equal division"),
        (lambda a: np.broadcast_to(a, (3, 5)), ValueError, "broadcast"),
        (lambda a: np.max(a[:0]), ValueError, "no identity"),
        (lambda a: np.linalg.norm(a, "no"), ValueError, "Invalid norm order"),
        (lambda a: np.linalg.norm(a[0], "fro", axis=0), ValueError, "Invalid norm order"),
        (lambda a: np.dot(a, a), ValueError, "not aligned"),
        (lambda a: np.einsum("ij,jk->ik", a, a), ValueError, "two sizes"),
        (lambda a: np.einsum("ij->ij", a, dtype=np.float32, out=a * 1j), TypeError, "be cast from"),
        (lambda a: np.roll(a, (1, 2, 3), (0, 1)), ValueError, "shape mismatch"),
    ],
)
def test_wrong_arguments_are_numpys_errors(function: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        trace(function, A)


def test_the_list_of_what_is_supported() -> None:
    names = supported()
    assert len(names) > 170 and "numpy.einsum" in names and "numpy.linalg.norm" in names
    assert names == sorted(names)


def test_a_function_is_known_whatever_was_used_before(
    python_environment: dict[str, str],
) -> None:
    """Using matmul first once left every other function unknown."""
    import subprocess
    import sys

    code = (
        "import numpy as np; from hlo_tools.trace import trace;"
        "x = np.ones((2, 2), 'f4'); trace(lambda a: np.reshape(a @ a, (4,)), x)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=python_environment
    )
    assert done.returncode == 0, done.stderr
