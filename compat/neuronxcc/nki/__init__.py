"""``neuronxcc.nki``: the namespace of NKI beta 1, refused with a way out.

``neuronxcc.nki.typing`` and the data types of ``neuronxcc.nki.language`` are served, because
current kernels still import them; ``benchmark`` and ``profile`` too, which take kernels in the
current language.
"""

from typing import Any

from hlo_tools.frameworks.old_namespace import refuse


def __getattr__(name: str) -> Any:
    if name not in ("benchmark", "profile"):
        refuse(f"neuronxcc.nki.{name}", name)
    from neff.runtime import earlier_versions

    return getattr(earlier_versions, name)
