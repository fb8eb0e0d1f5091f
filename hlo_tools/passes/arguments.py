"""Arguments of passes: the fields of their dataclass, from and to text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from typing import Literal, cast, get_args, get_origin, get_type_hints

from hlo_tools.passes.base import Pass
from hlo_tools.rewrite.errors import PassError

__all__ = ["Argument", "arguments_of", "print_pass", "words_of"]

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.,/+:()%*")
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
    return {each.name: _argument(kind, each, hints[each.name]) for each in fields(kind)}  # type: ignore[arg-type]


def _argument(kind: type[Pass], each: Field[object], hint: object) -> Argument:
    default = each.default if each.default_factory is MISSING else each.default_factory()
    if default is MISSING:
        raise _unusable(kind, each.name, "has no default value")
    if get_origin(hint) is Literal:
        words = get_args(hint)
        return Argument(each.name, "|".join(words), default, lambda text: _word(text, words))
    if get_origin(hint) is tuple and get_args(hint) == (str, ...):
        return Argument(each.name, "word,word,...", default, _words)
    for plain, (name, parse) in _PARSERS.items():
        if hint is plain:
            return Argument(each.name, name, default, parse)
    raise _unusable(kind, each.name, f"has the type {hint}")


def _unusable(kind: type[Pass], field: str, reason: str) -> PassError:
    return PassError(
        f"field {field} of the pass {kind.__name__} {reason}",
        code="HLO-PASS-FIELD",
        remedy="fields are bool, int, str, Literal[...] of words or tuple[str, ...], with defaults",
    )


def _truth(text: str) -> bool:
    found = _TRUTH.get(text.lower())
    if found is None:
        raise ValueError(f"{text!r} is neither true nor false")
    return found


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
    return tuple(word for word in (part.strip() for part in text.split(",")) if word)


_PARSERS: dict[type, tuple[str, Callable[[str], object]]] = {
    bool: ("true|false", _truth),
    int: ("number", _number),
    str: ("text", str),
}


def print_pass(one: Pass) -> str:
    """A pass as a pipeline writes it: only arguments that are not their default."""
    given = [
        (name, getattr(one, name))
        for name, argument in arguments_of(type(one)).items()
        if getattr(one, name) != argument.default
    ]
    if not given:
        return one.name
    return f"{one.name}{{{' '.join(f'{name}={_print(value)}' for name, value in given)}}}"


def words_of(value: object) -> str:
    """The value of an argument as words with commas between."""
    return ",".join(cast(tuple[str, ...], value)) if isinstance(value, tuple) else str(value)


def _print(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = words_of(value)
    if text and _PLAIN.issuperset(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
