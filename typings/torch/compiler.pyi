from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F")

def disable(*, reason: str) -> Callable[[F], F]: ...
