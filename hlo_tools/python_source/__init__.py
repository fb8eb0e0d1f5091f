"""Modules as readable Python: a function for each computation, and a ``main`` that runs it."""

from __future__ import annotations

from hlo_tools.python_source.site import UnwritableError
from hlo_tools.python_source.targets import TARGETS
from hlo_tools.python_source.writer import PythonSource, to_python, write_python

__all__ = ["TARGETS", "PythonSource", "UnwritableError", "to_python", "write_python"]
