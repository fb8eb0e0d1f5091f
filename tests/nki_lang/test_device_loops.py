"""Loops on the device: traced once, kept as loops, and what Python may not do with them."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lang
import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.base.errors import NkiValidationError
from nki_lang.execute import simulate
from nki_lang.ir import ForLoop, NoReorder, WhileLoop
from nki_lang.tracing.tracer import trace_kernel
from tests.nki_lang.specimen import refused, spec, trace, tracing


def out_like(x):
    return nl.ndarray(x.shape, x.dtype, nl.shared_hbm)


def rows_doubled(x, count):
    """The first ``count`` rows of ``x`` doubled, the others as they are."""
    out = out_like(x)
    nl.store(out, nl.load(x))
    bound = nisa.register_alloc()
    nisa.register_load(bound, nl.load(count))
    for i in nl.dynamic_range(bound):
        row = nl.ndarray((1, x.shape[1]), x.dtype)
        nisa.dma_copy(row, x.ap([[x.shape[1], 1], [1, x.shape[1]]], scalar_offset=i))
        nisa.tensor_scalar(row, row, nl.multiply, 2.0)
        nisa.dma_copy(out.ap([[x.shape[1], 1], [1, x.shape[1]]], scalar_offset=i), row)
    return out


def halved_until_small(x, iterations):
    """``x`` halved as often as the counter tile says, by ``while register:``."""
    out = out_like(x)
    tile, left = nl.load(x), nl.load(iterations)
    reg = nisa.register_alloc()
    nisa.register_load(reg, left)
    while reg:
        nisa.tensor_scalar(tile, tile, nl.multiply, 0.5)
        nisa.tensor_scalar(left, left, nl.subtract, 1)
        nisa.register_load(reg, left)
    nl.store(out, tile)
    return out


def counted_down(x, iterations):
    """The same by ``nl.while_loop``."""
    out = out_like(x)
    tile, left = nl.load(x), nl.load(iterations)
    start = nisa.register_alloc()
    nisa.register_load(start, left)

    def body(r):
        nisa.tensor_scalar(tile, tile, nl.multiply, 0.5)
        nisa.tensor_scalar(left, left, nl.subtract, 1)
        nisa.register_load(r, left)
        return r

    nl.while_loop(start, body)
    nl.store(out, tile)
    return out


X = np.arange(32, dtype=np.float32).reshape(8, 4)


def number(value):
    return np.array([[value]], np.int32)


@pytest.mark.parametrize("how", [nki_lang.jit, nki_lang.simulate])
@pytest.mark.parametrize("count", [0, 1, 5, 8])
def test_a_counted_loop_with_a_runtime_bound(how, count):
    expected = X.copy()
    expected[:count] *= 2
    assert np.array_equal(how(rows_doubled)(X.copy(), number(count)), expected)


@pytest.mark.parametrize("how", [nki_lang.jit, nki_lang.simulate])
@pytest.mark.parametrize("kernel", [halved_until_small, counted_down])
@pytest.mark.parametrize("count", [0, 1, 4])
def test_while_loops(how, kernel, count):
    assert np.array_equal(how(kernel)(X.copy(), number(count)), X / 2**count)


def test_the_ir_keeps_the_loops():
    traced = trace(rows_doubled, spec(8, 4), spec(1, 1, dtype=nl.int32))
    loops = [s for s in traced.bodies[0] if isinstance(s, ForLoop)]
    assert len(loops) == 1 and len(loops[0].body) == 3
    assert loops[0].stop != 8 and loops[0].step == 1 and loops[0].location is not None
    traced = trace(halved_until_small, spec(8, 4), spec(1, 1, dtype=nl.int32))
    loops = [s for s in traced.bodies[0] if isinstance(s, WhileLoop)]
    assert len(loops) == 1 and len(loops[0].body) == 3


def test_fori_loop_and_nesting():
    def kernel(x):
        out = out_like(x)

        def inner(j):
            nisa.dma_copy(out[0, nl.ds(j, 1)], x[0, nl.ds(j, 1)])

        def outer(i):
            nl.fori_loop(0, 4, inner)

        nl.fori_loop(0, 8, outer, step=2)
        nl.store(out, nl.load(x))
        return out

    traced = trace(kernel, spec(8, 4))
    loop = traced.bodies[0][0]
    assert isinstance(loop, ForLoop) and (loop.start, loop.stop, loop.step) == (0, 8, 2)
    assert isinstance(loop.body[0], ForLoop)
    assert np.array_equal(nki_lang.jit(kernel)(X), X)


def test_two_while_loops_and_one_inside_another():
    def kernel(x, iterations):
        a = nisa.register_alloc(1)
        while a:
            b = nisa.register_alloc(2)
            while b:
                nisa.register_move(b, 0)
            nisa.register_move(a, 0)
        while a:
            nisa.register_move(a, 0)
        return halved_until_small(x, iterations)

    traced = trace(kernel, spec(8, 4), spec(1, 1, dtype=nl.int32))
    loops = [s for s in traced.bodies[0] if isinstance(s, WhileLoop)]
    assert len(loops) == 3
    assert [type(s).__name__ for s in loops[0].body] == [
        "Instruction", "WhileLoop", "Instruction",
    ]  # fmt: skip


def test_the_counter_is_frozen():
    with tracing():
        for i in nl.dynamic_range(4):
            with refused("NKI-REGISTER-FROZEN"):
                nisa.register_move(i, 3)
            with refused("NKI-REGISTER-FROZEN"):
                nisa.register_load(i, nl.ndarray((1, 1), nl.int32))


@pytest.mark.parametrize(
    "use",
    [
        lambda r: 1 if r else 2,
        lambda r: not r,
        lambda r: int(r),
        lambda r: list(range(r)),
        lambda r: list(nl.affine_range(r)),
        lambda r: list(nl.sequential_range(0, r)),
        lambda r: nl.ndarray((r, 4), nl.float32),
        lambda r: nl.ndarray((4, 4), nl.float32)[:, 0:r],
        lambda r: float(r),
    ],
)
def test_python_cannot_ask_for_the_value_of_a_register(use):
    with tracing():
        register = nisa.register_alloc(3)
        with refused("NKI-REGISTER-VALUE"):
            use(register)


def test_an_if_on_a_register_is_an_error_at_its_line():
    def kernel(x):
        register = nisa.register_alloc(1)
        if register:
            nl.load(x)
        return x

    with refused("NKI-REGISTER-VALUE", "while register") as caught:
        trace(kernel, spec(4, 4))
    assert caught.value.location.line == kernel.__code__.co_firstlineno + 2


def test_an_if_on_a_tensor_is_an_error():
    with tracing():
        tile = nl.ndarray((4, 4), nl.float32)
        with refused("NKI-TENSOR-VALUE"):
            assert tile
        with refused("NKI-TENSOR-VALUE"):
            list(tile)


def test_break_and_return_inside_a_device_loop_are_errors_at_the_loop():
    def broken(x):
        for _ in nl.dynamic_range(4):
            nl.load(x)
            break
        return x

    def returned(x):
        for _ in nl.dynamic_range(4):
            return x
        return x

    def left(x):
        register = nisa.register_alloc(1)
        while register:
            break
        return x

    def nested(x):
        for _ in nl.dynamic_range(4):
            for _ in nl.dynamic_range(4):
                break
        return x

    for kernel, line in ((broken, 1), (returned, 1), (left, 2), (nested, 2)):
        with refused("NKI-LOOP-LEFT", "break") as caught:
            trace(kernel, spec(4, 4))
        assert caught.value.location.line == kernel.__code__.co_firstlineno + line


def test_the_step_is_a_positive_integer():
    with tracing():
        for step in (0, -1, nisa.register_alloc(1), 1.5):
            with refused("NKI-LOOP-STEP"):
                list(nl.dynamic_range(0, 4, step))


def test_registers_hold_integers():
    with tracing():
        for value in (1.5, "a", True, 1 << 33):
            with refused("NKI-REGISTER"):
                nisa.register_alloc(value)
        with refused("NKI-REGISTER"):
            nisa.register_load(3, nl.ndarray((1, 1), nl.int32))
        with refused("NKI-REGISTER"):
            nisa.register_load(nisa.register_alloc(), nl.ndarray((1, 2), nl.int32))


def test_arithmetic_on_registers_is_an_instruction():
    with tracing() as builder:
        a = nisa.register_alloc(4)
        _ = (a + 1) * 2 - a // 3
        _ = (7 - a) & 3
        ops = [s.operands["op"] for s in builder.body if s.op == "register_alu"]
        assert ops == ["add", "multiply", "floor_divide", "subtract", "subtract", "bitwise_and"]
        reverse = builder.body[-2].operands
        assert reverse["src0"] == 7 and reverse["src1"] == a.register


# -- order --------------------------------------------------------------------------------------


def test_no_reorder_is_a_region_and_takes_no_device_loop():
    def kernel(x):
        out = out_like(x)
        with nl.no_reorder():
            tile = nl.load(x)
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        nl.store(out, tile)
        return out

    traced = trace(kernel, spec(4, 4))
    assert isinstance(traced.bodies[0][0], NoReorder) and len(traced.bodies[0][0].body) == 2
    assert np.array_equal(nki_lang.jit(kernel)(X), X + 1)

    with tracing(), nl.no_reorder():
        with refused("NKI-NO-REORDER"):
            list(nl.dynamic_range(3))
        with refused("NKI-NO-REORDER"):
            nl.while_loop(nisa.register_alloc(1), lambda r: r)


def scheduled_kernel(x):
    out = out_like(x)
    a, b = nl.load(x), nl.load(x)
    nisa.reciprocal(a, a, name="recip")
    nisa.tensor_scalar(b, b, nl.add, 1.0, name="plus1")
    nisa.tensor_tensor(a, a, b, nl.add)
    nl.store(out, a)
    return out


def named(traced):
    return {i.name: i for i in traced.instructions() if i.name}


def test_with_schedule_adds_dependencies():
    kernel = nki_lang.jit(scheduled_kernel)
    for edges in ([("plus1", "recip")], [("plus1", ["recip"])]):
        traced = kernel.with_schedule(edges).trace((spec(4, 4),))
        assert named(traced)["plus1"].depends_on == ("recip",)
    assert named(kernel.trace((spec(4, 4),)))["plus1"].depends_on == ()
    with refused("NKI-SCHEDULE", "'nothing'", "plus1"):
        kernel.with_schedule([("plus1", "nothing")]).trace((spec(4, 4),))
    with refused("NKI-SCHEDULE", "comes after"):
        kernel.with_schedule([("recip", "plus1")]).trace((spec(4, 4),))


def test_depends_on_names_its_producers():
    with tracing() as builder:
        tile = nl.ndarray((4, 4), nl.float32)
        first = nisa.memset(tile, 0.0)
        second = nisa.memset(tile, 1.0, name="second")
        third = nisa.memset(tile, 2.0)
        assert third.depends_on(first, second).depends_on(second) is third
        names = third.handle.depends_on
        assert names == (builder.body[0].name, "second") and "memset" in repr(third)
        for _ in nl.dynamic_range(3):
            inside = nisa.memset(tile, 3.0)
            inside.depends_on(first)
        with refused("NKI-DEPENDS", "loop"):
            nisa.memset(tile, 4.0).depends_on(inside)
        with refused("NKI-DEPENDS"):
            third.depends_on("second")


LEFT = {
    "break": "for i in nl.dynamic_range(r):\n    inc(acc)\n    break",
    "break of while": "while r:\n    inc(acc)\n    break",
    "exception": "try:\n    for i in nl.dynamic_range(r):\n        raise ValueError\nexcept ValueError:\n    pass",
}
"""Loops that are left, with the line of each that is told."""

WRONG = {
    "NKI-WHILE": [
        "while r > 0:\n    nisa.register_move(r, r - 1)",
        "while r:\n    inc(acc)",
    ],
    "NKI-REGISTER": [
        "for i in nl.affine_range(x.shape[1] / 2):\n    inc(acc)",
        "for i in nl.static_range(0, 4.0):\n    inc(acc)",
    ],
    "NKI-REGISTER-VALUE": [
        "while not r:\n    inc(acc)",
        "while r and True:\n    inc(acc)",
        "inc(acc) if r else None",
    ],
}


def looping(source, tmp_path):
    """A kernel with these lines in it, in a file of its own: headers are found in the source."""
    text = (
        "import nki_lang.isa as nisa\nimport nki_lang.language as nl\n"
        "def inc(tile):\n    nisa.tensor_scalar(tile, tile, nl.add, 1.0)\n"
        "def kernel(x):\n    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)\n"
        "    acc, r = nl.load(x), nisa.register_alloc(3)\n"
        + "".join(f"    {line}\n" for line in source.split("\n"))
        + "    nl.store(out, acc)\n    return out\n"
    )
    path = tmp_path / "looping.py"
    path.write_text(text)
    space = {}
    exec(compile(text, str(path), "exec"), space)
    return space["kernel"], 8


@pytest.mark.parametrize("mode", ["trace", "simulate"])
@pytest.mark.parametrize("name", LEFT)
def test_a_loop_that_is_left_is_told_in_both_ways(name, mode, tmp_path):
    kernel, line = looping(LEFT[name], tmp_path)
    x = np.zeros((4, 8), np.float32)
    with pytest.raises(NkiValidationError) as caught:
        (trace_kernel if mode == "trace" else lambda k, a: simulate(k)(*a))(kernel, (x,))
    assert caught.value.code == "NKI-LOOP-LEFT"
    assert caught.value.location.line == line + (name == "exception")


@pytest.mark.parametrize(("code", "source"), [(c, s) for c, all_ in WRONG.items() for s in all_])
def test_while_loops_that_would_not_end_are_told(code, source, tmp_path):
    kernel, line = looping(source, tmp_path)
    with pytest.raises(NkiValidationError) as caught:
        trace_kernel(kernel, (np.zeros((4, 8), np.float32),))
    assert caught.value.code == code
    assert caught.value.location.line in (line, line + 1)
