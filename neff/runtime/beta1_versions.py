"""``nki.benchmark`` and ``nki.profile`` of NKI beta 1 (``neuronxcc.nki``), by the timing model."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import cast

from neff.runtime import earlier_versions
from nki_lang.beta1.kernel import jit
from nki_lang.kernel import Kernel

__all__ = ["benchmark", "profile"]

_Decorated = Callable[..., object]
_IGNORED = frozenset({"debug_kernel", "num_execs", "show_compiler_tb", "experimental_flags"})


def benchmark(kernel: _Decorated | None = None, **options: object) -> object:
    """Decorate a kernel so that calls estimate its latency; see ``earlier_versions.benchmark``."""
    return _decorated(cast(_Decorated, earlier_versions.benchmark), kernel, options)


def profile(func: _Decorated | None = None, **options: object) -> object:
    """Decorate a kernel so that calls leave a profile; see ``earlier_versions.profile``."""
    return _decorated(cast(_Decorated, earlier_versions.profile), func, options)


def _decorated(
    decorator: _Decorated, kernel: _Decorated | None, options: dict[str, object]
) -> object:
    used = {name: value for name, value in options.items() if name not in _IGNORED}

    def decorate(func: _Decorated) -> object:
        is_kernel = isinstance(func, Kernel) or _is_of_current_language(func)
        return decorator(func if is_kernel else jit(func), **used)

    return decorate if kernel is None else decorate(kernel)


def _is_of_current_language(func: _Decorated) -> bool:
    """Return True for a function whose file imports the current language and not beta 1."""
    values = getattr(func, "__globals__", {}).values()
    names = [value.__name__ for value in values if isinstance(value, ModuleType)]
    is_current = any(name.partition(".")[0] in ("nki", "nki_lang") for name in names)
    return is_current and not any(name.startswith("neuronxcc") for name in names)
