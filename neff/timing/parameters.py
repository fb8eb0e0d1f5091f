"""The table of the model's parameters: every number, with its range and its source.

One row a parameter, one value a generation. The kinds are

* ``documented``: the vendor's documentation or the architecture guides say so;
* ``measured``: others measured and published it (``docs/timing.md`` names them);
* ``assumed``: nobody published it, or only for another generation.

A generation that a row does not name takes trn2's value, "assumed", with a range half as wide
again. Everything else in this package reads the table and holds no number of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from neff.errors import NeffError
from neff.timing.parameter_table import EARLIER_ROWS, PARAMETER_ROWS, Cell
from neff.timing.project import project_table
from nki_lang.base.targets import TARGETS, target_of

__all__ = [
    "PARAMETERS",
    "TOOLCHAINS",
    "Parameter",
    "Parameters",
    "Side",
    "Value",
    "overrides_of",
    "parameter_table",
]


class Side(IntEnum):
    """The end of every parameter's range that a simulation uses."""

    nominal = 0
    fastest = 1
    slowest = 2


class Value(NamedTuple):
    """A parameter's ``value`` for one generation, its range (``low`` to ``high``), kind and source."""

    value: float
    low: float
    high: float
    kind: str
    source: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """One row.

    Attributes:
        name: as for ``--set``.
        unit: unit of all its values.
        meaning: a short description.
        more_is_faster: True for rates; the slowest end of its range is then the low one.
        values: by generation.
    """

    name: str
    unit: str
    meaning: str
    more_is_faster: bool
    values: Mapping[str, Value]


_RATE_UNITS = frozenset({"GHz", "B/ns", "GB/s", "share"})
_ASSUMED_RANGE_FACTOR = 1.5


def _assumed(measured: Value) -> Value:
    low = measured.value - _ASSUMED_RANGE_FACTOR * (measured.value - measured.low)
    high = measured.value + _ASSUMED_RANGE_FACTOR * (measured.high - measured.value)
    return Value(measured.value, max(0.0, low), high, "assumed", f"as trn2: {measured.source}")


def _values(cells: Mapping[str, Cell]) -> dict[str, Value]:
    """Return the value of every generation."""
    named = {target: Value(*value) for target, value in cells.items()}
    return {target: named.get(target) or _assumed(named["trn2"]) for target in TARGETS}


def _parameter(name: str, unit: str, meaning: str, cells: Mapping[str, Cell]) -> Parameter:
    values = _values(cells)
    faster = unit in _RATE_UNITS or name == "tensor.cooling_ns"
    return Parameter(name, unit, meaning, faster, MappingProxyType(values))


PARAMETERS: Mapping[str, Parameter] = MappingProxyType(
    {row[0]: _parameter(*row) for row in PARAMETER_ROWS}
)


TOOLCHAINS: Mapping[str, Mapping[str, Mapping[str, Value]]] = MappingProxyType(
    {
        "current": {},
        "earlier": {name: _values(cells) for name, cells in EARLIER_ROWS.items()},
    }
)
"""Toolchains that programs and streams come from, with the values that differ: NKI 0.6 and later is
``current``."""


class Parameters:
    """The parameters of one ``target`` and ``toolchain``, some perhaps replaced; immutable.

    ``overrides`` gives a number for a parameter's name, in the unit of the table.
    An overridden parameter has no range: the user is sure of it. ``calibrated`` has values and ranges
    of captures (:mod:`neff.timing.chip`), which replace those of the table.
    """

    def __init__(
        self,
        target: str,
        overrides: Mapping[str, float] | None = None,
        *,
        toolchain: str = "current",
        calibrated: Mapping[str, Value] | None = None,
    ) -> None:
        """Take the table's values for ``target``.

        Raises:
            NeffError: ``NEFF-PARAMETER``; an override names no parameter, or is negative, or there
                is no such toolchain.
        """
        self.target = target_of(target).name
        self.overrides = dict(overrides or {})
        self._values = {name: row.values[self.target] for name, row in PARAMETERS.items()}
        for name, values in _of_toolchain(toolchain).items():
            self._values[name] = values[self.target]
        self._values |= calibrated or {}
        for name, number in self.overrides.items():
            _check(name, number)
            self._values[name] = Value(number, number, number, "overridden", "the user")

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def numbers(self, side: Side = Side.nominal) -> dict[str, float]:
        """One number a parameter: the value, or the end of the range that is fast or slow."""
        if side is Side.nominal:
            return {name: value.value for name, value in self._values.items()}
        low = {
            name: (side is Side.fastest) != PARAMETERS[name].more_is_faster for name in self._values
        }
        return {name: v.low if low[name] else v.high for name, v in self._values.items()}

    def is_known(self, name: str) -> bool:
        """True when the value is measured for this generation, or the user gave it."""
        return self._values[name].kind in ("measured", "overridden")


def _of_toolchain(toolchain: str) -> Mapping[str, Mapping[str, Value]]:
    rows = TOOLCHAINS.get(toolchain)
    if rows is None:
        raise NeffError(
            f"there is no toolchain {toolchain!r}",
            code="NEFF-PARAMETER",
            remedy=f"use one of {', '.join(TOOLCHAINS)}",
        )
    return rows


def _check(name: str, number: float) -> None:
    if name not in PARAMETERS:
        near = ", ".join(_near(name))
        raise NeffError(
            f"there is no timing parameter {name!r}",
            code="NEFF-PARAMETER",
            remedy=f"did you mean {near}?" if near else _groups(),
        )
    divides = PARAMETERS[name].unit in _RATE_UNITS | {"B"}
    if not isfinite(number) or number < 0 or (divides and number == 0):
        raise NeffError(
            f"{name} cannot be {number:g} {PARAMETERS[name].unit}",
            code="NEFF-PARAMETER",
            remedy="pass a positive number",
        )


def _near(name: str) -> list[str]:
    from difflib import get_close_matches

    by_last_word = {row.partition(".")[2]: row for row in PARAMETERS}
    if name in by_last_word:
        return [row for row in PARAMETERS if row.partition(".")[2] == name]
    return get_close_matches(name, PARAMETERS, 3)


def _groups() -> str:
    groups = dict.fromkeys(name.partition(".")[0] for name in PARAMETERS)
    return f"names begin with {'., '.join(groups)}.; docs/timing.md lists them all"


def overrides_of(settings: Iterable[str], folder: Path | None = None) -> dict[str, float]:
    """Overrides from ``name=number`` texts, above those of ``[tool.nki-neff.timing]``.

    Args:
        settings: arguments of ``--set``.
        folder: where the search for a pyproject.toml starts, upwards; None reads none.

    Raises:
        NeffError: ``NEFF-PARAMETER``; a setting is no ``name=number``.
    """
    overrides = _of_project(folder) if folder is not None else {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        overrides[name.strip()] = _number(name.strip(), text if equals else "", setting)
    return overrides


def _number(name: str, text: Any, setting: str) -> float:
    try:
        return float(text)
    except (TypeError, ValueError):
        raise NeffError(
            f"{setting!r} sets no number",
            code="NEFF-PARAMETER",
            place=name,
            remedy="write name=number, such as dma.issue_ns=550",
        ) from None


def _of_project(folder: Path) -> dict[str, float]:
    """The table in the nearest pyproject.toml above a folder."""
    table = project_table("timing", folder, "NEFF-PARAMETER")
    return {name: _number(name, value, f"{name} = {value!r}") for name, value in _flat(table)}


def _flat(table: Mapping[str, object], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """TOML reads ``dma.issue_ns`` as a table in a table."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(cast("dict[str, object]", value), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def parameter_table() -> str:
    """All parameters as a Markdown table, for the documentation."""
    lines = [
        "| parameter | unit | what | trn1 | trn2 | trn3 | source |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in PARAMETERS.values():
        cells = [_cell(row.values[target]) for target in TARGETS]
        sources = [value.source for value in row.values.values() if value.source[:7] != "as trn2"]
        lines.append(
            f"| `{row.name}` | {row.unit} | {row.meaning} | {' | '.join(cells)} | "
            f"{'; '.join(dict.fromkeys(sources))} |"
        )
    return "\n".join(lines)


def _cell(value: Value) -> str:
    number = f"{value.value:.4g}"
    if value.low != value.high:
        number += f" ({value.low:.4g}–{value.high:.4g})"
    return f"{number} {value.kind[0]}"
