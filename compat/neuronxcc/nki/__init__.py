"""``neuronxcc.nki``: the namespace of NKI beta 1, refused with a way out.

``neuronxcc.nki.typing`` and the data types of ``neuronxcc.nki.language`` are served, because
current kernels still import them.
"""

from typing import Any

from hlo_tools.frameworks.old_namespace import refuse


def __getattr__(name: str) -> Any:
    refuse(f"neuronxcc.nki.{name}", name)
