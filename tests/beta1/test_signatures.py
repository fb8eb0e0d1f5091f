"""Parameters of the public functions of NKI beta 1, and calls that do not fit them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import neuronxcc.nki as nki
import neuronxcc.nki.compiler as nki_compiler
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
import pytest

from nki_lang import NkiError
from nki_lang.base.errors import NkiTypeError
from nki_lang.beta1.signature import KEYWORDS_WITHOUT_EFFECT

MODULES: dict[str, Any] = {"nl": nl, "nisa": nisa, "nki.compiler": nki_compiler}

ABSENT = {"nl.all_reduce", "nl.gemm_grid", "nl.gemm_stationary_grid", "nisa.builtin_custom_op"}
"""Functions that docs/beta1.md lists as refused."""

SHARED = {"nl.ds", "nl.finfo"}
"""Functions of the current language, which have neither ``mask`` nor ``**kwargs``."""

ADDED = {
    "nl.load": {"mode"},
    "nl.store": {"mode"},
    "nisa.nc_matmul": {"perf_mode"},
}
"""Keywords of the vendor's tests and kernels that the stubs do not have."""


def vendor_signatures() -> Iterator[tuple[str, list[str], set[str]]]:
    """Yield function, parameters in order, and the parameters without a default."""
    text = (Path(__file__).parent / "signatures.txt").read_text()
    for module, names, parameter_text in re.findall(r"(?m)^([a-z.]+) ([\w ]+) \((.*)\)$", text):
        rows = re.sub(r"\(.*?\)", "()", parameter_text).split(", ")
        entries = [row for row in rows if row and row[0] != "*"]
        parameters = [row.partition("=")[0] for row in entries]
        required = {row for row in entries if "=" not in row}
        for name in names.split():
            yield f"{module}.{name}", parameters, required


def function_of(name: str) -> Callable[..., Any]:
    module, _, attribute = name.rpartition(".")
    return getattr(MODULES[module], attribute)


def named_parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    variable = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    return [
        row for row in inspect.signature(function).parameters.values() if row.kind not in variable
    ]


def test_the_parameters_are_those_of_beta_1() -> None:
    """In order; keyword-only parameters may be positional here, as they were in SDK 2.20."""
    compared = 0
    for name, parameters, required in vendor_signatures():
        if name in ABSENT:
            continue
        rows = named_parameters(function_of(name))
        extra_keywords = ADDED.get(name, set())
        assert [row.name for row in rows if row.name not in extra_keywords] == parameters, name
        assert {row.name for row in rows if row.default is row.empty} == required, name
        compared += 1
    assert compared > 130


def test_no_function_collects_unknown_keywords() -> None:
    for name, _, _ in vendor_signatures():
        if name not in ABSENT:
            kinds = {row.kind for row in inspect.signature(function_of(name)).parameters.values()}
            assert inspect.Parameter.VAR_KEYWORD not in kinds, name
    assert all(row.reason for row in KEYWORDS_WITHOUT_EFFECT.values())


def refusal(body: Callable[[Any], Any], run: str = "traced") -> NkiError:
    def kernel(x: Any) -> Any:
        body(x)
        return x

    values = np.zeros((128, 64), np.float32)
    with pytest.raises(NkiTypeError) as caught:
        if run == "traced":
            nki.jit(kernel).trace((values,))
        else:
            nki.simulate_kernel(nki.jit(kernel), values)
    assert caught.value.code == "NKI-ARGUMENTS"
    assert caught.value.location is not None
    assert caught.value.location.file == __file__
    assert caught.value.location.function == "<lambda>"
    return caught.value


MISSPELLED: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "maks": (lambda x: nl.load(x, maks=None), "nl.load() of NKI beta 1 has no keyword 'maks'", "mask"),
    "dtpye": (lambda x: nl.exp(nl.load(x), dtpye=nl.bfloat16), "nl.exp()", "dtype"),
    "keep_dims": (lambda x: nl.sum(nl.load(x), 1, keep_dims=True), "nl.sum()", "keepdims"),
    "bufer": (lambda x: nl.zeros((8, 8), nl.float32, bufer=nl.psum), "nl.zeros()", "buffer"),
    "scales": (lambda x: nisa.activation(nl.exp, nl.load(x), scales=2.0), "nisa.activation()", "scale"),
    "reverse": (
        lambda x: nisa.tensor_scalar(nl.load(x), nl.add, 1.0, reverse=True), "nisa.tensor_scalar()", "reverse1"),
    "cast": (lambda x: nl.static_cast(nl.load(x), dtyp=nl.int32), "nl.static_cast()", "dtype"),
    "identity": (lambda x: nl.shared_identity_matrix(8, dtyp=nl.int8), "nl.shared_identity_matrix()", "dtype"),
    "factors": (lambda x: nki_compiler.multi_buffer(factors=2), "nki.compiler.multi_buffer()", "factor"),
}  # fmt: skip


@pytest.mark.parametrize("run", ["traced", "interpreted"])
@pytest.mark.parametrize("case", MISSPELLED)
def test_a_misspelled_keyword_is_refused(case: str, run: str) -> None:
    body, function, suggestion = MISSPELLED[case]
    error = refusal(body, run)
    assert function in error.message
    assert error.message.endswith(f"did you mean {suggestion!r}?")


def test_every_function_refuses_an_unknown_keyword() -> None:
    """Also those that a table of the module makes."""
    for name, _, _ in vendor_signatures():
        if name in ABSENT | SHARED or name.startswith("nki.compiler."):
            continue
        function = function_of(name)
        error = refusal(lambda x, function=function: function(quantity=1))  # type: ignore[misc]
        assert error.message == f"{name}() of NKI beta 1 has no keyword 'quantity'"


def test_a_keyword_of_the_current_language_says_what_to_write() -> None:
    error = refusal(lambda x: nl.exp(dst=x, x=nl.load(x)))
    assert "t[...] = nl.exp(...)" in error.remedy


def test_a_wrong_count_shows_the_signature_of_beta_1() -> None:
    error = refusal(lambda x: nl.exp())
    assert error.message == "nl.exp() of NKI beta 1 missing 1 required positional argument: 'x'"
    assert error.remedy == "write nl.exp(x, dtype=None, mask=None)"
    error = refusal(lambda x: nisa.max8(x, None, None, 1))
    assert error.message.startswith("nisa.max8() of NKI beta 1 takes from 1 to 3 positional")
    error = refusal(lambda x: nisa.range_select(x))
    assert "reduce_op=np.max, range_start=0" in error.remedy
    error = refusal(lambda x: nisa.dma_copy(x, x))
    assert "(*, dst, src, mask=None" in error.remedy
    error = refusal(lambda x: nl.rand())
    assert error.remedy == "write nl.rand(shape, dtype=np.float32)"
    error = refusal(lambda x: nisa.activation_reduce(nl.exp, nl.load(x)))
    assert "'reduce_op' and 'reduce_res'" in error.message


def test_a_python_error_in_an_argument_keeps_its_text() -> None:
    """Only the call itself is a wrong count; an error of the user's address function is not."""

    def kernel(x: Any) -> Any:
        placement = nki_compiler.sbuf.alloc(lambda index: (0, 0))
        nl.ndarray((128, 64), nl.float32, buffer=placement)
        return x

    with pytest.raises(TypeError, match="takes 1 positional argument but 3 were given"):
        nki.jit(kernel).trace((np.zeros((128, 64), np.float32),))


@nki.jit
def labelled(x: Any) -> Any:
    """Every keyword without effect."""
    result = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, lazy_initialization=True)
    for i in nl.sequential_range(2, directives=nki_compiler.no_reorder(), name="rows"):
        sums = nl.zeros((64, x.shape[1]), nl.float32, lazy_initialization=True, name="sums")
        rows = nl.load(x[i * 64 : (i + 1) * 64, :], name="rows")
        sums[...] = nisa.reciprocal(rows, engine=nisa.vector_engine, name="inverse")
        nl.store(result[i * 64 : (i + 1) * 64, :], sums, name="write")
    return result


@pytest.mark.parametrize("seed", [0, 1])
def test_keywords_without_effect_are_accepted(seed: int) -> None:
    x = np.random.default_rng(seed).uniform(1, 2, (128, 32)).astype(np.float32)
    np.testing.assert_allclose(nki.simulate_kernel(labelled, x), 1 / x, rtol=1e-5)
    np.testing.assert_allclose(labelled(x), 1 / x, rtol=1e-5)


def test_a_keyword_without_effect_belongs_to_its_functions() -> None:
    refusal(lambda x: nl.exp(nl.load(x), lazy_initialization=True))
    refusal(lambda x: nl.load(x, directives=None))
    refusal(lambda x: nl.reciprocal(nl.load(x), engine=nisa.vector_engine))
