"""The rules of one version of NKI: each on code that breaks it and on what it advises."""

from pathlib import Path

import pytest

import nki_lang.collectives as ncc
import nki_lang.isa as nisa
import nki_lang.language as nl
from hlo_tools.cli import main
from nki_lang.base.errors import NkiValidationError
from nki_lang.strict import SYMBOLS, VERSION_RULES, check_file

HEAD = """\
import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
from nki.language import dynamic_range as device_loop
"""

BODIES = [
    ("0.7", "REMOVED", "for i in nl.dynamic_range(4):\n    pass", "nl.fori_loop(0, 4, body)"),
    ("0.7", "REMOVED", "for i in device_loop(4):\n    pass", "for i in range(4):\n    pass"),
    ("0.6", "DEPRECATED", "for i in nl.dynamic_range(4):\n    pass", "nl.fori_loop(0, 4, a)"),
    ("0.7", "DEPRECATED", "for i in nl.affine_range(4):\n    pass", "for i in range(4):\n    pass"),
    ("0.6", "NEWER", "t = nl.tiles(a, tile_shape=(1, 1))", "t = a[0:1, 0:1]"),
    ("0.6", "NEWER", "s = nisa.scalar_load(a)", "s = nisa.register_alloc(a)"),
    ("0.7", "WHILE-REGISTER", "r = nisa.register_alloc(3)\nwhile r:\n    pass", "r = 3\nwhile r:\n    r -= 1"),
    ("0.7", "TILE-ASSIGN", "t = nl.zeros((4, 4), nl.float32)\nt[:, 0:2] = 1.0", "t = [1, 2]\nt[0] = 3"),
    ("0.6", "TILE-ASSIGN", "t = nl.load(a)\nt[0:1, :] = a", "t = {}\nt['a'] = a"),
]  # fmt: skip


def codes(folder: Path, body: str, version: str) -> list[str]:
    path = folder / "kernels.py"
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    path.write_text(f"{HEAD}@nki.jit\ndef kernel(a):\n{lines}")
    return [entry.code.removeprefix("NKI-STRICT-") for entry in check_file(path, version=version)]


@pytest.mark.parametrize(("version", "code", "broken", "advised"), BODIES)
def test_rules_of_a_version(tmp_path, version, code, broken, advised):
    assert codes(tmp_path, broken, version) == [code]
    assert codes(tmp_path, advised, version) == []


def test_every_rule_of_a_version_has_a_case():
    assert {code for _, code, _, _ in BODIES} == set(VERSION_RULES)


def test_any_python_is_accepted_by_the_version_that_traces(tmp_path):
    body = "f = lambda x: x\ntry:\n    y = [f(i) for i in range(2)]\nfinally:\n    y = {1, 2}"
    assert codes(tmp_path, body, "0.7") == []
    assert set(codes(tmp_path, body, "0.6")) == {"LAMBDA", "TRY", "COMPREHENSION", "SET"}


def test_unknown_versions_are_refused(tmp_path):
    with pytest.raises(NkiValidationError, match=r"0\.6, 0\.7") as caught:
        codes(tmp_path, "pass", "0.8")
    assert caught.value.code == "NKI-VERSION"


def test_names_of_the_table_exist():
    modules = {"nki.language": nl, "nki.isa": nisa, "nki.collectives": ncc}
    for name in SYMBOLS:
        module, _, attribute = name.rpartition(".")
        assert module == "nki.compiler" or hasattr(modules[module], attribute), name


def test_the_command_lints_for_a_version(tmp_path, capsys):
    path = tmp_path / "kernels.py"
    path.write_text(
        f"{HEAD}@nki.jit\ndef kernel(a):\n    for i in nl.dynamic_range(4):\n        pass\n"
    )
    assert main(["check", str(path), "--nki", "0.7"]) == 1
    text = capsys.readouterr().out
    assert "kernels.py:8" in text and "nl.fori_loop" in text and "NKI-STRICT-REMOVED" in text
    assert main(["check", str(path), "--nki", "0.6"]) == 0
    assert main(["check", str(path), "--nki", "0.9"]) == 2
