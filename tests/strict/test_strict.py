"""The strict subset: each rule on code that breaks it and on the code that it advises."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nki_lang.base.errors import NkiFileError, NkiValidationError
from nki_lang.strict import RULES, check_file, check_kernel

HEAD = """\
import math
import neuronxcc.nki.typing
from dataclasses import dataclass
from enum import Enum
import nki
import nki.isa as nisa
import nki.language as nl
from nki.language import NKIObject
"""


def codes(folder: Path, body: str, head: str = "def kernel(a):") -> list[str]:
    """Codes of what is found in a kernel with this body."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    path = folder / "kernels.py"
    path.write_text(f"{HEAD}@nki.jit\n{head}\n{lines}")
    return [finding.code.removeprefix("NKI-STRICT-") for finding in check_file(path)]


BODIES = [
    ("RAISE", "raise ValueError('no')", "assert a.shape[0] == 1, 'no'"),
    ("TRY", "try:\n    x = 1\nfinally:\n    x = 2", "x = 1"),
    ("COMPREHENSION", "x = [i for i in range(2)]", "x = []\nfor i in range(2):\n    x.append(i)"),
    ("COMPREHENSION", "x = max(i for i in range(2))", "x = max([0, 1])"),
    ("COMPREHENSION", "x = {'a': i for i in range(2)}", "x = {'a': 1}"),
    ("LAMBDA", "f = lambda x: x", "f = nl.exp"),
    ("YIELD", "yield a", "return a"),
    ("MATCH", "match a:\n    case 1:\n        pass", "if a == 1:\n    pass"),
    ("DEL", "x = 1\ndel x", "x = {'a': 1}\nx.pop('a')"),
    ("GLOBAL", "global N\nN = 1", "N = 1"),
    ("IMPORT", "import numpy as np", "x = math.pi"),
    ("WALRUS", "if (x := 1):\n    pass", "x = 1\nif x:\n    pass"),
    ("NESTED-DEF", "def inner(x):\n    return x", "x = a"),
    ("NESTED-DEF", "class Inner:\n    pass", "x = a"),
    ("SET", "x = {1, 2}", "x = (1, 2)"),
    ("STARRED", "x = max(*a.shape)", "x = max(a.shape[0], a.shape[1])"),
    ("STARRED", "x = (*a.shape, 1)", "x = a.shape + (1,)"),
    ("KEYWORD-EXPANSION", "x = dict(**a)", "x = dict()"),
    ("LOOP-ELSE", "for i in range(2):\n    pass\nelse:\n    pass", "for i in range(2):\n    pass"),
    ("LOOP-ELSE", "while False:\n    pass\nelse:\n    pass", "while False:\n    pass"),
    ("WITH", "with nl.no_reorder() as x:\n    pass", "with nl.no_reorder():\n    pass"),
    ("WITH", "with open('x'):\n    pass", "with nl.no_reorder():\n    pass"),
    ("WITH", "with nl.other():\n    pass", "with nl.no_reorder():\n    pass"),
    ("ELLIPSIS", "x = ...", "x = a[..., 0]"),
    ("ELLIPSIS", "nisa.memset(a, ...)", "x = a[...]\n..."),
    ("INTEGER", "x = 4294967296", "x = 4294967295"),
    ("ASSIGN-TARGET", "a.x, y = 1, 2", "x, y = 1, 2\na.x = x"),
    ("ASSIGN-TARGET", "(x, (a[0], y)) = 1, (2, 3)", "(x, (z, y)) = 1, (2, 3)"),
    ("ASSIGN-TARGET", "[x, a.y] = 1, 2", "[x, y] = 1, 2"),
    ("ASSIGN-TARGET", "a.x = a[0] = 1", "a.x = y = z = 1"),
    ("OLD-API", "x = neuronxcc.nki.language.exp(a)", "x: neuronxcc.nki.typing.tensor = nl.exp(a)"),
    ("MATMUL", "x = a @ a", "x = a * 2"),
    ("IDENTITY", "x = a is True", "x = a == True"),
    ("IDENTITY", "x = a is not True", "x = a is not None and a is not None"),
    ("CHAINED-IN", "x = 1 < a in (2, 3)", "x = 1 < a and a in (2, 3)"),
    ("DICT-KEY", "x = {1: 2}", "x = {'1': 2}"),
    ("DICT-KEY", "x = {a: 2}", "x = {}\nx[a] = 2"),
    (
        "BUFFER-NAME",
        "x = nl.zeros((1, 1), nl.int32, 'psum')",
        "x = nl.zeros((1, 1), nl.int32, nl.psum)",
    ),
    ("CONSTANT", "x = b'bytes'", "x = 'text'"),
    ("LOOP-TARGET", "for i, j in [(1, 2)]:\n    pass", "for x in [(1, 2)]:\n    i, j = x"),
    ("BUILTIN", "x = sum([1, 2])", "x = min([1, 2])"),
    (
        "BUILTIN",
        "for x in enumerate(a.shape):\n    pass",
        "for x in range(len(a.shape)):\n    pass",
    ),
    ("FORMAT-SPEC", "print(f'{a:.3f}')", "print(f'{a!r} {a}')"),
    (
        "DYNAMIC-EXIT",
        "for i in nl.dynamic_range(4):\n    if a:\n        break",
        "for i in range(4):\n    if a:\n        break",
    ),
    (
        "DYNAMIC-EXIT",
        "reg = nisa.register_alloc(1)\nwhile reg:\n    return a",
        "n = 3\nwhile n:\n    return a",
    ),
    ("DYNAMIC-EXIT", "for i in nl.dynamic_range(4):\n    continue", "continued = 1"),
    (
        "BUFFER-NAME",
        "x = nl.ndarray((1, 1), dtype=nl.int32, buffer='sbuf')",
        "x = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)",
    ),
    (
        "INTEGER-ENUM",
        "nisa.dma_copy(dst=a, src=a, oob_mode=1)",
        "nisa.dma_copy(dst=a, src=a, oob_mode=nisa.oob_mode.skip)",
    ),
]


@pytest.mark.parametrize(("code", "wrong", "right"), BODIES)
def test_rule(tmp_path: Path, code: str, wrong: str, right: str) -> None:
    body = codes(tmp_path, wrong)
    assert code in body
    assert codes(tmp_path, right) == []


HEADS = [
    ("VARARGS", "def kernel(*a):", "def kernel(a):"),
    ("KWARGS", "def kernel(**a):", "def kernel(a):"),
    ("KEYWORD-ONLY", "def kernel(a, *, b=1):", "def kernel(a, b=1):"),
    ("LIST-DEFAULT", "def kernel(a, b=[1]):", "def kernel(a, b=(1,)):"),
    ("DECORATOR", "@math.cache\ndef kernel(a):", "def kernel(a):"),
]


@pytest.mark.parametrize(("code", "wrong", "right"), HEADS)
def test_signature_rule(tmp_path: Path, code: str, wrong: str, right: str) -> None:
    assert codes(tmp_path, "return a", wrong) == [code]
    assert codes(tmp_path, "return a", right) == []


CLASSES = [
    ("BASE", "class C:\n    x: int = 1"),
    ("BASE", "class C(dict):\n    x: int = 1"),
    ("BASE", "class C(NKIObject, metaclass=type):\n    x: int = 1"),
    ("CLASS-BODY", "class C(NKIObject):\n    x: int = 1\n    print(x)"),
    ("CLASS-BODY", "class C(NKIObject):\n    x = y = 1"),
    ("RAISE", "class C(NKIObject):\n    def f(self):\n        raise KeyError"),
    ("", "@dataclass\nclass C(NKIObject):\n    x: int = 1\n    def f(self):\n        self.x = 2"),
    ("", "class C(Enum):\n    'why'\n    x = 1"),
]


@pytest.mark.parametrize(("code", "text"), CLASSES)
def test_classes_that_a_kernel_names(tmp_path: Path, code: str, text: str) -> None:
    path = tmp_path / "kernels.py"
    path.write_text(f"{HEAD}{text}\n@nki.jit\ndef kernel(a):\n    c = C()\n    return a\n")
    codes_told = [finding.code for finding in check_file(path)]
    assert codes_told == ([f"NKI-STRICT-{code}"] if code else [])
    path.write_text(f"{HEAD}{text}\n@nki.jit\ndef kernel(a):\n    return a\n")
    assert check_file(path) == []


def test_every_rule_has_a_test() -> None:
    tested = {row[0] for row in (*BODIES, *HEADS, *CLASSES)} | {"ASYNC", "TYPE-ALIAS"}
    assert set(RULES) == tested - {""}


def test_type_statements(tmp_path: Path) -> None:
    expected = ["TYPE-ALIAS"] if sys.version_info >= (3, 12) else []
    if expected:  # older Pythons cannot parse it
        assert codes(tmp_path, "type T = int") == expected
    assert codes(tmp_path, "type = 1") == []


def test_kernels_of_beta_1(tmp_path: Path) -> None:
    path = tmp_path / "old.py"
    path.write_text(
        "from neuronxcc import nki\nimport neuronxcc.nki.language as nl\n"
        "@nki.jit\ndef kernel(a):\n    x = nl.load(a)\n    return nl.exp(x)\n"
    )
    (finding,) = check_file(path)
    assert (finding.code, finding.line) == ("NKI-STRICT-OLD-API", 3)


def test_async(tmp_path: Path) -> None:
    path = tmp_path / "kernels.py"
    path.write_text(f"{HEAD}async def f():\n    await f()\n@nki.jit\ndef kernel(a):\n    f()\n")
    assert {finding.code for finding in check_file(path)} == {"NKI-STRICT-ASYNC"}


def test_bodies_of_loop_functions_may_be_inside(tmp_path: Path) -> None:
    assert codes(tmp_path, "def body(i):\n    nisa.memset(a, 0)\nnl.fori_loop(0, 4, body)") == []
    inside = "def body(i):\n    raise KeyError\nnl.fori_loop(0, 4, body)"
    assert codes(tmp_path, inside) == ["RAISE"]


def test_own_names_hide_builtins(tmp_path: Path) -> None:
    assert codes(tmp_path, "return sum(a)", "def kernel(a, sum):") == []


def test_what_is_called_in_other_files_is_checked(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("from .deep import helper as assist\n")
    (package / "deep.py").write_text(
        "import torch\n"
        "def helper(a):\n    return other(a)\n"
        "def other(a):\n    del a\n"
        "def host(a):\n    raise ValueError\n"
    )
    path = tmp_path / "kernels.py"
    path.write_text(
        f"{HEAD}import package\nfrom package import deep as d\n"
        "@nki.jit\ndef kernel(a):\n    package.assist(a)\n    return d.other(a)\n"
    )
    (finding,) = check_file(path)
    assert finding.code == "NKI-STRICT-DEL"
    assert (Path(finding.file).name, finding.line, finding.function) == ("deep.py", 5, "other")


def test_place_and_text(tmp_path: Path) -> None:
    path = tmp_path / "kernels.py"
    path.write_text(f"{HEAD}@nki.jit\ndef kernel(a):\n    x = a is True\n    return a\n")
    (finding,) = check_file(path)
    assert (finding.line, finding.column, finding.severity) == (11, 9, "warning")
    assert str(finding) == (
        f"{path}:11:9: warning[NKI-STRICT-IDENTITY] 'is' in kernel: values have no identity; it is"
        " read as '=='\n  help: write '=='"
    )


def test_named_functions(tmp_path: Path) -> None:
    path = tmp_path / "kernels.py"
    path.write_text(f"{HEAD}def plain(a):\n    del a\n")
    with pytest.raises(NkiValidationError, match=r"NKI-STRICT-NO-KERNEL.*has no kernel"):
        check_file(path)
    assert len(check_file(path, ["plain"])) == 1
    with pytest.raises(NkiValidationError, match="no function 'other'"):
        check_file(path, ["other"])


def test_files_that_are_not_python(tmp_path: Path) -> None:
    with pytest.raises(NkiFileError, match="cannot read"):
        check_file(tmp_path / "absent.py")
    (tmp_path / "broken.py").write_text("def (:\n")
    with pytest.raises(NkiFileError, match=r"broken\.py:1: not Python"):
        check_file(tmp_path / "broken.py")


def nested(a):
    values = [a for _ in range(2)]
    return values[0]


def test_kernel_objects() -> None:
    from nki_lang.kernel import jit

    def clean(a):
        return a

    (finding,) = check_kernel(jit(nested))
    assert finding.code == "NKI-STRICT-COMPREHENSION"
    assert check_kernel(clean) == []


def test_kernels_without_a_file_are_refused() -> None:
    space: dict[str, object] = {}
    exec("def made(a):\n    return a\n", space)
    for what in (space["made"], 3, len):
        with pytest.raises(NkiValidationError, match=r"NKI-STRICT-NO-SOURCE.*not in a file"):
            check_kernel(what)
