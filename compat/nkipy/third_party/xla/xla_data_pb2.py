"""The message classes and enums of shapes and literals, from the private pool of ``hlo_tools.schema``."""

from hlo_tools.schema import __getattr__  # noqa: F401
