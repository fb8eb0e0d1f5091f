"""Modules as functions of NumPy arrays."""

from __future__ import annotations

from hlo_tools.python_source.numpy_elementwise import ELEMENTWISE
from hlo_tools.python_source.numpy_structure import STRUCTURE
from hlo_tools.python_source.site import Target

__all__ = ["NUMPY"]

NUMPY = Target(
    rows={**ELEMENTWISE, **STRUCTURE},
    dtypes="np.",
    imports="""import math

import ml_dtypes
import numpy as np""",
    support=("numpy_support.py", "numpy_windows_support.py", "main_support.py"),
    run='np.errstate(all="ignore")({entry})({arguments})',
)
"""NumPy with ``ml_dtypes`` for small element types; no compiler is involved."""
