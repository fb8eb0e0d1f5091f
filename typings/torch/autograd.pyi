from collections.abc import Callable
from typing import Any

from torch import Tensor

backward: Callable[..., None]

class Function:
    @classmethod
    def apply(cls, *args: Any) -> Any: ...

class graph:
    @staticmethod
    def increment_version(tensor: Tensor) -> None: ...
