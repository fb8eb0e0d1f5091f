"""The golden cases of lint rules: modules, and what is found in them.

``golden/GROUP/CODE.hlo`` holds cases between lines ``// -----``; a case is a line
``// -t TARGET``, a module, a line ``// finds``, and the findings or ``nothing``. The first case
breaks the rule; the last comes close to it and is fine. Only the rule of the file runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import hlo_tools
from hlo_tools import Module
from hlo_tools.lint import RULES, lint
from hlo_tools.passes import SEPARATOR

__all__ = ["FILES", "Case", "broken", "codes", "load", "module", "read"]

GOLDEN = Path(__file__).parent / "golden"
FILES = {file.stem: file for file in sorted(GOLDEN.rglob("*.hlo"))}
"""Rule code -> its file."""
FINDS = "// finds"


@dataclass(frozen=True, slots=True)
class Case:
    """A module, and the findings of one rule on it."""

    code: str
    target: str
    text: str

    def findings(self) -> str:
        findings = lint(load(self.text), target=self.target, rules=[RULES[self.code]])
        texts = [f"{finding}\n  help: {finding.remedy}" for finding in findings]
        return "\n".join(texts) or "nothing"

    def __str__(self) -> str:
        return f"// -t {self.target}\n{self.text}\n{FINDS}\n{self.findings()}\n"


def read(code: str) -> list[Case]:
    """The cases of a rule."""
    cases = []
    for case in FILES[code].read_text().split(SEPARATOR + "\n"):
        head, _, tail = case.strip().partition("\n")
        assert head.startswith("// -t "), head
        cases.append(Case(code, head.removeprefix("// -t "), tail.partition(FINDS)[0].strip()))
    return cases


def broken(code: str) -> tuple[str, str]:
    """Target and text of the module that breaks a rule."""
    first = read(code)[0]
    return first.target, first.text


def module(body: str, *, before: str = "") -> str:
    """HLO text with an entry; ``before`` holds other computations."""
    return f"HloModule m\n{before}\nENTRY main {{\n{body}\n}}\n"


def load(text: str) -> Module:
    return hlo_tools.load(text.encode())


def codes(text: str, target: str) -> list[str]:
    """The codes of what is found."""
    return [finding.code for finding in lint(load(text), target=target)]
