"""``neuronxcc.nki.language``: the data types; everything else is refused with a way out."""

from typing import Any

from hlo_tools.frameworks.old_namespace import refuse
from nki_lang.base.dtypes import BY_NAME

globals().update(BY_NAME)

__all__ = [*BY_NAME]


def __getattr__(name: str) -> Any:
    refuse(f"neuronxcc.nki.language.{name}", name)
