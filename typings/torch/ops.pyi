from typing import Any

aten: Any
