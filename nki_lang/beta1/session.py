"""The state of one beta 1 kernel while it is traced or interpreted."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from nki_lang.base.errors import fail
from nki_lang.beta1.values import Value
from nki_lang.frontend.builder import TraceBuilder, active, current

__all__ = ["Result", "Session", "require_session", "session_or_none", "start_session"]


@dataclass(slots=True)
class Result:
    """The newest result of a value-returning function, which an assignment may redirect.

    Attributes:
        tile: the tile that the function created.
        write: issues the function's last instructions into another tile; takes (target tile, is
            the target's earlier content to be kept), and of a product the mode of accumulation.
        buffers: memories that these instructions can write.
        block: the block of statements that the instructions are in.
        start: index of the first one.
        stop: index behind the last one.
        is_product: a product of the tensor engine, which can accumulate.
    """

    tile: Value
    write: Callable[..., None]
    buffers: frozenset[Value]
    block: Value
    start: int
    stop: int = 0
    is_product: bool = False


@dataclass(slots=True)
class Session:
    """State that the functions of the language share during one trace.

    Attributes:
        builder: of the kernel IR.
        grid: extents of the launch grid.
        program: indices of the program that runs.
        shared: HBM tensors in the order of allocation; programs of the grid share them.
        shared_count: how many of them this program has allocated.
        newest: the result that an assignment may redirect, or None.
        filled: names of tensors that were written, so that ``+=`` adds to their content.
    """

    builder: TraceBuilder
    grid: tuple[int, ...] = ()
    program: tuple[int, ...] = ()
    shared: list[Value] = field(default_factory=list[Value])
    shared_count: int = 0
    newest: Result | None = None
    filled: set[str] = field(default_factory=set[str])


_SESSION: ContextVar[Session | None] = ContextVar("nki_beta1_session", default=None)


def session_or_none() -> Session | None:
    """Return the session of the running beta 1 kernel, or None."""
    return _SESSION.get()


def require_session() -> Session:
    """Return the session of the running kernel.

    Raises:
        NkiValidationError: code ``NKI-OUTSIDE``, no kernel runs; ``NKI-BETA1-MIXED``, the kernel's
            decorator is of the current language.
    """
    session = _SESSION.get()
    if session is not None:
        return session
    if active() is not None:
        fail(
            "a function of NKI beta 1 (neuronxcc.nki) is called in a kernel of the current language",
            "NKI-BETA1-MIXED",
            "import nki, nki.language and nki.isa from one package: nki, or neuronxcc.nki",
        )
    current()  # raises NKI-OUTSIDE
    raise AssertionError


@contextmanager
def start_session(grid: tuple[int, ...]) -> Generator[Session]:
    """Open the session of a kernel that runs on the current builder."""
    session = Session(current(), grid)
    token = _SESSION.set(session)
    try:
        yield session
    finally:
        _SESSION.reset(token)
