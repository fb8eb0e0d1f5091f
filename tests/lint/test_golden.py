"""Each rule on a module that breaks it and on one that comes close, as text."""

from __future__ import annotations

import pytest

from hlo_tools.lint import RULES
from hlo_tools.lint.table import _FAMILIES
from hlo_tools.passes import SEPARATOR
from tests.lint.cases import FILES, broken, codes, read

NO_GRAPH_SHOWS = {
    "NCC_EBIR023", "NCC_EBVF030", "NCC_EHCA005", "NCC_EOOM001", "NCC_EOOM002", "NCC_EVRF007",
    "NCC_EXSP001", "NCC_EXTP004",
}  # fmt: skip
ON_KERNELS = {
    "NCC_EARG001", "NCC_EVRF059", "NCC_EVRF065", "NCC_EVRF066", "HLO-L001", "HLO-L002", "HLO-L003", "HLO-L004",
    "HLO-L005", "HLO-L006",
}  # fmt: skip
"""Rules on the kernel file behind a call; test_kernel_files.py breaks each."""
AFTER_TRN3 = {"NCC_EVRF052"}
"""Rules of no target that there is; test_element_types.py makes one."""


@pytest.mark.parametrize("code", FILES)
def test_findings(code: str, update_golden: bool) -> None:
    text = f"\n{SEPARATOR}\n".join(map(str, read(code)))
    if update_golden:
        FILES[code].write_text(text)
    assert text == FILES[code].read_text()


@pytest.mark.parametrize("code", FILES)
def test_a_module_breaks_the_rule_and_a_close_one_is_fine(code: str) -> None:
    first, *_, last = read(code)
    assert {line.partition("]")[0] for line in first.findings().splitlines()[::2]} <= {
        f"{severity}[{code}" for severity in ("error", "warning", "note")
    }
    assert first.findings() != "nothing"
    assert last.findings() == "nothing"


@pytest.mark.parametrize("code", FILES)
def test_all_rules_together_report_the_same(code: str) -> None:
    target, text = broken(code)
    assert code in codes(text, target)


def test_every_rule_has_a_file_in_the_folder_of_its_group() -> None:
    groups = {
        rule.code: family.__name__.rpartition(".")[2]
        for family in _FAMILIES
        for rule in family.RULES
    }
    expected = set(RULES) - ON_KERNELS - AFTER_TRN3 - NO_GRAPH_SHOWS
    assert {code: file.parent.name for code, file in FILES.items()} == {
        code: groups[code] for code in expected
    }
    assert {code for code, rule in RULES.items() if rule.check is None} == NO_GRAPH_SHOWS
