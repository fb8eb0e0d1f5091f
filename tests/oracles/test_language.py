"""Every function of the language against Python's arithmetic."""

import numpy as np
import pytest

from tests.oracles import language
from tests.oracles.machine import same

CALLS = [call for make in language.CALLS for call in make()]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_against_python(call):
    actual = language.run(call)
    exact = (
        actual.reshape(-1).astype(np.int64 if actual.dtype.kind in "iu" else np.float64).tolist()
    )
    assert len(exact) == len(call.expected)
    for position, (result, reference) in enumerate(zip(exact, call.expected, strict=True)):
        assert same(result, reference, call.close), f"[{position}] is {result!r}, not {reference!r}"
