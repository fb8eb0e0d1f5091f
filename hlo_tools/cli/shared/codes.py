"""Every code that the three packages report: what it means and what to do.

Errors and findings that no rule stands behind are described in ``codes/*.toml`` beside the package
that raises them. Rules (lint, verify, the strict subset, what is not compiled, advice) explain themselves.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from importlib.resources import files

from hlo_tools.cli.shared.code import Code
from hlo_tools.cli.shared.vendor_codes import is_vendors, vendor_code, vendor_codes
from nki_lang.base.services import service

__all__ = ["Code", "beginning_with", "closer", "codes", "find", "near", "written_down"]

_PACKAGES = ("nki_lang", "hlo_tools", "neff")
_RUNNING = "NEFF-EXEC-"
"""A fault of the kernel language while a NEFF runs has its own code behind this."""


def written_down(package: str) -> dict[str, Code]:
    """The codes that a package describes in its folder ``codes``."""
    folder = files(package).joinpath("codes")
    codes_by_name: dict[str, Code] = {}
    for file in sorted(folder.iterdir(), key=lambda path: path.name):
        if file.name.endswith(".toml"):
            rows = tomllib.loads(file.read_text("utf-8"))
            codes_by_name |= {code: Code(code, row.pop("title"), row.pop("why", ""), **row)
                      for code, row in rows.items()}  # fmt: skip
    return codes_by_name


@cache
def codes() -> dict[str, Code]:
    """Every code, rules of other packages included, by family.

    Raises:
        HloError: a lint rule of another package cannot be used.
    """
    return dict(sorted(({code.code: code for code in _of_rules()} | _described()).items()))


def find(text: str) -> Code | None:
    """The code that is named, also within a whole line of output; None for no code."""
    words = re.findall(r"[A-Z]+[-_][A-Z0-9_-]*[A-Z0-9]", text.upper())
    for table in (_described, codes):  # the rules take longer to import
        for word in words:
            code = table().get(word) or table().get(word.replace(_RUNNING, "NKI-"))
            if code is not None:
                return replace(code, code=word)
    return vendor_code(text)


def beginning_with(text: str) -> dict[str, Code]:
    """The codes of a family such as ``NKI-FILE``, ``NEFF-`` or ``ncc_evrf``."""
    table = {**codes(), **vendor_codes()} if is_vendors(text) else codes()
    return {code: entry for code, entry in table.items() if code.startswith(text.upper())}


def closer(code: str) -> list[str]:
    """The codes that add a word to this one."""
    return [longer for longer in _described() if longer.startswith(f"{code}-")]


def near(text: str) -> list[str]:
    """Return codes of the same family that are spelled almost like this.

    The family (``NKI-``) is not compared: it would make any two of its codes look alike. The
    vendor's codes are numbers, so similar ones are unrelated.
    """
    if is_vendors(text):
        return []
    family = text.upper().partition("-")[0] + "-"
    endings = {code.removeprefix(family): code for code in codes() if code.startswith(family)}
    matches = get_close_matches(text.upper().removeprefix(family), endings, 3)
    return [endings[ending] for ending in matches]


@cache
def _described() -> dict[str, Code]:
    return {code: entry for package in _PACKAGES for code, entry in written_down(package).items()}


def _of_rules() -> Iterator[Code]:
    from hlo_tools.lint import registered_rules
    from hlo_tools.verify import RULES as VERIFIER
    from nki_lang.strict import RULES as STRICT
    from nki_lang.strict import VERSION_RULES

    for code, rule in registered_rules().items():
        command = "nki-hlo lint" if rule.check is not None else ""
        yield Code(code, rule.title, rule.why, rule.remedy, rule.severity.value, command,
                   rule.targets, rule.origin)  # fmt: skip
    for code, rule in VERIFIER.items():
        yield Code(code, rule.title, rule.why, "", command="nki-hlo verify")
    for refusal, rules in (
        ("not in the strict subset", STRICT),
        ("refused by a version of NKI", VERSION_RULES),
    ):
        for rule in rules.values():
            yield Code(
                f"NKI-STRICT-{rule.code}", f"{refusal}: {_general(rule.what)}",
                _general(rule.why), _general(rule.instead), "warning" if rule.warning else "error",
                "nki-hlo check",
            )  # fmt: skip
    for code, kind in service("compiler-refusals").items():
        why = f"HLO: {', '.join(sorted(kind.opcodes))}." if kind.opcodes else ""
        yield Code(code, f"not compiled: {kind.what}", why, kind.remedy, command="nki-neff build")
    for code, rule in service("advice-rules").items():
        yield Code(code, rule.title, rule.why, rule.remedy, "advice", "nki-neff profile")


def _general(text: str) -> str:
    return text.replace("{}", "...")
