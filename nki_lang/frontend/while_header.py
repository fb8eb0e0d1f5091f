"""``while register:`` - which ``while`` of the source a truth value is the condition of.

Python evaluates a register's truth without its context. The place of the running instruction
in the user's file decides: it opens a loop on the device where a ``while`` statement tests it for
the first time, and closes the loop where the same statement tests it again.
"""

from __future__ import annotations

import ast
import itertools
import linecache
from types import CodeType, FrameType
from typing import Any

from nki_lang.errors import NkiTypeError, fail, warn_at_caller, warn_deprecated
from nki_lang.frontend.builder import TraceBuilder, current, user_frame
from nki_lang.ir import NoReorder, Register, WhileLoop, walk

__all__ = ["forbid_no_reorder", "register_truth"]

_LOOPS = "nki/deep-dives/nki-dynamic-loops.rst"


def forbid_no_reorder(builder: TraceBuilder) -> None:
    """Refuse a loop on the device inside ``nl.no_reorder``."""
    if any(isinstance(region, NoReorder) for region, _ in builder.open):
        fail(
            "a loop on the device inside nl.no_reorder",
            "NKI-NO-REORDER",
            "put the no_reorder block into the loop body",
            f"{_LOOPS}, Interaction with no_reorder",
        )


def register_truth(register: Register) -> bool:
    """``bool(register)``: the condition of ``while register:``, or an error.

    The eager interpreter has the value; it warns where a trace would stop.
    """
    builder = current()
    frame = user_frame(2)
    key = _while_header(frame)
    if frame is None or key is None:
        _not_a_loop(builder, register)
        return builder.register_value(register) != 0
    place = (id(frame), key)
    opened = next((r for r, _ in builder.open if builder.loop_keys.get(id(r)) == place), None)
    holds = builder.register_value(register) != 0 if builder.eager else opened is None
    if opened is None and holds:
        forbid_no_reorder(builder)
        warn_deprecated("`while register:` is deprecated since NKI 0.6; write nl.while_loop")
        loop = WhileLoop(register, [], builder.location())
        builder.loop_keys[id(loop)] = place
        builder.enter_loop(loop)
    elif opened is not None and not holds:
        if not builder.eager:
            _require_progress(opened, register)
        del builder.loop_keys[id(opened)]
        builder.exit_loop(opened)
    return holds


def _require_progress(loop: Any, register: Register) -> None:
    """A while loop tests the same register each iteration, and its body writes it."""
    if loop.condition != register:
        fail(
            "the condition of a while loop on the device is one register, and this one computes a"
            " new one each iteration",
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


def _not_a_loop(builder: TraceBuilder, register: Register) -> None:
    """A register was tested outside of a ``while``: an error, in the eager interpreter a warning."""
    message = (
        f"register {register.name} was used as a condition, but its value is only known"
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
        f"[NKI-REGISTER-VALUE] {message}; nki.simulate reads it, a kernel that is traced stops here"
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

    The jump on the condition is at the statement in Python 3.11 and at the test later.
    A test that Python puts together itself (``not``, ``and``, ``or``) is not a loop of the device.
    """
    try:
        tree = ast.parse("".join(linecache.getlines(path)))
    except SyntaxError:
        return {}
    found: dict[_Place, _Place] = {}
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
