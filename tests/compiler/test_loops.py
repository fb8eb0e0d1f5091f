"""Loops and branches on the device: numbers beside JAX, run twice each, on both ways of running."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo_tools
from neff import runtime, timing
from neff.compiler import compile
from neff.compiler.assembly.verify import verify
from neff.options import CompileOptions
from neff.program import EngineLoop, EngineStep, Program
from tests.compiler.compiling import TARGETS, lowered, oracle, same, wide_types

F32 = np.float32


@pytest.fixture(autouse=True)
def _few_turns_are_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small bodies are unrolled for thousands of turns otherwise (test_stacking.py)."""
    monkeypatch.setattr("neff.compiler.importing.loops._MAX_UNROLLED_LIGHT_OPERATIONS", 512)


def _floats(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(F32)


def _bytes(array: Any) -> Any:
    array = np.asarray(array)
    return array.view(np.uint8) if array.dtype == np.bool_ else array


def _loops(steps: list[EngineStep]) -> list[EngineLoop]:
    loops: list[EngineLoop] = []
    for step in steps:
        if isinstance(step, EngineLoop):
            loops += [step, *_loops(step.body)]
    return loops


def loops_of(program: Program) -> list[EngineLoop]:
    """The loops of the first core."""
    return _loops(next(iter(program.subgraphs[0].engines.values())))


def check(
    function: Any, *calls: tuple[Any, ...], tolerance: float = 2e-5, target: str = "trn2"
) -> Program:
    """Compile a function once, run it with each of the arguments, twice, and compare with JAX."""
    program = compile(lowered(function, *calls[0]), target=target)
    verify(program)
    for by_address in (False, True):
        model = runtime.LoadedModel(program, "m", "m", by_address=by_address)
        for arguments in calls * 2:
            leaves = [_bytes(leaf) for leaf in jax.tree.leaves(arguments)]
            results = model.run(dict(zip(program.inputs, leaves, strict=True)))
            expected = jax.tree.leaves(jax.jit(function)(*arguments))
            for name, leaf in zip(program.outputs, expected, strict=True):
                same(results[name], np.asarray(leaf), tolerance)
    return program


X, Y = _floats(8, 4), _floats(8, 4, seed=1)


def test_data_decides_how_often() -> None:
    def grown(x: Any) -> Any:
        return lax.while_loop(lambda s: jnp.sum(s) < 100.0, lambda s: s * 1.5 + 1, x)

    (loop,) = loops_of(check(grown, (X,), (abs(X) * 50,), (abs(Y),)))
    assert loop.condition is not None


@pytest.mark.parametrize("target", TARGETS)
def test_bounds_that_are_inputs(target: str) -> None:
    def added(x: Any, low: Any, high: Any) -> Any:
        return lax.fori_loop(low, high, lambda i, s: s * 0.5 + i, x)

    calls = [(X, np.int32(low), np.int32(high)) for low, high in ((2, 7), (7, 2), (-3, 4))]
    check(added, *calls, target=target)


def test_known_turns_count_in_a_register() -> None:
    def scanned(c: Any, xs: Any) -> Any:
        return lax.scan(lambda c, x: (c * 0.9 + x, c.sum() + x), c, xs)

    (loop,) = loops_of(check(scanned, (X, _floats(200, 8, 4)), (Y, _floats(200, 8, 4, seed=3))))
    assert loop.trips == 200


def test_backwards() -> None:
    def scanned(c: Any, xs: Any) -> Any:
        return lax.scan(lambda c, x: (c * 0.9 + x, c.sum() + x), c, xs, reverse=True)

    check(scanned, (X, _floats(300, 8, 4)))


def test_few_turns_are_unrolled() -> None:
    def scanned(c: Any, xs: Any) -> Any:
        return lax.scan(lambda c, x: (c * 0.9 + x, c), c, xs)

    assert not loops_of(check(scanned, (X, _floats(5, 8, 4))))


@pytest.mark.parametrize("count", [0, 3, 4])
def test_parts_of_the_state_change_places(count: int) -> None:
    def swapped(a: Any, b: Any, n: Any) -> Any:
        return lax.fori_loop(0, n, lambda i, s: (s[1], s[0] + s[1], s[0]), (a, b, a))

    check(swapped, (X, Y, np.int32(count)))


def test_nested() -> None:
    def nested(x: Any, n: Any) -> Any:
        def outer(i: Any, s: Any) -> Any:
            return lax.fori_loop(0, i, lambda j, t: t + i * j, s) * 0.5

        return lax.fori_loop(0, n, outer, x)

    check(nested, (X, np.int32(6)), (Y, np.int32(1)))


def test_nested_scans_that_stack() -> None:
    def nested(x: Any) -> Any:
        def outer(c: Any, i: Any) -> Any:
            return lax.scan(lambda d, j: (d * 0.9 + i * j, d * j), c, jnp.arange(90.0))

        return lax.scan(outer, x, jnp.arange(70.0))

    assert len(loops_of(check(nested, (_floats(5),), (_floats(5, seed=1),), tolerance=1e-4))) == 2


def test_every_type_is_carried() -> None:
    def scanned(flags: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            flag, count, small = c
            small = small * jnp.bfloat16(0.5) + x.astype(jnp.bfloat16)
            return (flag ^ (x > 0), count + jnp.uint8(3), small), (flag, count)

        start = (flags, jnp.zeros(4, jnp.uint8), jnp.ones(4, jnp.bfloat16))
        return lax.scan(step, start, xs)

    check(scanned, *((_floats(4) > 0, _floats(300, 4, seed=k)) for k in (1, 2)), tolerance=2e-2)


def test_64_bit_integers_are_carried() -> None:
    def counted(a: Any, n: Any) -> Any:
        return lax.fori_loop(0, n, lambda i, s: (s[0] * 3 + i, s[1] + 1), (a, jnp.int32(0)))

    with wide_types():
        check(counted, (np.int64(123456789012), np.int64(9)), (np.int64(-5), np.int64(30)))
        check(lambda c, x: lax.scan(lambda c, i: (c + i, c), c, x),
              (np.int64(1 << 40), np.arange(700, dtype=np.int64)))  # fmt: skip


def test_gradient_of_a_recurrent_network() -> None:
    def loss(w: Any, u: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = jnp.tanh(x @ w + h @ u)
            return h, h

        h, ys = lax.scan(jax.checkpoint(step), jnp.zeros((2, 6)), xs)
        return (ys**2).mean() + h.sum()

    calls = [(_floats(4, 6, seed=k), _floats(6, 6, seed=k + 9) * F32(0.3), _floats(150, 2, 4))
             for k in (0, 1)]  # fmt: skip
    assert len(loops_of(check(jax.value_and_grad(loss, (0, 1)), *calls))) == 2


def test_lstm() -> None:
    def lstm(w: Any, u: Any, b: Any, xs: Any) -> Any:
        def step(s: Any, x: Any) -> Any:
            i, f, g, o = jnp.split(x @ w + s[1] @ u + b, 4, -1)
            c = jax.nn.sigmoid(f) * s[0] + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (c, h), h

        return lax.scan(step, (jnp.zeros((3, 8)), jnp.zeros((3, 8))), xs)

    calls = [(_floats(5, 32), _floats(8, 32) * F32(0.3), _floats(32), _floats(100, 3, 5, seed=k))
             for k in (4, 5)]  # fmt: skip
    check(lstm, *calls)


def test_updates_at_places_that_data_decides() -> None:
    def cached(cache: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            c = lax.dynamic_update_slice(c, x[:, None], (0, x[0].astype(int)))
            return c, (c.sum(), lax.dynamic_slice(c, (x[1].astype(int), 0), (2, 3)).T)

        return lax.scan(step, cache, xs)

    check(cached, (_floats(4, 10), 5 * _floats(60, 4, seed=1)), (_floats(4, 10, seed=2),
          9 * _floats(60, 4, seed=3)))  # fmt: skip


def test_an_update_that_reads_what_it_writes_over() -> None:
    def moved(x: Any, n: Any) -> Any:
        def step(i: Any, s: Any) -> Any:
            s = s.at[i, :].set(s[i - 1] * 0.5 + i).at[:, i].add(1.0)
            return lax.dynamic_update_slice(s, lax.dynamic_slice(s, (i, 0), (2, 3)) + 1, (0, i))

        return lax.fori_loop(0, n, step, x)

    check(moved, (_floats(9, 9), np.int32(9)), (_floats(9, 9, seed=1), np.int32(12)))


def test_unsigned_starts_beyond_31_bits_are_clamped_to_the_end() -> None:
    def taken(x: Any, position: Any) -> Any:
        return lax.dynamic_slice(x, (position,), (3,))

    check(taken, *((_floats(9), np.uint32(start)) for start in (0, 5, 7, 1 << 31, (1 << 32) - 1)))


COUNTS = {
    "down": lambda x: lax.while_loop(
        lambda s: s[0] >= 0, lambda s: (s[0] - 3, s[1] * 0.99 + s[0]), (1000, x)
    ),
    "to 8 bits": lambda x: lax.while_loop(
        lambda s: s[0] < 200, lambda s: (s[0] + jnp.uint8(1), s[1] * 0.99 + s[0]),
        (jnp.uint8(0), x),
    ),
    "wraps": lambda x: lax.while_loop(
        lambda s: s[0] != 0, lambda s: (s[0] + jnp.uint8(1), s[1] * 0.99 + s[0]),
        (jnp.uint8(1), x),
    ),
    "by products": lambda x: lax.while_loop(
        lambda s: s[0] * 3 - 7 < 900, lambda s: (s[0] + 1, s[1] * 0.99 + s[0]), (0, x)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
def test_what_counts(name: str) -> None:
    assert len(loops_of(check(COUNTS[name], (_floats(3),)))) == 1


def test_a_number_that_leaves_its_type_is_no_counter() -> None:
    """uint8: 250 + 10 is 4."""
    program = check(
        lambda x: lax.while_loop(
            lambda s: s[1] < 900,
            lambda s: (s[0] + jnp.uint8(10), s[1] + 1, s[2] * 0.99 + s[0]),
            (jnp.uint8(0), 0, x),
        ),
        (_floats(3),),
        tolerance=1e-4,
    )
    assert loops_of(program)[0].trips == 900


# -- branches ---------------------------------------------------------------------------------


def _branches(i: Any, x: Any) -> Any:
    last = lambda x: lax.fori_loop(0, i, lambda k, y: jnp.sort(y) + k, x)  # noqa: E731
    return lax.switch(i, [lambda x: jnp.sort(x, 0), lambda x: x @ x.T @ x, last], x)


def test_one_branch_is_taken() -> None:
    calls = [(np.int32(number), X) for number in (0, 1, -4, 2, 9)]
    assert len(loops_of(check(_branches, *calls))) == 4


def test_a_predicate_takes_the_first() -> None:
    def either(p: Any, a: Any, b: Any) -> Any:
        return lax.cond(p, lambda a, b: (b, a, jnp.sort(a)), lambda a, b: (a, b, a @ a.T @ a), a, b)

    square = _floats(4, 4)
    check(either, *((np.bool_(p), square, square + 1) for p in (True, False)))


def test_small_branches_are_a_choice() -> None:
    program = check(
        lambda p, x: lax.cond(p, lambda x: x + 1, lambda x: x * 2, x),
        (np.bool_(True), X), (np.bool_(False), Y),
    )  # fmt: skip
    assert not loops_of(program)


def test_branches_in_a_loop() -> None:
    def scanned(c: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            c = lax.cond(x[0] > 0, jnp.sort, lambda c: c * 0.5 + x, c)
            return c, c[0]

        return lax.scan(step, c, xs)

    check(scanned, *((_floats(7), _floats(80, 7, seed=seed)) for seed in (1, 2)))


def test_the_branch_that_is_not_taken_does_not_run() -> None:
    def endless(x: Any, run: Any) -> Any:
        forever = lambda x: lax.while_loop(lambda s: s.sum() > -1.0, lambda s: abs(s) + 1, x)  # noqa: E731
        return lax.cond(run, forever, lambda x: -x, x)

    program = compile(lowered(endless, X, np.bool_(True)), target="trn2")
    inputs = dict(zip(program.inputs, [X, np.uint8(0)], strict=True))
    np.testing.assert_array_equal(runtime.load(program).run(inputs)["output0"], -X)


# -- cost -------------------------------------------------------------------------------------


def _stacked(iterations: int) -> Program:
    def scanned(c: Any, xs: Any) -> Any:
        return lax.scan(lambda c, x: (c * 0.9 + x, jnp.tanh(c) + x), c, xs)

    shape = jax.ShapeDtypeStruct
    module = lowered(scanned, shape((64, 64), F32), shape((iterations, 64, 64), F32))
    return compile(module, target="trn2")


def test_turns_cost_the_same_however_many_there_are() -> None:
    short, long = _stacked(100), _stacked(1000)
    sizes = [program.metadata["statistics"] for program in (short, long)]
    assert sizes[0]["instructions"] == sizes[1]["instructions"] < 60
    assert sizes[1]["scratch_bytes"] < 20 * 64 * 64 * 4
    times = [timing.estimate(program).total.value for program in (short, long)]
    assert 9 < times[1] / times[0] < 11


def test_iterations_on_data_are_the_callers_to_say() -> None:
    def grown(x: Any) -> Any:
        return lax.while_loop(lambda s: jnp.sum(s) < 100.0, lambda s: s * 1.5 + 1, x)

    program = compile(lowered(grown, X), target="trn2")
    single, ten = (timing.estimate(program, trips=trips).total.value for trips in (1, 10))
    assert ten > 5 * single


def test_two_cores_meet_in_loops() -> None:
    """The condition is loaded by both cores, after the first has computed it."""
    program = compile(lowered(_branches, np.int32(1), X), target="trn2",
                      options=CompileOptions(lnc=2))  # fmt: skip
    verify(program)
    model = runtime.load(program)
    for number in (0, 2, 1):
        results = model.run(dict(zip(program.inputs, [np.int32(number), X], strict=True)))
        same(results["output0"], jax.jit(_branches)(np.int32(number), X), 2e-5)


TORN = """HloModule m
next { s = (s32[], f32[4], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = f32[4] get-tuple-element(s), index=1
  b = f32[4] get-tuple-element(s), index=2
  dead = f32[4] get-tuple-element(s), index=3
  one = s32[] constant(1)
  j = s32[] add(i, one)
  r = f32[4] reverse(a), dimensions={0}
  t = f32[4] add(b, r)
  d = f32[4] multiply(dead, dead)
  ROOT n = (s32[], f32[4], f32[4], f32[4]) tuple(j, r, t, d) }
less { s = (s32[], f32[4], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(501)
  ROOT l = pred[] compare(i, n), direction=LT }
ENTRY e { x = f32[4] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[4], f32[4], f32[4]) tuple(zero, x, x, x)
  w = (s32[], f32[4], f32[4], f32[4]) while(s), condition=less, body=next
  i = s32[] get-tuple-element(w), index=0
  a = f32[4] get-tuple-element(w), index=1
  b = f32[4] get-tuple-element(w), index=2
  ROOT r = (s32[], f32[4], f32[4]) tuple(i, a, b) }"""


def test_a_view_of_the_state_is_its_own_next_value() -> None:
    module = hlo_tools.load(TORN.encode())
    program = compile(module, target="trn2")
    verify(program)
    x = _floats(4)
    results = runtime.load(program).run({"input0": x})
    for name, reference in zip(program.outputs, oracle(module, [x]), strict=True):
        same(results[name], reference, 1e-5)


def test_a_product_does_not_write_over_the_state_that_it_still_reads() -> None:
    """More columns than one block of a product has, and rows that a normalisation reads twice."""

    def stepped(h: Any, u: Any, n: Any) -> Any:
        def step(i: Any, h: Any) -> Any:
            h = jnp.tanh(h @ u)
            return h - h.mean(-1, keepdims=True) + jax.nn.softmax(h @ h.T @ h, -1)

        return lax.fori_loop(0, n, step, h)

    calls = [
        (_floats(40, 1100, seed=k), _floats(1100, 1100) * F32(0.02), np.int32(2)) for k in (1, 2)
    ]
    check(stepped, *calls, tolerance=2e-4)
    narrow = lambda h, u, n: lax.fori_loop(0, n, lambda i, h: jnp.tanh(h @ u), h)  # noqa: E731
    check(narrow, *calls, tolerance=2e-4)
