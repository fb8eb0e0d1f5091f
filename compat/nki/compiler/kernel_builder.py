"""``nki.compiler.kernel_builder``."""

from hlo_tools.frameworks.compiled import CompiledKernel, CompileOptions, compile_kernel

__all__ = ["CompileOptions", "CompiledKernel", "compile_kernel"]
