"""``nki.compiler.frontend``: the classes that convert a function into the compiler's first form.

They are not documented; nki-library's tests use them. The vendor has a parser and a tracer. Here
both trace; what only the parser would refuse is found by :mod:`nki_lang.strict`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nki_lang.ir import KernelIR
from nki_lang.kernel import Kernel
from nki_lang.kernel import trace as trace_function

__all__ = ["NKIFrontend", "ParserFrontend", "TracerFrontend"]


class NKIFrontend:
    """Turns kernels into kernel IR."""

    def compile(
        self,
        kernel: Kernel | Callable[..., object],
        *,
        inputs: Mapping[str, object] | None = None,
        target: str | None = None,
        lnc: int | tuple[int, ...] = (),
        **_ignored: object,
    ) -> KernelIR:
        """The kernel IR for these arguments.

        Args:
            kernel: a kernel or a plain function.
            inputs: its arguments by name, tensors and constants.
            target: the family; the current one by default.
            lnc: how many cores it is launched on.

        Raises:
            NkiValidationError: the kernel breaks a rule of the language.
        """
        return trace_function(kernel, (), dict(inputs or {}), target=target, grid=lnc)


class ParserFrontend(NKIFrontend):
    """The name of the frontend that parses."""


class TracerFrontend(NKIFrontend):
    """The name of the frontend that traces."""
