"""Every instruction against scalars: dtypes, memories, layouts, targets and edge values."""

import pytest

from tests.oracles import elementwise, movement, placing, reducing
from tests.oracles.machine import compare, run

MODULES = [elementwise, movement, placing, reducing]
CASES = [case for module in MODULES for make in module.CASES for case in make()]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_scalars(case):
    for layout in case.layouts:
        if layout != "lower" or case.fits_below:
            compare(case, run(case, layout))
