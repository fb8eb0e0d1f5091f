"""Every documented name, parameter, default and enumeration member."""

from __future__ import annotations

import enum
import inspect
from pathlib import Path
from typing import Any

import pytest

import nki_lang
import nki_lang.collectives as collectives
import nki_lang.isa as isa
import nki_lang.language as language
from nki_lang.frontend.operators import Operator
from nki_lang.isa.table import TABLE
from tests.nki_lang import documented

ROOT = Path(__file__).resolve().parents[2]
MODULES = {
    "nki": (nki_lang, documented.NKI),
    "nki.language": (language, documented.LANGUAGE),
    "nki.isa": (isa, documented.ISA),
    "nki.collectives": (collectives, documented.COLLECTIVES),
}

FUNCTIONS = [
    pytest.param(module, name, text, id=f"{key}.{name}")
    for key, (module, table) in MODULES.items()
    for name, text in table["functions"].items()
]


def described(function: Any, *, keywords: bool = False) -> str:
    """The parameters as the documented table writes them; other keyword-only extras are ours."""
    parts = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            assert keywords or parameter.default is not parameter.empty
            if not keywords:
                continue
            parts += ["*"] * ("*" not in parts)
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
        text = star.get(parameter.kind, "") + parameter.name
        if parameter.default is not parameter.empty:
            text += f"={_default(parameter.default)}"
        parts.append(text)
    return ", ".join(parts)


def _default(value: Any) -> str:
    if isinstance(value, Operator):
        return value.public
    if isinstance(value, language.MemoryRegion):
        return value.name
    if isinstance(value, enum.Enum):
        owner = {"Engine": "engine"}.get(type(value).__name__, type(value).__name__)
        return f"{owner}.{value.name}"
    return repr(value)


OURS = {
    "on_false_value=-3.4028234663852886e+38": "on_false_value=...",
    "dtype='uint8'": "dtype=uint8",
}


@pytest.mark.parametrize(("module", "name", "text"), FUNCTIONS)
def test_signature(module, name, text):
    signature = described(getattr(module, name), keywords="*, " in text)
    for ours, vendor_text in OURS.items():
        signature = signature.replace(ours, vendor_text)
    assert signature == text


@pytest.mark.parametrize("key", MODULES)
def test_constants_and_classes_exist(key):
    module, table = MODULES[key]
    for name in [*table["constants"], *table["classes"]]:
        assert hasattr(module, name), name
    for name, content in table["classes"].items():
        cls = getattr(module, name)
        for method in content["methods"]:
            assert callable(inspect.getattr_static(cls, method, None)) or isinstance(
                inspect.getattr_static(cls, method), (property, staticmethod)
            ), method


@pytest.mark.parametrize("key", MODULES)
def test_enumeration_members(key):
    module, table = MODULES[key]
    for name, content in table["classes"].items():
        if not content["members"]:
            continue
        cls = getattr(module, name)
        assert {member.name: member.value for member in cls} == content["members"]


def test_tensor_methods_have_the_documented_parameters():
    methods = documented.LANGUAGE["classes"]["NkiTensor"]["methods"]
    for name, text in methods.items():
        if name in ("__init__", "reshape"):  # buffer default; reshape also takes loose extents
            continue
        assert described(getattr(language.NkiTensor, name)) == text, name


def test_all_lists_exactly_the_documented_names():
    for key, (module, table) in MODULES.items():
        if key == "nki":
            continue
        names = {*table["functions"], *table["constants"], *table["classes"]}
        extra = {"barrier"} if key == "nki.isa" else set()
        assert set(module.__all__) == names | extra
    total = sum(
        len(table["functions"]) + len(table["constants"]) + len(table["classes"])
        for _, table in MODULES.values()
    )
    assert f"all {total} public symbols" in (ROOT / "README.md").read_text()


def test_every_row_of_the_table_has_the_operands_of_its_function():
    for op, row in TABLE.items():
        if op in ("register_alu", "device_print"):
            continue
        function = getattr(isa, op) if op in isa.__all__ else getattr(collectives, op)
        names = [p for p in inspect.signature(function).parameters if p not in ("engine", "name")]
        operand_names = [name for name in row.names if name != "dst" or "dst" in names]
        assert operand_names == names, op


def test_nc_version_orders_against_integers():
    assert isa.nc_version.gen3 >= 3 and isa.nc_version.gen2 < isa.nc_version.gen3 <= 4


def test_ndarray_works_as_an_annotation():
    from typing import Optional

    assert list[language.ndarray] and Optional[language.ndarray]  # noqa: UP045


def test_an_unknown_name_suggests_close_ones():
    with pytest.raises(AttributeError, match="tensor_copy"):
        isa.tensor_cpy
    with pytest.raises(AttributeError, match="did you mean"):
        language.float_32
    with pytest.raises(AttributeError, match=r"nl\.ds"):
        language.arange
    with pytest.raises(AttributeError, match="no 'nothing_like_it'"):
        collectives.nothing_like_it


def test_operators_are_values_and_survive_pickling():
    import copy
    import pickle

    assert pickle.loads(pickle.dumps(language.add)) is language.add
    assert repr(language.max) == "nl.max" and language.max.name == "maximum"
    assert copy.copy(language.exp) is language.exp
    with pytest.raises(TypeError, match="operator"):
        language.bypass(1)
