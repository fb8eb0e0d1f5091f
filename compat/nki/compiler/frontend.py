"""``nki.compiler.frontend``."""

from hlo_tools.frameworks.frontends import NKIFrontend, ParserFrontend, TracerFrontend

__all__ = ["NKIFrontend", "ParserFrontend", "TracerFrontend"]
