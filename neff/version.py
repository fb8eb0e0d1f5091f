"""The version of this project, as its files and its commands report it."""

from typing import Final

__all__ = ["__version__"]

__version__: Final = "0.1.0"
