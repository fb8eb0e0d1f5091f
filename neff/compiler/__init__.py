"""The graph compiler: HLO and kernels to engine programs.

``import_hlo`` → ``fuse`` → ``lower`` (kernels of the language for graph operations) →
``assembly`` (scratch, ``link``, ``memory``, ``engines``, ``schedule``) → a program, which
``verify`` can prove free of races and deadlocks.
"""

from neff.compiler.compile import compile, compile_kernel

__all__ = ["compile", "compile_kernel"]
