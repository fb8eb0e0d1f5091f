"""The public names: none appears, changes or goes unnoticed, and each says what it takes."""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_origin

import numpy as np
import pytest

from scripts.reference.surface import MODULES, lines, members, public

DUMP = Path(__file__).parent / "golden" / "api.txt"


def test_the_public_names_are_those_of_the_dump(update_golden: bool) -> None:
    dump = "".join(f"{line}\n" for line in lines())
    if update_golden:
        DUMP.write_text(dump)
    assert dump.splitlines() == DUMP.read_text().splitlines(), "--update renews it: review the diff"


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_says_what_it_takes(module: str) -> None:
    missing = [text for name, value in public(module) for text in unsaid(name, value)]
    assert not missing, "\n".join(missing)


def unsaid(name: str, value: Any) -> Iterator[str]:
    """Parameters that the documentation of a name does not mention."""
    if not callable(value) or get_origin(value) is not None:  # a name of a type has no __doc__
        return
    documentation = inspect.getdoc(value) or ""
    if not documentation:
        yield f"{name} has no docstring"
    if isinstance(value, type):
        if issubclass(value, (enum.Enum, BaseException)):
            return  # the fields of errors are told by their root
        for member, what in members(value):
            if not inspect.getdoc(what) and not hasattr(np.ndarray, member):
                yield f"{name}.{member} has no docstring"
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return
    for parameter in parameters:
        if (
            parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            or parameter.name == "self"
            or parameter.name[0] == "_"
        ):
            continue
        if not re.search(rf"\b{parameter.name}\b", documentation):
            yield f"{name}: nothing is said of {parameter.name}"
