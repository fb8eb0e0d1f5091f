"""Instructions around computations: calls, branches, loops, fusions, barriers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fuzz.drivers.hlo_programs.program import ELEMENTS, listed, typed_as

if TYPE_CHECKING:
    from tests.fuzz.drivers.hlo_programs.generate import Maker
    from tests.fuzz.drivers.programs import Value

__all__ = ["barrier", "control"]


def control(make: Maker) -> Value | None:
    """call, map, fusion, conditional, while, or a call that runs beside others, of random bodies."""
    x = make.pick("fi", dtypes=("float32", "int32", "bfloat16", "int8", "float16"))
    if x is None:
        return None
    which = make.chance.choice(
        ("call", "map", "fusion", "conditional", "branches", "while", "async")
    )
    test = make.pick("b", rank=0, exact=True)
    index = make.pick("i", rank=0, exact=True, dtypes=("int32",))
    if which == "map" and x.rank:
        return _mapped(make, x)
    if which == "async":
        return _beside(make, x)
    if which in ("call", "fusion"):
        operands = (x, make.pick() or x)
        body = make.inner(make.unique("body"), operands, simple=which == "fusion")
        names = ", ".join(operands[n].name for n in body.used)
        how = "to_apply=" if which == "call" else "kind=kLoop, calls="
        return make.emit(f"{which}({names}), {how}{body.name}", x.shape, x.dtype, operands, exact=body.exact,
                         jumps=True, called=body.called)  # fmt: skip
    bodies = [make.inner(make.unique("body"), (x,)) for _ in range(make.chance.randrange(2, 4))]
    exact = all(body.exact for body in bodies)
    called = tuple(text for body in bodies for text in body.called)
    if which == "conditional" and test is not None:
        text = f"conditional({test.name}, {x.name}, {x.name}), true_computation={bodies[0].name}, false_computation={bodies[1].name}"
        return make.emit(text, x.shape, x.dtype, (test, x), exact=exact, jumps=True, called=called)
    if which == "branches" and index is not None:
        names = ", ".join(body.name for body in bodies)
        operands = ", ".join([index.name, *[x.name] * len(bodies)])
        text = f"conditional({operands}), branch_computations={{{names}}}"
        return make.emit(text, x.shape, x.dtype, (index, x), exact=exact, jumps=True, called=called)
    return _loop(make, x, index)


def barrier(make: Maker) -> Value | None:
    """One of two values behind a barrier."""
    x = make.pick()
    if x is None:
        return None
    y = make.pick() or x
    kinds = typed_as(x.dtype, x.shape), typed_as(y.dtype, y.shape)
    name = make.unique("barrier")
    text = (
        f"{name} {{ p = {kinds[0]} parameter(0) q = {kinds[1]} parameter(1) t = ({', '.join(kinds)}) tuple(p, q)"
        f" b = ({', '.join(kinds)}) opt-barrier(t) ROOT g = {kinds[0]} get-tuple-element(b), index=0 }}"
    )
    return make.emit(
        f"call({x.name}, {y.name}), to_apply={name}", x.shape, x.dtype, (x, y), called=(text,)
    )


def _mapped(make: Maker, x: Value) -> Value | None:
    scalar, y = ELEMENTS[x.dtype], make.like(x)
    op = make.chance.choice(("add", "multiply", "maximum", "subtract"))
    name = f"map_{op}_{x.dtype}"
    mapped = (f"{name} {{ p = {scalar}[] parameter(0) q = {scalar}[] parameter(1) s = {scalar}[] {op}(p, q)"
              f" ROOT r = {scalar}[] maximum(s, q) }}")  # fmt: skip
    text = f"map({x.name}, {y.name}), dimensions={listed(range(x.rank))}, to_apply={name}"
    return make.emit(text, x.shape, x.dtype, (x, y), exact=x.kind == "i", called=(mapped,))


def _beside(make: Maker, x: Value) -> Value | None:
    """One instruction that runs beside others."""
    kind, y, name = typed_as(x.dtype, x.shape), make.like(x), make.unique("beside")
    op = make.chance.choice(("add", "maximum", "subtract"))
    alone = (f"{op}_{name} {{ p = {kind} parameter(0) q = {kind} parameter(1)"
             f" ROOT r = {kind} {op}(p, q) }}")  # fmt: skip
    async_kind = f"(({kind}, {kind}), {kind}, u32[])"
    text = (
        f"{name} {{ p = {kind} parameter(0) q = {kind} parameter(1) s = {async_kind} async-start(p, q), calls={op}_{name}"
        f" u = {async_kind} async-update(s) ROOT d = {kind} async-done(u) }}"
    )
    return make.emit(f"call({x.name}, {y.name}), to_apply={name}", x.shape, x.dtype, (x, y),
                     exact=x.kind == "i", called=(alone, text))  # fmt: skip


def _loop(make: Maker, x: Value, index: Value | None) -> Value | None:
    """A loop whose bound is a constant, or a value within 0 and 4."""
    if index is None or make.chance.random() < 0.5:
        bound = make.number(str(make.chance.randrange(5)), "int32")
    else:
        low, high = make.number("0", "int32"), make.number("4", "int32")
        clamped = make.emit(
            f"clamp({low.name}, {index.name}, {high.name})", (), "int32", (low, index, high)
        )
        assert clamped is not None
        bound = clamped
    step = make.inner(make.unique("body"), (x, bound))
    kind, name = typed_as(x.dtype, x.shape), make.unique("loop")
    state = f"(s32[], s32[], {kind})"
    parts = f"i = s32[] get-tuple-element(s), index=0 n = s32[] get-tuple-element(s), index=1 v = {kind} get-tuple-element(s), index=2"
    body = (f"do_{name} {{ s = {state} parameter(0) {parts} one = s32[] constant(1) j = s32[] add(i, one)"
            f" w = {kind} call(v, i), to_apply={step.name} ROOT t = {state} tuple(j, n, w) }}")  # fmt: skip
    test = f"test_{name} {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] get-tuple-element(s), index=1 ROOT r = pred[] compare(i, n), direction=LT }}"
    wrapper = (f"{name} {{ n = s32[] parameter(0) p = {kind} parameter(1) z = s32[] constant(0) s = {state} tuple(z, n, p)"
             f" w = {state} while(s), condition=test_{name}, body=do_{name} ROOT g = {kind} get-tuple-element(w), index=2 }}")  # fmt: skip
    return make.emit(f"call({bound.name}, {x.name}), to_apply={name}", x.shape, x.dtype, (bound, x),
                     exact=step.exact, jumps=True, called=(*step.called, body, test, wrapper))  # fmt: skip
