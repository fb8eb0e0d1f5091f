"""Decorators that serve both languages: ``benchmark``, ``profile`` and ``nki_jit`` of NKI beta 1."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import cast

from neff.runtime import earlier_versions
from nki_lang.beta1.kernel import jit
from nki_lang.kernel import Kernel
from nki_lang.kernel import jit as current_jit

__all__ = ["benchmark", "nki_jit", "profile"]

_Decorated = Callable[..., object]
_IGNORED = frozenset({"debug_kernel", "num_execs", "show_compiler_tb", "experimental_flags"})


def benchmark(kernel: _Decorated | None = None, **options: object) -> object:
    """Decorate a kernel so that calls estimate its latency; see ``earlier_versions.benchmark``."""
    return _decorated(cast(_Decorated, earlier_versions.benchmark), kernel, options)


def profile(func: _Decorated | None = None, **options: object) -> object:
    """Decorate a kernel so that calls leave a profile; see ``earlier_versions.profile``."""
    return _decorated(cast(_Decorated, earlier_versions.profile), func, options)


def nki_jit(func: _Decorated | None = None, **options: object) -> object:
    """``torch_neuronx.nki_jit``: a kernel in the language that its file imports."""

    def decorate(kernel: _Decorated) -> object:
        uses_beta1 = not isinstance(kernel, Kernel) and _imports(kernel, "neuronxcc")
        decorator = cast(_Decorated, jit if uses_beta1 else current_jit)
        return decorator(kernel, **options)

    return decorate if func is None else decorate(func)


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
    return _imports(func, "nki", "nki_lang") and not _imports(func, "neuronxcc")


def _imports(func: _Decorated, *packages: str) -> bool:
    """Return True if the file of a function imports a module of these packages."""
    values = getattr(func, "__globals__", {}).values()
    modules = [value.__name__ for value in values if isinstance(value, ModuleType)]
    return any(name.partition(".")[0] in packages for name in modules)
