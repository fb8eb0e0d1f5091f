"""Loops on the device whose registers are wrong, as in files that were damaged."""

from __future__ import annotations

import numpy as np
import pytest

from nki_lang.base.errors import NkiExecutionError
from nki_lang.execute import load
from nki_lang.ir import ForLoop, Register, WhileLoop
from tests.execute.handmade import full, instruction, kernel, tensor

X, Z = tensor("x", (4, 8), buffer="hbm"), tensor("z", (4, 8), buffer="hbm")
COPY = instruction("dma_copy", dst=full(Z), src=full(X))
INDEX, N = Register("i"), Register("n")


@pytest.mark.parametrize(
    ("loop", "what"),
    [
        (ForLoop(INDEX, 0, N, 1, [COPY]), "its register 'n' has no value"),
        (ForLoop(INDEX, INDEX, 3, 1, [COPY]), "its register 'i' has no value"),
        (WhileLoop(N, [COPY]), "its register 'n' has no value"),
        (ForLoop(INDEX, 0, 3, 0, [COPY]), "its step is 0"),
    ],
)
def test_a_loop_that_cannot_be_executed(loop: ForLoop | WhileLoop, what: str) -> None:
    executable = load(kernel([X], [Z], [loop]))
    with pytest.raises(NkiExecutionError, match=what) as caught:
        executable.run([np.ones((4, 8), np.float32)])
    assert caught.value.code == "NKI-EXEC"
