from typing import Any

from torch import device as _device
from torch_xla import runtime as runtime

_XLAC: Any

def device() -> _device: ...
