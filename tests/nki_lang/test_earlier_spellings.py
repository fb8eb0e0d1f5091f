"""Spellings of earlier versions, and calls whose arguments do not fit, get a sentence."""

import numpy as np
import pytest

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.base.errors import NkiError
from nki_lang.kernel import jit, simulate, trace

CALLS = {
    "view of a memory": (
        lambda x: nl.sbuf.view(nl.float32, (4, 4)), "NKI-BUFFER", "nl.ndarray(shape, dtype, buffer=nl.sbuf)"),
    "memory by its bare name": (
        lambda x: sbuf.view(dtype=nl.float32, shape=(4, 4)),  # noqa: F821
        "NKI-BUFFER", "write nl.ndarray(shape, dtype, buffer=nl.sbuf)"),
    "hbm by its bare name": (
        lambda x: nl.ndarray((4, 4), nl.float32, buffer=hbm),  # noqa: F821
        "NKI-BUFFER", "write nl.ndarray(shape, dtype, buffer=nl.shared_hbm)"),
    "par_dim": (lambda x: nl.par_dim(4), "NKI-REMOVED", "the first dimension is the partition"),
    "mask": (
        lambda x: nl.exp(nl.load(x), mask=None), "NKI-ARGUMENTS", "NKI 0.2 removed masks: shorten"),
    "name of another module": (
        lambda x: nisa.zeros((4, 4)), "NKI-UNKNOWN-NAME", "write nki.language.zeros"),
    "misspelled name": (lambda x: nisa.tensor_copyy(x), "NKI-UNKNOWN-NAME", "did you mean tensor_copy"),
    "name of nothing": (lambda x: nl.barrier(), "NKI-UNKNOWN-NAME", "nki.language has no 'barrier'"),
    "zeros": (lambda x: nl.zeros(), "NKI-ARGUMENTS", "write zeros(shape, dtype"),
    "sendrecv": (lambda x: nisa.sendrecv(), "NKI-ARGUMENTS", "write sendrecv(src, dst"),
    "unknown argument": (
        lambda x: nisa.tensor_copy(nl.load(x), source=x), "NKI-ARGUMENTS", "write tensor_copy(dst, src"),
    "memory as a default": (
        lambda x: nl.zeros(bufer=nl.psum), "NKI-ARGUMENTS", "write zeros(shape, dtype, buffer=nl.sbuf"),
    "mode as a default": (
        lambda x: nisa.dma_copy(x), "NKI-ARGUMENTS", "oob_mode=nisa.oob_mode.error"),
    "list": (lambda x: nisa.tensor_copy([1, 2], nl.load(x)), "NKI-OPERAND", "dst=[1, 2] (list)"),
    "array": (
        lambda x: nisa.tensor_tensor(nl.load(x), nl.load(x), np.ones((4, 4), np.float32), nl.add),
        "NKI-OPERAND", "got an array of shape (4, 4) (ndarray) for data2"),
}  # fmt: skip


@pytest.mark.parametrize("mode", ["simulate", "trace"])
@pytest.mark.parametrize("name", CALLS)
def test_a_sentence_at_the_users_line(name, mode):
    body, code, sentence = CALLS[name]
    x = np.zeros((4, 4), np.float32)
    with pytest.raises(NkiError) as caught:
        simulate(jit(body))(x) if mode == "simulate" else trace(jit(body), (x,))
    assert caught.value.code == code
    assert sentence in str(caught.value)
    assert caught.value.location.file == __file__


def test_a_probe_for_a_name_still_works():
    assert not hasattr(nisa, "zeros") and getattr(nl, "barrier", 3) == 3
    with pytest.raises(AttributeError) as caught:
        nl.__wrapped__
    assert not isinstance(caught.value, NkiError)


def test_a_warning_without_a_line_in_the_kernel_names_the_call():
    def kernel(x):
        return nl.ndarray((4, 4), nl.float32, buffer=nl.shared_hbm)

    with pytest.warns(UserWarning, match="NKI-UNWRITTEN") as caught:
        jit(kernel)(np.zeros((4, 4), np.float32))
    assert caught[0].filename == __file__


@pytest.mark.parametrize("mode", ["simulate", "trace"])
def test_an_argument_that_is_a_list_is_named(mode):
    def kernel(x, factors):
        tile = nl.load(x)
        nisa.tensor_tensor(tile, factors, tile, nl.multiply)

    x = np.zeros((4, 4), np.float32)
    with pytest.raises(
        NkiError, match=r"data1=\[1.0, 2.0\].*argument 'factors' of kernel"
    ) as caught:
        simulate(jit(kernel))(x, [1.0, 2.0]) if mode == "simulate" else trace(
            kernel, (x, [1.0, 2.0])
        )
    assert caught.value.code == "NKI-ARGUMENT"


def full(shape, dtype):
    return nl.ndarray(shape, dtype, nl.sbuf)


def test_a_users_own_function_keeps_pythons_error():
    with pytest.raises(TypeError, match="missing 2 required") as caught:
        trace(jit(lambda x: full()), (np.zeros((4, 4), np.float32),))
    assert not isinstance(caught.value, NkiError)
