"""Functions take at most 12 parameters: options that belong together are one dataclass."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

import pytest

from tests.architecture.imports import ROOT

MAX_PARAMETERS: Final = 12

EXCEPTIONS: Final = {
    "neff/torch_graph/attention.py:_attention": "takes the operands of PyTorch's operator",
    "neff/torch_graph/attention.py:_encoder_layer": "takes the operands of PyTorch's operator",
    "nki_lang/isa/activations.py:activate2": "NKI 0.7 documents 15 parameters",
    "nki_lang/semantics/activation.py:activate2": "takes the operands of the instruction by name",
}
"""Functions with more parameters, and why they cannot have fewer."""


def parameter_counts(source: str) -> Iterator[tuple[str, int]]:
    """Yield the name and the number of parameters of each function of a file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            arguments = node.args
            yield (
                node.name,
                len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs),
            )


def long_signatures(package: str) -> dict[str, int]:
    return {
        f"{path.relative_to(ROOT)}:{name}": count
        for path in sorted((ROOT / package).rglob("*.py"))
        for name, count in parameter_counts(path.read_text())
        if count > MAX_PARAMETERS
    }


@pytest.mark.parametrize("package", ["nki_lang", "hlo_tools", "neff", "compat", "scripts"])
def test_functions_have_few_parameters(package: str) -> None:
    long = long_signatures(package)
    unexpected = {name: count for name, count in long.items() if name not in EXCEPTIONS}
    assert not unexpected, f"group parameters of {unexpected} (OptionGroup for commands)"
    expected = {name for name in EXCEPTIONS if name.startswith(f"{package}/")}
    assert expected <= long.keys(), "an exception without its function"


def test_every_kind_of_parameter_counts() -> None:
    assert dict(parameter_counts("def f(a, /, b, *, c, **d): ...")) == {"f": 3}
