"""The public names of ``nki.isa``."""

from __future__ import annotations

from nki_lang.base.errors import NkiValidationError, missing_attribute
from nki_lang.base.targets import current_target
from nki_lang.frontend.builder import active
from nki_lang.frontend.registers import VirtualRegister
from nki_lang.frontend.scalars import NkiScalar
from nki_lang.isa import (
    activations,
    cores,
    dma,
    elementwise,
    enums,
    indexing,
    matmul,
    movement,
    random,
    reductions,
    registers,
)
from nki_lang.isa.activations import *  # noqa: F403
from nki_lang.isa.cores import *  # noqa: F403
from nki_lang.isa.dma import *  # noqa: F403
from nki_lang.isa.elementwise import *  # noqa: F403
from nki_lang.isa.enums import *  # noqa: F403
from nki_lang.isa.enums import nc_version
from nki_lang.isa.indexing import *  # noqa: F403
from nki_lang.isa.issue import NkiInstruction
from nki_lang.isa.matmul import *  # noqa: F403
from nki_lang.isa.movement import *  # noqa: F403
from nki_lang.isa.random import *  # noqa: F403
from nki_lang.isa.reductions import *  # noqa: F403
from nki_lang.isa.registers import *  # noqa: F403


def get_nc_version() -> nc_version:
    """Generation of the target that is built for."""
    builder = active()
    return nc_version((current_target() if builder is None else builder.target).generation)


def get_nc_sub_version() -> int:
    """Silicon revision within the generation: 0, the first and default one."""
    return 0


_REMOVED = {
    "tensor_copy_dynamic_src": "use nisa.tensor_copy with a view made by .select or .ap",
    "tensor_copy_dynamic_dst": "use nisa.tensor_copy with a view made by .select or .ap",
    "select_by_mask": "use nisa.tensor_copy_predicated",
    "broadcast": "use .broadcast on the tile",
}

__all__ = [
    "NkiInstruction", "NkiScalar", "NkiValidationError", "VirtualRegister",
    "get_nc_sub_version", "get_nc_version",
]  # fmt: skip
__all__ += activations.__all__
__all__ += cores.__all__
__all__ += dma.__all__
__all__ += elementwise.__all__
__all__ += enums.__all__
__all__ += indexing.__all__
__all__ += matmul.__all__
__all__ += movement.__all__
__all__ += random.__all__
__all__ += reductions.__all__
__all__ += registers.__all__


__getattr__ = missing_attribute("nki.isa", __all__, _REMOVED)
