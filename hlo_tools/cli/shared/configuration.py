"""Settings that a project keeps in a file: ``nki-hlo.toml``, or ``[tool.nki-hlo]`` in pyproject.

The nearest file at or above the working folder counts; ``nki-hlo.toml`` before ``pyproject.toml``.
The command line takes precedence, then ``NKI_HLO_<NAME>`` of the environment (lists with
commas), then the file, then the default.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from hlo_tools._messages import did_you_mean
from hlo_tools.errors import HloError
from hlo_tools.files.plain import MAX_RECORD_BYTES, read_plain
from nki_lang.base.errors import NkiError
from nki_lang.base.targets import target_of
from nki_lang.base.versions import VERSIONS

__all__ = ["ALL_SETTINGS", "Configuration", "Setting", "Value", "read_configuration"]

_FILE, _PROJECT, _TABLE = "nki-hlo.toml", "pyproject.toml", "nki-hlo"
_PREFIX = "NKI_HLO_"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Attributes:
        name: its key.
        many: it is a list of strings, not one string.
        is_path: it names a file, relative to the folder of the file that sets it.
        help: what it is.
    """

    name: str
    is_list: bool
    is_path: bool
    help: str


ALL_SETTINGS: tuple[Setting, ...] = (
    Setting("select", True, False, "rules to report, by prefixes of their codes"),
    Setting("ignore", True, False, "rules not to report"),
    Setting("target", False, False, "target that modules are compiled for: trn1, trn2, trn3"),
    Setting("nki", False, False, "version of NKI whose rules hold for kernels: 0.6, 0.7"),
    Setting("baseline", False, True, "the file of known findings"),
    Setting("build_cache", False, False, "store of NEFFs: a folder, s3://BUCKET/PREFIX, gs://..."),
    Setting("build_cache_size", False, False, "how much cache gc keeps, 10GiB for instance"),
    Setting("build_cache_age", False, False, "how long cache gc keeps what is not used, 30d"),
)


@dataclass(frozen=True, slots=True)
class Value:
    """A setting's value and where it came from (a file, a variable, a flag, ``default``)."""

    value: str | list[str]
    origin: str


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings in effect, by name."""

    values: Mapping[str, Value]

    def text(self, name: str) -> str:
        """A setting with one text; "" when it is not set."""
        value = self.values[name].value
        assert isinstance(value, str)
        return value

    def words(self, name: str) -> tuple[str, ...]:
        """A setting with a list."""
        return tuple(self.values[name].value)


def read_configuration(
    flags: Mapping[str, str | Sequence[str] | None] | None = None,
) -> Configuration:
    """The settings for this run.

    Args:
        flags: values from the command line by name; empty ones were not given.

    Raises:
        HloError: the file is not TOML, or has an unknown key or an invalid value
            (HLO-CONFIGURATION).
    """
    folder, table, origin = _table()
    values: dict[str, Value] = {}
    for setting in ALL_SETTINGS:
        flag = (flags or {}).get(setting.name)
        variable = _PREFIX + setting.name.upper()
        if flag:
            value = Value(_of_words(setting, flag), f"--{setting.name}")
        elif os.environ.get(variable):
            value = Value(_of_words(setting, os.environ[variable]), variable)
        elif setting.name in table:
            value = Value(_checked(setting, table[setting.name], origin, folder), origin)
        else:
            value = Value([] if setting.is_list else "", "default")
        if setting.name == "target" and value.value and not flag:
            _check_target(str(value.value), value.origin)
        if setting.name == "nki":
            _check_version(str(value.value), value.origin)
        values[setting.name] = value
    return Configuration(values)


def _of_words(setting: Setting, text: str | Sequence[str]) -> str | list[str]:
    """A flag's or a variable's value; lists are split at commas."""
    texts = [text] if isinstance(text, str) else text
    if not setting.is_list:
        return texts[0]
    return [word.strip() for text in texts for word in text.split(",") if word.strip()]


def _table() -> tuple[Path, dict[str, object], str]:
    """(folder, settings, name) of the nearest file that has some."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        file = folder / _FILE
        if file.exists():
            return folder, _known(_read(file), file), _FILE
        project = folder / _PROJECT
        if project.exists():
            tools = _read(project).get("tool")
            table = cast(dict[str, object], tools).get(_TABLE) if isinstance(tools, dict) else None
            if table is not None:
                return folder, _known(table, project), _PROJECT
    return here, {}, ""


def _read(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(read_plain(path, MAX_RECORD_BYTES).decode())
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise _wrong(path.name, f"it cannot be read as TOML: {reason}") from error


def _known(table: object, path: Path) -> dict[str, object]:
    names = [setting.name for setting in ALL_SETTINGS]
    if not isinstance(table, dict):
        raise _wrong(path.name, f"{_TABLE} is not a table")
    settings = cast(dict[str, object], table)
    for name in settings:
        if name not in names:
            near = did_you_mean(name, names)
            raise _wrong(
                path.name, f"there is no setting {name!r}; {near}there are {', '.join(names)}"
            )
    return settings


def _checked(setting: Setting, value: object, origin: str, folder: Path) -> str | list[str]:
    if setting.is_list:
        words = cast(list[object], value) if isinstance(value, list) else [None]
        texts = [word for word in words if isinstance(word, str)]
        if len(texts) != len(words):
            raise _wrong(origin, f"{setting.name} is {value!r}, not a list of texts")
        return texts
    if not isinstance(value, str):
        raise _wrong(origin, f"{setting.name} is {value!r}, not a text")
    return os.path.relpath(folder / value) if setting.is_path and value else value


def _check_target(name: str, origin: str) -> None:
    try:
        target_of(name)
    except NkiError as error:
        raise _wrong(origin, f"target: {error.message}; {error.remedy}") from error


def _check_version(version: str, origin: str) -> None:
    if version not in ("", *VERSIONS):
        raise _wrong(origin, f"nki is {version!r}; versions with rules are {', '.join(VERSIONS)}")


def _wrong(location: str, reason: str) -> HloError:
    return HloError(
        f"the configuration cannot be used: {reason}",
        code="HLO-CONFIGURATION",
        place=location,
        remedy="nki-hlo config shows the settings in effect",
    )
