"""Loops that run on the device, seen from Python code that runs once.

``dynamic_range`` is a generator that opens a loop region, yields the counter, and closes the
region when the next value is requested; ``while register:`` opens one when the condition is
first tested and closes it when it is tested again. In the eager interpreter both really loop.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, cast

from nki_lang.base.errors import fail, warn_deprecated
from nki_lang.frontend.builder import TraceBuilder, current
from nki_lang.frontend.registers import VirtualRegister, as_operand, is_integer
from nki_lang.frontend.scalars import NkiScalar, loop_counter
from nki_lang.frontend.while_header import forbid_no_reorder
from nki_lang.ir import ForLoop, NoReorder, Register, WhileLoop

__all__ = [
    "dynamic_range",
    "fori_loop",
    "no_reorder",
    "static_range",
    "while_loop",
]

_LOOP_GUIDE = "nki/deep-dives/nki-dynamic-loops.rst"


def static_range(start: int, stop: int | None = None, step: int = 1) -> range:
    """A range that is unrolled while tracing.

    Args:
        start: the first value (the end, when it is the only argument).
        stop: the value that is no longer reached.
        step: a positive integer.

    Returns:
        range: of integers.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-REGISTER, NKI-REGISTER-VALUE.

    Source: nl.static_range (nki/api/nki/language, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF; out a (128, 512) float32 tile::

        for i in nl.static_range(4):
            nisa.tensor_copy(dst=out[:, nl.ds(i * 128, 128)], src=a[:, nl.ds(i * 128, 128)])
    """
    for bound in (start, stop, step):
        if isinstance(bound, VirtualRegister):
            fail(
                f"register {bound.register.name} is a bound of a range that is unrolled while"
                " tracing",
                "NKI-REGISTER-VALUE",
                "use nl.dynamic_range or nl.fori_loop",
                _LOOP_GUIDE,
            )
        if bound is not None and not hasattr(type(bound), "__index__"):
            fail(
                f"{bound!r} ({type(bound).__name__}) is a bound of a range, which counts in integers",
                "NKI-REGISTER",
                "divide with // or math.ceil",
                _LOOP_GUIDE,
            )
    return range(start) if stop is None else range(start, stop, step)


def dynamic_range(
    start: int | VirtualRegister, stop: int | VirtualRegister | None = None, step: int = 1
) -> Iterator[VirtualRegister]:
    """A loop on the device; yields its counter, a frozen register (deprecated: ``fori_loop``).

    Args:
        start: the first value (the end, when it is the only argument).
        stop: the value that is no longer reached.
        step: a positive integer.

    Returns:
        an iterator over one register, the counter, which cannot be written.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-LOOP-STEP, NKI-REGISTER,
            NKI-NO-REORDER.

    Source: nl.dynamic_range (nki/api/nki/language, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF; out a (128, 512) float32 tile::

        for i in nl.dynamic_range(4):
            nisa.tensor_copy(dst=out[:, nl.ds(i * 128, 128)], src=a[:, nl.ds(i * 128, 128)])
    """
    loop = _range(start, stop, step)
    warn_deprecated(
        "nl.dynamic_range is deprecated since NKI 0.6 and removed in 0.7; write nl.fori_loop"
    )
    return loop


def _range(
    start: int | VirtualRegister, stop: int | VirtualRegister | None, step: int
) -> Iterator[VirtualRegister]:
    builder = current()
    first, last = (0, start) if stop is None else (start, stop)
    _check_step(step)
    forbid_no_reorder(builder)
    if builder.eager:
        return _eager_range(builder, first, last, int(step))
    loop = _loop(builder, first, last, int(step))
    return _traced_range(builder, loop)


def _loop(builder: TraceBuilder, first: object, last: object, step: int) -> ForLoop:
    counter = builder.new_register("i")
    return ForLoop(counter, as_operand(first), as_operand(last), step, [], builder.location())


def _check_step(step: Any) -> None:
    if isinstance(step, VirtualRegister) or not is_integer(step) or step < 1:
        fail(
            f"the step of a loop on the device is a positive integer, not {step!r}",
            "NKI-LOOP-STEP",
            "the loop instruction holds its step; count in another register if it varies",
            _LOOP_GUIDE,
        )


def _traced_range(builder: TraceBuilder, loop: ForLoop) -> Iterator[Any]:
    builder.enter_loop(loop)
    yield VirtualRegister(loop.register, frozen=True)
    builder.exit_loop(loop)


def _eager_range(builder: TraceBuilder, first: object, last: object, step: int) -> Iterator[Any]:
    begin, end = _read(builder, first), _read(builder, last)
    loop = _loop(builder, begin, end, step)
    builder.enter_loop(loop)
    for value in range(begin, end, step):
        yield _counter(builder, value)
    builder.exit_loop(loop)


def _counter(builder: TraceBuilder, value: int) -> VirtualRegister:
    counter = builder.new_register("i")
    builder.emit("register_alloc", {"dst": counter, "x": value})
    return VirtualRegister(counter, frozen=True)


def _read(builder: TraceBuilder, bound: object) -> int:
    operand = as_operand(bound)
    return operand if isinstance(operand, int) else builder.register_value(operand)


def fori_loop(
    lower: int | VirtualRegister,
    upper: int | VirtualRegister,
    body_fun: Callable[[NkiScalar], None] | Callable[[VirtualRegister], None],
    step: int = 1,
) -> None:
    """``for i in range(lower, upper, step): body_fun(i)`` on the device.

    The counter is an ``nisa.NkiScalar``, or a register when a bound is one.

    Args:
        lower: the first value of the counter: an integer or a register.
        upper: the value that is no longer reached: an integer or a register.
        body_fun: the body, called once while tracing, with a register.
        step: a positive integer.

    Returns:
        None.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-LOOP-STEP, NKI-REGISTER,
            NKI-NO-REORDER.

    Source: nl.fori_loop (nki/api/nki/language, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF; out a (128, 512) float32 tile::

        def body(i):
            nisa.tensor_copy(dst=out[:, nl.ds(i * 128, 128)], src=a[:, nl.ds(i * 128, 128)])

        nl.fori_loop(0, 4, body)
    """
    body = cast("Callable[[VirtualRegister], None]", body_fun)
    by_register = any(type(bound) is VirtualRegister for bound in (lower, upper))
    for counter in _range(lower, upper, step):
        body(counter if by_register else loop_counter(counter))


def while_loop(
    init: VirtualRegister, body_fun: Callable[[VirtualRegister], VirtualRegister]
) -> None:
    """``r = init; while r != 0: r = body_fun(r)`` on the device.

    Args:
        init: a register; 0 ends the loop before it begins.
        body_fun: the body, called once while tracing, with a register.

    Returns:
        None.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-REGISTER, NKI-NO-REORDER.

    Source: nl.while_loop (nki/api/nki/language, NKI 0.6.0).

    Example, given out a (128, 512) float32 tile::

        def body(left):
            nisa.tensor_scalar(dst=out, data=out, op0=nl.add, operand0=1.0)
            return left - 1

        nl.while_loop(nisa.register_alloc(3), body)
    """
    builder = current()
    forbid_no_reorder(builder)
    if not isinstance(init, VirtualRegister):  # pyright: ignore[reportUnnecessaryIsInstance]
        fail(f"while_loop starts from a register, not {init!r}", "NKI-REGISTER",
             "create one with nisa.register_alloc", "nl.while_loop")  # fmt: skip
    condition = builder.new_register("while")
    builder.emit("register_alloc", {"dst": condition, "x": None})
    builder.emit("register_move", {"dst": condition, "src": init.register})
    if builder.eager:
        while builder.register_value(condition):
            _while_body(builder, condition, body_fun)
        return
    loop = WhileLoop(condition, [], builder.location())
    builder.enter_loop(loop)
    _while_body(builder, condition, body_fun)
    builder.exit_loop(loop)


def _while_body(
    builder: TraceBuilder, condition: Register, body_fun: Callable[[VirtualRegister], object]
) -> None:
    """One iteration; the body receives a copy, so that only its result controls the loop."""
    iteration_register = builder.new_register()
    builder.emit("register_alloc", {"dst": iteration_register, "x": None})
    builder.emit("register_move", {"dst": iteration_register, "src": condition})
    following = body_fun(VirtualRegister(iteration_register))
    if not isinstance(following, VirtualRegister):
        fail(
            f"the body of while_loop returned {following!r}",
            "NKI-REGISTER",
            "return the register that decides about the next iteration",
            "nl.while_loop",
        )
    builder.emit("register_move", {"dst": condition, "src": following.register})


@contextmanager
def no_reorder() -> Generator[None]:
    """Instructions of the block keep their order.

    Returns:
        a context manager.

    Source: nl.no_reorder (nki/api/nki/language, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF; out a (128, 512) float32 tile::

        with nl.no_reorder():
            nisa.tensor_copy(dst=out, src=a)
            nisa.tensor_tensor(dst=out, data1=out, data2=b, op=nl.add)
    """
    builder = current()
    region = NoReorder([], builder.location())
    builder.enter_loop(region)
    yield
    builder.exit_loop(region)
