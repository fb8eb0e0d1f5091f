"""Every function of the language against Python's arithmetic."""

import numpy as np
import pytest

from tests.oracles import language
from tests.oracles.machine import same

CALLS = [call for make in language.CALLS for call in make()]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_against_python(call):
    found = language.run(call)
    exact = found.reshape(-1).astype(np.int64 if found.dtype.kind in "iu" else np.float64).tolist()
    assert len(exact) == len(call.expected)
    for place, (one, other) in enumerate(zip(exact, call.expected, strict=True)):
        assert same(one, other, call.close), f"[{place}] is {one!r}, not {other!r}"
