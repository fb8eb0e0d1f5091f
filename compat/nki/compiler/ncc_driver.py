"""``nki.compiler.ncc_driver``."""

from hlo_tools.frameworks.compiled import CompiledKernel, CompileOptions

__all__ = ["CompileOptions", "CompiledKernel"]
