"""Arguments of passes: the fields of their dataclass, from and to text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from typing import Literal, cast, get_args, get_origin, get_type_hints

from hlo_tools.passes.base import Pass
from hlo_tools.rewrite.errors import PassError

__all__ = ["Argument", "arguments_of", "print_pass", "words_of"]

_UNQUOTED_CHARACTERS = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.,/+:()%*"
)
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a pass.

    Attributes:
        name: its name in text.
        kind: what may follow ``=``, for people.
        default: its value when it is not given.
        parse: text to value; raises ValueError with a sentence.
    """

    name: str
    kind: str
    default: object
    parse: Callable[[str], object]


@cache
def arguments_of(kind: type[Pass]) -> dict[str, Argument]:
    """The arguments of a pass by name.

    Raises:
        PassError: a field has no default, or a type that has no text (HLO-PASS-FIELD).
    """
    hints = get_type_hints(kind)
    return {option.name: _argument(kind, option, hints[option.name]) for option in fields(kind)}  # type: ignore[arg-type]


def _argument(kind: type[Pass], option: Field[object], hint: object) -> Argument:
    default = option.default if option.default_factory is MISSING else option.default_factory()
    if default is MISSING:
        raise _unusable(kind, option.name, "has no default value")
    if get_origin(hint) is Literal:
        words = get_args(hint)
        return Argument(option.name, "|".join(words), default, lambda text: _word(text, words))
    if get_origin(hint) is tuple and get_args(hint) == (str, ...):
        return Argument(option.name, "word,word,...", default, _words)
    for plain, (name, parse) in _PARSERS.items():
        if hint is plain:
            return Argument(option.name, name, default, parse)
    raise _unusable(kind, option.name, f"has the type {hint}")


def _unusable(kind: type[Pass], field: str, reason: str) -> PassError:
    return PassError(
        f"field {field} of the pass {kind.__name__} {reason}",
        code="HLO-PASS-FIELD",
        remedy="fields are bool, int, str, Literal[...] of words or tuple[str, ...], with defaults",
    )


def _truth(text: str) -> bool:
    truth = _TRUTH.get(text.lower())
    if truth is None:
        raise ValueError(f"{text!r} is neither true nor false")
    return truth


def _number(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise ValueError(f"{text!r} is not an integer") from None


def _word(text: str, words: tuple[str, ...]) -> str:
    if text not in words:
        raise ValueError(f"{text!r} is not one of {', '.join(words)}")
    return text


def _words(text: str) -> tuple[str, ...]:
    return tuple(text for text in (text.strip() for text in text.split(",")) if text)


_PARSERS: dict[type, tuple[str, Callable[[str], object]]] = {
    bool: ("true|false", _truth),
    int: ("number", _number),
    str: ("text", str),
}


def print_pass(instance: Pass) -> str:
    """Print a pass as in a pipeline, without arguments that have their default."""
    arguments = [
        (name, getattr(instance, name))
        for name, argument in arguments_of(type(instance)).items()
        if getattr(instance, name) != argument.default
    ]
    if not arguments:
        return instance.name
    return f"{instance.name}{{{' '.join(f'{name}={_print(value)}' for name, value in arguments)}}}"


def words_of(value: object) -> str:
    """The value of an argument as words with commas between."""
    return ",".join(cast(tuple[str, ...], value)) if isinstance(value, tuple) else str(value)


def _print(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = words_of(value)
    if text and _UNQUOTED_CHARACTERS.issuperset(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
