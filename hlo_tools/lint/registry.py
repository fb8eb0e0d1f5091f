"""The registry of lint rules: this package's table, and entry points of other packages.

A package adds rules with the entry point group ``nki_hlo.rules``; the value is a
:class:`~hlo_tools.lint.LintRule` or a list of them, the entry's name is only for people::

    [project.entry-points."nki_hlo.rules"]
    my-rules = "my_package.rules:RULES"

Two rules of one code are an error, whoever they come from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from hlo_tools.errors import HloError
from hlo_tools.lint.rule import LintRule
from hlo_tools.lint.table import RULES
from hlo_tools.plugins import Plugin, plugins
from hlo_tools.verify import RULES as VERIFIER

__all__ = ["GROUP", "joined", "registered_rules", "rules_of"]

GROUP = "nki_hlo.rules"
_CODE = re.compile(r"[A-Z][A-Z0-9]*([-_][A-Z0-9]+)*")


@cache
def registered_rules() -> dict[str, LintRule]:
    """Return every rule by code: first this package's, then plug-ins.

    Raises:
        HloError: one cannot be used (HLO-RULE-BROKEN), or two have one code (HLO-RULE-CLASH).
    """
    rules = dict(RULES)
    for plugin in plugins(GROUP):
        rules = joined(rules, rules_of(_imported(plugin), f"{plugin.value} of {plugin.origin}"),
                       plugin.origin)  # fmt: skip
    return rules


def joined(
    registered: dict[str, LintRule], more: Iterable[LintRule], origin: str
) -> dict[str, LintRule]:
    """Return ``registered`` joined with rules that come from ``origin``.

    Raises:
        HloError: a code is there already (HLO-RULE-CLASH).
    """
    rules = dict(registered)
    for rule in more:
        if rule.code in rules or rule.code in VERIFIER:
            first_origin = rules[rule.code].origin if rule.code in rules else "nki-hlo verify"
            raise HloError(
                f"two rules have the code {rule.code}: one of {first_origin}, one of {origin}",
                code="HLO-RULE-CLASH",
                remedy="rename one, with a prefix of your own",
            )
        rules[rule.code] = replace(rule, origin=origin)
    return rules


def rules_of(value: object, location: str) -> list[LintRule]:
    """The rules that an object is, or holds.

    Raises:
        HloError: it is something else (HLO-RULE-BROKEN).
    """
    rules = [value] if isinstance(value, LintRule) else list(_members(value, location))
    for rule in rules:
        if not isinstance(rule, LintRule):
            raise _broken(location, f"holds {type(rule).__name__}, not a LintRule")
        if not _CODE.fullmatch(rule.code):
            raise _broken(location, f"has the code {rule.code!r}; write capitals, as in TEAM-001")
    return rules


def _members(value: object, location: str) -> Iterator[Any]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise _broken(location, f"is {type(value).__name__}, not a LintRule or a list of them")
    yield from value.values() if isinstance(value, dict) else value


def _imported(plugin: Plugin) -> Any:
    try:
        return plugin.get()
    except Exception as error:  # another package's import may fail in any way
        location = f"{plugin.value} of {plugin.origin}"
        raise _broken(location, f"cannot be imported: {error}") from error


def _broken(location: str, reason: str) -> HloError:
    return HloError(f"{location} {reason}", code="HLO-RULE-BROKEN", remedy="fix it, or remove it")
