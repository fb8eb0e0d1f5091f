"""Loops that run on the device, seen from Python code that runs once.

``dynamic_range`` is a generator that opens a loop region, hands out the counter, and closes the
region when Python asks for the next value; ``while register:`` opens one when the condition is
first tested and closes it when it is tested again. In the eager interpreter both really loop.
"""

from __future__ import annotations

import ast
import itertools
import linecache
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from nki_lang.errors import NkiTypeError, fail, warn_at_caller, warn_deprecated
from nki_lang.frontend.builder import TraceBuilder, current, user_frame
from nki_lang.frontend.registers import VirtualRegister, as_operand
from nki_lang.ir import ForLoop, NoReorder, WhileLoop, walk

__all__ = [
    "dynamic_range",
    "fori_loop",
    "no_reorder",
    "register_truth",
    "static_range",
    "while_loop",
]

_LOOPS = "nki/deep-dives/nki-dynamic-loops.rst"


def static_range(start: Any, stop: Any = None, step: Any = 1) -> range:
    """A range that is unrolled while tracing."""
    for bound in (start, stop, step):
        if isinstance(bound, VirtualRegister):
            fail(
                f"register {bound.register.name} is a bound of a range that is unrolled while"
                " tracing",
                "NKI-REGISTER-VALUE",
                "use nl.dynamic_range or nl.fori_loop",
                _LOOPS,
            )
    return range(start) if stop is None else range(start, stop, step)


def dynamic_range(start: Any, stop: Any = None, step: Any = 1) -> Iterator[Any]:
    """A loop on the device; yields its counter, a frozen register (deprecated: ``fori_loop``)."""
    loop = _range(start, stop, step)
    warn_deprecated("nl.dynamic_range is deprecated since NKI 0.6; write nl.fori_loop")
    return loop


def _range(start: Any, stop: Any, step: Any) -> Iterator[Any]:
    builder = current()
    first, last = (0, start) if stop is None else (start, stop)
    _check_step(step)
    _forbid_no_reorder(builder)
    if builder.eager:
        return _eager_range(builder, first, last, int(step))
    loop = _loop(builder, first, last, int(step))
    return _traced_range(builder, loop)


def _loop(builder: TraceBuilder, first: Any, last: Any, step: int) -> ForLoop:
    counter = builder.new_register("i")
    return ForLoop(counter, as_operand(first), as_operand(last), step, [], builder.location())


def _check_step(step: Any) -> None:
    if isinstance(step, VirtualRegister) or not hasattr(type(step), "__index__") or step < 1:
        fail(
            f"the step of a loop on the device is a positive integer, not {step!r}",
            "NKI-LOOP-STEP",
            "the loop instruction holds its step; count in another register if it varies",
            _LOOPS,
        )


def _forbid_no_reorder(builder: TraceBuilder) -> None:
    if any(isinstance(region, NoReorder) for region, _ in builder.open):
        fail(
            "a loop on the device inside nl.no_reorder",
            "NKI-NO-REORDER",
            "put the no_reorder block into the loop body",
            f"{_LOOPS}, Interaction with no_reorder",
        )


def _traced_range(builder: TraceBuilder, loop: ForLoop) -> Iterator[Any]:
    builder.enter_loop(loop)
    yield VirtualRegister(loop.register, frozen=True)
    builder.exit_loop(loop)


def _eager_range(builder: TraceBuilder, first: Any, last: Any, step: int) -> Iterator[Any]:
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


def _read(builder: TraceBuilder, bound: Any) -> int:
    operand = as_operand(bound)
    return operand if isinstance(operand, int) else builder.register_value(operand)


def fori_loop(
    lower: Any, upper: Any, body_fun: Callable[[VirtualRegister], None], step: int = 1
) -> None:
    """``for i in range(lower, upper, step): body_fun(i)`` on the device."""
    for counter in _range(lower, upper, step):
        body_fun(counter)


def while_loop(
    init: VirtualRegister, body_fun: Callable[[VirtualRegister], VirtualRegister]
) -> None:
    """``r = init; while r != 0: r = body_fun(r)`` on the device."""
    builder = current()
    _forbid_no_reorder(builder)
    if not isinstance(init, VirtualRegister):
        fail(f"while_loop starts from a register, not {init!r}", "NKI-REGISTER",
             "make one with nisa.register_alloc", "nl.while_loop")  # fmt: skip
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
    builder: TraceBuilder, condition: Any, body_fun: Callable[[VirtualRegister], Any]
) -> None:
    """One turn; the body gets a copy, so that only what it returns steers the loop."""
    given = builder.new_register()
    builder.emit("register_alloc", {"dst": given, "x": None})
    builder.emit("register_move", {"dst": given, "src": condition})
    following = body_fun(VirtualRegister(given))
    if not isinstance(following, VirtualRegister):
        fail(
            f"the body of while_loop returned {following!r}",
            "NKI-REGISTER",
            "return the register that decides about the next turn",
            "nl.while_loop",
        )
    builder.emit("register_move", {"dst": condition, "src": following.register})


@contextmanager
def no_reorder() -> Iterator[None]:
    """Instructions of the block keep their order."""
    builder = current()
    region = NoReorder([], builder.location())
    builder.enter_loop(region)
    yield
    builder.exit_loop(region)


def register_truth(register: VirtualRegister) -> bool:
    """``bool(register)``: the condition of ``while register:``, or an error.

    The eager interpreter knows the value; it warns where a trace would stop.
    """
    builder = current()
    frame = user_frame(2)
    key = _while_header(frame)
    if frame is None or key is None:
        _not_a_loop(builder, register)
        return builder.register_value(register.register) != 0
    place = (id(frame), key)
    opened = next((r for r, _ in builder.open if builder.loop_keys.get(id(r)) == place), None)
    holds = builder.register_value(register.register) != 0 if builder.eager else opened is None
    if opened is None and holds:
        _forbid_no_reorder(builder)
        warn_deprecated("`while register:` is deprecated since NKI 0.6; write nl.while_loop")
        loop = WhileLoop(register.register, [], builder.location())
        builder.loop_keys[id(loop)] = place
        builder.enter_loop(loop)
    elif opened is not None and not holds:
        if not builder.eager:
            _require_progress(opened, register)
        del builder.loop_keys[id(opened)]
        builder.exit_loop(opened)
    return holds


def _require_progress(loop: Any, register: VirtualRegister) -> None:
    """A while loop tests the same register each turn, and its body writes it."""
    if loop.condition != register.register:
        fail(
            "the condition of a while loop on the device is one register, and this one computes a"
            " new one each turn",
            "NKI-WHILE",
            "keep the condition in a register of its own: nisa.register_move(flag, n > 0) before"
            " the loop and at the end of its body, and `while flag:`",
            _LOOPS,
        )
    if all(step.operands.get("dst") != loop.condition for step in walk(loop.body)):
        fail(
            f"register {loop.condition.name} decides about a while loop, and nothing in its body"
            " writes it: the loop never ends",
            "NKI-WHILE",
            "write it in the body with nisa.register_load or nisa.register_move",
            _LOOPS,
        )


def _not_a_loop(builder: TraceBuilder, register: VirtualRegister) -> None:
    """A register was tested outside of a ``while``: an error, in the eager interpreter a warning."""
    message = (
        f"register {register.register.name} was used as a condition, but its value is only known"
        " while the kernel runs"
    )
    if not builder.eager:
        fail(
            message,
            "NKI-REGISTER-VALUE",
            "only `while register:` may test a register; otherwise use nl.while_loop, or select"
            " with nisa.tensor_copy_predicated",
            "nisa.VirtualRegister (nki/api/nki/isa)",
            NkiTypeError,
        )
    warn_at_caller(
        f"[NKI-REGISTER-VALUE] {message}; nki.simulate knows it, a kernel that is traced stops here"
    )


_Place = tuple[int, int, int, int]

_HEADERS: dict[str, dict[_Place, _Place]] = {}
_TESTS: dict[tuple[CodeType, int], _Place | None] = {}
_UNKNOWN: Any = object()


def _while_header(frame: FrameType | None) -> _Place | None:
    """Place of the while loop whose test ``frame`` is evaluating, or None."""
    if frame is None:
        return None
    code, place = frame.f_code, frame.f_lasti
    known = _TESTS.get((code, place), _UNKNOWN)
    if known is not _UNKNOWN:
        return known
    headers = _HEADERS.get(code.co_filename)
    if headers is None:
        headers = _HEADERS[code.co_filename] = _while_loops(code.co_filename)
    positions = next(itertools.islice(code.co_positions(), place // 2, None))
    line, end_line, column, end_column = positions
    found = headers.get((line or -1, end_line or -1, column or 0, end_column or 0))
    _TESTS[code, place] = found
    return found


def _while_loops(path: str) -> dict[_Place, _Place]:
    """The while loops of a file: place of the test, and of the statement -> of the statement.

    The jump on the condition stands at the statement in Python 3.11 and at the test later.
    A test that Python puts together itself (``not``, ``and``, ``or``) is no loop of the device.
    """
    try:
        tree = ast.parse("".join(linecache.getlines(path)))
    except SyntaxError:
        return {}
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.While) and not _is_compound(node.test):
            found[_place(node.test)] = found[_place(node)] = _place(node)
    return found


def _is_compound(test: ast.expr) -> bool:
    if isinstance(test, ast.UnaryOp):
        return isinstance(test.op, ast.Not)
    return isinstance(test, (ast.BoolOp, ast.IfExp))


def _place(node: ast.expr | ast.stmt) -> _Place:
    return (node.lineno, node.end_lineno or -1, node.col_offset, node.end_col_offset or 0)
