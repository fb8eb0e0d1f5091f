"""Parameters of the timing model from captures of a real device.

1. :mod:`captures`: what a file measured, instruction by instruction.
2. :mod:`observations`: figures that the capture and a simulation have in common.
3. :mod:`fit`: the parameters that the figures determine.

:mod:`neff.timing.chip` holds the resulting file.
"""

from __future__ import annotations

from neff.calibration.captures import Capture, Record, read_capture
from neff.calibration.fit import Fit, Unfitted, fitted
from neff.calibration.observations import Group, Subject, subject_of

__all__ = [
    "Capture",
    "Fit",
    "Group",
    "Record",
    "Subject",
    "Unfitted",
    "fitted",
    "read_capture",
    "subject_of",
]
