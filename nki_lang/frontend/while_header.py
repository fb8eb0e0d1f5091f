"""Loops on the device from ``while register:``.

Python evaluates a register's truth without its context. The location of the running instruction
in the user's file decides: the first test of a ``while`` statement opens a loop on the device,
and the second test of the same statement closes it.
"""

from __future__ import annotations

import ast
import itertools
import linecache
from types import CodeType, FrameType
from typing import Any

from nki_lang.base.errors import NkiTypeError, fail, warn_at_caller, warn_deprecated
from nki_lang.base.versions import selects_since
from nki_lang.frontend.builder import TraceBuilder, current, user_frame
from nki_lang.ir import NoReorder, Register, WhileLoop, walk

__all__ = ["forbid_no_reorder", "register_truth"]

_LOOP_GUIDE = "nki/deep-dives/nki-dynamic-loops.rst"


def forbid_no_reorder(builder: TraceBuilder) -> None:
    """Refuse a loop on the device inside ``nl.no_reorder``."""
    if any(isinstance(region, NoReorder) for region, _ in builder.open):
        fail(
            "a loop on the device inside nl.no_reorder",
            "NKI-NO-REORDER",
            "put the no_reorder block into the loop body",
            f"{_LOOP_GUIDE}, Interaction with no_reorder",
        )


def register_truth(register: Register) -> bool:
    """Return ``bool(register)``: the condition of ``while register:``, or an error.

    The eager interpreter has the value; it warns where a trace would fail.
    """
    builder = current()
    frame = user_frame(2)
    key = _while_header(frame)
    if frame is None or key is None:
        _not_a_loop(builder, register)
        return builder.register_value(register) != 0
    key_of_loop = (id(frame), key)
    open_loop = next(
        (r for r, _ in builder.open if builder.loop_keys.get(id(r)) == key_of_loop), None
    )
    holds = builder.register_value(register) != 0 if builder.eager else open_loop is None
    if open_loop is None and holds:
        forbid_no_reorder(builder)
        _require_while_register(register)
        warn_deprecated(
            "`while register:` is deprecated since NKI 0.6 and removed in 0.7; write nl.while_loop"
        )
        loop = WhileLoop(register, [], builder.location())
        builder.loop_keys[id(loop)] = key_of_loop
        builder.enter_loop(loop)
    elif open_loop is not None and not holds:
        if not builder.eager:
            _require_progress(open_loop, register)
        del builder.loop_keys[id(open_loop)]
        builder.exit_loop(open_loop)
    return holds


def _require_while_register(register: Register) -> None:
    """Refuse ``while register:`` where the selected version of NKI has removed it."""
    if selects_since("0.7"):
        fail(
            f"register {register.name} is the condition of a while loop, which NKI 0.7 removed",
            "NKI-REGISTER-VALUE",
            "write nl.while_loop(register, body)",
            _LOOP_GUIDE,
            NkiTypeError,
        )


def _require_progress(loop: Any, register: Register) -> None:
    """Require that the loop tests the same register in each iteration, and that its body writes
    it.
    """
    if loop.condition != register:
        fail(
            "the condition of a while loop on the device is one register, and this one computes a"
            " new one each iteration",
            "NKI-WHILE",
            "keep the condition in a register of its own: nisa.register_move(flag, n > 0) before"
            " the loop and at the end of its body, and `while flag:`",
            _LOOP_GUIDE,
        )
    if all(step.operands.get("dst") != loop.condition for step in walk(loop.body)):
        fail(
            f"register {loop.condition.name} decides about a while loop, and nothing in its body"
            " writes it: the loop never ends",
            "NKI-WHILE",
            "write it in the body with nisa.register_load or nisa.register_move",
            _LOOP_GUIDE,
        )


def _not_a_loop(builder: TraceBuilder, register: Register) -> None:
    """Refuse a register that is tested outside of a ``while``; the eager interpreter only warns."""
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


_Span = tuple[int, int, int, int]

_HEADERS_BY_FILE: dict[str, dict[_Span, _Span]] = {}
_HEADER_OF_TEST: dict[tuple[CodeType, int], _Span | None] = {}
_NOT_CACHED: Any = object()


def _while_header(frame: FrameType | None) -> _Span | None:
    """Return the span of the while loop whose test ``frame`` is evaluating, or None."""
    if frame is None:
        return None
    code, offset = frame.f_code, frame.f_lasti
    cached = _HEADER_OF_TEST.get((code, offset), _NOT_CACHED)
    if cached is not _NOT_CACHED:
        return cached
    headers = _HEADERS_BY_FILE.get(code.co_filename)
    if headers is None:
        headers = _HEADERS_BY_FILE[code.co_filename] = _while_loops(code.co_filename)
    positions = next(itertools.islice(code.co_positions(), offset // 2, None))
    line, end_line, column, end_column = positions
    header = headers.get((line or -1, end_line or -1, column or 0, end_column or 0))
    _HEADER_OF_TEST[code, offset] = header
    return header


def _while_loops(path: str) -> dict[_Span, _Span]:
    """Return span of the test, and of the statement -> span of the statement, of all while loops.

    The jump on the condition is at the statement in Python 3.11 and at the test later.
    A compound test (``not``, ``and``, ``or``) is evaluated by Python and is no loop on the device.
    """
    try:
        tree = ast.parse("".join(linecache.getlines(path)))
    except SyntaxError:
        return {}
    headers: dict[_Span, _Span] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.While) and not _is_compound(node.test):
            headers[_span(node.test)] = headers[_span(node)] = _span(node)
    return headers


def _is_compound(test: ast.expr) -> bool:
    if isinstance(test, ast.UnaryOp):
        return isinstance(test.op, ast.Not)
    return isinstance(test, (ast.BoolOp, ast.IfExp))


def _span(node: ast.expr | ast.stmt) -> _Span:
    return (node.lineno, node.end_lineno or -1, node.col_offset, node.end_col_offset or 0)
