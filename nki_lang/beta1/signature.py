"""Calls of the language that do not fit a function's signature, refused at the user's line.

Most functions of beta 1 end in ``**kwargs`` and ignore keywords that they do not have, so that a
misspelled ``mask`` gives the result without a mask. Here only the keywords in
``KEYWORDS_WITHOUT_EFFECT`` are ignored.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NoReturn, ParamSpec, TypeVar

from nki_lang.base.errors import NkiTypeError, fail
from nki_lang.beta1.values import Value

__all__ = ["KEYWORDS_WITHOUT_EFFECT", "IgnoredKeyword", "checked_call"]

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


@dataclass(frozen=True, slots=True)
class IgnoredKeyword:
    """A keyword that kernels of beta 1 pass and that changes no result.

    Attributes:
        reason: why the results are the same without it.
        functions: the functions that accept it, as in a kernel; empty for all.
    """

    reason: str
    functions: tuple[str, ...] = ()


KEYWORDS_WITHOUT_EFFECT = {
    "name": IgnoredKeyword("a label of the instruction for the vendor's profiler"),
    "directives": IgnoredKeyword(
        "hints to the vendor's scheduler (nki-samples: nki.compiler.no_reorder()); loops are"
        " unrolled in order",
        ("nl.affine_range", "nl.sequential_range", "nl.static_range"),
    ),
    "lazy_initialization": IgnoredKeyword(
        "when the vendor's compiler writes the first values (nki-samples); blocks are created when"
        " they are first used",
        ("nl.empty_like", "nl.full", "nl.ndarray", "nl.ones", "nl.zeros", "nl.zeros_like"),
    ),
    "engine": IgnoredKeyword(
        "a parameter of SDK 2.21 only; the vector engine computes it", ("nisa.reciprocal",)
    ),
}

_PREFIXES = {"nki_lang.beta1.isa": "nisa.", "nki_lang.beta1.compiler": "nki.compiler."}
_CURRENT_DESTINATION = "; functions of beta 1 return their result: t = {}(...), or t[...] = {}(...)"


def checked_call(function: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Decorator: refuse unknown keywords, and arguments that are missing or too many.

    Raises:
        NkiTypeError: code ``NKI-ARGUMENTS``, from the call.
    """
    accepted = inspect.signature(function).parameters
    name = _PREFIXES.get(function.__module__, "nl.") + function.__name__
    ignored = frozenset(
        keyword
        for keyword, row in KEYWORDS_WITHOUT_EFFECT.items()
        if keyword not in accepted and (not row.functions or name in row.functions)
    )

    @functools.wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        if not accepted.keys() >= kwargs.keys():
            for keyword in kwargs.keys() - accepted.keys():
                if keyword not in ignored:
                    _refuse_keyword(name, keyword, function)
                del kwargs[keyword]
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            trace = error.__traceback__
            if trace is not None and trace.tb_next is None:  # the call, not the body
                _refuse_count(name, error, function)
            raise

    return call


def _refuse_keyword(name: str, keyword: str, function: Callable[..., Value]) -> NoReturn:
    from difflib import get_close_matches  # late: only messages of errors need it

    close = get_close_matches(keyword, inspect.signature(function).parameters, 1, 0.6)
    suggestion = f"; did you mean {close[0]!r}?" if close else ""
    note = _CURRENT_DESTINATION.format(name, name) if keyword == "dst" else ""
    fail(f"{name}() of NKI beta 1 has no keyword {keyword!r}{suggestion}", "NKI-ARGUMENTS",
         f"write {name}{_signature_text(function)}{note}", "", NkiTypeError)  # fmt: skip


def _refuse_count(name: str, error: TypeError, function: Callable[..., Value]) -> NoReturn:
    _, _, problem = str(error).partition("() ")
    fail(f"{name}() of NKI beta 1 {problem}", "NKI-ARGUMENTS",
         f"write {name}{_signature_text(function)}", "", NkiTypeError)  # fmt: skip


class _DefaultText:
    """A default as it is written in a kernel: ``np.float32``, ``nisa.reduce_cmd.idle``."""

    def __init__(self, default: Value) -> None:
        if isinstance(default, Enum):
            self._text = f"nisa.{type(default).__name__}.{default.name}"
        elif callable(default):
            module = "np." if default.__module__ == "numpy" else ""
            self._text = module + default.__name__
        else:
            self._text = repr(default)

    def __repr__(self) -> str:
        return self._text


def _signature_text(function: Callable[..., Value]) -> str:
    """Return the parameters of a function without types."""
    empty = inspect.Parameter.empty
    rows = [
        row.replace(
            annotation=empty,
            default=empty if row.default is empty else _DefaultText(row.default),
        )
        for row in inspect.signature(function).parameters.values()
    ]
    return str(inspect.Signature(rows))
