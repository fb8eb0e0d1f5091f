"""Parameters that captures of a real device determined: a TOML file that ``calibrate`` writes.

The file replaces values and ranges of the table for one target and toolchain:

.. code-block:: toml

    [chip]
    target = "trn2"
    toolchain = "current"
    captures = ["profile.json"]

    [parameters]
    "dma.issue_ns" = { value = 545.2, low = 540.1, high = 550.3 }
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import cast

from neff.errors import NeffError
from neff.timing.parameters import PARAMETERS, TOOLCHAINS, Parameters, Value
from nki_lang.base.plain_files import MAX_RECORD_BYTES, read_plain, shown
from nki_lang.base.targets import TARGETS

__all__ = ["Chip", "chip_text", "parameters_of", "read_chip"]


@dataclass(frozen=True, slots=True)
class Chip:
    """Calibrated parameters.

    Attributes:
        target: family of the device.
        toolchain: of :data:`neff.timing.TOOLCHAINS`; the other parameters have its values.
        captures: names of the files that the values come from.
        values: by parameter, of the kind ``measured``.
    """

    target: str
    toolchain: str
    captures: tuple[str, ...]
    values: Mapping[str, Value]


def chip_text(chip: Chip) -> str:
    """Return the file of a chip."""
    names = ", ".join(_quoted(name) for name in chip.captures)
    lines = [
        "# Written by nki-neff calibrate. These values replace those of docs/timing.md, in the same",
        "# units; parameters that are not here keep the value of the table.",
        "[chip]",
        f"target = {_quoted(chip.target)}",
        f"toolchain = {_quoted(chip.toolchain)}",
        f"captures = [{names}]",
        "",
        "[parameters]",
    ]
    for name, value in sorted(chip.values.items()):
        ends = ", ".join(
            f"{key} = {number:.6g}"
            for key, number in zip(("value", "low", "high"), value[:3], strict=True)
        )
        lines.append(f'"{name}" = {{ {ends} }}')
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Return a basic string of TOML."""
    escaped = "".join(
        f"\\u{ord(char):04X}" if ord(char) < 32 or ord(char) == 127 else char
        for char in text.replace("\\", "\\\\").replace('"', '\\"')
    )
    return f'"{escaped}"'


def read_chip(path: Path) -> Chip:
    """Read the file of a chip.

    Raises:
        NeffError: ``NEFF-CHIP``; the file cannot be read, is no TOML, names an unknown target,
            toolchain or parameter, or a value is not within its range.
    """
    try:
        document = tomllib.loads(read_plain(path, MAX_RECORD_BYTES).decode())
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise _wrong(path, f"not the file of a chip: {reason}") from error
    if set(document) - {"chip", "parameters"}:
        extra = ", ".join(sorted(set(document) - {"chip", "parameters"}))
        raise _wrong(path, f"has more than the tables chip and parameters: {extra}")
    about, rows = (_table(document.get(name), path, name) for name in ("chip", "parameters"))
    target, toolchain = about.get("target"), about.get("toolchain", "current")
    if target not in TARGETS:
        raise _wrong(path, f"{target!r} is no target: {', '.join(TARGETS)}")
    if toolchain not in TOOLCHAINS:
        raise _wrong(path, f"{toolchain!r} is no toolchain: {', '.join(TOOLCHAINS)}")
    names = about.get("captures", [])
    captures = cast("list[object]", names) if isinstance(names, list) else []
    values = {name: _value(name, row, path) for name, row in rows.items()}
    return Chip(str(target), str(toolchain), tuple(map(str, captures)), values)


def _table(table: object, path: Path, name: str) -> dict[str, object]:
    if not isinstance(table, dict):
        raise _wrong(path, f"has no table [{name}]")
    return cast("dict[str, object]", table)


def _value(name: str, row: object, path: Path) -> Value:
    """Return the value of one parameter."""
    if name not in PARAMETERS:
        raise _wrong(path, f"{name!r} is no parameter of the timing model")
    numbers = cast("dict[str, object]", row) if isinstance(row, dict) else {}
    if set(numbers) != {"value", "low", "high"}:
        raise _wrong(path, f"{name} needs value, low and high")
    ends = [numbers[key] for key in ("low", "value", "high")]
    if not all(type(end) in (int, float) and isfinite(cast(float, end)) for end in ends):
        raise _wrong(path, f"{name} has an end that is no number")
    low, value, high = (float(cast(float, end)) for end in ends)
    divides = PARAMETERS[name].more_is_faster or PARAMETERS[name].unit == "B"
    if not 0 <= low <= value <= high or (divides and low == 0):
        raise _wrong(path, f"{name} is not within its range: {low:g} <= {value:g} <= {high:g}")
    return Value(value, low, high, "measured", f"calibrated: {shown(path)}")


def _wrong(path: Path, message: str) -> NeffError:
    return NeffError(
        message,
        code="NEFF-CHIP",
        place=shown(path),
        remedy="write it with nki-neff calibrate CAPTURE -o my-chip.toml",
    )


def parameters_of(
    target: str, overrides: Mapping[str, float] | None = None, chip: Chip | None = None
) -> Parameters:
    """Return the parameters of a target, those of a chip instead of the table's.

    Args:
        target: family of the program.
        overrides: above those of the chip, see :class:`Parameters`.
        chip: of the same target.

    Raises:
        NeffError: ``NEFF-CHIP``; the chip is of another target. ``NEFF-PARAMETER`` as of
            :class:`Parameters`.
    """
    if chip is None:
        return Parameters(target, overrides)
    if chip.target != target:
        raise NeffError(
            f"the chip is a {chip.target}, the program is for {target}",
            code="NEFF-CHIP",
            remedy="build the program for the chip's target, or calibrate one of the program's",
        )
    return Parameters(target, overrides, toolchain=chip.toolchain, calibrated=chip.values)
