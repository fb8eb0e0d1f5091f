"""Compares documented names with ours: presence, parameters, defaults."""

from __future__ import annotations

import ast
import enum
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from nki_lang.base.versions import VERSIONS
from nki_lang.frontend.operators import Operator
from nki_lang.strict import SYMBOLS
from scripts.api_index.explained import CHANGED, EXPLAINED
from scripts.api_index.reading import Entry, Parameter

__all__ = ["Difference", "compared"]

_MISSING = object()


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference.

    Attributes:
        name: the dotted name.
        kind: ``missing``, ``parameters``, ``default`` or ``not documented``.
        documented: the index's text.
        ours: our text.
        explanation: why it stays; "" when it is not explained.
    """

    name: str
    kind: str
    documented: str = ""
    ours: str = ""
    explanation: str = ""

    def __str__(self) -> str:
        texts = f": {self.documented} (documented), {self.ours} (ours)" if self.documented else ""
        reason = f"; explained: {self.explanation}" if self.explanation else ""
        return f"{self.name}: {self.kind}{texts}{reason}"


def compared(
    entries: Mapping[str, Entry],
    ours: Mapping[str, ModuleType],
    *,
    version: str,
    ours_too: bool = False,
) -> Iterator[Difference]:
    """Yield the differences between documented names and our modules.

    Args:
        entries: documented names.
        ours: our modules by the name that people import.
        version: the version that the index documents; names that came later are left out.
        ours_too: also yield our public names that the index lacks.
    """
    for name, entry in sorted(entries.items()):
        module = next(
            (m for m in sorted(ours, key=len, reverse=True) if name.startswith(f"{m}.")), ""
        )
        if module and name not in ours:
            value = _resolved(ours[module], name[len(module) + 1 :])
            yield from _differences(entry, value, version)
    if ours_too:
        yield from _not_documented(entries, ours, version)


def _not_documented(
    entries: Mapping[str, Entry], ours: Mapping[str, ModuleType], version: str
) -> Iterator[Difference]:
    for module_name, module in ours.items():
        for attribute in getattr(module, "__all__", ()):
            name = f"{module_name}.{attribute}"
            symbol = SYMBOLS.get(name)
            is_later = symbol is not None and symbol.since and _after(symbol.since, version)
            if name not in entries and name not in ours and not is_later:
                yield Difference(name, "not documented", explanation=EXPLAINED.get(name, ""))


def _after(since: str, version: str) -> bool:
    return VERSIONS.index(since) > VERSIONS.index(version)


def _resolved(module: ModuleType, path: str) -> Any:
    value: Any = module
    for attribute in path.split("."):
        value = getattr(value, attribute, _MISSING)
        if value is _MISSING:
            return _MISSING
    return value


def _differences(entry: Entry, value: Any, version: str) -> Iterator[Difference]:
    explanation = _explanation(entry.name, version)
    if value is _MISSING:
        yield Difference(entry.name, "missing", entry.source, "no such name", explanation)
        return
    if entry.parameters is None or not callable(value) or isinstance(value, type):
        return
    try:
        signature = _own_parameters(value)
    except (TypeError, ValueError):
        return
    count = len(entry.parameters)
    if _names(entry.parameters) != _names(signature[:count]) or not _are_extras(signature[count:]):
        yield Difference(
            entry.name, "parameters", _text(entry.parameters), _text(signature), explanation
        )
        return
    for documented, own_parameter in zip(entry.parameters, signature[:count], strict=True):
        if not _same_default(documented.default, own_parameter.default):
            yield Difference(
                f"{entry.name}({documented.name})", "default", str(documented.default),
                str(own_parameter.default), explanation,
            )  # fmt: skip


def _explanation(name: str, version: str) -> str:
    since = CHANGED.get(name, "")
    if since and _after(since, version):
        return f"NKI {since} changed the signature"
    return EXPLAINED.get(name, "")


def _are_extras(parameters: tuple[Parameter, ...]) -> bool:
    """Return True if documented calls do not notice these parameters, which are ours alone."""
    return all(entry.keyword_only and entry.default is not None for entry in parameters)


def _names(parameters: tuple[Parameter, ...]) -> list[tuple[str, bool]]:
    return [(parameter.name, parameter.keyword_only) for parameter in parameters]


def _text(parameters: tuple[Parameter, ...]) -> str:
    words: list[str] = []
    for parameter in parameters:
        if parameter.keyword_only and "*" not in words:
            words.append("*")
        default = "" if parameter.default is None else f"={parameter.default}"
        words.append(parameter.name + default)
    return f"({', '.join(words)})"


def _own_parameters(function: Any) -> tuple[Parameter, ...]:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    parameters = [
        Parameter(
            stars.get(parameter.kind, "") + parameter.name,
            None if parameter.default is parameter.empty else _written(parameter.default),
            parameter.kind is parameter.KEYWORD_ONLY,
        )
        for parameter in inspect.signature(function).parameters.values()
    ]
    return tuple(parameter for parameter in parameters if parameter.name != "self")


def _written(value: Any) -> str:
    """Return a default as a stub writes it."""
    if isinstance(value, Operator):
        return value.public
    if isinstance(value, enum.Enum):
        return value.name
    return repr(value)


def _same_default(documented: str | None, own_default: str | None) -> bool:
    if documented == "...":  # the stub does not state the value
        return own_default is not None
    if documented is None or own_default is None:
        return documented is own_default
    return _value(documented) == _value(own_default)


def _value(text: str) -> Any:
    """Return a literal's value; of any other text the last name (``nl.add`` is ``add``)."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text.rpartition(".")[2]
    return value.rpartition(".")[2] if isinstance(value, str) else value
