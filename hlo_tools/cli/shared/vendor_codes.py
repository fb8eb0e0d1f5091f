"""Codes of the vendor's compiler beyond those of lint: reported in public, or unknown.

``codes/vendor/compiler.toml`` has the reported ones, ``stages.toml`` the parts of the compiler. A
code of neither is explained by its form, and never by another code.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files

from hlo_tools.cli.shared.code import Code

__all__ = ["is_vendors", "vendor_code", "vendor_codes"]

_CODE = re.compile(r"\bNCC_([EI]?)([A-Z]+?)(\d{3})\b|\b(F\d{3})\b|\b([A-Z]{3,4})(\d{3})\b")
"""A code; the signal of a killed compiler; a code of older versions, such as ``TEN404``."""
_PREFIX = "NCC_"
_FAMILY = re.compile(r"NCC_[A-Z]*|F\d{0,3}")
_NEXT = (
    "nki-hlo lint finds what depends on the graph alone; nki-hlo reduce finds the smallest module "
    "that still shows the error, nki-hlo slice a part of it"
)


def is_vendors(text: str) -> bool:
    """Return True for a code of the vendor's compiler, or the beginning of one."""
    return text.upper().startswith(_PREFIX) or _FAMILY.fullmatch(text.upper()) is not None


@cache
def vendor_codes() -> dict[str, Code]:
    """The reported codes, in order."""
    rows = tomllib.loads(_file("compiler.toml"))
    return {code: Code(code, **row) for code, row in sorted(rows.items())}


def vendor_code(text: str) -> Code | None:
    """Return the first code of the vendor's compiler in a text; None without one.

    A code that nobody reported has the explanation of its form.
    """
    for match in _CODE.finditer(text.upper()):
        initial, letters, number, signal, old_letters, old_number = match.groups()
        if signal:
            name = signal
        elif letters:
            name = f"{_PREFIX}{initial}{letters}{number}"
        elif old_letters in _stages():
            name = f"{_PREFIX}I{old_letters}{old_number}"
        else:
            continue
        return vendor_codes().get(name) or _unreported(name, initial or "I", letters or old_letters)
    return None


def _unreported(name: str, initial: str, letters: str | None) -> Code:
    """The explanation of a code by its form."""
    stage = _stages().get(letters or "", "")
    by_stage = f", reported by {stage}" if stage else ""
    if not letters:
        why = "F and a number are an exit status of the compiler; above 128, the rest is a signal."
    elif initial == "E":
        why = "E starts the code of an error that the compiler ascribes to the program."
    else:
        why = "I starts the code of an internal error: an assertion of the compiler."
    return Code(
        name, f"an error of the vendor's compiler that is not described here{by_stage}", why, _NEXT
    )


@cache
def _stages() -> dict[str, str]:
    """Letters of codes -> the part of the compiler."""
    return tomllib.loads(_file("stages.toml"))


def _file(name: str) -> str:
    return files("hlo_tools").joinpath("codes", "vendor", name).read_text("utf-8")
