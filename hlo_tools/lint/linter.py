"""Linting a module: every rule that is asked for, on a graph whose references hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hlo_tools._messages import did_you_mean
from hlo_tools.errors import HloError
from hlo_tools.ir.module import Module
from hlo_tools.lint.registry import registered_rules
from hlo_tools.lint.rule import Check, Graph, Hit, LintRule
from hlo_tools.plugins import BUILTIN_ORIGIN
from hlo_tools.verify import Finding, Severity, verify
from nki_lang.base.targets import Target, current_target, target_of

__all__ = ["lint", "selected"]

_VERIFIED = "NCC_EVRF064"

_UNREADABLE = frozenset(
    {f"HLO-V{number:03}" for number in (*range(1, 14), 19, 20, 23, 24, 25)} - {"HLO-V004"}
)
"""Rules of the verifier without which operands and attributes cannot be checked."""


def selected(
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    rules: Mapping[str, LintRule] | None = None,
) -> list[LintRule]:
    """The rules whose code begins with one of ``select`` (all without any) and none of ``ignore``.

    Args:
        rules: code -> rule, of which to select; by default all that are registered.

    Raises:
        HloError: a prefix fits no rule (HLO-RULE).
    """
    available = registered_rules() if rules is None else rules
    for prefix in (*select, *ignore):
        if not any(code.startswith(prefix.upper()) for code in available):
            raise HloError(
                f"no rule begins with {prefix!r}",
                code="HLO-RULE",
                remedy=f"{did_you_mean(prefix.upper(), available)}nki-hlo explain lists the codes",
            )
    prefixes = tuple(prefix.upper() for prefix in select) or ("",)
    unwanted = tuple(prefix.upper() for prefix in ignore)
    return [
        rule
        for code, rule in available.items()
        if code.startswith(prefixes) and not (unwanted and code.startswith(unwanted))
    ]


def lint(
    module: Module,
    *,
    target: Target | str | None = None,
    rules: Sequence[LintRule] | None = None,
    root: Path | None = None,
) -> list[Finding]:
    """Return the findings that the compiler would refuse, in the order of rules and instructions.

    Args:
        module: the module.
        target: what it is compiled for; by default as everywhere (:func:`current_target`).
        rules: those to look at; all by default.
        root: folder that relative paths of kernel files start from; that of the module's file
            where it is not given.

    Raises:
        NkiValidationError: there is no such target.
        HloError: a rule of another package fails (HLO-RULE-BROKEN).
    """
    chosen = _target(target)
    problems = verify(module)
    selected_rules = list(registered_rules().values() if rules is None else rules)
    if any(problem.code in _UNREADABLE for problem in problems):
        return list(_verifier_findings(problems, module)) if _named(selected_rules) else []
    graph = Graph(module, chosen, root or module.folder, tuple(problems))
    findings: list[Finding] = []
    for rule in selected_rules:
        if rule.code == _VERIFIED:
            findings += _verifier_findings(problems, module)
        elif rule.check is not None and rule.applies_to(chosen):
            findings += [_finding(rule, hit, module) for hit in _hits(rule, rule.check, graph)]
    return findings


def _hits(rule: LintRule, check: Check, graph: Graph) -> list[Hit]:
    try:
        return list(check(graph))
    except Exception as error:
        if rule.origin == BUILTIN_ORIGIN:
            raise
        raise HloError(
            f"the rule {rule.code} of {rule.origin} fails: {type(error).__name__}: {error}",
            code="HLO-RULE-BROKEN",
            place=graph.module.path,
            remedy=f"fix it, or skip it: --ignore {rule.code}",
        ) from error


def _target(target: Target | str | None) -> Target:
    if target is None:
        return current_target()
    return target_of(target) if isinstance(target, str) else target


def _named(rules: Sequence[LintRule]) -> bool:
    return any(rule.code == _VERIFIED for rule in rules)


def _verifier_findings(problems: Sequence[Finding], module: Module) -> Iterator[Finding]:
    """Yield the verifier's errors under the compiler's code, at their locations."""
    rule = registered_rules()[_VERIFIED]
    for problem in problems:
        if problem.severity is Severity.error:
            message = f"[{problem.code}] {problem.message}"
            yield replace(
                problem, code=_VERIFIED, message=message, remedy=rule.remedy, file=module.path
            )


def _finding(rule: LintRule, hit: Hit, module: Module) -> Finding:
    view = hit.at
    source = ""
    if view is not None:
        try:
            location = view.source
        except (HloError, IndexError):
            location = None
        source = str(location) if location is not None else ""
    return Finding(
        rule.code,
        hit.message,
        hit.severity or rule.severity,
        computation=view.computation.name if view is not None else "",
        instruction=view.name if view is not None else "",
        source=source,
        file=module.path,
        remedy=rule.remedy,
    )
